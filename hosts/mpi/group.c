/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/group.c - see group.h. */
#include "hosts/mpi/group.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/form.h"
#include "hosts/mpi/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static int groups_key, ends_key;
static bool has_keys;
static pthread_once_t keys_once = PTHREAD_ONCE_INIT;
static bool closed; /* MPI is being finalized: what is called now is the MPI's */
/* With the session's lock: */
static unsigned deletions;

/* A group forms at the call with which its communicator has had so many bytes, each call counted for CALL_BYTES more:
 * that takes as long as a reduction of 1 MiB gains. */
#define FORM_BYTES (1u << 20)
#define CALL_BYTES 512u

/* ---- its end ------------------------------------------------------------------------------------------- */

static void destroy(struct nigh_mpi_group *group)
{
    if (group->nigh)
        (void)nigh_mpi_session_nigh()->group_free(group->nigh);
    for (int r = 0; group->peers && r < group->ranks; r++)
        nigh_mpi_session_let_go(group->peers[r]);
    free(group->peers);
    free(group);
}

static int copy_nothing(nigh_mpi_comm comm, int key, void *extra, void *value, void *copy, int *copied)
{
    (void)comm;
    (void)key;
    (void)extra;
    (void)value;
    (void)copy;
    *copied = 0;
    return NIGH_MPI_SUCCESS;
}

static int delete_group(nigh_mpi_comm comm, int key, void *value, void *extra)
{
    struct nigh_mpi_group *group = value;

    (void)comm;
    (void)key;
    (void)extra;
    nigh_mpi_session_lock();
    deletions++;
    if (!nigh_mpi_session_is_open())
        group->nigh = NULL; /* it went with the session */
    destroy(group);
    nigh_mpi_session_unlock();
    return NIGH_MPI_SUCCESS;
}

/* MPI deletes the attributes of MPI_COMM_SELF before anything else when it is finalized, and whoever has one there that
 * is older than ours may call it yet. */
static int delete_end(nigh_mpi_comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    nigh_mpi_session_lock();
    closed = true;
    nigh_mpi_session_close();
    nigh_mpi_session_unlock();
    return NIGH_MPI_SUCCESS;
}

static void make_keys(void)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();

    has_keys = !mpi->Comm_create_keyval(copy_nothing, delete_group, &groups_key, NULL) &&
               !mpi->Comm_create_keyval(copy_nothing, delete_end, &ends_key, NULL) &&
               !mpi->Comm_set_attr(NIGH_MPI_COMM_SELF, ends_key, &ends_key);
}

/* ---- its finding --------------------------------------------------------------------------------------- */

/* MPI's own way to an attribute takes a lock, and as long as all that a short reduction does here. */
static _Thread_local struct {
    nigh_mpi_comm comm;
    struct nigh_mpi_group *group;
    unsigned deletions; /* of all groups when this was noted: a later one may have been this */
} last;

static struct nigh_mpi_group *create(nigh_mpi_comm comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    struct nigh_mpi_group *group = calloc(1, sizeof(*group));
    int inter;

    if (group && (mpi->Comm_test_inter(comm, &inter) || inter || mpi->Comm_size(comm, &group->ranks) ||
                  mpi->Comm_rank(comm, &group->me)))
        group->me = NIGH_MPI_NONE;
    return group;
}

/* NULL: no memory, or MPI does not know the communicator, which its own call will say. */
static struct nigh_mpi_group *find(nigh_mpi_comm comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    struct nigh_mpi_group *group = NULL;
    int found = 0;

    pthread_once(&keys_once, make_keys);
    if (!has_keys || comm == NIGH_MPI_COMM_NULL || mpi->Comm_get_attr(comm, groups_key, &group, &found))
        return NULL;
    if (found)
        return group;
    group = create(comm);
    if (group && !mpi->Comm_set_attr(comm, groups_key, group))
        return group;
    free(group);
    return NULL;
}

static struct nigh_mpi_group *known(nigh_mpi_comm comm)
{
    unsigned before;

    nigh_mpi_session_lock();
    before = deletions;
    nigh_mpi_session_unlock();
    if (!last.group || last.comm != comm || last.deletions != before) {
        last.group = find(comm);
        last.comm = comm;
        last.deletions = before;
    }
    return last.group;
}

int nigh_mpi_group_rank(nigh_mpi_comm comm)
{
    const struct nigh_mpi_group *group = closed ? NULL : known(comm);

    return group ? group->me : NIGH_MPI_NONE;
}

/* Weights are alike in all ranks, as their calls are. */
struct nigh_mpi_group *nigh_mpi_group_of(nigh_mpi_comm comm, uint64_t bytes)
{
    struct nigh_mpi_group *group = closed ? NULL : known(comm);

    if (!group)
        return NULL;
    if (!group->formed) {
        group->weight += bytes + CALL_BYTES;
        if (group->weight >= FORM_BYTES)
            nigh_mpi_group_form(group, comm);
    }
    return group->active ? group : NULL;
}

void nigh_mpi_group_give_up(struct nigh_mpi_group *group)
{
    if (group->broken)
        return;
    group->broken = true;
    nigh_mpi_session_account.failed++;
    if (!nigh_mpi_session_nigh()->group_free(group->nigh))
        group->nigh = NULL;
}

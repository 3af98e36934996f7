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
static unsigned deletions; /* with the session's lock */

/* ---- its end ------------------------------------------------------------------------------------------- */

static bool is_read(const struct nigh_mpi_group *group)
{
    bool read = true;

    for (unsigned i = 0; i < NIGH_MPI_SLOTS; i++)
        read &= group->slots[i].lent == 0;
    for (int r = 0; group->active && r < group->ranks; r++)
        read &= group->shorts[r].asked.lent == 0;
    return read;
}

/* A peer that has ended gives back, too. */
static void wait_for_readers(struct nigh_mpi_group *group)
{
    for (uint32_t empty = 1; !is_read(group); empty++) {
        if (nigh_mpi_session_poll() > 0)
            continue;
        nigh_mpi_session_unlock();
        nigh_mpi_session_idle(empty);
        nigh_mpi_session_lock();
    }
}

static bool is_warned(const struct nigh_mpi_group *group)
{
    bool posted = false;

    for (int r = 0; r < group->ranks; r++)
        posted |= group->warnings[r].posted;
    return posted;
}

static void take_warnings_back(struct nigh_mpi_group *group)
{
    for (int r = 0; r < group->ranks; r++)
        nigh_mpi_session_forget(&group->warnings[r]);
    while (is_warned(group))
        nigh_mpi_session_poll();
}

void nigh_mpi_group_leave(struct nigh_mpi_group *group)
{
    const struct nigh_ops *nigh = nigh_mpi_session_nigh();

    for (int r = 0; group->peers && r < group->ranks; r++)
        if (group->peers[r])
            (void)nigh->disconnect(group->peers[r]);
    if (group->memory)
        (void)nigh->heap_free(nigh_mpi_session_context(), group->memory);
    free(group->peers);
    group->peers = NULL;
    group->memory = NULL;
}

static void destroy(struct nigh_mpi_group *group)
{
    nigh_mpi_session_lock();
    if (nigh_mpi_session_is_open() && !group->broken) {
        wait_for_readers(group);
        if (group->active)
            take_warnings_back(group);
        nigh_mpi_group_leave(group);
    }
    nigh_mpi_session_unlock();
    if (group->broken)
        return;
    free(group->chain);
    free(group->shorts);
    free(group->warnings);
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
    (void)comm;
    (void)key;
    (void)extra;
    nigh_mpi_session_lock();
    deletions++;
    nigh_mpi_session_unlock();
    destroy(value);
    return NIGH_MPI_SUCCESS;
}

/* MPI deletes the attributes of MPI_COMM_SELF before anything else when it is finalized. */
static int delete_end(nigh_mpi_comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    nigh_mpi_session_close();
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

static struct nigh_mpi_group *find(nigh_mpi_comm comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    struct nigh_mpi_group *group = NULL;
    int found = 0;

    pthread_once(&keys_once, make_keys);
    if (!has_keys || mpi->Comm_get_attr(comm, groups_key, &group, &found))
        return NULL;
    if (found)
        return group;
    group = nigh_mpi_group_form(comm);
    return mpi->Comm_set_attr(comm, groups_key, group) ? NULL : group;
}

struct nigh_mpi_group *nigh_mpi_group_of(nigh_mpi_comm comm)
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
    return last.group && last.group->active ? last.group : NULL;
}

static bool has_ended(struct nigh_endpoint *peer)
{
    struct nigh_query_endpoint facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);

    return nigh_mpi_session_nigh()->query(nigh_mpi_session_context(), peer, NIGH_QUERY_ENDPOINT, &facts,
                                          &bytes) == 0 &&
           (facts.state == NIGH_PEER_DEAD || facts.state == NIGH_BROKEN);
}

/* Who has left in order, because it is through with its last call, is not lost: what it owes lies there. */
static int lost(struct nigh_mpi_group *group)
{
    if (!group->alarm)
        return NIGH_MPI_NONE;
    group->alarm = 0;
    for (int r = 0; r < group->ranks; r++) {
        const struct nigh_mpi_arrival *warning = &group->warnings[r];

        if (r != group->me && !warning->posted && (warning->status == 0 || has_ended(group->peers[r])))
            return r;
    }
    return NIGH_MPI_NONE;
}

int nigh_mpi_group_idle(struct nigh_mpi_group *group, const char *what, uint32_t empty)
{
    int rank = lost(group);

    if (rank != NIGH_MPI_NONE) {
        nigh_mpi_log("%s: rank %d of its communicator has given up, or has ended", what, rank);
        return -ECONNRESET;
    }
    nigh_mpi_session_unlock();
    nigh_mpi_session_idle(empty);
    nigh_mpi_session_lock();
    return 0;
}

void nigh_mpi_group_give_up(struct nigh_mpi_group *group)
{
    group->broken = true;
    nigh_mpi_session_account()->failed++;
    for (int r = 0; r < group->ranks; r++)
        if (r != group->me)
            nigh_mpi_session_warn(group->peers[r], group->tag + NIGH_MPI_TAG_WARNINGS);
}

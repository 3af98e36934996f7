/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/group.c - see group.h. */
#include "hosts/mpi/group.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/form.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/operation.h"
#include "hosts/mpi/request.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static int groups_key, ends_key;
static bool has_keys;
static pthread_once_t keys_once = PTHREAD_ONCE_INIT;
static _Atomic bool closed; /* MPI is being finalized: what is called now is the MPI's */
static _Atomic unsigned deletions;
_Atomic(struct nigh_mpi_group *) nigh_mpi_group_dead;
static pthread_mutex_t dead_lock = PTHREAD_MUTEX_INITIALIZER; /* whoever has it waits for nothing */

/* A group forms at this call of its communicator: many communicators have but a few. NIGH_MPI_FORM_AT. */
static uint32_t form_at = 16;

/* Before the program has threads, and can change its environment. */
__attribute__((constructor)) static void read_form_at(void)
{
    const char *text = getenv("NIGH_MPI_FORM_AT");
    unsigned long calls;
    char *end;

    if (!text || !*text)
        return;
    calls = strtoul(text, &end, 10);
    if (*end || *text < '0' || *text > '9' || calls == 0 || calls > UINT32_MAX)
        nigh_mpi_log("NIGH_MPI_FORM_AT=%s is no number of calls from 1 on, so it stays at %u", text, form_at);
    else
        form_at = (uint32_t)calls;
}

/* ---- its end ------------------------------------------------------------------------------------------- */

static void destroy(struct nigh_mpi_group *group)
{
    struct nigh_mpi_operation *operation;

    if (group->nigh && nigh_mpi_session_is_open()) /* else it went with the session */
        (void)nigh_mpi_session_nigh()->group_free(group->nigh);
    while ((operation = group->spare) != NULL) {
        group->spare = operation->next;
        free(operation);
    }
    free(group);
}

void nigh_mpi_group_unuse(struct nigh_mpi_group *group)
{
    if (--group->live == 0 && group->dead)
        destroy(group);
}

void nigh_mpi_group_clean_always(void)
{
    struct nigh_mpi_group *dead, *next;

    pthread_mutex_lock(&dead_lock);
    dead = nigh_mpi_group_dead;
    nigh_mpi_group_dead = NULL;
    pthread_mutex_unlock(&dead_lock);
    for (; dead; dead = next) {
        next = dead->next_dead;
        dead->dead = true;
        if (!dead->live)
            destroy(dead);
    }
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
    deletions++;
    group->freed = true;
    pthread_mutex_lock(&dead_lock);
    group->next_dead = nigh_mpi_group_dead;
    nigh_mpi_group_dead = group;
    pthread_mutex_unlock(&dead_lock);
    if (!nigh_mpi_session_try())
        return NIGH_MPI_SUCCESS; /* who holds the lock cleans up */
    nigh_mpi_request_clean();
    nigh_mpi_group_clean();
    nigh_mpi_session_unlock();
    return NIGH_MPI_SUCCESS;
}

/* MPI deletes the attributes of MPI_COMM_SELF before anything else when it is finalized; the program's function for an attribute that is
 * older than ours may still call MPI. */
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

/* The other ranks count their calls: one that does not would be left out when they meet. */
static void *need(void *memory)
{
    if (memory)
        return memory;
    nigh_mpi_log("no memory for what is known of a communicator");
    abort();
}

static struct nigh_mpi_group *create(nigh_mpi_comm comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    struct nigh_mpi_group *group = need(calloc(1, sizeof(*group)));
    int inter;

    if ((mpi->Comm_test_inter(comm, &inter) || inter || mpi->Comm_size(comm, &group->ranks) ||
         mpi->Comm_rank(comm, &group->me)))
        group->me = NIGH_MPI_NONE;
    return group;
}

/* NULL: MPI does not know the communicator, or refuses an attribute of it, which it has said or its own call will. */
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
    if (!mpi->Comm_set_attr(comm, groups_key, group))
        return group;
    free(group);
    return NULL;
}

static struct nigh_mpi_group *known(nigh_mpi_comm comm)
{
    unsigned before = deletions;

    if (!last.group || last.comm != comm || last.deletions != before) {
        last.group = find(comm);
        last.comm = comm;
        last.deletions = before;
    }
    return last.group;
}

struct nigh_mpi_group *nigh_mpi_group_of(nigh_mpi_comm comm, bool counts)
{
    struct nigh_mpi_group *group = closed ? NULL : known(comm);

    if (!group)
        return NULL;
    if (!group->formed && counts && ++group->calls >= form_at)
        nigh_mpi_group_form(group, comm);
    return group->active ? group : NULL;
}

void nigh_mpi_group_close(void)
{
    closed = true;
}

void nigh_mpi_group_give_up(struct nigh_mpi_group *group, int error, const char *text)
{
    if (group->broken)
        return;
    group->broken = true;
    nigh_mpi_session_account.failed++;
    (void)nigh_mpi_session_nigh()->group_end(group->nigh, error, text);
}

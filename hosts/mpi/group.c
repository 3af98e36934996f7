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
static struct nigh_mpi_group *groups;

/* A group forms at the call with which its communicator has had so many bytes, each call counted for CALL_BYTES more:
 * that takes as long as a reduction of 1 MiB gains. */
#define FORM_BYTES (1u << 20)
#define CALL_BYTES 512u

/* ---- its end ------------------------------------------------------------------------------------------- */

static bool is_read(const struct nigh_mpi_group *group)
{
    bool read = true;

    for (unsigned i = 0; i < NIGH_MPI_SLOTS; i++)
        read &= group->slots[i].lent.open == 0;
    return read;
}

/* The receipts lie in the group. */
static bool asks(const struct nigh_mpi_group *group)
{
    bool open = false;

    for (int r = 0; r < group->ranks; r++)
        open |= group->shorts[r].question.asked.open != 0;
    return open;
}

static bool expects(const struct nigh_mpi_group *group)
{
    bool posted = false;

    for (int r = 0; r < group->ranks; r++) {
        posted |= group->warnings[r].posted;
        for (unsigned i = 0; i < NIGH_MPI_SHORTS_POSTED; i++)
            posted |= group->shorts[r].arrivals[i].posted;
    }
    return posted;
}

static void forget(struct nigh_mpi_group *group)
{
    for (int r = 0; r < group->ranks; r++) {
        nigh_mpi_session_forget(&group->warnings[r]);
        for (unsigned i = 0; i < NIGH_MPI_SHORTS_POSTED; i++)
            nigh_mpi_session_forget(&group->shorts[r].arrivals[i]);
    }
}

static void destroy(struct nigh_mpi_group *group)
{
    for (int r = 0; group->peers && r < group->ranks; r++)
        nigh_mpi_session_let_go(group->peers[r]);
    free(group->chain);
    free(group->shorts);
    free(group->sums);
    free(group->sources);
    free(group->warnings);
    free(group->peers);
    free(group);
}

/* Nothing waits when a communicator goes: MPIs delete attributes in the middle of their own progress. What peers still
 * read goes later. */
static void reap(void)
{
    struct nigh_mpi_group **at = &groups, *group;

    while ((group = *at) != NULL) {
        if (!group->leaving || group->broken || !is_read(group) || expects(group) || asks(group)) {
            at = &group->next;
            continue;
        }
        *at = group->next;
        (void)nigh_mpi_session_nigh()->heap_free(nigh_mpi_session_context(), group->memory);
        destroy(group);
    }
}

static void leave(struct nigh_mpi_group *group)
{
    group->leaving = true;
    forget(group);
    while (nigh_mpi_session_poll() > 0)
        ;
    reap();
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
    if (!group->active)
        destroy(group);
    else if (nigh_mpi_session_is_open())
        leave(group);
    nigh_mpi_session_unlock();
    return NIGH_MPI_SUCCESS;
}

/* A peer that has ended gives back, too; what a broken group has lent may never come back. */
static bool is_settled(void)
{
    bool settled = nigh_mpi_session_all_out();

    for (struct nigh_mpi_group *group = groups; group; group = group->next)
        settled &= group->broken || is_read(group);
    return settled;
}

static void settle(void)
{
    for (uint32_t empty = 1; !is_settled(); empty++) {
        if (nigh_mpi_session_poll() > 0)
            continue;
        nigh_mpi_session_unlock();
        nigh_mpi_session_idle(empty);
        nigh_mpi_session_lock();
    }
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
    if (nigh_mpi_session_is_open())
        settle();
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

static void form(struct nigh_mpi_group *group, nigh_mpi_comm comm)
{
    nigh_mpi_session_lock();
    reap();
    nigh_mpi_session_unlock();
    nigh_mpi_group_form(group, comm);
    if (!group->active)
        return;
    nigh_mpi_session_lock();
    group->next = groups;
    groups = group;
    nigh_mpi_session_unlock();
}

int nigh_mpi_group_rank(nigh_mpi_comm comm)
{
    const struct nigh_mpi_group *group = closed ? NULL : known(comm);

    return group ? group->me : NIGH_MPI_NONE;
}

int nigh_mpi_group_ranks(nigh_mpi_comm comm)
{
    const struct nigh_mpi_group *group = closed ? NULL : known(comm);

    return group ? group->ranks : 0;
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
            form(group, comm);
    }
    return group->active ? group : NULL;
}

static bool has_ended(const struct nigh_mpi_peer *peer)
{
    uint32_t state = nigh_mpi_session_state(peer);

    return state == NIGH_PEER_DEAD || state == NIGH_BROKEN;
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

int nigh_mpi_group_wait(struct nigh_mpi_group *group, const char *what, uint32_t *empty)
{
    if (nigh_mpi_session_poll() <= 0)
        return nigh_mpi_group_idle(group, what, ++*empty);
    *empty = 0;
    return 0;
}

int nigh_mpi_group_let_out(struct nigh_mpi_group *group, const char *what, struct nigh_mpi_peer *peer)
{
    uint32_t empty = 0;
    int rc = 0;

    while (!rc && !nigh_mpi_session_is_out(peer))
        rc = nigh_mpi_session_poll() > 0 ? 0 : nigh_mpi_group_idle(group, what, ++empty);
    return rc;
}

void nigh_mpi_group_give_up(struct nigh_mpi_group *group)
{
    if (group->broken)
        return;
    group->broken = true;
    nigh_mpi_session_account.failed++;
    for (int r = 0; r < group->ranks; r++)
        if (r != group->me)
            nigh_mpi_session_warn(group->peers[r], group->tag + NIGH_MPI_TAG_WARNINGS);
}

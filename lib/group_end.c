/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/group_end.c - this rank ends the group of a communicator; what is asked of it, and how it goes. */
#include "lib/collective.h"
#include "lib/error.h"
#include "lib/group_state.h"
#include "lib/peer.h"
#include "lib/post.h"
#include "lib/progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Others may have seen that a process has ended before this one has. */
#define SEEN_NS UINT64_C(50000000)
/* Of the world, which nobody can free: it is known that the rank has ended, and how is worth a wait. */
#define ENDED_NS UINT64_C(2000000000)

/* ---- this rank ends it ---- */

void nigh_coll_break(struct nigh_comm *comm, int error)
{
    char text[NIGH_GROUP_TEXT_BYTES];

    snprintf(text, sizeof(text), "rank %d cannot go on: %.200s", comm->rank, nigh_error_text());
    (void)nigh_core.ops->group_end(comm->group->group, error, text);
    (void)nigh_coll_learn(comm);
}

void nigh_coll_give_up(struct nigh_operation *operation, int error)
{
    struct nigh_comm *comm = operation->comm;
    const struct nigh_coll_call *it = operation->owner;
    char text[NIGH_GROUP_TEXT_BYTES], ranks[64];

    snprintf(text, sizeof(text), "rank %d has given up waiting for %s in %s%s: %s", comm->rank,
             nigh_coll_waited_for(operation, ranks, sizeof(ranks)), it->name,
             nigh_where(operation->site).text, strerror(-error));
    /* Where others had ended the group meanwhile, the next one may have it: that ends, too. */
    while (operation->phase == NIGH_PHASE_ACTIVE) {
        if (comm->group->group)
            (void)nigh_core.ops->group_end(comm->group->group, error, text);
        (void)nigh_coll_learn(comm);
        (void)nigh_poll();
    }
    if (comm->group)
        nigh_coll_flush_behind(comm); /* calls that this rank has refused meanwhile */
}

/* ---- what is asked of it ---- */

struct nigh_sentence nigh_coll_lost_text(struct nigh_comm *comm)
{
    int world = nigh_comm_to_world(comm, comm->lost_rank);
    bool freed = comm != nigh_core.world;
    uint64_t until = nigh_now_ns() + (freed ? SEEN_NS : ENDED_NS);
    struct nigh_sentence text;

    while (nigh_peer_state(world) == NIGH_READY && !comm->lost_alive && nigh_now_ns() < until)
        (void)nigh_poll();
    comm->lost_alive = freed && nigh_peer_state(world) == NIGH_READY;
    if (comm->lost_alive)
        snprintf(text.text, sizeof(text.text), "rank %d has freed %s", comm->lost_rank,
                 nigh_comm_text(comm).text);
    else
        snprintf(text.text, sizeof(text.text),
                 "%.300s: go on without it in another communicator (nigh_comm_create)",
                 nigh_loss_text(comm, comm->lost_rank).text);
    return text;
}

int nigh_coll_failed(struct nigh_call call, const struct nigh_operation *operation)
{
    const struct nigh_coll_call *it = operation->owner;
    bool same = strcmp(call.name, it->name) == 0;

    return nigh_fail(call, operation->error, "%s%s%s%s",
                     it->lost ? nigh_coll_lost_text(operation->comm).text : it->why, same ? "" : "; it was ",
                     same ? "" : it->name, same ? "" : nigh_where(operation->site).text);
}

int nigh_coll_check_end(struct nigh_call call, struct nigh_comm *comm)
{
    char why[NIGH_GROUP_TEXT_BYTES + 96];
    const struct end *end;

    /* It may have ended in a call that this rank comes to. */
    if (nigh_coll_ended_in(comm) > comm->collectives || !nigh_coll_learn(comm) ||
        comm->group->end.number < comm->collectives)
        return 0;
    end = &comm->group->end;
    if (comm->lost)
        return nigh_fail(call, comm->lost, "%s", nigh_coll_lost_text(comm).text);
    nigh_coll_end_text(comm, end->text, end->status, end->by_host, why, sizeof(why));
    return nigh_fail(call, end->status, "%s", why);
}

bool nigh_coll_waits_for(const struct nigh_operation *operation, uint64_t set[NIGH_SET_WORDS])
{
    const struct nigh_comm_group *its = operation->comm->group;
    struct nigh_query_group is = {.size = sizeof(is)};

    memset(set, 0, NIGH_SET_WORDS * sizeof(*set));
    if (its && its->group && nigh_core.ops->query_group(its->group, &is) == 0)
        memcpy(set, is.waits_for, sizeof(is.waits_for));
    return !is.come;
}

void nigh_coll_say_through(const struct nigh_comm *comm)
{
    const struct end *end = &comm->group->end;
    char why[NIGH_GROUP_TEXT_BYTES + 96];

    if (end->status != -EPROTO)
        return;
    nigh_coll_end_text(comm, end->text, end->status, end->by_host, why, sizeof(why));
    nigh_say(NIGH_LOG_ERROR, "in a collective that this rank was through with: %s", why);
}

/* By a collective that has not ended, or waits for the next group. A window may outlive its communicator, and its ranks meet
 * once more to free it. */
static bool is_needed(const struct nigh_comm *comm)
{
    for (uint32_t i = 0; i < nigh_core.operations_used; i++) {
        const struct nigh_operation *operation = &nigh_core.operations[i];

        if (operation->phase == NIGH_PHASE_FREE || operation->comm != comm)
            continue;
        if (operation->flags & NIGH_OP_WINDOW ||
            (operation->kind == NIGH_KIND_COLLECTIVE && operation->phase == NIGH_PHASE_ACTIVE))
            return true;
    }
    return false;
}

void nigh_coll_release_group(struct nigh_comm *comm)
{
    struct nigh_comm_group *its = comm->group;

    if (its->group && !is_needed(comm) && nigh_core.ops->group_free(its->group) == 0)
        its->group = NULL;
}

/* Behind the last of its calls its completion frees the group. */
void nigh_coll_drop(struct nigh_comm *comm)
{
    if (!comm->group)
        return;
    nigh_coll_release_group(comm);
    for (uint32_t i = 0; comm->group->group && i < nigh_core.operations_used; i++) {
        struct nigh_operation *operation = &nigh_core.operations[i];

        if (operation->phase == NIGH_PHASE_ACTIVE && operation->comm == comm &&
            operation->kind == NIGH_KIND_COLLECTIVE)
            operation->flags |= NIGH_OP_RARE;
    }
}

void nigh_coll_forget(struct nigh_comm *comm)
{
    if (!comm->group)
        return;
    nigh_coll_forget_queue(comm->group);
    free(comm->group->numbers);
    free(comm->group);
    comm->group = NULL;
}

void nigh_coll_close(void)
{
    for (uint32_t i = 0; i < nigh_core.operations_used; i++) {
        struct nigh_operation *operation = &nigh_core.operations[i];

        if (operation->kind == NIGH_KIND_COLLECTIVE && operation->phase != NIGH_PHASE_FREE &&
            !(operation->flags & NIGH_OP_INTERNAL))
            nigh_coll_release(operation);
    }
}

static void report(struct nigh_comm *comm, void *data)
{
    (void)data;
    if (comm->group && nigh_coll_learn(comm))
        nigh_coll_say_through(comm);
}

void nigh_coll_report(void)
{
    nigh_comms_each(report, NULL);
}

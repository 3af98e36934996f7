/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/group_queue.c - calls of a communicator that its group does not have yet: they wait until the ranks have agreed on the next call,
 * or behind a call that this rank has refused, for which the group ends when all before it have ended. */
#include "lib/collective.h"
#include "lib/group_state.h"

#include <stdio.h>
#include <stdlib.h>

/* A call that its group has failed may be older than those that wait. */
void nigh_coll_append(struct nigh_comm_group *its, struct nigh_coll_call *it)
{
    struct nigh_coll_call **at = &its->first;

    while (*at && (*at)->number < it->number)
        at = &(*at)->next;
    it->next = *at;
    *at = it;
    it->waits = true;
}

static struct nigh_coll_call *take_all(struct nigh_comm_group *its)
{
    struct nigh_coll_call *first = its->first;

    its->first = NULL;
    return first;
}

/* Has the group a call of the program's, as far as this rank has heard? With `tells` all of them come to ended(), also those that go
 * well. */
static bool is_under_way(const struct nigh_comm *comm, bool tells)
{
    bool any = false;

    for (uint32_t i = 0; i < nigh_core.operations_used; i++) {
        struct nigh_operation *operation = &nigh_core.operations[i];
        const struct nigh_coll_call *it = operation->owner;

        if (operation->phase != NIGH_PHASE_ACTIVE || operation->comm != comm ||
            operation->kind != NIGH_KIND_COLLECTIVE)
            continue;
        any |= !it->waits;
        if (tells)
            operation->flags |= NIGH_OP_RARE;
    }
    return any;
}

void nigh_coll_fail_queue(struct nigh_comm *comm)
{
    struct nigh_coll_call *next;

    for (struct nigh_coll_call *it = take_all(comm->group); it; it = next) {
        next = it->next;
        if (it->operation)
            nigh_coll_fail_by_end(it);
        else
            nigh_coll_append(comm->group, it);
    }
}

/* ---- calls that this rank has refused ---- */

/* Nothing of this rank is under way in the group, so it ends in this call. Where it is gone with the communicator the others have
 * heard that. */
static void end_for(struct nigh_call call, struct nigh_comm *comm, uint64_t number, int error,
                    const char *text)
{
    bool has_group = comm->group && comm->group->group;

    if (comm->lost ||
        (!has_group && (comm->state == NIGH_COMM_FREED || nigh_coll_create(call, comm, number))))
        return;
    if (comm->group->group)
        (void)nigh_core.ops->group_end(comm->group->group, error, text);
    (void)nigh_coll_learn(comm);
}

/* NULL: no memory. */
static struct nigh_coll_call *refusal(struct nigh_call call, uint64_t number, int error, const char *text)
{
    struct nigh_coll_call *it = calloc(1, sizeof(*it));

    if (!it)
        return NULL;
    it->name = call.name;
    it->what.place = call.site;
    it->number = number;
    it->refused = error;
    snprintf(it->why, sizeof(it->why), "%s", text);
    return it;
}

void nigh_coll_refuse(struct nigh_call call, struct nigh_comm *comm, int error, const char *text)
{
    struct nigh_comm_group *its = comm->group;
    struct nigh_coll_call *it = NULL;
    uint64_t number;
    bool waits;

    if (its)
        nigh_coll_flush_behind(comm);
    waits = its && (is_under_way(comm, true) || its->first);
    number = ++comm->collectives;
    if (waits && !comm->lost)
        it = refusal(call, number, error, text);
    /* Without memory for it the calls that are under way fail, too. */
    if (it)
        nigh_coll_append(its, it);
    else
        end_for(call, comm, number, error, text);
}

/* ---- going on ---- */

static void place(struct nigh_coll_call *it)
{
    struct nigh_call call = {it->name, it->operation->site};
    int rc;

    it->waits = false;
    rc = nigh_coll_place(call, it);
    if (rc && it->operation->phase == NIGH_PHASE_ACTIVE)
        nigh_coll_fail_unplaced(it, rc);
}

void nigh_coll_flush(struct nigh_comm *comm)
{
    struct nigh_comm_group *its = comm->group;
    struct nigh_coll_call *next;

    for (struct nigh_coll_call *it = take_all(its); it; it = next) {
        next = it->next;
        if (it->operation) {
            place(it);
        } else if (its->first || is_under_way(comm, false)) {
            nigh_coll_append(its, it);
        } else {
            end_for((struct nigh_call){it->name, it->what.place}, comm, it->number, it->refused, it->why);
            free(it);
        }
    }
}

void nigh_coll_flush_behind(struct nigh_comm *comm)
{
    if (nigh_unlikely(comm->group->first != NULL) && !is_under_way(comm, false))
        nigh_coll_flush(comm);
}

void nigh_coll_forget_queue(struct nigh_comm_group *its)
{
    struct nigh_coll_call *next;

    for (struct nigh_coll_call *it = take_all(its); it; it = next) {
        next = it->next;
        if (!it->operation)
            free(it);
    }
}

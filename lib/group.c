/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/group.c - see group.h. */
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

static struct nigh_comm *comm_of(const struct nigh_coll_call *it)
{
    return it->operation->comm;
}

/* ---- the end of a call ---- */

static void finish(struct nigh_coll_call *it, int error)
{
    struct nigh_comm *comm = comm_of(it);

    it->operation->error = error;
    it->operation->phase = NIGH_PHASE_DONE;
    if (comm->state == NIGH_COMM_FREED)
        nigh_coll_release_group(comm);
}

void nigh_coll_fail_by_end(struct nigh_coll_call *it)
{
    const struct nigh_comm *comm = comm_of(it);
    const struct end *end = &comm->group->end;

    it->lost = comm->lost != 0;
    if (!it->lost)
        nigh_coll_end_text(comm, end->text, end->status, end->by_host, it->why, sizeof(it->why));
    finish(it, it->lost ? comm->lost : end->status);
}

static void fail_behind(struct nigh_coll_call *it)
{
    struct nigh_comm_group *its = comm_of(it)->group;
    int error = its->end.status ? its->end.status : -EPROTO;

    snprintf(it->why, sizeof(it->why),
             "a collective has failed, and other ranks are ahead: they are through with number %llu, this is "
             "number %llu",
             (unsigned long long)its->start - 1, (unsigned long long)it->number);
    finish(it, error);
}

/* ---- the end of a generation ---- */

static uint64_t number_of(const struct nigh_comm_group *its, uint64_t in_group)
{
    if (its->generation == 0)
        return in_group + 1;
    return its->agreed ? its->start + in_group - 1 : UINT64_MAX;
}

static bool is_lost(const struct nigh_comm *comm, const struct nigh_query_group *is)
{
    if (is->by_host)
        return false;
    return is->status == -ECONNRESET ||
           (is->status == -EPROTO &&
            nigh_peer_state(nigh_comm_to_world(comm, (int)is->about)) == NIGH_BROKEN);
}

uint64_t nigh_coll_ended_in(const struct nigh_comm *comm)
{
    const struct nigh_comm_group *its = comm->group;
    struct nigh_query_group is = {.size = sizeof(is)};

    if (!its->group || nigh_core.ops->query_group(its->group, &is) || !is.status)
        return 0;
    return number_of(its, is.ended_in);
}

bool nigh_coll_learn(struct nigh_comm *comm)
{
    struct nigh_comm_group *its = comm->group;
    struct nigh_query_group is = {.size = sizeof(is)};

    if (!its->group || nigh_core.ops->query_group(its->group, &is) || !is.status)
        return false;
    its->end = (struct end){.status = is.status,
                            .about = (int)is.about,
                            .by_host = is.by_host,
                            .number = number_of(its, is.ended_in)};
    memcpy(its->end.text, is.text, sizeof(its->end.text));
    if (is_lost(comm, &is)) {
        comm->lost = is.status;
        comm->lost_rank = (int)is.about;
    }
    if (its->agreement)
        its->agreement->owner = NULL; /* it ends by itself */
    its->agreement = NULL;
    (void)nigh_core.ops->group_free(its->group);
    its->group = NULL;
    its->generation++;
    if (!its->agreed)
        nigh_coll_fail_queue(comm);
    return true;
}

/* ---- a new generation ---- */

static int no_memory(struct nigh_call call, const struct nigh_comm *comm)
{
    return nigh_fail(call, -ENOMEM, "no memory for the group of %s", nigh_comm_text(comm).text);
}

static int get_state(struct nigh_call call, struct nigh_comm *comm)
{
    struct nigh_comm_group *its = comm->group;

    if (its)
        return 0;
    if (comm->size > NIGH_GROUP_MAX)
        return nigh_fail(call, -EOPNOTSUPP, "%s has %u ranks: collectives are for at most %u",
                         nigh_comm_text(comm).text, comm->size, NIGH_GROUP_MAX);
    its = calloc(1, sizeof(*its));
    if (its)
        its->numbers = calloc(comm->size + 1, sizeof(*its->numbers));
    if (!its || !its->numbers) {
        free(its);
        return no_memory(call, comm);
    }
    comm->group = its;
    return 0;
}

static int lose(struct nigh_call call, struct nigh_comm *comm, int error)
{
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        uint32_t state = nigh_peer_state(nigh_comm_to_world(comm, (int)rank));

        if (state != NIGH_PEER_CLOSED && state != NIGH_PEER_DEAD && state != NIGH_BROKEN)
            continue;
        comm->lost = error;
        comm->lost_rank = (int)rank;
        break;
    }
    return nigh_fail(call, error, "%s", comm->lost ? nigh_coll_lost_text(comm).text : strerror(-error));
}

static void agreed(struct nigh_operation *operation, const struct nigh_completion *completion);

/* How far is each rank? */
static int begin_to_agree(struct nigh_call call, struct nigh_comm *comm, uint64_t number)
{
    struct nigh_comm_group *its = comm->group;
    int rc;

    its->agreement = nigh_operation_new(call, NIGH_KIND_OTHER, comm, NIGH_ANY_SOURCE, 0, NULL, 0,
                                        NIGH_OP_INTERNAL | NIGH_OP_RARE | NIGH_OP_HOOK);
    if (!its->agreement)
        return -ENOMEM;
    its->agreement->ended = agreed;
    its->agreement->owner = its;
    its->agreement->phase = NIGH_PHASE_ACTIVE;
    its->numbers[comm->size] = number;
    its->agreeing = (struct nigh_collective){.size = sizeof(its->agreeing),
                                             .op = NIGH_ALLGATHER,
                                             .type = NIGH_U64,
                                             .send = &its->numbers[comm->size],
                                             .recv = its->numbers,
                                             .count = 1,
                                             .context = (uintptr_t)its->agreement};
    rc = nigh_core.ops->post_collective(its->group, &its->agreeing);
    if (rc) {
        nigh_operation_give(its->agreement);
        its->agreement = NULL;
    }
    return rc;
}

int nigh_coll_create(struct nigh_call call, struct nigh_comm *comm, uint64_t number)
{
    struct nigh_endpoint *members[NIGH_GROUP_MAX];
    struct nigh_group_options options = {
        .size = sizeof(options), .count = comm->size, .members = members, .id = comm->id};
    struct nigh_comm_group *its;
    int rc = get_state(call, comm);

    for (uint32_t rank = 0; !rc && rank < comm->size; rank++)
        rc = nigh_comm_endpoint(call, comm, (int)rank, &members[rank]);
    if (rc)
        return rc;
    its = comm->group;
    rc = nigh_core.ops->group_create(nigh_core.context, &options, &its->group);
    if (rc == -ECONNRESET || rc == -EPROTO)
        return lose(call, comm, rc);
    if (rc)
        return no_memory(call, comm);
    its->agreed = its->generation == 0;
    its->start = 1;
    if (its->agreed)
        return 0;
    rc = begin_to_agree(call, comm, number);
    /* All fall with the first call of this group: it has had its number at all ranks. */
    if (rc && !nigh_coll_learn(comm)) {
        (void)nigh_fail(call, rc, "the group of %s: %s", nigh_comm_text(comm).text, strerror(-rc));
        nigh_coll_break(comm, rc);
    }
    return 0;
}

/* A call that has its number, and was not given to the group: the calls behind it would be taken for it. */
void nigh_coll_fail_unplaced(struct nigh_coll_call *it, int error)
{
    struct nigh_comm *comm = comm_of(it);

    snprintf(it->why, sizeof(it->why), "%s", nigh_error_text());
    finish(it, error);
    if (comm->group && comm->group->group)
        nigh_coll_break(comm, error);
}

static void agreed(struct nigh_operation *operation, const struct nigh_completion *completion)
{
    struct nigh_comm_group *its = operation->owner;
    struct nigh_comm *comm = operation->comm;

    (void)completion;
    nigh_operation_give(operation);
    if (!its)
        return;
    its->agreement = NULL;
    if (operation->error) {
        (void)nigh_coll_learn(comm);
    } else {
        for (uint32_t rank = 0; rank < comm->size; rank++)
            if (its->numbers[rank] > its->start)
                its->start = its->numbers[rank];
        its->agreed = true;
    }
    nigh_coll_flush(comm);
}

/* ---- a call and its group ---- */

/* Has failed with its generation, as it was the one that failed, or before it, or cannot be made once more? */
static bool falls(const struct nigh_coll_call *it)
{
    const struct nigh_comm *comm = comm_of(it);

    return comm->lost || it->number <= comm->group->end.number ||
           (it->begun && it->what.flags & NIGH_COLLECTIVE_IN_PLACE);
}

int nigh_coll_place(struct nigh_call call, struct nigh_coll_call *it)
{
    struct nigh_comm *comm = comm_of(it);

    for (;;) {
        struct nigh_comm_group *its = comm->group;
        int rc = !its || !its->group ? nigh_coll_create(call, comm, it->number) : 0;

        if (rc)
            return rc;
        its = comm->group;
        if (!its->group) {
            nigh_coll_fail_by_end(it);
            return 0;
        }
        if (!its->agreed || (its->first && its->first->number < it->number)) {
            nigh_coll_append(its, it);
            return 0;
        }
        if (it->number < its->start) {
            fail_behind(it);
            return 0;
        }
        rc = nigh_core.ops->post_collective(its->group, &it->what);
        if (!rc) {
            it->begun = true;
            return 0;
        }
        if (!nigh_coll_learn(comm))
            return nigh_fail(call, rc, "%s", strerror(-rc));
        if (falls(it)) {
            nigh_coll_fail_by_end(it);
            return 0;
        }
        nigh_coll_say_through(comm);
    }
}

/* Its group has ended: it fails, or is made by the next group. */
static void make_again(struct nigh_coll_call *it)
{
    struct nigh_operation *operation = it->operation;
    struct nigh_call call = {it->name, operation->site};
    bool news = nigh_coll_learn(operation->comm);
    int rc;

    if (falls(it)) {
        nigh_coll_fail_by_end(it);
        return;
    }
    if (news)
        nigh_coll_say_through(operation->comm);
    operation->error = 0;
    rc = nigh_coll_place(call, it);
    if (rc)
        nigh_coll_fail_unplaced(it, rc);
}

static void ended(struct nigh_operation *operation, const struct nigh_completion *completion)
{
    struct nigh_comm *comm = operation->comm;

    (void)completion;
    if (!operation->error)
        finish(operation->owner, 0);
    else
        make_again(operation->owner);
    nigh_coll_flush_behind(comm);
}

struct nigh_operation *nigh_coll_operation(struct nigh_call call, struct nigh_comm *comm,
                                           struct nigh_coll_call *it, uint32_t flags)
{
    struct nigh_operation *operation = nigh_operation_new(call, NIGH_KIND_COLLECTIVE, comm, NIGH_ANY_SOURCE,
                                                          NIGH_ANY_TAG, NULL, 0, flags | NIGH_OP_HOOK);

    if (!operation)
        return NULL;
    operation->ended = ended;
    operation->owner = it;
    it->operation = operation;
    it->what.context = (uintptr_t)operation;
    if (it->what.factor) {
        memcpy(it->factor, it->what.factor, sizeof(it->factor));
        it->what.factor = it->factor;
    }
    return operation;
}

int nigh_coll_start(struct nigh_call call, struct nigh_coll_call *it)
{
    struct nigh_comm *comm = comm_of(it);
    int rc;

    if (nigh_unlikely(comm->lost != 0))
        return nigh_fail(call, comm->lost, "%s", nigh_coll_lost_text(comm).text);
    if (comm->group)
        nigh_coll_flush_behind(comm);
    it->number = ++comm->collectives;
    it->begun = it->lost = it->waits = false;
    it->what.place = it->operation->site;
    it->operation->phase = NIGH_PHASE_ACTIVE;
    it->operation->error = 0;
    rc = nigh_coll_place(call, it);
    /* Not made: the program may make it again. */
    if (nigh_unlikely(rc != 0)) {
        it->operation->phase = NIGH_PHASE_INACTIVE;
        comm->collectives--;
    }
    return rc;
}

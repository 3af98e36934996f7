/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/agree.c - dissemination: after round k each member knows what 2^k neighbours knew, so log2(count) rounds do. */
#include "lib/agree.h"
#include "lib/control.h"
#include "lib/error.h"
#include "lib/progress.h"

#include <errno.h>

enum {
    NAP_NS = 1000000
}; /* whoever leaves an agreement wakes the others; this is for a nudge that was lost */

static int rank_of(const struct nigh_members *members, int index)
{
    index %= members->count;
    return members->ranks ? members->ranks[index] : index;
}

int nigh_agree_max(struct nigh_call call, const struct nigh_members *members, uint32_t *value)
{
    struct {
        uint32_t mine, theirs;
    } *said = nigh_control_memory(sizeof(*said));
    int rc = 0;

    if (!said)
        return nigh_fail(call, -ENOMEM, "no memory for a message");
    for (int step = 1; !rc && step < members->count; step *= 2) {
        said->mine = *value;
        rc = nigh_control_swap(call, members->comm, rank_of(members, members->me + step), &said->mine,
                               rank_of(members, members->me + members->count - step), &said->theirs,
                               sizeof(said->mine), nigh_control_tag(NIGH_CONTROL_AGREE, members->number));
        if (!rc && said->theirs > *value)
            *value = said->theirs;
    }
    nigh_control_given_back(said, rc);
    return rc;
}

/* An agreement on an identifier that a thread of this process takes part in, and that all its members have come to. */
struct agreement {
    uint32_t comm, number; /* these two order agreements in the same way at all ranks */
    struct agreement *next;
};

static struct agreement *running; /* under the lock, on the stacks of those who wait */

static bool goes_first(const struct agreement *me)
{
    for (const struct agreement *other = running; other; other = other->next)
        if (other->comm < me->comm || (other->comm == me->comm && other->number < me->number))
            return false;
    return true;
}

static void leave(const struct agreement *me)
{
    struct agreement **at = &running;

    while (*at != me)
        at = &(*at)->next;
    *at = me->next;
    nigh_progress_wake();
}

static int wait_turn(struct nigh_call call, const struct nigh_comm *comm, const struct agreement *me)
{
    uint64_t since = nigh_now_ns();

    while (!goes_first(me)) {
        if (comm->timeout_ns && nigh_now_ns() - since > comm->timeout_ns)
            return nigh_fail(
                call, -ETIMEDOUT,
                "%.1f s are over, and another thread of this process, which makes a communicator "
                "as well, is not done with its part: its ranks may not all have come",
                (double)comm->timeout_ns / 1e9);
        (void)nigh_progress_sleep(NAP_NS);
    }
    return 0;
}

/* Ends with `proposal` taken by all members, or -errno. */
static int take(struct nigh_call call, const struct nigh_members *members, const struct agreement *me,
                uint32_t *proposal)
{
    for (;;) {
        uint32_t taken;
        int rc = wait_turn(call, members->comm, me);

        if (rc)
            return rc;
        taken = *proposal < nigh_core.next_comm_id;
        if (!taken)
            nigh_core.next_comm_id = *proposal + 1;
        rc = nigh_agree_max(call, members, &taken);
        if (rc || !taken)
            return rc;
        *proposal = nigh_core.next_comm_id;
        rc = nigh_agree_max(call, members, proposal);
        if (rc)
            return rc;
    }
}

/*
 * With one thread per rank the greatest proposal is new to everybody. With several threads another agreement may take
 * the same number in between at some member: whoever sees that says so, and all try again. Of those that all members
 * have come to, the first in order does not wait for any other, and none behind it takes its number: one gets through,
 * always. One that a member has not come to holds up nobody. (Proposals that grew with each attempt, by a step of each
 * communicator's own, overtook each other on one CPU until they had wrapped.)
 */
int nigh_agree_id(struct nigh_call call, const struct nigh_members *members, uint32_t *id)
{
    struct agreement me = {members->comm->id, members->number, NULL};
    uint32_t proposal = nigh_core.next_comm_id;
    int rc = nigh_agree_max(call, members, &proposal);

    if (rc)
        return rc;
    me.next = running;
    running = &me;
    rc = take(call, members, &me, &proposal);
    leave(&me);
    if (!rc)
        *id = proposal;
    return rc;
}

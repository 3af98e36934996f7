/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/finalize.c - leaving together. */
#include "lib/control.h"
#include "lib/error.h"
#include "lib/group.h"
#include "lib/init.h"
#include "lib/leftover.h"
#include "lib/line.h"
#include "lib/lives.h"
#include "lib/peer.h"
#include "lib/post.h"
#include "lib/progress.h"
#include "lib/thread.h"
#include "lib/wait.h"

#include <errno.h>

#define LEAVE_NS    UINT64_C(10000000000) /* where no time-out is set, for ranks that may never come */
#define REST_NAP_NS UINT64_C(100000)      /* no completion tells that a queue has been sent */

struct leaving {
    struct nigh_call call;
    uint64_t deadline;
    bool limited; /* by the world's time-out */
    int late;     /* a rank that has not come, -1 */
};

static uint64_t left_of(const struct leaving *leaving)
{
    uint64_t now = nigh_now_ns();

    return now < leaving->deadline ? leaving->deadline - now : 1;
}

/* Without a time-out a rank that computes is waited for until it comes: leaving without it would
 * fail a sound program for being uneven. So does one that has been reached and has not answered; of
 * others nobody knows that they will come. */
static bool has_more_time(struct leaving *leaving, int rank)
{
    struct nigh_note note;
    enum nigh_doing doing = nigh_line_doing(rank, &note);

    if (leaving->limited || doing == NIGH_DOING_GONE || (doing == NIGH_DOING_UNKNOWN && !nigh_peer_pid(rank)))
        return false;
    leaving->deadline = nigh_now_ns() + LEAVE_NS;
    return true;
}

/* The message of a step from `rank`. Dead ranks are not waited for. */
static void await_step(struct leaving *leaving, struct nigh_operation *operation)
{
    int rc;

    do
        rc = nigh_wait_one(leaving->call, operation, left_of(leaving));
    while (rc == -ETIMEDOUT && has_more_time(leaving, operation->peer));
    if (rc && leaving->late < 0)
        leaving->late = operation->peer;
    nigh_control_drop(operation);
}

/* A barrier in which every rank says everything that the others wait for, whatever it has heard itself: so only ranks
 * that are behind a dead one in it may be left early. What it says is sent until it is matched: two ranks may meet here
 * for the first time, and close() drops what still waits for the connection. */
static void leave_together(struct leaving *leaving)
{
    struct nigh_call quiet = {"nigh_finalize", NULL};
    struct nigh_comm *world = nigh_core.world;
    int size = nigh_core.ranks;

    for (int step = 1; step < size; step *= 2) {
        int tag = nigh_control_tag(NIGH_CONTROL_LEAVE, (uint32_t)step);
        struct nigh_operation *in = NULL, *out = NULL;

        (void)nigh_control_irecv(quiet, world, (nigh_core.rank + size - step) % size, tag, NULL, 0, &in);
        (void)nigh_control_issend(quiet, world, (nigh_core.rank + step) % size, tag, NULL, 0, &out);
        if (in)
            await_step(leaving, in);
        if (out)
            await_step(leaving, out);
    }
}

/* Messages to `rank` that have not left: it has not answered yet, or there is no room in its ring. */
static uint64_t waiting_for(int rank)
{
    struct nigh_query_endpoint answer = {0};
    uint64_t bytes = sizeof(answer);

    if (!nigh_core.endpoints[rank] || nigh_core.ops->query(nigh_core.context, nigh_core.endpoints[rank],
                                                           NIGH_QUERY_ENDPOINT, &answer, &bytes))
        return 0;
    return answer.state == NIGH_CONNECTING || answer.state == NIGH_READY ? answer.queued : 0;
}

static bool all_have_left(struct nigh_block *block)
{
    return waiting_for(block->peer) == 0;
}

/*
 * close() drops what has not left: nobody could name it, and the program may have been told that it
 * was sent. Ahead of the barrier, behind which the receiver may be gone; and seen to be in
 * nigh_finalize, for others that look for who is not.
 */
static void send_the_rest(const struct leaving *leaving, int rank)
{
    struct nigh_operation rest = {
        .kind = NIGH_KIND_SEND, .flags = NIGH_OP_INTERNAL, .comm = nigh_core.world, .peer = rank};
    struct nigh_block block = {
        .call = leaving->call,
        .kind = NIGH_BLOCK_ROOM,
        .operation = &rest,
        .comm = nigh_core.world,
        .peer = rank,
        .over = all_have_left,
        .timeout_ns = left_of(leaving),
        .nap_ns = REST_NAP_NS,
    };

    if (waiting_for(rank))
        (void)nigh_block_until(&block);
}

/* What could not be sent in the time there was. */
static int report_the_rest(void)
{
    int found = 0;

    for (int rank = 0; rank < nigh_core.ranks; rank++) {
        uint64_t count = waiting_for(rank);

        if (count)
            nigh_say(NIGH_LOG_WARN,
                     "never sent: %llu messages to rank %d of the world, which has not taken them",
                     (unsigned long long)count, rank);
        found += count > 0;
    }
    return found;
}

/* Who has not come, and what they do instead; if all have by now, the one that was waited for. */
static struct nigh_sentence absent_text(int late)
{
    struct nigh_sentence text = nigh_absent_text(nigh_core.world, NIGH_NOTE_OP_CLOSE);

    return text.text[0] ? text : nigh_doing_text(late);
}

static int finalize(struct nigh_call call)
{
    uint64_t timeout = nigh_core.world->timeout_ns;
    struct leaving leaving = {.call = call, .limited = timeout != 0, .late = -1};
    int left, late;

    nigh_core.leaving = true;
    left = nigh_leftover_requests();
    leaving.deadline = nigh_now_ns() + (timeout ? timeout : LEAVE_NS);
    for (int rank = 0; rank < nigh_core.ranks; rank++)
        send_the_rest(&leaving, rank);
    leave_together(&leaving);
    left += report_the_rest();
    left += nigh_leftover_messages();
    nigh_coll_report();
    late = leaving.late;
    if (late >= 0)
        return nigh_fail(call, -ETIMEDOUT,
                         "some ranks have not come to nigh_finalize within %.3g s, left without them: %s",
                         (double)(timeout ? timeout : LEAVE_NS) / 1e9, absent_text(late).text);
    return left ? nigh_fail_quietly(call, -EBUSY, "%d things were left over, see the lines before", left) : 0;
}

NIGH_PUBLIC int nigh_finalize(void)
{
    struct nigh_call call = NIGH_CALL("nigh_finalize");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    nigh_thread_stop();
    rc = finalize(call);
    nigh_line_leave();
    nigh_leave();
    nigh_lives_end(nigh_core.job);
    nigh_core_close(); /* from here on another thread may begin the next life */
    return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/finalize.c - leaving together. */
#include "lib/control.h"
#include "lib/error.h"
#include "lib/init.h"
#include "lib/leftover.h"
#include "lib/line.h"
#include "lib/peer.h"
#include "lib/post.h"
#include "lib/progress.h"
#include "lib/thread.h"
#include "lib/wait.h"

#include <errno.h>

#define LEAVE_NS UINT64_C(10000000000)

struct leaving {
    struct nigh_call call;
    uint64_t deadline;
    int late; /* a rank that has not come, -1 */
};

/* The message of a step from `rank`. Dead ranks are not waited for. */
static void await_step(struct leaving *leaving, struct nigh_operation *operation)
{
    uint64_t now = nigh_now_ns();
    int rc = nigh_wait_one(leaving->call, operation, now < leaving->deadline ? leaving->deadline - now : 1);

    if (rc && leaving->late < 0)
        leaving->late = operation->peer;
    nigh_control_drop(operation);
}

/* A barrier in which every rank says everything that the others wait for, whatever it has heard itself: so only ranks that
 * are behind a dead one in it may be left early. What it says is sent until it is matched: two ranks may meet here for the first
 * time, and close() drops what still waits for the connection. */
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

/* Who has not come, and what they do instead; if all have by now, the one that was waited for. */
static struct nigh_sentence absent_text(int late)
{
    struct nigh_sentence text = nigh_absent_text(nigh_core.world, NIGH_NOTE_OP_CLOSE);

    return text.text[0] ? text : nigh_doing_text(late);
}

static int finalize(struct nigh_call call)
{
    struct leaving leaving = {.call = call, .late = -1};
    uint64_t timeout = nigh_core.world->timeout_ns;
    int left, late;

    nigh_core.leaving = true;
    left = nigh_leftover_requests();
    leaving.deadline = nigh_now_ns() + (timeout ? timeout : LEAVE_NS);
    leave_together(&leaving);
    left += nigh_leftover_messages();
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
    nigh_core_close();
    return rc;
}

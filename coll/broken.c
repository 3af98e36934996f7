/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/broken.c - why a call cannot go on: says so to the log, with what each member called, and ends the group. */
#include "coll/call.h"
#include "coll/check.h"
#include "shm/clock.h"
#include "shm/log.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* How long a process whose first thread has ended is taken to be ending. */
#define EXIT_NS UINT64_C(1000000000)

void nigh_call_lost(struct nigh_call *call, uint32_t member)
{
    struct nigh_group *group = call->group;
    char text[NIGH_CALL_TEXT];

    nigh_group_look(group);
    if (group->ends || group->state != NIGH_GROUP_READY)
        return;
    nigh_call_text(nigh_call_word(&call->what), call->what.count, text);
    nigh_log(NIGH_LOG_INFO, "rank %u: call %" PRIu64 " of a group, %s: member %u has left or died",
             group->coll->rank, call->number, text, member);
    nigh_group_revoke(group, NIGH_REVOKED_LOST, member, -ECONNRESET);
}

/* A process whose first thread has ended cannot be read, and is mostly ending: a moment later that is known. */
static bool is_exiting(struct nigh_call *call)
{
    uint64_t now = nigh_clock_ns();

    if (!call->unread_ns)
        call->unread_ns = now;
    return now - call->unread_ns < EXIT_NS;
}

void nigh_call_unreadable(struct nigh_call *call, uint32_t member, int error)
{
    struct nigh_group *group = call->group;

    /* A member whose call has failed may have given its buffers back. */
    nigh_group_look(group);
    if (group->ends || (error == -ESRCH && is_exiting(call)))
        return;
    if (group->members[member].ended || !group->coll->host->lives(group->members[member].handle)) {
        nigh_call_lost(call, member);
        return;
    }
    nigh_log(NIGH_LOG_ERROR,
             "rank %u: call %" PRIu64
             " of a group: the memory of member %u cannot be read (%s): let ranks read each "
             "other's memory, or set NIGH_PATH=chunked",
             group->coll->rank, call->number, member, strerror(-error));
    nigh_group_revoke(group, NIGH_REVOKED_FAILED, member, -EIO);
}

void nigh_call_mismatch(struct nigh_call *call, uint32_t member, const struct nigh_call_slot *slot)
{
    struct nigh_group *group = call->group;
    char ours[NIGH_CALL_TEXT], theirs[NIGH_CALL_TEXT];

    nigh_call_text(nigh_call_word(&call->what), call->what.count, ours);
    nigh_call_text(nigh_load_relaxed(&slot->call), nigh_load_relaxed(&slot->count), theirs);
    nigh_log(NIGH_LOG_ERROR,
             "rank %u: call %" PRIu64
             " of a group of %u: member %u (this one) calls %s, member %u calls %s: all members "
             "must make the same calls in the same order",
             group->coll->rank, call->number, group->count, group->me, ours, member, theirs);
    nigh_group_revoke(group, NIGH_REVOKED_MISMATCH, member, -EPROTO);
}

void nigh_call_wrong_bytes(struct nigh_call *call, uint32_t member, uint64_t expected, uint64_t given)
{
    struct nigh_group *group = call->group;
    char ours[NIGH_CALL_TEXT];

    nigh_call_text(nigh_call_word(&call->what), call->what.count, ours);
    nigh_log(NIGH_LOG_ERROR,
             "rank %u: call %" PRIu64 " of a group of %u, %s: member %u gives %" PRIu64
             " bytes, member %u (this one) "
             "expects %" PRIu64,
             group->coll->rank, call->number, group->count, ours, member, given, group->me, expected);
    nigh_group_revoke(group, NIGH_REVOKED_MISMATCH, member, -EPROTO);
}

void nigh_call_impossible(struct nigh_call *call, uint32_t member)
{
    nigh_log(NIGH_LOG_ERROR,
             "rank %u: call %" PRIu64 " of a group: member %u shows what cannot be: is it of another build?",
             call->group->coll->rank, call->number, member);
    nigh_group_revoke(call->group, NIGH_REVOKED_FAILED, member, -EIO);
}

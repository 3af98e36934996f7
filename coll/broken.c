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
    if (group->ends_word || group->state != NIGH_GROUP_READY)
        return;
    nigh_call_text(nigh_call_word(&call->what), call->what.count, text);
    nigh_group_say(group, NIGH_LOG_INFO, "call %" PRIu64 ", %s: member %u has left or died", call->number,
                   text, member);
    nigh_group_revoke(group, NIGH_REVOKED_LOST, call->number, member, -ECONNRESET);
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
    if (group->ends_word || (error == -ESRCH && is_exiting(call)))
        return;
    if (group->members[member].ended || !group->coll->host->lives(group->members[member].handle)) {
        nigh_call_lost(call, member);
        return;
    }
    nigh_group_say(group, NIGH_LOG_ERROR,
                   "call %" PRIu64
                   ": the memory of member %u cannot be read (%s): let ranks read each other's memory, "
                   "or set NIGH_PATH=chunked",
                   call->number, member, strerror(-error));
    nigh_group_revoke(group, NIGH_REVOKED_FAILED, call->number, member, -EIO);
}

void nigh_call_mismatch(struct nigh_call *call, uint32_t member, const struct nigh_call_slot *slot)
{
    struct nigh_group *group = call->group;
    char ours[NIGH_CALL_TEXT], theirs[NIGH_CALL_TEXT];

    nigh_call_text(nigh_call_word(&call->what), call->what.count, ours);
    nigh_call_text(nigh_load_relaxed(&slot->call), nigh_load_relaxed(&slot->count), theirs);
    nigh_group_say(group, NIGH_LOG_ERROR, "call %" PRIu64 ": member %u calls %s, member %u calls %s",
                   call->number, group->me, ours, member, theirs);
    nigh_group_revoke(group, NIGH_REVOKED_MISMATCH, call->number, member, -EPROTO);
}

void nigh_call_wrong_bytes(struct nigh_call *call, uint32_t member, uint64_t expected, uint64_t given)
{
    struct nigh_group *group = call->group;
    char ours[NIGH_CALL_TEXT];

    nigh_call_text(nigh_call_word(&call->what), call->what.count, ours);
    nigh_group_say(group, NIGH_LOG_ERROR,
                   "call %" PRIu64 ", %s: member %u gives %" PRIu64 " bytes, member %u expects %" PRIu64,
                   call->number, ours, member, given, group->me, expected);
    nigh_group_revoke(group, NIGH_REVOKED_MISMATCH, call->number, member, -EPROTO);
}

void nigh_call_impossible(struct nigh_call *call, uint32_t member)
{
    nigh_group_say(call->group, NIGH_LOG_ERROR,
                   "call %" PRIu64 ": member %u shows what cannot be: is it of another build?", call->number,
                   member);
    nigh_group_revoke(call->group, NIGH_REVOKED_FAILED, call->number, member, -EIO);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/broken.c - why a call cannot go on: says so to the log, with what each member called, and ends the group. */
#include "coll/call.h"
#include "coll/check.h"
#include "shm/clock.h"
#include "shm/cma.h"
#include "shm/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How long a process whose first thread has ended is taken to be ending. */
#define EXIT_NS UINT64_C(1000000000)

void nigh_call_lost(struct nigh_call *call, uint32_t member)
{
    struct nigh_group *group = call->group;
    char text[NIGH_CALL_TEXT];

    nigh_group_look(group);
    if ((group->ends_word && nigh_group_must_end(group)) || group->state != NIGH_GROUP_READY)
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
    if ((group->ends_word && nigh_group_must_end(group)) || (error == -ESRCH && is_exiting(call)))
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

/* ---- members that have made different calls ---- */

#define CALLED_TEXT (NIGH_CALL_TEXT + 48)
#define PLACE_NAME  41u   /* "file.c:12" */
#define PLACE_MOST  4096u /* with its folders */

/* What a member's slot says of a call. */
struct said {
    uint32_t print;
    char text[CALLED_TEXT];
};

/* Takes the next `bytes` of a path; `name` begins anew behind each folder. True: the path has ended. */
static bool name_goes_on(char name[PLACE_NAME], const char *path, size_t bytes)
{
    size_t used = strlen(name);

    for (size_t i = 0; i < bytes; i++) {
        if (!path[i])
            return true;
        if (path[i] == '/')
            used = 0;
        else if (used < PLACE_NAME - 1)
            name[used++] = (unsigned char)path[i] < ' ' || path[i] == 0x7f ? '?' : path[i];
        name[used] = '\0';
    }
    return false;
}

/* The file and line at that address of its process, without its folders: another text may be there by now. No read goes over a
 * page's end, as what lies behind the page of the text's end may not be readable. False: it cannot be read, or does not end. */
static bool read_place(const struct nigh_member *member, uint64_t address, char name[PLACE_NAME])
{
    char piece[256];

    for (size_t had = 0, bytes; had < PLACE_MOST; had += bytes) {
        bytes = NIGH_PAGE - (address + had) % NIGH_PAGE;
        bytes = bytes < sizeof(piece) ? bytes : sizeof(piece);
        if (nigh_cma_read(member->link.pid, piece, address + had, bytes))
            return false;
        if (name_goes_on(name, piece, bytes))
            return true;
    }
    return false;
}

static void tell_place(const struct nigh_member *member, uint64_t address, char *out, size_t room)
{
    const char *own = (const char *)(uintptr_t)address;
    char name[PLACE_NAME] = "";

    if (member->self)
        (void)name_goes_on(name, own, strlen(own));
    else if (nigh_load_relaxed(member->link.reads) != 1 || !read_place(member, address, name))
        return;
    if (name[0])
        snprintf(out, room, " at %s", name);
}

/* False: the slot is another call's by now. */
static bool look_back(const struct nigh_group *group, uint32_t at, uint64_t number, struct said *out)
{
    const struct nigh_member *member = &group->members[at];
    const struct nigh_call_slot *slot =
        &(member->self ? group->slots : member->slots)[number % NIGH_CALL_SLOTS];
    uint64_t head = nigh_load_acquire(&slot->head, CALL_PEEK), place = nigh_load_relaxed(&slot->place);

    if ((uint32_t)(head >> 32) != (uint32_t)number)
        return false;
    out->print = (uint32_t)head;
    nigh_call_text(nigh_load_relaxed(&slot->call), nigh_load_relaxed(&slot->count), out->text);
    if (place)
        tell_place(member, place, out->text + strlen(out->text), CALLED_TEXT - strlen(out->text));
    return true;
}

void nigh_call_mismatch(struct nigh_call *call, uint32_t member)
{
    struct nigh_group *group = call->group;
    uint32_t first = group->me < member ? group->me : member,
             second = group->me < member ? member : group->me;
    struct said one = {.text = "something else"}, two = one, one_before, two_before;
    uint64_t number = call->number;

    (void)look_back(group, first, number, &one);
    (void)look_back(group, second, number, &two);
    /* The oldest call that both slots still have, and in which the two differ. */
    while (number && look_back(group, first, number - 1, &one_before) &&
           look_back(group, second, number - 1, &two_before) && one_before.print != two_before.print) {
        number--;
        one = one_before;
        two = two_before;
    }
    nigh_group_say(group, NIGH_LOG_ERROR, "call %" PRIu64 ": member %u calls %s, member %u calls %s", number,
                   first, one.text, second, two.text);
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

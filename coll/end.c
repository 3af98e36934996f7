/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/end.c - the end of a group: by this member or its host, or as another member has ended it or is gone; which error, and why, in
 * words. */
#include "coll/call.h"
#include "coll/form.h"
#include "shm/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static_assert(NIGH_ENDED_WORDS * sizeof(uint64_t) == NIGH_GROUP_TEXT_BYTES, "a text of group_end()");

static int error_of(uint64_t word)
{
    switch (NIGH_REVOKED_WHY(word)) {
    case NIGH_REVOKED_ENDED:
    case NIGH_REVOKED_BETWEEN:
    case NIGH_REVOKED_FAILED:
        return NIGH_REVOKED_STATUS(word) ? NIGH_REVOKED_STATUS(word) : -EIO;
    case NIGH_REVOKED_LOST:
    case NIGH_REVOKED_LEFT:
        return -ECONNRESET;
    case NIGH_REVOKED_MISMATCH:
        return -EPROTO;
    default:
        return -EIO;
    }
}

/* ---- the text, behind the slots ---- */

static const uint64_t *text_of(const struct nigh_call_slot *slots)
{
    return (const uint64_t *)(const void *)(slots + NIGH_CALL_SLOTS);
}

void nigh_group_show_end(struct nigh_group *group, uint64_t revoked)
{
    uint64_t *to = (uint64_t *)(uintptr_t)text_of(group->slots), word;

    if (nigh_load_relaxed(&group->board->revoked))
        return;
    for (uint32_t i = 0; i < NIGH_ENDED_WORDS; i++) {
        memcpy(&word, group->text + i * sizeof(word), sizeof(word));
        nigh_store_relaxed(&to[i], word);
    }
    nigh_store_release(&group->board->revoked, revoked, STEP_SET);
}

static void read_text(const struct nigh_call_slot *slots, char text[NIGH_GROUP_TEXT_BYTES])
{
    const uint64_t *from = text_of(slots);

    for (uint32_t i = 0; i < NIGH_ENDED_WORDS; i++) {
        uint64_t word = nigh_load_relaxed(&from[i]);

        memcpy(text + i * sizeof(word), &word, sizeof(word));
    }
    text[NIGH_GROUP_TEXT_BYTES - 1] = '\0';
    /* No terminal is to be steered by a peer. */
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
}

/* ---- ended here ---- */

void nigh_group_revoke(struct nigh_group *group, enum nigh_revoked why, uint64_t number, uint32_t about,
                       int error)
{
    uint64_t status = why == NIGH_REVOKED_FAILED ? NIGH_REVOKED_ERRNO(-error) : 0;

    if (group->state == NIGH_GROUP_BROKEN)
        return;
    group->state = NIGH_GROUP_BROKEN;
    if (!group->given_up) {
        group->error = error;
        group->about = about;
        group->ended_in = number;
    }
    nigh_group_show_end(group, NIGH_REVOKED(why, number, about) | status);
    nigh_fence_full(LEAVE_SAY);
    nigh_group_tell(group);
    nigh_group_move(group);
}

void nigh_group_say(struct nigh_group *group, int level, const char *format, ...)
{
    va_list arguments;

    if (group->text[0])
        return;
    va_start(arguments, format);
    vsnprintf(group->text, sizeof(group->text), format, arguments);
    va_end(arguments);
    nigh_log(level, "rank %u, member %u of a group of %u: %s", group->coll->rank, group->me, group->count,
             group->text);
}

/* ---- ended by our host ---- */

void nigh_group_end(struct nigh_group *group, int error, const char *text)
{
    /* Of our calls none goes on: the group ends in the last. */
    uint64_t number = group->first ? group->posted - 1 : group->posted;
    enum nigh_revoked why = group->first ? NIGH_REVOKED_ENDED : NIGH_REVOKED_BETWEEN;

    if (group->state == NIGH_GROUP_BROKEN)
        nigh_calls_fail(group);
    if (group->state == NIGH_GROUP_BROKEN || group->given_up)
        return;
    if (group->ends_word && nigh_group_must_end(group)) {
        nigh_group_follow_end(group);
        nigh_calls_fail(group);
        return;
    }
    memset(group->text, 0, sizeof(group->text));
    snprintf(group->text, sizeof(group->text), "%s", text);
    group->by_host = true;
    group->error = error;
    group->about = group->me;
    group->ended_in = number;
    nigh_group_show_end(group, NIGH_REVOKED(why, number, group->me) | NIGH_REVOKED_ERRNO(-error));
    if (group->state == NIGH_GROUP_FORMING) {
        group->given_up = true;
        /* It may have shown its key: others that have formed wait for its calls. */
        nigh_group_tell(group);
    } else {
        nigh_group_revoke(group, why, number, group->me, error);
    }
    nigh_calls_fail(group);
}

/* ---- ended by another member ---- */

/* Boards have the lower half of a number. */
static bool is_before(uint64_t word, uint64_t other)
{
    return (int32_t)(NIGH_REVOKED_NUMBER(word) - NIGH_REVOKED_NUMBER(other)) < 0;
}

/* `member` has broken the group: it is about whom it says, or, if that is us, about itself. */
static void follow(struct nigh_group *group, uint32_t member, uint64_t word)
{
    uint32_t about = NIGH_REVOKED_ABOUT(word);

    /* One between two calls may be overtaken by one in a call. */
    if ((group->ends_word && NIGH_REVOKED_WHY(group->ends_word) != NIGH_REVOKED_BETWEEN) ||
        group->ends_word == word || group->freed_by_host)
        return;
    if (group->ends_word && NIGH_REVOKED_WHY(word) == NIGH_REVOKED_BETWEEN &&
        !is_before(word, group->ends_word))
        return;
    group->ends_word = word;
    group->ends_by = member;
    group->ends_about = about >= group->count || about == group->me ? member : about;
    nigh_group_move(group);
}

void nigh_group_look(struct nigh_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct nigh_member *member = &group->members[i];
        uint64_t word;

        /* A member that has ended counts, too: it may have said before why. */
        if (member->self || !nigh_member_is_found(member))
            continue;
        word = nigh_member_revoked(member);
        if (word && NIGH_REVOKED_WHY(word) != NIGH_REVOKED_LEFT) {
            follow(group, i, word);
        } else if (word || nigh_member_left(member)) {
            nigh_member_end(member);
            group->lost = true;
        } else {
            nigh_group_compare_tree(group, i);
        }
    }
}

bool nigh_group_is_sound(struct nigh_group *group, uint32_t member, bool by_kernel)
{
    const struct nigh_member *at = &group->members[member];

    return !nigh_member_revoked(at) && (!by_kernel || group->coll->host->lives(at->handle));
}

void nigh_coll_lost(struct nigh_coll *coll, const void *handle)
{
    for (struct nigh_group *group = coll->groups; group; group = group->next) {
        for (uint32_t i = 0; i < group->count; i++) {
            struct nigh_member *member = &group->members[i];

            if (member->handle != handle)
                continue;
            /* Now or never: its memory goes. */
            nigh_form_meet(group, i);
            nigh_member_end(member);
            group->lost = true;
            nigh_group_move(group);
        }
    }
}

static uint64_t whole_number(const struct nigh_group *group, uint32_t number)
{
    return group->posted + (uint64_t)(int64_t)(int32_t)(number - (uint32_t)group->posted);
}

/* All who follow keep the text of the member that has found it, so each reads it from whom it follows. */
static void keep_why(struct nigh_group *group, enum nigh_revoked why, int error)
{
    int level = why == NIGH_REVOKED_MISMATCH ? NIGH_LOG_ERROR : NIGH_LOG_INFO;
    char text[NIGH_GROUP_TEXT_BYTES];

    read_text(group->members[group->ends_by].slots, text);
    if (text[0])
        nigh_group_say(group, level, "%s", text);
    else
        nigh_group_say(group, level, "member %u has ended the group for member %u: %s", group->ends_by,
                       group->ends_about, strerror(-error));
    group->by_host = why == NIGH_REVOKED_ENDED || why == NIGH_REVOKED_BETWEEN;
}

bool nigh_group_must_end(const struct nigh_group *group)
{
    uint64_t number = whole_number(group, NIGH_REVOKED_NUMBER(group->ends_word));

    if (group->first && NIGH_REVOKED_WHY(group->ends_word) == NIGH_REVOKED_BETWEEN)
        return group->first->number >= number;
    return group->first || group->posted >= number;
}

void nigh_group_follow_end(struct nigh_group *group)
{
    enum nigh_revoked why = NIGH_REVOKED_WHY(group->ends_word);
    int error = error_of(group->ends_word);

    keep_why(group, why, error);
    nigh_group_show_end(group, group->ends_word);
    nigh_group_revoke(group, why, whole_number(group, NIGH_REVOKED_NUMBER(group->ends_word)),
                      group->ends_about, error);
}

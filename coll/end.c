/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/end.c - the end of a group that a host, or another member, has ended: which error, and why, in words. */
#include "coll/call.h"
#include "shm/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static_assert(NIGH_ENDED_WORDS * sizeof(uint64_t) == NIGH_GROUP_TEXT_BYTES, "a text of group_end()");

static int error_of(uint64_t word)
{
    switch (NIGH_REVOKED_WHY(word)) {
    case NIGH_REVOKED_ENDED:
    case NIGH_REVOKED_BETWEEN:
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

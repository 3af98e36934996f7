/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/collective_agree.c - do all ranks call the same? And what is short, on the same way. */
#include "lib/collective.h"
#include "lib/error.h"
#include "lib/reduce.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A mark: kind 1 and 60 bits of the call's arguments; or that the sender knows of two that differ. */
#define MARK_KIND  UINT64_C(1)
#define MARK_MIXED (UINT64_C(2) << 60)

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t mark_of(const struct nigh_coll *coll)
{
    uint64_t hash = mix(coll->comm->collectives, (uint64_t)coll->what);

    if (coll->has & (NIGH_COLL_COUNT | NIGH_COLL_WINDOW))
        hash = mix(hash, coll->count);
    if (coll->has & NIGH_COLL_COUNT)
        hash = mix(hash, (uint32_t)coll->type);
    if (coll->has & NIGH_COLL_OP)
        hash = mix(hash, (uint32_t)coll->op);
    if (coll->has & NIGH_COLL_ROOT)
        hash = mix(hash, (uint32_t)coll->root);
    return MARK_KIND << 60 | mix(hash, 0) >> 4;
}

static void add(struct nigh_sentence *sentence, const char *text)
{
    size_t used = strlen(sentence->text);

    snprintf(sentence->text + used, sizeof(sentence->text) - used, "%s", text);
}

static void add_number(struct nigh_sentence *sentence, const char *name, long long value)
{
    char text[48];

    snprintf(text, sizeof(text), "%s%lld", name, value);
    add(sentence, text);
}

struct nigh_sentence nigh_coll_text(const struct nigh_coll *coll)
{
    struct nigh_sentence sentence = {""};

    add(&sentence, coll->call.name);
    add(&sentence, "(");
    if (coll->has & NIGH_COLL_WINDOW)
        add_number(&sentence, "window ", (long long)coll->count);
    if (coll->has & NIGH_COLL_COUNT) {
        add_number(&sentence, "count ", (long long)coll->count);
        add(&sentence, ", ");
        add(&sentence, nigh_type_name(coll->type).text);
    }
    if (coll->has & NIGH_COLL_OP) {
        add(&sentence, ", ");
        add(&sentence, nigh_reduction_name(coll->op).text);
    }
    if (coll->has & NIGH_COLL_ROOT)
        add_number(&sentence, ", root ", coll->root);
    add(&sentence, ")");
    add(&sentence, nigh_where(coll->call.site).text);
    return sentence;
}

/* One message each way in one round. `*mark` goes out, and what comes in is joined to it. */
static int turn(struct nigh_coll *coll, int round, int step, const void *out, uint64_t out_bytes, void *in,
                uint64_t in_bytes, uint64_t *mark)
{
    int to = (coll->me + coll->size - step) % coll->size, from = (coll->me + step) % coll->size;
    uint64_t told = 0;
    int rc = nigh_coll_irecv(coll, from, in, in_bytes, &coll->round_in);

    if (!rc)
        rc = nigh_coll_isend(coll, to, out, out_bytes, *mark, &coll->round_out[round]);
    if (!rc)
        rc = nigh_coll_await(coll, &coll->round_in, &told);
    if (!rc && told != *mark)
        *mark = MARK_MIXED;
    return rc;
}

static int await_sends(struct nigh_coll *coll, int rounds)
{
    int rc = 0;

    for (int i = 0; !rc && i < rounds; i++)
        rc = nigh_coll_await(coll, &coll->round_out[i], NULL);
    return rc;
}

/* `all` begins with this rank's block. After each round the blocks of twice as many ranks are known. */
static int share(struct nigh_coll *coll, uint8_t *all, uint64_t block, uint64_t *mark)
{
    int known = 1, round = 0, rc = 0;

    while (!rc && known < coll->size) {
        int more = known < coll->size - known ? known : coll->size - known;

        rc = turn(coll, round++, known, all, (uint64_t)more * block,
                  all ? all + (uint64_t)known * block : NULL, (uint64_t)more * block, mark);
        known += more;
    }
    return rc ? rc : await_sends(coll, round);
}

/* What a rank says of its call when not all are equal. */
struct card {
    uint64_t mark;
    int32_t refused;
    uint32_t reserved0;
    struct nigh_sentence text;
    char reason[176];
};

/* The sentence of its refusal, which is the last that this thread has said, without the call: that is told anyway. */
static const char *why_refused(const struct nigh_coll *coll)
{
    size_t skip = strlen(coll->call.name) + strlen(nigh_where(coll->call.site).text) + 2;
    const char *text = nigh_error_text();

    return strlen(text) > skip ? text + skip : strerror(-coll->refused);
}

static void fill_card(const struct nigh_coll *coll, struct card *card)
{
    memset(card, 0, sizeof(*card));
    card->mark = mark_of(coll);
    card->refused = coll->refused;
    card->text = nigh_coll_text(coll);
    if (coll->refused)
        snprintf(card->reason, sizeof(card->reason), " (refused there: %.150s)", why_refused(coll));
}

/* The other of the two that this rank tells of: itself, if it differs from rank 0, or the first one that does. */
static int pick(const struct nigh_coll *coll, const struct card *cards)
{
    const struct card *first = &cards[nigh_coll_place(coll, 0)];

    if (cards[0].mark != first->mark)
        return coll->me;
    for (int rank = 1; rank < coll->size; rank++)
        if (cards[nigh_coll_place(coll, rank)].mark != first->mark)
            return rank;
    return 0;
}

/* What others get for the error of one: what it did wrong is no error of theirs, what befell it is. */
static int for_others(int refused)
{
    return refused == -ENOMEM || refused == -ECONNRESET || refused == -ETIMEDOUT || refused == -EDEADLK
               ? refused
               : -EPROTO;
}

static int say_difference(struct nigh_coll *coll, struct card *cards)
{
    struct card *one = &cards[nigh_coll_place(coll, 0)], *two;
    int other = pick(coll, cards);

    for (int i = 0; i < coll->size; i++) {
        cards[i].text.text[sizeof(cards[i].text.text) - 1] = '\0';
        cards[i].reason[sizeof(cards[i].reason) - 1] = '\0';
    }
    two = &cards[nigh_coll_place(coll, other)];
    if (coll->refused)
        return coll->refused;
    if (other != 0)
        return nigh_fail(coll->call, -EPROTO,
                         "the ranks of %s do not call the same: rank 0 calls %s%s; rank %d calls %s%s",
                         nigh_comm_text(coll->comm).text, one->text.text, one->reason, other, two->text.text,
                         two->reason);
    for (int rank = 0; rank < coll->size; rank++) {
        two = &cards[nigh_coll_place(coll, rank)];
        if (two->refused)
            return nigh_fail(coll->call, for_others(two->refused), "rank %d calls %s%s", rank, two->text.text,
                             two->reason);
    }
    return nigh_fail(coll->call, -EPROTO, "the ranks of %s do not call the same",
                     nigh_comm_text(coll->comm).text);
}

/* All ranks have found that something is wrong, so all come here. What was shared is of no use. */
static int explain(struct nigh_coll *coll)
{
    struct card *cards;
    uint64_t mark = MARK_MIXED;
    int rc;

    free(coll->room);
    coll->room = NULL;
    cards = nigh_coll_room(coll, (uint64_t)coll->size * sizeof(*cards));
    if (!cards)
        return nigh_coll_fail(coll, -ENOMEM, -1);
    fill_card(coll, cards);
    rc = share(coll, (uint8_t *)cards, sizeof(*cards), &mark);
    return rc ? rc : say_difference(coll, cards);
}

/* Ends an agreement: `mark` is what came of it. */
static int conclude(struct nigh_coll *coll, int rc, uint64_t mark)
{
    if (rc)
        return rc;
    if (nigh_unlikely(mark == MARK_MIXED))
        return explain(coll);
    if (nigh_unlikely(coll->comm->extra != NULL))
        nigh_coll_unsink(coll->comm);
    return 0;
}

static uint64_t first_mark(const struct nigh_coll *coll)
{
    return coll->refused ? MARK_MIXED : mark_of(coll);
}

int nigh_coll_agree(struct nigh_coll *coll)
{
    uint64_t mark = first_mark(coll);
    int rc = share(coll, NULL, 0, &mark);

    return conclude(coll, rc, mark);
}

int nigh_coll_share(struct nigh_coll *coll, const void *mine, uint64_t block, const uint8_t **all)
{
    uint8_t *room = nigh_coll_room(coll, (uint64_t)coll->size * block);
    uint64_t mark = first_mark(coll);
    int rc;

    if (room && block)
        memcpy(room, mine, block);
    *all = room;
    rc = share(coll, room, room ? block : 0, &mark);
    return conclude(coll, rc, mark);
}

/* Does `rank` have the root's bytes before the round with this step? */
static bool has_bytes(const struct nigh_coll *coll, int rank, int step)
{
    return (coll->root - rank + coll->size) % coll->size < step;
}

int nigh_coll_cast(struct nigh_coll *coll, const void *mine, uint64_t bytes, const uint8_t **all)
{
    bool is_root = coll->me == coll->root;
    /* A root only reads it: whoever gives to it finds that it has everything. */
    uint8_t *room = is_root ? (uint8_t *)(uintptr_t)mine : nigh_coll_room(coll, bytes);
    uint64_t mark = first_mark(coll);
    int round = 0, rc = 0;

    for (int step = 1; !rc && step < coll->size; step *= 2) {
        int to = (coll->me + coll->size - step) % coll->size, from = (coll->me + step) % coll->size;
        bool give = has_bytes(coll, coll->me, step) && !has_bytes(coll, to, step);
        bool take = has_bytes(coll, from, step) && !has_bytes(coll, coll->me, step);

        rc = turn(coll, round++, step, room, give && room ? bytes : 0, room, take && room ? bytes : 0, &mark);
    }
    *all = room;
    if (!rc)
        rc = await_sends(coll, round);
    return conclude(coll, rc, mark);
}

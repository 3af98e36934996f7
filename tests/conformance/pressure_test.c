/* SPDX-License-Identifier: BSD-3-Clause */
/* More than fits: rings that fill and grow, pools that run dry, more messages under way than anybody waits for, both
 * ends at once. Nothing stands still, nothing is overtaken. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <string.h>

static const struct nigh_ops *nigh;

/* A thousand large messages that nobody has asked for, then a small one: it arrives. One of their
 * own tag waits its turn. */
#define MANY 1000u

static void small_behind_large(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number, value = 42, got = 0;
    uint8_t *from[8], *to;

    for (uint32_t i = 0; tx && i < 8; i++)
        from[i] = data_filled(bytes, i);
    for (uint32_t i = 0; tx && i < MANY; i++)
        pair_send(tx, from[i % 8], bytes, 1, 0, i);
    if (tx) {
        pair_send(tx, &value, 8, 1, 0, 5000);
        pair_send(tx, &value, 8, 2, 0, 5001);
    }
    if (rx) {
        pair_recv(rx, &got, 8, 2, 5001);
        pair_received(rx, 5001, 8);
        CHECK_INT(got, 42);
        to = data_room(bytes);
    }
    for (uint32_t i = 0; rx && i < MANY; i++) {
        pair_recv(rx, to, bytes, 1, i);
        pair_received(rx, i, bytes);
        data_check(to, bytes, i % 8, 0);
    }
    if (rx) {
        pair_recv(rx, &got, 8, 1, 5000);
        pair_received(rx, 5000, 8);
    }
    for (uint32_t i = 0; tx && i < MANY; i++)
        pair_sent(tx, i, bytes);
    if (tx) {
        pair_sent(tx, 5000, 8);
        pair_sent(tx, 5001, 8);
    }
}

/* Both sides send and receive all sizes at once. number: messages each way. */
static const uint64_t sizes[] = {8,     0, 2088,  100000, 40,   700,   40000, 4096,
                                 65536, 1, 20001, 65537,  1000, 65535, 300000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static uint64_t size_of(uint32_t i)
{
    return sizes[i * 7 % SIZES];
}

static void begin_flood(struct pair_end *end, unsigned side, uint32_t count, uint8_t *const *from,
                        uint8_t **to)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i % 2) {
            to[i] = data_room(size_of(i));
            pair_recv(end, to[i], size_of(i), 100 * !side + i % 3, 10000 * side + i);
        }
        pair_send(end, from[i % SIZES], size_of(i), 100 * side + i % 3, i % 11 ? 0 : NIGH_SYNC,
                  20000 * side + i);
    }
}

/* Half of the receives come late, in the order that their tag demands: the messages of a tag go to the receives of that
 * tag as both were posted, so a tag's early receives are filled with its first messages. */
static void go_on(struct pair_end *end, unsigned side, uint32_t count, uint8_t **to, uint32_t *which)
{
    uint32_t next[3] = {0, 1, 2};

    for (uint32_t late = 0; late < 2; late++)
        for (uint32_t i = !late; i < count; i += 2) {
            which[i] = next[i % 3];
            next[i % 3] += 3;
        }
    for (uint32_t i = 0; i < count; i += 2) {
        to[i] = data_room(size_of(which[i]));
        pair_recv(end, to[i], size_of(which[i]), 100 * !side + i % 3, 10000 * side + i);
    }
}

static void end_flood(struct pair_end *end, unsigned side, uint32_t count, uint8_t **to,
                      const uint32_t *which)
{
    for (uint32_t i = 0; i < count; i++) {
        struct nigh_completion done = pair_await(end, NIGH_OP_RECV, 10000 * side + i);
        uint64_t full = size_of(which[i]), room = i % 2 ? size_of(i) : full;

        CHECK_INT(done.bytes, full);
        CHECK_INT(done.status, full > room ? -EMSGSIZE : 0);
        data_check(to[i], full < room ? full : room, which[i] % SIZES, 0);
    }
    for (uint32_t i = 0; i < count; i++)
        pair_sent(end, 20000 * side + i, size_of(i));
}

static void flood(struct pair *pair)
{
    static uint8_t *to[2][1000];
    static uint32_t which[2][1000];
    uint32_t count = (uint32_t)pair->of->number;
    uint8_t *from[SIZES];

    for (uint32_t i = 0; i < SIZES; i++)
        from[i] = data_filled(size_of(i), i);
    for (unsigned side = 0; side < 2; side++)
        if (pair->end[side])
            begin_flood(pair->end[side], side, count, from, to[side]);
    for (unsigned side = 0; side < 2; side++)
        if (pair->end[side])
            go_on(pair->end[side], side, count, to[side], which[side]);
    for (unsigned side = 0; side < 2; side++)
        if (pair->end[side])
            end_flood(pair->end[side], side, count, to[side], which[side]);
}

/* The first ring is small: without a reader it fills, and a larger one takes its place. */
static void ring_grows(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t slots_before, value[400], got;

    pair_state(tx, NIGH_READY);
    pair_send(tx, &(uint64_t){0}, 8, 1, NIGH_INJECT | NIGH_SILENT, 0);
    slots_before = pair_peer_facts(tx).ring_slots;
    for (uint32_t i = 1; i < 400; i++) {
        value[i] = i;
        pair_send(tx, &value[i], 8, 1, NIGH_SILENT, 0);
    }
    CHECK_INT(slots_before, 64);
    CHECK_INT(pair_peer_facts(tx).ring_slots, 512);
    CHECK_INT(pair_stats(tx).ring_grown, 1);
    CHECK_INT(pair_peer_facts(tx).queued, 0);
    for (uint32_t i = 0; i < 400; i++) {
        pair_recv(rx, &got, 8, 1, 1);
        pair_received(rx, 1, 8);
        CHECK_INT(got, i);
    }
}

/* Bodies of every length, round the end of the ring again and again. */
static void every_length(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t *from = data_filled(4096, 1), *to = data_room(4096);

    for (uint32_t i = 0; i < 4200; i++) {
        uint64_t bytes = i % 2 ? i / 2 : 2099 - i / 2;

        if (tx)
            pair_send(tx, bytes ? from : NULL, bytes, 1, NIGH_SILENT, 0);
        if (rx) {
            pair_recv(rx, to, bytes + 1, 1, 1);
            pair_received(rx, 1, bytes);
            data_check(to, bytes, 1, 0);
        }
    }
}

/* More small messages than all rings together hold, before anything is received. */
static void thousands(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t *values = (uint64_t *)(void *)data_room(8 * 10000), got;

    for (uint32_t i = 0; tx && i < 10000; i++) {
        values[i] = i;
        pair_send(tx, &values[i], 8, 1, 0, i);
    }
    for (uint32_t i = 0; rx && i < 10000; i++) {
        pair_recv(rx, &got, 8, 1, 1);
        pair_received(rx, 1, 8);
        CHECK_INT(got, i);
    }
    /* Those that were over at once may be told of before those that were queued. */
    for (uint32_t i = 0; tx && i < 10000; i++) {
        struct nigh_completion done = pair_next(tx, NIGH_OP_SEND);

        CHECK(done.context < 10000 && values[done.context] == done.context);
        values[done.context] = UINT64_MAX;
    }
}

/* Who sends again for each send that it is told of, one at a time, hears of its receive as well, whose message has come
 * before (number: 1) or comes meanwhile. */
static void told_of_all(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    static uint64_t value, got, into[32];
    struct nigh_completion done = {.op = NIGH_OP_SEND};
    unsigned told = 0;

    pair_state(tx, NIGH_READY);
    /* Nobody polls it while the other one waits for room. */
    pair_state(rx, NIGH_READY);
    if (pair->of->number) {
        pair_send(rx, &value, 8, 2, NIGH_SILENT, 0);
        pair_unexpected(tx, 1);
    }
    for (; done.op == NIGH_OP_SEND && told < 5000; told++) {
        if (told % 32 == 0)
            for (unsigned i = 0; i < 32; i++)
                CHECK_INT(nigh->expect(rx->peer, &into[i], NIGH_SHAPE(8, 0), 1, i, NULL), 0);
        pair_send(tx, &value, 8, 1, 0, told);
        if (told == 0)
            pair_recv(tx, &got, 8, 2, 7);
        if (told == 0 && !pair->of->number)
            pair_send(rx, &value, 8, 2, NIGH_SILENT, 0);
        while (nigh->poll_completions(rx->context, &done, 1))
            CHECK_INT(done.op, NIGH_OP_RECV);
        while (!nigh->poll_completions(tx->context, &done, 1))
            ;
    }
    CHECK(told < 5000);
}

/* A heap message, a lend and pieces wait unmatched while others pass them. */
static void passed(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = 200000, got = 0, value = 9;
    void *heap[2];
    uint8_t *to;

    for (uint32_t i = 0; tx && i < 2; i++) {
        struct nigh_lend lend = {.size = sizeof(lend), .bytes = bytes, .tag = 2, .context = 2};

        CHECK_INT(nigh->heap_alloc(tx->context, bytes, &heap[i]), 0);
        data_fill(heap[i], bytes, i);
        lend.buffer = heap[i];
        if (i)
            CHECK_INT(nigh->post_lend(tx->peer, &lend), 0);
        else
            pair_send(tx, heap[i], bytes, 1, 0, 1);
    }
    if (tx)
        pair_send(tx, data_filled(bytes, 3), bytes, 3, 0, 3);
    for (uint32_t i = 0; i < 2000; i++) {
        if (tx)
            pair_send(tx, &value, 8, 4, NIGH_SILENT, 0);
        if (rx) {
            pair_recv(rx, &got, 8, 4, 4);
            pair_received(rx, 4, 8);
        }
    }
    for (uint32_t i = 3; rx && i > 0; i--) {
        to = data_room(bytes);
        pair_recv(rx, to, bytes, i, i);
        pair_received(rx, i, bytes);
        data_check(to, bytes, i == 3 ? 3 : i - 1, 0);
    }
    if (tx) {
        pair_sent(tx, 1, bytes);
        pair_sent(tx, 3, bytes);
        CHECK_INT(pair_await(tx, NIGH_OP_LEND, 2).status, 0);
    }
}

#define NARROW                                  \
    {                                           \
        .ring_slots = 64, .pool_bytes = 1 << 18 \
    }

static const struct pair_case cases[] = {
    {.name = "a small one behind a thousand in pieces", .play = small_behind_large, .number = 5000},
    {.name = "a small one behind a thousand with grants", .play = small_behind_large, .number = 70000},
    {.name = "the same, narrow",
     .play = small_behind_large,
     .number = 70000,
     .options = {.ring_slots = 64, .pool_bytes = 1 << 18, .eager_bytes = 4096}},
    {.name = "flood", .play = flood, .number = 300},
    {.name = "flood, narrow", .play = flood, .number = 300, .options = NARROW},
    {.name = "flood, heap path asked for", .play = flood, .number = 60, .options = {.path = "cma"}},
    {.name = "ring grows", .play = ring_grows, .forms = PAIR_SELF | PAIR_TWO, .options = {.ring_slots = 512}},
    {.name = "every length", .play = every_length},
    {.name = "every length, narrow", .play = every_length, .options = NARROW},
    {.name = "thousands", .play = thousands},
    {.name = "thousands, narrow", .play = thousands, .options = NARROW},
    {.name = "told of all", .play = told_of_all, .forms = PAIR_TWO, .how = PAIR_LOOSE},
    {.name = "told of all, come before",
     .play = told_of_all,
     .forms = PAIR_TWO,
     .how = PAIR_LOOSE,
     .number = 1},
    {.name = "passed", .play = passed},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}

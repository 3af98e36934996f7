/* SPDX-License-Identifier: BSD-3-Clause */
/* Which receive takes which message: tags, ignore masks, classes, sources, and the order of
 * messages whatever path their sizes take. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <string.h>

static const struct nigh_ops *nigh;

static void recv_masked(struct pair_end *rx, struct nigh_endpoint *from, void *to, uint64_t bytes,
                        uint64_t tag, uint64_t ignore, uint32_t tclass, uint64_t context)
{
    struct nigh_recv recv = pair_a_recv(to, bytes, tag, context);

    recv.ignore = ignore;
    recv.tclass = tclass;
    CHECK_INT(nigh->post_recv(rx->context, from, &recv), 0);
}

static void send_class(struct pair_end *tx, const void *from, uint64_t bytes, uint64_t tag, uint32_t tclass,
                       uint64_t context)
{
    struct nigh_send send = pair_a_send(from, bytes, tag, context);

    send.tclass = tclass;
    CHECK_INT(nigh->post_send(tx->peer, &send), 0);
}

/* One of two tags is received first although it was sent last. */
static void by_tag(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number;
    uint8_t *first = data_filled(bytes, 1), *second = data_filled(bytes, 2);
    uint8_t *to = data_room(bytes), *other = data_room(bytes);

    if (tx) {
        pair_send(tx, first, bytes, 1, 0, 1);
        pair_send(tx, second, bytes, 2, 0, 2);
    }
    if (rx) {
        pair_unexpected(rx, 2);
        pair_recv(rx, to, bytes, 2, 2);
        pair_received(rx, 2, bytes);
        data_check(to, bytes, 2, 0);
        CHECK_INT(pair_facts(rx).unexpected, 1);
        pair_recv(rx, other, bytes, 1, 1);
        pair_received(rx, 1, bytes);
        data_check(other, bytes, 1, 0);
    }
    if (tx) {
        pair_sent(tx, 1, bytes);
        pair_sent(tx, 2, bytes);
    }
}

struct want {
    uint64_t tag, ignore;
    uint64_t takes; /* the tag that it is to get */
    bool anyone;
};

/* Receives in the order of their posting, messages with tags 0x11, 0x12, 0x21, 0x22, 0x33, all bits and none. */
static const struct want wants[] = {
    {0x20, 0x0f, 0x21, false},       {0x02, 0xf0, 0x12, true},    {0x11, 0, 0x11, true},
    {0x22, 0, 0x22, false},          {0, UINT64_MAX, 0x33, true}, {0, UINT64_MAX, UINT64_MAX, false},
    {0, UINT64_C(1) << 63, 0, true},
};
static const uint64_t tags[] = {0x11, 0x12, 0x21, 0x22, 0x33, UINT64_MAX, 0};
#define TAGS (sizeof(tags) / sizeof(tags[0]))

static void post_want(struct pair_end *rx, uint32_t i, uint64_t *to)
{
    recv_masked(rx, wants[i].anyone ? NULL : rx->peer, &to[i], 8, wants[i].tag, wants[i].ignore, 0, i);
}

static void check_want(struct pair_end *rx, uint32_t i, const uint64_t *to)
{
    struct nigh_completion done = pair_received(rx, i, 8);

    CHECK_INT(done.tag, wants[i].takes);
    CHECK_INT(to[i], wants[i].takes);
}

static void masks(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    bool late = pair->of->number;
    uint64_t to[TAGS];

    for (uint32_t i = 0; rx && !late && i < TAGS; i++)
        post_want(rx, i, to);
    pair_meet();
    for (uint32_t i = 0; tx && i < TAGS; i++)
        pair_send(tx, &tags[i], 8, tags[i], NIGH_INJECT, i);
    if (rx && late) {
        pair_unexpected(rx, TAGS);
        for (uint32_t i = 0; i < TAGS; i++)
            post_want(rx, i, to);
    }
    for (uint32_t i = 0; tx && i < TAGS; i++)
        pair_sent(tx, i, 8);
    for (uint32_t i = 0; rx && i < TAGS; i++)
        check_want(rx, i, to);
}

static void classes(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t to[NIGH_TCLASSES], values[NIGH_TCLASSES];

    for (uint32_t i = 0; tx && i < NIGH_TCLASSES; i++) {
        values[i] = 100 + i;
        send_class(tx, &values[i], 8, 5, i, i);
    }
    if (rx) {
        pair_unexpected(rx, NIGH_TCLASSES);
        for (uint32_t i = NIGH_TCLASSES; i-- > 0;)
            recv_masked(rx, i & 1 ? NULL : rx->peer, &to[i], 8, 5, i & 2 ? UINT64_MAX : 0, i, i);
        for (uint32_t i = 0; i < NIGH_TCLASSES; i++) {
            pair_received(rx, i, 8);
            CHECK_INT(to[i], 100 + i);
        }
    }
    for (uint32_t i = 0; tx && i < NIGH_TCLASSES; i++)
        pair_sent(tx, i, 8);
}

/* ---- order ---------------------------------------------------------------------------------------------------- */

#define ROUNDS 64u
#define MOST   (200u * 1024)

static uint64_t size_of(uint32_t i)
{
    static const uint64_t sizes[] = {8,     70000, 0,     3000, 40,   MOST, 41,
                                     30000, 1024,  66000, 1,    2088, 5000, 65536};

    return sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
}

static void take_in_order(struct pair_end *rx, uint32_t i, uint8_t *const *to)
{
    struct nigh_completion done = pair_received(rx, i, size_of(i));

    CHECK_INT(done.imm, ~(uint64_t)7);
    data_check(to[i], size_of(i), i, 0);
}

/* All of one tag, sizes mixed: the n-th receive gets the n-th message. number: how many receives wait beforehand. */
static void in_order(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint32_t before = (uint32_t)pair->of->number;
    uint8_t *to[ROUNDS], *from[ROUNDS];

    for (uint32_t i = 0; i < ROUNDS; i++) {
        to[i] = rx ? data_room(size_of(i)) : NULL;
        from[i] = tx ? data_filled(size_of(i), i) : NULL;
    }
    for (uint32_t i = 0; rx && i < before; i++)
        pair_recv(rx, to[i], size_of(i), 7, i);
    pair_meet();
    for (uint32_t i = 0; tx && i < ROUNDS; i++)
        pair_send(tx, from[i], size_of(i), 7, i % 5 == 4 ? NIGH_SYNC : 0, i);
    for (uint32_t i = before; rx && i < ROUNDS; i++) {
        if (i % 3 == 0)
            pair_unexpected(rx, 1);
        recv_masked(rx, i % 2 ? NULL : rx->peer, to[i], size_of(i), 7, i % 7 ? 0 : UINT64_MAX, 0, i);
    }
    for (uint32_t i = 0; rx && i < ROUNDS; i++)
        take_in_order(rx, i, to);
    for (uint32_t i = 0; tx && i < ROUNDS; i++)
        pair_sent(tx, i, size_of(i));
}

/* Out of the heap, lent, in chunks and whole, in turn: paths do not overtake each other. */
static void in_order_by_any_path(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = 70000;
    uint8_t *to[24];
    void *heap = NULL;

    if (tx)
        CHECK_INT(nigh->heap_alloc(tx->context, 24 * bytes, &heap), 0);
    for (uint32_t i = 0; tx && i < 24; i++) {
        uint8_t *from = (uint8_t *)heap + i * bytes;
        struct nigh_lend lend = {
            .size = sizeof(lend), .buffer = from, .bytes = bytes, .tag = 7, .context = i};

        data_fill(from, bytes, i);
        if (i % 4 == 0)
            pair_send(tx, from, bytes, 7, 0, i);
        else if (i % 4 == 1)
            CHECK_INT(nigh->post_lend(tx->peer, &lend), 0);
        else if (i % 4 == 2)
            pair_send(tx, data_filled(bytes, i), bytes, 7, 0, i);
        else
            pair_send(tx, from, 8, 7, 0, i);
    }
    for (uint32_t i = 0; rx && i < 24; i++) {
        to[i] = data_room(bytes);
        pair_recv(rx, to[i], bytes, 7, i);
    }
    for (uint32_t i = 0; rx && i < 24; i++) {
        pair_received(rx, i, i % 4 == 3 ? 8 : bytes);
        data_check(to[i], i % 4 == 3 ? 8 : bytes, i, 0);
    }
    for (uint32_t i = 0; tx && i < 24; i++)
        CHECK_INT(pair_await(tx, i % 4 == 1 ? NIGH_OP_LEND : NIGH_OP_SEND, i).status, 0);
}

/* The number that a peer was given at connect comes back with its messages. */
static void numbered_source(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_connect to = {.size = sizeof(to), .rank = 0, .source = UINT64_C(0x123456789a)};
    struct nigh_completion done;
    uint64_t value = 42, got = 0;

    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_open(pair->end[i]);
    if (rx) {
        CHECK_INT(nigh->connect(rx->context, &to, &rx->peer), 0);
        if (pair->form == PAIR_SELF)
            tx->peer = rx->peer;
        recv_masked(rx, NULL, &got, 8, 0, UINT64_MAX, 0, 1);
    }
    if (tx) {
        pair_connect(tx);
        pair_send(tx, &value, 8, 9, 0, 1);
        pair_sent(tx, 1, 8);
    }
    if (rx) {
        done = pair_received(rx, 1, 8);
        CHECK_INT(done.source, 0x123456789a);
        CHECK(done.endpoint == rx->peer);
        CHECK_INT(pair_peer_facts(rx).source, 0x123456789a);
        CHECK_INT(got, 42);
    }
}

static const struct pair_case cases[] = {
    {.name = "by tag, small", .play = by_tag, .number = 8},
    {.name = "by tag, a body", .play = by_tag, .number = 1000},
    {.name = "by tag, in pieces", .play = by_tag, .number = 5000},
    {.name = "by tag, with grant", .play = by_tag, .number = 300000},
    {.name = "ignore masks", .play = masks},
    {.name = "ignore masks, receives later", .play = masks, .number = 1},
    {.name = "classes", .play = classes},
    {.name = "order, receives first", .play = in_order, .number = ROUNDS},
    {.name = "order, receives later", .play = in_order, .number = 0},
    {.name = "order, half and half", .play = in_order, .number = ROUNDS / 2},
    {.name = "order over all paths", .play = in_order_by_any_path},
    {.name = "numbered source", .play = numbered_source, .how = PAIR_MANUAL},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}

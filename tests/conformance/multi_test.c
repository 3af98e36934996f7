/* SPDX-License-Identifier: BSD-3-Clause */
/* Multi-receive buffers: message after message, one behind the other, until fewer than min_free bytes are left; the
 * last completion gives the buffer back. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <string.h>

static const struct nigh_ops *nigh;

static void post_multi(struct pair_end *rx, void *buffer, uint64_t bytes, uint32_t min_free, uint64_t context)
{
    struct nigh_recv recv = pair_a_recv(buffer, bytes, 3, context);

    recv.flags = NIGH_MULTI;
    recv.min_free = min_free;
    CHECK_INT(nigh->post_recv(rx->context, rx->peer, &recv), 0);
}

/* The next message in the buffer; it lies inside and behind the one before. Returns its flags. */
static uint32_t take(struct pair_end *rx, uint64_t context, uint64_t bytes, uint64_t seed,
                     const uint8_t *room, uint64_t room_bytes, const uint8_t **end)
{
    struct nigh_completion done = pair_received(rx, context, bytes);
    const uint8_t *at = done.data;

    CHECK(at >= *end && at + bytes <= room + room_bytes);
    CHECK_INT(done.tag, 3);
    data_check(at, bytes, seed, 0);
    *end = at + bytes;
    return done.flags;
}

/* The messages lie in the order in which they were sent; long ones may end in another. */
static void take_ten(struct pair_end *rx, uint64_t bytes, const uint8_t *room, uint64_t step)
{
    unsigned taken = 0;

    for (uint32_t i = 0; i < 10; i++) {
        struct nigh_completion done = pair_received(rx, 1, bytes);
        uint64_t at = (uint64_t)((const uint8_t *)done.data - room), number = at / step;

        CHECK_INT(at, number * step);
        CHECK(number < 10 && !(taken & 1u << number));
        taken |= 1u << number;
        CHECK_INT(done.tag, 3);
        CHECK_INT(done.flags, i == 9 ? NIGH_DONE_RELEASED : 0);
        data_check(done.data, bytes, number, 0);
    }
}

/* Messages of `bytes` fill a buffer for ten of them. number: bytes | late << 32. */
static void fill(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number & UINT32_MAX, step = (bytes + 7) / 8 * 8;
    bool late = pair->of->number >> 32;
    uint8_t *room = rx ? data_room(10 * step) : NULL;

    if (rx && !late)
        post_multi(rx, room, 10 * step, (uint32_t)bytes, 1);
    pair_meet();
    for (uint32_t i = 0; tx && i < 10; i++)
        pair_send(tx, data_filled(bytes, i), bytes, 3, 0, 50 + i);
    if (rx && late) {
        pair_unexpected(rx, 10);
        post_multi(rx, room, 10 * step, (uint32_t)bytes, 1);
    }
    if (rx)
        take_ten(rx, bytes, room, step);
    for (uint32_t i = 0; tx && i < 10; i++)
        pair_sent(tx, 50 + i, bytes);
}

/* A buffer is given back when what is left is less than min_free, and the next one takes over. */
static void min_free(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t *rooms[2] = {NULL, NULL};
    const uint8_t *end;

    for (uint32_t i = 0; rx && i < 2; i++) {
        rooms[i] = data_room(1000);
        post_multi(rx, rooms[i], 1000, 512, i);
    }
    pair_meet();
    for (uint32_t i = 0; tx && i < 4; i++)
        pair_send(tx, data_filled(304, i), 304, 3, 0, 50 + i);
    if (rx) {
        end = rooms[0];
        CHECK_INT(take(rx, 0, 304, 0, rooms[0], 1000, &end), 0);
        CHECK_INT(take(rx, 0, 304, 1, rooms[0], 1000, &end), NIGH_DONE_RELEASED);
        end = rooms[1];
        CHECK_INT(take(rx, 1, 304, 2, rooms[1], 1000, &end), 0);
        CHECK_INT(take(rx, 1, 304, 3, rooms[1], 1000, &end), NIGH_DONE_RELEASED);
    }
    for (uint32_t i = 0; tx && i < 4; i++)
        pair_sent(tx, 50 + i, 304);
}

/* A message that is larger than what is left is cut there, and ends the buffer. */
static void too_long(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number;
    uint8_t *room = rx ? data_room(512) : NULL;
    struct nigh_completion done;

    if (rx)
        post_multi(rx, room, 512, 1, 1);
    pair_meet();
    if (tx) {
        pair_send(tx, data_filled(256, 1), 256, 3, 0, 50);
        pair_send(tx, data_filled(bytes, 2), bytes, 3, 0, 51);
    }
    if (rx) {
        CHECK_INT(pair_received(rx, 1, 256).flags, 0);
        done = pair_await(rx, NIGH_OP_RECV, 1);
        CHECK_INT(done.status, -EMSGSIZE);
        CHECK_INT(done.bytes, bytes);
        CHECK_INT(done.flags, NIGH_DONE_RELEASED);
        CHECK(done.data == room + 256);
        data_check(room, 256, 1, 0);
        data_check(room + 256, 256, 2, 0);
        data_check_rest(room, 512, 512);
    }
    if (tx) {
        pair_sent(tx, 50, 256);
        pair_sent(tx, 51, bytes);
    }
}

/* Large messages that arrive side by side: the buffer is given back with the one that ends last. */
static void side_by_side(struct pair *pair)
{
    static const uint64_t sizes[] = {300000, 8, 200000, 0, 70001, 40, 150000, 600};
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t total = 0;
    uint8_t *room, *from;
    void *heap;

    for (uint32_t i = 0; i < 8; i++)
        total += (sizes[i] + 7) / 8 * 8;
    room = rx ? data_room(total) : NULL;
    if (rx)
        post_multi(rx, room, total, 600, 1);
    pair_meet();
    for (uint32_t i = 0; tx && i < 8; i++) {
        from = data_filled(sizes[i], i);
        if (i % 4 == 2) {
            CHECK_INT(nigh->heap_alloc(tx->context, sizes[i], &heap), 0);
            from = memcpy(heap, from, sizes[i]);
        }
        pair_send(tx, from, sizes[i], 3, 0, 50 + i);
    }
    for (uint32_t i = 0, at = 0; rx && i < 8; i++) {
        struct nigh_completion done = pair_await(rx, NIGH_OP_RECV, 1);

        CHECK_INT(done.status, 0);
        CHECK_INT(done.flags, i == 7 ? NIGH_DONE_RELEASED : 0);
        for (at = 0; at < 8 && sizes[at] != done.bytes; at++)
            ;
        CHECK(at < 8);
        data_check(done.data, done.bytes, at, 0);
    }
    for (uint32_t i = 0; tx && i < 8; i++)
        pair_sent(tx, 50 + i, sizes[i]);
}

static void cancelled(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_completion done;
    uint8_t *room = rx ? data_room(4096) : NULL;

    if (rx)
        post_multi(rx, room, 4096, 1, 1);
    pair_meet();
    if (tx) {
        pair_send(tx, data_filled(100, 1), 100, 3, 0, 50);
        pair_sent(tx, 50, 100);
    }
    if (rx) {
        CHECK_INT(pair_received(rx, 1, 100).flags, 0);
        CHECK_INT(nigh->cancel(rx->context, 1), 0);
        done = pair_await(rx, NIGH_OP_RECV, 1);
        CHECK_INT(done.status, -ECANCELED);
        CHECK_INT(done.flags, NIGH_DONE_RELEASED);
        CHECK_INT(nigh->cancel(rx->context, 1), -ENOENT);
    }
}

/* Taken back while a message still arrives in it: that one arrives whole, then the buffer is the host's. */
static void cancelled_in_the_middle(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = 8 << 20;
    uint8_t *room = data_room(2 * bytes);
    struct nigh_completion done;

    /* What is counted as sent before the ends are attached has not left. */
    pair_state(tx, NIGH_READY);
    pair_state(rx, NIGH_READY);
    post_multi(rx, room, 2 * bytes, 1, 1);
    pair_send(tx, data_filled(bytes, 4), bytes, 3, 0, 50);
    while (pair_facts(rx).posted == 0 || !(pair_stats(tx).chunked_sent + pair_stats(tx).cma_sent))
        pair_pump();
    pair_pump();
    CHECK_INT(nigh->cancel(rx->context, 1), 0);
    done = pair_received(rx, 1, bytes);
    data_check(room, bytes, 4, 0);
    CHECK_INT(done.flags, 0);
    done = pair_await(rx, NIGH_OP_RECV, 1);
    CHECK_INT(done.status, -ECANCELED);
    CHECK_INT(done.flags, NIGH_DONE_RELEASED);
    pair_sent(tx, 50, bytes);
}

/* A thousand small messages through two buffers that are posted again whenever they come back. */
static void stream(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t *rooms[2];
    uint32_t got = 0;
    uint64_t *words = (uint64_t *)(void *)data_room(8 * 1000);
    struct nigh_completion done;

    for (uint32_t i = 0; rx && i < 2; i++) {
        rooms[i] = data_room(256);
        post_multi(rx, rooms[i], 256, 8, i);
    }
    pair_meet();
    for (uint32_t i = 0; tx && i < 1000; i++) {
        words[i] = i;
        pair_send(tx, &words[i], 8, 3, NIGH_SILENT, 50);
    }
    for (; rx && got < 1000; got++) {
        done = pair_next(rx, NIGH_OP_RECV);
        CHECK_INT(done.status, 0);
        CHECK_INT(*(uint64_t *)done.data, got);
        if (done.flags & NIGH_DONE_RELEASED)
            post_multi(rx, rooms[done.context], 256, 8, done.context);
    }
    for (uint32_t i = 0; rx && i < 2; i++) {
        CHECK_INT(nigh->cancel(rx->context, i), 0);
        CHECK_INT(pair_await(rx, NIGH_OP_RECV, i).status, -ECANCELED);
    }
}

#define LATER (UINT64_C(1) << 32)

static const struct pair_case cases[] = {
    {.name = "fill, 8 bytes", .play = fill, .number = 8},
    {.name = "fill, 8 bytes, later", .play = fill, .number = 8 | LATER},
    {.name = "fill, 1001 bytes", .play = fill, .number = 1001},
    {.name = "fill, 5000 bytes", .play = fill, .number = 5000},
    {.name = "fill, 5000 bytes, later", .play = fill, .number = 5000 | LATER},
    {.name = "fill, 100000 bytes", .play = fill, .number = 100000},
    {.name = "fill, 100000 bytes, later", .play = fill, .number = 100000 | LATER},
    {.name = "min_free", .play = min_free},
    {.name = "too long, a body", .play = too_long, .number = 257},
    {.name = "too long, pieces", .play = too_long, .number = 3000},
    {.name = "too long, with grant", .play = too_long, .number = 100000},
    {.name = "side by side", .play = side_by_side},
    {.name = "cancelled", .play = cancelled},
    {.name = "cancelled in the middle", .play = cancelled_in_the_middle, .forms = PAIR_TWO | PAIR_SELF},
    {.name = "a stream", .play = stream},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A message that is longer than its receive: -EMSGSIZE with the full length, what fits is written and nothing beyond
 * it, the sender is content, and the next message is not disturbed. By every path. */
#include "tests/support/data.h"
#include "tests/support/pair.h"

#define LATE_RECV 1u
#define HEAP_FROM 2u
#define LEND      4u
#define SYNC      8u
#define CLAIM     16u

static const struct nigh_ops *nigh;

static const struct {
    uint64_t sent, room;
} sizes[] = {{1, 0},          {8, 7},         {40, 39},           {41, 40},        {1024, 1},
             {1024, 1023},    {2088, 64},     {4096, 4095},       {4096, 0},       {40000, 100},
             {40000, 39999},  {65536, 1},     {65537, 65536},     {65537, 100},    {200000, 0},
             {200000, 70000}, {2000000, 199}, {2000000, 1999999}, {2000000, 70001}};

static void send_long(struct pair_end *tx, uint64_t bytes, uint64_t id, uint64_t number)
{
    void *from = NULL;

    if (number & (HEAP_FROM | LEND)) {
        CHECK_INT(nigh->heap_alloc(tx->context, bytes, &from), 0);
        data_fill(from, bytes, id);
    } else {
        from = data_filled(bytes, id);
    }
    if (number & LEND) {
        struct nigh_lend lend = {
            .size = sizeof(lend), .buffer = from, .bytes = bytes, .tag = id, .context = id};

        CHECK_INT(nigh->post_lend(tx->peer, &lend), 0);
    } else {
        pair_send(tx, from, bytes, id, number & SYNC ? NIGH_SYNC : 0, id);
    }
}

static void post_short(struct pair_end *rx, uint8_t *to, uint64_t room, uint64_t id, uint64_t number)
{
    struct nigh_recv recv = pair_a_recv(room ? to : NULL, room, 0, id);
    struct nigh_completion found;
    struct nigh_message *message;

    if (!(number & CLAIM)) {
        pair_recv(rx, room ? to : NULL, room, id, id);
        return;
    }
    CHECK_INT(nigh->probe(rx->context, rx->peer, id, 0, 0, &found, &message), 0);
    CHECK_INT(nigh->claim(rx->context, message, &recv), 0);
}

static void cut(struct pair *pair, uint64_t sent, uint64_t room, uint64_t id)
{
    uint64_t number = pair->of->number;
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_completion done;
    uint8_t *to = rx ? data_room(room + 128) : NULL;

    if (rx && !(number & LATE_RECV))
        post_short(rx, to, room, id, number);
    pair_meet();
    if (tx)
        send_long(tx, sent, id, number);
    if (rx && number & LATE_RECV) {
        pair_unexpected(rx, 1);
        post_short(rx, to, room, id, number);
    }
    if (tx) {
        done = pair_await(tx, number & LEND ? NIGH_OP_LEND : NIGH_OP_SEND, id);
        CHECK_INT(done.status, 0);
        CHECK_INT(done.bytes, sent);
    }
    if (rx) {
        done = pair_await(rx, NIGH_OP_RECV, id);
        CHECK_INT(done.status, -EMSGSIZE);
        CHECK_INT(done.bytes, sent);
        CHECK_INT(done.flags & NIGH_DONE_CUT, NIGH_DONE_CUT);
        CHECK_INT((uintptr_t)done.data, room);
        CHECK_INT(done.tag, id);
        data_check(to, room, id, 0);
        data_check_rest(to, room, room + 128);
    }
    pair_meet();
}

static void all(struct pair *pair)
{
    struct pair_end *rx = pair->end[1];
    uint32_t count = sizeof(sizes) / sizeof(sizes[0]);

    for (uint32_t i = 0; i < count; i++)
        cut(pair, sizes[i].sent, sizes[i].room, 100 + i);
    if (rx)
        CHECK_INT(pair_stats(rx).truncated, count);
}

#define CASE(title, n, p)                                                    \
    {                                                                        \
        .name = title, .play = all, .number = (n), .options = {.path = (p)}, \
    }

static const struct pair_case cases[] = {
    CASE("plain", 0, NULL),
    CASE("plain, receive later", LATE_RECV, NULL),
    CASE("synchronous", SYNC, NULL),
    CASE("synchronous, receive later", SYNC | LATE_RECV, NULL),
    CASE("out of the heap", HEAP_FROM, "heap"),
    CASE("out of the heap, receive later", HEAP_FROM | LATE_RECV, "heap"),
    CASE("heap memory in chunks", HEAP_FROM, "chunked"),
    CASE("lent", LEND, NULL),
    CASE("lent, receive later", LEND | LATE_RECV, NULL),
    CASE("cma", 0, "cma"),
    CASE("cma, receive later", LATE_RECV, "cma"),
    CASE("claimed", LATE_RECV | CLAIM, NULL),
    CASE("claimed, lent", LATE_RECV | CLAIM | LEND, NULL),
    CASE("claimed, synchronous", LATE_RECV | CLAIM | SYNC, NULL),
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory that is lent where something is in the way: other memory at the same address, more lends than are kept for a peer,
 * memory that is given up while it is held, a receiver that leaves. On the fake driver. */
#include "tests/support/data.h"
#include "tests/support/device_buffer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 300000, ROUNDS = 20, MANY = 200, MS = 1000000 };

static const struct nigh_ops *nigh;

/* Both know each other, and the receiver's device. `to` is memory there. */
static void begin(struct pair *pair, struct buffer *from, struct buffer *to)
{
    device_ready(pair);
    if (pair->end[1]) {
        *to = buffer_make(pair, RECEIVER, ROOM);
        device_say(pair, to);
    }
    if (pair->end[0]) {
        *from = buffer_make(pair, SENDER, ROOM);
        buffer_fill(from, ROOM, 5);
    }
    pair_meet();
}

static void lend(struct pair *pair, const struct buffer *from, struct nigh_region *region, uint64_t tag)
{
    struct nigh_lend post = {.size = sizeof(post),
                             .flags = NIGH_DEVICE,
                             .buffer = from->at,
                             .bytes = from->bytes,
                             .tag = tag,
                             .context = tag,
                             .region = region};

    CHECK_INT(nigh->post_lend(pair->end[0]->peer, &post), 0);
}

static void want(struct pair *pair, const struct buffer *to, uint64_t tag)
{
    struct nigh_recv recv = pair_a_recv(to->at, ROOM, tag, 200 + tag);

    recv.flags = NIGH_IN_PLACE | NIGH_DEVICE;
    CHECK_INT(nigh->post_recv(pair->end[1]->context, pair->end[1]->peer, &recv), 0);
}

static void *comes(struct pair *pair, uint64_t bytes, uint64_t tag, uint64_t seed)
{
    struct nigh_completion done = pair_await(pair->end[1], NIGH_OP_RECV, 200 + tag);
    uint8_t *seen = data_room(bytes);

    CHECK_INT(done.status, 0);
    CHECK_INT(done.bytes, bytes);
    cuda->get(seen, done.data, bytes);
    data_check(seen, bytes, seed, 0);
    return done.data;
}

static struct nigh_region *registered(struct pair *pair, const struct buffer *from)
{
    struct nigh_register what = {
        .size = sizeof(what), .flags = NIGH_REGISTER_DEVICE, .buffer = from->at, .bytes = from->bytes};
    struct nigh_region *region;
    uint64_t key;

    CHECK_INT(nigh->register_memory(pair->end[0]->context, &what, &key, &region), 0);
    return region;
}

/* Freed and allocated anew, mostly at the same address: what was mapped before may have to be closed first, which takes a while. */
static void anew(struct pair *pair)
{
    struct buffer from, to;

    setenv("NIGH_FAKE_CUDA_DELAY", "cuIpcCloseMemHandle=5000", 1);
    begin(pair, &from, &to);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        if (pair->end[0])
            lend(pair, &from, NULL, i);
        if (pair->end[1]) {
            want(pair, &to, i);
            CHECK_INT(nigh->release(pair->end[1]->context, comes(pair, ROOM, i, 5 + i)), 0);
        }
        if (pair->end[0]) {
            CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, i).status, 0);
            buffer_drop(&from);
            from = buffer_make(pair, SENDER, ROOM);
            buffer_fill(&from, ROOM, 6 + i);
        }
    }
    device_end(pair, &from, &to);
}

/* From more registered buffers than lie ready at a peer, all wanted at once. */
static void many(struct pair *pair)
{
    struct buffer from[MANY] = {{0}}, first, to;
    struct nigh_region *region[MANY];
    void *held[MANY];

    begin(pair, &first, &to);
    for (uint64_t i = 0; pair->end[0] && i < MANY; i++) {
        from[i] = buffer_make(pair, SENDER, 70000);
        buffer_fill(&from[i], 70000, i);
        region[i] = registered(pair, &from[i]);
        lend(pair, &from[i], region[i], i);
    }
    if (pair->end[1]) {
        pair_unexpected(pair->end[1], MANY);
        for (uint64_t i = 0; i < MANY; i++)
            want(pair, &to, i);
        for (uint64_t i = 0; i < MANY; i++)
            held[i] = comes(pair, 70000, i, i);
        for (uint64_t i = 0; i < MANY; i++)
            CHECK_INT(nigh->release(pair->end[1]->context, held[i]), 0);
    }
    for (uint64_t i = 0; pair->end[0] && i < MANY; i++)
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, i).status, 0);
    pair_meet();
    for (uint64_t i = 0; pair->end[0] && i < MANY; i++) {
        CHECK_INT(nigh->deregister(pair->end[0]->context, region[i]), 0);
        buffer_drop(&from[i]);
    }
    device_end(pair, &first, &to);
}

/* There is nothing to come: a wait sleeps. */
static void sleeps(struct pair_end *end)
{
    uint64_t before;

    pair_pump_ms(5);
    before = pair_stats(end).sleeps;
    CHECK_INT(nigh->wait(end->context, (uint64_t)50 * MS), -ETIMEDOUT);
    CHECK(pair_stats(end).sleeps > before);
}

/* Its memory is deregistered, or given up for others', while it is held: it stays, its holder can sleep, and it goes at last. */
static void given_up(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer from, to;
    void *held = NULL;

    begin(pair, &from, &to);
    if (pair->end[1])
        want(pair, &to, 1);
    pair_meet();
    if (pair->end[0]) {
        region = registered(pair, &from);
        lend(pair, &from, region, 1);
    }
    if (pair->end[1])
        held = comes(pair, ROOM, 1, 5);
    pair_meet();
    if (pair->end[0])
        CHECK_INT(nigh->deregister(pair->end[0]->context, region), 0);
    pair_meet();
    if (pair->end[1]) {
        uint8_t *seen = data_room(ROOM);

        sleeps(pair->end[1]);
        cuda->get(seen, held, ROOM);
        data_check(seen, ROOM, 5, 0);
        CHECK_INT(nigh->release(pair->end[1]->context, held), 0);
        sleeps(pair->end[1]);
    }
    if (pair->end[0])
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 1).status, 0);
    device_end(pair, &from, &to);
}

/* In the middle of a copy of what was lent. */
static void leaves_copying(struct pair *pair)
{
    struct buffer from, to;

    begin(pair, &from, &to);
    if (pair->end[1])
        buffer_recv(pair, &to, ROOM, 1, 2);
    pair_meet();
    if (pair->end[0])
        lend(pair, &from, NULL, 1);
    pair_meet();
    if (pair->end[1]) {
        pair_pump_ms(20);
        pair_disconnect(pair->end[1]);
        CHECK_INT(pair_await(pair->end[1], NIGH_OP_RECV, 2).status, -ECANCELED);
    }
    if (pair->end[0])
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 1).status, -ECONNRESET);
    device_end(pair, &from, &to);
}

/* While a lend is waited for that is to be brought again, by a lender that makes no progress. */
static void leaves_waiting(struct pair *pair)
{
    struct buffer from, to;

    begin(pair, &from, &to);
    if (pair->end[1]) {
        cuda->fail_once("cuMemImportFromShareableHandle", 0);
        want(pair, &to, 1);
    }
    pair_meet();
    if (pair->end[0]) {
        lend(pair, &from, NULL, 1);
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 1).status, -EOPNOTSUPP);
    }
    if (pair->end[1])
        CHECK_INT(pair_await(pair->end[1], NIGH_OP_RECV, 201).status, -EOPNOTSUPP);
    pair_meet();
    if (pair->end[0]) {
        lend(pair, &from, NULL, 2);
        pair->shared[0] = 1;
        for (uint32_t i = 0; !pair->shared[1] && i < 10000; i++)
            usleep(1000);
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 2).status, -ECONNRESET);
    }
    if (pair->end[1]) {
        while (!pair->shared[0])
            usleep(1000);
        want(pair, &to, 2);
        pair_pump_ms(20);
        pair_disconnect(pair->end[1]);
        CHECK_INT(pair_await(pair->end[1], NIGH_OP_RECV, 202).status, -ECANCELED);
        sleeps(pair->end[1]);
        pair->shared[1] = 1;
    }
    device_end(pair, &from, &to);
}

/* With NIGH_DEVICE the buffer may be the host's, as its region says. */
static void of_the_host(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer from = {.bytes = 5000};
    void *block = NULL;

    if (pair->end[1])
        pair_recv(pair->end[1], data_room(5000), 5000, 1, 2);
    if (pair->end[0]) {
        struct nigh_register what = {.size = sizeof(what), .flags = NIGH_REMOTE_READ, .bytes = 5000};
        uint64_t key;

        CHECK_INT(nigh->heap_alloc(pair->end[0]->context, 5000, &block), 0);
        what.buffer = from.at = block;
        CHECK_INT(nigh->register_memory(pair->end[0]->context, &what, &key, &region), 0);
        lend(pair, &from, region, 1);
    }
    if (pair->end[1])
        pair_received(pair->end[1], 2, 5000);
    if (pair->end[0]) {
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 1).status, 0);
        CHECK_INT(nigh->deregister(pair->end[0]->context, region), 0);
        CHECK_INT(nigh->heap_free(pair->end[0]->context, block), 0);
    }
}

/* In one process: what runs on another device does not reach memory of a context, nor such that is mapped for one device. */
static void across(struct pair *pair)
{
    struct buffer from, to, other = {.bytes = ROOM, .on_device = true};
    int near = pair->of->number >> 8 == MEMORY_MANAGED ? 0 : -EOPNOTSUPP;

    begin(pair, &from, &to);
    other.at = cuda->alloc(MEMORY_PLAIN, 0, ROOM);
    want(pair, &other, 1);
    lend(pair, &from, NULL, 1);
    CHECK_INT(pair_await(pair->end[1], NIGH_OP_RECV, 201).status, near);
    if (!near)
        CHECK_INT(nigh->release(pair->end[1]->context, from.at), 0);
    CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 1).status, near);
    buffer_recv(pair, &other, ROOM, 2, 2);
    lend(pair, &from, NULL, 2);
    pair_received(pair->end[1], 2, ROOM);
    CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 2).status, 0);
    buffer_check(&other, 0, ROOM, 5);
    want(pair, &to, 3);
    lend(pair, &from, NULL, 3);
    CHECK_INT(nigh->release(pair->end[1]->context, comes(pair, ROOM, 3, 5)), 0);
    CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 3).status, 0);
    CHECK_INT(pair_stats(pair->end[0]).chunked_sent, pair->of->number >> 8 == MEMORY_MAPPED);
    buffer_drop(&other);
    device_end(pair, &from, &to);
}

#define FRESH    .forms = PAIR_FORK, .how = PAIR_FRESH
#define OF(kind) .number = SENDER | RECEIVER | KIND(kind)
static const struct pair_case cases[] = {
    {.name = "anew", .play = anew, FRESH, OF(MEMORY_PLAIN)},
    {.name = "many", .play = many, FRESH, OF(MEMORY_MAPPED)},
    {.name = "given up", .play = given_up, FRESH, OF(MEMORY_MAPPED)},
    {.name = "leaves copying",
     .play = leaves_copying,
     FRESH | PAIR_LOOSE,
     OF(MEMORY_MAPPED),
     .data = "500000"},
    {.name = "leaves waiting", .play = leaves_waiting, FRESH | PAIR_LOOSE, OF(MEMORY_MAPPED)},
    {.name = "across, cuMemAlloc", .play = across, .forms = PAIR_SELF, .how = PAIR_FRESH, OF(MEMORY_PLAIN)},
    {.name = "across, cuMemMap", .play = across, .forms = PAIR_SELF, .how = PAIR_FRESH, OF(MEMORY_MAPPED)},
    {.name = "across, managed", .play = across, .forms = PAIR_SELF, .how = PAIR_FRESH, OF(MEMORY_MANAGED)},
    {.name = "of the host", .play = of_the_host},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}

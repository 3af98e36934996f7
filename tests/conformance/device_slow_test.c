/* SPDX-License-Identifier: BSD-3-Clause */
/* Device buffers where the device takes its time: many messages at once, ends and cancels while copies are under way, what waits for what.
 * On the fake driver, whose work begins some milliseconds after it was asked for. */
#include "tests/support/data.h"
#include "tests/support/device_buffer.h"

#include <stdlib.h>
#include <unistd.h>

#define DELAY_US "4000"

enum { ROOM = (6 << 20) + 4096, LONG = 1 << 20 };

static const struct nigh_ops *nigh;

/* More arrive at once than there are blocks, in pieces that end in the middle of a slot. */
static void many_at_once(struct pair *pair)
{
    enum { COUNT = 20 };
    struct buffer to[COUNT] = {0};
    uint8_t *room = data_room(5000);

    for (uint32_t i = 0; i < COUNT && pair->end[1]; i++) {
        to[i] = buffer_make(pair, RECEIVER, LONG);
        buffer_recv(pair, &to[i], LONG, i, 100 + i);
        pair_recv(pair->end[1], room, 5000, 1000 + i, 200 + i);
    }
    pair_meet();
    for (uint32_t i = 0; i < COUNT && pair->end[0]; i++) {
        pair_send(pair->end[0], data_filled(LONG, i), LONG, i, 0, i);
        pair_send(pair->end[0], data_filled(5000, i), 5000, 1000 + i, 0, 50 + i);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        if (pair->end[1]) {
            pair_received(pair->end[1], 100 + i, LONG);
            pair_received(pair->end[1], 200 + i, 5000);
            buffer_check(&to[i], 0, LONG, i);
            buffer_drop(&to[i]);
        }
        if (pair->end[0]) {
            pair_sent(pair->end[0], i, LONG);
            pair_sent(pair->end[0], 50 + i, 5000);
        }
    }
    pair_meet();
}

/* What a peer had sent before it left can be received behind that, to a device, too. */
static void peer_has_left(struct pair *pair)
{
    static const uint64_t lengths[] = {30, 4000, 50000};
    struct pair_end *end = pair->end[0] ? pair->end[0] : pair->end[1];

    pair_open(end);
    pair_meet();
    pair_connect(end);
    pair_meet();
    for (uint64_t i = 0; i < 3 && pair->end[0]; i++) {
        pair_send(pair->end[0], data_filled(lengths[i], i), lengths[i], i, 0, i);
        pair_sent(pair->end[0], i, lengths[i]);
    }
    if (pair->end[1])
        pair_unexpected(pair->end[1], 3);
    pair_meet();
    if (pair->end[0]) {
        pair_disconnect(pair->end[0]);
        pair_close(pair->end[0]);
    }
    pair_meet();
    for (uint64_t i = 0; i < 3 && pair->end[1]; i++) {
        struct buffer to = buffer_make(pair, RECEIVER, ROOM);

        pair_state(pair->end[1], NIGH_PEER_CLOSED);
        buffer_recv(pair, &to, ROOM, i, 2);
        pair_received(pair->end[1], 2, lengths[i]);
        buffer_check(&to, 0, lengths[i], i);
        buffer_drop(&to);
    }
    if (pair->end[1])
        pair_close(pair->end[1]);
}

/* A get that is cancelled writes nothing afterwards. */
static void cancelled_get(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer local = {0};

    if (pair->end[1]) {
        uint8_t *room = data_filled(ROOM, 1);
        struct nigh_register what = {
            .size = sizeof(what), .flags = NIGH_REMOTE_READ, .buffer = room, .bytes = ROOM};
        uint64_t key = 0;

        CHECK_INT(nigh->register_memory(pair->end[1]->context, &what, &key, &region), 0);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[0])
        local = buffer_make(pair, SENDER, ROOM);
    for (unsigned i = 0; i < 12 && pair->end[0]; i++) {
        struct nigh_rma rma = {.size = sizeof(rma),
                               .flags = NIGH_DEVICE,
                               .buffer = local.at,
                               .bytes = 100000,
                               .key = pair->shared[0],
                               .context = 7};
        struct nigh_completion done;
        int rc;

        CHECK_INT(nigh->post_get(pair->end[0]->peer, &rma), 0);
        pair_pump_ms(i);
        rc = nigh->cancel(pair->end[0]->context, 7);
        done = pair_await(pair->end[0], NIGH_OP_GET, 7);
        CHECK(!done.status || (!rc && done.status == -ECANCELED));
        buffer_fill(&local, 100000, 9);
        pair_pump_ms(15);
        buffer_check(&local, 0, 100000, 9);
    }
    pair_meet();
    if (pair->end[0])
        buffer_drop(&local);
    else
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
}

/* An injected send while messages that are copied as a whole have all blocks. */
static void injected_meanwhile(struct pair *pair)
{
    enum { COUNT = 5, BYTES = 4 << 20 };
    struct buffer to[COUNT] = {0}, own = {0};
    void *block[COUNT];
    uint8_t *small = data_room(64);

    if (pair->end[1]) {
        own = buffer_make(pair, RECEIVER, 4096);
        buffer_fill(&own, 64, 7);
    }
    for (uint32_t i = 0; i < COUNT && pair->end[1]; i++) {
        to[i] = buffer_make(pair, RECEIVER, BYTES);
        buffer_recv(pair, &to[i], BYTES, i, 100 + i);
    }
    if (pair->end[0])
        pair_recv(pair->end[0], small, 64, 9, 60);
    pair_meet();
    for (uint32_t i = 0; i < COUNT && pair->end[0]; i++) {
        CHECK_INT(nigh->heap_alloc(pair->end[0]->context, BYTES, &block[i]), 0);
        data_fill(block[i], BYTES, i);
        pair_send(pair->end[0], block[i], BYTES, i, 0, i);
    }
    if (pair->end[1]) {
        struct nigh_send post = pair_a_send(own.at, 64, 9, 50);
        unsigned before = cuda->calls("cuMemcpyHtoDAsync_v2");

        while (cuda->calls("cuMemcpyHtoDAsync_v2") - before < 16)
            pair_pump();
        post.flags = NIGH_DEVICE | NIGH_INJECT;
        CHECK_INT(nigh->post_send(pair->end[1]->peer, &post), 0);
        pair_sent(pair->end[1], 50, 64);
    }
    for (uint32_t i = 0; i < COUNT && pair->end[1]; i++) {
        pair_received(pair->end[1], 100 + i, BYTES);
        buffer_check(&to[i], 0, BYTES, i);
        buffer_drop(&to[i]);
    }
    if (pair->end[1])
        buffer_drop(&own);
    if (pair->end[0]) {
        pair_received(pair->end[0], 60, 64);
        data_check(small, 64, 7, 0);
    }
    for (uint32_t i = 0; i < COUNT && pair->end[0]; i++) {
        pair_sent(pair->end[0], i, BYTES);
        CHECK_INT(nigh->heap_free(pair->end[0]->context, block[i]), 0);
    }
    pair_meet();
}

/* A put of which a part cannot be read ends with that, whatever the target says; then wait() sleeps, and blocks are there again. */
static void failed_put(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer from = {0};

    if (pair->end[1]) {
        uint8_t *room = data_room(ROOM);
        struct nigh_register what = {
            .size = sizeof(what), .flags = NIGH_REMOTE_WRITE, .buffer = room, .bytes = ROOM};
        uint64_t key = 0;

        CHECK_INT(nigh->register_memory(pair->end[1]->context, &what, &key, &region), 0);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[0]) {
        struct nigh_rma rma = {
            .size = sizeof(rma), .flags = NIGH_DEVICE, .bytes = ROOM, .key = pair->shared[0], .context = 7};
        uint64_t sleeps;

        from = buffer_make(pair, SENDER, ROOM);
        rma.buffer = from.at;
        for (int i = 0; i < 20; i++) {
            cuda->fail_once("cuMemcpyDtoHAsync_v2", 1);
            CHECK_INT(nigh->post_put(pair->end[0]->peer, &rma), 0);
            CHECK_INT(pair_await(pair->end[0], NIGH_OP_PUT, 7).status, -EIO);
        }
        sleeps = pair_stats(pair->end[0]).sleeps;
        CHECK_INT(nigh->wait(pair->end[0]->context, 300000000), -ETIMEDOUT);
        CHECK(pair_stats(pair->end[0]).sleeps > sleeps);
        CHECK_INT(nigh->post_put(pair->end[0]->peer, &rma), 0);
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_PUT, 7).status, 0);
        buffer_drop(&from);
    }
    pair_meet();
    if (pair->end[1])
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
}

/* Puts that come faster than the device takes them: all are right, the last wins. */
static void many_puts(struct pair *pair)
{
    enum { COUNT = 200, BYTES = 60000 };
    struct nigh_region *region = NULL;
    struct buffer room = {0};

    if (pair->end[1]) {
        struct nigh_register what = {.size = sizeof(what),
                                     .flags = NIGH_REMOTE_WRITE | NIGH_REGISTER_DEVICE,
                                     .bytes = (uint64_t)COUNT * BYTES};
        uint64_t key = 0;

        room = buffer_make(pair, RECEIVER, (uint64_t)COUNT * BYTES);
        what.buffer = room.at;
        CHECK_INT(nigh->register_memory(pair->end[1]->context, &what, &key, &region), 0);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[0]) {
        struct nigh_rma rma = {.size = sizeof(rma), .bytes = BYTES, .key = pair->shared[0]};
        uint8_t *all = data_filled((uint64_t)COUNT * BYTES, 4);

        for (uint64_t i = 0; i < COUNT; i++) {
            rma.context = i;
            rma.offset = i * BYTES;
            rma.buffer = all + i * BYTES;
            CHECK_INT(nigh->post_put(pair->end[0]->peer, &rma), 0);
        }
        for (uint64_t i = 0; i < COUNT; i++)
            CHECK_INT(pair_await(pair->end[0], NIGH_OP_PUT, i).status, 0);
    }
    pair_meet();
    if (pair->end[1]) {
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
        buffer_check(&room, 0, (uint64_t)COUNT * BYTES, 4);
        buffer_drop(&room);
    }
}

/* Either side closes while copies are under way: its buffers are its own then. */
static void closed_meanwhile(struct pair *pair)
{
    struct buffer from = {0}, to = {0};
    struct pair_end *end = pair->end[0] ? pair->end[0] : pair->end[1];

    pair_open(end);
    pair_meet();
    pair_connect(end);
    pair_meet();
    if (pair->end[0]) {
        from = buffer_make(pair, SENDER, ROOM);
        buffer_fill(&from, ROOM, 3);
        for (uint64_t i = 0; i < 6; i++)
            buffer_send(pair, &from, ROOM, i, 0, i);
        pair_pump_ms(12);
        pair_close(pair->end[0]);
        buffer_fill(&from, ROOM, 4); /* nobody reads or writes it any more */
        usleep(20000);
        buffer_check(&from, 0, ROOM, 4);
        buffer_drop(&from);
    }
    if (pair->end[1]) {
        to = buffer_make(pair, RECEIVER, ROOM);
        for (uint64_t i = 0; i < 6; i++)
            buffer_recv(pair, &to, ROOM, i, 10 + i);
        pair_pump_ms(10);
        pair_close(pair->end[1]);
        buffer_fill(&to, ROOM, 5);
        usleep(20000);
        buffer_check(&to, 0, ROOM, 5);
        buffer_drop(&to);
    }
    pair_meet();
}

#define OWN PAIR_FRESH
static const struct pair_case cases[] = {
    {.name = "many at once",
     .play = many_at_once,
     .forms = PAIR_FORK | PAIR_TWO,
     .how = OWN,
     .number = RECEIVER},
    {.name = "the peer has left",
     .play = peer_has_left,
     .forms = PAIR_FORK,
     .how = OWN | PAIR_MANUAL,
     .number = RECEIVER},
    {.name = "a cancelled get", .play = cancelled_get, .forms = PAIR_FORK, .how = OWN, .number = SENDER},
    {.name = "injected meanwhile",
     .play = injected_meanwhile,
     .forms = PAIR_FORK,
     .how = OWN,
     .number = RECEIVER},
    {.name = "a put that fails", .play = failed_put, .forms = PAIR_FORK, .how = OWN, .number = SENDER},
    {.name = "many puts",
     .play = many_puts,
     .forms = PAIR_FORK | PAIR_THREADS,
     .how = OWN,
     .number = RECEIVER},
    {.name = "closed meanwhile",
     .play = closed_meanwhile,
     .forms = PAIR_FORK,
     .how = OWN | PAIR_MANUAL | PAIR_LOOSE,
     .number = SENDER | RECEIVER},
};

int main(int argc, char **argv)
{
    setenv("NIGH_FAKE_CUDA_DELAY_US", DELAY_US, 1);
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets between device buffers of two processes, which the side that has the place copies: when either side
 * goes in the middle, and when a region may be deregistered. On the fake driver. */
#include "tests/support/data.h"
#include "tests/support/device_buffer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 20, PART = 70000, BEHIND = 100, FEW = 8 };

static const struct nigh_ops *nigh;
/* Connected, and both have said which devices they use. */
static void begin(struct pair *pair)
{
    struct buffer any;

    for (uint32_t i = 0; i < 2; i++)
        if (pair->end[i]) {
            pair_open(pair->end[i]);
            pair_connect(pair->end[i]);
            pair_state(pair->end[i], NIGH_READY);
            if (pair->of->data)
                setenv("NIGH_FAKE_CUDA_DELAY_US", pair->of->data, 1);
            any = buffer_make(pair, SENDER, 64);
            CHECK_INT(nigh->copy_device(pair->end[i]->context, NULL, any.at, data_room(8), 8, NIGH_COPY_OUT),
                      0);
            buffer_drop(&any);
        }
    pair_meet();
}

static void end(struct pair *pair)
{
    pair_meet();
    for (uint32_t i = 0; i < 2; i++)
        if (pair->end[i])
            pair_close(pair->end[i]);
}

static struct nigh_region *region_of(struct pair *pair, unsigned side, const struct buffer *buffer,
                                     uint64_t *key)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE | NIGH_REGISTER_DEVICE,
                                 .buffer = buffer->at,
                                 .bytes = buffer->bytes};
    struct nigh_region *region;

    CHECK_INT(nigh->register_memory(pair->end[side]->context, &what, key, &region), 0);
    return region;
}

static int post(struct pair *pair, enum nigh_op op, const struct buffer *local, uint64_t bytes, uint64_t key,
                uint64_t context)
{
    struct nigh_rma rma = {.size = sizeof(rma),
                           .flags = NIGH_DEVICE,
                           .buffer = local->at,
                           .bytes = bytes,
                           .key = key,
                           .context = context};
    struct nigh_endpoint *peer = pair->end[0]->peer;

    return op == NIGH_OP_PUT ? nigh->post_put(peer, &rma) : nigh->post_get(peer, &rma);
}

/* ---- in the middle ------------------------------------------------------------------------------------- */

/* One side leaves in the middle of copies. What is the host's again nobody writes to. */
static void leaves(struct pair *pair, unsigned who, enum nigh_op op)
{
    struct nigh_region *region = NULL;
    struct buffer local, remote;
    uint32_t failed = 0;
    uint64_t key;

    begin(pair);
    if (pair->end[1]) {
        remote = buffer_make(pair, RECEIVER, FEW * PART);
        region = region_of(pair, 1, &remote, &key);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[0]) {
        local = buffer_make(pair, SENDER, FEW * PART);
        for (uint64_t i = 0; i < FEW; i++) {
            struct buffer part = {.at = local.at + i * PART};

            CHECK_INT(post(pair, op, &part, PART, pair->shared[0], i), 0);
        }
    }
    pair_meet();
    pair_pump_ms(4);
    if (pair->end[who])
        pair_disconnect(pair->end[who]);
    for (uint64_t i = 0; pair->end[0] && i < FEW; i++) {
        int status = pair_await(pair->end[0], op, i).status;

        if (status)
            CHECK_INT(status, who ? -ECONNRESET : -ECANCELED);
        failed += status != 0;
    }
    CHECK(!pair->end[0] || failed);
    if (pair->end[1]) {
        while (nigh->deregister(pair->end[1]->context, region) == -EBUSY)
            pair_pump();
        buffer_fill(&remote, FEW * PART, 9);
        usleep(20000);
        buffer_check(&remote, 0, FEW * PART, 9);
        buffer_drop(&remote);
    }
    if (pair->end[0]) {
        buffer_fill(&local, FEW * PART, 9);
        usleep(20000);
        buffer_check(&local, 0, FEW * PART, 9);
        buffer_drop(&local);
    }
    end(pair);
}

static void put_left_by_target(struct pair *pair)
{
    leaves(pair, 1, NIGH_OP_PUT);
}

static void put_left_by_initiator(struct pair *pair)
{
    leaves(pair, 0, NIGH_OP_PUT);
}

static void get_left_by_target(struct pair *pair)
{
    leaves(pair, 1, NIGH_OP_GET);
}

static void get_left_by_initiator(struct pair *pair)
{
    leaves(pair, 0, NIGH_OP_GET);
}

/* The initiator has its bytes and says so by other ways: the region is free then, however much lies in the ring before its answer. */
static void answered_late(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer local, remote;
    uint64_t key;

    begin(pair);
    if (pair->end[1]) {
        remote = buffer_make(pair, RECEIVER, ROOM);
        buffer_fill(&remote, ROOM, 5);
        region = region_of(pair, 1, &remote, &key);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[0]) {
        local = buffer_make(pair, SENDER, ROOM);
        CHECK_INT(post(pair, NIGH_OP_GET, &local, ROOM, pair->shared[0], 1), 0);
        pair->shared[1] = 1;
        while (!pair->shared[2])
            usleep(100);
        for (uint64_t i = 0; i < BEHIND; i++)
            pair_send(pair->end[0], data_filled(8, i), 8, i, NIGH_INJECT | NIGH_SILENT, 2);
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_GET, 1).status, 0);
        pair->shared[3] = 1;
    }
    if (pair->end[1]) {
        while (!pair->shared[1])
            usleep(100);
        for (uint32_t i = 0; i < 100; i++) /* it answers the get */
            pair_pump();
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), -EBUSY);
        pair->shared[2] = 1;
        while (!pair->shared[3])
            usleep(100);
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
        buffer_drop(&remote);
    }
    if (pair->end[0]) {
        buffer_check(&local, 0, ROOM, 5);
        buffer_drop(&local);
    }
    end(pair);
}

#define FRESH   .forms = PAIR_FORK, .how = PAIR_FRESH | PAIR_MANUAL | PAIR_LOOSE
#define MAPPED  (SENDER | RECEIVER | KIND(MEMORY_MAPPED))
#define DELAYED .data = "200000"
static const struct pair_case cases[] = {
    {.name = "the target leaves a put", .play = put_left_by_target, FRESH, .number = MAPPED, DELAYED},
    {.name = "the initiator leaves a put", .play = put_left_by_initiator, FRESH, .number = MAPPED, DELAYED},
    {.name = "the target leaves a get", .play = get_left_by_target, FRESH, .number = MAPPED, DELAYED},
    {.name = "the initiator leaves a get", .play = get_left_by_initiator, FRESH, .number = MAPPED, DELAYED},
    {.name = "answered late", .play = answered_late, FRESH, .number = MAPPED},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}

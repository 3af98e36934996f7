/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages from device memory that the receiver's device copies, where something runs short or comes at once: a put to memory that
 * is being deregistered, more copies than the driver's events, more buffers than are kept, two devices of one process. On the
 * fake driver. */
#include "tests/support/data.h"
#include "tests/support/device_buffer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ROOM = 1 << 20,
    LONG = 4 << 20,
    PART = 70000,
    MANY = 100,
    BUFFERS = 80,
    FEW = 8,
    TRIES = 3,
    SOON_MS = 700
};

static const struct nigh_ops *nigh;
static char told[4096];

static void keep(void *user, int level, const char *line)
{
    (void)user;
    (void)level;
    strncat(told, line, sizeof(told) - strlen(told) - 1);
}

static uint64_t now_ms(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/* Connected; the receiver says which devices it uses when it first posts there. */
static void begin(struct pair *pair, struct buffer *from, struct buffer *to, uint64_t bytes)
{
    for (uint32_t i = 0; i < 2 && pair->of->how & PAIR_MANUAL; i++)
        if (pair->end[i]) {
            pair_open(pair->end[i]);
            pair_connect(pair->end[i]);
        }
    device_ready(pair);
    if (pair->end[1]) {
        *to = buffer_make(pair, RECEIVER, bytes);
        device_say(pair, to);
    }
    if (pair->end[0])
        *from = buffer_make(pair, SENDER, bytes);
    pair_meet();
}

/* ---- deregistered ---- */

static struct nigh_region *registered(struct pair *pair, const struct buffer *from, uint64_t *key)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REGISTER_DEVICE | NIGH_REMOTE_WRITE,
                                 .buffer = from->at,
                                 .bytes = from->bytes};
    struct nigh_region *region;

    CHECK_INT(nigh->register_memory(pair->end[0]->context, &what, key, &region), 0);
    return region;
}

/* The owner waits for its peer to close what it has mapped; the peer puts there first. */
static void put_meanwhile(struct pair *pair)
{
    struct nigh_rma put = {.size = sizeof(put), .bytes = LONG, .context = 3};
    struct nigh_region *region = NULL;
    struct buffer from, to;
    struct nigh_send send;
    uint64_t key = 0;

    begin(pair, &from, &to, LONG);
    if (pair->end[0]) {
        region = registered(pair, &from, &key);
        pair->shared[0] = key;
        send = pair_a_send(from.at, ROOM, 1, 1);
        send.flags = NIGH_DEVICE;
        send.region = region;
    }
    if (pair->end[1])
        buffer_recv(pair, &to, ROOM, 1, 2);
    pair_meet();
    if (pair->end[0])
        CHECK_INT(nigh->post_send(pair->end[0]->peer, &send), 0);
    if (pair->end[1])
        pair_received(pair->end[1], 2, ROOM);
    if (pair->end[0])
        pair_sent(pair->end[0], 1, ROOM);
    pair_meet();
    if (pair->end[0]) {
        pair->shared[1] = 1;
        while (nigh->deregister(pair->end[0]->context, region) == -EBUSY)
            pair_pump();
        while (!pair->shared[2])
            pair_pump();
    } else {
        int status;

        while (!pair->shared[1])
            usleep(1000);
        usleep(50000); /* it waits by now, mostly */
        put.buffer = data_filled(LONG, 5);
        put.key = pair->shared[0];
        CHECK_INT(nigh->post_put(pair->end[1]->peer, &put), 0);
        status = pair_await(pair->end[1], NIGH_OP_PUT, 3).status;
        CHECK(status == -EACCES || !status);
        pair->shared[2] = 1;
    }
    device_end(pair, &from, &to);
}

/* ---- many at once ---- */

/* Copies that are waited for in a call go on while messages have all of the driver's events. */
static void crowded(struct pair *pair)
{
    struct buffer from, to, other = {0};
    uint8_t host[64] = {0};

    begin(pair, &from, &to, MANY * PART);
    if (pair->end[1]) {
        other = buffer_make(pair, RECEIVER, sizeof(host));
        for (uint64_t i = 0; i < MANY; i++) {
            struct nigh_recv recv = pair_a_recv(to.at + i * PART, PART, i, i);

            recv.flags = NIGH_DEVICE;
            CHECK_INT(nigh->post_recv(pair->end[1]->context, pair->end[1]->peer, &recv), 0);
        }
    }
    pair_meet();
    if (pair->end[0]) {
        buffer_fill(&from, PART, 3);
        for (uint64_t i = 0; i < MANY; i++)
            buffer_send(pair, &from, PART, i, 0, i);
    }
    for (uint32_t i = 0; pair->end[1] && i < 50; i++) {
        pair_pump();
        CHECK_INT(nigh->copy_device(pair->end[1]->context, NULL, other.at, host, sizeof(host), NIGH_COPY_IN),
                  0);
        pair_send(pair->end[1], other.at, sizeof(host), 7, NIGH_INJECT | NIGH_SILENT | NIGH_DEVICE, 7);
    }
    for (uint64_t i = 0; i < MANY; i++) {
        if (pair->end[1]) {
            pair_received(pair->end[1], i, PART);
            to.at += i * PART;
            buffer_check(&to, 0, PART, 3);
            to.at -= i * PART;
        }
        if (pair->end[0])
            pair_sent(pair->end[0], i, PART);
    }
    if (pair->end[1])
        buffer_drop(&other);
    device_end(pair, &from, &to);
}

/* From more buffers than are kept for peers, before any of them is received: none is waited for long. */
static void many_buffers(struct pair *pair)
{
    struct buffer from[BUFFERS] = {{0}}, first, to;
    uint64_t began;

    begin(pair, &first, &to, PART);
    for (uint64_t i = 0; pair->end[0] && i < BUFFERS; i++) {
        from[i] = buffer_make(pair, SENDER, PART);
        buffer_fill(&from[i], PART, i);
        buffer_send(pair, &from[i], PART, i, 0, i);
    }
    if (pair->end[1])
        pair_unexpected(pair->end[1], BUFFERS);
    pair_meet();
    began = now_ms();
    for (uint64_t i = 0; i < BUFFERS; i++) {
        if (pair->end[1]) {
            buffer_recv(pair, &to, PART, i, i);
            pair_received(pair->end[1], i, PART);
            buffer_check(&to, 0, PART, i);
        }
        if (pair->end[0])
            pair_sent(pair->end[0], i, PART);
    }
    /* Each that was lost would be waited for. */
    CHECK(now_ms() - began < BUFFERS / 8 * 1000);
    for (uint64_t i = 0; pair->end[0] && i < BUFFERS; i++)
        buffer_drop(&from[i]);
    device_end(pair, &first, &to);
}

/* ---- the receiver leaves ---- */

/* In the middle of copies: nobody writes to their places behind the receives' completions. */
static void receiver_leaves(struct pair *pair)
{
    struct buffer from, to;
    int status;

    begin(pair, &from, &to, FEW * PART);
    if (pair->end[1])
        for (uint64_t i = 0; i < FEW; i++) {
            struct nigh_recv recv = pair_a_recv(to.at + i * PART, PART, i, i);

            recv.flags = NIGH_DEVICE;
            CHECK_INT(nigh->post_recv(pair->end[1]->context, pair->end[1]->peer, &recv), 0);
        }
    pair_meet();
    if (pair->end[0]) {
        buffer_fill(&from, PART, 3);
        for (uint64_t i = 0; i < FEW; i++)
            buffer_send(pair, &from, PART, i, 0, i);
    }
    pair_meet();
    if (pair->end[1]) {
        pair_pump_ms(6);
        pair_disconnect(pair->end[1]);
        for (uint64_t i = 0; i < FEW; i++) {
            status = pair_await(pair->end[1], NIGH_OP_RECV, i).status;
            CHECK(!status || status == -ECANCELED);
        }
        buffer_fill(&to, FEW * PART, 9);
        usleep(20000);
        buffer_check(&to, 0, FEW * PART, 9);
        pair_close(pair->end[1]);
    }
    for (uint64_t i = 0; pair->end[0] && i < FEW; i++) {
        status = pair_await(pair->end[0], NIGH_OP_SEND, i).status;
        CHECK(!status || status == -ECONNRESET);
    }
    if (pair->end[0])
        pair_close(pair->end[0]);
    device_end(pair, &from, &to);
}

/* ---- two devices ---- */

static struct buffer on_device_0(const struct pair *pair, uint64_t bytes)
{
    struct buffer buffer = {.bytes = bytes, .on_device = true};

    buffer.at = cuda->alloc((enum cuda_memory)(pair->of->number >> 8), 0, bytes);
    CHECK(buffer.at);
    return buffer;
}

static void one(struct pair *pair, struct buffer *from, struct buffer *to, uint64_t seed)
{
    if (pair->end[1])
        buffer_recv(pair, to, PART, seed, 2);
    pair_meet();
    if (pair->end[0]) {
        buffer_fill(from, PART, seed);
        buffer_send(pair, from, PART, seed, 0, 1);
    }
    if (pair->end[1]) {
        pair_received(pair->end[1], 2, PART);
        buffer_check(to, 0, PART, seed);
    }
    if (pair->end[0])
        pair_sent(pair->end[0], 1, PART);
    pair_meet();
}

/* What was brought was used up by the first device: the second one asks for it again, at once. */
static void either_device(struct pair *pair)
{
    struct buffer from[TRIES] = {{0}}, first, to, other = {0};
    uint64_t least = UINT64_MAX;

    begin(pair, &first, &to, ROOM);
    if (pair->end[1])
        other = on_device_0(pair, ROOM);
    for (uint64_t i = 0; i < TRIES; i++) {
        uint64_t began, took;

        if (pair->end[0])
            from[i] = buffer_make(pair, SENDER, ROOM);
        one(pair, &from[i], &to, 4 * i);
        began = now_ms();
        one(pair, &from[i], &other, 4 * i + 1);
        took = now_ms() - began;
        least = took < least ? took : least;
        one(pair, &from[i], &other, 4 * i + 2);
        one(pair, &from[i], &to, 4 * i + 3);
    }
    CHECK(least < SOON_MS);
    /* The fake opens a handle of cuMemAlloc()'s in one context of a process. */
    if (pair->end[0])
        CHECK_INT(pair_stats(pair->end[0]).chunked_sent,
                  pair->of->number >> 8 == MEMORY_PLAIN ? 2 * TRIES : TRIES);
    for (uint64_t i = 0; pair->end[0] && i < TRIES; i++)
        buffer_drop(&from[i]);
    if (pair->end[1])
        buffer_drop(&other);
    device_end(pair, &first, &to);
}

/* Of one process: memory that is mapped for one device alone goes to another through the host. */
static void across(struct pair *pair)
{
    struct buffer from, to, other = {0};

    begin(pair, &from, &to, ROOM);
    if (pair->end[1])
        other = on_device_0(pair, ROOM);
    for (uint64_t i = 0; i < 2; i++) {
        one(pair, &from, &other, 10 + i);
        one(pair, &from, &to, 20 + i);
    }
    if (pair->end[0])
        CHECK_INT(pair_stats(pair->end[0]).chunked_sent, pair->of->number >> 8 == MEMORY_PLAIN ? 0 : 2);
    if (pair->end[1])
        buffer_drop(&other);
    device_end(pair, &from, &to);
}

/* ---- NIGH_CUDA=require ---- */

/* That the driver can export such memory does not say that this pool may be. */
static void required(struct pair *pair)
{
    struct buffer from, to;
    struct nigh_send send;

    setenv("NIGH_CUDA", "require", 1);
    begin(pair, &from, &to, ROOM);
    if (pair->end[0]) {
        send = pair_a_send(from.at, ROOM, 1, 1);
        send.flags = NIGH_DEVICE;
        CHECK_INT(nigh->post_send(pair->end[0]->peer, &send), -ENOTSUP);
        CHECK(strstr(told, "its memory pool was not created with POSIX descriptors"));
    }
    device_end(pair, &from, &to);
    for (uint32_t i = 0; i < 2; i++)
        if (pair->end[i])
            pair_close(pair->end[i]);
}

#define FRESH    .forms = PAIR_FORK, .how = PAIR_FRESH
#define OF(kind) .number = SENDER | RECEIVER | KIND(kind)
static const struct pair_case cases[] = {
    {.name = "a put meanwhile", .play = put_meanwhile, FRESH, OF(MEMORY_PLAIN), .data = "4000"},
    {.name = "crowded", .play = crowded, FRESH | PAIR_LOOSE, OF(MEMORY_MAPPED), .data = "3000"},
    {.name = "many buffers", .play = many_buffers, FRESH, OF(MEMORY_MAPPED)},
    {.name = "the receiver leaves",
     .play = receiver_leaves,
     FRESH | PAIR_MANUAL | PAIR_LOOSE,
     OF(MEMORY_MAPPED),
     .data = "4000"},
    {.name = "either device, cuMemMap", .play = either_device, FRESH, OF(MEMORY_MAPPED)},
    {.name = "either device, cuMemAlloc", .play = either_device, FRESH, OF(MEMORY_PLAIN)},
    {.name = "across, cuMemMap", .play = across, .forms = PAIR_TWO, .how = PAIR_FRESH, OF(MEMORY_MAPPED)},
    {.name = "across, a pool", .play = across, .forms = PAIR_TWO, .how = PAIR_FRESH, OF(MEMORY_POOL)},
    {.name = "across, cuMemAlloc", .play = across, .forms = PAIR_TWO, .how = PAIR_FRESH, OF(MEMORY_PLAIN)},
    {.name = "NIGH_CUDA=require, a pool",
     .play = required,
     FRESH | PAIR_MANUAL,
     OF(MEMORY_POOL),
     .options = {.log = keep}},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}

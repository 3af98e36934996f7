/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/rules_data.c - messages. */
#include "tests/hosts/nccl/host.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY = 64, CANARY_BYTE = 0xa5 };

static bool begin(struct rank *rank, void **context, struct wire *wire)
{
    return went_well(rank, net_init(&rank->net, context), "init") && wire_open(rank, *context, wire);
}

static bool end(struct rank *rank, void *context, struct wire *wire)
{
    return meet(rank) && wire_close(rank, wire) && meet(rank) &&
           went_well(rank, net_finalize(&rank->net, context), "finalize");
}

/* In a thread that is not the one that connected, as NCCL's progress thread is. */
static bool run(struct rank *rank, unsigned count, unsigned depth, size_t room,
                size_t (*bytes)(unsigned number))
{
    struct traffic traffic = {
        .rank = rank, .channel = 1, .count = count, .depth = depth, .room = room, .bytes = bytes};
    pthread_t thread;
    void *context;

    return begin(rank, &context, &traffic.wire) && traffic_start(&traffic, &thread) &&
           traffic_join(&traffic, thread) && end(rank, context, &traffic.wire);
}

static size_t mixed(unsigned number)
{
    static const size_t sizes[] = {8,      0, 4096, 1,    65536, 40,     1024, 17,
                                   262144, 8, 8,    1025, 3000,  131072, 0,    64};

    return sizes[number % (sizeof(sizes) / sizeof(sizes[0]))];
}

static bool order(struct rank *rank)
{
    return run(rank, 300, DEPTH, 262144, mixed);
}

static size_t tiny(unsigned number)
{
    return number % 3 == 0 ? 0 : number % 64;
}

static bool empty(struct rank *rank)
{
    return run(rank, 200, DEPTH, 4096, tiny);
}

static size_t large(unsigned number)
{
    return number % 3 == 0 ? 4u << 20 : number % 3 == 1 ? (1u << 20) + 12345 : (512u << 10) - 1;
}

static bool long_ones(struct rank *rank)
{
    return run(rank, 12, 4, 4u << 20, large);
}

/* All receives are posted before anything is sent; then as many messages as may be are under way for a while. */
static bool deep(struct rank *rank)
{
    static uint8_t in[NCCL_REQUESTS_MAX][64], out[NCCL_REQUESTS_MAX][64];
    void *context, *receives[NCCL_REQUESTS_MAX], *sends[NCCL_REQUESTS_MAX];
    struct wire wire;

    if (!begin(rank, &context, &wire))
        return false;
    for (unsigned i = 0; i < NCCL_REQUESTS_MAX; i++)
        if (!recv_one(rank, wire.recv, in[i], sizeof(in[i]), NULL, &receives[i]))
            return false;
    if (!meet(rank))
        return false;
    for (unsigned i = 0; i < NCCL_REQUESTS_MAX; i++) {
        fill(out[i], sizeof(out[i]), 5, i);
        if (!send_one(rank, wire.send, out[i], sizeof(out[i]), NULL, &sends[i]))
            return false;
    }
    for (unsigned i = 0; i < NCCL_REQUESTS_MAX; i++) {
        if (!finish(rank, receives[i], NULL) || !finish(rank, sends[i], NULL))
            return false;
        if (!is_filled(in[i], sizeof(in[i]), 5, i))
            return broken(rank, "message %u of 32 comes with other bytes", i);
    }
    return end(rank, context, &wire) && run(rank, 200, NCCL_REQUESTS_MAX, 8192, tiny);
}

/* ---- one message at a time --------------------------------------------------------------------------------------- */

/* Rank 0 sends, and only then rank 1 receives; and the other way round. */
static bool early(struct rank *rank)
{
    uint8_t data[2048], *in = malloc(sizeof(data));
    void *context, *request;
    struct wire wire;
    int bytes = -1;

    if (!begin(rank, &context, &wire))
        return false;
    fill(data, sizeof(data), 9, 1);
    if (!send_one(rank, wire.send, data, sizeof(data), NULL, &request) || !meet(rank))
        return false;
    pause_for(0.02);
    memset(in, 0, sizeof(data));
    void *receive;
    if (!recv_one(rank, wire.recv, in, sizeof(data), NULL, &receive) || !finish(rank, receive, &bytes) ||
        !finish(rank, request, NULL))
        return false;
    if (bytes != (int)sizeof(data) || !is_filled(in, sizeof(data), 9, 1))
        return broken(rank, "a message that was sent before its receive was posted comes with other bytes");
    free(in);
    return end(rank, context, &wire);
}

/* A receive is not done before its message was sent. */
static bool patient(struct rank *rank)
{
    uint8_t in[512], out[512];
    void *context, *receive, *request;
    struct wire wire;
    int done = 0, bytes = -1;

    if (!begin(rank, &context, &wire) || !recv_one(rank, wire.recv, in, sizeof(in), NULL, &receive))
        return false;
    for (double until = host_now() + 0.02; host_now() < until;) {
        if (!went_well(rank, net_test(&rank->net, receive, &done, &bytes), "test"))
            return false;
        if (done)
            return broken(rank, "test() finds a receive done that nothing was sent for");
    }
    fill(out, sizeof(out), 2, 7);
    if (!meet(rank) || !send_one(rank, wire.send, out, sizeof(out), NULL, &request) ||
        !finish(rank, receive, &bytes) || !finish(rank, request, NULL))
        return false;
    if (!is_filled(in, sizeof(in), 2, 7))
        return broken(rank, "the message holds other bytes than were sent");
    return end(rank, context, &wire);
}

/* NCCL passes 1 in *request where the GPU itself sees that data have come. */
static bool optional(struct rank *rank)
{
    uint8_t in[256], out[256];
    void *context, *receive = NCCL_OPTIONAL_COMPLETION, *request;
    struct wire wire;
    int bytes = -1;

    if (!begin(rank, &context, &wire))
        return false;
    do {
        receive = NCCL_OPTIONAL_COMPLETION;
        if (!went_well(rank, net_irecv(&rank->net, wire.recv, in, sizeof(in), NULL, &receive), "irecv"))
            return false;
    } while (!receive);
    if (receive == NCCL_OPTIONAL_COMPLETION)
        return broken(rank, "irecv() leaves *request at 1: a request is to be tested all the same");
    fill(out, sizeof(out), 4, 4);
    if (!meet(rank) || !send_one(rank, wire.send, out, sizeof(out), NULL, &request) ||
        !finish(rank, receive, &bytes) || !finish(rank, request, NULL))
        return false;
    if (bytes != (int)sizeof(in) || !is_filled(in, sizeof(in), 4, 4))
        return broken(rank, "the message holds other bytes than were sent");
    return end(rank, context, &wire);
}

/* ---- several connections ----------------------------------------------------------------------------------------- */

/* Nobody receives on one connection; others go on. */
static bool independent(struct rank *rank)
{
    enum { HELD = 8 };
    static uint8_t held[HELD][65536];
    struct traffic traffic = {
        .rank = rank, .channel = 2, .count = 100, .depth = DEPTH, .room = 262144, .bytes = mixed};
    void *context, *requests[HELD];
    struct wire wire;

    if (!begin(rank, &context, &wire) || !wire_open(rank, context, &traffic.wire))
        return false;
    for (int i = 0; i < HELD; i++) {
        fill(held[i], sizeof(held[i]), 1, (uint64_t)i);
        if (!send_one(rank, wire.send, held[i], sizeof(held[i]), NULL, &requests[i]))
            return false;
    }
    if (!traffic_run(&traffic))
        return false;
    for (int i = 0; i < HELD; i++) {
        uint8_t *in = calloc(1, sizeof(held[i]));
        void *receive;

        if (!recv_one(rank, wire.recv, in, sizeof(held[i]), NULL, &receive) || !finish(rank, receive, NULL))
            return false;
        if (!is_filled(in, sizeof(held[i]), 1, (uint64_t)i))
            return broken(rank,
                          "a message that waited on one connection while another was in use has changed");
        free(in);
    }
    for (int i = 0; i < HELD; i++)
        if (!finish(rank, requests[i], NULL))
            return false;
    return meet(rank) && wire_close(rank, &traffic.wire) && end(rank, context, &wire);
}

/* The service thread connects, registers and closes while the progress thread moves data. */
static bool threads(struct rank *rank)
{
    struct traffic traffic = {
        .rank = rank, .channel = 1, .count = 400, .depth = DEPTH, .room = 262144, .bytes = mixed};
    static uint8_t memory[4096];
    pthread_t thread;
    void *context;

    if (!begin(rank, &context, &traffic.wire) || !traffic_start(&traffic, &thread))
        return false;
    for (unsigned i = 0; i < 12; i++) {
        struct wire wire;
        void *registered;

        if (!traffic_reach(&traffic, 1 + traffic.count / 12 * i) || !wire_open(rank, context, &wire) ||
            !went_well(
                rank, net_register(&rank->net, wire.send, memory, sizeof(memory), NCCL_PTR_HOST, &registered),
                "regMr") ||
            !went_well(rank, net_deregister(&rank->net, wire.send, registered), "deregMr") || !meet(rank) ||
            !wire_close(rank, &wire))
            return false;
    }
    return traffic_join(&traffic, thread) && end(rank, context, &traffic.wire);
}

/* Two communicators, a progress thread each; the first ends while the second goes on, and more is sent behind that. */
static bool communicators(struct rank *rank)
{
    struct traffic first = {
        .rank = rank, .channel = 1, .count = 60, .depth = DEPTH, .room = 262144, .bytes = mixed};
    struct traffic second = first;
    pthread_t threads_of[2];
    void *contexts[2];

    second.channel = 2;
    second.count = 400;
    return begin(rank, &contexts[0], &first.wire) && begin(rank, &contexts[1], &second.wire) &&
           traffic_start(&first, &threads_of[0]) && traffic_start(&second, &threads_of[1]) &&
           traffic_join(&first, threads_of[0]) && end(rank, contexts[0], &first.wire) &&
           traffic_join(&second, threads_of[1]) && traffic_run(&second) &&
           end(rank, contexts[1], &second.wire);
}

/* A message longer than its receive: whatever the plugin says, nothing behind the buffer is written. */
static bool too_long(struct rank *rank)
{
    uint8_t in[1024 + CANARY], out[4096];
    void *context, *receive, *request;
    struct wire wire;

    if (!begin(rank, &context, &wire))
        return false;
    memset(in, CANARY_BYTE, sizeof(in));
    fill(out, sizeof(out), 1, 1);
    if (!recv_one(rank, wire.recv, in, 1024, NULL, &receive) || !meet(rank) ||
        !send_one(rank, wire.send, out, sizeof(out), NULL, &request))
        return false;
    for (double until = host_now() + 0.3; host_now() < until;) {
        int done = 0, bytes = 0;

        if (net_test(&rank->net, receive, &done, &bytes) || done)
            break;
        sched_yield();
    }
    for (int i = 0; i < CANARY; i++)
        if (in[1024 + i] != CANARY_BYTE)
            return broken(rank, "a message of 4096 bytes writes byte %d behind a receive of 1024", i);
    return end(rank, context, &wire);
}

const struct rule rules_data[] = {
    {.name = "order",
     .sentence = "messages meet receives in the order of their posting, whatever their lengths",
     .run = order},
    {.name = "empty", .sentence = "messages of no bytes come as such, and in their place", .run = empty},
    {.name = "long", .sentence = "messages of some MiB and of odd lengths come whole", .run = long_ones},
    {.name = "deep", .sentence = "32 requests are in flight each way", .run = deep},
    {.name = "early", .sentence = "a message may be sent before its receive is posted", .run = early},
    {.name = "patient",
     .sentence = "a receive is done when its message has come, not before",
     .run = patient},
    {.name = "optional",
     .sentence = "a receive with the hint 'completion is optional' is a receive",
     .run = optional},
    {.name = "independent",
     .sentence = "a connection on which nobody receives does not stop others",
     .run = independent},
    {.name = "threads",
     .sentence = "a service thread connects and closes while a progress thread moves data",
     .run = threads},
    {.name = "communicators",
     .sentence = "one communicator ends while another goes on",
     .run = communicators},
    {.name = "too-long",
     .sentence = "a message that is too long writes nothing behind its buffer",
     .run = too_long},
    {.name = NULL},
};

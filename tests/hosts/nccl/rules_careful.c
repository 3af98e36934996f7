/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/rules_careful.c - what NCCL never does, and a careful plugin answers by an error, one line in NCCL's logger,
 * and no crash. */
#include "tests/hosts/nccl/host.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static bool begin(struct rank *rank, void **context, struct wire *wire)
{
    return went_well(rank, net_init(&rank->net, context), "init") && wire_open(rank, *context, wire);
}

static bool end(struct rank *rank, void *context, struct wire *wire)
{
    return meet(rank) && wire_close(rank, wire) && meet(rank) &&
           went_well(rank, net_finalize(&rank->net, context), "finalize");
}

/* An error and one line; `before` lines there were. */
static bool refused(struct rank *rank, enum nccl_result result, int before, const char *what)
{
    if (result == NCCL_SUCCESS)
        return broken(rank, "%s is no error", what);
    if (host_warnings != before + 1)
        return broken(rank, "%s: %d lines in NCCL's logger in the place of one", what,
                      host_warnings - before);
    return true;
}

static bool garbage(struct rank *rank)
{
    uint8_t handle[NCCL_HANDLE_BYTES];
    void *context, *comm = NULL;

    if (!went_well(rank, net_init(&rank->net, &context), "init"))
        return false;
    for (unsigned seed = 0; seed < 4; seed++) {
        int before = host_warnings;

        for (unsigned i = 0; i < sizeof(handle); i++)
            handle[i] = seed == 0 ? 0 : (uint8_t)(rand() >> 7);
        if (!refused(rank, net_connect(&rank->net, context, handle, &comm), before, "a handle of garbage"))
            return false;
    }
    return went_well(rank, net_finalize(&rank->net, context), "finalize");
}

static bool types(struct rank *rank)
{
    static const int wrong[] = {NCCL_PTR_CUDA, 0, 8, 99, -1};
    static uint8_t data[4096];
    struct nccl_properties_v12 properties;
    void *context, *memory;
    struct wire wire;

    if (!begin(rank, &context, &wire) ||
        !went_well(rank, net_properties(&rank->net, 0, &properties), "getProperties"))
        return false;
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int before = host_warnings;

        if (i == 0 && (properties.pointers & NCCL_PTR_CUDA))
            continue;
        if (!refused(rank, net_register(&rank->net, wire.send, data, sizeof(data), wrong[i], &memory), before,
                     "memory of a type that ptrSupport lacks"))
            return false;
    }
    return end(rank, context, &wire);
}

static bool twice(struct rank *rank)
{
    static uint8_t in[64], out[64];
    void *context, *request, *receive;
    int done = 0, before;
    struct wire wire;

    if (!begin(rank, &context, &wire) || !recv_one(rank, wire.recv, in, sizeof(in), NULL, &receive) ||
        !send_one(rank, wire.send, out, sizeof(out), NULL, &request) || !finish(rank, request, NULL) ||
        !finish(rank, receive, NULL))
        return false;
    for (int i = 0; i < 2; i++) {
        before = host_warnings;
        if (!refused(rank, net_test(&rank->net, i ? request : receive, &done, NULL), before,
                     "a request that was found done, tested again"))
            return false;
    }
    /* Another one has taken its place meanwhile. */
    for (int i = 0; i < 2 * NCCL_REQUESTS_MAX; i++) {
        void *later;

        if (!recv_one(rank, wire.recv, in, sizeof(in), NULL, &later))
            return false;
        before = host_warnings;
        if (!refused(rank, net_test(&rank->net, receive, &done, NULL), before,
                     "an old request, tested again") ||
            !send_one(rank, wire.send, out, sizeof(out), NULL, &request) || !finish(rank, request, NULL) ||
            !finish(rank, later, NULL))
            return false;
    }
    return end(rank, context, &wire);
}

static bool too_many(struct rank *rank)
{
    static uint8_t in[NCCL_REQUESTS_MAX + 1][64], out[64];
    void *context, *receives[NCCL_REQUESTS_MAX], *request, *more = NULL;
    struct wire wire;
    int before;

    if (!begin(rank, &context, &wire))
        return false;
    for (int i = 0; i < NCCL_REQUESTS_MAX; i++)
        if (!recv_one(rank, wire.recv, in[i], sizeof(in[i]), NULL, &receives[i]))
            return false;
    before = host_warnings;
    if (!refused(rank, net_irecv(&rank->net, wire.recv, in[NCCL_REQUESTS_MAX], 64, NULL, &more), before,
                 "a 33rd request"))
        return false;
    for (int i = 0; i < NCCL_REQUESTS_MAX; i++)
        if (!send_one(rank, wire.send, out, sizeof(out), NULL, &request) || !finish(rank, request, NULL) ||
            !finish(rank, receives[i], NULL))
            return false;
    return end(rank, context, &wire);
}

static bool truncated(struct rank *rank)
{
    static uint8_t in[1024], out[200000];
    static const size_t lengths[] = {1025, 4096, 200000};
    void *receive, *request, *context;
    struct wire wire;

    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        double until = host_now() + rank->patience;
        enum nccl_result result;
        int done = 0, before;

        if (!begin(rank, &context, &wire) || !recv_one(rank, wire.recv, in, sizeof(in), NULL, &receive) ||
            !meet(rank) || !send_one(rank, wire.send, out, lengths[i], NULL, &request))
            return false;
        before = host_warnings;
        do
            result = net_test(&rank->net, receive, &done, NULL);
        while (!result && !done && host_now() < until);
        if (!refused(rank, result, before, "a message that is longer than its receive") ||
            !end(rank, context, &wire))
            return false;
    }
    return true;
}

/* Calls with what is over: each is an error. */
static bool over(struct rank *rank)
{
    static uint8_t data[64];
    uint8_t handle[NCCL_HANDLE_BYTES] = {0};
    const struct net *net = &rank->net;
    void *context, *request = NULL, *receive, *out = NULL, *memory;
    struct wire wire;
    int done, before;

    if (!begin(rank, &context, &wire) || !recv_one(rank, wire.recv, data, sizeof(data), NULL, &receive) ||
        !went_well(rank, net_register(net, wire.send, data, sizeof(data), NCCL_PTR_HOST, &memory), "regMr") ||
        !end(rank, context, &wire))
        return false;
#define OVER(call, what)                                     \
    before = host_warnings;                                  \
    if (!refused(rank, call, before, what " after its end")) \
    return false
    OVER(net_isend(net, wire.send, data, sizeof(data), NULL, &request), "isend()");
    OVER(net_irecv(net, wire.recv, data, sizeof(data), NULL, &request), "irecv()");
    OVER(net_test(net, receive, &done, NULL), "test()");
    OVER(net_register(net, wire.send, data, sizeof(data), NCCL_PTR_HOST, &out), "regMr()");
    OVER(net_deregister(net, wire.send, memory), "deregMr()");
    OVER(net_close_send(net, wire.send), "closeSend()");
    OVER(net_close_recv(net, wire.recv), "closeRecv()");
    if (rank->net.version > 10) {
        OVER(net_listen(net, context, handle, &out), "listen()");
        OVER(net_connect(net, context, handle, &out), "connect()");
        OVER(net_finalize(net, context), "finalize()");
    }
    return true;
}

/* NCCL may finalize what it gave up with connections open. */
static bool unclosed(struct rank *rank)
{
    static uint8_t in[64];
    void *context, *receive;
    struct wire wire;

    return begin(rank, &context, &wire) && recv_one(rank, wire.recv, in, sizeof(in), NULL, &receive) &&
           meet(rank) && went_well(rank, net_finalize(&rank->net, context), "finalize") && meet(rank) &&
           begin(rank, &context, &wire) && end(rank, context, &wire);
}

const struct rule rules_careful[] = {
    {.name = "garbage", .sentence = "a handle of garbage is an error", .run = garbage, .careful = true},
    {.name = "types", .sentence = "memory of an unknown type is an error", .run = types, .careful = true},
    {.name = "twice",
     .sentence = "a request that was found done and is tested again is an error",
     .run = twice,
     .careful = true},
    {.name = "too-many", .sentence = "a 33rd request is an error", .run = too_many, .careful = true},
    {.name = "truncated",
     .sentence = "a message that is longer than its receive is an error",
     .run = truncated,
     .careful = true},
    {.name = "over",
     .sentence = "calls with what was closed or finalized are errors",
     .run = over,
     .careful = true},
    {.name = "unclosed",
     .sentence = "finalize closes what is open",
     .run = unclosed,
     .careful = true,
     .since = 11},
    {.name = NULL},
};

/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/rules_careful.c - what NCCL never does, and a careful plugin answers by an error, one line in NCCL's logger,
 * and no crash. */
#include "tests/hosts/nccl/host.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* A handle of this rank's own listener, with one byte changed. */
static bool forged(struct rank *rank)
{
    uint8_t handle[NCCL_HANDLE_BYTES] = {0}, changed[NCCL_HANDLE_BYTES];
    void *context, *listener, *comm;
    int used = NCCL_HANDLE_BYTES;

    if (!went_well(rank, net_init(&rank->net, &context), "init") ||
        !went_well(rank, net_listen(&rank->net, context, handle, &listener), "listen"))
        return false;
    while (used > 0 && !handle[used - 1])
        used--;
    for (int i = 0; i < used; i++) {
        int before = host_warnings;
        char what[80];

        memcpy(changed, handle, sizeof(changed));
        changed[i] ^= 0x5a;
        comm = NULL;
        snprintf(what, sizeof(what), "connect() to a handle whose byte %d was changed", i);
        if (!refused(rank, net_connect(&rank->net, context, changed, &comm), before, what))
            return false;
    }
    return went_well(rank, net_close_listen(&rank->net, listener), "closeListen") &&
           went_well(rank, net_finalize(&rank->net, context), "finalize");
}

/* As it comes from another machine. */
static bool elsewhere(struct rank *rank)
{
    uint8_t mine[NCCL_HANDLE_BYTES] = {0}, theirs[NCCL_HANDLE_BYTES];
    void *context, *listener, *comm = NULL;
    int before;

    if (!went_well(rank, net_init(&rank->net, &context), "init") ||
        !went_well(rank, net_listen(&rank->net, context, mine, &listener), "listen") ||
        !swap(rank, mine, theirs, sizeof(mine)))
        return false;
    before = host_warnings;
    return refused(rank, net_connect(&rank->net, context, theirs, &comm), before,
                   "a handle of another boot") &&
           meet(rank) && went_well(rank, net_close_listen(&rank->net, listener), "closeListen") &&
           went_well(rank, net_finalize(&rank->net, context), "finalize");
}

/* Rank 1 connects to a listener of a process that has ended. */
static bool dead(struct rank *rank)
{
    uint8_t mine[NCCL_HANDLE_BYTES] = {0}, theirs[NCCL_HANDLE_BYTES];
    void *context, *listener, *comm = NULL;
    enum nccl_result result = NCCL_SUCCESS;
    double since;
    int before;
    char byte;

    if (!went_well(rank, net_init(&rank->net, &context), "init") ||
        !went_well(rank, net_listen(&rank->net, context, mine, &listener), "listen") ||
        !swap(rank, mine, theirs, sizeof(mine)))
        return false;
    if (rank->number == 0)
        raise(SIGKILL);
    if (read(rank->other, &byte, 1) != 0)
        return broken(rank, "rank 0 lives on");
    before = host_warnings;
    for (since = host_now(); !result && !comm && host_now() - since < rank->patience; sched_yield())
        result = net_connect(&rank->net, context, theirs, &comm);
    rank->seen->death_ns = (uint64_t)((host_now() - since) * 1e9);
    return refused(rank, result, before, "a handle of a process that has ended") &&
           went_well(rank, net_close_listen(&rank->net, listener), "closeListen") &&
           went_well(rank, net_finalize(&rank->net, context), "finalize");
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

/* ---- a forked child ----------------------------------------------------------------------------------------------- */

struct inherited {
    void *context, *listener, *receive, *memory;
    struct wire wire;
};

/* In the child: each call is an error, and returns. */
static bool child_calls(struct rank *rank, struct inherited *had)
{
    static uint8_t data[64];
    uint8_t handle[NCCL_HANDLE_BYTES] = {0};
    const struct net *net = &rank->net;
    void *request = NULL, *out = NULL;
    int done = 0, before;

#define CHILD(call, what)                                        \
    before = host_warnings;                                      \
    if (!refused(rank, call, before, what " in a forked child")) \
    return false
    CHILD(net_test(net, had->receive, &done, NULL), "test()");
    CHILD(net_isend(net, had->wire.send, data, sizeof(data), NULL, &request), "isend()");
    CHILD(net_irecv(net, had->wire.recv, data, sizeof(data), NULL, &request), "irecv()");
    CHILD(net_accept(net, had->listener, &out), "accept()");
    CHILD(net_register(net, had->wire.send, data, sizeof(data), NCCL_PTR_HOST, &out), "regMr()");
    CHILD(net_deregister(net, had->wire.send, had->memory), "deregMr()");
    CHILD(net_close_send(net, had->wire.send), "closeSend()");
    CHILD(net_close_recv(net, had->wire.recv), "closeRecv()");
    CHILD(net_close_listen(net, had->listener), "closeListen()");
    if (rank->net.version > 10) {
        CHILD(net_listen(net, had->context, handle, &out), "listen()");
        CHILD(net_connect(net, had->context, handle, &out), "connect()");
        CHILD(net_finalize(net, had->context), "finalize()");
    }
    return true;
}

/* Forks, and hears what the child says. */
static bool fork_and_hear(struct rank *rank, struct inherited *had)
{
    char why[WHY_BYTES] = "";
    int says[2], status = -1;
    ssize_t bytes;
    pid_t child;

    if (pipe(says))
        return broken(rank, "no pipe");
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!child_calls(rank, had) && write(says[1], rank->why, strlen(rank->why)) < 0)
            _exit(2);
        _exit(0);
    }
    close(says[1]);
    bytes = child > 0 ? read(says[0], why, sizeof(why) - 1) : -1;
    close(says[0]);
    if (child > 0)
        waitpid(child, &status, 0);
    if (bytes > 0)
        return broken(rank, "%s", why);
    return (bytes == 0 && status == 0) || broken(rank, "a forked child that calls the plugin ends badly");
}

static bool forked(struct rank *rank)
{
    static uint8_t in[64], out[64];
    uint8_t handle[NCCL_HANDLE_BYTES] = {0};
    struct inherited had;
    void *request;

    return begin(rank, &had.context, &had.wire) &&
           went_well(rank, net_listen(&rank->net, had.context, handle, &had.listener), "listen") &&
           went_well(rank,
                     net_register(&rank->net, had.wire.send, out, sizeof(out), NCCL_PTR_HOST, &had.memory),
                     "regMr") &&
           recv_one(rank, had.wire.recv, in, sizeof(in), NULL, &had.receive) && fork_and_hear(rank, &had) &&
           meet(rank) && send_one(rank, had.wire.send, out, sizeof(out), had.memory, &request) &&
           finish(rank, request, NULL) && finish(rank, had.receive, NULL) &&
           went_well(rank, net_deregister(&rank->net, had.wire.send, had.memory), "deregMr") &&
           went_well(rank, net_close_listen(&rank->net, had.listener), "closeListen") &&
           end(rank, had.context, &had.wire);
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
    {.name = "forged",
     .sentence = "a handle that was changed on its way is an error at once",
     .run = forged,
     .careful = true},
    {.name = "elsewhere",
     .sentence = "a handle of another machine is an error at once, in a plugin for one machine",
     .run = elsewhere,
     .careful = true,
     .boots = true},
    {.name = "dead",
     .sentence = "connect to a process that has ended is an error, and one line",
     .run = dead,
     .careful = true,
     .one = true},
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
    {.name = "forked",
     .sentence = "calls in a forked child are errors, and the parent goes on",
     .run = forked,
     .careful = true},
    {.name = "unclosed",
     .sentence = "finalize closes what is open",
     .run = unclosed,
     .careful = true,
     .since = 11},
    {.name = NULL},
};

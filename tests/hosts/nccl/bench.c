/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/bench.c - nccl-host --bench: how long 8 bytes take one way, and how fast 1 MiB messages stream, through a
 * plugin's table; --direct does the same through nigh's own, so that the difference is what the plugin adds. */
#include "nigh/transport.h"
#include "tests/hosts/nccl/host.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TURNS = 20000, ROUNDS = 5, MESSAGES = 300, MIB = 1 << 20, YIELD_EVERY = 200 };

/* What is measured, in either way. */
struct line {
    const struct net *net;
    struct wire wire;
    const struct nigh_ops *nigh;
    struct nigh_context *context;
    struct nigh_endpoint *peer;
    unsigned came, went; /* nigh: completions of each kind */
};

/* ---- both ways -------------------------------------------------------------------------------------------------- */

static void *post(struct line *line, bool send, void *data, size_t bytes)
{
    void *request = NULL;

    if (line->nigh) {
        int rc = send ? line->nigh->send_imm(line->peer, data, NIGH_SHAPE(bytes, 0), 1, 0, 1)
                      : line->nigh->recv_imm(line->peer, data, NIGH_SHAPE(bytes, 0), 1, 0, 2);

        return rc ? NULL : line;
    }
    while (!request)
        if (send ? net_isend(line->net, line->wire.send, data, bytes, NULL, &request)
                 : net_irecv(line->net, line->wire.recv, data, bytes, NULL, &request))
            exit(3);
    return request;
}

static void take(struct line *line)
{
    struct nigh_taken taken = {.size = sizeof(taken)};

    if (line->nigh->take_completions(line->context, &taken, NIGH_TAKEN_FULL) <= 0)
        return;
    line->went += taken.sent_count;
    for (uint32_t i = 0; i < taken.done_count; i++) {
        line->went += taken.done[i].op == NIGH_OP_SEND;
        line->came += taken.done[i].op == NIGH_OP_RECV;
    }
}

static void finish_one(struct line *line, bool send, void *request)
{
    unsigned *count = send ? &line->went : &line->came;
    int done = 0;

    if (line->nigh) {
        for (unsigned empty = 0; *count == 0; take(line))
            if (++empty % YIELD_EVERY == 0)
                sched_yield();
        --*count;
        return;
    }
    for (unsigned empty = 0; !done;) {
        if (net_test(line->net, request, &done, NULL))
            exit(3);
        if (++empty % YIELD_EVERY == 0)
            sched_yield();
    }
}

/* Nanoseconds one way, the best of some rounds. */
static double latency(struct line *line, int number)
{
    double best = 1e9;
    uint64_t in = 0, out = 0;

    for (int round = 0; round < ROUNDS; round++) {
        double since = host_now(), took;

        for (int i = 0; i < TURNS / ROUNDS; i++) {
            void *receive = post(line, false, &in, 8), *request;

            if (number == 0) {
                request = post(line, true, &out, 8);
                finish_one(line, true, request);
            }
            finish_one(line, false, receive);
            if (number == 1) {
                request = post(line, true, &out, 8);
                finish_one(line, true, request);
            }
        }
        took = (host_now() - since) * 1e9 / (TURNS / ROUNDS) / 2;
        best = took < best ? took : best;
    }
    return best;
}

/* GB/s of 1 MiB messages, eight in flight, from rank 0 to rank 1; each is written before it is sent. */
static double stream(struct line *line, int number)
{
    uint8_t *memory = malloc((size_t)DEPTH * MIB);
    void *requests[DEPTH];
    double since;

    memset(memory, 1, (size_t)DEPTH * MIB);
    since = host_now();
    for (int i = 0; i < MESSAGES + DEPTH; i++) {
        uint8_t *data = memory + (size_t)(i % DEPTH) * MIB;

        if (i >= DEPTH)
            finish_one(line, number == 0, requests[i % DEPTH]);
        if (i >= MESSAGES)
            continue;
        if (number == 0)
            memset(data, i, MIB);
        requests[i % DEPTH] = post(line, number == 0, data, MIB);
    }
    free(memory);
    return (double)MESSAGES * MIB / (host_now() - since) * 1e-9;
}

static void measure(struct line *line, int number, const char *name)
{
    double one_way = latency(line, number), rate = stream(line, number);

    if (number == 1)
        printf("%-24s 8 bytes one way %9.1f ns   1 MiB stream %7.2f GB/s\n", name, one_way, rate);
}

/* ---- ranks ------------------------------------------------------------------------------------------------------ */

static int plugin_rank(const char *path, int version, int number, int other)
{
    char why[WHY_BYTES] = "";
    static struct seen seen;
    struct rank rank = {.number = number, .other = other, .patience = 20, .seen = &seen, .why = why};
    struct line line = {.net = &rank.net};
    void *context;

    if (!net_load(&rank.net, path, version, why) ||
        !went_well(&rank, net_init(&rank.net, &context), "init") || !wire_open(&rank, context, &line.wire)) {
        fprintf(stderr, "nccl-host: %s\n", why);
        return 1;
    }
    measure(&line, number, rank.net.name);
    return meet(&rank) && wire_close(&rank, &line.wire) && meet(&rank) &&
                   net_finalize(&rank.net, context) == NCCL_SUCCESS
               ? 0
               : 1;
}

static int direct_rank(const char *path, int number, int other, uint64_t job)
{
    struct nigh_open options = {.size = sizeof(options), .job = job, .rank = (uint32_t)number, .ranks = 2};
    struct nigh_connect to = {.size = sizeof(to), .rank = (uint32_t)!number, .source = NIGH_SOURCE_NONE};
    char why[WHY_BYTES] = "";
    struct rank rank = {.number = number, .other = other, .why = why};
    void *object = dlopen(path, RTLD_NOW);
    nigh_transport_fn entry = NULL;
    struct line line = {0};

    if (object)
        *(void **)&entry = dlsym(object, NIGH_SYMBOL);
    line.nigh = entry ? entry(NIGH_ABI) : NULL;
    if (!line.nigh || line.nigh->open(&options, &line.context) ||
        line.nigh->connect(line.context, &to, &line.peer)) {
        fprintf(stderr, "nccl-host: --direct %s: cannot be used\n", path);
        return 1;
    }
    measure(&line, number, "nigh/transport.h itself");
    (void)meet(&rank);
    return line.nigh->close(line.context) ? 1 : 0;
}

static int both(const char *path, int version, bool direct)
{
    int ends[2], status = 0, result = 0;
    uint64_t job = (uint64_t)getpid() << 32 | 77;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return 1;
    for (int i = 0; i < 2; i++) {
        fflush(NULL);
        if (fork() == 0) {
            int rc = direct ? direct_rank(path, i, ends[i], job) : plugin_rank(path, version, i, ends[i]);

            exit(rc);
        }
    }
    for (int i = 0; i < 2; i++) {
        wait(&status);
        result |= status != 0;
    }
    close(ends[0]);
    close(ends[1]);
    return result;
}

int bench(const char *path, int version, const char *direct)
{
    int result = both(path, version, false);

    return direct ? result | both(direct, 0, true) : result;
}

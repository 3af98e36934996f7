/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/hosts/nccl/bench.c - nccl-host --bench: plugins beside each other, beside nigh's own table (--direct) and beside memcpy(), in
 * two ranks that measure them in turn, round by round. Figures are medians of rounds, and of what differs within a round.
 */
#include "tests/hosts/nccl/bench.h"
#include "nigh/transport.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { YIELD_EVERY = 200, BUFFER = 4 << 20, LINES = BENCH_PLUGINS + 1, NOTE_BYTES = 200 };

/* One way in which messages are carried: a plugin's table, or nigh's own. */
struct line {
    char name[32];
    struct net net;
    struct wire wire;
    void *nccl; /* the plugin's context */
    enum nccl_result (*isend)(void *comm, void *data, size_t bytes, int tag, void *memory, void *parent,
                              void **request);
    enum nccl_result (*irecv)(void *comm, int count, void **data, size_t *bytes, int *tags, void **memories,
                              void **parents, void **request);
    enum nccl_result (*test)(void *request, int *done, int *bytes);
    const struct nigh_ops *nigh;
    struct nigh_context *context;
    struct nigh_endpoint *peer;
    unsigned came, went; /* nigh: completions of each kind */
};

/* What is measured. A figure is in ns a message, or (GB/s) of a stream. */
struct test {
    const char *name;
    size_t bytes;
    bool stream, rate; /* neither: one way, in turn */
};

static const struct test tests[] = {
    {.name = "plugin, one way", .bytes = 8},
    {.name = "plugin, one way", .bytes = 4096},
    {.name = "plugin, one of many", .bytes = 8, .stream = true},
    {.name = "plugin, stream", .bytes = 64 << 10, .stream = true, .rate = true},
    {.name = "plugin, stream", .bytes = 1 << 20, .stream = true, .rate = true},
    {.name = "plugin, stream", .bytes = 4 << 20, .stream = true, .rate = true},
};

enum { TESTS = sizeof(tests) / sizeof(tests[0]) };

struct bench {
    const struct bench_options *options;
    struct rank rank;
    struct line lines[LINES];
    int count;                               /* of lines; the last is nigh's own where it is wanted */
    uint8_t *memory;                         /* DEPTH buffers */
    double figures[LINES + 1][BENCH_ROUNDS]; /* behind the lines: memcpy() */
};

static void fail(const struct bench *bench, const char *what)
{
    fprintf(stderr, "nccl-host: rank %d: %s\n", bench->rank.number, what);
    exit(3);
}

/* ---- one message -------------------------------------------------------------------------------------------- */

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

/* As the plugin posts it, so that the difference is what the plugin adds. */
static int post_direct(struct line *line, bool send, void *data, size_t bytes)
{
    struct nigh_send message = {.size = sizeof(message),
                                .flags = NIGH_MAY_WAIT,
                                .buffer = data,
                                .bytes = bytes,
                                .tag = 1,
                                .context = 1};

    if (!send)
        return line->nigh->recv_imm(line->peer, data, NIGH_SHAPE(bytes, 0), 1, 0, 2);
    if (bytes <= NIGH_INJECT_BYTES)
        return line->nigh->send_imm(line->peer, data, NIGH_SHAPE(bytes, 0), 1, 0, 1);
    return line->nigh->post_send(line->peer, &message);
}

static void *post(struct bench *bench, struct line *line, bool send, void *data, size_t bytes)
{
    void *request = NULL, *memory = NULL, *parent = NULL;
    int tag = 0, rc;

    if (line->nigh) {
        while ((rc = post_direct(line, send, data, bytes)) == -EAGAIN)
            take(line);
        if (rc)
            fail(bench, "nigh's post fails");
        return line;
    }
    while (!request)
        if (send ? line->isend(line->wire.send, data, bytes, 0, NULL, NULL, &request)
                 : line->irecv(line->wire.recv, 1, &data, &bytes, &tag, &memory, &parent, &request))
            fail(bench, "isend() or irecv() fails");
    return request;
}

static void finish_one(struct bench *bench, struct line *line, bool send, void *request)
{
    unsigned *count = send ? &line->went : &line->came, empty = 0;
    int done = 0;

    for (;;) {
        if (line->nigh ? *count > 0 : done)
            break;
        if (line->nigh)
            take(line);
        else if (line->test(request, &done, NULL))
            fail(bench, "test() fails");
        if (++empty % YIELD_EVERY == 0)
            sched_yield();
    }
    if (line->nigh)
        --*count;
}

/* ---- a round ------------------------------------------------------------------------------------------------ */

/* Seconds for `count` messages there and back. */
static double turns(struct bench *bench, struct line *line, size_t bytes, unsigned count)
{
    uint8_t *in = bench->memory, *out = in + BUFFER;
    bool first = bench->rank.number == 0;
    double since = host_now();

    for (unsigned i = 0; i < count; i++) {
        void *receive = post(bench, line, false, in, bytes);

        if (first)
            finish_one(bench, line, true, post(bench, line, true, out, bytes));
        finish_one(bench, line, false, receive);
        if (!first)
            finish_one(bench, line, true, post(bench, line, true, out, bytes));
    }
    return host_now() - since;
}

/* Seconds for `count` messages from rank 0 to rank 1, eight in flight. What is streamed in bulk is written before it is sent. */
static double flow(struct bench *bench, struct line *line, const struct test *test, unsigned count)
{
    bool send = bench->rank.number == 0;
    void *requests[DEPTH];
    double since = host_now();

    for (unsigned i = 0; i < count + DEPTH; i++) {
        uint8_t *data = bench->memory + (size_t)(i % DEPTH) * BUFFER;

        if (i >= DEPTH && i - DEPTH < count)
            finish_one(bench, line, send, requests[i % DEPTH]);
        if (i >= count)
            continue;
        if (send && test->rate)
            memset(data, (int)i, test->bytes);
        requests[i % DEPTH] = post(bench, line, send, data, test->bytes);
    }
    return host_now() - since;
}

/* What one CPU copies in the place of messages. */
static double copies(struct bench *bench, const struct test *test, unsigned count)
{
    double since = host_now();

    for (unsigned i = 0; i < count; i++) {
        memcpy(bench->memory + (size_t)(i % DEPTH) * BUFFER,
               bench->memory + (size_t)((i + 1) % DEPTH) * BUFFER, test->bytes);
        __asm__ volatile("" ::: "memory");
    }
    return host_now() - since;
}

static double figure(const struct test *test, unsigned count, double seconds)
{
    if (test->rate)
        return (double)test->bytes * count / seconds * 1e-9;
    return seconds * 1e9 / count / (test->stream ? 1 : 2);
}

/* How often, so that a round of one line takes its part of the time: rank 0 says so. */
static unsigned settle(struct bench *bench, struct line *line, const struct test *test)
{
    double part = bench->options->seconds / TESTS / (bench->count + 1) / BENCH_ROUNDS;
    unsigned mine, theirs, few = test->rate ? 2 * DEPTH : 64;
    double seconds = test->stream ? flow(bench, line, test, few) : turns(bench, line, test->bytes, few);
    double count = part / (seconds > 1e-7 ? seconds : 1e-7) * few;

    mine = count < few ? few : count > 1e6 ? 1000000 : (unsigned)count;
    if (!swap(&bench->rank, &mine, &theirs, sizeof(mine)))
        fail(bench, "the other rank has ended");
    return bench->rank.number == 0 ? mine : theirs;
}

static void rounds(struct bench *bench, const struct test *test)
{
    unsigned counts[LINES];

    for (int i = 0; i < bench->count; i++)
        counts[i] = settle(bench, &bench->lines[i], test);
    for (int round = 0; round < BENCH_ROUNDS; round++) {
        /* Another one begins each round. */
        for (int turn = 0; turn < bench->count; turn++) {
            int i = (round + turn) % bench->count;
            struct line *line = &bench->lines[i];

            if (!meet(&bench->rank))
                fail(bench, "the other rank has ended");
            bench->figures[i][round] = figure(test, counts[i],
                                              test->stream ? flow(bench, line, test, counts[i])
                                                           : turns(bench, line, test->bytes, counts[i]));
        }
        if (test->rate)
            bench->figures[bench->count][round] = figure(test, counts[0], copies(bench, test, counts[0]));
    }
}

/* ---- what is said ------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

double bench_median(const double *values, int count)
{
    double sorted[BENCH_ROUNDS];

    memcpy(sorted, values, (size_t)count * sizeof(*values));
    qsort(sorted, (size_t)count, sizeof(*sorted), ascending);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* The median of what line 0 has over another one: of rates the quotient, of times the difference. */
static double over(const struct bench *bench, int other, bool quotient)
{
    double values[BENCH_ROUNDS];

    for (int round = 0; round < BENCH_ROUNDS; round++) {
        double mine = bench->figures[0][round], theirs = bench->figures[other][round];

        values[round] = quotient ? mine / theirs : mine - theirs;
    }
    return bench_median(values, BENCH_ROUNDS);
}

static void note_of(const struct bench *bench, const struct test *test, char note[NOTE_BYTES])
{
    size_t used = 0;

    note[0] = '\0';
    for (int i = 1; i < bench->count && used < NOTE_BYTES; i++) {
        const char *name = bench->lines[i].name, *between = i > 1 ? "; " : "";

        if (test->rate)
            used += (size_t)snprintf(note + used, NOTE_BYTES - used, "%s%.2f of %s", between,
                                     over(bench, i, true), name);
        else
            used += (size_t)snprintf(note + used, NOTE_BYTES - used, "%s%+.0f ns over %s", between,
                                     over(bench, i, false), name);
    }
}

/* The floor: of bulk memcpy(), of messages nigh's own table. -1: none. */
static int floor_of(const struct bench *bench, const struct test *test)
{
    return test->rate ? bench->count : bench->lines[bench->count - 1].nigh ? bench->count - 1 : -1;
}

static void say_json(const struct bench *bench, const struct test *test, const char *note)
{
    int floor = floor_of(bench, test);
    const char *between = "";

    printf(
        "{\"test\": \"%s\", \"bytes\": %zu, \"ranks\": 2, \"value\": %.2f, \"unit\": \"%s\", \"rounds\": %d, "
        "\"handoff_ns\": null, \"note\": \"%s\", ",
        test->name, test->bytes, bench_median(bench->figures[0], BENCH_ROUNDS), test->rate ? "GB/s" : "ns",
        BENCH_ROUNDS, note);
    if (floor < 0)
        printf("\"floor\": null, \"ratio\": null, \"peers\": {");
    else
        printf("\"floor\": %.2f, \"ratio\": %.3f, \"peers\": {",
               bench_median(bench->figures[floor], BENCH_ROUNDS), over(bench, floor, true));
    for (int i = 1; i < bench->count; i++) {
        printf("%s\"%s\": %.2f", between, bench->lines[i].name,
               bench_median(bench->figures[i], BENCH_ROUNDS));
        between = ", ";
    }
    printf("}}\n");
}

static void say(const struct bench *bench, const struct test *test)
{
    const char *unit = test->rate ? "GB/s" : "ns";
    char note[NOTE_BYTES];

    note_of(bench, test, note);
    if (bench->options->json) {
        say_json(bench, test, note);
        return;
    }
    printf("%-20s %8zu B", test->name, test->bytes);
    for (int i = 0; i < bench->count; i++)
        printf("  %s %.2f %s", bench->lines[i].name, bench_median(bench->figures[i], BENCH_ROUNDS), unit);
    if (test->rate)
        printf("  memcpy %.2f %s", bench_median(bench->figures[bench->count], BENCH_ROUNDS), unit);
    printf("%s%s%s\n", *note ? "  (" : "", note, *note ? ")" : "");
}

/* ---- ranks -------------------------------------------------------------------------------------------------- */

#define SLOT(net, slot) ((net)->v12 ? (net)->v12->slot : (net)->v11 ? (net)->v11->slot : (net)->v10->slot)

static void open_plugin(struct bench *bench, struct line *line, const char *path)
{
    char *why = bench->rank.why;

    if (!net_load(&line->net, path, bench->options->version, why))
        fail(bench, why);
    bench->rank.net = line->net; /* what the host's own calls go to */
    if (!went_well(&bench->rank, net_init(&line->net, &line->nccl), "init") ||
        !wire_open(&bench->rank, line->nccl, &line->wire))
        fail(bench, why);
    snprintf(line->name, sizeof(line->name), "%s", line->net.name);
    line->isend = SLOT(&line->net, isend);
    line->irecv = SLOT(&line->net, irecv);
    line->test = SLOT(&line->net, test);
}

static void close_plugin(struct bench *bench, struct line *line)
{
    bench->rank.net = line->net;
    if (!meet(&bench->rank) || !wire_close(&bench->rank, &line->wire) || !meet(&bench->rank) ||
        net_finalize(&line->net, line->nccl))
        fail(bench, "a plugin does not end well");
}

static void open_direct(struct bench *bench, struct line *line)
{
    int number = bench->rank.number;
    struct nigh_open options = {
        .size = sizeof(options), .job = (uint64_t)getppid() << 32 | 77, .rank = (uint32_t)number, .ranks = 2};
    struct nigh_connect to = {.size = sizeof(to), .rank = (uint32_t)!number, .source = NIGH_SOURCE_NONE};
    void *object = dlopen(bench->options->direct, RTLD_NOW);
    nigh_transport_fn entry = NULL;

    if (object)
        *(void **)&entry = dlsym(object, NIGH_SYMBOL);
    line->nigh = entry ? entry(NIGH_ABI) : NULL;
    if (!line->nigh || line->nigh->open(&options, &line->context) ||
        line->nigh->connect(line->context, &to, &line->peer))
        fail(bench, "--direct: the module cannot be used");
    snprintf(line->name, sizeof(line->name), "direct");
}

static int be_rank(const struct bench_options *options, int number, int other)
{
    static char why[WHY_BYTES];
    static struct seen seen;
    static struct bench bench;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench.options = options;
    bench.rank = (struct rank){.number = number, .other = other, .patience = 20, .seen = &seen, .why = why};
    bench.memory = malloc((size_t)DEPTH * BUFFER);
    if (!bench.memory)
        fail(&bench, "no memory");
    memset(bench.memory, 1, (size_t)DEPTH * BUFFER);
    for (; bench.count < options->count; bench.count++)
        open_plugin(&bench, &bench.lines[bench.count], options->paths[bench.count]);
    if (options->direct)
        open_direct(&bench, &bench.lines[bench.count++]);
    for (int i = 0; i < TESTS; i++) {
        rounds(&bench, &tests[i]);
        if (number == 1)
            say(&bench, &tests[i]);
        fflush(stdout);
    }
    for (int i = 0; i < options->count; i++)
        close_plugin(&bench, &bench.lines[i]);
    (void)meet(&bench.rank);
    if (options->direct)
        (void)bench.lines[bench.count - 1].nigh->close(bench.lines[bench.count - 1].context);
    free(bench.memory);
    return 0;
}

static bool start(const struct bench_options *options, int number, const int ends[2], pid_t *pid)
{
    fflush(NULL);
    *pid = fork();
    if (*pid == 0) {
        close(ends[!number]);
        exit(be_rank(options, number, ends[number]));
    }
    return *pid > 0;
}

int bench(const struct bench_options *options)
{
    pid_t pids[2] = {0, 0}, ended;
    int ends[2], status, failed = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return 1;
    for (int i = 0; i < 2 && !failed; i++)
        failed = !start(options, i, ends, &pids[i]);
    close(ends[0]);
    close(ends[1]);
    /* The first rank that fails ends the other. */
    do {
        for (int i = 0; i < 2; i++)
            if (failed && pids[i] > 0)
                kill(pids[i], SIGKILL);
        ended = wait(&status);
        failed |= ended > 0 && status != 0;
        for (int i = 0; i < 2; i++)
            pids[i] = pids[i] == ended ? 0 : pids[i];
    } while (ended > 0);
    return failed;
}

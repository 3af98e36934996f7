/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/pair.c - opens, connects, exchanges messages; every wait has an end. */
#include "tools/info/pair.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 1 << 20, ROUNDS = 20, CONNECT_SECONDS = 10, EXCHANGE_SECONDS = 20 };
static const double SIZE_SECONDS = 0.05; /* the module tries other ways in some messages of a size only */
static const uint64_t TAG_ECHO = 1, TAG_END = 2, SLICE_NS = 20000000;

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Behind what failed comes what the module has logged about it. */
static int __attribute__((format(printf, 2, 3))) fail(struct info_pair *pair, const char *format, ...)
{
    char logged[INFO_PROBLEM], what[INFO_PROBLEM];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    snprintf(logged, sizeof(logged), "%s", pair->problem);
    snprintf(pair->problem, sizeof(pair->problem), "%.200s%s%.300s", what, logged[0] != 0 ? ": " : "",
             logged);
    return -1;
}

static void keep_line(void *data, int level, const char *text)
{
    struct info_pair *pair = data;

    if (level == 0)
        snprintf(pair->problem, sizeof(pair->problem), "%s", text);
    else
        fprintf(stderr, "nigh-info: %s\n", text);
}

static int open_rank(struct info_pair *pair, uint64_t job, uint32_t rank)
{
    struct nigh_open options = {
        .size = sizeof(options), .job = job, .rank = rank, .ranks = 2, .log = keep_line, .log_data = pair};
    int rc = pair->ops->open(&options, &pair->context);

    return rc == 0 ? 0 : fail(pair, "open fails (%s)", strerror(-rc));
}

static int connect_rank(struct info_pair *pair, uint32_t rank, struct nigh_endpoint **out)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = rank, .source = NIGH_SOURCE_NONE};
    int rc = pair->ops->connect(pair->context, &to, out);

    return rc == 0 ? 0 : fail(pair, "connect to rank %u fails (%s)", rank, strerror(-rc));
}

/* ---- the other process ---- */

/* Takes the next message, whatever it is; done->status tells. */
static void take_message(struct info_pair *pair, struct nigh_completion *done)
{
    struct nigh_recv receive = {
        .size = sizeof(receive), .buffer = pair->buffer, .bytes = LARGEST, .ignore = NIGH_IGNORE_ALL};

    if (pair->ops->post_recv(pair->context, pair->other, &receive) != 0)
        _exit(1);
    while (pair->ops->poll_completions(pair->context, done, 1) == 0)
        pair->ops->wait(pair->context, SLICE_NS);
}

static void send_back(struct info_pair *pair, uint64_t bytes)
{
    struct nigh_send send = {.size = sizeof(send), .buffer = pair->buffer, .bytes = bytes, .tag = TAG_ECHO};
    struct nigh_completion done;

    while (pair->ops->post_send(pair->other, &send) == -EAGAIN)
        pair->ops->wait(pair->context, SLICE_NS);
    while (pair->ops->poll_completions(pair->context, &done, 1) == 0)
        pair->ops->wait(pair->context, SLICE_NS);
}

/* Starts when the first process has opened: what stops both is told once. */
static void __attribute__((noreturn)) be_the_other(struct info_pair *pair, uint64_t job, int go)
{
    struct nigh_completion done;
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(CONNECT_SECONDS + 2 * EXCHANGE_SECONDS); /* whatever happens to the first process */
    if (read(go, &byte, 1) != 1)
        _exit(1);
    if (open_rank(pair, job, 1) != 0 || connect_rank(pair, 0, &pair->other) != 0) {
        fprintf(stderr, "nigh-info: the second process: %s\n", pair->problem);
        _exit(1);
    }
    for (;;) {
        take_message(pair, &done);
        if (done.status != 0 || done.tag == TAG_END)
            break;
        send_back(pair, done.bytes);
    }
    pair->ops->close(pair->context);
    _exit(0);
}

/* ---- this process ---- */

static uint32_t state_of(struct info_pair *pair, struct nigh_endpoint *endpoint)
{
    struct nigh_query_endpoint facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);

    pair->ops->query(pair->context, endpoint, NIGH_QUERY_ENDPOINT, &facts, &bytes);
    return facts.state;
}

static int wait_ready(struct info_pair *pair, struct nigh_endpoint *endpoint)
{
    double until = now() + CONNECT_SECONDS;
    struct nigh_completion done;
    siginfo_t ended;

    while (state_of(pair, endpoint) == NIGH_CONNECTING) {
        memset(&ended, 0, sizeof(ended));
        if (waitid(P_PID, (id_t)pair->child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
            return fail(pair, "the second process has ended before it was connected");
        if (now() > until)
            return fail(pair, "the second process was not connected within %d s", CONNECT_SECONDS);
        pair->ops->poll_completions(pair->context, &done, 1);
        pair->ops->wait(pair->context, SLICE_NS / 20);
    }
    return state_of(pair, endpoint) == NIGH_READY ? 0 : fail(pair, "the connection did not come about");
}

/* One message there and back (of an endpoint to oneself: just there). */
static int round_trip(struct info_pair *pair, struct nigh_endpoint *endpoint, uint64_t bytes, double until)
{
    struct nigh_send send = {.size = sizeof(send), .buffer = pair->buffer, .bytes = bytes, .tag = TAG_ECHO};
    struct nigh_recv receive = {
        .size = sizeof(receive), .buffer = pair->buffer + LARGEST, .bytes = LARGEST, .tag = TAG_ECHO};
    struct nigh_completion done;
    int rc, left = 2;

    memset(pair->buffer, 1, bytes); /* a message that was just written is what counts */
    rc = pair->ops->post_recv(pair->context, endpoint, &receive);
    if (rc == 0)
        rc = pair->ops->post_send(endpoint, &send);
    while (rc >= 0 && left > 0) {
        rc = pair->ops->poll_completions(pair->context, &done, 1);
        if (rc == 1) {
            rc = done.status;
            left--;
        } else if (rc == 0) {
            if (now() > until)
                return fail(pair, "a message of %llu bytes did not arrive within %d s",
                            (unsigned long long)bytes, EXCHANGE_SECONDS);
            pair->ops->wait(pair->context, SLICE_NS);
        }
    }
    return rc >= 0
               ? 0
               : fail(pair, "a message of %llu bytes failed (%s)", (unsigned long long)bytes, strerror(-rc));
}

int info_pair_exercise(struct info_pair *pair, struct nigh_endpoint *endpoint)
{
    double until = now() + EXCHANGE_SECONDS;

    for (uint64_t bytes = 8; bytes <= LARGEST; bytes *= bytes < 512 ? 8 : 2) {
        double enough = now() + SIZE_SECONDS;

        for (int round = 0; round < ROUNDS || now() < enough; round++) {
            if (round_trip(pair, endpoint, bytes, until) != 0)
                return -1;
        }
    }
    return 0;
}

static void end_child(struct info_pair *pair, bool asked)
{
    double until = now() + 2;

    while (asked && waitpid(pair->child, NULL, WNOHANG) == 0) {
        if (now() > until) {
            asked = false;
            break;
        }
        usleep(1000);
    }
    if (!asked) {
        kill(pair->child, SIGKILL);
        waitpid(pair->child, NULL, 0);
    }
}

static int start_child(struct info_pair *pair, uint64_t job, int *go)
{
    int ends[2];

    if (pipe(ends) != 0)
        return fail(pair, "pipe fails (%s)", strerror(errno));
    fflush(NULL);
    pair->child = fork();
    if (pair->child == 0) {
        close(ends[1]);
        be_the_other(pair, job, ends[0]);
    }
    close(ends[0]);
    if (pair->child < 0) {
        fail(pair, "fork fails (%s)", strerror(errno));
        close(ends[1]);
        return -1;
    }
    *go = ends[1];
    return 0;
}

static int meet(struct info_pair *pair)
{
    if (connect_rank(pair, 0, &pair->self) != 0 || connect_rank(pair, 1, &pair->other) != 0)
        return -1;
    return wait_ready(pair, pair->self) == 0 && wait_ready(pair, pair->other) == 0 ? 0 : -1;
}

int info_pair_open(const struct info_plugin *plugin, struct info_pair *pair)
{
    uint64_t job = 0;
    int go = -1, rc;

    *pair = (struct info_pair){.ops = plugin->ops, .buffer = calloc(2, LARGEST)};
    if (pair->buffer == NULL || getrandom(&job, sizeof(job), 0) != sizeof(job)) {
        free(pair->buffer);
        return fail(pair, "no memory or no random numbers");
    }
    job |= 1; /* 0 would be none */
    if (start_child(pair, job, &go) != 0) {
        free(pair->buffer);
        return -1;
    }
    rc = open_rank(pair, job, 0);
    if (rc == 0 && write(go, "g", 1) != 1)
        rc = fail(pair, "the second process has ended");
    close(go);
    if (pair->context != NULL && rc == 0)
        rc = meet(pair);
    if (rc != 0)
        info_pair_close(pair);
    return rc;
}

void info_pair_close(struct info_pair *pair)
{
    struct nigh_send end = {.size = sizeof(end), .flags = NIGH_INJECT, .tag = TAG_END};
    struct nigh_completion done;
    bool asked = pair->other != NULL && state_of(pair, pair->other) == NIGH_READY &&
                 pair->ops->post_send(pair->other, &end) == 0;

    if (asked)
        pair->ops->poll_completions(pair->context, &done, 1);
    end_child(pair, asked);
    if (pair->context != NULL)
        pair->ops->close(pair->context);
    free(pair->buffer);
}

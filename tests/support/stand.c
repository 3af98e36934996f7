/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stand STATE...: a rank that puts itself into the state of its number (the last one stands for all beyond) and stays
 * there until it is ended, for whoever looks at it from outside. It prints "ready RANK JOB" first.
 *     recv:PEER  blocked in wait(), by its note for PEER       any    the same, for anyone
 *     spin:PEER  the same, polling                             barrier:PEER  the same, for PEER to come
 *     sleep      in wait(), without a note                     idle   asleep elsewhere
 *     compute    on a CPU                                      left   closes its context when it gets SIGUSR1
 *     talk:PEER  sends to PEER and receives from it            late:PEER  as recv, a second after the others
 *     stop       has stopped itself                            end    ends when it gets SIGUSR1
 *     ask:PEER   sends PEER three messages that nobody receives, then as recv
 *     hour:PEER  as recv, for an hour at most
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nigh/transport.h"

static const struct nigh_ops *nigh;
static struct nigh_context *context;
static struct nigh_query_context me;
static uint32_t peer;
static uint64_t seconds; /* that a wait takes at most; 0: it has no end */

static void must(int rc, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "stand: %s: %s\n", what, strerror(-rc));
    exit(1);
}

static void ready(void)
{
    printf("ready %u %016llx\n", me.rank, (unsigned long long)me.job);
    fflush(stdout);
}

static void note(uint32_t state, uint32_t op, uint64_t members)
{
    struct nigh_note note = {.size = sizeof(note),
                             .state = state,
                             .op = op,
                             .peer = members ? NIGH_RANK_NONE : peer,
                             .members = members,
                             .tag = 5,
                             .bytes = 400,
                             .requests = 1,
                             .site = "stand.c:77"};
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    note.since_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    note.until_ns = seconds ? note.since_ns + seconds * UINT64_C(1000000000) : 0;
    must(nigh->note(context, &note), "note");
}

static struct nigh_endpoint *connected(void)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = peer, .source = NIGH_SOURCE_NONE};
    struct nigh_query_endpoint facts = {.state = NIGH_CONNECTING};
    struct nigh_endpoint *endpoint;
    struct nigh_completion done;

    must(nigh->connect(context, &to, &endpoint), "connect");
    while (facts.state == NIGH_CONNECTING) {
        uint64_t bytes = sizeof(facts);

        must(nigh->poll_completions(context, &done, 1), "poll");
        must(nigh->query(context, endpoint, NIGH_QUERY_ENDPOINT, &facts, &bytes), "query");
    }
    return endpoint;
}

static void block(uint32_t op, uint64_t members, int polls)
{
    struct nigh_completion done;

    note(NIGH_NOTE_BLOCKED, op, members);
    ready();
    for (;;) {
        must(nigh->poll_completions(context, &done, 1), "poll");
        if (!polls)
            nigh->wait(context, UINT64_MAX);
    }
}

static void talk(void)
{
    struct nigh_endpoint *to = connected();
    struct nigh_completion done[16];
    uint64_t value = 0, got;
    struct nigh_send send = {.size = sizeof(send), .flags = NIGH_SILENT, .buffer = &value, .bytes = 8};
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = &got, .bytes = 8};

    ready();
    for (;;) {
        must(nigh->post_recv(context, to, &recv), "receive");
        must(nigh->post_send(to, &send), "send");
        while (nigh->poll_completions(context, done, 16) == 0)
            continue;
    }
}

static void ask(void)
{
    struct nigh_endpoint *to = connected();
    uint64_t value = 1;
    struct nigh_send send = {
        .size = sizeof(send), .flags = NIGH_INJECT | NIGH_SILENT, .buffer = &value, .bytes = 8};

    for (int i = 0; i < 3; i++)
        must(nigh->post_send(to, &send), "send");
    block(NIGH_NOTE_OP_RECV, 0, 0);
}

static void stay(void)
{
    ready();
    for (;;)
        pause();
}

static void close_when_told(void)
{
    sigset_t told;
    int number;

    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    sigprocmask(SIG_BLOCK, &told, NULL);
    ready();
    sigwait(&told, &number);
    must(nigh->close(context), "close");
}

static void leave(void)
{
    close_when_told();
    for (;;)
        pause();
}

static void stop(void)
{
    ready();
    raise(SIGSTOP);
    stay();
}

static void compute(void)
{
    ready();
    for (volatile uint64_t i = 0;; i++)
        continue;
}

static void sleep_in_wait(void)
{
    struct nigh_completion done;

    ready();
    for (;;) {
        nigh->wait(context, UINT64_MAX);
        must(nigh->poll_completions(context, &done, 1), "poll");
    }
}

static void take(const char *state)
{
    const char *number = strchr(state, ':');

    peer = number ? (uint32_t)strtoul(number + 1, NULL, 10) : NIGH_RANK_NONE;
    if (strncmp(state, "late", 4) == 0)
        sleep(1);
    if (strncmp(state, "hour", 4) == 0)
        seconds = 3600;
    if (seconds || strncmp(state, "recv", 4) == 0 || strncmp(state, "late", 4) == 0)
        block(NIGH_NOTE_OP_RECV, 0, 0);
    if (strcmp(state, "any") == 0)
        block(NIGH_NOTE_OP_RECV, UINT64_MAX, 0);
    if (strncmp(state, "spin", 4) == 0)
        block(NIGH_NOTE_OP_SSEND, 0, 1);
    if (strncmp(state, "barrier", 7) == 0)
        block(NIGH_NOTE_OP_BARRIER, UINT64_C(1) << peer, 0);
    if (strncmp(state, "talk", 4) == 0)
        talk();
    if (strncmp(state, "ask", 3) == 0)
        ask();
    if (strcmp(state, "compute") == 0)
        compute();
    if (strcmp(state, "sleep") == 0)
        sleep_in_wait();
    if (strcmp(state, "left") == 0)
        leave();
    if (strcmp(state, "stop") == 0)
        stop();
    if (strcmp(state, "idle") == 0)
        stay();
    if (strcmp(state, "end") != 0)
        must(-22, state);
    close_when_told();
}

int main(int argc, char **argv)
{
    void *object = dlopen(getenv("NIGH_PLUGIN"), RTLD_NOW);
    struct nigh_open open = {.size = sizeof(open), .flags = NIGH_OPEN_DETECT, .heap_bytes = 1 << 20};
    uint64_t bytes = sizeof(me);
    nigh_transport_fn entry;

    *(void **)&entry = object ? dlsym(object, NIGH_SYMBOL) : NULL;
    nigh = entry ? entry(NIGH_ABI) : NULL;
    must(nigh && argc > 1 ? 0 : -22, "module and states");
    must(nigh->open(&open, &context), "open");
    must(nigh->query(context, NULL, NIGH_QUERY_CONTEXT, &me, &bytes), "query");
    take(argv[(int)me.rank + 1 < argc ? (int)me.rank + 1 : argc - 1]);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/pair.c - what a scenario calls: see pair.h. */
#include "tests/support/pair_play.h"
#include "tests/support/taken.h"
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Thread_local struct pair_play *pair_now;

uint64_t pair_now_ms(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/* ---- saying no ------------------------------------------------------------------------------------------------ */

static void end_case(uint32_t how, const char *text)
{
    struct pair_shared *shared = pair_now->shared;
    uint32_t none = 0;

    if (__atomic_compare_exchange_n(&shared->verdict, &none, PAIR_WRITING, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        snprintf(shared->text, sizeof(shared->text), "%s", text);
        __atomic_store_n(&shared->verdict, how, __ATOMIC_RELEASE);
    }
    siglongjmp(pair_now->out, 1);
}

void pair_fail(const char *file, int line, const char *format, ...)
{
    char what[768], text[896];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    if (!pair_now) {
        fprintf(stderr, "%s:%d: %s\n", file, line, what);
        abort();
    }
    snprintf(text, sizeof(text), "%s:%d: side %s: %s", file, line, pair_now->name, what);
    end_case(PAIR_FAILED, text);
    abort();
}

void pair_skip(const char *reason)
{
    end_case(PAIR_SKIPPED, reason);
    abort();
}

void pair_check_int(const char *file, int line, const char *what, long long got, long long expected)
{
    if (got != expected)
        pair_fail(file, line, "%s is %lld, not %lld", what, got, expected);
}

/* ---- ends ----------------------------------------------------------------------------------------------------- */

void pair_open(struct pair_end *end)
{
    const struct pair *pair = &pair_now->pair;
    struct nigh_open options = pair->of->options;

    if (end->context)
        return;
    options.size = sizeof(options);
    options.job = pair->job;
    options.rank = end->side;
    options.ranks = pair->form == PAIR_SELF ? 1 : 2;
    if (!options.heap_bytes)
        options.heap_bytes = UINT64_C(64) << 20;
    CHECK_INT(pair->nigh->open(&options, &end->context), 0);
    if (pair->form == PAIR_SELF)
        pair_now->ends[0].context = pair_now->ends[1].context = end->context;
}

void pair_connect(struct pair_end *end)
{
    const struct pair *pair = &pair_now->pair;
    struct nigh_connect to = {
        .size = sizeof(to),
        .rank = pair->form == PAIR_SELF ? 0 : 1 - end->side,
        .source = NIGH_SOURCE_NONE,
    };

    if (end->peer)
        return;
    CHECK_INT(pair->nigh->connect(end->context, &to, &end->peer), 0);
    if (pair->form == PAIR_SELF)
        pair_now->ends[0].peer = pair_now->ends[1].peer = end->peer;
}

void pair_disconnect(struct pair_end *end)
{
    struct nigh_endpoint *peer = end->peer;

    if (!peer)
        return;
    end->peer = NULL;
    if (pair_now->pair.form == PAIR_SELF)
        pair_now->ends[0].peer = pair_now->ends[1].peer = NULL;
    CHECK_INT(pair_now->pair.nigh->disconnect(peer), 0);
}

void pair_close(struct pair_end *end)
{
    struct nigh_context *context = end->context;

    if (!context)
        return;
    end->context = NULL;
    end->peer = NULL;
    if (pair_now->pair.form == PAIR_SELF) {
        pair_now->ends[0].context = pair_now->ends[1].context = NULL;
        pair_now->ends[0].peer = pair_now->ends[1].peer = NULL;
    }
    CHECK_INT(pair_now->pair.nigh->close(context), 0);
}

/* ---- polling -------------------------------------------------------------------------------------------------- */

static void push(struct pair_queue *queue, const struct nigh_completion *done, uint32_t count)
{
    if (queue->count + count > queue->room) {
        queue->room = (queue->count + count) * 2;
        queue->at = realloc(queue->at, queue->room * sizeof(*queue->at));
        CHECK(queue->at != NULL);
    }
    memcpy(queue->at + queue->count, done, count * sizeof(*done));
    queue->count += count;
}

/* Each other time where they lie, except with threads. */
static int poll(const struct pair_end *end, struct nigh_completion *done, uint32_t room)
{
    const struct nigh_ops *nigh = pair_now->pair.nigh;
    int count = -ENOTSUP;

    if (pair_now->polls++ % 2 && NIGH_HAS(nigh, take_completions))
        count = taken_poll(nigh, end->context, done, room);
    return count == -ENOTSUP ? nigh->poll_completions(end->context, room ? done : NULL, room) : count;
}

/* `room`: at most so many completions are taken. */
static int poll_end(struct pair_end *end, uint32_t room)
{
    struct nigh_completion done[32];
    int count;

    if (!end || !end->context)
        return 0;
    count = poll(end, done, room);
    if (count < 0)
        pair_fail(__FILE__, __LINE__, "poll_completions: %d", count);
    if (count)
        push(end->queue, done, (uint32_t)count);
    return count;
}

static int look(uint32_t room)
{
    struct pair *pair = &pair_now->pair;
    int count = poll_end(pair->end[0], room);

    if (pair->form != PAIR_SELF)
        count += poll_end(pair->end[1], room);
    if (__atomic_load_n(&pair_now->shared->verdict, __ATOMIC_ACQUIRE))
        siglongjmp(pair_now->out, 1);
    return count;
}

static void pump(uint32_t room)
{
    /* Ranks may share a CPU here: one that has nothing to do makes room. */
    pair_now->idle = look(room) ? 0 : pair_now->idle + 1;
    if (pair_now->idle > 50 && pair_now->pair.form & (PAIR_FORK | PAIR_THREADS))
        sched_yield();
}

void pair_pump(void)
{
    pump(32);
}

/* More passes than come before all peers are looked at: on a busy machine a time alone may be over after one. */
enum { PASSES = 1100 };

void pair_pump_ms(unsigned ms)
{
    uint64_t end = pair_now_ms() + ms;

    for (unsigned passes = 0; passes < PASSES; passes++)
        (void)look(32);
    while (pair_now_ms() < end)
        pair_pump();
}

static bool late(void)
{
    return pair_now_ms() > pair_now->deadline;
}

void pair_meet(void)
{
    struct pair_shared *shared = pair_now->shared;
    unsigned mine = pair_now->pair.end[0] ? 0 : 1;
    uint32_t count;

    if (pair_now->pair.form & (PAIR_SELF | PAIR_TWO)) {
        pump(0);
        return;
    }
    count = __atomic_add_fetch(&shared->met[mine], 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&shared->met[!mine], __ATOMIC_ACQUIRE) < count) {
        pump(0);
        if (late())
            pair_fail(__FILE__, __LINE__, "the other side did not come to meeting %u", count);
    }
}

static struct nigh_completion take_at(struct pair_queue *queue, uint32_t at)
{
    struct nigh_completion done = queue->at[at];

    queue->count--;
    memmove(queue->at + at, queue->at + at + 1, (queue->count - at) * sizeof(*queue->at));
    return done;
}

bool pair_take(struct pair_end *end, enum nigh_op op, uint64_t context, struct nigh_completion *out)
{
    struct pair_queue *queue = end->queue;

    for (uint32_t i = 0; i < queue->count; i++)
        if (queue->at[i].op == op && queue->at[i].context == context) {
            *out = take_at(queue, i);
            return true;
        }
    return false;
}

uint32_t pair_left(const struct pair_end *end)
{
    return end->queue->count;
}

static void give_up(struct pair_end *end, enum nigh_op op, uint64_t context)
{
    struct nigh_query_context facts = pair_facts(end);
    char first[96] = "none";

    if (end->queue->count)
        snprintf(first, sizeof(first), "op %u context %llu status %d", end->queue->at[0].op,
                 (unsigned long long)end->queue->at[0].context, end->queue->at[0].status);
    pair_fail(__FILE__, __LINE__,
              "no completion of op %d context %llu in time; endpoint state %d, %u posted, %u unexpected, %u "
              "other completions (%s)",
              (int)op, (unsigned long long)context, end->peer ? (int)pair_state_now(end) : 0, facts.posted,
              facts.unexpected, end->queue->count, first);
}

struct nigh_completion pair_await(struct pair_end *end, enum nigh_op op, uint64_t context)
{
    struct nigh_completion done;

    while (!pair_take(end, op, context, &done)) {
        pair_pump();
        if (late())
            give_up(end, op, context);
    }
    return done;
}

struct nigh_completion pair_next(struct pair_end *end, enum nigh_op op)
{
    for (;;) {
        for (uint32_t i = 0; i < end->queue->count; i++)
            if (end->queue->at[i].op == op)
                return take_at(end->queue, i);
        pair_pump();
        if (late())
            give_up(end, op, 0);
    }
}

void pair_unexpected(struct pair_end *end, uint32_t count)
{
    while (pair_facts(end).unexpected < count) {
        pair_pump();
        if (late())
            pair_fail(__FILE__, __LINE__, "%u messages wait, not %u", pair_facts(end).unexpected, count);
    }
}

enum nigh_state pair_state_now(struct pair_end *end)
{
    return (enum nigh_state)pair_peer_facts(end).state;
}

void pair_state(struct pair_end *end, enum nigh_state state)
{
    while (pair_state_now(end) != state) {
        pair_pump();
        if (late())
            pair_fail(__FILE__, __LINE__, "the endpoint is in state %d, not %d", (int)pair_state_now(end),
                      (int)state);
    }
}

/* ---- posts ---------------------------------------------------------------------------------------------------- */

struct nigh_send pair_a_send(const void *buffer, uint64_t bytes, uint64_t tag, uint64_t context)
{
    return (struct nigh_send){
        .size = sizeof(struct nigh_send),
        .buffer = buffer,
        .bytes = bytes,
        .tag = tag,
        .imm = ~tag,
        .context = context,
    };
}

struct nigh_recv pair_a_recv(void *buffer, uint64_t bytes, uint64_t tag, uint64_t context)
{
    return (struct nigh_recv){
        .size = sizeof(struct nigh_recv),
        .buffer = buffer,
        .bytes = bytes,
        .tag = tag,
        .context = context,
    };
}

void pair_send(struct pair_end *end, const void *buffer, uint64_t bytes, uint64_t tag, uint32_t flags,
               uint64_t context)
{
    struct nigh_send send = pair_a_send(buffer, bytes, tag, context);
    int rc;

    send.flags = flags;
    while ((rc = pair_now->pair.nigh->post_send(end->peer, &send)) == -EAGAIN && !late())
        pair_pump();
    CHECK_INT(rc, 0);
}

void pair_recv(struct pair_end *end, void *buffer, uint64_t bytes, uint64_t tag, uint64_t context)
{
    struct nigh_recv recv = pair_a_recv(buffer, bytes, tag, context);

    CHECK_INT(pair_now->pair.nigh->post_recv(end->context, end->peer, &recv), 0);
}

void pair_sent(struct pair_end *end, uint64_t context, uint64_t bytes)
{
    struct nigh_completion done = pair_await(end, NIGH_OP_SEND, context);

    CHECK_INT(done.status, 0);
    CHECK_INT(done.bytes, bytes);
    CHECK(done.endpoint == end->peer);
}

struct nigh_completion pair_received(struct pair_end *end, uint64_t context, uint64_t bytes)
{
    struct nigh_completion done = pair_await(end, NIGH_OP_RECV, context);

    CHECK_INT(done.status, 0);
    CHECK_INT(done.bytes, bytes);
    return done;
}

/* ---- facts ---------------------------------------------------------------------------------------------------- */

static void query(struct pair_end *end, struct nigh_endpoint *endpoint, uint32_t what, void *out,
                  uint64_t bytes)
{
    uint64_t got = bytes;

    CHECK_INT(pair_now->pair.nigh->query(end->context, endpoint, what, out, &got), 0);
    CHECK_INT(got, bytes);
}

struct nigh_query_context pair_facts(struct pair_end *end)
{
    struct nigh_query_context facts;

    query(end, NULL, NIGH_QUERY_CONTEXT, &facts, sizeof(facts));
    return facts;
}

struct nigh_query_stats pair_stats(struct pair_end *end)
{
    struct nigh_query_stats facts;

    query(end, NULL, NIGH_QUERY_STATS, &facts, sizeof(facts));
    return facts;
}

struct nigh_query_endpoint pair_peer_facts(struct pair_end *end)
{
    struct nigh_query_endpoint facts;

    query(end, end->peer, NIGH_QUERY_ENDPOINT, &facts, sizeof(facts));
    return facts;
}

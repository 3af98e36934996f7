/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/hosted.c - see hosted.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/hosted.h"
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const struct nigh_ops *hosted_ops;
bool hosted_quiet;

static void say_nothing(void *data, int level, const char *text)
{
    (void)data;
    (void)level;
    (void)text;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t hosted_job(void)
{
    static uint32_t calls;

    return (uint64_t)getpid() << 32 | ++calls;
}

void hosted_open(struct hosted *hosted, uint64_t job, uint32_t rank, uint32_t flags)
{
    struct nigh_open options = {
        .size = sizeof(options), .flags = flags, .job = job, .rank = rank, .ranks = 8};

    hosted_ops = nigh_transport(NIGH_ABI);
    options.heap_bytes = 4 << 20;
    options.pool_bytes = 8 << 20;
    options.log = hosted_quiet ? say_nothing : NULL;
    hosted->count = 0;
    assert_int_equal(hosted_ops->open(&options, &hosted->context), 0);
}

void hosted_close(struct hosted *hosted)
{
    if (hosted->context)
        assert_int_equal(hosted_ops->close(hosted->context), 0);
    hosted->context = NULL;
}

struct nigh_endpoint *hosted_connect(struct hosted *hosted, uint32_t rank)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = rank, .source = NIGH_SOURCE_NONE};
    struct nigh_endpoint *endpoint;

    assert_int_equal(hosted_ops->connect(hosted->context, &to, &endpoint), 0);
    return endpoint;
}

struct nigh_endpoint *hosted_open_pair(struct hosted *a, struct hosted *b, uint32_t flags)
{
    uint64_t job = hosted_job();

    hosted_open(a, job, 0, 0);
    hosted_open(b, job, 1, flags);
    return hosted_connect(a, 1);
}

void hosted_close_pair(struct hosted *a, struct hosted *b)
{
    hosted_close(a);
    hosted_close(b);
}

void hosted_poll(struct hosted *hosted)
{
    unsigned room = HOSTED_DONE - hosted->count;
    int got =
        hosted_ops->poll_completions(hosted->context, hosted->done + hosted->count, room < 64 ? room : 64);

    assert_true(got >= 0);
    hosted->count += (unsigned)got;
}

const struct nigh_completion *hosted_find(const struct hosted *hosted, uint16_t op, uint64_t context)
{
    for (unsigned i = 0; i < hosted->count; i++)
        if (hosted->done[i].op == op && hosted->done[i].context == context)
            return &hosted->done[i];
    return NULL;
}

int hosted_send(struct nigh_endpoint *to, uint64_t context, uint64_t tag, const void *buffer, uint64_t bytes,
                uint32_t flags)
{
    struct nigh_send send = {.size = sizeof(send),
                             .flags = flags,
                             .buffer = buffer,
                             .bytes = bytes,
                             .tag = tag,
                             .context = context};

    return hosted_ops->post_send(to, &send);
}

int hosted_recv(struct hosted *hosted, struct nigh_endpoint *from, uint64_t context, uint64_t tag,
                void *buffer, uint64_t bytes, uint32_t flags)
{
    struct nigh_recv recv = {.size = sizeof(recv),
                             .flags = flags,
                             .buffer = buffer,
                             .bytes = bytes,
                             .tag = tag,
                             .context = context,
                             .min_free = flags & NIGH_MULTI ? 1 : 0};

    return hosted_ops->post_recv(hosted->context, from, &recv);
}

uint32_t hosted_state(struct hosted *hosted, struct nigh_endpoint *endpoint)
{
    struct nigh_query_endpoint answer = {.size = sizeof(answer)};
    uint64_t bytes = sizeof(answer);

    assert_int_equal(hosted_ops->query(hosted->context, endpoint, NIGH_QUERY_ENDPOINT, &answer, &bytes), 0);
    return answer.state;
}

struct nigh_query_context hosted_facts(struct hosted *hosted)
{
    struct nigh_query_context answer = {.size = sizeof(answer)};
    uint64_t bytes = sizeof(answer);

    assert_int_equal(hosted_ops->query(hosted->context, NULL, NIGH_QUERY_CONTEXT, &answer, &bytes), 0);
    return answer;
}

struct nigh_query_stats hosted_stats(struct hosted *hosted)
{
    struct nigh_query_stats answer = {.size = sizeof(answer)};
    uint64_t bytes = sizeof(answer);

    assert_int_equal(hosted_ops->query(hosted->context, NULL, NIGH_QUERY_STATS, &answer, &bytes), 0);
    return answer;
}

bool hosted_may_read(struct hosted *hosted)
{
    struct nigh_query_machine answer = {.size = sizeof(answer)};
    uint64_t bytes = sizeof(answer);

    assert_int_equal(hosted_ops->query(hosted->context, NULL, NIGH_QUERY_MACHINE, &answer, &bytes), 0);
    return answer.cma != 0;
}

const struct nigh_completion *hosted_until(struct hosted *hosted, struct hosted *other, uint16_t op,
                                           uint64_t context)
{
    uint64_t until = now_ms() + 120000;
    const struct nigh_completion *found;

    while (!(found = hosted_find(hosted, op, context))) {
        if (now_ms() > until)
            fail_msg("operation %u of context %llu has not completed in 120 s", op,
                     (unsigned long long)context);
        hosted_poll(hosted);
        if (other)
            hosted_poll(other);
    }
    return found;
}

void hosted_turns(struct hosted *hosted, struct hosted *other, unsigned turns)
{
    for (unsigned i = 0; i < turns; i++) {
        hosted_poll(hosted);
        if (other)
            hosted_poll(other);
    }
}

static void meet_once(struct hosted *from, struct nigh_endpoint *to, struct hosted *at,
                      struct nigh_endpoint *back)
{
    enum { MEETS = 92 };

    from->count = at->count = 0; /* each may have met others */
    assert_int_equal(hosted_recv(at, back, MEETS, MEETS, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(to, MEETS, MEETS, NULL, 0, NIGH_SILENT), 0);
    hosted_until(at, from, NIGH_OP_RECV, MEETS);
}

void hosted_meet(struct hosted *one, struct nigh_endpoint *to_other, struct hosted *other,
                 struct nigh_endpoint *to_one)
{
    meet_once(other, to_one, one, to_other);
    meet_once(one, to_other, other, to_one);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/stays.h - a rank in a crowd and two that send to it, whose passes a test counts: what tests of short
 * messages that stay in their rings begin and end with. Of one program, so all of it is static. */
#ifndef NIGH_TESTS_STAYS_H
#define NIGH_TESTS_STAYS_H

#include "plugin/context.h"
#include "tests/support/hosted.h"
#include <string.h>
#include <unistd.h>

/* More than any ring holds, and than its sender queues. */
enum { MANY = 3000 };
enum { A = 1, B = 2, LAST = 3 };

/* The root, and two that send to it. */
static struct hosted root, near, other;
static struct nigh_endpoint *from, *from_other, *to, *to_other;

static uint64_t received[MANY];

/* A socket's news ends in a sweep, which keeps what it finds: they wait until a test wants them. */
static const uint32_t no_news;
static const uint32_t *news;

/* Polls of the root alone, fewer than there are between two sweeps. */
static void look(unsigned polls)
{
    hosted_turns(&root, NULL, polls);
}

/* Whatever this machine has, there are more ranks than CPUs. */
static void crowd(struct hosted *hosted)
{
    hosted->context->crowd.full = true;
    nigh_context_settle(hosted->context);
}

static int start(void **state)
{
    uint64_t job = hosted_job();

    (void)state;
    alarm(300);
    hosted_open(&root, job, 0, 0);
    hosted_open(&near, job, 1, 0);
    hosted_open(&other, job, 2, 0);
    from = hosted_connect(&root, 1);
    from_other = hosted_connect(&root, 2);
    to = hosted_connect(&near, 0);
    to_other = hosted_connect(&other, 0);
    for (unsigned i = 0;
         hosted_state(&near, to) != NIGH_READY || hosted_state(&other, to_other) != NIGH_READY ||
         hosted_state(&root, from) != NIGH_READY || hosted_state(&root, from_other) != NIGH_READY;
         i++) {
        assert_true(i < 100000);
        hosted_turns(&root, &near, 10);
        hosted_poll(&other);
        usleep(100);
    }
    news = root.context->service_flag;
    root.context->service_flag = &no_news;
    /* The hints of attaching are taken, and the next sweep is 1024 polls away. */
    look(10);
    for (unsigned i = 0; root.context->idle_passes; i++) {
        assert_true(i < 100000);
        look(1);
    }
    crowd(&root);
    memset(received, 0, sizeof(received));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    root.context->service_flag = news;
    hosted_close(&root);
    hosted_close(&near);
    hosted_close(&other);
    return 0;
}

static inline void post_send(struct nigh_endpoint *endpoint, uint64_t tag, uint64_t value)
{
    assert_int_equal(hosted_send(endpoint, value, tag, &value, sizeof(value), NIGH_INJECT | NIGH_SILENT), 0);
}

/* Its buffer and its context are `number`. */
static inline void post_recv(struct nigh_endpoint *endpoint, uint64_t tag, uint64_t number)
{
    assert_int_equal(hosted_recv(&root, endpoint, number, tag, &received[number], sizeof(uint64_t), 0), 0);
}

static inline void assert_value(uint64_t number, uint64_t value)
{
    const struct nigh_completion *done = hosted_find(&root, NIGH_OP_RECV, number);

    if (!done)
        fail_msg("receive %llu has got nothing", (unsigned long long)number);
    assert_int_equal(done->status, 0);
    assert_int_equal(received[number], value);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/counted.c with threads: several post, poll and sleep in one context, whoever polls takes the next steps of
 * what comes, and each gets what was sent to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/hosted.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 400, LEAST = 4097, MOST = 32768 };

static struct hosted asks, answers;
static struct nigh_endpoint *to, *back;
static unsigned ended[THREADS], wrong, waits, stopped;

static unsigned get(const unsigned *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void add(unsigned *word)
{
    __atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL);
}

/* ---- the side that answers: one thread, from any tag, to the same one -------------------------------------- */

static int next(uint8_t *room)
{
    struct nigh_recv recv = {
        .size = sizeof(recv), .buffer = room, .bytes = MOST, .ignore = NIGH_IGNORE_ALL, .context = 1};

    return hosted_ops->post_recv(answers.context, back, &recv);
}

static void *answer(void *data)
{
    static uint8_t room[MOST];
    struct nigh_completion done;

    (void)data;
    if (next(room))
        add(&wrong);
    while (!get(&stopped)) {
        if (hosted_ops->poll_completions(answers.context, &done, 1) != 1) {
            sched_yield();
            continue;
        }
        /* The room may be read until its send has ended. */
        if (done.status ||
            (done.op == NIGH_OP_RECV ? hosted_send(back, 2, done.tag, room, done.bytes, 0) : next(room)))
            add(&wrong);
    }
    return NULL;
}

/* ---- the side that asks: several threads ------------------------------------------------------------------- */

/* What this one has polled, whosever it is. */
static void poll(void)
{
    struct nigh_completion done[4];
    int count;

    if (get(&waits)) {
        int rc = hosted_ops->wait(asks.context, 1000000);

        if (rc && rc != -ETIMEDOUT && rc != -EINTR)
            add(&wrong);
    }
    count = hosted_ops->poll_completions(asks.context, done, 4);
    for (int i = 0; i < count; i++) {
        if (done[i].status)
            add(&wrong);
        if (done[i].op == NIGH_OP_RECV)
            add(&ended[done[i].context]);
    }
    if (count <= 0)
        sched_yield();
}

static void *ask(void *data)
{
    uint64_t self = (uint64_t)(uintptr_t)data;
    uint8_t *out = malloc(MOST), *in = malloc(MOST);

    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t bytes = LEAST + (uint32_t)(round * 7919 + self * 101) % (MOST - LEAST + 1);

        for (uint32_t i = 0; i < bytes; i++)
            out[i] = (uint8_t)(i * 3 + round + self * 77);
        memset(in, 0, bytes);
        if (hosted_recv(&asks, to, self, self, in, bytes, 0) ||
            hosted_send(to, 9, self, out, bytes, NIGH_SILENT))
            add(&wrong);
        while (get(&ended[self]) <= round && !get(&wrong))
            poll();
        if (memcmp(in, out, bytes))
            add(&wrong);
        if (get(&wrong))
            break;
    }
    free(out);
    free(in);
    return NULL;
}

static void run(unsigned threads)
{
    uint64_t job = hosted_job();
    pthread_t answering, asking[THREADS];

    alarm(300);
    memset(ended, 0, sizeof(ended));
    stopped = wrong = 0;
    hosted_open(&asks, job, 0, NIGH_OPEN_THREADS);
    hosted_open(&answers, job, 1, 0);
    to = hosted_connect(&asks, 1);
    back = hosted_connect(&answers, 0);
    while (hosted_state(&asks, to) != NIGH_READY || hosted_state(&answers, back) != NIGH_READY)
        hosted_turns(&asks, &answers, 10);
    assert_int_equal(pthread_create(&answering, NULL, answer, NULL), 0);
    for (uintptr_t i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&asking[i], NULL, ask, (void *)i), 0);
    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(pthread_join(asking[i], NULL), 0);
    __atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(answering, NULL), 0);
    assert_int_equal(get(&wrong), 0);
    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(ended[i], ROUNDS);
    assert_int_equal(hosted_stats(&asks).rescues, 0);
    hosted_close(&asks);
    hosted_close(&answers);
}

/* One asks and the answer lies where the question did: all of it is counted. */
static void test_one_in_turn(void **state)
{
    (void)state;
    waits = 0;
    run(1);
}

static void test_several(void **state)
{
    (void)state;
    waits = 0;
    run(THREADS);
}

static void test_several_that_wait(void **state)
{
    (void)state;
    waits = 1;
    run(THREADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_in_turn),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_several_that_wait),
    };

    hosted_quiet = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

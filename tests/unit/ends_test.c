/* SPDX-License-Identifier: BSD-3-Clause */
/* What is easily lost where something ends: a thread's sleep beside another one's, a connection before its messages
 * were read, an index before the other side has seen that it is free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/hosted.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1000000, EAGER = 60000 };

static struct hosted a, b, c;
static uint64_t job;
static uint8_t out[3 << 20], in[3 << 20];

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / MS;
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    job = hosted_job();
    hosted_quiet = true;
    a.context = b.context = c.context = NULL;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close(&a);
    hosted_close(&b);
    hosted_close(&c);
    return 0;
}

/* ---- threads -------------------------------------------------------------------------------------------- */

static void *sleep_long(void *data)
{
    (void)data;
    return (void *)(intptr_t)hosted_ops->wait(a.context, UINT64_C(100000) * MS);
}

/* One thread's sleep ends by its time-out. The flag must stay up for the other one. */
static void test_two_sleepers(void **state)
{
    struct nigh_endpoint *to;
    pthread_t thread;
    uint64_t word = 1, begun;
    void *result;

    (void)state;
    hosted_open(&a, job, 0, NIGH_OPEN_THREADS);
    hosted_open(&b, job, 1, 0);
    to = hosted_connect(&b, 0);
    hosted_send(to, 1, 1, &word, 8, 0);
    hosted_until(&b, &a, NIGH_OP_SEND, 1);
    assert_int_equal(hosted_recv(&a, NULL, 2, 1, in, 8, 0), 0);
    hosted_until(&a, &b, NIGH_OP_RECV, 2);
    assert_int_equal(hosted_recv(&a, NULL, 3, 1, in, 8, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, sleep_long, NULL), 0);
    /* Its sleeps are bounded at first: only a long one shows that nobody rings. */
    usleep(400000);
    assert_int_equal(hosted_ops->wait(a.context, 20 * MS), -ETIMEDOUT);
    begun = now_ms();
    hosted_send(to, 4, 1, &word, 8, 0);
    pthread_join(thread, &result);
    assert_int_equal((intptr_t)result, 0);
    assert_true(now_ms() - begun < 90000); /* woken, not at the end of its 100 s */
    assert_int_equal(hosted_stats(&a).rescues, 0);
}

/* A thread sleeps; another one posts a receive whose message is so long that the copy needs several passes. */
static void test_sleeper_and_a_long_copy(void **state)
{
    struct nigh_endpoint *to;
    pthread_t thread;
    uint64_t begun;
    void *result, *heap;

    (void)state;
    hosted_open(&a, job, 0, NIGH_OPEN_THREADS);
    hosted_open(&b, job, 1, 0);
    to = hosted_connect(&b, 0);
    assert_int_equal(hosted_ops->heap_alloc(b.context, sizeof(in), &heap), 0);
    memset(heap, 7, sizeof(in));
    assert_int_equal(hosted_send(to, 1, 1, heap, sizeof(in), 0), 0);
    while (hosted_facts(&a).unexpected == 0)
        hosted_turns(&b, &a, 10);
    assert_int_equal(pthread_create(&thread, NULL, sleep_long, NULL), 0);
    usleep(400000);
    begun = now_ms();
    assert_int_equal(hosted_recv(&a, NULL, 2, 1, in, sizeof(in), 0), 0);
    pthread_join(thread, &result);
    assert_int_equal((intptr_t)result, 0);
    assert_true(now_ms() - begun < 90000); /* woken, not at the end of its 100 s */
    assert_int_equal(hosted_stats(&a).rescues, 0);
    hosted_until(&a, &b, NIGH_OP_RECV, 2);
    assert_int_equal(in[sizeof(in) - 1], 7);
}

/* One thread waits for the descriptor, another one in wait(), and that one's sleep ends. */
static void test_descriptor_beside_a_sleeper(void **state)
{
    struct nigh_endpoint *to;
    struct pollfd ready = {.events = POLLIN};
    uint64_t word = 1;

    (void)state;
    hosted_open(&a, job, 0, NIGH_OPEN_THREADS | NIGH_OPEN_WAIT_FD);
    hosted_open(&b, job, 1, 0);
    to = hosted_connect(&b, 0);
    hosted_send(to, 1, 1, &word, 8, 0);
    hosted_until(&b, &a, NIGH_OP_SEND, 1);
    hosted_turns(&a, &b, 3000);
    while (hosted_ops->wait_fd(a.context, &ready.fd) == -EAGAIN)
        hosted_poll(&a);
    assert_int_equal(hosted_ops->wait(a.context, 20 * MS), -ETIMEDOUT);
    hosted_send(to, 2, 1, &word, 8, 0);
    assert_int_equal(poll(&ready, 1, 60000), 1);
}

/* ---- connections ---------------------------------------------------------------------------------------- */

/* What was sent, and completed, before the last disconnect is still the peer's to read; its chunks may not be used for
 * another one. */
static void test_chunks_outlive_the_connection(void **state)
{
    struct nigh_endpoint *to_b, *to_c;

    (void)state;
    setenv("NIGH_SPAN", "131072", 1);
    hosted_open(&a, job, 0, 0);
    unsetenv("NIGH_SPAN");
    hosted_open(&b, job, 1, 0);
    hosted_open(&c, job, 2, 0);
    to_b = hosted_connect(&a, 1);
    to_c = hosted_connect(&a, 2);
    while (hosted_state(&a, to_b) != NIGH_READY || hosted_state(&a, to_c) != NIGH_READY) {
        hosted_turns(&a, &b, 1);
        hosted_poll(&c);
    }
    memset(out, 0x11, EAGER);
    assert_int_equal(hosted_send(to_b, 1, 1, out, EAGER, 0), 0);
    hosted_until(&a, NULL, NIGH_OP_SEND, 1);
    assert_int_equal(hosted_ops->disconnect(to_b), 0);
    memset(out, 0x22, EAGER);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(hosted_send(to_c, 10 + i, 1, out, EAGER, 0), 0);
        hosted_turns(&a, &c, 2000);
    }
    assert_int_equal(hosted_recv(&b, NULL, 2, 1, in, EAGER, 0), 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 2)->status, 0);
    for (unsigned i = 0; i < EAGER; i++)
        assert_int_equal(in[i], 0x11);
}

/* The last chunk that may be used was read, and short messages since, of which the reader keeps quiet for a while: the
 * next long message must not wait for them. */
static void test_chunks_do_not_wait_for_short_messages(void **state)
{
    enum { LONG = 4000, A_CHUNK = 16, SHORT = 3 };
    struct nigh_endpoint *to_b, *to_c;

    (void)state;
    setenv("NIGH_SPAN", "131072", 1);
    hosted_open(&a, job, 0, 0);
    unsetenv("NIGH_SPAN");
    hosted_open(&b, job, 1, 0);
    hosted_open(&c, job, 2, 0);
    to_b = hosted_connect(&a, 1);
    to_c = hosted_connect(&a, 2);
    while (hosted_state(&a, to_b) != NIGH_READY || hosted_state(&a, to_c) != NIGH_READY) {
        hosted_turns(&a, &b, 1);
        hosted_poll(&c);
    }
    /* One of the two chunks is the other peer's, who does not read. */
    assert_int_equal(hosted_send(to_c, 1000, 1, out, LONG, 0), 0);
    for (unsigned i = 0; i < 4 * (A_CHUNK + SHORT); i++) {
        unsigned bytes = i % (A_CHUNK + SHORT) < A_CHUNK ? LONG : 8;

        assert_int_equal(hosted_recv(&b, NULL, i, 1, in, LONG, 0), 0);
        assert_int_equal(hosted_send(to_b, i, 1, out, bytes, 0), 0);
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, 0);
        hosted_turns(&a, &b, 3);
    }
}

/* The peer leaves while its messages are unread, and connects again before we have looked. */
static void test_messages_of_an_earlier_connection(void **state)
{
    struct nigh_endpoint *to;
    uint64_t word = 4711;

    (void)state;
    hosted_open(&a, job, 0, 0);
    hosted_open(&b, job, 1, 0);
    to = hosted_connect(&b, 0);
    hosted_send(to, 1, 9, &word, 8, 0);
    hosted_until(&b, &a, NIGH_OP_SEND, 1);
    hosted_turns(&a, &b, 3000);
    assert_int_equal(hosted_send(to, 2, 1, &word, 8, 0), 0);
    assert_int_equal(hosted_ops->disconnect(to), 0);
    to = hosted_connect(&b, 0);
    assert_int_equal(hosted_send(to, 3, 2, &word, 8, 0), 0);
    /* The greeting waits at our door before we look at anything. */
    usleep(20000);
    hosted_until(&b, &a, NIGH_OP_SEND, 3);
    assert_int_equal(hosted_recv(&a, NULL, 4, 2, in, 8, 0), 0);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_RECV, 4)->status, 0);
    assert_int_equal(hosted_recv(&a, NULL, 5, 1, in, 8, 0), 0);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_RECV, 5)->status, 0);
}

/* It connected by itself, sent, and left, all before we looked. Returns what the host is told of. */
static const struct nigh_completion *told_of_one_that_left(uint32_t flags)
{
    const struct nigh_completion *done;
    struct nigh_endpoint *to;
    uint64_t word = 4711;

    hosted_open(&a, job, 0, flags);
    hosted_open(&b, job, 1, 0);
    to = hosted_connect(&b, 0);
    while (hosted_state(&b, to) != NIGH_READY)
        hosted_turns(&a, &b, 1);
    assert_int_equal(hosted_recv(&a, NULL, 1, 1, in, 8, 0), 0);
    assert_int_equal(hosted_send(to, 2, 1, &word, 8, 0), 0);
    hosted_close(&b);
    a.count = 0;
    while (!(done = hosted_find(&a, NIGH_OP_RECV, 1)))
        hosted_poll(&a);
    return done;
}

static void check_answer(struct nigh_endpoint *endpoint)
{
    uint64_t word = 0;

    assert_int_equal(hosted_facts(&a).peers, 1);
    assert_int_equal(hosted_state(&a, endpoint), NIGH_PEER_CLOSED);
    assert_int_equal(hosted_send(endpoint, 3, 1, &word, 8, 0), -ECONNRESET);
}

/* The completion comes with an endpoint, and the host may still look at it, and answer, until it comes for more. */
static void test_endpoint_of_a_completion(void **state)
{
    (void)state;
    check_answer(told_of_one_that_left(0)->endpoint);
    hosted_turns(&a, NULL, 5000);
    assert_int_equal(hosted_facts(&a).peers, 0);
}

static void *polls_on(void *data)
{
    struct nigh_completion done;

    (void)data;
    for (unsigned i = 0; i < 5000; i++)
        (void)hosted_ops->poll_completions(a.context, &done, 1);
    return NULL;
}

static void poll_by_another_thread(void)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, polls_on, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Another thread comes for more meanwhile. */
static void test_endpoint_of_another_thread(void **state)
{
    struct nigh_endpoint *endpoint;

    (void)state;
    endpoint = told_of_one_that_left(NIGH_OPEN_THREADS)->endpoint;
    poll_by_another_thread();
    check_answer(endpoint);
}

/* Who waits for a place goes first. */
static void test_endpoint_of_another_thread_with_little_room(void **state)
{
    (void)state;
    setenv("NIGH_PEERS_MAX", "1", 1);
    (void)told_of_one_that_left(NIGH_OPEN_THREADS);
    unsetenv("NIGH_PEERS_MAX");
    poll_by_another_thread();
    assert_int_equal(hosted_facts(&a).peers, 0);
}

/* More connections, one after another, than there is room for at one time: each index comes back, whoever of the two
 * looks first, and what comes for one that is gone is dropped. */
static void test_connections_without_end(void **state)
{
    (void)state;
    setenv("NIGH_PEERS_MAX", "4", 1);
    hosted_open(&a, job, 0, 0);
    hosted_open(&b, job, 1, 0);
    unsetenv("NIGH_PEERS_MAX");
    for (unsigned i = 0; i < 60; i++) {
        struct nigh_endpoint *there = hosted_connect(&a, 1), *back = hosted_connect(&b, 0);
        uint64_t word = i;

        while (hosted_state(&a, there) != NIGH_READY || hosted_state(&b, back) != NIGH_READY)
            hosted_turns(&a, &b, 1);
        a.count = b.count = 0;
        assert_int_equal(hosted_send(there, 1, 1, &word, 8, 0), 0);
        assert_int_equal(hosted_ops->disconnect(there), 0);
        if (i % 3)
            hosted_turns(&a, NULL, 2500);
        assert_int_equal(hosted_send(back, 2, 1, &word, 8, 0), 0);
        assert_int_equal(hosted_recv(&b, NULL, 3, 1, in, 8, 0), 0);
        assert_int_equal(hosted_until(&b, NULL, NIGH_OP_RECV, 3)->status, 0);
        assert_int_equal(hosted_ops->disconnect(back), 0);
        if (i % 2)
            hosted_turns(&a, NULL, 2500);
        else
            hosted_turns(&b, NULL, 2500);
        /* The index is in use again before the other side has looked. */
        there = i % 2 ? hosted_connect(&a, 5) : NULL;
        hosted_turns(&b, NULL, 2500);
        assert_int_equal(hosted_facts(&b).peers, 0);
        if (there)
            assert_int_equal(hosted_ops->disconnect(there), 0);
        hosted_turns(&a, &b, 2500);
        assert_int_equal(hosted_facts(&a).peers, 0);
        assert_int_equal(hosted_facts(&b).peers, 0);
        assert_int_equal(hosted_facts(&a).unexpected, 0);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_two_sleepers, start, stop),
    cmocka_unit_test_setup_teardown(test_sleeper_and_a_long_copy, start, stop),
    cmocka_unit_test_setup_teardown(test_descriptor_beside_a_sleeper, start, stop),
    cmocka_unit_test_setup_teardown(test_chunks_outlive_the_connection, start, stop),
    cmocka_unit_test_setup_teardown(test_chunks_do_not_wait_for_short_messages, start, stop),
    cmocka_unit_test_setup_teardown(test_messages_of_an_earlier_connection, start, stop),
    cmocka_unit_test_setup_teardown(test_endpoint_of_a_completion, start, stop),
    cmocka_unit_test_setup_teardown(test_endpoint_of_another_thread, start, stop),
    cmocka_unit_test_setup_teardown(test_endpoint_of_another_thread_with_little_room, start, stop),
    cmocka_unit_test_setup_teardown(test_connections_without_end, start, stop),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}

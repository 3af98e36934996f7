/* SPDX-License-Identifier: BSD-3-Clause */
/* In which order peers are looked at where ranks share CPUs: those on ours first, wherever they
 * move. The CPUs are staged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "shm/os.h"
#include "tests/support/cpus.h"
#include "tests/support/hosted.h"
#include <unistd.h>

enum { RANKS = 4, US = 3, PASSES = 1100 /* a sweep is among them */ };

static struct nigh_os saved;
static struct hosted rank[RANKS];
static struct nigh_endpoint *to[RANKS], *from[RANKS];
static int cpu_of[RANKS], cpu;
static cpu_set_t allowed;

static int staged_getcpu(void)
{
    return cpu;
}

static void poll_one(unsigned who)
{
    cpu = cpu_of[who];
    hosted_poll(&rank[who]);
}

static void sweep_all(void)
{
    for (unsigned i = 0; i < RANKS * PASSES; i++)
        poll_one(i / PASSES);
}

static void send_one(unsigned i, uint64_t value)
{
    uint64_t got = 0;

    rank[US].count = 0;
    assert_int_equal(hosted_recv(&rank[US], from[i], i, i, &got, sizeof(got), 0), 0);
    assert_int_equal(hosted_send(to[i], i, i, &value, sizeof(value), NIGH_SILENT), 0);
    while (!hosted_find(&rank[US], NIGH_OP_RECV, i)) {
        poll_one(i);
        poll_one(US);
    }
    assert_int_equal(got, value);
}

static int start(void **state)
{
    static const int cpus[RANKS] = {5, 7, 5, 7};
    uint64_t job = hosted_job();

    (void)state;
    alarm(300);
    saved = nigh_os;
    nigh_os.sched_getcpu = staged_getcpu;
    assert_int_equal(cpus_one(&allowed), 0);
    for (unsigned i = 0; i < RANKS; i++) {
        cpu = cpu_of[i] = cpus[i];
        hosted_open(&rank[i], job, i, 0);
    }
    for (unsigned i = 0; i < US; i++) {
        cpu = cpu_of[i];
        to[i] = hosted_connect(&rank[i], US);
        cpu = cpu_of[US];
        from[i] = hosted_connect(&rank[US], i);
        send_one(i, 40 + i);
    }
    assert_int_equal(hosted_facts(&rank[US]).crowded, 1);
    assert_int_equal(rank[US].context->hot_count, US);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (unsigned i = 0; i < RANKS; i++)
        hosted_close(&rank[i]);
    nigh_os = saved;
    return cpus_all(&allowed);
}

static void assert_first(unsigned i)
{
    assert_ptr_equal(rank[US].context->hot[0], from[i]);
    for (unsigned k = 0; k < US; k++)
        send_one(k, 50 + k);
}

/* As soon as they have met: what a context tells when it is opened is enough where ranks are bound. */
static void test_bound(void **state)
{
    (void)state;
    assert_first(1);
}

static void test_peer_moves(void **state)
{
    (void)state;
    cpu_of[1] = 5;
    cpu_of[2] = 7;
    sweep_all();
    assert_first(2);
}

static void test_we_move(void **state)
{
    (void)state;
    cpu_of[1] = 6;
    cpu_of[US] = 5;
    sweep_all();
    assert_true(rank[US].context->hot[0] != from[1] && rank[US].context->hot[1] != from[1]);
    assert_ptr_equal(rank[US].context->hot[2], from[1]);
    cpu_of[US] = 6;
    sweep_all();
    assert_first(1);
}

/* What a pass that ended in the middle left for the next one does not stay in its way. */
static void test_behind_full(void **state)
{
    struct nigh_completion done;
    uint64_t got[US], value = 0;

    (void)state;
    sweep_all(); /* none among the passes below: it looks at them in another order */
    for (unsigned i = 0; i < 2; i++) {
        rank[US].count = 0;
        for (unsigned k = 0; k < US; k++) {
            assert_int_equal(hosted_recv(&rank[US], from[k], k, k, &got[k], sizeof(got[k]), 0), 0);
            assert_int_equal(hosted_send(to[k], k, k, &value, sizeof(value), NIGH_SILENT), 0);
        }
        cpu = cpu_of[US];
        assert_int_equal(hosted_ops->poll_completions(rank[US].context, &done, 1), 1);
        assert_int_equal(done.context, 1);
        while (rank[US].count < US - 1)
            poll_one(US);
        poll_one(US);
    }
}

/* Two that do not know where they are do not share a CPU for that. */
static void test_unknown(void **state)
{
    struct nigh_endpoint *first = rank[US].context->hot[0], *last = rank[US].context->hot[2];

    (void)state;
    for (unsigned i = 0; i < RANKS; i++)
        cpu_of[i] = -1;
    cpu_of[0] = cpu_of[2] = 7;
    sweep_all();
    assert_ptr_equal(rank[US].context->hot[0], first);
    assert_ptr_equal(rank[US].context->hot[2], last);
    send_one(1, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bound, start, stop),
        cmocka_unit_test_setup_teardown(test_peer_moves, start, stop),
        cmocka_unit_test_setup_teardown(test_we_move, start, stop),
        cmocka_unit_test_setup_teardown(test_behind_full, start, stop),
        cmocka_unit_test_setup_teardown(test_unknown, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

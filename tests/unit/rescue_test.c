/* SPDX-License-Identifier: BSD-3-Clause */
/* What counts as a lost wake-up: a message that nobody has rung for, and not one whose sender was about to ring when
 * the clock ended the sleep. futex and sched_yield() are the test's own (nigh_os, -Wl,--wrap). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "shm/os.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <linux/futex.h>
#include <unistd.h>

enum { MS = 1000000, RING_LATE = 1, NEVER_RING };

static struct hosted sleeper, sender;
static struct nigh_endpoint *to;
static int (*real_futex)(uint32_t *word, int op, uint32_t value, const struct timespec *timeout);
static int stage; /* of the sleeper's next sleep */
static bool owed; /* the sender has published and not rung yet */

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    if (owed && stage == RING_LATE) {
        owed = false;
        nigh_bell_ring(&sleeper.context->bell, NIGH_ASLEEP);
    }
    return 0;
}

/* The clock ends the sleep, and before the sleeper can look again a message is there, by a sender that is stopped in
 * front of its look at the flag: it finds none up here and is made to ring afterwards, or never. */
static int staged_futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
    struct nigh_arena_state *shown = nigh_arena_state(&sleeper.context->arena);
    uint32_t flag;

    if (op != FUTEX_WAIT || !stage || owed)
        return real_futex(word, op, value, timeout);
    flag = nigh_load_relaxed(&shown->asleep);
    assert_int_equal(flag, NIGH_ASLEEP);
    nigh_store_relaxed(&shown->asleep, NIGH_AWAKE);
    assert_int_equal(hosted_send(to, 7, 1, &value, sizeof(value), NIGH_INJECT), 0);
    nigh_store_relaxed(&shown->asleep, flag);
    owed = true;
    errno = ETIMEDOUT;
    return -1;
}

static int start(void **state)
{
    uint64_t job = hosted_job();
    uint32_t word = 1;

    (void)state;
    alarm(300);
    stage = 0;
    owed = false;
    real_futex = nigh_os.futex;
    nigh_os.futex = staged_futex;
    hosted_open(&sleeper, job, 0, 0);
    hosted_open(&sender, job, 1, 0);
    to = hosted_connect(&sender, 0);
    assert_int_equal(hosted_recv(&sleeper, NULL, 1, 1, &word, sizeof(word), 0), 0);
    assert_int_equal(hosted_send(to, 1, 1, &word, sizeof(word), 0), 0);
    hosted_until(&sleeper, &sender, NIGH_OP_RECV, 1);
    hosted_turns(&sleeper, &sender, 100);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    nigh_os.futex = real_futex;
    hosted_close(&sleeper);
    hosted_close(&sender);
    return 0;
}

/* The sleeper's rescues behind a sleep of this kind. */
static uint64_t rescues_of(int kind)
{
    uint32_t word;

    assert_int_equal(hosted_recv(&sleeper, NULL, 2, 1, &word, sizeof(word), 0), 0);
    stage = kind;
    owed = false;
    sleeper.count = 0;
    assert_int_equal(hosted_ops->wait(sleeper.context, UINT64_C(60000) * MS), 0);
    stage = 0;
    hosted_poll(&sleeper);
    assert_non_null(hosted_find(&sleeper, NIGH_OP_RECV, 2));
    return hosted_stats(&sleeper).rescues;
}

/* One whose message the first look behind the sleep passes over is found by a later one, without a yield, and not counted. */
static void test_rung_late_is_none(void **state)
{
    unsigned sleeps = 0;

    (void)state;
    do
        assert_int_equal(rescues_of(RING_LATE), 0);
    while (owed && ++sleeps < 20);
    assert_false(owed);
}

static void test_never_rung_counts_one(void **state)
{
    uint64_t rescues = 0;
    unsigned sleeps = 0;

    (void)state;
    while (!rescues && ++sleeps <= 20)
        rescues = rescues_of(NEVER_RING);
    assert_int_equal(rescues, 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_rung_late_is_none, start, stop),
    cmocka_unit_test_setup_teardown(test_never_rung_counts_one, start, stop),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}

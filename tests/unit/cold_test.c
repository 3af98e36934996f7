/* SPDX-License-Identifier: BSD-3-Clause */
/* Who has more peers than it polls each time says so in its state's line, and those that it does not poll set a hint:
 * their messages are found in the next pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/hosted.h"
#include <unistd.h>

#define SENDERS (NIGH_HOT_MAX + 1)

static struct hosted receiver, sender[SENDERS];
static struct nigh_endpoint *to[SENDERS];

static void pass_on(uint32_t i, uint64_t context)
{
    static uint64_t word;

    assert_int_equal(hosted_recv(&receiver, NULL, context, 1, &word, sizeof(word), 0), 0);
    assert_int_equal(hosted_send(to[i], context, 1, &context, sizeof(context), NIGH_INJECT), 0);
}

static void open_one(struct hosted *hosted, uint64_t job, uint32_t rank)
{
    struct nigh_open options = {.size = sizeof(options),
                                .job = job,
                                .rank = rank,
                                .ranks = SENDERS + 1,
                                .heap_bytes = 1 << 20,
                                .pool_bytes = 1 << 20};

    hosted_ops = nigh_transport(NIGH_ABI);
    assert_int_equal(hosted_ops->open(&options, &hosted->context), 0);
}

static void come(uint64_t job, uint32_t i)
{
    open_one(&sender[i], job, i + 1);
    to[i] = hosted_connect(&sender[i], 0);
    pass_on(i, i + 1);
    hosted_until(&receiver, &sender[i], NIGH_OP_RECV, i + 1);
}

static uint32_t says_cold(void)
{
    return nigh_load_relaxed(&nigh_arena_state(&receiver.context->arena)->cold);
}

static void test_hints_are_asked_for(void **state)
{
    uint64_t job = hosted_job();

    (void)state;
    alarm(300);
    open_one(&receiver, job, 0);
    for (uint32_t i = 0; i < NIGH_HOT_MAX; i++)
        come(job, i);
    assert_int_equal(says_cold(), 0);
    come(job, NIGH_HOT_MAX);
    assert_int_equal(says_cold(), 1);
    for (uint32_t i = 0; i < 3 * SENDERS; i++) {
        uint64_t context = 1000 + i;

        pass_on(i % SENDERS, context);
        hosted_poll(&receiver);
        hosted_poll(&receiver);
        assert_non_null(hosted_find(&receiver, NIGH_OP_RECV, context));
    }
    for (uint32_t i = 0; i < SENDERS; i++)
        hosted_close(&sender[i]);
    hosted_close(&receiver);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_hints_are_asked_for)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

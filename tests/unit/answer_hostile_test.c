/* SPDX-License-Identifier: BSD-3-Clause */
/* Lies about which messages are over. Each number is looked at before it is used: of those that a slot names ahead of
 * the lie the messages are over, of the others they end with -EPROTO, and everybody else is served. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "plugin/wire.h"
#include "tests/support/siege.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 64 * 1024, COUNT = 5, ENDED = 2 };

static struct hosted victim, good;
static struct foe foe;
static struct nigh_endpoint *to_foe, *to_good;
static uint8_t out[BYTES], in[BYTES];
static uint32_t ids[COUNT];

/* Messages that lie with the victim, as the foe says that it may read them; their numbers. */
static int start(void **state)
{
    struct nigh_wire_refer refer;
    struct nigh_slot slot;

    (void)state;
    alarm(300);
    hosted_quiet = true;
    siege_open(&victim, &foe, &good, &to_foe, &to_good);
    memset(out, 0x5a, sizeof(out));
    nigh_store_relaxed(&foe.pair->reading, 1);
    victim.context->config.path = NIGH_PATH_CMA;
    victim.count = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(hosted_send(to_foe, i, i, out, BYTES, 0), 0);
        while (!foe_receive(&foe, &slot) || nigh_head_kind(slot.head) != NIGH_K_REFER)
            hosted_turns(&victim, &good, 1);
        memcpy(&refer, slot.payload, sizeof(refer));
        ids[i] = refer.id;
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    siege_close(&victim, &foe, &good);
    return 0;
}

static void finish(uint32_t id, uint64_t status, const uint32_t *more, uint32_t bytes)
{
    foe_send(&foe, nigh_head_make(NIGH_K_FINISH, 0, 0, 0), id, status, more, bytes);
}

static void is_over(unsigned i, int status)
{
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_SEND, i)->status, status);
}

/* The first `over` are, the others end with the foe; the good one hears and is heard. */
static void broken_behind(unsigned over)
{
    for (unsigned i = 0; hosted_state(&victim, to_foe) == NIGH_READY; i++) {
        assert_true(i < 100000);
        hosted_turns(&victim, &good, 1);
    }
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_BROKEN);
    for (unsigned i = 0; i < COUNT; i++)
        is_over(i, i < over ? 0 : -EPROTO);
    assert_int_equal(hosted_recv(&good, NULL, 70, 7, in, BYTES, 0), 0);
    assert_int_equal(hosted_send(to_good, 71, 7, out, BYTES, 0), 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, 70)->status, 0);
    is_over(71, 0);
    assert_memory_equal(in, out, BYTES);
}

static void test_honest(void **state)
{
    (void)state;
    finish(ids[0], 0, ids + 1, (COUNT - 1) * sizeof(ids[0]));
    for (unsigned i = 0; i < COUNT; i++)
        is_over(i, 0);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

/* A status is that of all of them. */
static void test_all_fail(void **state)
{
    (void)state;
    finish(ids[0], (uint64_t)(int64_t)-EIO, ids + 1, (COUNT - 1) * sizeof(ids[0]));
    for (unsigned i = 0; i < COUNT; i++)
        is_over(i, -EIO);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

static void test_no_such_number(void **state)
{
    uint32_t more[] = {ids[1], 4000, ids[2]};

    (void)state;
    finish(ids[0], 0, more, sizeof(more));
    broken_behind(ENDED);
}

static void test_number_out_of_all(void **state)
{
    uint32_t more[] = {ids[1], UINT32_MAX, ids[2]};

    (void)state;
    finish(ids[0], 0, more, sizeof(more));
    broken_behind(ENDED);
}

static void test_twice(void **state)
{
    uint32_t more[] = {ids[1], ids[0], ids[2]};

    (void)state;
    finish(ids[0], 0, more, sizeof(more));
    broken_behind(ENDED);
}

static void test_twice_the_same(void **state)
{
    uint32_t more[] = {ids[1], ids[1]};

    (void)state;
    finish(ids[0], 0, more, sizeof(more));
    broken_behind(ENDED);
}

/* Half a number. */
static void test_odd_length(void **state)
{
    (void)state;
    finish(ids[0], 0, ids + 1, 6);
    broken_behind(0);
}

/* More than a slot has room for: they would lie in the next ones. */
static void test_too_long(void **state)
{
    uint32_t more[32] = {0};

    (void)state;
    finish(ids[0], 0, more, (NIGH_FINISH_MORE + 1) * sizeof(more[0]));
    broken_behind(0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(honest), TEST(all_fail),       TEST(no_such_number), TEST(number_out_of_all),
        TEST(twice),  TEST(twice_the_same), TEST(odd_length),     TEST(too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

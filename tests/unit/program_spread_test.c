/* SPDX-License-Identifier: BSD-3-Clause */
/* Where ranks outnumber CPUs, messages of 32 to 64 KiB that a rank sends to several peers, which have mapped its program's
 * memory, lie there until they are received, or fetched; all others of these lengths are over at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/program.h"
#include "tests/support/shares.h"
#include <string.h>

enum { LONG = 48 * 1024, LEAST = 32 * 1024, MOST = 64 * 1024, LAST = 900 };

static uint8_t in[MOST], elsewhere[2 * MOST];

static void meet(unsigned p)
{
    assert_int_equal(hosted_recv(&peer[p], back[p], LAST, LAST, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(to[p], LAST, LAST, NULL, 0, NIGH_SILENT), 0);
    until(&peer[p], NIGH_OP_RECV, LAST);
    assert_int_equal(hosted_recv(&root, to[p], LAST + 1 + p, LAST, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(back[p], LAST, LAST, NULL, 0, NIGH_SILENT), 0);
    until(&root, NIGH_OP_RECV, LAST + 1 + p);
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    make_file(F_SEAL_SHRINK | F_SEAL_GROW);
    shares_open();
    root.context->config.place_from = 256 * 1024;
    for (unsigned p = 0; p < PEERS; p++) {
        peer[p].context->config.place_from = 256 * 1024;
        peer[p].context->config.fetch_ns = UINT64_MAX;
        meet(p);
    }
    for (unsigned i = 0; i < sizeof(elsewhere); i++)
        elsewhere[i] = (uint8_t)(i * 3 + i / 5000);
    assert_int_equal(hosted_facts(&root).crowded, 1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    shares_close();
    drop_file();
    return 0;
}

/* One to each, and the same again: whether they come one behind the other is not known at the first one. How many of the
 * last two are not over. */
static unsigned lie_of(const uint8_t *at, uint64_t bytes, uint32_t flags)
{
    unsigned lie = 0;

    for (unsigned i = 0; i < 2 * PEERS; i++) {
        unsigned p = i % PEERS;

        if (p == 0)
            root.count = 0;
        assert_int_equal(hosted_send(to[p], i, i, at + p * bytes, bytes, flags), 0);
        if (p < PEERS - 1)
            continue;
        turns(20);
        lie = !hosted_find(&root, NIGH_OP_SEND, i) + !hosted_find(&root, NIGH_OP_SEND, i - 1);
        for (unsigned q = 0; q < PEERS; q++) {
            unsigned id = i + 1 - PEERS + q;

            peer[q].count = 0;
            assert_int_equal(hosted_recv(&peer[q], back[q], id, id, in, bytes, 0), 0);
            assert_int_equal(until(&peer[q], NIGH_OP_RECV, id)->status, 0);
            assert_memory_equal(in, at + q * bytes, bytes);
            assert_int_equal(until(&root, NIGH_OP_SEND, id)->status, 0);
        }
    }
    return lie;
}

static void skip_unless_mapped(void)
{
    if (back[0]->program.base)
        return;
    print_message("another process' memory can be neither read nor mapped here\n");
    skip();
}

static void test_several(void **state)
{
    uint8_t *at = base + PAGE + 5;

    (void)state;
    skip_unless_mapped();
    assert_int_equal(lie_of(at, LONG, NIGH_MAY_WAIT), PEERS);
    assert_int_equal(lie_of(at, LEAST, NIGH_MAY_WAIT), PEERS);
    assert_int_equal(lie_of(at, MOST, NIGH_MAY_WAIT), PEERS);
    assert_int_equal(lie_of(at, LEAST - 1, NIGH_MAY_WAIT), 0);
    assert_int_equal(lie_of(at, LONG, 0), 0);
    assert_int_equal(lie_of(elsewhere, LONG, NIGH_MAY_WAIT), 0);
    assert_int_equal(lie_of(base + BYTES - LONG, LONG, NIGH_MAY_WAIT), 1); /* the second is behind the file */
    assert_int_equal(shared(), 0);
}

/* Who has not mapped it reads by the kernel, which is not better than two copies. */
static void test_not_mapped(void **state)
{
    (void)state;
    skip_unless_mapped();
    back[1]->pair->maps = 0;
    assert_int_equal(lie_of(base + PAGE, LONG, NIGH_MAY_WAIT), 1);
    back[1]->pair->maps = 1;
    assert_int_equal(lie_of(base + PAGE, LONG, NIGH_MAY_WAIT), 2);
    make_private();
    assert_int_equal(lie_of(base + PAGE, LONG, NIGH_MAY_WAIT), 0);
}

static void test_each_with_a_cpu(void **state)
{
    (void)state;
    root.context->crowd.full = false;
    root.context->config.beside_from = root.context->config.beside_row_from = UINT64_MAX;
    nigh_context_settle(root.context);
    assert_int_equal(lie_of(base + PAGE, LONG, NIGH_MAY_WAIT), 0);
}

/* All to one are no alltoall: its host may compute for long. */
static void test_one(void **state)
{
    (void)state;
    root.count = 0;
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(hosted_send(to[0], i, i, base + PAGE, LONG, NIGH_MAY_WAIT), 0);
    turns(20);
    for (unsigned i = 0; i < 8; i++)
        assert_non_null(hosted_find(&root, NIGH_OP_SEND, i));
}

/* Who sends before it receives waits for nobody's receive. */
static void test_fetched(void **state)
{
    (void)state;
    root.count = 0;
    for (unsigned p = 0; p < PEERS; p++)
        peer[p].context->config.fetch_ns = 0;
    for (unsigned i = 0; i < 2 * PEERS; i++)
        assert_int_equal(hosted_send(to[i % PEERS], i, i, base + PAGE + i * LONG, LONG, NIGH_MAY_WAIT), 0);
    for (unsigned i = 0; i < 100; i++)
        hosted_poll(&root);
    if (back[0]->program.base) /* it lies there until a peer has had its turn */
        assert_null(hosted_find(&root, NIGH_OP_SEND, 2 * PEERS - 1));
    for (unsigned i = 0; i < 2 * PEERS; i++)
        assert_int_equal(until(&root, NIGH_OP_SEND, i)->status, 0);
    for (unsigned i = 0; i < 2 * PEERS; i++) {
        unsigned p = i % PEERS;

        assert_int_equal(hosted_recv(&peer[p], back[p], i, i, in, LONG, 0), 0);
        assert_int_equal(until(&peer[p], NIGH_OP_RECV, i)->status, 0);
        assert_memory_equal(in, base + PAGE + i * LONG, LONG);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(several), TEST(not_mapped), TEST(each_with_a_cpu), TEST(one), TEST(fetched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

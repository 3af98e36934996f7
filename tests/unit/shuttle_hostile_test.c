/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes in a shuttle: all of it comes unasked, in pieces. Beginnings and pieces that cannot be end their writer alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/cpus.h"
#include "tests/support/siege.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 4096, TOTAL = 2 * PIECE + 100, TAG = 77, LONG = 1 << 16 };

static struct hosted victim, good;
static struct foe foe;
static struct nigh_endpoint *to_foe, *to_good;
static uint8_t in[LONG], out[LONG];
static cpu_set_t allowed;

static int start(void **state)
{
    (void)state;
    alarm(300);
    assert_int_equal(cpus_one(&allowed), 0);
    siege_open(&victim, &foe, &good, &to_foe, &to_good);
    assert_int_equal(nigh_window_back_shuttle(&foe.window, &foe.arena, 65536), 0);
    for (uint32_t at = 0; at < LONG; at++)
        out[at] = (uint8_t)(at * 7 + at / 251);
    memset(in, 0, sizeof(in));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    siege_close(&victim, &foe, &good);
    return cpus_all(&allowed);
}

static void assert_broken(void)
{
    for (unsigned i = 0; i < 100 && hosted_state(&victim, to_foe) == NIGH_READY; i++)
        hosted_turns(&victim, &good, 100);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_BROKEN);
    assert_int_equal(hosted_recv(&good, NULL, 900, 900, in, 64, 0), 0);
    assert_int_equal(hosted_send(to_good, 901, 900, out, 64, 0), 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, 900)->status, 0);
}

static void announce(uint32_t eager, uint32_t bytes, uint32_t line, uint32_t flags)
{
    struct nigh_wire_first first = {.total = TOTAL, .eager = eager, .id = 3, .line = line, .bytes = bytes};

    memcpy(nigh_window_shuttle(&foe.window), out, TOTAL);
    foe_send(&foe, nigh_head_make(NIGH_K_FIRST, 0, 0, NIGH_F_SHUTTLE | flags), TAG, 5, &first, sizeof(first));
}

static void more(uint32_t line, uint32_t bytes, uint32_t flags)
{
    struct nigh_wire_piece piece = {.line = line, .bytes = bytes};

    foe_send(&foe, nigh_head_make(NIGH_K_PIECE, 0, 0, flags), 3, 0, &piece, sizeof(piece));
}

static void expect(uint64_t bytes)
{
    assert_int_equal(hosted_recv(&victim, to_foe, 10, TAG, in, bytes, 0), 0);
}

/* What the others are lies about. */
static void test_as_it_should_be(void **state)
{
    (void)state;
    for (unsigned early = 0; early < 2; early++) {
        if (!early)
            expect(TOTAL);
        announce(TOTAL, PIECE, 0, 0);
        more(PIECE / NIGH_LINE, PIECE, NIGH_F_SHUTTLE);
        more(2 * PIECE / NIGH_LINE, 100, NIGH_F_SHUTTLE);
        hosted_turns(&victim, &good, 100);
        if (early)
            expect(TOTAL);
        assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 10)->status, 0);
        assert_memory_equal(in, out, TOTAL);
        assert_int_equal(in[TOTAL], 0);
        victim.count = 0;
        memset(in, 0, TOTAL);
    }
}

static void again(void **state)
{
    stop(state);
    start(state);
}

static void test_beginnings(void **state)
{
    const struct nigh_wire_first cases[] = {
        {.eager = 0, .bytes = 0},
        {.eager = PIECE, .bytes = PIECE}, /* a part of it, and the rest when it is asked for */
        {.eager = TOTAL - 1, .bytes = PIECE},
        {.eager = TOTAL, .bytes = TOTAL + 64},
        {.eager = TOTAL + 64, .bytes = PIECE},
        {.eager = TOTAL, .bytes = PIECE, .line = 1},
    };

    for (unsigned i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        if (i)
            again(state);
        if (i % 2)
            expect(TOTAL);
        announce(cases[i / 2].eager, cases[i / 2].bytes, cases[i / 2].line, 0);
        assert_broken();
    }
}

/* One that would not fit. */
static void test_longer_than_a_shuttle(void **state)
{
    struct nigh_wire_first first = {.total = NIGH_SHUTTLE_BYTES + 64, .id = 3};

    (void)state;
    first.bytes = first.eager = NIGH_SHUTTLE_BYTES + 64;
    foe_send(&foe, nigh_head_make(NIGH_K_FIRST, 0, 0, NIGH_F_SHUTTLE), TAG, 5, &first, sizeof(first));
    assert_broken();
}

/* Before it is received, where pieces stay where they lie; and behind its end. */
static void test_pieces(void **state)
{
    const struct {
        uint32_t line, bytes, flags;
    } cases[] = {
        {0, PIECE, NIGH_F_SHUTTLE},
        {PIECE / NIGH_LINE, PIECE, NIGH_F_SHUTTLE | NIGH_F_RETURNS},
        {PIECE / NIGH_LINE, 0, NIGH_F_SHUTTLE},
        {PIECE / NIGH_LINE, PIECE + 164, NIGH_F_SHUTTLE},
        {foe_pool_line(&foe), PIECE, 0},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (i)
            again(state);
        (void)foe_pool_line(&foe);
        announce(TOTAL, PIECE, 0, 0);
        hosted_turns(&victim, &good, 100);
        more(cases[i].line, cases[i].bytes, cases[i].flags);
        assert_broken();
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, start, stop)

static const struct CMUnitTest tests[] = {
    CASE(test_as_it_should_be),
    CASE(test_beginnings),
    CASE(test_longer_than_a_shuttle),
    CASE(test_pieces),
};

int main(void)
{
    hosted_quiet = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What nobody has taken yet stays in a shuttle that its sender can write: what a peer says of its pieces is checked all
 * the same, one that is sound is taken in the middle, and what it never ends is dropped with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/siege.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { KIB = 1024, TAG = 77, ID = 3, TOTAL = 64 * KIB, PIECE = 16 * KIB };

static struct hosted victim, good;
static struct foe foe;
static struct nigh_endpoint *to_foe, *to_good;
static uint8_t in[TOTAL], out[TOTAL];

static int start(void **state)
{
    (void)state;
    alarm(300);
    siege_open(&victim, &foe, &good, &to_foe, &to_good);
    assert_int_equal(nigh_window_back_shuttle(&foe.window, &foe.arena, TOTAL), 0);
    for (unsigned at = 0; at < TOTAL; at++)
        out[at] = (uint8_t)(at * 7 + at / 256 * 3);
    memcpy(nigh_window_shuttle(&foe.window), out, TOTAL);
    memset(in, 0, sizeof(in));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    siege_close(&victim, &foe, &good);
    return 0;
}

static void send_first(uint32_t line, uint32_t flags)
{
    struct nigh_wire_first first = {.total = TOTAL, .id = ID, .eager = TOTAL, .line = line, .bytes = PIECE};

    foe_send(&foe, nigh_head_make(NIGH_K_FIRST, 0, 0, flags), TAG, 0, &first, sizeof(first));
    hosted_turns(&victim, &good, 100);
}

static void send_piece(uint32_t line, uint32_t bytes, uint32_t flags)
{
    struct nigh_wire_piece piece = {.line = line, .bytes = bytes};

    foe_send(&foe, nigh_head_make(NIGH_K_PIECE, 0, 0, flags), ID, 0, &piece, sizeof(piece));
    hosted_turns(&victim, &good, 100);
}

/* The n-th of a sound message. */
static void send_nth(uint32_t n)
{
    send_piece(n * PIECE / NIGH_LINE, PIECE, NIGH_F_SHUTTLE);
}

static void receive(uint64_t context)
{
    assert_int_equal(hosted_recv(&victim, NULL, context, TAG, in, sizeof(in), 0), 0);
}

/* The liar's message is none, and everybody else is served. */
static void assert_broken(void)
{
    uint8_t text[256], got[256] = {0};

    for (unsigned i = 0; i < 100 && hosted_state(&victim, to_foe) == NIGH_READY; i++)
        hosted_turns(&victim, &good, 100);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_BROKEN);
    receive(10);
    hosted_turns(&victim, &good, 1000);
    assert_null(hosted_find(&victim, NIGH_OP_RECV, 10));
    memset(text, 0x5a, sizeof(text));
    assert_int_equal(hosted_recv(&good, NULL, 900, 900, got, sizeof(got), 0), 0);
    assert_int_equal(hosted_send(to_good, 901, 900, text, sizeof(text), 0), 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, 900)->status, 0);
    assert_memory_equal(got, text, sizeof(got));
}

static void assert_came(void)
{
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 10)->status, 0);
    assert_memory_equal(in, out, TOTAL);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

static void test_taken_behind_each_piece(void **state)
{
    (void)state;
    for (uint32_t taken = 1; taken <= TOTAL / PIECE; taken++) {
        victim.count = 0;
        memset(in, 0, sizeof(in));
        send_first(0, NIGH_F_SHUTTLE);
        for (uint32_t n = 1; n < TOTAL / PIECE; n++) {
            if (n == taken)
                receive(10);
            send_nth(n);
        }
        if (taken == TOTAL / PIECE)
            receive(10);
        assert_came();
    }
}

static void test_begins_in_the_middle(void **state)
{
    (void)state;
    send_first(1, NIGH_F_SHUTTLE);
    assert_broken();
}

static void test_whole_in_the_middle(void **state)
{
    struct nigh_wire_piece piece = {.line = 1, .bytes = 4096};

    (void)state;
    foe_send(&foe, nigh_head_make(NIGH_K_WHOLE, 0, 0, NIGH_F_SHUTTLE), TAG, 0, &piece, sizeof(piece));
    assert_broken();
}

static void test_leaves_a_gap(void **state)
{
    (void)state;
    send_first(0, NIGH_F_SHUTTLE);
    send_nth(2);
    assert_broken();
}

static void test_says_one_twice(void **state)
{
    (void)state;
    send_first(0, NIGH_F_SHUTTLE);
    send_nth(0);
    assert_broken();
}

static void test_more_than_all(void **state)
{
    (void)state;
    send_first(0, NIGH_F_SHUTTLE);
    send_piece(PIECE / NIGH_LINE, TOTAL, NIGH_F_SHUTTLE);
    assert_broken();
}

static void test_goes_on_in_the_other(void **state)
{
    (void)state;
    /* Ours has memory, as something of ours lies there. */
    assert_int_equal(hosted_send(to_foe, 20, 5, out, TOTAL, 0), 0);
    hosted_turns(&victim, &good, 10);
    send_first(0, NIGH_F_SHUTTLE);
    send_piece(PIECE / NIGH_LINE, PIECE, NIGH_F_SHUTTLE | NIGH_F_RETURNS);
    assert_broken();
}

static void test_goes_on_in_chunks(void **state)
{
    uint32_t line = foe_pool_line(&foe);

    (void)state;
    send_first(0, NIGH_F_SHUTTLE);
    send_piece(line, 4096, 0);
    assert_broken();
}

/* What can never become whole is dropped with its sender, and its receive goes to another one. */
static void test_never_ends(void **state)
{
    struct nigh_endpoint *back = hosted_connect(&good, 0);

    (void)state;
    send_first(0, NIGH_F_SHUTTLE);
    send_nth(1);
    assert_int_equal(hosted_stats(&victim).unexpected, 1);
    nigh_store_release(&foe.pair->closed, nigh_load_relaxed(&foe.pair->closed) | 1, GOODBYE_SAY);
    foe_wake(&foe);
    for (unsigned i = 0; i < 100 && hosted_state(&victim, to_foe) == NIGH_READY; i++)
        hosted_turns(&victim, &good, 100);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_PEER_CLOSED);
    receive(10);
    hosted_turns(&victim, &good, 100);
    assert_null(hosted_find(&victim, NIGH_OP_RECV, 10));
    assert_int_equal(hosted_send(back, 11, TAG, out, TOTAL, 0), 0);
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 10)->status, 0);
    assert_memory_equal(in, out, TOTAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_taken_behind_each_piece, start, stop),
        cmocka_unit_test_setup_teardown(test_begins_in_the_middle, start, stop),
        cmocka_unit_test_setup_teardown(test_whole_in_the_middle, start, stop),
        cmocka_unit_test_setup_teardown(test_leaves_a_gap, start, stop),
        cmocka_unit_test_setup_teardown(test_says_one_twice, start, stop),
        cmocka_unit_test_setup_teardown(test_more_than_all, start, stop),
        cmocka_unit_test_setup_teardown(test_goes_on_in_the_other, start, stop),
        cmocka_unit_test_setup_teardown(test_goes_on_in_chunks, start, stop),
        cmocka_unit_test_setup_teardown(test_never_ends, start, stop),
    };

    hosted_quiet = true;
    return cmocka_run_group_tests_name("early_hostile", tests, NULL, NULL);
}

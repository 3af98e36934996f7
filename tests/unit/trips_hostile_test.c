/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes in trips of a shuttle: beginnings and trips that cannot be, and GRANTs that nobody waits for, end their writer alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "shm/copy.h"
#include "tests/support/cpus.h"
#include "tests/support/siege.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { TRIP = 4096, TOTAL = 2 * TRIP + 100, TAG = 77, LONG = 1 << 20 };

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

    memcpy(nigh_window_shuttle(&foe.window), out, TRIP);
    foe_send(&foe, nigh_head_make(NIGH_K_FIRST, 0, 0, NIGH_F_SHUTTLE | flags), TAG, 5, &first, sizeof(first));
}

static void trip(uint32_t line, uint32_t bytes, uint32_t flags)
{
    struct nigh_wire_piece piece = {.line = line, .bytes = bytes};

    foe_send(&foe, nigh_head_make(NIGH_K_PIECE, 0, 0, flags), 3, 0, &piece, sizeof(piece));
}

static struct nigh_slot heard(void)
{
    struct nigh_slot slot;

    for (unsigned i = 0; !foe_receive(&foe, &slot); i++) {
        assert_true(i < 100000);
        hosted_turns(&victim, &good, 1);
    }
    return slot;
}

static void assert_granted(void)
{
    struct nigh_slot slot = heard();

    assert_int_equal(nigh_head_kind(slot.head), NIGH_K_GRANT);
    assert_int_equal(slot.tag, 3);
}

static void expect(uint64_t bytes)
{
    assert_int_equal(hosted_recv(&victim, to_foe, 10, TAG, in, bytes, 0), 0);
}

/* What the others are lies about. */
static void test_as_it_should_be(void **state)
{
    struct nigh_slot slot;

    (void)state;
    for (unsigned early = 0; early < 2; early++) {
        if (!early)
            expect(TOTAL);
        announce(TRIP, TRIP, 0, 0);
        hosted_turns(&victim, &good, 100);
        if (early) {
            assert_false(foe_receive(&foe, &slot)); /* not before it is matched */
            expect(TOTAL);
        }
        assert_granted();
        memcpy(nigh_window_shuttle(&foe.window), out + TRIP, TRIP);
        trip(0, TRIP, NIGH_F_SHUTTLE);
        assert_granted();
        memcpy(nigh_window_shuttle(&foe.window), out + 2 * TRIP, 100);
        trip(0, 100, NIGH_F_SHUTTLE);
        assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 10)->status, 0);
        assert_memory_equal(in, out, TOTAL);
        assert_int_equal(in[TOTAL], 0);
        hosted_turns(&victim, &good, 100);
        assert_false(foe_receive(&foe, &slot)); /* nor behind the last */
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
        {.eager = TRIP, .bytes = 0},
        {.eager = TRIP, .bytes = TRIP - 64},
        {.eager = TRIP, .bytes = TRIP + 64},
        {.eager = TRIP, .bytes = TRIP, .line = 1},
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

/* A trip that would not fit. */
static void test_longer_than_a_shuttle(void **state)
{
    struct nigh_wire_first first = {.total = UINT64_MAX, .eager = NIGH_SHUTTLE_BYTES + 64, .id = 3};

    (void)state;
    first.bytes = first.eager;
    foe_send(&foe, nigh_head_make(NIGH_K_FIRST, 0, 0, NIGH_F_SHUTTLE), TAG, 5, &first, sizeof(first));
    assert_broken();
}

static void test_trips(void **state)
{
    const struct {
        uint32_t line, bytes, flags;
    } cases[] = {
        {0, TRIP - 64, NIGH_F_SHUTTLE},  {0, TRIP + 64, NIGH_F_SHUTTLE},
        {64, TRIP, NIGH_F_SHUTTLE},      {0, TRIP, NIGH_F_SHUTTLE | NIGH_F_RETURNS},
        {foe_pool_line(&foe), TRIP, 0},  {0, 0, NIGH_F_SHUTTLE},
        {0, TRIP + 100, NIGH_F_SHUTTLE},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (i)
            again(state);
        (void)foe_pool_line(&foe);
        expect(TOTAL);
        announce(TRIP, TRIP, 0, 0);
        assert_granted();
        trip(cases[i].line, cases[i].bytes, cases[i].flags);
        assert_broken();
        assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_RECV, 10)->status, -EPROTO);
    }
}

/* There is room for one only. */
static void test_before_it_is_asked(void **state)
{
    (void)state;
    announce(TRIP, TRIP, 0, 0);
    hosted_turns(&victim, &good, 100);
    trip(0, TRIP, NIGH_F_SHUTTLE);
    assert_broken();
}

/* The victim sends to both of its peers. Returns the number of what the foe hears of. */
static uint64_t be_sent(void)
{
    struct nigh_endpoint *back = hosted_connect(&good, 0);
    struct nigh_wire_first first;
    struct nigh_slot slot;

    if (!nigh_copy_select(NIGH_COPY_NT)) {
        print_message("there are no copies past the caches for this CPU: nothing goes in trips\n");
        skip();
    }
    /* So that there is a ring. */
    assert_int_equal(hosted_send(to_foe, 19, 1, out, 8, NIGH_SILENT), 0);
    assert_int_equal(nigh_head_kind(heard().head), NIGH_K_MESSAGE);
    assert_int_equal(hosted_recv(&good, back, 20, 5, in, LONG, 0), 0);
    assert_int_equal(hosted_send(to_good, 21, 5, out, LONG, 0), 0);
    assert_int_equal(hosted_send(to_foe, 22, TAG, out, LONG - 64, 0), 0);
    slot = heard();
    assert_int_equal(nigh_head_kind(slot.head), NIGH_K_FIRST);
    memcpy(&first, slot.payload, sizeof(first));
    assert_true(first.eager < first.total && first.bytes == first.eager);
    assert_int_equal(nigh_head_flags(slot.head) & NIGH_F_SHUTTLE, NIGH_F_SHUTTLE);
    return first.id;
}

static void grant(uint64_t id)
{
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), id, 0, NULL, 0);
}

static void test_a_grant_too_many(void **state)
{
    uint64_t id = be_sent();

    (void)state;
    grant(id);
    assert_int_equal(nigh_head_kind(heard().head), NIGH_K_PIECE);
    grant(id);
    grant(id);
    assert_broken();
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_SEND, 22)->status, -EPROTO);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, 20)->status, 0);
    assert_memory_equal(in, out, LONG);
}

static void test_a_grant_behind_the_end(void **state)
{
    uint64_t id = be_sent(), got = 0;

    (void)state;
    while (!hosted_find(&victim, NIGH_OP_SEND, 22)) {
        struct nigh_wire_piece piece;
        struct nigh_slot slot;

        grant(id);
        slot = heard();
        assert_int_equal(nigh_head_kind(slot.head), NIGH_K_PIECE);
        memcpy(&piece, slot.payload, sizeof(piece));
        assert_int_equal(piece.line, 0);
        got += piece.bytes;
        hosted_turns(&victim, &good, 10);
    }
    assert_int_equal(hosted_find(&victim, NIGH_OP_SEND, 22)->status, 0);
    assert_true(got < LONG);
    grant(id);
    assert_broken();
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, start, stop)

static const struct CMUnitTest tests[] = {
    CASE(test_as_it_should_be),        CASE(test_beginnings),
    CASE(test_longer_than_a_shuttle),  CASE(test_trips),
    CASE(test_before_it_is_asked),     CASE(test_a_grant_too_many),
    CASE(test_a_grant_behind_the_end),
};

int main(void)
{
    hosted_quiet = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

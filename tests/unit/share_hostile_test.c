/* SPDX-License-Identifier: BSD-3-Clause */
/* Lies about copies of messages that were complete when they were posted, and about what is told as one: whoever tells
 * them ends with -EPROTO and alone. Of what the others were sent nothing is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/cpus.h"
#include "tests/support/siege.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* All copies of a rank together have room for half of MUCH. */
enum { BYTES = 40000, MUCH = 2 * (16 << 20) / BYTES };

static struct hosted victim, good;
static struct foe foe;
static struct nigh_endpoint *to_foe, *to_good, *back;
static uint8_t out[BYTES], in[BYTES];
static cpu_set_t allowed;

static void fill(unsigned seed)
{
    for (unsigned i = 0; i < BYTES; i++)
        out[i] = (uint8_t)(i * 7 + i / 4096 + seed * 31);
}

static void check(const uint8_t *bytes, unsigned seed)
{
    for (unsigned i = 0; i < BYTES; i++)
        if (bytes[i] != (uint8_t)(i * 7 + i / 4096 + seed * 31))
            fail_msg("byte %u is wrong", i);
}

static void take(unsigned tag, unsigned seed)
{
    good.count = 0;
    memset(in, 0, sizeof(in));
    assert_int_equal(hosted_recv(&good, back, tag, tag, in, BYTES, 0), 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, tag)->status, 0);
    check(in, seed);
}

static bool told_of(uint32_t kind, struct nigh_slot *slot)
{
    hosted_turns(&victim, &good, 1);
    return foe_receive(&foe, slot) && nigh_head_kind(slot->head) == kind;
}

/* All on one CPU: a crowd. Behind the first buffer that went to both the next one of its length is copied. */
static int start(void **state)
{
    struct nigh_slot slot;

    (void)state;
    alarm(300);
    hosted_quiet = true;
    assert_int_equal(cpus_one(&allowed), 0);
    siege_open(&victim, &foe, &good, &to_foe, &to_good);
    assert_int_equal(hosted_facts(&victim).crowded, 1);
    back = hosted_connect(&good, 0);
    /* The first one waits for a ring, and is not looked at. */
    for (uint64_t bytes = 0; bytes <= BYTES; bytes += BYTES) {
        assert_int_equal(hosted_send(to_foe, 1, 1, out, bytes, NIGH_SILENT), 0);
        assert_int_equal(hosted_send(to_good, 1, 1, out, bytes, NIGH_SILENT), 0);
    }
    while (!foe_receive(&foe, &slot))
        hosted_turns(&victim, &good, 1);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(hosted_recv(&good, back, i, 1, in, BYTES, 0), 0);
        hosted_until(&good, &victim, NIGH_OP_RECV, i);
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    siege_close(&victim, &foe, &good);
    return cpus_all(&allowed);
}

static void broken(void)
{
    for (unsigned i = 0; hosted_state(&victim, to_foe) == NIGH_READY; i++) {
        assert_true(i < 100000);
        hosted_turns(&victim, &good, 1);
    }
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_BROKEN);
}

/* ---- of what it was sent
 * ------------------------------------------------------------------------------------------- */

/* A copy for the foe, and the same for the good one; what the foe was told of it. */
static struct nigh_wire_refer told(void)
{
    uint64_t before = hosted_stats(&victim).heap_sent;
    struct nigh_wire_refer refer;
    struct nigh_slot slot;

    fill(1);
    assert_int_equal(hosted_send(to_foe, 2, 2, out, BYTES, 0), 0);
    assert_int_equal(hosted_send(to_good, 3, 2, out, BYTES, 0), 0);
    assert_int_equal(hosted_stats(&victim).heap_sent - before, 2);
    while (!told_of(NIGH_K_REFER, &slot))
        ;
    memcpy(&refer, slot.payload, sizeof(refer));
    assert_int_equal(refer.refer, NIGH_REFER_COPY);
    check(foe.view.base + refer.where, 1);
    return refer;
}

/* The good one has not read it yet, and still does, after more was copied than there is room for. */
static void nothing_is_touched(void)
{
    uint64_t before;

    for (unsigned i = 0; i < MUCH; i++) {
        fill(i);
        before = hosted_stats(&victim).heap_sent;
        for (unsigned twice = 0; twice < 2; twice++)
            assert_int_equal(hosted_send(to_good, 4, 4, out, BYTES, 0), 0);
        assert_int_equal(hosted_stats(&victim).heap_sent - before, 2);
        take(4, i);
        take(4, i);
        hosted_poll(&victim);
        victim.count = 0;
    }
    take(2, 1);
}

static void answer(const struct nigh_wire_refer *refer, uint32_t kind, uint64_t imm)
{
    struct nigh_wire_help help = {(uintptr_t)in, BYTES};

    foe_send(&foe, nigh_head_make(kind, 0, 0, 0), refer->id, imm, &help,
             kind == NIGH_K_HELP ? sizeof(help) : 0);
}

static void read_twice(void **state)
{
    struct nigh_wire_refer refer = told();

    (void)state;
    answer(&refer, NIGH_K_FINISH, 0);
    hosted_turns(&victim, &good, 100);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
    answer(&refer, NIGH_K_FINISH, 0);
    broken();
    nothing_is_touched();
}

static void asked_for_pieces(void **state)
{
    struct nigh_wire_refer refer = told();

    (void)state;
    answer(&refer, NIGH_K_GRANT, 1);
    broken();
    nothing_is_touched();
}

static void asked_for_help(void **state)
{
    struct nigh_wire_refer refer = told();

    (void)state;
    answer(&refer, NIGH_K_HELP, 1);
    broken();
    nothing_is_touched();
}

/* No completion is left to tell of it. */
static void read_with_an_error(void **state)
{
    struct nigh_wire_refer refer = told();

    (void)state;
    victim.count = 0;
    answer(&refer, NIGH_K_FINISH, (uint64_t)(int64_t)-ECANCELED);
    hosted_turns(&victim, &good, 100);
    assert_int_equal(victim.count, 0);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
    nothing_is_touched();
}

/* ---- of what it sends
 * ---------------------------------------------------------------------------------------------- */

static void refer_to(uint64_t where, uint64_t total)
{
    struct nigh_wire_refer refer = {.total = total, .where = where, .id = 1, .refer = NIGH_REFER_COPY};

    foe_send(&foe, nigh_head_make(NIGH_K_REFER, 0, 0, 0), 3, 0, &refer, sizeof(refer));
    broken();
    nothing_is_touched();
}

static void before_its_heap(void **state)
{
    (void)state;
    (void)told();
    refer_to(foe_heap(&foe) - NIGH_PAGE, 64);
}

static void behind_its_memory(void **state)
{
    (void)state;
    (void)told();
    refer_to(foe.arena.bytes - 64, 128);
}

static void without_end(void **state)
{
    (void)state;
    (void)told();
    refer_to(foe_heap(&foe), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(read_twice, start, stop),
        cmocka_unit_test_setup_teardown(asked_for_pieces, start, stop),
        cmocka_unit_test_setup_teardown(asked_for_help, start, stop),
        cmocka_unit_test_setup_teardown(read_with_an_error, start, stop),
        cmocka_unit_test_setup_teardown(before_its_heap, start, stop),
        cmocka_unit_test_setup_teardown(behind_its_memory, start, stop),
        cmocka_unit_test_setup_teardown(without_end, start, stop),
    };

    return cmocka_run_group_tests_name("share hostile", tests, NULL, NULL);
}

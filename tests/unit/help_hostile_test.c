/* SPDX-License-Identifier: BSD-3-Clause */
/* Lies about slices of a message that both copy: who claims, or asks for, what there is not ends with -EPROTO; who says
 * that it has written what it has not has spoilt its own message. Everybody else is served. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "plugin/fetch.h"
#include "plugin/help.h"
#include "tests/support/cpus.h"
#include "tests/support/foe.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BYTES = 1 << 20, LEFT = 2 /* slices, when the foe is asked */ };

static struct hosted victim;
static struct foe foe;
static struct nigh_endpoint *to_foe;
static uint8_t out[BYTES], in[2][BYTES];
static cpu_set_t allowed;

/* The victim and its foe have one CPU, and the foe says that it may read the victim. */
static int start(void **state)
{
    uint64_t job = hosted_job();

    (void)state;
    alarm(300);
    hosted_quiet = true;
    assert_int_equal(cpus_one(&allowed), 0);
    memset(out, 0x5a, sizeof(out));
    hosted_open(&victim, job, 0, 0);
    foe_open(&foe, job, 1, 0);
    to_foe = hosted_connect(&victim, 1);
    for (unsigned i = 0; !foe.attached || hosted_state(&victim, to_foe) != NIGH_READY; i++) {
        assert_true(i < 100000);
        foe_progress(&foe);
        hosted_turns(&victim, NULL, 10);
        usleep(100);
    }
    foe_ring(&foe, 512);
    nigh_store_relaxed(&foe.pair->reading, 1);
    assert_int_equal(hosted_facts(&victim).crowded, 1);
    return 0;
}

static int stop_foe(void **state)
{
    (void)state;
    foe_close(&foe);
    return cpus_all(&allowed);
}

static int stop(void **state)
{
    hosted_close(&victim);
    return stop_foe(state);
}

static void until_broken(void)
{
    for (unsigned i = 0; hosted_state(&victim, to_foe) == NIGH_READY; i++) {
        assert_true(i < 100000);
        hosted_turns(&victim, NULL, 10);
    }
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_BROKEN);
}

/* Two messages of the foe's; it is asked to help with the second, by the number that is returned. */
static uint32_t offered(void)
{
    struct nigh_slot slot;

    for (uint32_t id = 0; id < 2; id++) {
        struct nigh_wire_refer refer = {
            .total = BYTES, .where = (uintptr_t)out, .id = id, .refer = NIGH_REFER_CMA};

        assert_int_equal(hosted_recv(&victim, to_foe, id, id, in[id], BYTES, 0), 0);
        foe_send(&foe, nigh_head_make(NIGH_K_REFER, 0, 0, 0), id, 0, &refer, sizeof(refer));
    }
    hosted_poll(&victim);
    while (!foe_receive(&foe, &slot) || nigh_head_kind(slot.head) != NIGH_K_HELP)
        hosted_poll(&victim);
    assert_int_equal(slot.tag, 1);
    return (uint32_t)slot.imm;
}

static void claim(uint32_t offer, uint32_t claimed, uint32_t written)
{
    nigh_store_release(&foe.pair->helped[offer % NIGH_OFFERS],
                       (uint64_t)offer << 32 | claimed << 16 | written, HELP_DONE);
}

static void test_claims_too_many(void **state)
{
    uint32_t offer;

    (void)state;
    offer = offered();
    claim(offer, LEFT + 2, 0);
    until_broken();
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_RECV, 1)->status, -EPROTO);
}

/* One more than there are is what an honest one may claim for a moment. */
static void test_claims_one_too_many(void **state)
{
    uint32_t offer;

    (void)state;
    offer = offered();
    claim(offer, LEFT + 1, 0);
    hosted_turns(&victim, NULL, 1000);
    assert_null(hosted_find(&victim, NIGH_OP_RECV, 1));
    claim(offer, 0, 0);
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_RECV, 1)->status, 0);
    assert_memory_equal(in[1], out, BYTES);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

/* Broken in the middle of a slice, it may still be writing: its receive ends when it says that it
 * is not, or with it. */
static void test_broken_in_a_slice(void **state)
{
    uint32_t offer;

    (void)state;
    offer = offered();
    claim(offer, 1, 0);
    foe_send(&foe, nigh_head_make(NIGH_K_END, 0, 0, 0), 0, 0, NULL, 0);
    until_broken();
    hosted_turns(&victim, NULL, 1000);
    assert_null(hosted_find(&victim, NIGH_OP_RECV, 1));
    claim(offer, 1, 1);
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_RECV, 1)->status, -EPROTO);
}

/* close() comes back all the same. */
static void test_claims_for_ever(void **state)
{
    (void)state;
    claim(offered(), 1, 0);
    hosted_close(&victim);
}

static void test_says_that_it_has_written(void **state)
{
    uint32_t offer;

    (void)state;
    memset(in, 0, sizeof(in));
    offer = offered();
    claim(offer, LEFT, LEFT);
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_RECV, 0)->status, 0);
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_RECV, 1)->status, 0);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

static void test_says_that_it_has_written_too_much(void **state)
{
    uint32_t offer;

    (void)state;
    offer = offered();
    claim(offer, LEFT + 1, LEFT + 1);
    until_broken();
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_RECV, 1)->status, -EPROTO);
}

/* Numbers of another offer say nothing of this one. */
static void test_another_offer(void **state)
{
    uint32_t offer;

    (void)state;
    offer = offered();
    claim(offer + 1, 2, 2);
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_RECV, 1)->status, 0);
    assert_memory_equal(in[1], out, BYTES);
}

/* ---- whole short ones, where each has a CPU ----------------------------------------------------------------- */

enum { SHORT = 64 << 10, ROW = 6 };

/* Messages of the foe's, of which it is asked to copy some: the last number. */
static uint32_t lent(void)
{
    struct nigh_slot slot;
    uint32_t offer = 0;

    victim.context->config.beside_from = victim.context->config.beside_row_from = SHORT;
    victim.context->crowd.full = false;
    nigh_context_settle(victim.context);
    for (uint32_t id = 0; id < ROW; id++) {
        struct nigh_wire_refer refer = {
            .total = SHORT, .where = (uintptr_t)out, .id = id, .refer = NIGH_REFER_CMA};

        assert_int_equal(hosted_recv(&victim, to_foe, id, id, in[0] + id * SHORT, SHORT, 0), 0);
        foe_send(&foe, nigh_head_make(NIGH_K_REFER, 0, 0, 0), id, 0, &refer, sizeof(refer));
    }
    hosted_poll(&victim);
    while (foe_receive(&foe, &slot))
        if (nigh_head_kind(slot.head) == NIGH_K_HELP && nigh_head_flags(slot.head) & NIGH_F_ONE)
            offer = (uint32_t)slot.imm;
    assert_true(offer > 1);
    return offer;
}

static unsigned ended(int status)
{
    unsigned count = 0;

    for (uint32_t id = 0; id < ROW; id++) {
        const struct nigh_completion *done = hosted_find(&victim, NIGH_OP_RECV, id);

        count += done && done->status == status;
    }
    return count;
}

static void test_claims_more_than_all(void **state)
{
    uint32_t offer;

    (void)state;
    offer = lent();
    claim(offer, 3, 0);
    until_broken();
    hosted_turns(&victim, NULL, 100);
    assert_int_equal(ended(0) + ended(-EPROTO), ROW);
    assert_true(ended(-EPROTO));
}

static void test_has_written_more_than_all(void **state)
{
    uint32_t offer;
    uint64_t context;

    (void)state;
    offer = lent();
    context = to_foe->offered[nigh_help_slot(offer)]->recv->context;
    claim(offer, 2, 2);
    until_broken();
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_RECV, context)->status, -EPROTO);
    assert_int_equal(ended(0) + ended(-EPROTO), ROW);
}

/* One is not written: the others are the victim's all the same, and this one when it is put back. */
static void test_claims_one(void **state)
{
    uint32_t offer;

    (void)state;
    memset(in, 0, sizeof(in));
    offer = lent();
    claim(offer, 1, 0);
    hosted_turns(&victim, NULL, 1000);
    assert_int_equal(ended(0), ROW - 1);
    claim(offer, 0, 0);
    hosted_turns(&victim, NULL, 1000);
    assert_int_equal(ended(0), ROW);
    for (uint32_t id = 0; id < ROW; id++)
        assert_memory_equal(in[0] + id * SHORT, out, SHORT);
    assert_int_equal(to_foe->offered_count, 0);
}

/* ---- the victim is asked
 * -------------------------------------------------------------------------------------------- */

/* A message of the victim's, that the foe has been told of; it asks for help with `id`, as if it had a buffer there. */
static void ask_as(uint32_t flags, uint64_t id, uint64_t offer, uint64_t to, uint64_t bytes)
{
    struct nigh_wire_help help = {to, bytes};
    struct nigh_slot slot;

    assert_int_equal(hosted_send(to_foe, 5, 5, out, BYTES, 0), 0);
    while (!foe_receive(&foe, &slot))
        hosted_poll(&victim);
    assert_int_equal(nigh_head_kind(slot.head), NIGH_K_REFER);
    foe_send(&foe, nigh_head_make(NIGH_K_HELP, 0, 0, flags), id, offer, &help, sizeof(help));
}

static void ask(uint64_t id, uint64_t offer, uint64_t to, uint64_t bytes)
{
    ask_as(0, id, offer, to, bytes);
}

static void refused(uint64_t id, uint64_t offer, uint64_t to, uint64_t bytes)
{
    ask(id, offer, to, bytes);
    until_broken();
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_SEND, 5)->status, -EPROTO);
}

static void test_help_with_nothing(void **state)
{
    (void)state;
    refused(7, 1, (uintptr_t)in[0], BYTES);
}

static void test_help_with_more_than_it_is(void **state)
{
    (void)state;
    refused(0, 1, (uintptr_t)in[0], BYTES + 1);
}

/* It would be at it for as long as it takes. */
static void test_help_with_all_of_a_long_one(void **state)
{
    (void)state;
    ask_as(NIGH_F_ONE, 0, 1, (uintptr_t)in[0], NIGH_HELP_HALVES_FROM);
    until_broken();
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_SEND, 5)->status, -EPROTO);
}

/* With all of them in one call the first would end the message of the next ones. */
static void test_help_several_times(void **state)
{
    struct nigh_wire_help help = {(uintptr_t)in[0], SHORT};

    (void)state;
    for (uint32_t offer = 2; offer <= 4; offer++)
        nigh_store_relaxed(&foe.pair->offered[nigh_help_slot(offer)], nigh_help_word(offer, 0));
    ask_as(NIGH_F_ONE, 0, 1, (uintptr_t)in[0], SHORT);
    for (uint32_t offer = 2; offer <= 4; offer++)
        foe_send(&foe, nigh_head_make(NIGH_K_HELP, 0, 0, NIGH_F_ONE), 0, offer, &help, sizeof(help));
    until_broken();
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_SEND, 5)->status, -EPROTO);
}

/* There is no room for so many in a word. Nothing of it is looked at. */
static void test_help_with_too_many_slices(void **state)
{
    uint64_t bytes = (uint64_t)NIGH_HELP_SLICE_BYTES * NIGH_HELP_SLICES_MAX + 1;
    struct nigh_wire_help help = {(uintptr_t)in, bytes};
    struct nigh_slot slot;

    (void)state;
    assert_int_equal(hosted_send(to_foe, 5, 5, out, bytes, 0), 0);
    while (!foe_receive(&foe, &slot))
        hosted_poll(&victim);
    foe_send(&foe, nigh_head_make(NIGH_K_HELP, 0, 0, 0), 0, 1, &help, sizeof(help));
    until_broken();
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_SEND, 5)->status, -EPROTO);
}

static void test_help_over_the_end_of_memory(void **state)
{
    (void)state;
    refused(0, 1, UINT64_MAX - BYTES / 2, BYTES);
}

static void test_help_without_a_number(void **state)
{
    (void)state;
    refused(0, 0, (uintptr_t)in[0], BYTES);
}

/* An offer that does not stand is none, whatever the slot has said: nothing is written. */
static void test_help_that_is_not_offered(void **state)
{
    (void)state;
    memset(in, 0, sizeof(in));
    ask(0, 1, (uintptr_t)in[0], BYTES);
    hosted_turns(&victim, NULL, 1000);
    assert_int_equal(in[0][BYTES - 1], 0);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
    assert_null(hosted_find(&victim, NIGH_OP_SEND, 5));
}

/* As many as it likes have been taken by the foe. */
static void test_help_of_which_too_much_is_taken(void **state)
{
    (void)state;
    memset(in, 0, sizeof(in));
    nigh_store_relaxed(&foe.pair->offered[1], UINT64_C(1) << 32 | UINT32_MAX);
    ask(0, 1, (uintptr_t)in[0], BYTES);
    hosted_turns(&victim, NULL, 1000);
    assert_int_equal(in[0][BYTES - 1], 0);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

/* No memory of the foe's: the victim puts the slice back. */
static void test_help_into_nothing(void **state)
{
    (void)state;
    nigh_store_relaxed(&foe.pair->offered[1], UINT64_C(1) << 32);
    ask(0, 1, 4096, BYTES);
    hosted_turns(&victim, NULL, 1000);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
    assert_int_equal(nigh_load_relaxed(&foe.own->helped[1]), UINT64_C(1) << 32);
}

/* ---- the victim fetches ------------------------------------------------------------------------------------ */

/* Says that it may not wait for its receive. Is it to be fetched? */
static bool is_to_be_fetched(uint32_t id, uint64_t total)
{
    struct nigh_wire_refer refer = {
        .total = total, .where = (uintptr_t)out, .id = id, .refer = NIGH_REFER_CMA};

    foe_send(&foe, nigh_head_make(NIGH_K_REFER, 0, 0, NIGH_F_EARLY), 77, 0, &refer, sizeof(refer));
    hosted_turns(&victim, NULL, 10);
    return victim.context->fetches != NULL;
}

/* The victim takes no more memory for it than that of one that its sender might have sent so. */
static void test_early_but_long(void **state)
{
    (void)state;
    victim.context->config.fetch_ns = UINT64_MAX;
    assert_false(is_to_be_fetched(0, UINT64_C(1) << 40));
    assert_false(is_to_be_fetched(1, NIGH_FETCH_MAX + 1));
    assert_true(is_to_be_fetched(2, 4096));
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

static bool is_allowed(void)
{
    uint64_t word = 5, seen = 0;
    struct iovec here = {&seen, sizeof(seen)}, there = {&word, sizeof(word)};

    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof(seen) &&
           process_vm_writev(getpid(), &here, 1, &there, 1, 0) == sizeof(seen);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(claims_too_many),
        TEST(claims_one_too_many),
        TEST(broken_in_a_slice),
        cmocka_unit_test_setup_teardown(test_claims_for_ever, start, stop_foe),
        TEST(says_that_it_has_written),
        TEST(says_that_it_has_written_too_much),
        TEST(another_offer),
        TEST(claims_more_than_all),
        TEST(has_written_more_than_all),
        TEST(claims_one),
        TEST(help_with_nothing),
        TEST(help_with_more_than_it_is),
        TEST(help_with_all_of_a_long_one),
        TEST(help_several_times),
        TEST(help_with_too_many_slices),
        TEST(early_but_long),
        TEST(help_over_the_end_of_memory),
        TEST(help_without_a_number),
        TEST(help_that_is_not_offered),
        TEST(help_of_which_too_much_is_taken),
        TEST(help_into_nothing),
    };

    if (!is_allowed()) {
        printf("SKIP: process_vm_readv is not allowed here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

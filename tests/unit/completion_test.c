/* SPDX-License-Identifier: BSD-3-Clause */
/* The completion queue: order, every field, growth in any position of the ring, what is shown where it lies, and that
 * what was reserved can be pushed whatever memory does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/completion.h"
#include "tests/support/osfail.h"
#include <errno.h>

static struct nigh_completion numbered(uint64_t i)
{
    return (struct nigh_completion){.context = i,
                                    .status = -(int32_t)(i % 1000),
                                    .op = (uint16_t)(i + 1),
                                    .flags = (uint16_t)(i + 2),
                                    .bytes = i + 3,
                                    .tag = ~i,
                                    .imm = i * 5,
                                    .source = i + 6,
                                    .endpoint = (void *)(uintptr_t)(i + 7),
                                    .data = (void *)(uintptr_t)(i + 8)};
}

static void push(struct nigh_cq *cq, uint64_t i)
{
    struct nigh_completion completion = numbered(i);

    assert_int_equal(nigh_cq_reserve(cq, 1), 0);
    nigh_cq_push(cq, &completion);
}

static void check_pop(struct nigh_cq *cq, uint64_t i)
{
    struct nigh_completion got, wanted = numbered(i);

    memset(&got, 0xee, sizeof(got));
    assert_int_equal(nigh_cq_pop(cq, &got, 1), 1);
    assert_memory_equal(&got, &wanted, sizeof(got));
}

static void every_field_comes_out_in_order(void **state)
{
    struct nigh_completion out[8], wanted;
    struct nigh_cq cq;

    (void)state;
    assert_int_equal(nigh_cq_create(&cq, 1), 0);
    assert_int_equal((uintptr_t)cq.ring % 64, 0);
    assert_int_equal((uintptr_t)cq.first % 64, 0);
    assert_int_equal(nigh_cq_pop(&cq, out, 8), 0);
    for (uint64_t i = 0; i < 5; i++)
        push(&cq, i);
    assert_int_equal(nigh_cq_count(&cq), 5);
    assert_int_equal(nigh_cq_pop(&cq, out, 0), 0);
    assert_int_equal(nigh_cq_pop(&cq, out, 3), 3);
    assert_int_equal(nigh_cq_pop(&cq, out + 3, 5), 2);
    for (uint64_t i = 0; i < 5; i++) {
        wanted = numbered(i);
        assert_memory_equal(&out[i], &wanted, sizeof(wanted));
    }
    assert_int_equal(nigh_cq_count(&cq), 0);
    nigh_cq_destroy(&cq);
}

static void a_slot_filled_in_place_comes_out(void **state)
{
    struct nigh_cq cq;

    (void)state;
    assert_int_equal(nigh_cq_create(&cq, 64), 0);
    assert_int_equal(nigh_cq_reserve(&cq, 1), 0);
    *nigh_cq_next(&cq) = numbered(77);
    check_pop(&cq, 77);
    nigh_cq_destroy(&cq);
}

/* Grows with the ring's end at each possible place, so that a copy that forgets the wrap shows. */
static void a_receive_in_fewer_stores_is_the_same(void **state)
{
    struct nigh_endpoint *endpoint = (void *)&state;
    struct nigh_completion one, other;
    nigh_two_fields from = {77, (uintptr_t)endpoint};

    (void)state;
    for (uint32_t tclass = 0; tclass < NIGH_TCLASSES; tclass++) {
        memset(&one, 0xee, sizeof(one));
        memset(&other, 0xdd, sizeof(other));
        nigh_completion_fill(&one, 5, NIGH_OP_RECV, tclass, 40, ~UINT64_C(1), 9, 77, endpoint);
        nigh_completion_fill_recv(&other, 5, nigh_completion_what(NIGH_OP_RECV, tclass), 40, ~UINT64_C(1), 9,
                                  from);
        assert_memory_equal(&one, &other, sizeof(one));
    }
}

static void the_hosts_array_takes_what_it_has_room_for(void **state)
{
    struct nigh_completion out[3];
    struct nigh_cq cq;

    (void)state;
    assert_int_equal(nigh_cq_create(&cq, 64), 0);
    assert_int_equal(nigh_cq_reserve(&cq, 4), 0);
    assert_false(nigh_cq_is_full(&cq));
    nigh_cq_direct(&cq, out, 0, 3);
    *nigh_cq_next(&cq) = numbered(1);
    assert_false(nigh_cq_is_full(&cq));
    out[1] = numbered(2);
    out[2] = numbered(3);
    nigh_cq_direct_to(&cq, out + 3);
    assert_true(nigh_cq_is_full(&cq));
    *nigh_cq_next(&cq) = numbered(4);
    assert_int_equal(nigh_cq_undirect(&cq), 3);
    assert_false(nigh_cq_is_full(&cq));
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(out[i].bytes, i + 1 + 3);
    assert_int_equal(cq.told, 3);
    check_pop(&cq, 4);
    assert_int_equal(cq.told, 4);
    assert_int_equal(cq.promised, cq.head);
    nigh_cq_destroy(&cq);
}

/* Sends that were over when they were posted, behind each other, then one that was not, then one
 * that was: ahead of it. */
static void what_was_sent_comes_in_order(void **state)
{
    struct nigh_endpoint *endpoint = (void *)&state;
    struct nigh_completion out[NIGH_CQ_SENT_MAX], expected;
    struct nigh_cq cq;

    (void)state;
    assert_int_equal(nigh_cq_create(&cq, 64), 0);
    for (uint32_t i = 0; i < NIGH_CQ_SENT_MAX; i++) {
        assert_true(nigh_cq_takes_sent(&cq));
        nigh_cq_push_sent(&cq, 100 + i, NIGH_SHAPE(i, i % NIGH_TCLASSES), 77, endpoint);
    }
    assert_false(nigh_cq_takes_sent(&cq));
    assert_int_equal(nigh_cq_count(&cq), NIGH_CQ_SENT_MAX);
    assert_true(nigh_cq_in_use(&cq));
    push(&cq, 5);
    assert_int_equal(nigh_cq_pop(&cq, out, 40), 40);
    assert_int_equal(nigh_cq_pop(&cq, out + 40, NIGH_CQ_SENT_MAX - 40), NIGH_CQ_SENT_MAX - 40);
    assert_false(nigh_cq_takes_sent(&cq)); /* so many pass the one in the ring, and no more */
    for (uint32_t i = 0; i < NIGH_CQ_SENT_MAX; i++) {
        nigh_completion_fill(&expected, 100 + i, NIGH_OP_SEND, i % NIGH_TCLASSES, i, 0, 0, 77, endpoint);
        assert_memory_equal(&out[i], &expected, sizeof(expected));
    }
    assert_int_equal(nigh_cq_count(&cq), 1);
    check_pop(&cq, 5);
    push(&cq, 6);
    assert_true(nigh_cq_takes_sent(&cq));
    nigh_cq_push_sent(&cq, 8, NIGH_SHAPE(9, 0), 77, endpoint); /* it passes the one in the ring */
    assert_int_equal(nigh_cq_count(&cq), 2);
    assert_int_equal(nigh_cq_pop(&cq, out, 1), 1);
    assert_int_equal(out[0].context, 8);
    check_pop(&cq, 6);
    assert_int_equal(nigh_cq_count(&cq), 0);
    nigh_cq_direct(&cq, out, 0, 1); /* the host is back: it has seen all */
    assert_false(nigh_cq_in_use(&cq));
    nigh_cq_destroy(&cq);
}

/* What was popped into the host's array counts with what goes straight there behind it. */
static void behind_what_was_popped_the_array_has_room(void **state)
{
    struct nigh_endpoint *endpoint = (void *)&state;
    struct nigh_completion out[3];
    struct nigh_cq cq;

    (void)state;
    assert_int_equal(nigh_cq_create(&cq, 64), 0);
    assert_int_equal(nigh_cq_reserve(&cq, 3), 0);
    nigh_cq_push_sent(&cq, 6, NIGH_SHAPE(8, 0), 77, endpoint);
    assert_int_equal(nigh_cq_pop(&cq, out, 1), 1);
    nigh_cq_direct(&cq, out, 1, 1);
    assert_int_equal(nigh_cq_undirect(&cq), 1);
    assert_true(nigh_cq_in_use(&cq)); /* until the host is back */
    nigh_cq_push_sent(&cq, 7, NIGH_SHAPE(8, 0), 77, endpoint);
    assert_int_equal(nigh_cq_pop(&cq, out, 3), 1);
    nigh_cq_direct(&cq, out, 1, 3);
    assert_true(nigh_cq_in_use(&cq)); /* the host has not seen it */
    *nigh_cq_next(&cq) = numbered(1);
    assert_false(nigh_cq_is_full(&cq));
    *nigh_cq_next(&cq) = numbered(2);
    assert_true(nigh_cq_is_full(&cq));
    *nigh_cq_next(&cq) = numbered(3);
    assert_int_equal(nigh_cq_undirect(&cq), 3);
    assert_int_equal(cq.told, 2); /* that send has no number */
    assert_int_equal(out[0].context, 7);
    assert_int_equal(out[1].bytes, numbered(1).bytes);
    assert_int_equal(out[2].bytes, numbered(2).bytes);
    assert_int_equal(nigh_cq_pop(&cq, out, 3), 1); /* the last of them, behind the pass */
    assert_int_equal(out[0].bytes, numbered(3).bytes);
    assert_int_equal(nigh_cq_pop(&cq, out + 1, 2), 0);
    assert_true(nigh_cq_in_use(&cq));
    nigh_cq_direct(&cq, out, 0, 3);
    assert_false(nigh_cq_in_use(&cq));
    assert_int_equal(cq.promised, cq.head);
    nigh_cq_destroy(&cq);
}

/* An empty queue whose ring begins at `shift`, below 64. */
static void turn_ring(struct nigh_cq *cq, uint64_t shift)
{
    assert_int_equal(nigh_cq_create(cq, 64), 0);
    for (uint64_t turn = 0; turn < 2; turn++) {
        uint64_t count = NIGH_CQ_LINE_MAX + shift / 2 + (shift & turn);

        for (uint64_t i = 0; i < count; i++)
            push(cq, i);
        for (uint64_t i = 0; i < count; i++)
            check_pop(cq, i);
    }
    assert_int_equal(cq->head, shift);
}

static void growth_keeps_order_wherever_the_ring_wraps(void **state)
{
    (void)state;
    for (uint64_t shift = 0; shift < 64; shift++) {
        struct nigh_cq cq;

        turn_ring(&cq, shift);
        for (uint64_t i = 0; i < 64; i++)
            push(&cq, i);
        for (uint64_t i = 0; i < 48; i++) /* of the ring 16 */
            check_pop(&cq, i);
        for (uint64_t i = 64; i < 200; i++)
            push(&cq, i);
        assert_true(cq.mask + 1 >= 152 && cq.tail - cq.head == 152);
        for (uint64_t i = 48; i < 200; i++)
            check_pop(&cq, i);
        assert_int_equal(cq.promised, cq.head);
        nigh_cq_destroy(&cq);
    }
}

static void check_shown(const struct nigh_taken *shown, uint64_t from, uint32_t count)
{
    assert_int_equal(shown->done_count, count);
    for (uint32_t i = 0; i < count; i++) {
        struct nigh_completion wanted = numbered(from + i);

        assert_memory_equal(&shown->done[i], &wanted, sizeof(wanted));
    }
}

/* Fewer than were asked for, and than there are lines ahead of the ring, are all, wherever some lie. */
static void what_is_shown_is_all_that_there_is_in_order(void **state)
{
    (void)state;
    for (uint64_t shift = 1; shift < 64; shift++) {
        struct nigh_taken shown;
        struct nigh_cq cq;
        uint64_t at = 5;

        turn_ring(&cq, shift);
        for (uint64_t i = 0; i < 64; i++)
            push(&cq, i);
        assert_int_equal(nigh_cq_show(&cq, &shown, 5), 5);
        check_shown(&shown, 0, 5);
        assert_false(nigh_cq_show_all(&cq, &shown, 1000)); /* not with some in the ring */
        for (uint32_t count = (uint32_t)shift % 40 + 1, wanted; at < 64; at += wanted) {
            wanted = count < NIGH_CQ_LINE_MAX ? count : NIGH_CQ_LINE_MAX;
            wanted = wanted < 64 - at ? wanted : (uint32_t)(64 - at);
            assert_int_equal(nigh_cq_count(&cq), 64 - at);
            assert_int_equal(nigh_cq_show(&cq, &shown, count), wanted);
            check_shown(&shown, at, wanted);
        }
        assert_true(nigh_cq_is_empty(&cq));
        assert_int_equal(nigh_cq_show(&cq, &shown, 1000), 0);
        assert_int_equal(cq.promised, cq.head);
        nigh_cq_destroy(&cq);
    }
}

/* Whoever notes the number of one knows when the host has it, wherever it waits. */
static void numbers_are_told(void **state)
{
    struct nigh_endpoint *endpoint = (void *)&state;
    struct nigh_taken shown;
    struct nigh_completion out[3];
    struct nigh_cq cq;

    (void)state;
    assert_int_equal(nigh_cq_create(&cq, 64), 0);
    for (unsigned turn = 0; turn < 50; turn++) {
        uint64_t number[60];

        for (unsigned i = 0; i < 60; i++) {
            number[i] = nigh_cq_number(&cq);
            push(&cq, i);
            nigh_cq_push_sent(&cq, i, NIGH_SHAPE(8, 0), 1, endpoint); /* has none */
        }
        for (unsigned i = 0; i < 60;) {
            assert_true(cq.told + 1 == number[i]);
            shown = (struct nigh_taken){0};
            if (turn % 3 == 2)
                (void)nigh_cq_show(&cq, &shown, 1 + turn % 7);
            else
                for (uint32_t n = nigh_cq_pop(&cq, out, 1 + turn % 3); n--;)
                    shown.done_count += out[n].op != NIGH_OP_SEND || out[n].tag != 0;
            i += shown.done_count;
            assert_int_equal(cq.told, number[0] + i - 1);
        }
        /* Nor has what goes straight into the host's array a number, but it is told. */
        nigh_cq_direct(&cq, out, 0, 3);
        push(&cq, 8);
        assert_int_equal(nigh_cq_undirect(&cq), 1);
        number[0] = nigh_cq_number(&cq);
        push(&cq, 7);
        assert_true(cq.told < number[0] && nigh_cq_show_all(&cq, &shown, 1) && cq.told == number[0]);
    }
    nigh_cq_destroy(&cq);
}

/* Sends first; and what comes when all was taken lies where that lay. */
static void what_is_shown_begins_anew(void **state)
{
    struct nigh_endpoint *endpoint = (void *)&state;
    struct nigh_taken shown = {0}, first = {0};
    struct nigh_cq cq;

    (void)state;
    assert_int_equal(nigh_cq_create(&cq, 64), 0);
    for (uint64_t turn = 0; turn < 1000; turn++) {
        nigh_cq_push_sent(&cq, turn, NIGH_SHAPE(8, 3), 77, endpoint);
        push(&cq, turn);
        push(&cq, turn + 1);
        nigh_cq_push_sent(&cq, turn + 1, NIGH_SHAPE(9, 4), 78, endpoint);
        assert_false(nigh_cq_show_all(&cq, &shown, 3)); /* not all for fewer */
        assert_true(nigh_cq_show_all(&cq, &shown, 4));
        assert_true(nigh_cq_is_empty(&cq) && nigh_cq_in_use(&cq));
        check_shown(&shown, turn, 2);
        assert_int_equal(shown.sent_count, 2);
        for (uint32_t i = 0; i < 2; i++) {
            struct nigh_sent wanted = {
                .context = turn + i, .bytes = 8 + i, .tclass = 3 + i, .source = 77 + i, .endpoint = endpoint};

            assert_memory_equal(&shown.sent[i], &wanted, sizeof(wanted));
        }
        if (turn == 0)
            first = shown;
        assert_ptr_equal(shown.sent, first.sent);
        assert_ptr_equal(shown.done, first.done);
    }
    assert_int_equal(cq.promised, cq.head);
    nigh_cq_destroy(&cq);
}

static void what_overtakes_nothing_waits_in_the_ring(void **state)
{
    struct nigh_completion out[3];
    struct nigh_cq cq;

    (void)state;
    assert_int_equal(nigh_cq_create(&cq, 64), 0);
    for (uint64_t i = 0; i <= NIGH_CQ_LINE_MAX; i++)
        push(&cq, i);
    for (uint64_t i = 0; i < NIGH_CQ_LINE_MAX; i++) {
        check_pop(&cq, i);
        push(&cq, 1000 + i); /* behind the one in the ring, whatever has become free ahead of it */
    }
    check_pop(&cq, NIGH_CQ_LINE_MAX);
    for (uint64_t i = 0; i < NIGH_CQ_LINE_MAX; i++)
        check_pop(&cq, 1000 + i);
    assert_int_equal(nigh_cq_reserve(&cq, 2), 0);
    nigh_cq_direct(&cq, out, 0, 1);
    *nigh_cq_next(&cq) = numbered(1);
    *nigh_cq_next(&cq) = numbered(2); /* the array is full: the ring has it */
    assert_int_equal(nigh_cq_undirect(&cq), 1);
    push(&cq, 3);
    check_pop(&cq, 2);
    check_pop(&cq, 3);
    assert_int_equal(cq.promised, cq.head);
    nigh_cq_destroy(&cq);
}

static void the_steady_state_allocates_nothing(void **state)
{
    struct nigh_cq cq;
    unsigned created;

    (void)state;
    osfail_install();
    assert_int_equal(nigh_cq_create(&cq, 64), 0);
    created = osfail_count(OSFAIL_calloc);
    for (uint64_t i = 0; i < 10000; i++) {
        for (uint64_t k = 0; k < 64; k++)
            push(&cq, i + k);
        for (uint64_t k = 0; k < 64; k++)
            check_pop(&cq, i + k);
    }
    assert_int_equal(osfail_count(OSFAIL_calloc), created);
    osfail_remove();
    nigh_cq_destroy(&cq);
}

static void reserved_room_is_there_when_memory_is_not(void **state)
{
    struct nigh_cq cq;

    (void)state;
    assert_int_equal(nigh_cq_create(&cq, 64), 0);
    assert_int_equal(nigh_cq_reserve(&cq, 60), 0);
    push(&cq, 1000);
    push(&cq, 1001);
    osfail_install();
    osfail_arm_all(OSFAIL_calloc, 1, ENOMEM);
    assert_int_equal(nigh_cq_reserve(&cq, 3), -ENOMEM);
    assert_true(osfail_hit());
    assert_int_equal(nigh_cq_reserve(&cq, 2), 0); /* the refused one took nothing */
    assert_int_equal(nigh_cq_reserve(&cq, 1), -ENOMEM);
    for (uint64_t i = 0; i < 62; i++) {
        struct nigh_completion completion = numbered(i);

        nigh_cq_push(&cq, &completion);
    }
    osfail_remove();
    check_pop(&cq, 1000);
    check_pop(&cq, 1001);
    for (uint64_t i = 0; i < 62; i++)
        check_pop(&cq, i);
    nigh_cq_destroy(&cq);
}

static void unreserved_room_can_be_used_again(void **state)
{
    struct nigh_cq cq;
    unsigned created;

    (void)state;
    osfail_install();
    assert_int_equal(nigh_cq_create(&cq, 64), 0);
    created = osfail_count(OSFAIL_calloc);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(nigh_cq_reserve(&cq, 64), 0);
        nigh_cq_unreserve(&cq, 64);
    }
    assert_int_equal(osfail_count(OSFAIL_calloc), created);
    osfail_remove();
    nigh_cq_destroy(&cq);
}

static void growth_keeps_reservations(void **state)
{
    struct nigh_cq cq;

    (void)state;
    assert_int_equal(nigh_cq_create(&cq, 64), 0);
    assert_int_equal(nigh_cq_reserve(&cq, 50), 0);
    assert_int_equal(nigh_cq_reserve(&cq, 50), 0);
    assert_int_equal(cq.mask + 1, 128);
    for (uint64_t i = 0; i < 100; i++) {
        struct nigh_completion completion = numbered(i);

        nigh_cq_push(&cq, &completion);
    }
    assert_int_equal(cq.mask + 1, 128);
    for (uint64_t i = 0; i < 100; i++)
        check_pop(&cq, i);
    nigh_cq_destroy(&cq);
}

static void create_fails_cleanly(void **state)
{
    struct nigh_cq cq;

    (void)state;
    for (unsigned nth = 1; nth <= 2; nth++) {
        osfail_install();
        osfail_arm(OSFAIL_calloc, nth, ENOMEM);
        assert_int_equal(nigh_cq_create(&cq, 64), -ENOMEM);
        assert_true(osfail_hit());
        osfail_remove();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_comes_out_in_order),
        cmocka_unit_test(a_slot_filled_in_place_comes_out),
        cmocka_unit_test(a_receive_in_fewer_stores_is_the_same),
        cmocka_unit_test(the_hosts_array_takes_what_it_has_room_for),
        cmocka_unit_test(what_was_sent_comes_in_order),
        cmocka_unit_test(behind_what_was_popped_the_array_has_room),
        cmocka_unit_test(growth_keeps_order_wherever_the_ring_wraps),
        cmocka_unit_test(what_is_shown_is_all_that_there_is_in_order),
        cmocka_unit_test(numbers_are_told),
        cmocka_unit_test(what_is_shown_begins_anew),
        cmocka_unit_test(what_overtakes_nothing_waits_in_the_ring),
        cmocka_unit_test(the_steady_state_allocates_nothing),
        cmocka_unit_test(reserved_room_is_there_when_memory_is_not),
        cmocka_unit_test(unreserved_room_can_be_used_again),
        cmocka_unit_test(growth_keeps_reservations),
        cmocka_unit_test(create_fails_cleanly),
    };
    return cmocka_run_group_tests_name("completion", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Tag matching rule by rule: what matches what, in which order, and what growth, failure of memory, the end of a
 * peer and multi-receives leave of it. match_random_test compares it with a simple model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/match.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <stdlib.h>

#define ALL NIGH_IGNORE_ALL

static int setup(void **state)
{
    struct nigh_matcher *matcher = malloc(sizeof(*matcher));

    assert_non_null(matcher);
    assert_int_equal(nigh_match_init(matcher), 0);
    *state = matcher;
    return 0;
}

static int teardown(void **state)
{
    nigh_match_destroy(*state);
    free(*state);
    return 0;
}

static struct nigh_posted *receive(struct nigh_posted *posted, uint32_t source, uint32_t tclass, uint64_t tag,
                                   uint64_t ignore)
{
    *posted =
        (struct nigh_posted){.source = source, .tclass = (uint16_t)tclass, .tag = tag, .ignore = ignore};
    return posted;
}

static struct nigh_arrived *message(struct nigh_arrived *arrived, uint32_t source, uint32_t tclass,
                                    uint64_t tag)
{
    *arrived = (struct nigh_arrived){.source = source, .tclass = tclass, .tag = tag};
    return arrived;
}

/* One receive against one message, both ways round. */
static const struct pairing {
    const char *what;
    uint32_t source, tclass;
    uint64_t tag, ignore;
    uint32_t from, in;
    uint64_t with;
    bool match;
} pairings[] = {
    {"all equal", 3, 1, 7, 0, 3, 1, 7, true},
    {"tag 0", 3, 1, 0, 0, 3, 1, 0, true},
    {"largest tag", 3, 1, UINT64_MAX, 0, 3, 1, UINT64_MAX, true},
    {"largest index", NIGH_ANY - 1, 7, 7, 0, NIGH_ANY - 1, 7, 7, true},
    {"another tag", 3, 1, 7, 0, 3, 1, 8, false},
    {"another tag, upper half", 3, 1, 7, 0, 3, 1, 7 | UINT64_C(1) << 63, false},
    {"another source", 3, 1, 7, 0, 4, 1, 7, false},
    {"another class", 3, 1, 7, 0, 3, 2, 7, false},
    {"any source", NIGH_ANY, 1, 7, 0, 4, 1, 7, true},
    {"any source, another tag", NIGH_ANY, 1, 7, 0, 4, 1, 6, false},
    {"any source, another class", NIGH_ANY, 1, 7, 0, 4, 0, 7, false},
    {"any tag", 3, 1, 7, ALL, 3, 1, 99, true},
    {"any tag, another source", 3, 1, 7, ALL, 2, 1, 7, false},
    {"any tag, another class", 3, 1, 7, ALL, 3, 0, 7, false},
    {"anything", NIGH_ANY, 1, 7, ALL, 9, 1, 99, true},
    {"anything, another class", NIGH_ANY, 1, 7, ALL, 9, 2, 7, false},
    {"mask", 3, 1, 0x70, 0xf, 3, 1, 0x7a, true},
    {"mask, bits of the receive's tag under it", 3, 1, 0x7f, 0xf, 3, 1, 0x7a, true},
    {"mask, a bit outside", 3, 1, 0x70, 0xf, 3, 1, 0x6a, false},
    {"mask, another source", 3, 1, 0x70, 0xf, 4, 1, 0x7a, false},
    {"mask, another class", 3, 1, 0x70, 0xf, 3, 0, 0x7a, false},
    {"mask, any source", NIGH_ANY, 1, 0x70, 0xf, 8, 1, 0x71, true},
    {"mask, any source, a bit outside", NIGH_ANY, 1, 0x70, 0xf, 8, 1, 0x81, false},
    {"mask, any source, another class", NIGH_ANY, 1, 0x70, 0xf, 8, 2, 0x71, false},
    {"one bit is compared", 3, 1, 1, ~UINT64_C(1), 3, 1, 0xff, true},
    {"one bit is compared and differs", 3, 1, 1, ~UINT64_C(1), 3, 1, 0xfe, false},
};

static void posted_pairs(void **state)
{
    for (size_t i = 0; i < sizeof(pairings) / sizeof(pairings[0]); i++) {
        const struct pairing *p = &pairings[i];
        struct nigh_posted posted, *found;

        nigh_match_post(*state, receive(&posted, p->source, p->tclass, p->tag, p->ignore));
        found = nigh_match_arrive(*state, p->from, p->in, p->with);
        if (found != (p->match ? &posted : NULL))
            fail_msg("%s: a posted receive was %staken", p->what, found == NULL ? "not " : "");
        if (found == NULL)
            nigh_match_withdraw(*state, &posted);
        assert_int_equal(((struct nigh_matcher *)*state)->posted_count, 0);
        assert_null(nigh_match_arrive(*state, p->from, p->in, p->with));
    }
}

static void arrived_pairs(void **state)
{
    for (size_t i = 0; i < sizeof(pairings) / sizeof(pairings[0]); i++) {
        const struct pairing *p = &pairings[i];
        struct nigh_arrived arrived, *found;

        nigh_match_keep(*state, message(&arrived, p->from, p->in, p->with));
        found = nigh_match_find(*state, p->source, p->tclass, p->tag, p->ignore, false);
        assert_ptr_equal(nigh_match_find(*state, p->source, p->tclass, p->tag, p->ignore, true), found);
        if (found != (p->match ? &arrived : NULL))
            fail_msg("%s: a waiting message was %staken", p->what, found == NULL ? "not " : "");
        if (found == NULL)
            nigh_match_drop(*state, &arrived);
        assert_int_equal(((struct nigh_matcher *)*state)->arrived_count, 0);
        assert_null(nigh_match_find(*state, NIGH_ANY, p->in, 0, ALL, false));
    }
}

/* Every kind of receive that matches (3, 1, 0x70), in every order of two: the one posted first is taken. */
static void receives_match_in_posting_order(void **state)
{
    static const struct {
        uint32_t source;
        uint64_t tag, ignore;
    } kinds[] = {{3, 0x70, 0},          {NIGH_ANY, 0x70, 0}, {3, 0, ALL},           {NIGH_ANY, 0, ALL},
                 {NIGH_ANY, 0x7f, 0xf}, {3, 0x71, 0xf},      {NIGH_ANY, 0, 0xff70}, {3, 0x170, 0x100}};
    const size_t count = sizeof(kinds) / sizeof(kinds[0]);

    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            struct nigh_posted first, second;

            nigh_match_post(*state, receive(&first, kinds[i].source, 1, kinds[i].tag, kinds[i].ignore));
            nigh_match_post(*state, receive(&second, kinds[j].source, 1, kinds[j].tag, kinds[j].ignore));
            if (nigh_match_arrive(*state, 3, 1, 0x70) != &first)
                fail_msg("kind %zu was posted before kind %zu but not taken first", i, j);
            if (nigh_match_arrive(*state, 3, 1, 0x70) != &second)
                fail_msg("kind %zu was not taken after kind %zu", j, i);
        }
    }
}

static void messages_are_taken_in_the_order_of_arrival(void **state)
{
    static const struct {
        uint32_t source;
        uint64_t ignore;
    } looks[] = {{3, 0}, {NIGH_ANY, 0}, {3, ALL}, {NIGH_ANY, ALL}, {3, 0xf}, {NIGH_ANY, 0xf}};
    struct nigh_arrived arrived[3];

    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
        for (size_t k = 0; k < 3; k++)
            nigh_match_keep(*state, message(&arrived[k], 3, 1, 7));
        for (size_t k = 0; k < 3; k++) {
            if (nigh_match_find(*state, looks[i].source, 1, 7, looks[i].ignore, true) != &arrived[k])
                fail_msg("look %zu: message %zu was not the next", i, k);
        }
    }
}

/* Taking from the middle, through one kind of queue, must leave the others whole. */
static void queues_stay_whole_when_one_is_taken_from_the_middle(void **state)
{
    struct nigh_arrived a[4];

    nigh_match_keep(*state, message(&a[0], 3, 1, 7));
    nigh_match_keep(*state, message(&a[1], 4, 1, 7));
    nigh_match_keep(*state, message(&a[2], 3, 1, 8));
    nigh_match_keep(*state, message(&a[3], 3, 1, 7));
    assert_ptr_equal(nigh_match_find(*state, 4, 1, 0, ALL, true), &a[1]);
    assert_ptr_equal(nigh_match_find(*state, 3, 1, 8, 0, true), &a[2]);
    nigh_match_drop(*state, &a[0]);
    assert_ptr_equal(nigh_match_find(*state, NIGH_ANY, 1, 7, 0, false), &a[3]);
    assert_ptr_equal(nigh_match_find(*state, 3, 1, 7, 0, false), &a[3]);
    assert_ptr_equal(nigh_match_find(*state, 3, 1, 0, ALL, false), &a[3]);
    assert_ptr_equal(nigh_match_find(*state, NIGH_ANY, 1, 0, ALL, true), &a[3]);
    assert_int_equal(((struct nigh_matcher *)*state)->arrived_count, 0);
}

static void a_kept_receive_stays_first_in_line(void **state)
{
    static const struct {
        uint32_t source;
        uint64_t ignore;
    } kinds[] = {{3, 0}, {NIGH_ANY, 0}, {3, ALL}, {NIGH_ANY, ALL}, {3, 0xf}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct nigh_posted multi, other;

        receive(&multi, kinds[i].source, 1, 7, kinds[i].ignore)->keep = true;
        nigh_match_post(*state, &multi);
        nigh_match_post(*state, receive(&other, 3, 1, 7, 0));
        for (int k = 0; k < 3; k++)
            assert_ptr_equal(nigh_match_arrive(*state, 3, 1, 7), &multi);
        assert_int_equal(((struct nigh_matcher *)*state)->posted_count, 1);
        assert_int_equal(nigh_match_posted(*state), 2);
        assert_true(nigh_match_stands(*state, 1) && !nigh_match_stands(*state, 0));
        nigh_match_withdraw(*state, &multi);
        assert_int_equal(nigh_match_posted(*state), 1);
        assert_false(nigh_match_stands(*state, 1));
        assert_ptr_equal(nigh_match_arrive(*state, 3, 1, 7), &other);
        assert_null(nigh_match_arrive(*state, 3, 1, 7));
    }
}

static void withdrawing_leaves_the_others_in_order(void **state)
{
    struct nigh_posted p[4];

    for (uint32_t skip = 0; skip < 4; skip++) {
        for (uint32_t i = 0; i < 4; i++)
            nigh_match_post(*state, receive(&p[i], 3, 1, 7, i % 2 == 0 ? 0 : 0xf));
        nigh_match_withdraw(*state, &p[skip]);
        for (uint32_t i = 0; i < 4; i++) {
            if (i != skip)
                assert_ptr_equal(nigh_match_arrive(*state, 3, 1, 7), &p[i]);
        }
        assert_null(nigh_match_arrive(*state, 3, 1, 7));
    }
}

enum { MANY = 10000 };

/* The position of a receive in a permutation of 0..MANY-1 in which neighbours are far apart. */
static uint32_t shuffled(uint32_t i)
{
    return (uint32_t)((uint64_t)i * 7919 % MANY);
}

static void post_many(struct nigh_matcher *matcher, struct nigh_posted *posted)
{
    for (uint32_t i = 0; i < MANY; i++)
        nigh_match_post(matcher, receive(&posted[i], i % 3 == 0 ? NIGH_ANY : i % 100, 1, i, 0));
}

static void check_many(struct nigh_matcher *matcher, struct nigh_posted *posted)
{
    assert_int_equal(matcher->posted_count, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t k = shuffled(i);

        if (nigh_match_arrive(matcher, k % 100, 1, k) != &posted[k])
            fail_msg("receive %u of %d was not found", k, MANY);
    }
    assert_int_equal(matcher->posted_count, 0);
}

static void thousands_of_receives_grow_the_table(void **state)
{
    struct nigh_matcher *matcher = *state;
    struct nigh_posted *posted = calloc(MANY, sizeof(*posted));

    assert_non_null(posted);
    osfail_install();
    post_many(matcher, posted);
    assert_in_range(osfail_count(OSFAIL_calloc), 7, 8);
    check_many(matcher, posted);
    post_many(matcher, posted);
    check_many(matcher, posted);
    assert_in_range(osfail_count(OSFAIL_calloc), 7, 8); /* the second time needed no memory */
    osfail_remove();
    free(posted);
}

static void without_memory_the_small_table_works_on(void **state)
{
    struct nigh_matcher *matcher = *state;
    struct nigh_posted *posted = calloc(MANY, sizeof(*posted));
    uint32_t shift = matcher->posted.shift;

    assert_non_null(posted);
    osfail_install();
    osfail_arm_all(OSFAIL_calloc, 1, ENOMEM);
    post_many(matcher, posted);
    assert_true(osfail_hit());
    assert_in_range(osfail_count(OSFAIL_calloc), 1, 8); /* it does not ask again at each post */
    osfail_remove();
    assert_int_equal(matcher->posted.shift, shift);
    check_many(matcher, posted);
    free(posted);
}

static void init_fails_cleanly(void **state)
{
    struct nigh_matcher matcher;

    (void)state;
    osfail_install();
    for (unsigned nth = 1; nth <= 2; nth++) {
        osfail_arm(OSFAIL_calloc, nth, ENOMEM);
        assert_int_equal(nigh_match_init(&matcher), -ENOMEM);
        assert_true(osfail_hit());
    }
    osfail_remove();
}

static void a_queue_of_thousands_does_not_slow_its_neighbours(void **state)
{
    struct nigh_matcher *matcher = *state;
    struct nigh_posted *posted = calloc(MANY, sizeof(*posted)), one;

    assert_non_null(posted);
    for (uint32_t i = 0; i < MANY; i++)
        nigh_match_post(matcher, receive(&posted[i], 3, 1, 7, 0));
    assert_int_equal(matcher->posted.queues, 1);
    nigh_match_post(matcher, receive(&one, 3, 1, 8, 0));
    assert_int_equal(matcher->posted.queues, 2);
    assert_ptr_equal(nigh_match_arrive(matcher, 3, 1, 8), &one);
    for (uint32_t i = 0; i < MANY; i++)
        assert_ptr_equal(nigh_match_arrive(matcher, 3, 1, 7), &posted[i]);
    assert_int_equal(matcher->posted.queues, 0);
    free(posted);
}

/* Masks that many hosts put into all their receives: each receive and each message is found at once. */
static void a_common_mask_costs_no_walk(void **state)
{
    const uint64_t mask = UINT64_C(0xf) << 60;
    struct nigh_matcher *matcher = *state;
    struct nigh_posted *posted = calloc(MANY, sizeof(*posted));
    struct nigh_arrived *arrived = calloc(MANY, sizeof(*arrived));
    uint64_t walked = 0;

    assert_non_null(posted);
    assert_non_null(arrived);
    for (uint32_t i = 0; i < MANY; i++)
        nigh_match_post(matcher, receive(&posted[i], 3, 1, i, mask));
    assert_int_equal(matcher->posted.queues, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        assert_ptr_equal(nigh_match_arrive(matcher, 3, 1, shuffled(i) | UINT64_C(5) << 60),
                         &posted[shuffled(i)]);
    for (uint32_t i = 0; i < MANY; i++)
        nigh_match_keep(matcher, message(&arrived[i], 3, 1, i | UINT64_C(5) << 60));
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ptr_equal(nigh_match_find(matcher, 3, 1, shuffled(i), mask, true), &arrived[shuffled(i)]);
        if (i == MANY / 2)
            walked = matcher->walked;
    }
    assert_int_equal(matcher->filed_ignore, mask); /* learnt in the first half */
    assert_int_equal(matcher->walked, walked);
    free(posted);
    free(arrived);
}

/* More masks at one time than there are shapes: the rest is walked, in the same order. */
static void more_masks_than_shapes_keep_the_order(void **state)
{
    struct nigh_matcher *matcher = *state;
    struct nigh_posted p[4 * NIGH_MATCH_SHAPES];
    const uint32_t count = sizeof(p) / sizeof(p[0]);

    for (uint32_t i = 0; i < count; i++)
        nigh_match_post(matcher, receive(&p[i], i % 2 == 0 ? 3 : NIGH_ANY, 1, 0, UINT64_C(1) << (i % 60)));
    assert_int_equal(p[40].shape, NIGH_MATCH_LISTED);
    assert_int_not_equal(p[0].shape, NIGH_MATCH_LISTED);
    assert_ptr_equal(nigh_match_arrive(matcher, 3, 1, UINT64_C(1) << 59), &p[59]);
    for (uint32_t i = 0; i < count; i++) {
        if (i != 59)
            assert_ptr_equal(nigh_match_arrive(matcher, 3, 1, 0), &p[i]);
    }
    assert_int_equal(matcher->posted_count, 0);
    assert_int_equal(matcher->others, 0);
    nigh_match_post(matcher, receive(&p[0], 3, 1, 0, UINT64_C(1) << 62)); /* shapes are free again */
    assert_int_not_equal(p[0].shape, NIGH_MATCH_LISTED);
    assert_ptr_equal(nigh_match_arrive(matcher, 3, 1, UINT64_C(1) << 62), &p[0]);
}

static void receives_of_a_source_are_taken_in_posting_order(void **state)
{
    struct nigh_matcher *matcher = *state;
    struct nigh_posted p[60], *taken;
    uint32_t left = 0;

    for (uint32_t i = 0; i < 60; i++) {
        static const uint64_t ignores[] = {0, ALL, 0xf};

        nigh_match_post(matcher, receive(&p[i], i % 4 == 3 ? NIGH_ANY : i % 4, i % 5, i % 7, ignores[i % 3]));
    }
    taken = nigh_match_take_posted(matcher, 1);
    for (uint32_t i = 1; i < 60; i += 4, taken = nigh_posted_next(taken))
        assert_ptr_equal(taken, &p[i]);
    assert_null(taken);
    assert_int_equal(matcher->posted_count, 45);
    assert_ptr_equal(nigh_match_oldest_from_anyone(matcher), &p[3]);
    taken = nigh_match_take_posted(matcher, NIGH_ANY);
    for (uint32_t i = 3; i < 60; i += 4, taken = nigh_posted_next(taken))
        assert_ptr_equal(taken, &p[i]);
    assert_null(taken);
    assert_null(nigh_match_oldest_from_anyone(matcher));
    assert_null(nigh_match_take_posted(matcher, 1));
    for (uint32_t i = 0; i < 60; i++) {
        if (i % 4 == 0 || i % 4 == 2) {
            nigh_match_withdraw(matcher, &p[i]);
            left++;
        }
    }
    assert_int_equal(left, 30);
    assert_int_equal(matcher->posted_count, 0);
}

static void messages_of_a_source_are_taken_in_order(void **state)
{
    struct nigh_matcher *matcher = *state;
    struct nigh_arrived a[24], *taken;

    for (uint32_t i = 0; i < 24; i++)
        nigh_match_keep(matcher, message(&a[i], i % 3, i / 12, i % 2));
    taken = nigh_match_take_arrived(matcher, 1);
    for (uint32_t i = 1; i < 24; i += 3, taken = nigh_arrived_next(taken))
        assert_ptr_equal(taken, &a[i]);
    assert_null(taken);
    assert_null(nigh_match_take_arrived(matcher, 1));
    assert_int_equal(matcher->arrived_count, 16);
    assert_ptr_equal(nigh_match_find(matcher, NIGH_ANY, 0, 1, 0, true), &a[3]);
    assert_ptr_equal(nigh_match_find(matcher, NIGH_ANY, 1, 0, ALL, true), &a[12]);
}

static bool has_tag(const struct nigh_posted *posted, void *data)
{
    return posted->tag == *(const uint64_t *)data;
}

static void count_posted(struct nigh_posted *posted, void *data)
{
    *(uint64_t *)data += posted->tag;
}

static void count_arrived(struct nigh_arrived *arrived, void *data)
{
    *(uint64_t *)data = *(uint64_t *)data * 10 + arrived->tag;
}

static void the_oldest_of_some_is_found_and_all_are_visited(void **state)
{
    struct nigh_matcher *matcher = *state;
    struct nigh_posted p[6];
    struct nigh_arrived a[3];
    uint64_t tag = 2, sum = 0, digits = 0;

    assert_null(nigh_match_oldest(matcher, has_tag, &tag));
    nigh_match_post(matcher, receive(&p[0], 1, 0, 1, 0));
    nigh_match_post(matcher, receive(&p[1], NIGH_ANY, 2, 2, 0xf));
    nigh_match_post(matcher, receive(&p[2], 9, 0, 2, 0));
    nigh_match_post(matcher, receive(&p[3], 9, 0, 2, ALL));
    nigh_match_post(matcher, receive(&p[4], 9, 0, 2, 0));
    assert_ptr_equal(nigh_match_oldest(matcher, has_tag, &tag), &p[1]);
    nigh_match_withdraw(matcher, &p[1]);
    assert_ptr_equal(nigh_match_oldest(matcher, has_tag, &tag), &p[2]);
    tag = 3;
    assert_null(nigh_match_oldest(matcher, has_tag, &tag));
    nigh_match_each_posted(matcher, count_posted, &sum);
    assert_int_equal(sum, 1 + 2 + 2 + 2);
    nigh_match_keep(matcher, message(&a[0], 1, 3, 7));
    nigh_match_keep(matcher, message(&a[1], 1, 2, 8));
    nigh_match_keep(matcher, message(&a[2], 2, 3, 9));
    nigh_match_each_arrived(matcher, count_arrived, &digits);
    assert_int_equal(digits, 879);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(posted_pairs),
        CASE(arrived_pairs),
        CASE(receives_match_in_posting_order),
        CASE(messages_are_taken_in_the_order_of_arrival),
        CASE(queues_stay_whole_when_one_is_taken_from_the_middle),
        CASE(a_kept_receive_stays_first_in_line),
        CASE(withdrawing_leaves_the_others_in_order),
        CASE(thousands_of_receives_grow_the_table),
        CASE(without_memory_the_small_table_works_on),
        CASE(init_fails_cleanly),
        CASE(a_queue_of_thousands_does_not_slow_its_neighbours),
        CASE(a_common_mask_costs_no_walk),
        CASE(more_masks_than_shapes_keep_the_order),
        CASE(receives_of_a_source_are_taken_in_posting_order),
        CASE(messages_of_a_source_are_taken_in_order),
        CASE(the_oldest_of_some_is_found_and_all_are_visited),
    };
    return cmocka_run_group_tests_name("match", tests, NULL, NULL);
}

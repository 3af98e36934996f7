/* SPDX-License-Identifier: BSD-3-Clause */
/* As many receives that wait alone as may be, of more masks than the matcher has shapes for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/match_alone.h"

enum { MANY = NIGH_MATCH_LONE_MAX };

static struct nigh_matcher matcher;
static struct nigh_posted lone[MANY], later[MANY];

static struct nigh_posted *receive(struct nigh_posted *posted, uint32_t source, uint64_t ignore)
{
    *posted = (struct nigh_posted){.source = source, .tag = 1, .ignore = ignore};
    return posted;
}

/* The last source first, so that age and number are at odds. */
static int setup(void **state)
{
    (void)state;
    assert_int_equal(nigh_match_init(&matcher), 0);
    for (uint32_t i = MANY; i-- > 0;) {
        assert_true(nigh_match_may_wait_alone(&matcher, i));
        nigh_match_post_alone(&matcher, receive(&lone[i], i, UINT64_C(2) << i % 60));
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(matcher.posted_count, 0);
    assert_int_equal(matcher.others, 0);
    assert_int_equal(matcher.alone, 0);
    nigh_match_destroy(&matcher);
    return 0;
}

static void sources_beyond_have_none(void **state)
{
    (void)state;
    assert_false(nigh_match_may_wait_alone(&matcher, MANY));
    assert_false(nigh_match_may_wait_alone(&matcher, NIGH_ANY));
    for (uint32_t i = 0; i < MANY; i++) {
        assert_null(nigh_match_arrive(&matcher, MANY + i, 0, 1));
        assert_null(nigh_match_take_posted(&matcher, MANY + i));
        assert_ptr_equal(nigh_match_arrive(&matcher, i, 0, 1), &lone[i]);
    }
}

/* Filed they lie in the order of their sources: a message finds the one of its source all the same, and before whatever
 * was posted later. */
static void filed_they_keep_their_age(void **state)
{
    struct nigh_posted any;
    uint32_t listed = 0;

    (void)state;
    nigh_match_post(&matcher, receive(&any, NIGH_ANY, 0));
    for (uint32_t i = 0; i < MANY; i++) {
        listed += lone[i].shape == NIGH_MATCH_LISTED;
        nigh_match_post(&matcher, receive(&later[i], i, UINT64_C(2) << (i + 7) % 60));
    }
    assert_true(listed > NIGH_MATCH_SHAPES);
    assert_int_equal(matcher.posted_count, 2 * MANY + 1);
    for (uint32_t i = 0; i < MANY; i++)
        assert_ptr_equal(nigh_match_arrive(&matcher, i, 0, 1), &lone[i]);
    assert_ptr_equal(nigh_match_arrive(&matcher, 5, 0, 1), &any);
    for (uint32_t i = 0; i < MANY; i++)
        assert_ptr_equal(nigh_match_take_posted(&matcher, i), &later[i]);
}

static bool is_any(const struct nigh_posted *posted, void *data)
{
    (void)posted;
    (void)data;
    return true;
}

static void the_oldest_is_the_one_posted_first(void **state)
{
    (void)state;
    for (uint32_t i = MANY; i-- > 0;) {
        assert_ptr_equal(nigh_match_oldest(&matcher, is_any, NULL), &lone[i]);
        nigh_match_withdraw(&matcher, &lone[i]);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(sources_beyond_have_none),
        CASE(filed_they_keep_their_age),
        CASE(the_oldest_is_the_one_posted_first),
    };

    return cmocka_run_group_tests_name("alone", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Light requests: handles that stand until they are ended, once, however old they get; what is known of
 * each; and places that are all taken. */
#include "lib/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct nigh_endpoint *endpoints[8];
static struct nigh_comm comm = {.id = 9, .size = 8, .endpoints = endpoints};

static int open_all(void **state)
{
    (void)state;
    return nigh_operations_open();
}

static int close_all(void **state)
{
    (void)state;
    nigh_operations_close();
    return 0;
}

/* As nigh_isend does. 0: there is no place. */
static uint64_t take_like(int rank, int tag, uint64_t bytes, const char *site)
{
    uint64_t with = NIGH_WITH(rank, tag);

    if (!nigh_light_goes_on(&comm, with, bytes, site)) {
        if (!nigh_lights_more())
            return 0;
        nigh_lights_turn(&comm, with, bytes, site);
    }
    assert_true(nigh_light_goes_on(&comm, with, bytes, site));
    return nigh_light_take(bytes);
}

static uint64_t take(uint64_t bytes)
{
    return take_like(1, 2, bytes, "here.c:1");
}

static void assert_knows(uint64_t id, int rank, int tag, uint64_t bytes, const char *site)
{
    struct nigh_run run = {0};

    assert_true(nigh_light_stands(id));
    assert_true(nigh_light_know(id, &run));
    assert_int_equal(nigh_who_rank(run.who), rank);
    assert_string_equal(nigh_who_site(run.who), site);
    assert_int_equal(run.tag, UINT64_C(9) << 32 | (uint32_t)tag);
    assert_int_equal(run.bytes, bytes);
}

static void assert_is_over(uint64_t id)
{
    struct nigh_run run;

    assert_false(nigh_light_stands(id));
    assert_false(nigh_light_know(id, &run));
    assert_false(nigh_light_end(id));
    assert_null(nigh_operation_find(id));
}

static void test_found_until_ended(void **state)
{
    uint64_t id = take(8);
    struct nigh_operation *operation = nigh_operation_find(id);

    (void)state;
    assert_non_null(operation);
    assert_int_equal(operation->phase, NIGH_PHASE_DONE);
    assert_int_equal(operation->bytes, 8);
    assert_int_equal(operation->peer, 1);
    assert_int_equal(operation->tag, 2);
    assert_string_equal(operation->site, "here.c:1");
    nigh_operation_end(operation);
    assert_is_over(id);
}

static void test_no_other_handle_finds_it(void **state)
{
    uint64_t id = take(NIGH_INJECT_BYTES);

    (void)state;
    for (int bit = 0; bit < 64; bit++)
        assert_null(nigh_operation_find(id ^ UINT64_C(1) << bit));
    assert_false(nigh_light_stands(0));
    assert_knows(id, 1, 2, NIGH_INJECT_BYTES, "here.c:1");
}

/* What is known of each is its own, however often that changes. */
static void test_each_keeps_its_own(void **state)
{
    static const char *const sites[] = {"a.c:1", "b.c:2", "c.c:3"};
    uint64_t ids[NIGH_LIGHTS];

    (void)state;
    for (int i = 0; i < (int)NIGH_LIGHTS; i++)
        ids[i] = take_like(i / 3 % 8, i / 2, (uint64_t)(i / 5 % 100), sites[i / 7 % 3]);
    for (int i = 0; i < (int)NIGH_LIGHTS; i++) {
        assert_knows(ids[i], i / 3 % 8, i / 2, (uint64_t)(i / 5 % 100), sites[i / 7 % 3]);
        assert_true(nigh_light_end(ids[i]));
        assert_is_over(ids[i]);
    }
}

/* Of a stream of sends that are waited for at once a few are kept for long: no send is without a place for that. */
static void test_kept_for_long(void **state)
{
    uint64_t kept[64] = {0};

    (void)state;
    for (int i = 0; i < 40000; i++) {
        uint64_t id = take_like(i % 8, i, (uint64_t)(i % 41), "here.c:1");

        assert_int_not_equal(id, 0);
        if (i % 625 == 0)
            kept[i / 625] = id;
        else
            assert_true(nigh_light_end(id));
    }
    for (int k = 0; k < 64; k++) {
        int i = k * 625;

        assert_knows(kept[k], i % 8, i, (uint64_t)(i % 41), "here.c:1");
        assert_true(nigh_light_end(kept[k]));
        assert_is_over(kept[k]);
    }
}

static void count(uint64_t id, void *data)
{
    assert_true(nigh_light_stands(id));
    ++*(uint32_t *)data;
}

/* None is waited for: sooner or later there is no place. All are still known, and when they have
 * ended there is again. */
static void test_none_ended(void **state)
{
    static uint64_t ids[NIGH_LIGHTS + NIGH_LIGHTS_KEPT + 64];
    uint32_t taken = 0, found = 0;

    (void)state;
    for (uint64_t id = take(1); id; id = take(1)) {
        assert_true(taken < sizeof(ids) / sizeof(ids[0]));
        ids[taken++] = id;
    }
    assert_true(taken >= NIGH_LIGHTS_KEPT);
    assert_int_equal(take(1), 0);
    nigh_lights_each(count, &found);
    assert_int_equal(found, taken);
    for (uint32_t i = 0; i < taken; i++)
        assert_true(nigh_light_end(ids[i]));
    found = 0;
    nigh_lights_each(count, &found);
    assert_int_equal(found, 0);
    assert_int_not_equal(take(1), 0);
}

/* The place of one of 64 that grow old is taken, by one that has been kept for NIGH_LIGHTS_KEPT:
 * none of them is lost. */
static void test_one_place_taken(void **state)
{
    uint64_t first, ids[64], id;
    uint32_t count = 0, since;

    (void)state;
    while (nigh_light_serial(first = take(8)) % 64 != 60)
        assert_true(nigh_light_end(first));
    for (since = 1; since < NIGH_LIGHTS_KEPT - 60; since++)
        assert_true(nigh_light_end(take(8)));
    for (; count < 64; count++)
        assert_int_not_equal(ids[count] = take(8), 0);
    assert_int_equal(nigh_light_serial(ids[60]), nigh_light_serial(first) + NIGH_LIGHTS_KEPT);
    while ((id = take(8)))
        assert_true(nigh_light_end(id));
    for (uint32_t i = 0; i < 64; i++) {
        assert_knows(ids[i], 1, 2, 8, "here.c:1");
        assert_true(nigh_light_end(ids[i]));
        assert_is_over(ids[i]);
    }
    assert_int_not_equal(take(8), 0);
    assert_knows(first, 1, 2, 8, "here.c:1");
    assert_true(nigh_light_end(first));
}

/* As nigh_waitall does: as many as stand one behind the other, which is at most a word of them. */
static void test_together(void **state)
{
    uint64_t ids[300], past, done = 0, steps = 0;

    (void)state;
    for (uint32_t i = 0; i < 300; i++)
        ids[i] = take(8);
    past = ids[299] + NIGH_LIGHT_NEXT;
    assert_true(nigh_light_end(ids[123]));
    assert_int_equal(nigh_lights_standing(ids[123]), 0);
    assert_int_equal(nigh_lights_standing(past), 0);
    assert_int_equal(nigh_lights_standing(0), 0);
    assert_int_equal(nigh_lights_standing(UINT64_C(1) << 32), 0);
    for (uint32_t i = 0; i < 300; steps++) {
        uint32_t run = nigh_lights_standing(ids[i]);

        assert_in_range(run, i == 123 ? 0 : 1, i == 123 ? 0 : 64);
        assert_in_range(i + run, i, i < 123 ? 123 : 300);
        if (run) {
            nigh_lights_end(ids[i], run);
            for (uint32_t k = 0; k < run; k++)
                assert_is_over(ids[i + k]);
        }
        done += run;
        i += run ? run : 1;
    }
    assert_int_equal(done, 299);
    assert_in_range(steps, 6, 8);
    assert_int_equal(take(8), past);
    assert_int_equal(nigh_lights_standing(past), 1);
    nigh_lights_end(past, 1);
    assert_is_over(past);
}

/* Some of them, and the others stand. */
static void test_a_part(void **state)
{
    uint64_t ids[5];

    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        ids[i] = take(8);
    assert_int_equal(nigh_lights_standing(ids[1]), 4);
    nigh_lights_end(ids[1], 2);
    assert_is_over(ids[1]);
    assert_is_over(ids[2]);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(nigh_light_stands(ids[i]), i != 1 && i != 2);
    assert_int_equal(nigh_lights_standing(ids[0]), 1);
    assert_int_equal(nigh_lights_standing(ids[3]), 2);
}

/* A communicator that is freed, and made again in its place, is another. */
static void test_forgotten(void **state)
{
    (void)state;
    assert_int_not_equal(take(8), 0);
    assert_true(nigh_light_goes_on(&comm, NIGH_WITH(1, 2), 8, "here.c:1"));
    nigh_alike_forget(&nigh_lights.last);
    assert_false(nigh_light_goes_on(&comm, NIGH_WITH(1, 2), 8, "here.c:1"));
}

/* nigh_init after nigh_finalize. */
static void test_of_an_earlier_time(void **state)
{
    uint64_t before = take(8), after;

    (void)state;
    nigh_lights_open();
    assert_is_over(before);
    after = take(8);
    assert_int_not_equal(after, before);
    assert_knows(after, 1, 2, 8, "here.c:1");
    assert_is_over(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_found_until_ended, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_no_other_handle_finds_it, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_each_keeps_its_own, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_kept_for_long, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_none_ended, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_one_place_taken, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_together, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_a_part, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_forgotten, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_of_an_earlier_time, open_all, close_all),
    };

    return cmocka_run_group_tests_name("light", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Extents fill their area without gap or overlap, whatever is taken and given back, and merge to one again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/extents.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <stdlib.h>

static struct nigh_extents make(uint64_t pages)
{
    struct nigh_extents extents;

    assert_int_equal(nigh_extents_create(pages, &extents), 0);
    return extents;
}

static struct nigh_extent *take(struct nigh_extents *extents, uint64_t pages)
{
    struct nigh_extent *extent = nigh_extents_take(extents, pages);

    assert_non_null(extent);
    assert_int_equal(extent->pages, pages);
    assert_true(extent->used);
    assert_null(extent->slab);
    assert_int_equal(extent->holds, 0);
    return extent;
}

/* The chain is whole, no two free ones touch, and the bins hold exactly the free ones. */
static uint64_t check(const struct nigh_extents *extents, uint64_t pages)
{
    uint64_t next = 0, used = 0;
    unsigned vacant = 0, binned = 0;
    const struct nigh_extent *before = NULL;

    for (const struct nigh_extent *e = extents->first; e; before = e, e = e->after) {
        assert_int_equal(e->page, next);
        assert_true(e->pages > 0);
        assert_ptr_equal(e->before, before);
        if (before)
            assert_true(before->used || e->used);
        next += e->pages;
        used += e->used ? e->pages : 0;
        vacant += !e->used;
    }
    assert_int_equal(next, pages);
    for (unsigned bin = 0; bin < NIGH_EXTENT_BINS; bin++) {
        assert_int_equal(extents->bins[bin] != NULL, extents->filled[bin / 64] >> bin % 64 & 1);
        for (const struct nigh_extent *e = extents->bins[bin]; e; e = e->bin_after, binned++)
            assert_false(e->used);
    }
    assert_int_equal(binned, vacant);
    return used;
}

static void taken_from_the_low_end(void **state)
{
    struct nigh_extents extents = make(100);

    (void)state;
    assert_int_equal(take(&extents, 10)->page, 0);
    assert_int_equal(take(&extents, 90)->page, 10);
    assert_null(nigh_extents_take(&extents, 1));
    nigh_extents_destroy(&extents);
}

static void neighbours_merge_in_any_order(void **state)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct nigh_extents extents = make(30);
        struct nigh_extent *three[3];

        for (int k = 0; k < 3; k++)
            three[k] = take(&extents, 10);
        for (int k = 0; k < 3; k++) {
            nigh_extents_give(&extents, three[orders[i][k]]);
            check(&extents, 30);
        }
        assert_int_equal(take(&extents, 30)->page, 0);
        nigh_extents_destroy(&extents);
    }
}

static void the_best_fit_is_taken(void **state)
{
    struct nigh_extents extents = make(1000);
    struct nigh_extent *holes[4];
    static const uint64_t sizes[4] = {40, 20, 33, 300};

    (void)state;
    for (int i = 0; i < 4; i++) {
        holes[i] = take(&extents, sizes[i]);
        take(&extents, 1);
    }
    for (int i = 0; i < 4; i++)
        nigh_extents_give(&extents, holes[i]);
    assert_int_equal(take(&extents, 33)->page, 40 + 1 + 20 + 1); /* exactly */
    assert_int_equal(take(&extents, 18)->page, 40 + 1);          /* the shortest that is long enough */
    assert_int_equal(take(&extents, 35)->page, 0);
    check(&extents, 1000);
    nigh_extents_destroy(&extents);
}

/* One that fits is found even at the end of a long list of shorter ones in the same bin. */
static void nothing_that_fits_is_missed(void **state)
{
    enum { HOLES = 50 };
    struct nigh_extents extents = make(HOLES * 257 + 258);
    struct nigh_extent *fits = take(&extents, 257), *holes[HOLES];

    (void)state;
    for (int i = 0; i < HOLES; i++) {
        take(&extents, 1);
        holes[i] = take(&extents, 256);
    }
    assert_int_equal(take(&extents, 1)->page, (HOLES + 1) * 257);
    nigh_extents_give(&extents, fits); /* 257 and 256 share a bin; the later given stand before it */
    for (int i = 0; i < HOLES; i++)
        nigh_extents_give(&extents, holes[i]);
    assert_int_equal(take(&extents, 257)->page, 0);
    assert_null(nigh_extents_take(&extents, 257));
    nigh_extents_destroy(&extents);
}

static void absurd_requests_are_refused(void **state)
{
    struct nigh_extents extents = make(10), none = make(0);

    (void)state;
    assert_null(nigh_extents_take(&extents, 0));
    assert_null(nigh_extents_take(&extents, 11));
    assert_null(nigh_extents_take(&extents, UINT64_C(1) << 32));
    assert_null(nigh_extents_take(&extents, UINT64_MAX));
    assert_null(nigh_extents_take(&none, 1));
    nigh_extents_destroy(&extents);
    nigh_extents_destroy(&none);
}

static void largest_area_works(void **state)
{
    uint64_t most = (UINT64_C(1) << 32) - 1;
    struct nigh_extents extents = make(most);

    (void)state;
    assert_int_equal(take(&extents, most - 1)->page, 0);
    assert_int_equal(take(&extents, 1)->page, most - 1);
    check(&extents, most);
    nigh_extents_destroy(&extents);
}

static void without_private_memory_nothing_changes(void **state)
{
    struct nigh_extents extents = make(10), out;

    (void)state;
    osfail_arm(OSFAIL_calloc, 1, ENOMEM);
    assert_null(nigh_extents_take(&extents, 5));
    assert_true(osfail_hit());
    osfail_arm(OSFAIL_calloc, 1, ENOMEM);
    assert_int_equal(nigh_extents_create(5, &out), -ENOMEM);
    osfail_remove();
    assert_int_equal(check(&extents, 10), 0);
    assert_int_equal(take(&extents, 10)->page, 0);
    nigh_extents_destroy(&extents);
}

static void random_use_stays_whole(void **state)
{
    enum { PAGES = 4096, HELD = 200 };
    struct nigh_extents extents = make(PAGES);
    struct nigh_extent *held[HELD] = {NULL};
    uint64_t used = 0;
    unsigned refusals = 0;

    (void)state;
    srand(3);
    for (int step = 0; step < 20000; step++) {
        int i = rand() % HELD;

        if (held[i]) {
            used -= held[i]->pages;
            nigh_extents_give(&extents, held[i]);
            held[i] = NULL;
        } else {
            held[i] = nigh_extents_take(&extents, 1 + (uint64_t)(rand() % (rand() % 8 ? 24 : 300)));
            used += held[i] ? held[i]->pages : 0;
            refusals += !held[i];
        }
        if (step % 16 == 0)
            assert_int_equal(check(&extents, PAGES), used);
    }
    assert_true(refusals > 0); /* the area was full at times, else this would be too easy */
    for (int i = 0; i < HELD; i++) {
        if (held[i])
            nigh_extents_give(&extents, held[i]);
    }
    assert_int_equal(check(&extents, PAGES), 0);
    assert_null(extents.first->after);
    nigh_extents_destroy(&extents);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_from_the_low_end),
        cmocka_unit_test(neighbours_merge_in_any_order),
        cmocka_unit_test(the_best_fit_is_taken),
        cmocka_unit_test(nothing_that_fits_is_missed),
        cmocka_unit_test(absurd_requests_are_refused),
        cmocka_unit_test(largest_area_works),
        cmocka_unit_test(without_private_memory_nothing_changes),
        cmocka_unit_test(random_use_stays_whole),
    };
    return cmocka_run_group_tests_name("extents", tests, NULL, NULL);
}

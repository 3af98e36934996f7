/* SPDX-License-Identifier: BSD-3-Clause */
/* Which pages are taken and free (hosts/malloc/pages.h), against a model that has a letter for each page. */
#include "hosts/malloc/pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT  5000u
#define ORIGIN 12345u /* no multiple of any alignment */
#define STEPS  40000

struct lab {
    struct nigh_malloc_pages pages;
    /* the model */
    uint32_t begin[COUNT]; /* of a taken page: where its run begins; 0: free */
    uint8_t kinds[COUNT];  /* of a free page */
};

static int open_lab(void **state)
{
    struct lab *lab = calloc(1, sizeof(*lab));

    assert_non_null(lab);
    assert_true(nigh_malloc_pages_open(&lab->pages, COUNT, ORIGIN));
    *state = lab;
    return 0;
}

static int close_lab(void **state)
{
    struct lab *lab = *state;

    nigh_malloc_pages_close(&lab->pages);
    free(lab);
    return 0;
}

/* ---- the model ----------------------------------------------------------------------------------------- */

static uint32_t length_in_model(const struct lab *lab, uint32_t page)
{
    uint32_t n = 0;

    while (page + n < COUNT && lab->begin[page + n] == page)
        n++;
    return n;
}

static uint32_t free_from(const struct lab *lab, uint32_t page)
{
    uint32_t n = 0;

    while (page + n < COUNT && !lab->begin[page + n])
        n++;
    return n;
}

/* Of one kind. */
static uint32_t run_from(const struct lab *lab, uint32_t page)
{
    uint32_t n = 0, all = free_from(lab, page);

    while (n < all && lab->kinds[page + n] == lab->kinds[page])
        n++;
    return n;
}

static uint32_t longest(const struct lab *lab, uint8_t kind)
{
    uint32_t most = 0;

    for (uint32_t i = 1; i < COUNT; i++)
        if (!lab->begin[i] && lab->kinds[i] == kind && run_from(lab, i) > most)
            most = run_from(lab, i);
    return most;
}

/* Runs follow each other without gaps, free ones are as long as can be, and all is as in the model. */
static void compare(const struct lab *lab)
{
    uint64_t pages[NIGH_MALLOC_KINDS] = {0}, taken = 0;
    uint32_t page, next, blocks = 0;

    for (page = 1; page < COUNT; page = next) {
        uint32_t n = nigh_malloc_pages_length(&lab->pages, page);

        next = nigh_malloc_pages_next(&lab->pages, page);
        next = next ? next : COUNT;
        assert_true(next > page);
        assert_int_equal(n, lab->begin[page] ? length_in_model(lab, page) : 0);
        assert_int_equal(next - page, lab->begin[page] ? n : run_from(lab, page));
        assert_true(nigh_malloc_pages_is_clean(&lab->pages, page) ==
                    (!lab->begin[page] && lab->kinds[page] == NIGH_MALLOC_CLEAN));
        for (uint32_t i = page + 1; i < next; i++)
            assert_true(lab->begin[i] == lab->begin[page] && !nigh_malloc_pages_length(&lab->pages, i));
        if (lab->begin[page])
            taken += n;
        else
            pages[lab->kinds[page]] += next - page;
        blocks += lab->begin[page] != 0;
    }
    for (int i = 0; i < NIGH_MALLOC_KINDS; i++)
        assert_int_equal(lab->pages.bins[i].pages, pages[i]);
    assert_int_equal(lab->pages.taken, taken);
    assert_int_equal(lab->pages.blocks, blocks);
}

static void take(struct lab *lab, uint32_t n, uint32_t align)
{
    enum nigh_malloc_kind kind;
    uint32_t kept = longest(lab, NIGH_MALLOC_KEPT), clean = longest(lab, NIGH_MALLOC_CLEAN),
             page = nigh_malloc_pages_take(&lab->pages, n, align, rand() % 2, &kind);

    if (!page) { /* so there is none that would do wherever it lies */
        assert_true(kept < n + align - 1 && clean < n + align - 1);
        return;
    }
    assert_true(kind == (kept >= n + align - 1 ? NIGH_MALLOC_KEPT : NIGH_MALLOC_CLEAN));
    assert_int_equal((ORIGIN + page) % align, 0);
    assert_true(run_from(lab, page) >= n && lab->kinds[page] == (uint8_t)kind);
    for (uint32_t i = page; i < page + n; i++)
        lab->begin[i] = page;
}

static uint32_t any_taken(const struct lab *lab)
{
    uint32_t page = 1 + (uint32_t)rand() % (COUNT - 1);

    for (uint32_t i = 0; i < COUNT; i++, page = page + 1 < COUNT ? page + 1 : 1)
        if (lab->begin[page])
            return lab->begin[page];
    return 0;
}

static void give(struct lab *lab, uint32_t page, enum nigh_malloc_kind kind)
{
    uint32_t n = length_in_model(lab, page);

    if (rand() % 2) { /* meanwhile it has no length */
        nigh_malloc_pages_hide(&lab->pages, page);
        assert_int_equal(nigh_malloc_pages_length(&lab->pages, page), 0);
    }
    nigh_malloc_pages_give(&lab->pages, page, kind);
    memset(lab->begin + page, 0, n * sizeof(*lab->begin));
    memset(lab->kinds + page, kind, n);
}

static void cut(struct lab *lab, uint32_t page)
{
    uint32_t n = length_in_model(lab, page), first;

    if (n < 2)
        return;
    first = 1 + (uint32_t)rand() % (n - 1);
    nigh_malloc_pages_cut(&lab->pages, page, first);
    for (uint32_t i = page + first; i < page + n; i++)
        lab->begin[i] = page + first;
}

static void grow(struct lab *lab, uint32_t page)
{
    uint32_t n = length_in_model(lab, page), want = n + 1 + (uint32_t)rand() % 40;
    bool grown = nigh_malloc_pages_grow(&lab->pages, page, want);

    assert_int_equal(grown, free_from(lab, page + n) >= want - n);
    for (uint32_t i = page + n; grown && i < page + want; i++)
        lab->begin[i] = page;
}

/* What is said of free runs is said elsewhere. */
static void drop(struct lab *lab)
{
    for (uint32_t page = 1; page; page = nigh_malloc_pages_next(&lab->pages, page))
        if (!lab->begin[page])
            nigh_malloc_pages_drop(&lab->pages, page);
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static void as_the_model(void **state)
{
    struct lab *lab = *state;
    uint32_t page;

    srand(1);
    for (int step = 0; step < STEPS; step++) {
        int what = rand() % 10;

        page = any_taken(lab);
        /* Full and empty by turns. */
        if (!page || what < (step / 2000 % 2 ? 3 : 5))
            take(lab, 1 + (uint32_t)rand() % (rand() % 8 ? 20 : 400), rand() % 4 ? 1 : 1u << rand() % 8);
        else if (what < 8)
            give(lab, page, rand() % NIGH_MALLOC_KINDS);
        else if (what < 9)
            cut(lab, page);
        else
            grow(lab, page);
        if (step % 16 == 0)
            compare(lab);
        if (step % 64 == 0)
            drop(lab);
    }
    while (any_taken(lab))
        give(lab, any_taken(lab), NIGH_MALLOC_CLEAN);
    compare(lab);
    while ((page = nigh_malloc_pages_take_kept(&lab->pages)) != 0) { /* which are all there are */
        for (uint32_t i = page; i < page + nigh_malloc_pages_length(&lab->pages, page); i++) {
            assert_int_equal(lab->kinds[i], NIGH_MALLOC_KEPT);
            lab->begin[i] = page;
        }
        give(lab, page, NIGH_MALLOC_CLEAN);
    }
    compare(lab);
    assert_int_equal(run_from(lab, 1), COUNT - 1);
}

static uint32_t take_n(struct lab *lab, uint64_t n, uint64_t align)
{
    enum nigh_malloc_kind kind;

    return nigh_malloc_pages_take(&lab->pages, n, align, false, &kind);
}

static void the_whole_area(void **state)
{
    struct lab *lab = *state;

    assert_int_equal(take_n(lab, COUNT, 1), 0);
    assert_int_equal(take_n(lab, UINT64_MAX / 4096, 1), 0);
    assert_int_equal(take_n(lab, 1, (uint64_t)1 << 40), 0);
    assert_int_equal(take_n(lab, 0, 1), 0);
    assert_int_equal(take_n(lab, COUNT - 1, 1), 1);
    assert_int_equal(take_n(lab, 1, 1), 0);
    assert_false(nigh_malloc_pages_grow(&lab->pages, 1, COUNT));
    nigh_malloc_pages_give(&lab->pages, 1, NIGH_MALLOC_CLEAN);
    assert_int_equal(take_n(lab, 1, 1), 1);
}

/* The gap that is nearly as long as what is wanted, not the great rest. */
static void fits_well(void **state)
{
    struct lab *lab = *state;
    uint32_t first = take_n(lab, 100, 1), gap = take_n(lab, 33, 1), last = take_n(lab, 100, 1);

    assert_true(first && gap && last);
    nigh_malloc_pages_give(&lab->pages, gap, NIGH_MALLOC_CLEAN);
    assert_int_equal(take_n(lab, 33, 1), gap); /* among others of its bin */
    nigh_malloc_pages_give(&lab->pages, gap, NIGH_MALLOC_CLEAN);
    assert_int_equal(take_n(lab, 29, 1), gap); /* from a larger bin */
}

/* Three that are taken with room grow to a fifth of all, none of them in another one's way. */
static void room_to_grow(void **state)
{
    struct nigh_malloc_pages pages;
    enum nigh_malloc_kind kind;
    uint32_t begin[3];

    (void)state;
    assert_true(nigh_malloc_pages_open(&pages, 1u << 20, 0));
    for (int i = 0; i < 3; i++) {
        begin[i] = nigh_malloc_pages_take(&pages, 1, 1, true, &kind);
        assert_true(begin[i] && begin[i] % 512 == 0);
    }
    for (int i = 0; i < 3; i++)
        assert_true(nigh_malloc_pages_grow(&pages, begin[i], (1u << 20) / 5));
    nigh_malloc_pages_close(&pages);
}

/* Through kept and clean runs by turns. */
static void grows_over_both_kinds(void **state)
{
    struct lab *lab = *state;
    uint32_t at[4];

    for (int i = 0; i < 4; i++)
        at[i] = take_n(lab, 10, 1);
    nigh_malloc_pages_give(&lab->pages, at[1], NIGH_MALLOC_KEPT);
    nigh_malloc_pages_give(&lab->pages, at[2], NIGH_MALLOC_CLEAN);
    assert_int_equal(at[3], at[0] + 30);
    assert_false(nigh_malloc_pages_may_grow(&lab->pages, at[0], 31));
    assert_true(nigh_malloc_pages_may_grow(&lab->pages, at[0], 30));
    assert_true(nigh_malloc_pages_grow(&lab->pages, at[0], 25));
    assert_int_equal(lab->pages.bins[NIGH_MALLOC_KEPT].pages, 0);
    assert_int_equal(nigh_malloc_pages_next(&lab->pages, at[0]), at[0] + 25);
    assert_true(nigh_malloc_pages_is_clean(&lab->pages, at[0] + 25));
}

/* Every block that has a page of what is another's, from wherever it begins. */
static void foreign_blocks(void **state)
{
    struct lab *lab = *state;
    uint32_t at[4];

    for (int i = 0; i < 4; i++)
        at[i] = take_n(lab, 10, 1);
    nigh_malloc_pages_hide(&lab->pages, at[2]);
    nigh_malloc_pages_foreign(&lab->pages, at[1] + 7, 4);
    for (int i = 0; i < 4; i++)
        assert_true(nigh_malloc_pages_is_foreign(&lab->pages, at[i]) == (i == 1 || i == 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_the_model, open_lab, close_lab),
        cmocka_unit_test_setup_teardown(the_whole_area, open_lab, close_lab),
        cmocka_unit_test_setup_teardown(fits_well, open_lab, close_lab),
        cmocka_unit_test(room_to_grow),
        cmocka_unit_test_setup_teardown(grows_over_both_kinds, open_lab, close_lab),
        cmocka_unit_test_setup_teardown(foreign_blocks, open_lab, close_lab),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

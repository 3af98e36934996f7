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

#define COUNT  3000u
#define ORIGIN 12345u /* no multiple of any alignment */
#define STEPS  40000

struct lab {
    struct nigh_malloc_pages pages;
    void *table;
    /* the model */
    uint32_t begin[COUNT]; /* of a taken page: where its run begins; 0: free */
    uint8_t marks[COUNT];
};

static int open_lab(void **state)
{
    struct lab *lab = calloc(1, sizeof(*lab));

    assert_non_null(lab);
    lab->table = calloc(1, nigh_malloc_pages_table(COUNT));
    assert_non_null(lab->table);
    nigh_malloc_pages_open(&lab->pages, lab->table, COUNT, ORIGIN);
    *state = lab;
    return 0;
}

static int close_lab(void **state)
{
    struct lab *lab = *state;

    free(lab->table);
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

/* Runs follow each other without gaps, free ones are as long as can be, and all is as in the model. */
static void compare(const struct lab *lab)
{
    uint64_t kept = 0;
    uint32_t page, next;

    for (page = 1; page < COUNT; page = next) {
        uint32_t n = nigh_malloc_pages_length(&lab->pages, page);

        next = nigh_malloc_pages_next(&lab->pages, page);
        next = next ? next : COUNT;
        assert_true(next > page);
        assert_int_equal(n, lab->begin[page] ? length_in_model(lab, page) : 0);
        assert_int_equal(next - page, lab->begin[page] ? n : free_from(lab, page));
        for (uint32_t i = page; i < next; i++) {
            assert_true(lab->begin[i] == (lab->begin[page] ? page : 0));
            assert_true(i == page || !nigh_malloc_pages_length(&lab->pages, i));
            assert_int_equal(lab->pages.marks[i], lab->marks[i]);
            kept += !lab->begin[i] && lab->marks[i] & NIGH_MALLOC_KEPT;
        }
    }
    assert_int_equal(lab->pages.kept, kept);
}

static void take(struct lab *lab, uint32_t n, uint32_t align)
{
    uint32_t page = nigh_malloc_pages_take(&lab->pages, n, align), longest = 0;

    if (!page) { /* so there is none that would do wherever it lies */
        for (uint32_t i = 1; i < COUNT; i++)
            longest = free_from(lab, i) > longest ? free_from(lab, i) : longest;
        assert_true(longest < n + align - 1);
        return;
    }
    assert_int_equal((ORIGIN + page) % align, 0);
    assert_true(free_from(lab, page) >= n);
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

static void give(struct lab *lab, uint32_t page, uint8_t mark)
{
    uint32_t n = length_in_model(lab, page);

    nigh_malloc_pages_give(&lab->pages, page, mark);
    memset(lab->begin + page, 0, n * sizeof(*lab->begin));
    memset(lab->marks + page, mark, n);
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

/* ---- cases --------------------------------------------------------------------------------------------- */

static void as_the_model(void **state)
{
    struct lab *lab = *state;

    srand(1);
    for (int step = 0; step < STEPS; step++) {
        uint32_t page = any_taken(lab);
        int what = rand() % 10;

        /* Full and empty by turns. */
        if (!page || what < (step / 2000 % 2 ? 3 : 5))
            take(lab, 1 + (uint32_t)rand() % (rand() % 8 ? 20 : 400), rand() % 4 ? 1 : 1u << rand() % 8);
        else if (what < 8)
            give(lab, page, (uint8_t)(rand() % 4));
        else if (what < 9)
            cut(lab, page);
        else
            grow(lab, page);
        if (step % 16 == 0)
            compare(lab);
    }
    while (any_taken(lab))
        give(lab, any_taken(lab), 0);
    compare(lab);
    assert_int_equal(free_from(lab, 1), COUNT - 1);
}

static void the_whole_area(void **state)
{
    struct lab *lab = *state;

    assert_int_equal(nigh_malloc_pages_take(&lab->pages, COUNT, 1), 0);
    assert_int_equal(nigh_malloc_pages_take(&lab->pages, UINT64_MAX / 4096, 1), 0);
    assert_int_equal(nigh_malloc_pages_take(&lab->pages, 1, (uint64_t)1 << 40), 0);
    assert_int_equal(nigh_malloc_pages_take(&lab->pages, 0, 1), 0);
    assert_int_equal(nigh_malloc_pages_take(&lab->pages, COUNT - 1, 1), 1);
    assert_int_equal(nigh_malloc_pages_take(&lab->pages, 1, 1), 0);
    assert_false(nigh_malloc_pages_grow(&lab->pages, 1, COUNT));
    nigh_malloc_pages_give(&lab->pages, 1, 0);
    assert_int_equal(nigh_malloc_pages_take(&lab->pages, 1, 1), 1);
}

/* The gap that is nearly as long as what is wanted, not the great rest. */
static void fits_well(void **state)
{
    struct lab *lab = *state;
    uint32_t first = nigh_malloc_pages_take(&lab->pages, 100, 1), gap, last;

    gap = nigh_malloc_pages_take(&lab->pages, 33, 1);
    last = nigh_malloc_pages_take(&lab->pages, 100, 1);
    assert_true(first && gap && last);
    nigh_malloc_pages_give(&lab->pages, gap, 0);
    assert_int_equal(nigh_malloc_pages_take(&lab->pages, 33, 1), gap); /* among others of its bin */
    nigh_malloc_pages_give(&lab->pages, gap, 0);
    assert_int_equal(nigh_malloc_pages_take(&lab->pages, 29, 1), gap); /* from a larger bin */
}

/* What is taken next to a gap does not get what was there before, nor are its marks lost. */
static void marks_stay(void **state)
{
    struct lab *lab = *state;
    uint32_t page = nigh_malloc_pages_take(&lab->pages, 10, 1);

    nigh_malloc_pages_give(&lab->pages, page, NIGH_MALLOC_DIRTY | NIGH_MALLOC_KEPT);
    assert_int_equal(lab->pages.kept, 10);
    page = nigh_malloc_pages_take(&lab->pages, 20, 1);
    assert_int_equal(lab->pages.kept, 0);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(!!(lab->pages.marks[page + i] & NIGH_MALLOC_DIRTY), i < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_the_model, open_lab, close_lab),
        cmocka_unit_test_setup_teardown(the_whole_area, open_lab, close_lab),
        cmocka_unit_test_setup_teardown(fits_well, open_lab, close_lab),
        cmocka_unit_test_setup_teardown(marks_stay, open_lab, close_lab),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

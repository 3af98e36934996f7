/* SPDX-License-Identifier: BSD-3-Clause */
/* Every copy kernel in every form that this CPU runs, over all small sizes, some large ones and all
 * alignments that matter, with guard bytes on both sides of the destination. */
#include "shm/copy.h"
#include "shm/cpu.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    GUARD = 192,
    LARGEST = 300 * 1024 + 77,
    ROOM = LARGEST + 2 * GUARD + 128,
    GUARD_BYTE = 0xa5,
};

static const unsigned aligns[] = {0, 1, 7, 8, 15, 16, 31, 32, 33, 63};
static const size_t large_sizes[] = {511,   512,   513,   576,   577,   1023,   1024,   1025, 2047,
                                     2048,  2049,  4095,  4096,  4097,  4160,   8191,   8192, 12345,
                                     16384, 32767, 32768, 65536, 65537, 131072, LARGEST};

struct buffers {
    uint8_t *src;
    uint8_t *dst;
};

static int make_buffers(void **state)
{
    struct buffers *b = malloc(sizeof(*b));

    assert_non_null(b);
    b->src = aligned_alloc(64, (ROOM + 63) / 64 * 64);
    b->dst = aligned_alloc(64, (ROOM + 63) / 64 * 64);
    assert_non_null(b->src);
    assert_non_null(b->dst);
    /* A period of 251 is prime to every power of two, so a block that is moved to the wrong place shows. */
    for (size_t i = 0; i < ROOM; i++)
        b->src[i] = (uint8_t)(i % 251);
    *state = b;
    return 0;
}

static int free_buffers(void **state)
{
    struct buffers *b = *state;

    free(b->src);
    free(b->dst);
    free(b);
    return 0;
}

static bool only(const uint8_t *at, size_t count, uint8_t value)
{
    for (size_t i = 0; i < count; i++) {
        if (at[i] != value)
            return false;
    }
    return true;
}

/* Copies once and says what is wrong with the result; NULL when nothing is. */
static const char *fault_of(nigh_copy_fn copy, struct buffers *b, size_t bytes, unsigned to, unsigned from)
{
    uint8_t *dst = b->dst + GUARD + to;
    const uint8_t *src = b->src + GUARD + from;

    memset(dst - GUARD, GUARD_BYTE, bytes + 2 * GUARD);
    copy(dst, src, bytes);
    if (memcmp(dst, src, bytes) != 0)
        return "the copy differs";
    if (!only(dst - GUARD, GUARD, GUARD_BYTE))
        return "bytes before the copy were written";
    return only(dst + bytes, GUARD, GUARD_BYTE) ? NULL : "bytes behind the copy were written";
}

static void check_one(nigh_copy_fn copy, struct buffers *b, size_t bytes, unsigned to, unsigned from,
                      const char *what)
{
    const char *fault = fault_of(copy, b, bytes, to, from);

    if (fault)
        fail_msg("%s, %zu bytes, dst +%u, src +%u: %s", what, bytes, to, from, fault);
}

static void check_all(nigh_copy_fn copy, struct buffers *b, size_t smallest, size_t largest, const char *what)
{
    const size_t count = sizeof(aligns) / sizeof(aligns[0]);

    for (size_t to = 0; to < count; to++) {
        for (size_t from = 0; from < count; from++) {
            for (size_t bytes = smallest; bytes <= largest; bytes++)
                check_one(copy, b, bytes, aligns[to], aligns[from], what);
        }
    }
}

static void check_large(nigh_copy_fn copy, struct buffers *b, const char *what)
{
    for (size_t i = 0; i < sizeof(large_sizes) / sizeof(large_sizes[0]); i++) {
        check_one(copy, b, large_sizes[i], 0, 0, what);
        check_one(copy, b, large_sizes[i], 0, 33, what);
        check_one(copy, b, large_sizes[i], 1, 0, what);
        check_one(copy, b, large_sizes[i], 63, 7, what);
    }
}

static void every_kernel_copies_every_size_and_alignment(void **state)
{
    unsigned tried = 0;

    for (int isa = 0; isa < NIGH_COPY_ISAS; isa++) {
        for (int kernel = 0; kernel < NIGH_COPY_KERNELS; kernel++) {
            nigh_copy_fn copy = nigh_copy_select_isa((enum nigh_copy_kernel)kernel, (enum nigh_copy_isa)isa);
            char what[64];

            if (!copy)
                continue;
            snprintf(what, sizeof(what), "%s/%s", nigh_copy_name((enum nigh_copy_kernel)kernel),
                     nigh_copy_isa_name((enum nigh_copy_isa)isa));
            check_all(copy, *state, 0, 300, what);
            check_large(copy, *state, what);
            tried++;
        }
    }
    print_message("%u kernels, widest form %s\n", tried, nigh_copy_isa_name(nigh_copy_isa()));
    assert_true(tried >= 2); /* plain and prefetchw have a form for every CPU */
}

static void small_copy(void *dst, const void *src, size_t bytes)
{
    nigh_copy_small(dst, src, bytes);
}

static void small_copies_every_size_and_alignment(void **state)
{
    check_all(small_copy, *state, 0, 300, "small");
    check_large(small_copy, *state, "small");
}

static void one_short(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes - 1);
}

static void one_long(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes + 1);
}

static void one_early(void *dst, const void *src, size_t bytes)
{
    memcpy((uint8_t *)dst - 1, (const uint8_t *)src - 1, bytes + 1);
}

static void one_line_off(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, (const uint8_t *)src + 64, bytes);
}

static void the_checks_notice_a_wrong_copy(void **state)
{
    assert_null(fault_of(nigh_copy_select(NIGH_COPY_PLAIN), *state, 300, 1, 2));
    assert_string_equal(fault_of(one_short, *state, 300, 1, 2), "the copy differs");
    assert_string_equal(fault_of(one_line_off, *state, 300, 1, 2), "the copy differs");
    assert_string_equal(fault_of(one_long, *state, 300, 1, 2), "bytes behind the copy were written");
    assert_string_equal(fault_of(one_early, *state, 300, 1, 2), "bytes before the copy were written");
}

static void select_answers_null_for_what_cannot_be(void **state)
{
    (void)state;
    assert_null(nigh_copy_select(NIGH_COPY_KERNELS));
    assert_null(nigh_copy_select((enum nigh_copy_kernel) - 1));
    assert_null(nigh_copy_select_isa(NIGH_COPY_PLAIN, NIGH_COPY_ISAS));
    assert_null(nigh_copy_select_isa(NIGH_COPY_NT, NIGH_COPY_PORTABLE));
    assert_null(nigh_copy_select_isa(NIGH_COPY_FLUSH, NIGH_COPY_PORTABLE));
    for (int isa = (int)nigh_copy_isa() + 1; isa < NIGH_COPY_ISAS; isa++)
        assert_null(nigh_copy_select_isa(NIGH_COPY_PLAIN, (enum nigh_copy_isa)isa));
}

static void select_takes_the_widest_form(void **state)
{
    (void)state;
    for (int k = 0; k < NIGH_COPY_KERNELS; k++) {
        enum nigh_copy_kernel kernel = (enum nigh_copy_kernel)k;
        nigh_copy_fn widest = nigh_copy_select_isa(kernel, nigh_copy_isa());

        if (widest)
            assert_ptr_equal(nigh_copy_select(kernel), widest);
    }
    assert_non_null(nigh_copy_select(NIGH_COPY_PLAIN));
    assert_non_null(nigh_copy_select(NIGH_COPY_PREFETCHW));
}

static void long_copies_go_as_was_measured_for_the_cpu(void **state)
{
    (void)state;
    assert_int_equal(nigh_copy_for_long(), nigh_cpu() == NIGH_CPU_ZEN3          ? NIGH_COPY_QUARTERS
                                           : nigh_cpu() == NIGH_CPU_GOLDEN_COVE ? NIGH_COPY_MOVSB
                                                                                : NIGH_COPY_PLAIN);
}

static void names_and_kernels_match_both_ways(void **state)
{
    (void)state;
    for (int k = 0; k < NIGH_COPY_KERNELS; k++) {
        enum nigh_copy_kernel kernel = NIGH_COPY_KERNELS;

        assert_int_equal(nigh_copy_parse(nigh_copy_name((enum nigh_copy_kernel)k), &kernel), 0);
        assert_int_equal(kernel, k);
    }
    assert_string_equal(nigh_copy_name(NIGH_COPY_NT), "nt");
    assert_string_equal(nigh_copy_name(NIGH_COPY_KERNELS), "?");
    assert_string_equal(nigh_copy_isa_name(NIGH_COPY_ISAS), "?");
}

static void parse_refuses_an_unknown_name_and_leaves_the_output(void **state)
{
    enum nigh_copy_kernel kernel = NIGH_COPY_FLUSH;

    (void)state;
    assert_int_equal(nigh_copy_parse("fast", &kernel), -EINVAL);
    assert_int_equal(nigh_copy_parse("", &kernel), -EINVAL);
    assert_int_equal(nigh_copy_parse("plai", &kernel), -EINVAL);
    assert_int_equal(kernel, NIGH_COPY_FLUSH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kernel_copies_every_size_and_alignment, make_buffers,
                                        free_buffers),
        cmocka_unit_test_setup_teardown(small_copies_every_size_and_alignment, make_buffers, free_buffers),
        cmocka_unit_test_setup_teardown(the_checks_notice_a_wrong_copy, make_buffers, free_buffers),
        cmocka_unit_test(select_answers_null_for_what_cannot_be),
        cmocka_unit_test(select_takes_the_widest_form),
        cmocka_unit_test(long_copies_go_as_was_measured_for_the_cpu),
        cmocka_unit_test(names_and_kernels_match_both_ways),
        cmocka_unit_test(parse_refuses_an_unknown_name_and_leaves_the_output),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

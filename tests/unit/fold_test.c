/* SPDX-License-Identifier: BSD-3-Clause */
/* Every reduction in every form that this CPU runs, bit by bit against arithmetic one element at a time: on
 * random, denormal, infinite and NaN input, all small counts, many sources, misaligned, in place and in pieces. */
#include "coll/fold.h"
#include "tests/support/reference.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    SOURCES = 256,
    LONGEST = 4099,
    GUARD = 64,
    ROOM = (LONGEST * 16 + 3 * GUARD) / 64 * 64,
    RANKS = 7,
    SMALL = 130,
};

static uint64_t dice;

/* ---- one reduction in all its circumstances ---- */

struct buffers {
    uint8_t *memory[SOURCES], *into, *expected;
    uint8_t factor_memory[SOURCES][32];
    const void *sources[SOURCES], *factors[SOURCES];
};

static int make_buffers(void **state)
{
    struct buffers *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    for (unsigned s = 0; s < SOURCES; s++) {
        b->memory[s] = aligned_alloc(64, ROOM);
        assert_non_null(b->memory[s]);
    }
    b->into = aligned_alloc(64, ROOM);
    b->expected = aligned_alloc(64, ROOM);
    assert_non_null(b->into);
    assert_non_null(b->expected);
    *state = b;
    return 0;
}

static int free_buffers(void **state)
{
    struct buffers *b = *state;

    for (unsigned s = 0; s < SOURCES; s++)
        free(b->memory[s]);
    free(b->into);
    free(b->expected);
    free(b);
    return 0;
}

struct trial {
    struct buffers *b;
    int type, op, isa;
    uint32_t source_count;
    size_t count;
    unsigned shift; /* of `into`, in bytes */
    int place;      /* the source that `into` is; -1: none */
    size_t piece;   /* elements of a call; 0: all in one */
};

static void fill(struct buffers *b, int type, uint32_t source_count, size_t count, bool misaligned)
{
    for (uint32_t s = 0; s < source_count; s++) {
        unsigned shift = misaligned ? (s * 5 + 1) % 16 : 0;
        uint8_t *at = b->memory[s] + shift;

        /* Values that reach the ends of the type soon leave nothing but infinities and NaNs of many sources. */
        for (size_t i = 0; i < count; i++)
            reference_element(type, at + i * reference_width(type),
                              i % 4 == 3 || (source_count > 3 && i % 8 != 0), &dice);
        reference_element(type, b->factor_memory[s] + shift, s % 2, &dice);
        b->sources[s] = at;
        b->factors[s] = b->factor_memory[s] + shift;
    }
}

static void run_in_pieces(const struct trial *t, nigh_fold_fn fold, const void *const *sources, uint8_t *into)
{
    struct nigh_fold_more more = {.ranks = RANKS, .factors = t->b->factors};
    const void *moved[SOURCES];
    size_t width = reference_width(t->type);

    for (size_t at = 0; at < t->count; at += t->piece) {
        for (uint32_t s = 0; s < t->source_count; s++)
            moved[s] = (const uint8_t *)sources[s] + at * width;
        fold(into + at * width, moved, t->source_count, t->count - at < t->piece ? t->count - at : t->piece,
             t->op == NIGH_AVG || t->op == NIGH_PREMUL ? &more : NULL);
    }
}

static void check(const struct trial *t, nigh_fold_fn fold)
{
    size_t width = reference_width(t->type), bytes = t->count * width;
    uint8_t *into = t->b->into + GUARD + t->shift;
    struct trial whole = *t;
    const void *sources[SOURCES];

    memcpy(sources, t->b->sources, sizeof(*sources) * t->source_count);
    memset(into - GUARD, 0xa5, bytes + 2 * GUARD - t->shift);
    if (t->place >= 0) {
        memcpy(into, sources[t->place], bytes);
        sources[t->place] = into;
    }
    if (!t->piece)
        whole.piece = t->count + 1;
    run_in_pieces(&whole, fold, sources, into);
    for (size_t i = 0; i < bytes; i++)
        if (into[i] != t->b->expected[i])
            fail_msg("%s of %s, %s: element %zu of %zu, byte %zu is %02x, not %02x (%u sources, in place of "
                     "%d, shift %u, pieces of %zu)",
                     nigh_reduction_name((uint32_t)t->op), nigh_type_name((uint32_t)t->type),
                     nigh_copy_isa_name((enum nigh_copy_isa)t->isa), i / width, t->count, i % width, into[i],
                     t->b->expected[i], t->source_count, t->place, t->shift, t->piece);
    for (size_t i = 0; i < GUARD - t->shift; i++)
        if (into[bytes + i] != 0xa5 || into[-1 - (ptrdiff_t)i] != 0xa5)
            fail_msg("%s of %s wrote beside its %zu elements", nigh_reduction_name((uint32_t)t->op),
                     nigh_type_name((uint32_t)t->type), t->count);
}

/* All small counts, in place of each source in turn; then what does not fit a block, in one call and in several. */
static void check_counts(struct trial *t, nigh_fold_fn fold, size_t largest, bool misaligned)
{
    size_t stride = t->source_count > 8 ? 43 : 1;

    t->piece = 0;
    for (t->count = 0; t->count <= SMALL; t->count += stride) {
        t->place = (int)((t->count + 1) % (t->source_count + 1)) - 1;
        t->shift = misaligned ? (unsigned)t->count % 16 : 0;
        check(t, fold);
    }
    t->count = largest;
    for (t->place = -1; t->place < (int)t->source_count; t->place += 1 + (int)t->source_count / 3) {
        check(t, fold);
        t->piece = 1 + reference_roll(&dice) % (t->count < 2000 ? t->count : 2000);
        check(t, fold);
        t->piece = 0;
    }
}

static unsigned check_reduction(struct buffers *b, int type, int op)
{
    static const uint32_t source_counts[] = {1, 2, 3, 8, 17, SOURCES};
    unsigned tried = 0;

    for (size_t c = 0; c < 2 * sizeof(source_counts) / sizeof(*source_counts); c++) {
        struct trial t = {.b = b, .type = type, .op = op, .source_count = source_counts[c / 2]};
        size_t largest = t.source_count == 2 || t.source_count == 3 ? LONGEST
                         : t.source_count == 8                      ? 1101
                                                                    : 2 * SMALL;

        fill(b, type, t.source_count, largest, c % 2);
        reference_fold(&(struct reference){.type = type,
                                           .op = op,
                                           .source_count = t.source_count,
                                           .ranks = RANKS,
                                           .sources = b->sources,
                                           .factors = b->factors},
                       b->expected, largest);
        for (t.isa = 0; t.isa < NIGH_COPY_ISAS; t.isa++) {
            nigh_fold_fn fold = nigh_fold_select_isa((enum nigh_type)type, (enum nigh_atomic_op)op,
                                                     (enum nigh_copy_isa)t.isa);

            if (!fold)
                continue;
            check_counts(&t, fold, largest, c % 2);
            tried += c == 0;
        }
    }
    return tried;
}

static void every_reduction_gives_the_same_bits_in_every_form(void **state)
{
    unsigned kernels = 0, tried = 0, forms = 0;

    dice = 88172645463325252;
    for (int isa = 0; isa < NIGH_COPY_ISAS; isa++)
        forms += nigh_fold_select_isa(NIGH_F32, NIGH_SUM, (enum nigh_copy_isa)isa) != NULL;
    for (int type = NIGH_I8; type < NIGH_OPAQUE; type++)
        for (int op = NIGH_SUM; op < NIGH_FUNCTION; op++)
            if (reference_is_defined(type, op)) {
                tried += check_reduction(*state, type, op);
                kernels++;
            }
    print_message("%u reductions in %u forms\n", kernels, forms);
    assert_int_equal(kernels, 8 * 12 + 4 * 9 + 2 * 4 + 10 + 5 * 2);
    assert_int_equal(tried, kernels * forms);
}

/* ---- half-width floats: every value ---- */

static void check_halves(int type, nigh_fold_fn premul, nigh_fold_fn sum, const char *isa)
{
    static const double factors[] = {1, -1, 0.3, 1.0 / 3, 1e-3, 1e-7, 3e-38, 7, 1001, 60000};
    static uint16_t all[65536], result[65536];
    uint16_t zero = 0x8000, factor_bits;
    const void *sources[2] = {all, all}, *factor = &factor_bits;
    struct nigh_fold_more more = {.factors = &factor};

    for (unsigned i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (size_t k = 0; k < sizeof(factors) / sizeof(*factors); k++) {
        factor_bits = reference_half_bits(type, factors[k]);
        premul(result, sources, 1, 65536, &more);
        for (unsigned i = 0; i < 65536; i++) {
            float product = (float)reference_half_value(type, (uint16_t)i) *
                            (float)reference_half_value(type, factor_bits);

            if (result[i] != reference_half_bits(type, (double)product))
                fail_msg("%s, %s: %04x times %g is %04x, not %04x", nigh_type_name((uint32_t)type), isa, i,
                         factors[k], result[i], reference_half_bits(type, (double)product));
        }
    }
    sources[0] = &zero;
    for (unsigned i = 0; i < 65536; i++) {
        sources[1] = &all[i];
        sum(result, sources, 2, 1, NULL);
        if (result[0] !=
            (isnan(reference_half_value(type, (uint16_t)i)) ? reference_half_bits(type, (double)NAN) : i))
            fail_msg("%s, %s: %04x and -0 are %04x", nigh_type_name((uint32_t)type), isa, i, result[0]);
    }
}

static void every_half_converts(void **state)
{
    (void)state;
    for (int isa = 0; isa < NIGH_COPY_ISAS; isa++)
        for (int type = NIGH_F16; type <= NIGH_BF16; type++) {
            nigh_fold_fn premul =
                nigh_fold_select_isa((enum nigh_type)type, NIGH_PREMUL, (enum nigh_copy_isa)isa);

            if (premul)
                check_halves(type, premul,
                             nigh_fold_select_isa((enum nigh_type)type, NIGH_SUM, (enum nigh_copy_isa)isa),
                             nigh_copy_isa_name((enum nigh_copy_isa)isa));
        }
}

/* 2048 and 1 is 2048 in f16, so a sum that were rounded after each source would stay there. */
static void half_sums_are_rounded_once(void **state)
{
    uint16_t big = 0x6800, one = 0x3c00, result;
    const void *sources[5] = {&big, &one, &one, &one, &one};

    (void)state;
    nigh_fold_select(NIGH_F16, NIGH_SUM)(&result, sources, 5, 1, NULL);
    assert_int_equal(result, 0x6802); /* 2052 */
    big = 0x4380;                     /* 256 */
    one = 0x3f80;
    nigh_fold_select(NIGH_BF16, NIGH_SUM)(&result, sources, 5, 1, NULL);
    assert_int_equal(result, 0x4382); /* 260 */
}

/* ---- what is not defined, and names ---- */

static void undefined_reductions_have_no_kernel(void **state)
{
    (void)state;
    for (int type = -2; type <= NIGH_OPAQUE + 2; type++)
        for (int op = -2; op <= NIGH_FUNCTION + 2; op++) {
            bool there = nigh_fold_select((enum nigh_type)type, (enum nigh_atomic_op)op) != NULL;
            bool portable = nigh_fold_select_isa((enum nigh_type)type, (enum nigh_atomic_op)op,
                                                 NIGH_COPY_PORTABLE) != NULL;

            if (there != reference_is_defined(type, op) || portable != there)
                fail_msg("%s of %s (%d of %d) is defined: %d", nigh_reduction_name((uint32_t)op),
                         nigh_type_name((uint32_t)type), op, type, there);
        }
    assert_null(nigh_fold_select_isa(NIGH_F32, NIGH_SUM, NIGH_COPY_ISAS));
    assert_null(nigh_fold_select_isa(NIGH_F32, NIGH_SUM, (enum nigh_copy_isa) - 1));
}

static void no_elements_need_no_memory(void **state)
{
    const void *none[SOURCES] = {NULL};
    struct nigh_fold_more more = {.ranks = 1, .factors = none};

    (void)state;
    for (int type = NIGH_I8; type < NIGH_OPAQUE; type++)
        for (int op = NIGH_SUM; op < NIGH_FUNCTION; op++)
            for (uint32_t sources = 1; reference_is_defined(type, op) && sources <= 3; sources++)
                nigh_fold_select((enum nigh_type)type, (enum nigh_atomic_op)op)(NULL, none, sources, 0,
                                                                                &more);
}

static void select_takes_the_widest_form(void **state)
{
    nigh_fold_fn widest = NULL;

    (void)state;
    for (int isa = 0; isa < NIGH_COPY_ISAS; isa++) {
        nigh_fold_fn fold = nigh_fold_select_isa(NIGH_BF16, NIGH_SUM, (enum nigh_copy_isa)isa);

        widest = fold ? fold : widest;
        assert_true(!fold || isa <= (int)nigh_copy_isa());
    }
    assert_non_null(widest);
    assert_ptr_equal(nigh_fold_select(NIGH_BF16, NIGH_SUM), widest);
}

static void widths_and_names(void **state)
{
    (void)state;
    for (int type = 0; type < NIGH_OPAQUE; type++)
        assert_int_equal(nigh_type_bytes((uint32_t)type), reference_width(type));
    assert_int_equal(nigh_type_bytes(NIGH_OPAQUE), 0);
    assert_int_equal(nigh_type_bytes(NIGH_OPAQUE + 1), 0);
    assert_int_equal(nigh_type_bytes(UINT32_MAX), 0);
    for (uint32_t type = NIGH_I8; type <= NIGH_OPAQUE; type++)
        assert_string_not_equal(nigh_type_name(type), "?");
    for (uint32_t op = NIGH_SUM; op <= NIGH_FUNCTION; op++)
        assert_string_not_equal(nigh_reduction_name(op), "?");
    assert_string_equal(nigh_type_name(NIGH_BF16), "bf16");
    assert_string_equal(nigh_type_name(NIGH_F64_I32), "f64_i32");
    assert_string_equal(nigh_type_name(NIGH_OPAQUE), "opaque");
    assert_string_equal(nigh_type_name(0), "?");
    assert_string_equal(nigh_type_name(NIGH_OPAQUE + 1), "?");
    assert_string_equal(nigh_reduction_name(NIGH_PREMUL), "premul");
    assert_string_equal(nigh_reduction_name(NIGH_FUNCTION), "function");
    assert_string_equal(nigh_reduction_name(0), "?");
    assert_string_equal(nigh_reduction_name(UINT32_MAX), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_reduction_gives_the_same_bits_in_every_form, make_buffers,
                                        free_buffers),
        cmocka_unit_test(every_half_converts),
        cmocka_unit_test(half_sums_are_rounded_once),
        cmocka_unit_test(undefined_reductions_have_no_kernel),
        cmocka_unit_test(no_elements_need_no_memory),
        cmocka_unit_test(select_takes_the_widest_form),
        cmocka_unit_test(widths_and_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

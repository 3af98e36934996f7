/* SPDX-License-Identifier: BSD-3-Clause */
/* Every reduction in every form that this CPU runs, bit by bit against arithmetic done here one element at a time: on
 * random, denormal, infinite and NaN input, all small counts, many sources, misaligned, in place and in pieces. */
#include "coll/fold.h"

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

/* ---- what a type is ---- */

static bool is_pair(int type)
{
    return type >= NIGH_I16_I32 && type <= NIGH_F64_I32;
}

static bool is_complex(int type)
{
    return type == NIGH_CF32 || type == NIGH_CF64;
}

static bool is_integer(int type)
{
    return type <= NIGH_U64;
}

static bool is_signed(int type)
{
    return is_integer(type) && type % 2 == 1;
}

/* In which type are the values of a pair? */
static int value_type(int type)
{
    static const int of[] = {NIGH_I16, NIGH_I32, NIGH_I64, NIGH_F32, NIGH_F64};

    return is_pair(type) ? of[type - NIGH_I16_I32] : type;
}

static size_t width_of(int type)
{
    static const uint8_t widths[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 1, 2, 2, 8, 16, 8, 8, 16, 8, 16};

    return widths[type];
}

static bool is_defined(int type, int op)
{
    if (type < NIGH_I8 || type >= NIGH_OPAQUE)
        return false;
    switch (op) {
    case NIGH_SUM:
    case NIGH_PROD:
        return !is_pair(type);
    case NIGH_MIN:
    case NIGH_MAX:
    case NIGH_LAND:
    case NIGH_LOR:
    case NIGH_LXOR:
        return !is_pair(type) && !is_complex(type);
    case NIGH_BAND:
    case NIGH_BOR:
    case NIGH_BXOR:
        return is_integer(type) || type == NIGH_BOOL;
    case NIGH_AVG:
    case NIGH_PREMUL:
        return !is_pair(type) && type != NIGH_BOOL;
    case NIGH_MINLOC:
    case NIGH_MAXLOC:
        return is_pair(type);
    default:
        return false;
    }
}

/* ---- one element by arithmetic of our own ---- */

struct element {
    uint64_t word;  /* integers, sign extended; bool */
    double part[2]; /* what floats and complex numbers are accumulated as */
    int32_t index;  /* of a pair */
};

/* How many bits of fraction, the smallest exponent of a normal number, and where the exponent begins. */
struct format {
    int fraction, least, largest;
};

static const struct format f16_format = {10, -14, 15}, bf16_format = {7, -126, 127};

static double half_value(uint16_t bits, const struct format *f)
{
    int exponent = (bits & 0x7fff) >> f->fraction, fraction = bits & ((1 << f->fraction) - 1);
    double value;

    if (exponent == f->largest - f->least + 2)
        value = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, f->least - f->fraction);
    else
        value = ldexp(fraction + (1 << f->fraction), exponent - 1 + f->least - f->fraction);
    return bits & 0x8000 ? -value : value;
}

static uint16_t half_bits(double value, const struct format *f)
{
    int exponent, infinite = (f->largest - f->least + 2) << f->fraction;
    unsigned sign = signbit(value) ? 0x8000 : 0;
    double units;

    if (isnan(value))
        return (uint16_t)(infinite | 1 << (f->fraction - 1));
    value = fabs(value);
    if (isinf(value) || value == 0)
        return (uint16_t)(sign | (value == 0 ? 0 : (unsigned)infinite));
    exponent = ilogb(value);
    if (exponent < f->least)
        exponent = f->least;
    units = nearbyint(ldexp(value, f->fraction - exponent));
    /* A fraction that was rounded up to the next power of two carries into the exponent. */
    units += (double)(exponent - f->least) * (1 << f->fraction);
    return (uint16_t)(sign | (units < infinite ? (unsigned)units : (unsigned)infinite));
}

static double quiet_part(int type, double value)
{
    if (isnan(value))
        return (double)NAN;
    return value_type(type) == NIGH_F64 || type == NIGH_CF64 ? value : (double)(float)value;
}

static void load_real(int type, double *part, const uint8_t *at)
{
    uint16_t half;
    float single;

    if (type == NIGH_F64) {
        memcpy(part, at, 8);
    } else if (type == NIGH_F32) {
        memcpy(&single, at, 4);
        *part = (double)single;
    } else {
        memcpy(&half, at, 2);
        *part = half_value(half, type == NIGH_F16 ? &f16_format : &bf16_format);
    }
}

static void store_real(int type, uint8_t *at, double part)
{
    uint16_t half;
    float single = isnan(part) ? NAN : (float)part;

    if (isnan(part))
        part = (double)NAN;
    if (type == NIGH_F64) {
        memcpy(at, &part, 8);
    } else if (type == NIGH_F32) {
        memcpy(at, &single, 4);
    } else {
        half = half_bits(part, type == NIGH_F16 ? &f16_format : &bf16_format);
        memcpy(at, &half, 2);
    }
}

static int part_type(int type)
{
    return type == NIGH_CF32 ? NIGH_F32 : NIGH_F64;
}

static size_t index_at(int type)
{
    return width_of(type) / 2;
}

static struct element load(int type, const uint8_t *at)
{
    struct element e = {0};
    int plain = value_type(type);
    unsigned bits = 8 * (unsigned)width_of(plain);

    if (is_pair(type))
        memcpy(&e.index, at + index_at(type), 4);
    if (is_complex(type)) {
        load_real(part_type(type), &e.part[0], at);
        load_real(part_type(type), &e.part[1], at + width_of(type) / 2);
    } else if (is_integer(plain) || type == NIGH_BOOL) {
        memcpy(&e.word, at, width_of(plain));
        if (is_signed(plain) && bits < 64 && e.word >> (bits - 1))
            e.word |= ~UINT64_C(0) << bits;
        if (type == NIGH_BOOL)
            e.word = e.word != 0;
    } else {
        load_real(plain, &e.part[0], at);
    }
    return e;
}

static void store(int type, uint8_t *at, const struct element *e)
{
    int plain = value_type(type);

    memset(at, 0, width_of(type));
    if (is_pair(type))
        memcpy(at + index_at(type), &e->index, 4);
    if (is_complex(type)) {
        store_real(part_type(type), at, e->part[0]);
        store_real(part_type(type), at + width_of(type) / 2, e->part[1]);
    } else if (is_integer(plain) || type == NIGH_BOOL) {
        memcpy(at, &e->word, width_of(plain));
    } else {
        store_real(plain, at, e->part[0]);
    }
}

static bool less(int type, uint64_t a, uint64_t b)
{
    return is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t combine_words(int type, int op, uint64_t a, uint64_t b)
{
    bool is_bool = type == NIGH_BOOL;

    switch (op) {
    case NIGH_SUM:
        return is_bool ? a | b : a + b;
    case NIGH_PROD:
        return a * b;
    case NIGH_MIN:
        return less(type, b, a) ? b : a;
    case NIGH_MAX:
        return less(type, a, b) ? b : a;
    case NIGH_LAND:
        return a != 0 && b != 0;
    case NIGH_LOR:
        return a != 0 || b != 0;
    case NIGH_LXOR:
        return (a != 0) != (b != 0);
    case NIGH_BAND:
        return a & b;
    case NIGH_BOR:
        return a | b;
    default:
        assert_int_equal(op, NIGH_BXOR);
        return a ^ b;
    }
}

static double combine_reals(int op, double a, double b)
{
    switch (op) {
    case NIGH_SUM:
        return a + b;
    case NIGH_PROD:
        return a * b;
    case NIGH_MIN:
        return isnan(a) || isnan(b) ? (double)NAN : b < a ? b : a;
    case NIGH_MAX:
        return isnan(a) || isnan(b) ? (double)NAN : b > a ? b : a;
    case NIGH_LAND:
        return a != 0 && b != 0;
    case NIGH_LOR:
        return a != 0 || b != 0;
    default:
        assert_int_equal(op, NIGH_LXOR);
        return (a != 0) != (b != 0);
    }
}

/* Each product is rounded before it is added: volatile keeps compilers from fusing the two. */
static void combine_complex(int type, int op, double *a, const double *b)
{
    volatile double products[4] = {a[0] * b[0], a[1] * b[1], a[0] * b[1], a[1] * b[0]};

    for (int i = 0; i < 4; i++)
        products[i] = quiet_part(type, products[i]);
    for (int i = 0; op == NIGH_SUM && i < 2; i++)
        a[i] = quiet_part(type, a[i] + b[i]);
    if (op == NIGH_PROD) {
        a[0] = quiet_part(type, products[0] - products[1]);
        a[1] = quiet_part(type, products[2] + products[3]);
    }
}

static void combine_pairs(int type, int op, struct element *a, const struct element *b)
{
    int plain = value_type(type), order;

    if (is_integer(plain))
        order = less(plain, b->word, a->word) ? -1 : less(plain, a->word, b->word);
    else if (isnan(a->part[0]) || isnan(b->part[0]))
        order = isnan(a->part[0]) ? 2 : -2;
    else
        order = b->part[0] < a->part[0] ? -1 : b->part[0] > a->part[0];
    if (op == NIGH_MAXLOC && (order == 1 || order == -1))
        order = -order;
    if (order < 0 || (order == 0 && b->index < a->index))
        *a = *b;
}

static void combine(int type, int op, struct element *a, const struct element *b)
{
    if (op == NIGH_AVG || op == NIGH_PREMUL)
        op = NIGH_SUM;
    if (is_pair(type))
        combine_pairs(type, op, a, b);
    else if (is_complex(type))
        combine_complex(type, op, a->part, b->part);
    else if (is_integer(type) || type == NIGH_BOOL)
        a->word = combine_words(type, op, a->word, b->word);
    else
        a->part[0] = quiet_part(type, combine_reals(op, a->part[0], b->part[0]));
}

/* Back to the width of the type: what is divided has wrapped. */
static void wrap(int type, struct element *e)
{
    uint8_t bytes[16];

    store(type, bytes, e);
    *e = load(type, bytes);
}

static void divide(int type, struct element *e)
{
    if (is_integer(type)) {
        wrap(type, e);
        e->word = is_signed(type) ? (uint64_t)((int64_t)e->word / RANKS) : e->word / RANKS;
        return;
    }
    for (int i = 0; i < 2; i++)
        e->part[i] = quiet_part(type, e->part[i] / RANKS);
}

static void multiply(int type, struct element *e, const uint8_t *factor)
{
    struct element f = load(type, factor);

    combine(type, NIGH_PROD, e, &f);
}

static void reference(int type, int op, uint8_t *into, const void *const *sources, uint32_t source_count,
                      size_t count, const void *const *factors)
{
    size_t width = width_of(type);

    if (source_count == 1 && type != NIGH_BOOL && op != NIGH_AVG && op != NIGH_PREMUL) {
        memcpy(into, sources[0], count * width);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct element sum = {0};

        for (uint32_t s = 0; s < source_count; s++) {
            struct element e = load(type, (const uint8_t *)sources[s] + i * width);

            if (op == NIGH_PREMUL)
                multiply(type, &e, factors[s]);
            if (s == 0)
                sum = e;
            else
                combine(type, op, &sum, &e);
        }
        if (op == NIGH_AVG)
            divide(type, &sum);
        store(type, into + i * width, &sum);
    }
}

/* ---- values ---- */

static uint64_t dice;

static uint64_t roll(void)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice * UINT64_C(0x2545f4914f6cdd1d);
}

/* Floating: zeros, infinities, NaNs of both kinds and signs, denormals, the largest, and what is near 1. */
static uint64_t special_bits(unsigned fraction, unsigned exponent)
{
    uint64_t sign = (roll() & 1) << (fraction + exponent), all = (UINT64_C(1) << exponent) - 1;
    uint64_t tail = roll() & ((UINT64_C(1) << fraction) - 1);

    switch (roll() % 8) {
    case 0:
        return sign;
    case 1:
        return sign | all << fraction;
    case 2:
        return sign | all << fraction | (tail ? tail : 1);
    case 3:
        return sign | tail;
    case 4:
        return sign | ((all << fraction) - 1 - tail % 3);
    default:
        return sign | ((all >> 1) + roll() % 3 - 1) << fraction | (roll() % 2 ? tail : 0);
    }
}

static void set_value(int type, uint8_t *at, bool tame)
{
    uint64_t word = roll(), kind = word % 4;
    double d = (double)(int64_t)(roll() % 17) - 8;

    word = roll();
    if (type == NIGH_F64 && tame) {
        memcpy(at, &d, 8);
        return;
    }
    if (is_integer(type) || type == NIGH_BOOL)
        word = tame || kind == 0 ? roll() % 5 - 2 : kind == 1 ? word & word >> 17 & word >> 31 : word;
    else if (tame)
        word = type == NIGH_F32   ? ((roll() & 1) << 31 | (126 + roll() % 4) << 23)
               : type == NIGH_F16 ? ((roll() & 1) << 15 | (14 + roll() % 4) << 10)
                                  : ((roll() & 1) << 15 | (126 + roll() % 4) << 7);
    else if (kind < 2)
        word = type == NIGH_F64   ? special_bits(52, 11)
               : type == NIGH_F32 ? special_bits(23, 8)
               : type == NIGH_F16 ? special_bits(10, 5)
                                  : special_bits(7, 8);
    memcpy(at, &word, width_of(type));
}

static void set_element(int type, uint8_t *at, bool tame)
{
    int32_t index = (int32_t)(roll() % 7) - 3;
    uint64_t padding = roll();

    if (is_complex(type)) {
        set_value(part_type(type), at, tame);
        set_value(part_type(type), at + width_of(type) / 2, tame);
        return;
    }
    if (is_pair(type)) {
        memcpy(at, &padding, 8);
        memcpy(at + width_of(type) - 8, &padding, 8);
        memcpy(at + index_at(type), &index, 4);
    }
    set_value(value_type(type), at, tame);
}

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
            set_element(type, at + i * width_of(type), i % 4 == 3 || (source_count > 3 && i % 8 != 0));
        set_element(type, b->factor_memory[s] + shift, s % 2);
        b->sources[s] = at;
        b->factors[s] = b->factor_memory[s] + shift;
    }
}

static void run_in_pieces(const struct trial *t, nigh_fold_fn fold, const void *const *sources, uint8_t *into)
{
    struct nigh_fold_more more = {.ranks = RANKS, .factors = t->b->factors};
    const void *moved[SOURCES];
    size_t width = width_of(t->type);

    for (size_t at = 0; at < t->count; at += t->piece) {
        for (uint32_t s = 0; s < t->source_count; s++)
            moved[s] = (const uint8_t *)sources[s] + at * width;
        fold(into + at * width, moved, t->source_count, t->count - at < t->piece ? t->count - at : t->piece,
             t->op == NIGH_AVG || t->op == NIGH_PREMUL ? &more : NULL);
    }
}

static void check(const struct trial *t, nigh_fold_fn fold)
{
    size_t width = width_of(t->type), bytes = t->count * width;
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
        t->piece = 1 + roll() % (t->count < 2000 ? t->count : 2000);
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
        reference(type, op, b->expected, b->sources, t.source_count, largest, b->factors);
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
            if (is_defined(type, op)) {
                tried += check_reduction(*state, type, op);
                kernels++;
            }
    print_message("%u reductions in %u forms\n", kernels, forms);
    assert_int_equal(kernels, 8 * 12 + 4 * 9 + 2 * 4 + 10 + 5 * 2);
    assert_int_equal(tried, kernels * forms);
}

/* ---- half-width floats: every value ---- */

static void check_halves(int type, const struct format *f, nigh_fold_fn premul, nigh_fold_fn sum,
                         const char *isa)
{
    static const double factors[] = {1, -1, 0.3, 1.0 / 3, 1e-3, 1e-7, 3e-38, 7, 1001, 60000};
    static uint16_t all[65536], result[65536];
    uint16_t zero = 0x8000, factor_bits;
    const void *sources[2] = {all, all}, *factor = &factor_bits;
    struct nigh_fold_more more = {.factors = &factor};

    for (unsigned i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (size_t k = 0; k < sizeof(factors) / sizeof(*factors); k++) {
        factor_bits = half_bits(factors[k], f);
        premul(result, sources, 1, 65536, &more);
        for (unsigned i = 0; i < 65536; i++) {
            float product = (float)half_value((uint16_t)i, f) * (float)half_value(factor_bits, f);

            if (result[i] != half_bits((double)product, f))
                fail_msg("%s, %s: %04x times %g is %04x, not %04x", nigh_type_name((uint32_t)type), isa, i,
                         factors[k], result[i], half_bits((double)product, f));
        }
    }
    sources[0] = &zero;
    for (unsigned i = 0; i < 65536; i++) {
        sources[1] = &all[i];
        sum(result, sources, 2, 1, NULL);
        if (result[0] != (isnan(half_value((uint16_t)i, f)) ? half_bits((double)NAN, f) : i))
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
                check_halves(type, type == NIGH_F16 ? &f16_format : &bf16_format, premul,
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

            if (there != is_defined(type, op) || portable != there)
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
            for (uint32_t sources = 1; is_defined(type, op) && sources <= 3; sources++)
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
        assert_int_equal(nigh_type_bytes((uint32_t)type), width_of(type));
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

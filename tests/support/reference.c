/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/reference.c - the arithmetic of reductions in doubles and 64-bit integers, rounded to the type after each
 * operation. */
#include "tests/support/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

size_t reference_width(int type)
{
    static const uint8_t widths[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 1, 2, 2, 8, 16, 8, 8, 16, 8, 16};

    return widths[type];
}

bool reference_is_defined(int type, int op)
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

static const struct format *format_of(int type)
{
    static const struct format f16 = {10, -14, 15}, bf16 = {7, -126, 127};

    return type == NIGH_F16 ? &f16 : &bf16;
}

double reference_half_value(int type, uint16_t bits)
{
    const struct format *f = format_of(type);
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

uint16_t reference_half_bits(int type, double value)
{
    const struct format *f = format_of(type);
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
        *part = reference_half_value(type, half);
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
        half = reference_half_bits(type, part);
        memcpy(at, &half, 2);
    }
}

static int part_type(int type)
{
    return type == NIGH_CF32 ? NIGH_F32 : NIGH_F64;
}

static size_t index_at(int type)
{
    return reference_width(type) / 2;
}

static struct element load(int type, const uint8_t *at)
{
    struct element e = {0};
    int plain = value_type(type);
    unsigned bits = 8 * (unsigned)reference_width(plain);

    if (is_pair(type))
        memcpy(&e.index, at + index_at(type), 4);
    if (is_complex(type)) {
        load_real(part_type(type), &e.part[0], at);
        load_real(part_type(type), &e.part[1], at + reference_width(type) / 2);
    } else if (is_integer(plain) || type == NIGH_BOOL) {
        memcpy(&e.word, at, reference_width(plain));
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

    memset(at, 0, reference_width(type));
    if (is_pair(type))
        memcpy(at + index_at(type), &e->index, 4);
    if (is_complex(type)) {
        store_real(part_type(type), at, e->part[0]);
        store_real(part_type(type), at + reference_width(type) / 2, e->part[1]);
    } else if (is_integer(plain) || type == NIGH_BOOL) {
        memcpy(at, &e->word, reference_width(plain));
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
    case NIGH_BXOR:
        return a ^ b;
    default:
        abort();
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
    case NIGH_LXOR:
        return (a != 0) != (b != 0);
    default:
        abort();
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

static void divide(int type, struct element *e, uint32_t ranks)
{
    if (is_integer(type)) {
        wrap(type, e);
        e->word = is_signed(type) ? (uint64_t)((int64_t)e->word / ranks) : e->word / ranks;
        return;
    }
    for (int i = 0; i < 2; i++)
        e->part[i] = quiet_part(type, e->part[i] / ranks);
}

static void multiply(int type, struct element *e, const uint8_t *factor)
{
    struct element f = load(type, factor);

    combine(type, NIGH_PROD, e, &f);
}

void reference_fold(const struct reference *r, uint8_t *into, size_t count)
{
    size_t width = reference_width(r->type);

    if (r->source_count == 1 && r->type != NIGH_BOOL && r->op != NIGH_AVG && r->op != NIGH_PREMUL) {
        memcpy(into, r->sources[0], count * width);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct element sum = {0};

        for (uint32_t s = 0; s < r->source_count; s++) {
            struct element e = load(r->type, (const uint8_t *)r->sources[s] + i * width);

            if (r->op == NIGH_PREMUL)
                multiply(r->type, &e, r->factors[s]);
            if (s == 0)
                sum = e;
            else
                combine(r->type, r->op, &sum, &e);
        }
        if (r->op == NIGH_AVG)
            divide(r->type, &sum, r->ranks);
        store(r->type, into + i * width, &sum);
    }
}

/* ---- values ---- */

uint64_t reference_roll(uint64_t *dice)
{
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    return *dice * UINT64_C(0x2545f4914f6cdd1d);
}

/* Floating: zeros, infinities, NaNs of both kinds and signs, denormals, the largest, and what is near 1. */
static uint64_t special_bits(unsigned fraction, unsigned exponent, uint64_t *dice)
{
    uint64_t sign = (reference_roll(dice) & 1) << (fraction + exponent), all = (UINT64_C(1) << exponent) - 1;
    uint64_t tail = reference_roll(dice) & ((UINT64_C(1) << fraction) - 1);

    switch (reference_roll(dice) % 8) {
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
        return sign | ((all >> 1) + reference_roll(dice) % 3 - 1) << fraction |
               (reference_roll(dice) % 2 ? tail : 0);
    }
}

static void set_value(int type, uint8_t *at, bool tame, uint64_t *dice)
{
    uint64_t word = reference_roll(dice), kind = word % 4;
    double d = (double)(int64_t)(reference_roll(dice) % 17) - 8;

    word = reference_roll(dice);
    if (type == NIGH_F64 && tame) {
        memcpy(at, &d, 8);
        return;
    }
    if (is_integer(type) || type == NIGH_BOOL)
        word = tame || kind == 0 ? reference_roll(dice) % 5 - 2
               : kind == 1       ? word & word >> 17 & word >> 31
                                 : word;
    else if (tame)
        word = type == NIGH_F32 ? ((reference_roll(dice) & 1) << 31 | (126 + reference_roll(dice) % 4) << 23)
               : type == NIGH_F16
                   ? ((reference_roll(dice) & 1) << 15 | (14 + reference_roll(dice) % 4) << 10)
                   : ((reference_roll(dice) & 1) << 15 | (126 + reference_roll(dice) % 4) << 7);
    else if (kind < 2)
        word = type == NIGH_F64   ? special_bits(52, 11, dice)
               : type == NIGH_F32 ? special_bits(23, 8, dice)
               : type == NIGH_F16 ? special_bits(10, 5, dice)
                                  : special_bits(7, 8, dice);
    memcpy(at, &word, reference_width(type));
}

void reference_element(int type, uint8_t *at, bool tame, uint64_t *dice)
{
    int32_t index = (int32_t)(reference_roll(dice) % 7) - 3;
    uint64_t padding = reference_roll(dice);

    if (is_complex(type)) {
        set_value(part_type(type), at, tame, dice);
        set_value(part_type(type), at + reference_width(type) / 2, tame, dice);
        return;
    }
    if (is_pair(type)) {
        memcpy(at, &padding, 8);
        memcpy(at + reference_width(type) - 8, &padding, 8);
        memcpy(at + index_at(type), &index, 4);
    }
    set_value(value_type(type), at, tame, dice);
}

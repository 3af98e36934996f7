/* SPDX-License-Identifier: BSD-3-Clause */
/* Every reduction of every type against what it means for one element, written down once more in the widest types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/reduce.h"
#include "nigh/transport.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 300, ROOM = MOST * 8 + 64 };

static const int types[] = {NIGH_I8,  NIGH_U8,  NIGH_I16, NIGH_U16, NIGH_I32,
                            NIGH_U32, NIGH_I64, NIGH_U64, NIGH_F32, NIGH_F64};

static bool is_signed(int type)
{
    return type == NIGH_I8 || type == NIGH_I16 || type == NIGH_I32 || type == NIGH_I64;
}

static bool is_floating(int type)
{
    return type == NIGH_F32 || type == NIGH_F64;
}

static double load_float(int type, const uint8_t *at)
{
    float f;
    double d;

    memcpy(&f, at, sizeof(f));
    if (type == NIGH_F32)
        return (double)f;
    memcpy(&d, at, sizeof(d));
    return d;
}

/* As 64 bits, sign extended. */
static uint64_t load(int type, const uint8_t *at)
{
    uint32_t width = nigh_type_width(type);
    uint64_t value = 0;

    memcpy(&value, at, width);
    if (is_signed(type) && width < 8 && value >> (width * 8 - 1))
        value |= UINT64_MAX << (width * 8);
    return value;
}

static bool less(int type, uint64_t a, uint64_t b)
{
    return is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t expect_integer(int op, int type, uint64_t a, uint64_t b)
{
    switch (op) {
    case NIGH_SUM:
        return a + b;
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

static double expect_floating(int op, int type, double a, double b)
{
    double value = op == NIGH_SUM    ? a + b
                   : op == NIGH_PROD ? a * b
                   : op == NIGH_MIN  ? fmin(a, b)
                                     : fmax(a, b);

    /* Of two floats the double is exact or rounded to even twice, which is harmless for sums and products. */
    return type == NIGH_F32 ? (double)(float)value : value;
}

static void check_one(int op, int type, const uint8_t *a, const uint8_t *b, const uint8_t *got, size_t i)
{
    uint32_t width = nigh_type_width(type);

    if (is_floating(type)) {
        double expected = expect_floating(op, type, load_float(type, a), load_float(type, b));

        if (load_float(type, got) != expected)
            fail_msg("%s of %s, element %zu: %g, expected %g", nigh_reduction_name(op).text,
                     nigh_type_name(type).text, i, load_float(type, got), expected);
    } else {
        uint64_t expected = expect_integer(op, type, load(type, a), load(type, b));

        if (memcmp(&expected, got, width) != 0)
            fail_msg("%s of %s, element %zu: %016llx, expected %016llx in %u bytes",
                     nigh_reduction_name(op).text, nigh_type_name(type).text, i,
                     (unsigned long long)load(type, got), (unsigned long long)expected, width);
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 17 ^ *state << 29;
}

/* All bit patterns for integers, with zeros and extremes among them; numbers of moderate size for floats. */
static void fill(int type, uint8_t *at, size_t count, uint64_t *state)
{
    uint32_t width = nigh_type_width(type);

    for (size_t i = 0; i < count; i++) {
        uint64_t value = next_random(state);
        double d = (double)(int64_t)value / 1e15;
        float f = (float)d;

        if (value % 7 == 0)
            value = 0;
        if (value % 11 == 1)
            value = UINT64_C(1) << (width * 8 - 1);
        if (value % 13 == 2)
            value = UINT64_MAX;
        memcpy(at + i * width, type == NIGH_F32 ? (void *)&f : type == NIGH_F64 ? (void *)&d : &value, width);
    }
}

enum where { APART, OVER_A, OVER_B };

static void check_vector(int op, int type, size_t count, size_t skew, enum where where)
{
    static uint8_t a[ROOM], b[ROOM], was_a[ROOM], was_b[ROOM], apart[ROOM];
    uint64_t state = (uint64_t)op * 1000 + (uint64_t)type * 100 + count;
    uint32_t width = nigh_type_width(type);
    uint8_t *out = where == OVER_A ? a + skew : where == OVER_B ? b + skew : apart + skew;

    fill(type, a + skew, count, &state);
    fill(type, b + skew, count, &state);
    memcpy(was_a, a, sizeof(a));
    memcpy(was_b, b, sizeof(b));
    out[count * width] = 0x5a;
    nigh_combine(op, type, out, a + skew, b + skew, count);
    assert_int_equal(out[count * width], 0x5a);
    for (size_t i = 0; i < count; i++)
        check_one(op, type, was_a + skew + i * width, was_b + skew + i * width, out + i * width, i);
    if (where == APART) {
        assert_memory_equal(a, was_a, sizeof(a));
        assert_memory_equal(b, was_b, sizeof(b));
    }
}

static void test_all(void **state)
{
    static const size_t counts[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 100, MOST};
    unsigned vectors = 0;

    (void)state;
    for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
        for (int op = NIGH_SUM; op <= NIGH_BXOR; op++)
            for (size_t c = 0; nigh_reduces(op, types[t]) && c < sizeof(counts) / sizeof(*counts); c++)
                for (enum where where = APART; where <= OVER_B; where++, vectors++) {
                    check_vector(op, types[t], counts[c], 0, where);
                    check_vector(op, types[t], counts[c], 1, where);
                }
    assert_int_equal(vectors, (8 * 10 + 2 * 4) * 13 * 3);
}

static void test_what_is_defined(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
        for (int op = -1; op <= NIGH_CSWAP + 1; op++)
            assert_int_equal(nigh_reduces(op, types[t]),
                             op >= NIGH_SUM && op <= (is_floating(types[t]) ? NIGH_MAX : NIGH_BXOR));
    assert_false(nigh_reduces(NIGH_SUM, 0));
    assert_false(nigh_reduces(NIGH_SUM, NIGH_F64 + 1));
    assert_false(nigh_reduces(NIGH_SUM, -1));
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(nigh_type_name(NIGH_F32).text, "NIGH_F32");
    assert_string_equal(nigh_type_name(NIGH_I8).text, "NIGH_I8");
    assert_string_equal(nigh_type_name(77).text, "type 77");
    assert_string_equal(nigh_type_name(-2147483647 - 1).text, "type -2147483648");
    assert_string_equal(nigh_reduction_name(NIGH_SUM).text, "NIGH_SUM");
    assert_string_equal(nigh_reduction_name(NIGH_CSWAP).text, "NIGH_CSWAP");
    assert_string_equal(nigh_reduction_name(0).text, "operation 0");
}

static void test_widths(void **state)
{
    static const uint32_t expected[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 0};

    (void)state;
    for (int type = 0; type < 12; type++)
        assert_int_equal(nigh_type_width(type), expected[type]);
    assert_int_equal(nigh_type_width(-1), 0);
}

/* The lower ranks' operand decides where both are alike: a zero keeps its sign, and a NaN on the left stays. */
static void test_left_is_kept(void **state)
{
    double a[2] = {0.0, NAN}, b[2] = {-0.0, 1.0}, out[2];

    (void)state;
    nigh_combine(NIGH_MIN, NIGH_F64, out, a, b, 2);
    assert_false(signbit(out[0]));
    assert_true(isnan(out[1]));
    nigh_combine(NIGH_MAX, NIGH_F64, out, b, a, 2);
    assert_true(signbit(out[0]));
    assert_true(out[1] == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),    cmocka_unit_test(test_what_is_defined), cmocka_unit_test(test_names),
        cmocka_unit_test(test_widths), cmocka_unit_test(test_left_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

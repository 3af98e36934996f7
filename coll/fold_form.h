/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/fold_form.h - the loops of all reductions, simple enough for compilers to make vectors of them. fold_portable.c,
 * fold_avx2.c and fold_avx512.c include it, each for its instruction set, with FOLD_TABLE the name of the table and
 * f16_widen_many() and f16_narrow_many() what the instruction set converts. Nobody else does. */

#ifdef __FAST_MATH__
#error "reductions give the same bits on every rank: build without -ffast-math"
#endif

/* Element i of `out` depends on nothing but elements i, also where `out` is an operand. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define INLINE static inline __attribute__((always_inline))

/* A buffer may lie anywhere, and be bytes that were received. */
#define TYPE(name, type) \
    typedef type name;   \
    typedef name any_##name __attribute__((aligned(1), may_alias));

TYPE(i8, int8_t)
TYPE(u8, uint8_t)
TYPE(i16, int16_t)
TYPE(u16, uint16_t)
TYPE(i32, int32_t)
TYPE(u32, uint32_t)
TYPE(i64, int64_t)
TYPE(u64, uint64_t)
TYPE(f32, float)
TYPE(f64, double)

/* ---- one element ---- */

/* Which of two NaNs an addition gives depends on the order in which a compiler puts its operands. */
INLINE f32 f32_quiet(f32 x)
{
    return x == x ? x : __builtin_nanf("");
}

INLINE f64 f64_quiet(f64 x)
{
    return x == x ? x : __builtin_nan("");
}

INLINE u32 bits_of(f32 x)
{
    u32 bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

INLINE f32 float_of(u32 bits)
{
    f32 x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

INLINE f32 f16_widen(u32 half)
{
    u32 size = half & 0x7fff, sign = (half & 0x8000) << 16;
    u32 normal = (size << 13) + (size >= 0x7c00 ? 2 * 0x38000000u : 0x38000000u);
    f32 denormal = (f32)(i32)size * 0x1p-24f;

    return float_of((size < 0x400 ? bits_of(denormal) : normal) | sign);
}

/* The sum with 0.5, whose last bit is 2^-24, rounds to a multiple of the smallest f16. */
INLINE u16 f16_narrow(u32 bits)
{
    u32 size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    u32 normal = (size - 0x38000000u + 0xfff + (size >> 13 & 1)) >> 13;
    u32 denormal = bits_of(float_of(size) + 0.5f) - bits_of(0.5f);
    u32 finite = size < 0x38800000 ? denormal : normal;

    return (u16)(size > 0x7f800000 ? 0x7e00 : (size >= 0x477ff000 ? 0x7c00 : finite) | sign);
}

INLINE f32 bf16_widen(u32 half)
{
    return float_of(half << 16);
}

INLINE u16 bf16_narrow(u32 bits)
{
    u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

    return (u16)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

/* ---- the loops ---- */

#define LOOP(type, count, expression)      \
    any_##type *to = out;                  \
                                           \
    INDEPENDENT                            \
    for (uint64_t i = 0; i < (count); i++) \
        to[i] = (type)(expression);

#define STEP(name, type, expression)                                                 \
    INLINE type name##_one(type x, type y)                                           \
    {                                                                                \
        return (type)(expression);                                                   \
    }                                                                                \
    static void name(void *out, const void *left, const void *right, uint64_t lanes) \
    {                                                                                \
        const any_##type *a = left, *b = right;                                      \
        LOOP(type, lanes, name##_one(a[i], b[i]))                                    \
    }

#define SCALE(name, type, expression)                                               \
    INLINE type name##_one(type x, type y)                                          \
    {                                                                               \
        return (type)(expression);                                                  \
    }                                                                               \
    static void name(void *out, const void *in, const void *factor, uint64_t count) \
    {                                                                               \
        const any_##type *a = in;                                                   \
        const type y = *(const any_##type *)factor;                                 \
        LOOP(type, count, name##_one(a[i], y))                                      \
    }

/* The division is made in a type that has vectors of it, and whose quotient truncates to the right integer. */
#define DIVIDE(name, type, wide, expression)                                    \
    INLINE type name##_one(type x, wide y)                                      \
    {                                                                           \
        return (type)(expression);                                              \
    }                                                                           \
    static void name(void *out, const void *in, uint32_t ranks, uint64_t lanes) \
    {                                                                           \
        const any_##type *a = in;                                               \
        const wide y = (wide)ranks;                                             \
        LOOP(type, lanes, name##_one(a[i], y))                                  \
    }

/* Sums of many sources: half the loads and stores of accumulators. */
#define TWO(name, sum, type, element, widen)                                                            \
    static void name(void *out, const void *left, const void *right, const void *third, uint64_t lanes) \
    {                                                                                                   \
        const any_##type *a = left;                                                                     \
        const any_##element *b = right, *c = third;                                                     \
        LOOP(type, lanes, sum(sum(a[i], widen(b[i])), widen(c[i])))                                     \
    }

#define ITSELF(x) x

#define ORDER(type)                       \
    STEP(type##_min, type, y < x ? y : x) \
    STEP(type##_max, type, y > x ? y : x)

/* Sums and products are made in an unsigned type that is at least as wide as int: nothing overflows, all wraps. */
#define UNSIGNED(type, wide)                                \
    ORDER(type)                                             \
    STEP(type##_sum, type, (wide)x + (wide)y)               \
    TWO(type##_sum_two, type##_sum_one, type, type, ITSELF) \
    STEP(type##_prod, type, (wide)x *(wide)y)               \
    SCALE(type##_scale, type, (wide)x *(wide)y)             \
    STEP(type##_land, type, (x != 0) & (y != 0))            \
    STEP(type##_lor, type, (x | y) != 0)                    \
    STEP(type##_lxor, type, (x != 0) ^ (y != 0))            \
    STEP(type##_band, type, x &y)                           \
    STEP(type##_bor, type, x | y)                           \
    STEP(type##_bxor, type, x ^ y)

UNSIGNED(u8, u32)
UNSIGNED(u16, u32)
UNSIGNED(u32, u32)
UNSIGNED(u64, u64)
ORDER(i8)
ORDER(i16)
ORDER(i32)
ORDER(i64)
DIVIDE(u8_divide, u8, f32, (f32)x / y)
DIVIDE(i8_divide, i8, f32, (f32)x / y)
DIVIDE(u16_divide, u16, f32, (f32)x / y)
DIVIDE(i16_divide, i16, f32, (f32)x / y)
DIVIDE(u32_divide, u32, f64, (f64)x / y)
DIVIDE(i32_divide, i32, f64, (f64)x / y)
DIVIDE(u64_divide, u64, u64, x / y)
DIVIDE(i64_divide, i64, i64, x / y)

#define NAN_OR(type, value) (__builtin_isunordered(x, y) ? (type)__builtin_nan("") : (value))

#define FLOATING(type)                                      \
    STEP(type##_sum, type, type##_quiet(x + y))             \
    TWO(type##_sum_two, type##_sum_one, type, type, ITSELF) \
    STEP(type##_prod, type, type##_quiet(x *y))             \
    STEP(type##_min, type, NAN_OR(type, y < x ? y : x))     \
    STEP(type##_max, type, NAN_OR(type, y > x ? y : x))     \
    STEP(type##_land, type, (x != 0) & (y != 0))            \
    STEP(type##_lor, type, (x != 0) | (y != 0))             \
    STEP(type##_lxor, type, (x != 0) ^ (y != 0))            \
    SCALE(type##_scale, type, type##_quiet(x *y))           \
    DIVIDE(type##_divide, type, type, type##_quiet(x / y))

FLOATING(f32)
FLOATING(f64)

/* Half-width floats are true where any bit but the sign is set. */
#define HALF(type, one)                                                        \
    STEP(type##_land, u16, (x & 0x7fff) != 0 && (y & 0x7fff) != 0 ? (one) : 0) \
    STEP(type##_lor, u16, ((x | y) & 0x7fff) != 0 ? (one) : 0)                 \
    STEP(type##_lxor, u16, ((x & 0x7fff) != 0) != ((y & 0x7fff) != 0) ? (one) : 0)

HALF(f16, 0x3c00)
HALF(bf16, 0x3f80)

static void widen_f16(void *out, const void *elements, uint64_t count)
{
    const any_u16 *a = elements;
    uint64_t done = f16_widen_many(out, a, count);

    out = (any_f32 *)out + done;
    a += done;
    LOOP(f32, count - done, f16_widen(a[i]))
}

static void narrow_f16(void *out, const void *accumulators, uint64_t count)
{
    const any_u32 *a = accumulators;
    uint64_t done = f16_narrow_many(out, accumulators, count);

    out = (any_u16 *)out + done;
    a += done;
    LOOP(u16, count - done, f16_narrow(a[i]))
}

static void widen_bf16(void *out, const void *elements, uint64_t count)
{
    const any_u16 *a = elements;
    LOOP(f32, count, bf16_widen(a[i]))
}

static void narrow_bf16(void *out, const void *accumulators, uint64_t count)
{
    const any_u32 *a = accumulators;
    LOOP(u16, count, bf16_narrow(a[i]))
}

/* bf16_narrow() makes NaNs alike. */
#define f32_plus(x, y) ((x) + (y))
TWO(bf16_sum_two, f32_plus, f32, u16, bf16_widen)

static void bf16_sum_direct(void *out, const void *left, const void *right, uint64_t count)
{
    const any_u16 *a = left, *b = right;
    LOOP(u16, count, bf16_narrow(bits_of(bf16_widen(a[i]) + bf16_widen(b[i]))))
}

/* (x + xi i)(y + yi i). The inner quiet() also keeps gcc 12 from fusing a product with the addition behind it, which it
 * does in vectors that alternate between addition and subtraction, whatever -ffp-contract says. */
#define COMPLEX_TIMES(type)                                                        \
    {                                                                              \
        const type x = a[2 * i], xi = a[2 * i + 1];                                \
                                                                                   \
        to[2 * i] = type##_quiet(type##_quiet(x * y) - type##_quiet(xi * yi));     \
        to[2 * i + 1] = type##_quiet(type##_quiet(x * yi) + type##_quiet(xi * y)); \
    }

#define COMPLEX(type)                                                                          \
    static void c##type##_prod(void *out, const void *left, const void *right, uint64_t count) \
    {                                                                                          \
        const any_##type *a = left, *b = right;                                                \
        any_##type *to = out;                                                                  \
                                                                                               \
        INDEPENDENT                                                                            \
        for (uint64_t i = 0; i < count; i++) {                                                 \
            const type y = b[2 * i], yi = b[2 * i + 1];                                        \
                                                                                               \
            COMPLEX_TIMES(type)                                                                \
        }                                                                                      \
    }                                                                                          \
    static void c##type##_scale(void *out, const void *in, const void *factor, uint64_t count) \
    {                                                                                          \
        const any_##type *a = in, *b = factor;                                                 \
        const type y = b[0], yi = b[1];                                                        \
        any_##type *to = out;                                                                  \
                                                                                               \
        INDEPENDENT                                                                            \
        for (uint64_t i = 0; i < count; i++)                                                   \
            COMPLEX_TIMES(type)                                                                \
    }

COMPLEX(f32)
COMPLEX(f64)

/* y wins when it is `better` or equal with a smaller index; a NaN wins over all but an earlier one. Integers equal
 * themselves, so that what is said of NaNs falls away. */
#define PAIR(name, type, pair, better, quiet)                                                      \
    static void name(void *out, const void *left, const void *right, uint64_t count)               \
    {                                                                                              \
        const size_t bytes = sizeof(struct nigh_##pair);                                           \
                                                                                                   \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            uint8_t *to = (uint8_t *)out + i * bytes;                                              \
            struct nigh_##pair a, b;                                                               \
                                                                                                   \
            memcpy(&a, (const uint8_t *)left + i * bytes, bytes);                                  \
            memcpy(&b, (const uint8_t *)right + i * bytes, bytes);                                 \
                                                                                                   \
            const type x = a.value, y = b.value;                                                   \
            const int takes = (x == x) & ((y != y) | (better) | ((x == y) & (b.index < a.index))); \
            const type value = quiet(takes ? y : x);                                               \
            const i32 index = takes ? b.index : a.index;                                           \
                                                                                                   \
            memset(to, 0, bytes);                                                                  \
            memcpy(to + offsetof(struct nigh_##pair, value), &value, sizeof(value));               \
            memcpy(to + offsetof(struct nigh_##pair, index), &index, sizeof(index));               \
        }                                                                                          \
    }

#define PAIRS(type, quiet)                              \
    PAIR(type##_minloc, type, type##_i32, y < x, quiet) \
    PAIR(type##_maxloc, type, type##_i32, y > x, quiet)

PAIRS(i16, )
PAIRS(i32, )
PAIRS(i64, )
PAIRS(f32, f32_quiet)
PAIRS(f64, f64_quiet)

/* ---- which loops a reduction consists of: K(type, operation, fields of struct nigh_fold_kernel) ---- */

#define PLAIN(type) .bytes = sizeof(type), .lanes = 1

#define INTEGER_KERNELS(K, TYPE, type, same)                                                      \
    K(TYPE, SUM, PLAIN(type), .step = same##_sum, .two = same##_sum_two)                          \
    K(TYPE, PROD, PLAIN(type), .step = same##_prod)                                               \
    K(TYPE, MIN, PLAIN(type), .step = type##_min)                                                 \
    K(TYPE, MAX, PLAIN(type), .step = type##_max)                                                 \
    K(TYPE, LAND, PLAIN(type), .step = same##_land)                                               \
    K(TYPE, LOR, PLAIN(type), .step = same##_lor)                                                 \
    K(TYPE, LXOR, PLAIN(type), .step = same##_lxor)                                               \
    K(TYPE, BAND, PLAIN(type), .step = same##_band)                                               \
    K(TYPE, BOR, PLAIN(type), .step = same##_bor)                                                 \
    K(TYPE, BXOR, PLAIN(type), .step = same##_bxor)                                               \
    K(TYPE, AVG, PLAIN(type), .step = same##_sum, .two = same##_sum_two, .divide = type##_divide) \
    K(TYPE, PREMUL, PLAIN(type), .step = same##_sum, .scale = same##_scale)

#define FLOATING_KERNELS(K, TYPE, type)                                                           \
    K(TYPE, SUM, PLAIN(type), .step = type##_sum, .two = type##_sum_two)                          \
    K(TYPE, PROD, PLAIN(type), .step = type##_prod)                                               \
    K(TYPE, MIN, PLAIN(type), .step = type##_min)                                                 \
    K(TYPE, MAX, PLAIN(type), .step = type##_max)                                                 \
    K(TYPE, LAND, PLAIN(type), .step = type##_land)                                               \
    K(TYPE, LOR, PLAIN(type), .step = type##_lor)                                                 \
    K(TYPE, LXOR, PLAIN(type), .step = type##_lxor)                                               \
    K(TYPE, AVG, PLAIN(type), .step = type##_sum, .two = type##_sum_two, .divide = type##_divide) \
    K(TYPE, PREMUL, PLAIN(type), .step = type##_sum, .scale = type##_scale)

#define IN_F32(type) .bytes = 2, .lanes = 1, .widen = widen_##type, .narrow = narrow_##type

#define HALF_KERNELS(K, TYPE, type, ...)                              \
    K(TYPE, SUM, IN_F32(type), .step = f32_sum, __VA_ARGS__)          \
    K(TYPE, PROD, IN_F32(type), .step = f32_prod)                     \
    K(TYPE, MIN, IN_F32(type), .step = f32_min)                       \
    K(TYPE, MAX, IN_F32(type), .step = f32_max)                       \
    K(TYPE, LAND, PLAIN(u16), .step = type##_land)                    \
    K(TYPE, LOR, PLAIN(u16), .step = type##_lor)                      \
    K(TYPE, LXOR, PLAIN(u16), .step = type##_lxor)                    \
    K(TYPE, AVG, IN_F32(type), .step = f32_sum, .divide = f32_divide) \
    K(TYPE, PREMUL, IN_F32(type), .step = f32_sum, .scale = f32_scale)

#define TWICE(type) .bytes = 2 * sizeof(type), .lanes = 2

#define COMPLEX_KERNELS(K, TYPE, type)                                                            \
    K(TYPE, SUM, TWICE(type), .step = type##_sum, .two = type##_sum_two)                          \
    K(TYPE, PROD, PLAIN(type[2]), .step = c##type##_prod)                                         \
    K(TYPE, AVG, TWICE(type), .step = type##_sum, .two = type##_sum_two, .divide = type##_divide) \
    K(TYPE, PREMUL, TWICE(type), .step = type##_sum, .scale = c##type##_scale)

#define BOOL_KERNEL(K, OP, same) K(BOOL, OP, PLAIN(u8), .step = u8_##same, .alone = u8_lor)

#define PAIR_KERNELS(K, TYPE, type)                                         \
    K(TYPE, MINLOC, PLAIN(struct nigh_##type##_i32), .step = type##_minloc) \
    K(TYPE, MAXLOC, PLAIN(struct nigh_##type##_i32), .step = type##_maxloc)

#define KERNELS(K)                                                              \
    INTEGER_KERNELS(K, I8, i8, u8)                                              \
    INTEGER_KERNELS(K, U8, u8, u8)                                              \
    INTEGER_KERNELS(K, I16, i16, u16)                                           \
    INTEGER_KERNELS(K, U16, u16, u16)                                           \
    INTEGER_KERNELS(K, I32, i32, u32)                                           \
    INTEGER_KERNELS(K, U32, u32, u32)                                           \
    INTEGER_KERNELS(K, I64, i64, u64)                                           \
    INTEGER_KERNELS(K, U64, u64, u64)                                           \
    FLOATING_KERNELS(K, F32, f32)                                               \
    FLOATING_KERNELS(K, F64, f64)                                               \
    HALF_KERNELS(K, F16, f16, .two = NULL)                                      \
    HALF_KERNELS(K, BF16, bf16, .two = bf16_sum_two, .direct = bf16_sum_direct) \
    COMPLEX_KERNELS(K, CF32, f32)                                               \
    COMPLEX_KERNELS(K, CF64, f64)                                               \
    BOOL_KERNEL(K, SUM, lor)                                                    \
    BOOL_KERNEL(K, PROD, land)                                                  \
    BOOL_KERNEL(K, MIN, land)                                                   \
    BOOL_KERNEL(K, MAX, lor)                                                    \
    BOOL_KERNEL(K, LAND, land)                                                  \
    BOOL_KERNEL(K, LOR, lor)                                                    \
    BOOL_KERNEL(K, LXOR, lxor)                                                  \
    BOOL_KERNEL(K, BAND, land)                                                  \
    BOOL_KERNEL(K, BOR, lor)                                                    \
    BOOL_KERNEL(K, BXOR, lxor)                                                  \
    PAIR_KERNELS(K, I16_I32, i16)                                               \
    PAIR_KERNELS(K, I32_I32, i32)                                               \
    PAIR_KERNELS(K, I64_I32, i64)                                               \
    PAIR_KERNELS(K, F32_I32, f32)                                               \
    PAIR_KERNELS(K, F64_I32, f64)

#define DEFINE(type, op, ...)                                                                     \
    static void fold_##type##_##op(void *into, const void *const *sources, uint32_t source_count, \
                                   uint64_t count, const struct nigh_fold_more *more)             \
    {                                                                                             \
        static const struct nigh_fold_kernel kernel = {__VA_ARGS__};                              \
                                                                                                  \
        nigh_fold_run(&kernel, into, sources, source_count, count, more);                         \
    }
#define ENTRY(type, op, ...) [NIGH_##type][NIGH_##op] = fold_##type##_##op,

KERNELS(DEFINE)

nigh_fold_table FOLD_TABLE = {KERNELS(ENTRY)};

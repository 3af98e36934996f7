/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/reduce.c - a loop per operation and type, each simple enough for the compiler to use vectors. What they compute
 * is what the plugin's atomics compute. */
#include "lib/reduce.h"
#include "nigh/transport.h"

#include <stddef.h>
#include <stdio.h>

uint32_t nigh_type_width(int type)
{
    static const uint8_t width[] = {
        [NIGH_I8] = 1,  [NIGH_U8] = 1,  [NIGH_I16] = 2, [NIGH_U16] = 2, [NIGH_I32] = 4,
        [NIGH_U32] = 4, [NIGH_I64] = 8, [NIGH_U64] = 8, [NIGH_F32] = 4, [NIGH_F64] = 8};

    return (unsigned)type < sizeof(width) ? width[type] : 0;
}

static struct nigh_name name(const char *const *names, size_t count, const char *kind, int number)
{
    struct nigh_name name;

    if ((unsigned)number < count && names[number])
        snprintf(name.text, sizeof(name.text), "NIGH_%s", names[number]);
    else
        snprintf(name.text, sizeof(name.text), "%s %d", kind, number);
    return name;
}

struct nigh_name nigh_type_name(int type)
{
    static const char *const names[] = {
        [NIGH_I8] = "I8",   [NIGH_U8] = "U8",   [NIGH_I16] = "I16", [NIGH_U16] = "U16", [NIGH_I32] = "I32",
        [NIGH_U32] = "U32", [NIGH_I64] = "I64", [NIGH_U64] = "U64", [NIGH_F32] = "F32", [NIGH_F64] = "F64"};

    return name(names, sizeof(names) / sizeof(*names), "type", type);
}

struct nigh_name nigh_reduction_name(int op)
{
    static const char *const names[] = {
        [NIGH_SUM] = "SUM",    [NIGH_PROD] = "PROD", [NIGH_MIN] = "MIN",   [NIGH_MAX] = "MAX",
        [NIGH_LAND] = "LAND",  [NIGH_LOR] = "LOR",   [NIGH_LXOR] = "LXOR", [NIGH_BAND] = "BAND",
        [NIGH_BOR] = "BOR",    [NIGH_BXOR] = "BXOR", [NIGH_READ] = "READ", [NIGH_WRITE] = "WRITE",
        [NIGH_CSWAP] = "CSWAP"};

    return name(names, sizeof(names) / sizeof(*names), "operation", op);
}

bool nigh_reduces(int op, int type)
{
    bool floating = type == NIGH_F32 || type == NIGH_F64;

    return nigh_type_width(type) != 0 && op >= NIGH_SUM && op <= (floating ? NIGH_MAX : NIGH_BXOR);
}

/* A program's buffer may lie anywhere, and be bytes that were received. */
#define ANYWHERE __attribute__((aligned(1), may_alias))
typedef int8_t any_i8 ANYWHERE;
typedef uint8_t any_u8 ANYWHERE;
typedef int16_t any_i16 ANYWHERE;
typedef uint16_t any_u16 ANYWHERE;
typedef int32_t any_i32 ANYWHERE;
typedef uint32_t any_u32 ANYWHERE;
typedef int64_t any_i64 ANYWHERE;
typedef uint64_t any_u64 ANYWHERE;
typedef float any_f32 ANYWHERE;
typedef double any_f64 ANYWHERE;

/* Element i depends on nothing but elements i, also where out is one of the operands. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* clang-format off */
#define CASE(op, type, expression)             \
    case op:                                   \
        INDEPENDENT                            \
        for (uint64_t i = 0; i < count; i++) { \
            const type x = a[i], y = b[i];     \
                                               \
            out[i] = (type)(expression);       \
        }                                      \
        break;

#define COMBINE(suffix, cases)                                                                            \
    static void combine_##suffix(int op, any_##suffix *out, const any_##suffix *a, const any_##suffix *b, \
                                 uint64_t count)                                                          \
    {                                                                                                     \
        switch (op) {                                                                                     \
            cases                                                                                         \
        default:                                                                                          \
            break;                                                                                        \
        }                                                                                                 \
    }

#define ORDER(type)                     \
    CASE(NIGH_MIN, type, y < x ? y : x) \
    CASE(NIGH_MAX, type, y > x ? y : x)

/* Sums and products are made in an unsigned type that is at least as wide as int: nothing overflows, all wraps. */
#define INTEGER(suffix, type, wide)                         \
    COMBINE(suffix, CASE(NIGH_SUM, type, (wide)x + (wide)y) \
                    CASE(NIGH_PROD, type, (wide)x * (wide)y) \
                    ORDER(type)                             \
                    CASE(NIGH_LAND, type, x && y)           \
                    CASE(NIGH_LOR, type, x || y)            \
                    CASE(NIGH_LXOR, type, !x != !y)         \
                    CASE(NIGH_BAND, type, x & y)            \
                    CASE(NIGH_BOR, type, x | y)             \
                    CASE(NIGH_BXOR, type, x ^ y))

#define FLOATING(suffix, type)                              \
    COMBINE(suffix, CASE(NIGH_SUM, type, x + y)             \
                    CASE(NIGH_PROD, type, x * y)            \
                    ORDER(type))

INTEGER(i8, int8_t, uint32_t)
INTEGER(u8, uint8_t, uint32_t)
INTEGER(i16, int16_t, uint32_t)
INTEGER(u16, uint16_t, uint32_t)
INTEGER(i32, int32_t, uint32_t)
INTEGER(u32, uint32_t, uint32_t)
INTEGER(i64, int64_t, uint64_t)
INTEGER(u64, uint64_t, uint64_t)
FLOATING(f32, float)
FLOATING(f64, double)
/* clang-format on */

void nigh_combine(int op, int type, void *out, const void *a, const void *b, uint64_t count)
{
    switch (type) {
    case NIGH_I8:
        combine_i8(op, out, a, b, count);
        break;
    case NIGH_U8:
        combine_u8(op, out, a, b, count);
        break;
    case NIGH_I16:
        combine_i16(op, out, a, b, count);
        break;
    case NIGH_U16:
        combine_u16(op, out, a, b, count);
        break;
    case NIGH_I32:
        combine_i32(op, out, a, b, count);
        break;
    case NIGH_U32:
        combine_u32(op, out, a, b, count);
        break;
    case NIGH_I64:
        combine_i64(op, out, a, b, count);
        break;
    case NIGH_U64:
        combine_u64(op, out, a, b, count);
        break;
    case NIGH_F32:
        combine_f32(op, out, a, b, count);
        break;
    case NIGH_F64:
        combine_f64(op, out, a, b, count);
        break;
    default:
        break;
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/fold.c - the types of elements and their names. */
#include "coll/fold.h"

#include <stddef.h>

/* As a C compiler lays them out. */
struct i16_i32 {
    int16_t value;
    int32_t index;
};
struct i64_i32 {
    int64_t value;
    int32_t index;
};
struct f64_i32 {
    double value;
    int32_t index;
};

static const struct {
    const char *name;
    uint32_t bytes;
} types[] = {
    [NIGH_I8] = {"i8", 1},           [NIGH_U8] = {"u8", 1},
    [NIGH_I16] = {"i16", 2},         [NIGH_U16] = {"u16", 2},
    [NIGH_I32] = {"i32", 4},         [NIGH_U32] = {"u32", 4},
    [NIGH_I64] = {"i64", 8},         [NIGH_U64] = {"u64", 8},
    [NIGH_F32] = {"f32", 4},         [NIGH_F64] = {"f64", 8},
    [NIGH_BOOL] = {"bool", 1},       [NIGH_F16] = {"f16", 2},
    [NIGH_BF16] = {"bf16", 2},       [NIGH_CF32] = {"cf32", 8},
    [NIGH_CF64] = {"cf64", 16},      [NIGH_I16_I32] = {"i16_i32", sizeof(struct i16_i32)},
    [NIGH_I32_I32] = {"i32_i32", 8}, [NIGH_I64_I32] = {"i64_i32", sizeof(struct i64_i32)},
    [NIGH_F32_I32] = {"f32_i32", 8}, [NIGH_F64_I32] = {"f64_i32", sizeof(struct f64_i32)},
    [NIGH_OPAQUE] = {"opaque", 0},
};

static const char *const operations[] = {
    [NIGH_SUM] = "sum",       [NIGH_PROD] = "prod",     [NIGH_MIN] = "min",
    [NIGH_MAX] = "max",       [NIGH_LAND] = "land",     [NIGH_LOR] = "lor",
    [NIGH_LXOR] = "lxor",     [NIGH_BAND] = "band",     [NIGH_BOR] = "bor",
    [NIGH_BXOR] = "bxor",     [NIGH_READ] = "read",     [NIGH_WRITE] = "write",
    [NIGH_CSWAP] = "cswap",   [NIGH_AVG] = "avg",       [NIGH_PREMUL] = "premul",
    [NIGH_MINLOC] = "minloc", [NIGH_MAXLOC] = "maxloc", [NIGH_FUNCTION] = "function",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

uint32_t nigh_type_bytes(uint32_t type)
{
    return type < COUNT(types) ? types[type].bytes : 0;
}

const char *nigh_type_name(uint32_t type)
{
    return type < COUNT(types) && types[type].name ? types[type].name : "?";
}

const char *nigh_reduction_name(uint32_t op)
{
    return op < COUNT(operations) && operations[op] ? operations[op] : "?";
}

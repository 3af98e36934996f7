/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/type.c - see type.h. The loops themselves are the plugin's. */
#include "lib/type.h"
#include "nigh/nigh.h"

#include <stddef.h>
#include <stdio.h>

/* What operations make of a type. */
enum class { NO_CLASS = 0, INTEGER, FLOATING, COMPLEX, BOOLEAN, PAIR };

static const struct {
    const char *name;
    uint32_t width;
    enum class class;
} types[] = {
    [NIGH_I8] = {"I8", 1, INTEGER},          [NIGH_U8] = {"U8", 1, INTEGER},
    [NIGH_I16] = {"I16", 2, INTEGER},        [NIGH_U16] = {"U16", 2, INTEGER},
    [NIGH_I32] = {"I32", 4, INTEGER},        [NIGH_U32] = {"U32", 4, INTEGER},
    [NIGH_I64] = {"I64", 8, INTEGER},        [NIGH_U64] = {"U64", 8, INTEGER},
    [NIGH_F32] = {"F32", 4, FLOATING},       [NIGH_F64] = {"F64", 8, FLOATING},
    [NIGH_BOOL] = {"BOOL", 1, BOOLEAN},      [NIGH_F16] = {"F16", 2, FLOATING},
    [NIGH_BF16] = {"BF16", 2, FLOATING},     [NIGH_CF32] = {"CF32", 8, COMPLEX},
    [NIGH_CF64] = {"CF64", 16, COMPLEX},     [NIGH_I16_I32] = {"I16_I32", 8, PAIR},
    [NIGH_I32_I32] = {"I32_I32", 8, PAIR},   [NIGH_I64_I32] = {"I64_I32", 16, PAIR},
    [NIGH_F32_I32] = {"F32_I32", 8, PAIR},   [NIGH_F64_I32] = {"F64_I32", 16, PAIR},
    [NIGH_OPAQUE] = {"OPAQUE", 0, NO_CLASS},
};

static const char *const operations[] = {
    [NIGH_SUM] = "SUM",       [NIGH_PROD] = "PROD",     [NIGH_MIN] = "MIN",
    [NIGH_MAX] = "MAX",       [NIGH_LAND] = "LAND",     [NIGH_LOR] = "LOR",
    [NIGH_LXOR] = "LXOR",     [NIGH_BAND] = "BAND",     [NIGH_BOR] = "BOR",
    [NIGH_BXOR] = "BXOR",     [NIGH_READ] = "READ",     [NIGH_WRITE] = "WRITE",
    [NIGH_CSWAP] = "CSWAP",   [NIGH_AVG] = "AVG",       [NIGH_PREMUL] = "PREMUL",
    [NIGH_MINLOC] = "MINLOC", [NIGH_MAXLOC] = "MAXLOC", [NIGH_FUNCTION] = "FUNCTION",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_bytes(int type)
{
    return type > NIGH_BYTES(0);
}

uint32_t nigh_type_width(int type)
{
    if (is_bytes(type))
        return (uint32_t)type - (uint32_t)NIGH_BYTES(0);
    return (unsigned)type < COUNT(types) ? types[type].width : 0;
}

static struct nigh_name name_of(const char *known, const char *kind, int number)
{
    struct nigh_name name;

    if (known)
        snprintf(name.text, sizeof(name.text), "NIGH_%s", known);
    else
        snprintf(name.text, sizeof(name.text), "%s %d", kind, number);
    return name;
}

struct nigh_name nigh_type_name(int type)
{
    struct nigh_name name;

    if (is_bytes(type)) {
        snprintf(name.text, sizeof(name.text), "NIGH_BYTES(%u)", nigh_type_width(type));
        return name;
    }
    return name_of((unsigned)type < COUNT(types) ? types[type].name : NULL, "type", type);
}

struct nigh_name nigh_reduction_name(int op)
{
    return name_of((unsigned)op < COUNT(operations) ? operations[op] : NULL, "operation", op);
}

bool nigh_reduces(int op, int type)
{
    bool basic = op == NIGH_SUM || op == NIGH_PROD;

    switch ((unsigned)type < COUNT(types) ? types[type].class : NO_CLASS) {
    case INTEGER:
        return (op >= NIGH_SUM && op <= NIGH_BXOR) || op == NIGH_AVG;
    case FLOATING:
        return (op >= NIGH_SUM && op <= NIGH_LXOR) || op == NIGH_AVG;
    case COMPLEX:
        return basic || op == NIGH_AVG;
    case BOOLEAN:
        return op >= NIGH_SUM && op <= NIGH_BXOR;
    case PAIR:
        return op == NIGH_MINLOC || op == NIGH_MAXLOC;
    default:
        return false;
    }
}

bool nigh_accumulates(int op, int type)
{
    bool floating = type == NIGH_F32 || type == NIGH_F64;

    return type >= NIGH_I8 && type <= NIGH_F64 && op >= NIGH_SUM && op <= (floating ? NIGH_MAX : NIGH_BXOR);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/field.h - fields of structs that the host has stored a moment ago, read so that the loads
 * need not wait for the stores. */
#ifndef NIGH_PLUGIN_FIELD_H
#define NIGH_PLUGIN_FIELD_H

#include <stdint.h>

/* A field of a struct that the host has just written. Read at its own width: compilers join neighbours into one load,
 * and a load that spans two stores which are still in the store buffer waits for both, 15 cycles of a 30 ns path. */
#define NIGH_FIELD(field) (*(const volatile __typeof__(field) *)&(field))

typedef uint32_t nigh_half __attribute__((may_alias));
#define NIGH_LITTLE_ENDIAN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

/* A field that hosts often leave to be zeroed, in two halves: gcc zeroes what follows `size` with vectors that begin at
 * offset 4, so no one store holds the whole of it. */
static inline uint64_t nigh_field_halves(const uint64_t *field)
{
    const volatile nigh_half *half = (const volatile nigh_half *)(const void *)field;
    uint64_t first = half[0], second = half[1];

    return NIGH_LITTLE_ENDIAN ? first | second << 32 : first << 32 | second;
}

#endif

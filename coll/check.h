/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/check.h - is a call sound, what it is called in texts, and its fingerprint, by which members see that they have made the
 * same one. */
#ifndef NIGH_COLL_CHECK_H
#define NIGH_COLL_CHECK_H

#include "coll/shape.h"

/* What is wrong is written to `why`, for a log's line. 0, -EINVAL, -EOPNOTSUPP, -EFAULT, -ERANGE. */
#define NIGH_WHY_BYTES 160u
int nigh_call_check(const struct nigh_collective *call, uint32_t members, uint32_t me,
                    char why[NIGH_WHY_BYTES]);

static inline uint64_t nigh_print_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Of all that members must agree in; and of that in this call and in those `before`. */
uint64_t nigh_call_agreed(const struct nigh_collective *call, const struct nigh_shape *shape);
static inline uint32_t nigh_call_print(uint64_t agreed, uint32_t before)
{
    uint64_t hash = nigh_print_mix(agreed, before);

    return (uint32_t)(hash ^ hash >> 32);
}

/* What a slot says of a call, for the texts of others. */
static inline uint64_t nigh_call_word(const struct nigh_collective *call)
{
    return (uint64_t)call->root << 32 | (uint64_t)(call->reduction & 0xff) << 16 |
           (uint64_t)(call->type & 0xff) << 8 | (call->op & 0xff);
}

#define NIGH_CALL_TEXT 96u
/* "allreduce of 100 f32 (sum)", "broadcast of 8 bytes from 0": any values. */
void nigh_call_text(uint64_t word, uint64_t count, char out[NIGH_CALL_TEXT]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/put.c - see put.h. */
#include "coll/put.h"
#include "shm/clock.h"
#include "shm/copy.h"

#include <string.h>

#define PAST_FROM  256u
#define TIMED_FROM 4096u
#define PER_BYTES  65536u /* what struct nigh_far counts in */

bool nigh_put_is_past(const struct nigh_coll *coll)
{
    const struct nigh_far *far = &coll->far;

    return coll->past && far->ns[1] && far->ns[0] > far->ns[1] + far->ns[1] / 4;
}

static void put_timed(struct nigh_coll *coll, void *to, const void *from, uint64_t bytes)
{
    bool trial, past = nigh_far_choose(&coll->far, &trial);
    uint64_t start = nigh_clock_ns();

    if (past)
        coll->past(to, from, bytes);
    else
        memcpy(to, from, bytes);
    nigh_far_learn(&coll->far, past, trial, (nigh_clock_ns() - start) * PER_BYTES / bytes);
}

void nigh_put(struct nigh_coll *coll, void *to, const void *from, uint64_t bytes)
{
    if (bytes >= TIMED_FROM && coll->past)
        put_timed(coll, to, from, bytes);
    else if (bytes >= PAST_FROM && nigh_put_is_past(coll))
        coll->past(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

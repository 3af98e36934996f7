/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/put.h - copies into memory that other members read, again and again: each line of it lies in their caches when it is
 * written anew. Copies through the cache and non-temporal ones are timed now and then, and the faster kind is taken. */
#ifndef NIGH_COLL_PUT_H
#define NIGH_COLL_PUT_H

#include "coll/coll.h"

/* Any lengths; no overlap. A store with release publishes what was copied. */
void nigh_put(struct nigh_coll *coll, void *to, const void *from, uint64_t bytes);

/* Are such copies non-temporal now? Then what is made for others is made elsewhere first, and copied. */
bool nigh_put_is_past(const struct nigh_coll *coll);

#endif

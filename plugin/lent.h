/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/lent.h - what the host holds until release(): lends of peers, and messages received in place. */
#ifndef NIGH_PLUGIN_LENT_H
#define NIGH_PLUGIN_LENT_H

#include <stdint.h>

struct nigh_cuda_mapping;
struct nigh_endpoint;

struct nigh_lent {
    void *data; /* NULL: free */
    struct nigh_endpoint *endpoint;
    struct nigh_cuda_mapping *mapping; /* of a device's memory, which `data` is an address in; NULL: none */
    uint32_t id; /* of the lender's operation; NIGH_NO_ID: `data` is memory of our own, to be freed */
};

/* An open table by address; the same address may be held more than once. Zeroed memory is an empty one. */
struct nigh_lents {
    struct nigh_lent *entries;
    uint32_t size; /* a power of two, or 0 */
    uint32_t count, reserved;
};

/* Room for one more: used up by one add or unreserve. -ENOMEM. */
int nigh_lents_reserve(struct nigh_lents *lents);
void nigh_lents_unreserve(struct nigh_lents *lents);
void nigh_lents_add(struct nigh_lents *lents, const struct nigh_lent *lent);
/* Takes one holding of `data` out. -EINVAL: there is none. */
int nigh_lents_take(struct nigh_lents *lents, const void *data, struct nigh_lent *out);
/* Frees the table, and memory of our own in it; mappings are given up. */
void nigh_lents_destroy(struct nigh_lents *lents);

#endif

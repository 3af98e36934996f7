/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/region.h - registered memory, by key. */
#ifndef NIGH_PLUGIN_REGION_H
#define NIGH_PLUGIN_REGION_H

#include "nigh/transport.h"

#include <stdbool.h>
#include <stdint.h>

struct nigh_context;
struct nigh_cuda_export;
struct nigh_cuda_memory;

struct nigh_region {
    struct nigh_region *next; /* in the chain of its chosen key */
    uint8_t *base;
    uint64_t bytes;
    uint64_t key;
    uint64_t context; /* the host's, of its events */
    uint32_t flags;   /* NIGH_REMOTE_*, NIGH_REGISTER_* */
    uint32_t slot;
    uint32_t pins; /* operations of peers under way on it */
    bool shown;    /* in the table that peers look at */
    bool stores;   /* the CPU may store to what lies on a device: device_store.h */
    struct nigh_copies copies;
    struct nigh_cuda_memory *device; /* the region's, as pointer.h; NULL: it lies in the host's memory */
    struct nigh_cuda_export *export; /* of it, for peers; NULL: none was asked for */
    struct nigh_context *owner;      /* `device` only */
};

#define NIGH_REGION_CHAINS 64u

struct nigh_regions {
    struct nigh_region *chosen[NIGH_REGION_CHAINS]; /* those with keys that hosts chose */
    struct nigh_region **slots;
    uint32_t size, used_to;
    uint32_t *free;
    uint32_t free_count;
    uint32_t copied; /* so many move by copies: the host's, or nigh's own of a device */
};

/*
 * A key: what an initiator must present. The random part catches keys of regions that are gone.
 *
 *   63 62            40 39                       0
 *   |0|  slot + 1      |  random                 |
 *   |1|  whatever the host chose                 |
 */
#define NIGH_KEY_SLOT_SHIFT 40
#define NIGH_KEY_SLOTS      ((UINT32_C(1) << 23) - 1)
#define NIGH_KEY_LOW        ((UINT64_C(1) << 40) - 1)

/* The slot that a key names: it may be out of bounds. */
static inline uint32_t nigh_region_slot(uint64_t key)
{
    return (uint32_t)(key >> NIGH_KEY_SLOT_SHIFT) - 1;
}

/* `key`: the chosen one, or 0. -ENOMEM, -ENOSPC, -EEXIST. */
int nigh_region_add(struct nigh_regions *regions, void *base, uint64_t bytes, uint32_t flags, uint64_t key,
                    struct nigh_region **out);
/* Counts an operation of a peer that goes on beyond this call: `by` is 1 or -1. The key is a good one. */
void nigh_region_pin(const struct nigh_regions *regions, uint64_t key, int by);
/* 0: it can be removed; -EINVAL: not one of these; -EBUSY: pinned. */
int nigh_region_check(const struct nigh_regions *regions, const struct nigh_region *region);
void nigh_region_remove(struct nigh_regions *regions, struct nigh_region *region);
/* What a peer may do: 0 and *at, -EACCES unknown key or not allowed, -ERANGE outside. */
int nigh_region_at(const struct nigh_regions *regions, uint64_t key, uint64_t offset, uint64_t bytes,
                   uint32_t need, uint8_t **at);
/* Does what peers do to it complete here? Then *context is what that completes with. */
bool nigh_region_tells(const struct nigh_regions *regions, uint64_t key, uint64_t *context);
/* The region whose bytes move by copies, or NULL: they lie in memory. */
struct nigh_region *nigh_region_copied(const struct nigh_regions *regions, uint64_t key);
/* 0, or -EIO. At least one byte, all within it. */
int nigh_region_read(const struct nigh_region *region, void *to, uint64_t offset, uint64_t bytes);
int nigh_region_write(const struct nigh_region *region, const void *from, uint64_t offset, uint64_t bytes);
void nigh_regions_destroy(struct nigh_regions *regions);

#endif

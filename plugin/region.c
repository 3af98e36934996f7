/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/region.c - the table of registered memory. */
#include "plugin/region.h"
#include "cuda_ipc/export.h"
#include "nigh/transport.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static int grow(struct nigh_regions *regions)
{
    uint32_t size = regions->size ? regions->size * 2 : 64;
    struct nigh_region **slots;
    uint32_t *free_list;

    if (size > NIGH_KEY_SLOTS)
        return -ENOSPC;
    slots = realloc(regions->slots, size * sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    regions->slots = slots;
    free_list = realloc(regions->free, size * sizeof(*free_list));
    if (!free_list)
        return -ENOMEM;
    regions->free = free_list;
    regions->size = size;
    return 0;
}

static uint64_t random_part(void)
{
    uint64_t value = 0;

    if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != (ssize_t)sizeof(value))
        value = (uint64_t)(uintptr_t)&value;
    return value & NIGH_KEY_LOW;
}

static struct nigh_region **chain_of(struct nigh_regions *regions, uint64_t key)
{
    return &regions->chosen[key * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (NIGH_REGION_CHAINS - 1)];
}

/* The region of a key, or NULL. */
static struct nigh_region *find(const struct nigh_regions *regions, uint64_t key)
{
    uint32_t slot = nigh_region_slot(key);
    struct nigh_region *region;

    if (key & NIGH_KEY_CHOSEN) {
        region = *chain_of((struct nigh_regions *)(uintptr_t)regions, key);
        while (region && region->key != key)
            region = region->next;
        return region;
    }
    region = slot < regions->used_to ? regions->slots[slot] : NULL;
    return region && region->key == key ? region : NULL;
}

int nigh_region_add(struct nigh_regions *regions, void *base, uint64_t bytes, uint32_t flags, uint64_t key,
                    struct nigh_region **out)
{
    struct nigh_region *region, **chain;
    int rc;

    if (key && find(regions, key))
        return -EEXIST;
    region = malloc(sizeof(*region));
    if (!region)
        return -ENOMEM;
    if (!regions->free_count && regions->used_to == regions->size) {
        rc = grow(regions);
        if (rc) {
            free(region);
            return rc;
        }
    }
    region->slot = regions->free_count ? regions->free[--regions->free_count] : regions->used_to++;
    region->base = base;
    region->bytes = bytes;
    region->flags = flags;
    region->pins = 0;
    region->shown = region->stores = false;
    region->context = 0;
    region->copies = (struct nigh_copies){0};
    region->device = NULL;
    region->export = NULL;
    regions->copied += flags & NIGH_REGISTER_COPIES ? 1 : 0;
    region->key = key ? key : random_part() | (uint64_t)(region->slot + 1) << NIGH_KEY_SLOT_SHIFT;
    region->next = NULL;
    if (key) {
        chain = chain_of(regions, key);
        region->next = *chain;
        *chain = region;
    }
    regions->slots[region->slot] = region;
    *out = region;
    return 0;
}

void nigh_region_pin(const struct nigh_regions *regions, uint64_t key, int by)
{
    find(regions, key)->pins += (uint32_t)by;
}

int nigh_region_check(const struct nigh_regions *regions, const struct nigh_region *region)
{
    for (uint32_t i = 0; i < regions->used_to; i++)
        if (regions->slots[i] == region)
            return region->pins ? -EBUSY : 0;
    return -EINVAL;
}

void nigh_region_remove(struct nigh_regions *regions, struct nigh_region *region)
{
    struct nigh_region **link = chain_of(regions, region->key);

    while (*link && *link != region)
        link = &(*link)->next;
    if (*link)
        *link = region->next;
    regions->copied -= region->flags & NIGH_REGISTER_COPIES ? 1 : 0;
    regions->slots[region->slot] = NULL;
    regions->free[regions->free_count++] = region->slot;
    free(region->device);
    free(region);
}

int nigh_region_at(const struct nigh_regions *regions, uint64_t key, uint64_t offset, uint64_t bytes,
                   uint32_t need, uint8_t **at)
{
    const struct nigh_region *region = find(regions, key);

    if (!region || (region->flags & need) != need)
        return -EACCES;
    if (offset > region->bytes || bytes > region->bytes - offset)
        return -ERANGE;
    *at = (uint8_t *)((uintptr_t)region->base + offset); /* the base may be NULL */
    return 0;
}

bool nigh_region_tells(const struct nigh_regions *regions, uint64_t key, uint64_t *context)
{
    const struct nigh_region *region = find(regions, key);

    if (!region || !(region->flags & NIGH_REGISTER_EVENTS))
        return false;
    *context = region->context;
    return true;
}

struct nigh_region *nigh_region_copied(const struct nigh_regions *regions, uint64_t key)
{
    struct nigh_region *region = regions->copied ? find(regions, key) : NULL;

    return region && region->flags & NIGH_REGISTER_COPIES ? region : NULL;
}

int nigh_region_read(const struct nigh_region *region, void *to, uint64_t offset, uint64_t bytes)
{
    return region->copies.read(region->copies.arg, to, offset, bytes) ? -EIO : 0;
}

int nigh_region_write(const struct nigh_region *region, const void *from, uint64_t offset, uint64_t bytes)
{
    return region->copies.write(region->copies.arg, from, offset, bytes) ? -EIO : 0;
}

void nigh_regions_destroy(struct nigh_regions *regions)
{
    for (uint32_t i = 0; i < regions->used_to; i++) {
        if (regions->slots[i] && regions->slots[i]->export)
            nigh_cuda_export_put(regions->slots[i]->export);
        if (regions->slots[i])
            free(regions->slots[i]->device);
        free(regions->slots[i]);
    }
    free(regions->slots);
    free(regions->free);
}

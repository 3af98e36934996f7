/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/lent.c - the table of what the host holds: linear probing, moved together when an entry is taken out. */
#include "plugin/lent.h"
#include "cuda_ipc/import.h"
#include "plugin/op.h"
#include <errno.h>
#include <stdlib.h>

static uint32_t slot_of(const struct nigh_lents *lents, const void *data)
{
    return (uint32_t)(((uintptr_t)data >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (lents->size - 1);
}

static void put(struct nigh_lents *lents, const struct nigh_lent *lent)
{
    uint32_t at = slot_of(lents, lent->data);

    while (lents->entries[at].data)
        at = (at + 1) & (lents->size - 1);
    lents->entries[at] = *lent;
}

static int grow(struct nigh_lents *lents)
{
    struct nigh_lents larger = {.size = lents->size ? lents->size * 2 : 64};

    larger.entries = calloc(larger.size, sizeof(*larger.entries));
    if (!larger.entries)
        return -ENOMEM;
    for (uint32_t i = 0; i < lents->size; i++)
        if (lents->entries[i].data)
            put(&larger, &lents->entries[i]);
    free(lents->entries);
    lents->entries = larger.entries;
    lents->size = larger.size;
    return 0;
}

int nigh_lents_reserve(struct nigh_lents *lents)
{
    /* At most three quarters full: probing stays short. */
    if (4 * (lents->count + lents->reserved + 1) > 3 * lents->size && grow(lents))
        return -ENOMEM;
    lents->reserved++;
    return 0;
}

void nigh_lents_unreserve(struct nigh_lents *lents)
{
    lents->reserved--;
}

void nigh_lents_add(struct nigh_lents *lents, const struct nigh_lent *lent)
{
    lents->reserved--;
    lents->count++;
    put(lents, lent);
}

/* Closes the gap at `at`: entries behind it that a search would no longer find move up. */
static void close_gap(struct nigh_lents *lents, uint32_t at)
{
    uint32_t mask = lents->size - 1, next = at;

    for (;;) {
        uint32_t home;

        next = (next + 1) & mask;
        if (!lents->entries[next].data)
            break;
        home = slot_of(lents, lents->entries[next].data);
        if (((next - home) & mask) < ((next - at) & mask))
            continue;
        lents->entries[at] = lents->entries[next];
        at = next;
    }
    lents->entries[at].data = NULL;
}

int nigh_lents_take(struct nigh_lents *lents, const void *data, struct nigh_lent *out)
{
    uint32_t at;

    if (!lents->count || !data)
        return -EINVAL;
    for (at = slot_of(lents, data); lents->entries[at].data; at = (at + 1) & (lents->size - 1)) {
        if (lents->entries[at].data != data)
            continue;
        *out = lents->entries[at];
        close_gap(lents, at);
        lents->count--;
        return 0;
    }
    return -EINVAL;
}

void nigh_lents_destroy(struct nigh_lents *lents)
{
    for (uint32_t i = 0; i < lents->size; i++) {
        if (lents->entries[i].data && lents->entries[i].id == NIGH_NO_ID)
            free(lents->entries[i].data);
        if (lents->entries[i].data && lents->entries[i].mapping)
            nigh_cuda_import_put(lents->entries[i].mapping);
    }
    free(lents->entries);
}

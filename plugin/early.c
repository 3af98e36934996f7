/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/early.c - memory for what comes early, by sizes. */
#include "plugin/early.h"
#include "plugin/slab.h"
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static_assert((uint64_t)NIGH_EARLY_MIN << (NIGH_EARLY_SIZES - 1) == NIGH_EARLY_MAX, "all sizes are listed");

static bool is_kept(uint64_t bytes)
{
    return bytes > NIGH_EARLY_MIN / 2 && bytes <= NIGH_EARLY_MAX;
}

static unsigned which(uint64_t bytes)
{
    unsigned size = 0;

    while ((uint64_t)NIGH_EARLY_MIN << size < bytes)
        size++;
    return size;
}

void *nigh_early_take(struct nigh_early *early, uint64_t bytes)
{
    unsigned size;
    void *memory;

    if (!is_kept(bytes))
        return malloc(bytes);
    size = which(bytes);
    memory = early->unused[size];
    if (!memory)
        return malloc((size_t)NIGH_EARLY_MIN << size);
    NIGH_SLAB_SHOW(memory, (size_t)NIGH_EARLY_MIN << size);
    memcpy(&early->unused[size], memory, sizeof(memory));
    early->bytes -= (uint64_t)NIGH_EARLY_MIN << size;
    return memory;
}

/* The size that is had for `bytes`: memory of it may serve for all of that size. */
static uint64_t whole(uint64_t bytes)
{
    return is_kept(bytes) ? (uint64_t)NIGH_EARLY_MIN << which(bytes) : bytes;
}

void *nigh_early_grow(struct nigh_early *early, void *memory, uint64_t from, uint64_t to, uint64_t used)
{
    void *larger;

    if (memory && whole(from) == whole(to))
        return memory;
    /* All of it is malloc's: for what is long that maps the same pages anew. */
    if (!is_kept(to))
        return realloc(memory, to);
    larger = nigh_early_take(early, to);
    if (!larger || !memory)
        return larger;
    memcpy(larger, memory, used);
    nigh_early_give(early, memory, from);
    return larger;
}

void nigh_early_give(struct nigh_early *early, void *memory, uint64_t bytes)
{
    uint64_t all = is_kept(bytes) ? (uint64_t)NIGH_EARLY_MIN << which(bytes) : 0;

    if (!memory)
        return;
    if (!all || early->bytes + all > NIGH_EARLY_BYTES) {
        free(memory);
        return;
    }
    memcpy(memory, &early->unused[which(bytes)], sizeof(memory));
    early->unused[which(bytes)] = memory;
    early->bytes += all;
    NIGH_SLAB_HIDE(memory, all);
}

void nigh_early_clear(struct nigh_early *early)
{
    for (unsigned size = 0; size < NIGH_EARLY_SIZES; size++) {
        while (early->unused[size])
            free(nigh_early_take(early, (uint64_t)NIGH_EARLY_MIN << size));
    }
}

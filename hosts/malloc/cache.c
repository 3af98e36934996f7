/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/cache.c - see cache.h. */
#include "hosts/malloc/cache.h"

#include <pthread.h>

#define SHARDS 16u
#define SLOTS  8u
/* A block may be an eighth longer than what is wanted. */
#define SPARE 8u

struct shard {
    pthread_mutex_t lock; /* tried, not waited for; the cache is closed by having all of them */
    uint32_t pages;
    struct nigh_malloc_cached slots[SLOTS];
} __attribute__((aligned(64)));

#define FOUR(x) x, x, x, x
static struct shard shards[SHARDS] = {FOUR(FOUR({.lock = PTHREAD_MUTEX_INITIALIZER}))};
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER; /* tried as well */
static uint32_t threads;
static _Thread_local uint32_t mine __attribute__((tls_model("initial-exec"))); /* + 1; 0: none yet */

static void number(void)
{
    if (pthread_mutex_trylock(&threads_lock))
        return;
    mine = 1 + threads++ % SHARDS;
    pthread_mutex_unlock(&threads_lock);
}

/* The thread's, which it has for itself where there are not more threads. NULL: somebody else is there just now. */
static struct shard *enter(void)
{
    struct shard *shard;

    if (!mine)
        number();
    if (!mine)
        return NULL;
    shard = &shards[mine - 1];
    return pthread_mutex_trylock(&shard->lock) == 0 ? shard : NULL;
}

struct nigh_malloc_cached nigh_malloc_cache_take(uint64_t pages)
{
    struct nigh_malloc_cached block = {0};
    struct shard *shard;

    if (pages > NIGH_MALLOC_CACHE_BLOCK)
        return block;
    shard = enter();
    if (!shard)
        return block;
    for (uint32_t i = 0; i < SLOTS && !block.memory; i++) {
        struct nigh_malloc_cached *slot = &shard->slots[i];

        if (!slot->memory || slot->pages < pages || slot->pages > pages + pages / SPARE)
            continue;
        block = *slot;
        *slot = (struct nigh_malloc_cached){0};
        shard->pages -= block.pages;
    }
    pthread_mutex_unlock(&shard->lock);
    return block;
}

/* A slot that is free, as long as its block is not too much; else the one with the longest block. */
static struct nigh_malloc_cached *choose(struct shard *shard, uint32_t pages)
{
    struct nigh_malloc_cached *longest = &shard->slots[0];

    for (uint32_t i = 0; i < SLOTS; i++) {
        struct nigh_malloc_cached *slot = &shard->slots[i];

        if (!slot->memory && shard->pages + pages <= NIGH_MALLOC_CACHE_PAGES)
            return slot;
        if (slot->pages > longest->pages)
            longest = slot;
    }
    return longest;
}

struct nigh_malloc_cached nigh_malloc_cache_keep(struct nigh_malloc_cached block)
{
    struct nigh_malloc_cached *slot, other = block;
    struct shard *shard;

    if (block.pages > NIGH_MALLOC_CACHE_BLOCK)
        return block;
    shard = enter();
    if (!shard)
        return block;
    slot = choose(shard, block.pages);
    if (shard->pages - slot->pages + block.pages <= NIGH_MALLOC_CACHE_PAGES) {
        other = *slot;
        *slot = block;
        shard->pages += block.pages - other.pages;
    }
    pthread_mutex_unlock(&shard->lock);
    return other;
}

void nigh_malloc_cache_close(void (*each)(struct nigh_malloc_cached block))
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &shards[i];

        pthread_mutex_lock(&shard->lock);
        for (uint32_t j = 0; j < SLOTS; j++) {
            if (shard->slots[j].memory)
                each(shard->slots[j]);
            shard->slots[j] = (struct nigh_malloc_cached){0};
        }
        shard->pages = 0;
    }
}

void nigh_malloc_cache_reset(void)
{
    pthread_mutex_init(&threads_lock, NULL);
    for (uint32_t i = 0; i < SHARDS; i++)
        pthread_mutex_init(&shards[i].lock, NULL);
}

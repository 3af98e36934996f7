/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/slab.h - objects of one size, handed out and taken back in a few instructions: operations, unexpected
 * messages. It lives alone because the data path may not call malloc: what was given back last is in the cache
 * and is handed out first. Memory goes back to the system only at the end. One thread at a time.
 */
#ifndef NIGH_PLUGIN_SLAB_H
#define NIGH_PLUGIN_SLAB_H

#include <stddef.h>
#include <stdint.h>

/* Under the address sanitizer an object that is not handed out may not be touched: a use after give is
 * reported where it happens. */
#if defined(__SANITIZE_ADDRESS__)
#define NIGH_SLAB_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NIGH_SLAB_POISONS 1
#endif
#endif
#ifdef NIGH_SLAB_POISONS
#include <sanitizer/asan_interface.h>
#define NIGH_SLAB_HIDE(object, bytes) __asan_poison_memory_region((object), (bytes))
#define NIGH_SLAB_SHOW(object, bytes) __asan_unpoison_memory_region((object), (bytes))
#else
#define NIGH_SLAB_HIDE(object, bytes) ((void)(object), (void)(bytes))
#define NIGH_SLAB_SHOW(object, bytes) ((void)(object), (void)(bytes))
#endif

struct nigh_slab_free {
    struct nigh_slab_free *next;
};

struct nigh_slab {
    struct nigh_slab_free *free; /* given back last, first */
    size_t bytes;                /* of an object, a multiple of 64 */
    uint32_t used;               /* objects that are out */
    uint32_t total;              /* objects in all slabs */
    struct nigh_slab_block *blocks;
};

/* A slab of objects of at least `bytes` bytes, each aligned to 64, `count` of them at once. -ENOMEM. */
int nigh_slab_create(struct nigh_slab *slab, size_t bytes, uint32_t count);

/* Frees everything, objects that are still out included. */
void nigh_slab_destroy(struct nigh_slab *slab);

/* Makes sure that the next `count` takes succeed. -ENOMEM, nothing changed. */
int nigh_slab_reserve(struct nigh_slab *slab, uint32_t count);

/* For nigh_slab_take() alone: as many objects again as there are, or fewer where memory is short. -ENOMEM. */
int nigh_slab_grow(struct nigh_slab *slab);

/* nigh_slab_take() where slab->free is not NULL. */
static inline void *nigh_slab_take_free(struct nigh_slab *slab)
{
    struct nigh_slab_free *object = slab->free;

    NIGH_SLAB_SHOW(object, slab->bytes);
    slab->free = object->next;
    slab->used++;
    return object;
}

/* An object with undefined contents; NULL when none is free and memory is short. Allocates only when more are
 * out than ever before. */
static inline void *nigh_slab_take(struct nigh_slab *slab)
{
    if (__builtin_expect(slab->free == NULL, 0) && nigh_slab_grow(slab) != 0)
        return NULL;
    return nigh_slab_take_free(slab);
}

/* Zeroes an object, whose size is a constant, with stores: what compilers make of memset() here is `rep stos`, which
 * takes as long to begin as a slot to be written. An object's memory is whole lines. */
static inline __attribute__((always_inline)) void nigh_slab_zero(void *object, size_t bytes)
{
    typedef uint64_t pair __attribute__((vector_size(16), may_alias));

    for (pair *at = object, *end = at + (bytes + 63) / 64 * 4; at != end; at += 4) {
        at[0] = at[1] = at[2] = at[3] = (pair){0, 0};
        __asm__ volatile("" : : : "memory"); /* else the loop becomes memset() again */
    }
}

/* Gives an object of this slab back; it must not be touched afterwards. */
static inline void nigh_slab_give(struct nigh_slab *slab, void *object)
{
    struct nigh_slab_free *given = object;

    given->next = slab->free;
    slab->free = given;
    slab->used--;
    NIGH_SLAB_HIDE(object, slab->bytes);
}

/* Several that are given back one after the other with nothing in between: begin with slab->free, link each before what
 * the last link has returned, and end with that. */
static inline struct nigh_slab_free *nigh_slab_link(const struct nigh_slab *slab, void *object,
                                                    struct nigh_slab_free *first)
{
    struct nigh_slab_free *given = object;

    given->next = first;
    (void)slab;
    NIGH_SLAB_HIDE(object, slab->bytes);
    return given;
}

static inline void nigh_slab_give_linked(struct nigh_slab *slab, struct nigh_slab_free *first, uint32_t count)
{
    slab->free = first;
    slab->used -= count;
}

#endif

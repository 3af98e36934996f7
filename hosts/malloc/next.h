/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/next.h - the malloc behind this one in the process: glibc's, or another one that was preloaded. */
#ifndef NIGH_MALLOC_NEXT_H
#define NIGH_MALLOC_NEXT_H

#include <stdbool.h>
#include <stddef.h>

/* They find themselves when one is first called. */
extern struct nigh_malloc_next {
    void *(*malloc)(size_t bytes);
    void *(*calloc)(size_t count, size_t bytes);
    void *(*realloc)(void *memory, size_t bytes);
    void (*free)(void *memory);
    int (*posix_memalign)(void **out, size_t align, size_t bytes);
    void *(*aligned_alloc)(size_t align, size_t bytes);
    void *(*memalign)(size_t align, size_t bytes);
    size_t (*usable)(void *memory); /* NULL: it does not say */
    /* What pthread_atfork() calls; NULL: there is none. */
    int (*register_atfork)(void (*before)(void), void (*in_parent)(void), void (*in_child)(void),
                           void *object);
} nigh_malloc_next;

/* Finds them, if nobody has. False: they are being looked for. */
bool nigh_malloc_next_find(void);

/* Whether it was handed out while they were looked for: such memory is never free again. How much there is behind it. */
bool nigh_malloc_next_early(const void *memory);
size_t nigh_malloc_next_early_room(const void *memory);

#endif

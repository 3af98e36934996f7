/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/next.c - see next.h. Looking for functions may allocate: that is handed out of an array. Processes have one
 * thread that early. */
#include "hosts/malloc/next.h"
#include "hosts/malloc/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>

#define EARLY 16384
#define LEAST 16u /* alignment of any block */

static char early[EARLY] __attribute__((aligned(4096)));
static size_t early_used;
static volatile bool searching; /* the compiler thinks that dlsym() comes back to nobody here */

/* ---- while they are looked for ------------------------------------------------------------------------- */

/* Zeros, as the array is. */
static void *take_early(size_t align, size_t bytes)
{
    size_t from = align < LEAST ? LEAST : align;

    from = (early_used + from - 1) & ~(from - 1);
    if (from > EARLY || bytes > EARLY - from) {
        errno = ENOMEM;
        return NULL;
    }
    early_used = from + bytes;
    return early + from;
}

bool nigh_malloc_next_early(const void *memory)
{
    return (uintptr_t)memory - (uintptr_t)early < EARLY;
}

size_t nigh_malloc_next_early_room(const void *memory)
{
    return (size_t)(early + EARLY - (const char *)memory);
}

/* ---- until they are found ------------------------------------------------------------------------------ */

static void *first_malloc(size_t bytes)
{
    if (searching)
        return take_early(LEAST, bytes);
    nigh_malloc_next_find();
    return nigh_malloc_next.malloc(bytes);
}

static void *first_calloc(size_t count, size_t bytes)
{
    if (searching) /* the caller has looked that it does not overflow */
        return take_early(LEAST, count * bytes);
    nigh_malloc_next_find();
    return nigh_malloc_next.calloc(count, bytes);
}

static void *first_realloc(void *memory, size_t bytes)
{
    if (searching) /* nothing to copy: memory that is not early cannot be */
        return take_early(LEAST, bytes);
    nigh_malloc_next_find();
    return nigh_malloc_next.realloc(memory, bytes);
}

static void first_free(void *memory)
{
    if (searching || !memory)
        return;
    nigh_malloc_next_find();
    nigh_malloc_next.free(memory);
}

static int first_posix_memalign(void **out, size_t align, size_t bytes)
{
    void *memory;

    if (!searching) {
        nigh_malloc_next_find();
        return nigh_malloc_next.posix_memalign(out, align, bytes);
    }
    memory = take_early(align, bytes);
    if (!memory)
        return ENOMEM;
    *out = memory;
    return 0;
}

static void *first_aligned_alloc(size_t align, size_t bytes)
{
    if (searching)
        return take_early(align, bytes);
    nigh_malloc_next_find();
    return nigh_malloc_next.aligned_alloc(align, bytes);
}

static void *first_memalign(size_t align, size_t bytes)
{
    if (searching)
        return take_early(align, bytes);
    nigh_malloc_next_find();
    return nigh_malloc_next.memalign(align, bytes);
}

struct nigh_malloc_next nigh_malloc_next = {.malloc = first_malloc,
                                            .calloc = first_calloc,
                                            .realloc = first_realloc,
                                            .free = first_free,
                                            .posix_memalign = first_posix_memalign,
                                            .aligned_alloc = first_aligned_alloc,
                                            .memalign = first_memalign};

/* ---- the search ---------------------------------------------------------------------------------------- */

#define FIND(slot, name) (*(void **)&found.slot = dlsym(RTLD_NEXT, name))

bool nigh_malloc_next_find(void)
{
    struct nigh_malloc_next found = {0};

    if (searching || nigh_malloc_next.malloc != first_malloc)
        return !searching;
    searching = true;
    FIND(malloc, "malloc");
    FIND(calloc, "calloc");
    FIND(realloc, "realloc");
    FIND(free, "free");
    FIND(posix_memalign, "posix_memalign");
    FIND(aligned_alloc, "aligned_alloc");
    FIND(memalign, "memalign");
    FIND(usable, "malloc_usable_size");
    FIND(register_atfork, "__register_atfork");
    nigh_malloc_system_find();
    nigh_malloc_next = found;
    searching = false;
    return true;
}

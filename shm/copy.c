/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/copy.c - picks the copy kernels: names, the forms that need no particular CPU, and the choice by CPU features.
 * The forms with intrinsics live in copy_x86.c so that this file builds everywhere. */
#include "shm/copy.h"
#include "shm/cpu.h"
#include "shm/shared.h"

#include <errno.h>

static const char *const kernel_names[NIGH_COPY_KERNELS] = {"plain", "prefetchw", "nt",
                                                            "movsb", "flush",     "quarters"};
static const char *const isa_names[NIGH_COPY_ISAS] = {"portable", "avx2", "avx512"};

const char *nigh_copy_name(enum nigh_copy_kernel kernel)
{
    return (unsigned)kernel < NIGH_COPY_KERNELS ? kernel_names[kernel] : "?";
}

const char *nigh_copy_isa_name(enum nigh_copy_isa isa)
{
    return (unsigned)isa < NIGH_COPY_ISAS ? isa_names[isa] : "?";
}

int nigh_copy_parse(const char *name, enum nigh_copy_kernel *kernel)
{
    for (unsigned k = 0; k < NIGH_COPY_KERNELS; k++) {
        if (strcmp(name, kernel_names[k]) == 0) {
            *kernel = (enum nigh_copy_kernel)k;
            return 0;
        }
    }
    return -EINVAL;
}

static void portable_plain(void *dst, const void *src, size_t bytes)
{
    if (bytes <= 64)
        nigh_copy_small(dst, src, bytes);
    else
        memcpy(dst, src, bytes);
}

static void portable_prefetchw(void *to, const void *from, size_t bytes)
{
    uint8_t *dst = to;
    const uint8_t *src = from;
    const size_t ahead = 512;

    for (; bytes > ahead + 64; bytes -= 64, dst += 64, src += 64) {
        __builtin_prefetch(dst + ahead, 1, 3);
        nigh_copy_to_64(dst, src, 64);
    }
    portable_plain(dst, src, bytes);
}

static nigh_copy_fn portable(enum nigh_copy_kernel kernel)
{
    switch (kernel) {
    case NIGH_COPY_PLAIN:
    case NIGH_COPY_QUARTERS: /* in which order memcpy goes is the C library's affair */
        return portable_plain;
    case NIGH_COPY_PREFETCHW:
        return portable_prefetchw;
    default:
        return NULL;
    }
}

#if !defined(__x86_64__)
nigh_copy_fn nigh_copy_x86(enum nigh_copy_kernel kernel, enum nigh_copy_isa isa)
{
    (void)kernel;
    (void)isa;
    return NULL;
}

enum nigh_copy_isa nigh_copy_x86_isa(void)
{
    return NIGH_COPY_PORTABLE;
}
#endif

enum nigh_copy_isa nigh_copy_isa(void)
{
    return nigh_copy_x86_isa();
}

enum nigh_copy_kernel nigh_copy_for_long(void)
{
    switch (nigh_cpu()) {
    case NIGH_CPU_ZEN3:
        return NIGH_COPY_QUARTERS;
    case NIGH_CPU_GOLDEN_COVE:
        return NIGH_COPY_MOVSB;
    default:
        return NIGH_COPY_PLAIN;
    }
}

nigh_copy_fn nigh_copy_select_isa(enum nigh_copy_kernel kernel, enum nigh_copy_isa isa)
{
    if ((unsigned)kernel >= NIGH_COPY_KERNELS || (unsigned)isa >= NIGH_COPY_ISAS || isa > nigh_copy_isa())
        return NULL;

    nigh_copy_fn fn = nigh_copy_x86(kernel, isa);

    return fn || isa != NIGH_COPY_PORTABLE ? fn : portable(kernel);
}

static nigh_copy_fn find(enum nigh_copy_kernel kernel)
{
    nigh_copy_fn fn = NULL;

    for (int isa = (int)nigh_copy_isa(); !fn && isa >= 0; isa--)
        fn = nigh_copy_select_isa(kernel, (enum nigh_copy_isa)isa);
    return fn;
}

/* Asked for each piece: what was found is kept. Threads that find nothing kept all find the same,
 * so relaxed is enough. */
nigh_copy_fn nigh_copy_select(enum nigh_copy_kernel kernel)
{
    static nigh_copy_fn kept[NIGH_COPY_KERNELS];
    nigh_copy_fn fn;

    if ((unsigned)kernel >= NIGH_COPY_KERNELS)
        return NULL;
    fn = nigh_load_relaxed(&kept[kernel]);
    if (!fn) {
        fn = find(kernel);
        nigh_store_relaxed(&kept[kernel], fn);
    }
    return fn;
}

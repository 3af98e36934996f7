/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/copy.h - how bytes move between private memory and shared memory: the copy kernels and the inline copy of small
 * payloads. They live alone because which one is fast depends on the machine and on who last held the lines, so they
 * must be interchangeable and picked by measurement (shm/pace.h). They move payload only: what publishes it is a store
 * by shm/shared.h, and no kernel publishes anything. */
#ifndef NIGH_SHM_COPY_H
#define NIGH_SHM_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Each kernel takes any alignment of either side and any size, 0 included; the ranges must not overlap.
 * All are fastest when the side that is written begins on a 64-byte line, as every chunk does.
 *
 *   kernel     dst written    what it is for
 *   plain      cached         everything, and the reader's side
 *   prefetchw  cached         writer: takes ownership of the lines ahead of the stores
 *   nt         past the cache writer: the reader's core is behind another L3; reader: the private buffer is larger
 *                             than the caches; fenced before it returns
 *   movsb      as the CPU likes (microcode)
 *   quarters   cached         writer of a long private buffer: four quarters of it, a line of each in turn
 *   flush      cached         reader: gives each line of src back to memory behind the copy, so that the next
 *                             writer finds it in nobody's cache */
enum nigh_copy_kernel {
    NIGH_COPY_PLAIN = 0,
    NIGH_COPY_PREFETCHW = 1,
    NIGH_COPY_NT = 2,
    NIGH_COPY_MOVSB = 3,
    NIGH_COPY_FLUSH = 4,
    NIGH_COPY_QUARTERS = 5,
    NIGH_COPY_KERNELS = 6,
};

enum nigh_copy_isa {
    NIGH_COPY_PORTABLE = 0,
    NIGH_COPY_AVX2 = 1,
    NIGH_COPY_AVX512 = 2,
    NIGH_COPY_ISAS = 3,
};

/* Copies `bytes` from src to dst. Once it has returned, a release store by the same thread publishes
 * everything that it wrote, non-temporal stores included. Any thread, never blocks, cannot fail. */
typedef void (*nigh_copy_fn)(void *dst, const void *src, size_t bytes);

/* The kernel in the widest form that this CPU runs; NULL when the CPU cannot do it or `kernel` is none of the
 * enum. PLAIN is never NULL. The CPU is asked once; any thread. */
nigh_copy_fn nigh_copy_select(enum nigh_copy_kernel kernel);

/* The kernel in one given form; NULL when the CPU lacks the form or the form has no such kernel. */
nigh_copy_fn nigh_copy_select_isa(enum nigh_copy_kernel kernel, enum nigh_copy_isa isa);

/* QUARTERS, MOVSB or PLAIN: what copies long messages faster on this CPU where both ranks have one L3. In quarters a Zen 3
 * streams 1.07 to 1.29 times as fast, a Zen 4 0.83 to 0.97; by rep movsb an Emerald Rapids 1.03 to 1.13
 * (docs/rationale/copies.md). CPUs that were not measured copy in order. Any thread. */
enum nigh_copy_kernel nigh_copy_for_long(void);

/* The widest form that this CPU runs. */
enum nigh_copy_isa nigh_copy_isa(void);

/* "plain", "prefetchw", "nt", "movsb", "flush", "quarters"; "?" for a value that is none of the
 * enum. Static storage. */
const char *nigh_copy_name(enum nigh_copy_kernel kernel);

/* "portable", "avx2", "avx512"; "?" otherwise. Static storage. */
const char *nigh_copy_isa_name(enum nigh_copy_isa isa);

/* The kernel of that name into *kernel and 0; -EINVAL and *kernel untouched when there is none. */
int nigh_copy_parse(const char *name, enum nigh_copy_kernel *kernel);

/* Below: inline, for payloads of one slot (0 to 48 bytes) and bodies of a few lines (to about 2 KiB), where
 * the call through a pointer and a wide loop's entry would show against one line handoff. */

/* Two moves that overlap cover every size from w to 2w with no loop and no dependence on the size but an
 * address. Both are loaded before either is stored. */
#define NIGH_COPY_PAIR(type, dst, src, bytes)                         \
    do {                                                              \
        type first_, last_;                                           \
        memcpy(&first_, (src), sizeof(type));                         \
        memcpy(&last_, (src) + (bytes) - sizeof(type), sizeof(type)); \
        memcpy((dst), &first_, sizeof(type));                         \
        memcpy((dst) + (bytes) - sizeof(type), &last_, sizeof(type)); \
    } while (0)

/* A vector, because gcc 12 keeps a struct of two words on the stack between its load and its store. */
typedef uint64_t nigh_copy_16 __attribute__((vector_size(16)));

#define NIGH_COPY_INLINE static inline __attribute__((always_inline))

NIGH_COPY_INLINE void nigh_copy_to_16(uint8_t *dst, const uint8_t *src, size_t bytes)
{
    if (bytes >= 8)
        NIGH_COPY_PAIR(uint64_t, dst, src, bytes);
    else if (bytes >= 4)
        NIGH_COPY_PAIR(uint32_t, dst, src, bytes);
    else if (bytes >= 2)
        NIGH_COPY_PAIR(uint16_t, dst, src, bytes);
    else if (bytes == 1)
        *dst = *src;
}

/* Four moves of 16 bytes: one after another from `first`, then from `last`. 33 to 64 bytes. */
NIGH_COPY_INLINE void nigh_copy_to_64(uint8_t *dst, const uint8_t *src, size_t bytes)
{
    nigh_copy_16 a, b, c, d;

    memcpy(&a, src, 16);
    memcpy(&b, src + 16, 16);
    memcpy(&c, src + bytes - 32, 16);
    memcpy(&d, src + bytes - 16, 16);
    memcpy(dst, &a, 16);
    memcpy(dst + 16, &b, 16);
    memcpy(dst + bytes - 32, &c, 16);
    memcpy(dst + bytes - 16, &d, 16);
}

/* Copies any number of bytes, any alignment; made for 0 to 2048. No overlap. Never calls out. */
NIGH_COPY_INLINE void nigh_copy_small(void *to, const void *from, size_t bytes)
{
    uint8_t *dst = to;
    const uint8_t *src = from;

    /* Whole lines first, so that a dst that begins on a line sees each line written once and in order. */
    for (; bytes > 64; bytes -= 64, dst += 64, src += 64) {
        nigh_copy_to_64(dst, src, 64);
        __asm__ volatile("" : : : "memory"); /* else compilers turn the loop into a call of memcpy */
    }
    if (bytes > 32)
        nigh_copy_to_64(dst, src, bytes);
    else if (bytes > 16)
        NIGH_COPY_PAIR(nigh_copy_16, dst, src, bytes);
    else
        nigh_copy_to_16(dst, src, bytes);
}

/* Copies 0 to 40 bytes into the payload of a slot, where what lies behind them may be overwritten: up to 8 bytes go in
 * one store. */
NIGH_COPY_INLINE void nigh_copy_slot(uint8_t *dst, const uint8_t *src, size_t bytes)
{
    uint64_t word;

    if (__builtin_expect(bytes == 8, 1)) {
        memcpy(&word, src, 8);
        memcpy(dst, &word, 8);
        return;
    }
    nigh_copy_small(dst, src, bytes);
}

/* For copy.c alone: the x86-64 forms, NULL for what the CPU lacks, and the widest form the CPU runs. */
nigh_copy_fn nigh_copy_x86(enum nigh_copy_kernel kernel, enum nigh_copy_isa isa);
enum nigh_copy_isa nigh_copy_x86_isa(void);

#endif

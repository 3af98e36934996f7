/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/fold.c - chooses the form of a reduction, and takes its loops through the sources block by block. */
#include "coll/fold.h"
#include "coll/fold_kernel.h"
#include "shm/shared.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdbool.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t bytes;
} types[] = {
    [NIGH_I8] = {"i8", 1},           [NIGH_U8] = {"u8", 1},
    [NIGH_I16] = {"i16", 2},         [NIGH_U16] = {"u16", 2},
    [NIGH_I32] = {"i32", 4},         [NIGH_U32] = {"u32", 4},
    [NIGH_I64] = {"i64", 8},         [NIGH_U64] = {"u64", 8},
    [NIGH_F32] = {"f32", 4},         [NIGH_F64] = {"f64", 8},
    [NIGH_BOOL] = {"bool", 1},       [NIGH_F16] = {"f16", 2},
    [NIGH_BF16] = {"bf16", 2},       [NIGH_CF32] = {"cf32", 8},
    [NIGH_CF64] = {"cf64", 16},      [NIGH_I16_I32] = {"i16_i32", sizeof(struct nigh_i16_i32)},
    [NIGH_I32_I32] = {"i32_i32", 8}, [NIGH_I64_I32] = {"i64_i32", sizeof(struct nigh_i64_i32)},
    [NIGH_F32_I32] = {"f32_i32", 8}, [NIGH_F64_I32] = {"f64_i32", sizeof(struct nigh_f64_i32)},
    [NIGH_OPAQUE] = {"opaque", 0},
};

static const char *const operations[] = {
    [NIGH_SUM] = "sum",       [NIGH_PROD] = "prod",     [NIGH_MIN] = "min",
    [NIGH_MAX] = "max",       [NIGH_LAND] = "land",     [NIGH_LOR] = "lor",
    [NIGH_LXOR] = "lxor",     [NIGH_BAND] = "band",     [NIGH_BOR] = "bor",
    [NIGH_BXOR] = "bxor",     [NIGH_READ] = "read",     [NIGH_WRITE] = "write",
    [NIGH_CSWAP] = "cswap",   [NIGH_AVG] = "avg",       [NIGH_PREMUL] = "premul",
    [NIGH_MINLOC] = "minloc", [NIGH_MAXLOC] = "maxloc", [NIGH_FUNCTION] = "function",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

uint32_t nigh_type_bytes(uint32_t type)
{
    return type < COUNT(types) ? types[type].bytes : 0;
}

const char *nigh_type_name(uint32_t type)
{
    return type < COUNT(types) && types[type].name ? types[type].name : "?";
}

const char *nigh_reduction_name(uint32_t op)
{
    return op < COUNT(operations) && operations[op] ? operations[op] : "?";
}

/* ---- which form ---- */

#if defined(__x86_64__)
static int has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Of the AVX-512 CPUs some have less than the loops need. */
static int ask_cpu(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !has_f16c())
        return NIGH_COPY_PORTABLE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return NIGH_COPY_AVX512;
    return NIGH_COPY_AVX2;
}

/* Two threads that both find nothing ask twice and store the same answer: relaxed is enough. */
static int widest(void)
{
    static int kept = -1;
    int isa = nigh_load_relaxed(&kept);

    if (isa < 0) {
        isa = ask_cpu();
        nigh_store_relaxed(&kept, isa);
    }
    return isa;
}
#else
static int widest(void)
{
    return NIGH_COPY_PORTABLE;
}
#endif

nigh_fold_fn nigh_fold_select_isa(enum nigh_type type, enum nigh_atomic_op op, enum nigh_copy_isa isa)
{
    static nigh_fold_table *const tables[NIGH_COPY_ISAS] = {
        [NIGH_COPY_PORTABLE] = &nigh_fold_portable,
#if defined(__x86_64__)
        [NIGH_COPY_AVX2] = &nigh_fold_avx2,
        [NIGH_COPY_AVX512] = &nigh_fold_avx512,
#endif
    };

    if ((unsigned)type >= NIGH_OPAQUE || (unsigned)op >= NIGH_FUNCTION || (unsigned)isa > (unsigned)widest())
        return NULL;
    return (*tables[isa])[type][op];
}

nigh_fold_fn nigh_fold_select(enum nigh_type type, enum nigh_atomic_op op)
{
    return nigh_fold_select_isa(type, op, (enum nigh_copy_isa)widest());
}

/* ---- block by block ---- */

/* Bytes of each source that go into the accumulators, which stay in the L1 cache, before the next block. Sources that come
 * from memory want short blocks, so that prefetchers keep following all of them; calls of the loops want long ones. */
enum { BLOCK = 512, ACCUMULATORS = 2 * BLOCK };

/* Bytes that the loop takes out of all sources at a time. */
struct block {
    const struct nigh_fold_kernel *kernel;
    const void *const *sources;
    const void *const *factors; /* NULL but for NIGH_PREMUL */
    uint32_t source_count;
    uint64_t at; /* in bytes */
    uint64_t count;
};

static const uint8_t *source_at(const struct block *block, uint32_t i)
{
    return (const uint8_t *)block->sources[i] + block->at;
}

/* Source i as accumulators: where it lies, or in `room`. */
static const void *load(const struct block *block, uint32_t i, uint8_t *room)
{
    const struct nigh_fold_kernel *kernel = block->kernel;
    const void *elements = source_at(block, i), *factor;
    float wide;

    if (kernel->widen) {
        kernel->widen(room, elements, block->count);
        elements = room;
    }
    if (kernel->scale) {
        factor = block->factors[i];
        if (kernel->widen) {
            kernel->widen(&wide, factor, 1);
            factor = &wide;
        }
        kernel->scale(room, elements, factor, block->count);
        elements = room;
    }
    return elements;
}

/* Puts source i, or two from there, on to *sum; the new sum goes to `last` if all are in it, else to `room`. */
static uint32_t add(const struct block *block, uint32_t i, const void **sum, void *room, void *last)
{
    const struct nigh_fold_kernel *kernel = block->kernel;
    uint32_t several = kernel->two && block->source_count - i >= 2 ? 2 : 1;
    void *out = i + several < block->source_count ? room : last;
    uint64_t lanes = block->count * kernel->lanes;
    _Alignas(64) uint8_t next[ACCUMULATORS];

    if (several == 2)
        kernel->two(out, *sum, source_at(block, i), source_at(block, i + 1), lanes);
    else
        kernel->step(out, *sum, load(block, i, next), lanes);
    *sum = out;
    return several;
}

static void fold_block(const struct block *block, uint8_t *into, uint32_t ranks)
{
    const struct nigh_fold_kernel *kernel = block->kernel;
    _Alignas(64) uint8_t room[ACCUMULATORS];
    void *last = kernel->narrow ? (void *)room : into;
    const void *sum = load(block, 0, room);

    for (uint32_t i = 1; i < block->source_count;)
        i += add(block, i, &sum, room, kernel->divide ? room : last);
    if (kernel->divide) {
        kernel->divide(last, sum, ranks, block->count * kernel->lanes);
        sum = last;
    }
    if (kernel->narrow)
        kernel->narrow(into, sum, block->count);
    else if (sum != into)
        memcpy(into, sum, block->count * kernel->bytes);
}

static void fold_blocks(const struct nigh_fold_kernel *kernel, uint8_t *into, const void *const *sources,
                        uint32_t source_count, uint64_t count, const struct nigh_fold_more *more)
{
    struct block block = {.kernel = kernel,
                          .sources = sources,
                          .factors = kernel->scale ? more->factors : NULL,
                          .source_count = source_count};
    uint64_t largest = BLOCK / kernel->bytes;

    for (uint64_t done = 0; done < count; done += block.count) {
        block.at = done * kernel->bytes;
        block.count = count - done < largest ? count - done : largest;
        fold_block(&block, into + block.at, kernel->divide ? more->ranks : 1);
    }
}

void nigh_fold_run(const struct nigh_fold_kernel *kernel, void *into, const void *const *sources,
                   uint32_t source_count, uint64_t count, const struct nigh_fold_more *more)
{
    bool plain = !kernel->widen && !kernel->scale && !kernel->divide;
    uint64_t lanes = count * kernel->lanes;

    if (source_count == 1 && kernel->alone) {
        kernel->alone(into, sources[0], sources[0], lanes);
    } else if (source_count == 1 && !kernel->scale && !kernel->divide) {
        if (into != sources[0] && count > 0)
            memcpy(into, sources[0], count * kernel->bytes);
    } else if (source_count == 2 && kernel->direct) {
        kernel->direct(into, sources[0], sources[1], lanes);
    } else if (source_count == 2 && plain) {
        kernel->step(into, sources[0], sources[1], lanes);
    } else {
        fold_blocks(kernel, into, sources, source_count, count, more);
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/copy_x86.c - the copy kernels for x86-64, in AVX-512 and AVX2. Each form is compiled for its own instruction set
 * whatever the flags of the build are, and only ever called after the CPU has said that it has it. */
#include "shm/copy.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include "shm/shared.h"

#define AVX512 __attribute__((target("avx512f")))
#define AVX2   __attribute__((target("avx2")))

enum {
    LINE = 64,
    /* How far the stores run behind the requests for ownership: eight lines cover a handoff of 250 ns at the
     * rate at which one core copies, and stay within the fill buffers of every core at hand. */
    AHEAD = 8 * LINE,
    /* The reader gives lines back in blocks: flushing line by line stalls the loads that follow. */
    FLUSH_BLOCK = 1024,
    /* Streams of 64 KiB gain 7 % in one L3; of 32 they lose 2 there, and gain across two; of 16 they lose 5. */
    QUARTERS_FROM = 32768,
};

static inline void own_ahead(const uint8_t *line)
{
    __asm__ volatile("prefetchw %0" : : "m"(*line));
}

static inline void give_back(const void *line)
{
    __asm__ volatile("clflushopt %0" : "+m"(*(volatile char *)(uintptr_t)line));
}

/* Bytes up to the next line of dst; the loops below then write whole lines. */
static inline size_t to_next_line(const uint8_t *dst)
{
    return (LINE - ((uintptr_t)dst & (LINE - 1))) & (LINE - 1);
}

/* How each instruction set moves one line, through the cache and past it; the copies around that are the same. */
AVX512 static inline void line_512(uint8_t *dst, const uint8_t *src)
{
    _mm512_storeu_si512(dst, _mm512_loadu_si512(src));
}

AVX512 static inline void stream_512(uint8_t *dst, const uint8_t *src)
{
    _mm512_stream_si512((__m512i *)(void *)dst, _mm512_loadu_si512(src));
}

AVX2 static inline void line_256(uint8_t *dst, const uint8_t *src)
{
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)src);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(src + 32));

    _mm256_storeu_si256((__m256i *)(void *)dst, a);
    _mm256_storeu_si256((__m256i *)(void *)(dst + 32), b);
}

AVX2 static inline void stream_256(uint8_t *dst, const uint8_t *src)
{
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)src);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(src + 32));

    _mm256_stream_si256((__m256i *)(void *)dst, a);
    _mm256_stream_si256((__m256i *)(void *)(dst + 32), b);
}

#define TARGET     AVX512
#define FORM(name) name##_512
#include "shm/copy_x86_form.h"

#define TARGET     AVX2
#define FORM(name) name##_256
#include "shm/copy_x86_form.h"

static void movsb(void *dst, const void *src, size_t bytes)
{
    __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
}

static int has_clflushopt(void)
{
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1U << 23));
}

static int ask_cpu(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return NIGH_COPY_AVX512;
    return __builtin_cpu_supports("avx2") ? NIGH_COPY_AVX2 : NIGH_COPY_PORTABLE;
}

/* Two threads that both find nothing ask twice and store the same answer: relaxed is enough. */
static int asked_once(int *kept, int (*ask)(void))
{
    int answer = nigh_load_relaxed(kept);

    if (answer < 0) {
        answer = ask();
        nigh_store_relaxed(kept, answer);
    }
    return answer;
}

enum nigh_copy_isa nigh_copy_x86_isa(void)
{
    static int kept = -1;

    return (enum nigh_copy_isa)asked_once(&kept, ask_cpu);
}

static nigh_copy_fn flush_for(enum nigh_copy_isa isa)
{
    static int kept = -1;

    if (!asked_once(&kept, has_clflushopt))
        return NULL;
    return isa == NIGH_COPY_AVX512 ? flush_512 : flush_256;
}

nigh_copy_fn nigh_copy_x86(enum nigh_copy_kernel kernel, enum nigh_copy_isa isa)
{
    int wide = isa == NIGH_COPY_AVX512;

    if (kernel == NIGH_COPY_MOVSB)
        return movsb;
    if (isa == NIGH_COPY_PORTABLE)
        return NULL;
    switch (kernel) {
    case NIGH_COPY_PLAIN:
        return wide ? plain_512 : plain_256;
    case NIGH_COPY_PREFETCHW:
        return wide ? prefetchw_512 : prefetchw_256;
    case NIGH_COPY_NT:
        return wide ? nt_512 : nt_256;
    case NIGH_COPY_FLUSH:
        return flush_for(isa);
    case NIGH_COPY_QUARTERS:
        return wide ? quarters_512 : quarters_256;
    default:
        return NULL;
    }
}

#else
typedef int nigh_copy_x86_is_empty;
#endif

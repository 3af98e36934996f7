/* SPDX-License-Identifier: BSD-3-Clause */
/* A word that two processes hand to each other, alone on its cache line. nigh-perf's barriers and floors need no more,
 * and nothing of the transport: a floor is what is left when there is no protocol. */
#ifndef NIGH_PERF_LINE_H
#define NIGH_PERF_LINE_H

#include <stdbool.h>
#include <stdint.h>

/* What was written before a give is seen after the take that sees it; add is both. */
#define perf_take(p)    __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define perf_give(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define perf_add(p, v)  __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)

/* 128: the adjacent line prefetcher of some CPUs fetches lines in pairs. */
struct perf_line {
    _Alignas(128) uint64_t word;
};

static inline uint64_t perf_line_take(const struct perf_line *line)
{
    return perf_take(&line->word);
}

static inline void perf_line_give(struct perf_line *line, uint64_t word)
{
    perf_give(&line->word, word);
}

/* Spins until the line holds `word` or more: whoever writes it may already be further. Without a pause instruction: it
 * is made for two ranks on cores of their own, and a pause of 40 to 140 cycles is as long as the handoff that is
 * measured. */
static inline void perf_line_await(const struct perf_line *line, uint64_t word)
{
    while (perf_line_take(line) < word)
        ;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/early.h - private memory for messages that come before their receives, kept for the next ones. What malloc has
 * been given back it gives to the kernel, from 128 KiB on, or where the end of its memory is free: then each page of
 * the next message is cleared and mapped anew. 8 ranks on 2 CPUs, Open MPI, messages of 64 KiB in chunks: a reduction
 * 400 us, and 93 with memory that stays. One thread at a time.
 */
#ifndef NIGH_PLUGIN_EARLY_H
#define NIGH_PLUGIN_EARLY_H

#include <stdint.h>

/* Shorter ones are malloc's, longer ones too: they are seldom unasked. Of all that is kept unused together. */
#define NIGH_EARLY_MIN   4096u
#define NIGH_EARLY_MAX   (UINT64_C(1) << 20)
#define NIGH_EARLY_BYTES (UINT64_C(4) << 20)

/* In powers of two. */
#define NIGH_EARLY_SIZES 9u

struct nigh_early {
    void *unused[NIGH_EARLY_SIZES]; /* given back last, first; each names the next */
    uint64_t bytes;                 /* of all these */
};

/* NULL: no memory. */
void *nigh_early_take(struct nigh_early *early, uint64_t bytes);
/* The same for `to` bytes in place of `from`, as which it was taken (NULL, 0: not yet), with the first `used` of what stands
 * there. NULL: no memory, it stays as it is. */
void *nigh_early_grow(struct nigh_early *early, void *memory, uint64_t from, uint64_t to, uint64_t used);
/* With as many bytes as it was taken with; of NULL nothing. */
void nigh_early_give(struct nigh_early *early, void *memory, uint64_t bytes);
/* What is unused; the rest may still be given. */
void nigh_early_clear(struct nigh_early *early);

#endif

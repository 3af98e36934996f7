/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/gpu/nccl/ranks.h - nccl-ranks: ranks of one GPU that call all of NCCL's collectives and compare what comes out. */
#ifndef NIGH_TESTS_NCCL_RANKS_H
#define NIGH_TESTS_NCCL_RANKS_H

#include "tests/gpu/nccl/api.h"
#include "tests/gpu/nccl/call.h"

#include <stdatomic.h>

enum { RANKS_MAX = 16, LIVES_MAX = 8, CANARY = 256, WHY_BYTES = 512, NO_DEVICE = 77 };

struct settings {
    const char *nccl, *cuda;
    int ranks, lives, device, timeout_s;
    size_t most, largest; /* elements that are checked, bytes that are timed */
    bool bench, probe;
};

/* Between the ranks. */
struct shared {
    struct nccl_id ids[LIVES_MAX];
    _Atomic(int) ready; /* so many ids there are */
    _Atomic(int) arrived;
};

struct rank {
    const struct settings *settings;
    struct shared *shared;
    int number, meetings;
    struct nccl nccl;
    struct cuda cuda;
    void *comm, *stream;
    cuda_pointer in, out;
    size_t room; /* of each, in bytes */
    uint8_t *host;
};

/* Prints why, with the rank, and ends it. */
_Noreturn void rank_fail(const struct rank *rank, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void rank_nccl(const struct rank *rank, int result, const char *call);
void rank_cuda(const struct rank *rank, int result, const char *call);
void rank_meet(struct rank *rank);

/* Loads what is needed, takes the device and memory. Ends with NO_DEVICE where there is none. */
void rank_begin(struct rank *rank);
void rank_join(struct rank *rank, int life);

/* True: this NCCL has the call. */
bool rank_has(const struct rank *rank, enum kind kind);
/* Starts a call on the rank's stream. */
void rank_call(struct rank *rank, const struct call *call);
/* All calls, types, operations and counts. Returns how many calls were right; a wrong one ends the rank. */
unsigned rank_check(struct rank *rank);
/* Prints, by rank 0, a row for each call and size. */
void rank_bench(struct rank *rank);

#endif

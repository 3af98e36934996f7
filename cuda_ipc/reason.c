/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/reason.c - see reason.h. */
#include "cuda_ipc/reason.h"

static const char *const texts[] = {
#define TEXT(name, text) text,
    NIGH_CUDA_REASONS(TEXT)
#undef TEXT
};

static const char *const ways[NIGH_CUDA_WAYS] = {"staged", "cuda-vmm", "cuda-pool", "cuda-legacy"};

const char *nigh_cuda_reason_text(enum nigh_cuda_reason reason)
{
    return (unsigned)reason < NIGH_CUDA_REASONS_COUNT ? texts[reason] : "unknown";
}

const char *nigh_cuda_way_name(enum nigh_cuda_way way)
{
    return (unsigned)way < NIGH_CUDA_WAYS ? ways[way] : "unknown";
}

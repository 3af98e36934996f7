/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/about.h - what reports say of a device, and what is known of two before memory goes from one to the other. */
#ifndef NIGH_CUDA_IPC_ABOUT_H
#define NIGH_CUDA_IPC_ABOUT_H

#include "cuda_ipc/domain.h"

struct nigh_cuda_about {
    uint64_t memory_bytes;  /* 0: not known */
    char bus[16], name[64]; /* empty: not known */
};

void nigh_cuda_about(const struct nigh_cuda *cuda, int ordinal, struct nigh_cuda_about *out);

/* A bit for each way that the driver has the calls for, whatever its devices say. */
uint32_t nigh_cuda_callable(const struct nigh_cuda *cuda);

/* Whether a context of device `by` may map memory of device `of`, two ordinals of this process. */
bool nigh_cuda_reaches(const struct nigh_cuda *cuda, int by, int of);

#endif

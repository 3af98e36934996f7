/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/domain.h - device memory of one nigh context: the devices, the CUDA contexts that its buffers belong to, what it
 * exports, and the thread that closes what must not be closed while messages move. Everything else in this folder hangs
 * on a domain. Any thread may call; in a forked child every call answers -ECHILD and touches nothing of CUDA.
 */
#ifndef NIGH_CUDA_IPC_DOMAIN_H
#define NIGH_CUDA_IPC_DOMAIN_H

#include "cuda_ipc/closer.h"
#include "cuda_ipc/driver.h"
#include "cuda_ipc/reason.h"
#include "cuda_ipc/staging.h"

#include <pthread.h>

struct nigh_cuda_device {
    struct nigh_cuda_uuid uuid;
    bool mps;         /* processes share the device through MPS */
    bool mig;         /* it is an instance of a device, without a way to the others' memory */
    bool window;      /* what an attribute promises: windows try it */
    uint32_t offered; /* a bit for each way that the driver's calls and attributes promise: exports try it */
    enum nigh_cuda_reason why; /* the last reason why memory of this device could not be exported */
    uint32_t refused;          /* of these, by which the driver did not export memory that it should have */
    uint32_t worked; /* a bit for each way (enum nigh_cuda_way) by which memory of it was exported */
};

/* What happened, for reports. Counted with the domain's lock held, read without. */
struct nigh_cuda_counts {
    uint64_t exported, imported, evicted, remapped, closed;
};

struct nigh_cuda_options {
    void *staging; /* of nigh_staging_open(); NULL: its own */
    const struct nigh_log_sink
        *log; /* where the closer's lines go, until the domain is closed; NULL: standard error */
};

struct nigh_cuda {
    const struct nigh_driver *driver;
    pthread_mutex_t lock; /* contexts, exports */
    struct nigh_cuda_context *contexts;
    struct nigh_cuda_export *exports;
    uint64_t exports_made;
    struct nigh_cuda_device *devices; /* driver->devices of them */
    uint64_t pid_space;               /* the PID namespace's number; 0: unknown */
    bool wsl;
    struct nigh_cuda_closer closer;
    struct nigh_staging staging;
    struct nigh_cuda_counts counts;
};

/* -ENOTSUP: *why says why there is no CUDA here, a string for ever. -ENOMEM, -ECHILD. Starts the driver: not before a
 * program uses device memory. */
int nigh_cuda_open(const struct nigh_cuda_options *options, struct nigh_cuda **out, const char **why);

/* After all peers, exports and copies of the domain are closed. Waits for the closing thread, which waits for kernels of
 * the host that run. */
void nigh_cuda_close(struct nigh_cuda *cuda);

/* The ordinal of the device with this UUID in this process; -1: it is not visible here. */
int nigh_cuda_device_of(const struct nigh_cuda *cuda, const struct nigh_cuda_uuid *uuid);

void nigh_cuda_count(struct nigh_cuda *cuda, uint64_t *counter);

static inline nigh_cuda_ptr nigh_cuda_ptr_of(const void *memory)
{
    return (nigh_cuda_ptr)(uintptr_t)memory;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/device.h - memory of CUDA devices: whose a pointer is, and copies to and from it. */
#ifndef NIGH_LIBFABRIC_DEVICE_H
#define NIGH_LIBFABRIC_DEVICE_H

#include "hosts/libfabric/cuda.h"

#include <stdbool.h>
#include <stdint.h>

/* Up to here what is not pinned is copied through a slot that is. */
#define NIGH_FI_SLOT_BYTES (UINT64_C(64) << 10)

/* A CUDA context of this process and a stream of ours in it, of a domain. */
struct nigh_fi_device {
    struct nigh_fi_device *next;
    const struct nigh_cuda *cuda;
    void *context, *stream;
    void *slot;            /* NIGH_FI_SLOT_BYTES; NULL: it could not be pinned */
    int ordinal;           /* of the CUDA device */
    bool primary;          /* the context is the device's own, and held by us */
    bool gone;             /* the host has destroyed the context; registrations may still name it */
    bool due;              /* copies of the host's may be under way to memory that was not seen before */
    bool untold;           /* the context should have copies finished when they return, and does not know */
    bool finishes;         /* the context has copies finished when they return */
    unsigned long long id; /* of the context, and 1: another may come to lie in its place. 0: not told */
};

struct nigh_fi_domain;

/* Where `memory` lies: *out, NULL if the CPU may touch it. -FI_EIO: the driver fails, which was
 * logged. The lock is held. */
int nigh_fi_device_of(struct nigh_fi_domain *domain, const void *memory, struct nigh_fi_device **out);
void nigh_fi_devices_close(struct nigh_fi_domain *domain);

static inline nigh_cuda_ptr nigh_fi_device_ptr(const void *memory)
{
    return (nigh_cuda_ptr)(uintptr_t)memory;
}

/* Makes the context current, and not; *mode is for leave(). -FI_EIO. */
int nigh_fi_device_enter(struct nigh_fi_device *device, int *mode);
int nigh_fi_device_leave(const struct nigh_fi_device *device, int mode);
/* The context is current. Lets copies of the host's that have returned come to their end. */
void nigh_fi_device_settle(struct nigh_fi_device *device);

/*
 * Copies, done on return. They run on a stream that waits for none of the host's: a kernel that waits for a message
 * does not hold up its arrival, and what a host has its device write it must have finished before it sends, as ever.
 * `pinned`: the memory that is not the device's is. -FI_EIO: the driver fails, which was logged.
 */
int nigh_fi_device_read(struct nigh_fi_device *device, void *to, const void *from, size_t bytes, bool pinned);
int nigh_fi_device_write(struct nigh_fi_device *device, void *to, const void *from, size_t bytes,
                         bool pinned);

/* Memory of the host that the device copies from and to at full speed. */
int nigh_fi_device_pin(struct nigh_fi_device *device, void *memory, size_t bytes);
void nigh_fi_device_unpin(struct nigh_fi_device *device, void *memory);

#endif

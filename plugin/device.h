/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/device.h - regions in the memory of a CUDA device. Whose memory a buffer is is found out when it is registered;
 * its bytes then move by copies on streams of ours (cuda_ipc/copy.h), as a host's copies do (NIGH_REGISTER_COPIES).
 */
#ifndef NIGH_PLUGIN_DEVICE_H
#define NIGH_PLUGIN_DEVICE_H

#include "cuda_ipc/seen.h"

#include <stdbool.h>
#include <stdint.h>

struct nigh_context;
struct nigh_device_buffer;
struct nigh_device_window;
struct nigh_cuda;
struct nigh_cuda_memory;
struct nigh_region;

/* Of a context. The driver is started by the first region that may lie on a device, and by questions for devices. */
struct nigh_devices {
    struct nigh_cuda *cuda;             /* NULL: not started, or there is none */
    struct nigh_cuda_seen seen;         /* of memory that is sent unregistered; with `cuda` */
    struct nigh_device_window *windows; /* of regions that the CPU stores to: device_store.h */
    uint32_t copies; /* of messages that are under way: who sleeps would not see their end */
    bool scarce;     /* a pass left something that the next one is to try again */
    bool listens; /* a message refers to memory that is not brought yet: look for parcels behind this pass */
    uint32_t
        silences; /* looks that found nothing more to hear: what was named before and is not there was lost */
};

/*
 * *out is NULL for memory of the host, and where the process has no driver, or that no device: there is no device memory then.
 * Freed with free(). -ENOTSUP NIGH_CUDA=off, or there is a driver that does not start; -EFAULT the range has a hole; -EXDEV it
 * lies on several devices, or in part in the host's memory; -EIO the driver fails; -ECHILD a forked child asks; -ENOMEM. All
 * logged but the last.
 */
int nigh_device_look(struct nigh_context *context, const char *call, const void *buffer, uint64_t bytes,
                     struct nigh_cuda_memory **out);
/*
 * Whose memory the buffer of a post with NIGH_DEVICE is: out->cuda is NULL for the host's. A region says so, else it is looked up
 * as above, with the same errors. -ERANGE: it lies outside of its region; logged.
 */
int nigh_device_find(struct nigh_context *context, const char *call, const struct nigh_region *region,
                     const void *buffer, uint64_t bytes, struct nigh_device_buffer *out);
/* Starts the driver where the program has loaded it, and tells peers of its devices. context->devices.cuda is NULL if there is none.
 * -ENOTSUP: it does not start, *why says why. -ENOMEM, -ECHILD, else the driver fails, logged. */
int nigh_device_start(struct nigh_context *context, const char **why);
/* The table's copy_device(). */
int nigh_entry_copy_device(struct nigh_context *context, const struct nigh_region *region, void *buffer,
                           void *host, uint64_t bytes, uint32_t way);
/* A region on a device has been registered: how its bytes move. */
void nigh_device_region_add(struct nigh_context *context, struct nigh_region *region);
/* No region is left. */
void nigh_devices_close(struct nigh_devices *devices);

#endif

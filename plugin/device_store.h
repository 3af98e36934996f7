/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/device_store.h - short bytes for the memory of a registered region on a device are stored there by the CPU, where the driver maps
 * it (cuda_ipc/window.h): without an engine, an event or the process' turn on the device.
 */
#ifndef NIGH_PLUGIN_DEVICE_STORE_H
#define NIGH_PLUGIN_DEVICE_STORE_H

#include <stdbool.h>
#include <stdint.h>

struct nigh_context;
struct nigh_device_buffer;
struct nigh_device_window;
struct nigh_devices;
struct nigh_region;

/* A region on a device that has been registered. Tries to map it, and sets region->stores where that worked; may wait. */
void nigh_device_store_open(struct nigh_context *context, struct nigh_region *region);
/* Before it is freed. */
void nigh_device_store_close(struct nigh_context *context, struct nigh_region *region);
/* Of all regions. */
void nigh_device_stores_close(struct nigh_devices *devices);

/* Stores bytes at `offset` of the buffer. False: they are too many, no window has them, or a copy of the host's that they must not overtake
 * may be on its way there: copy them. */
bool nigh_device_store(struct nigh_context *context, const struct nigh_device_buffer *buffer, uint64_t offset,
                       const void *from, uint64_t bytes);

#endif

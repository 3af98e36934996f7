/* SPDX-License-Identifier: BSD-3-Clause */
/* The buffers of a peer's rank on CUDA devices. The bytes go there from a mirror in the host's memory, and are looked at in it. */
#ifndef NIGH_TOOLS_PERF_PEER_DEVICE_H
#define NIGH_TOOLS_PERF_PEER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* Opens the devices of "SENDER,RECEIVER" (cuda_sides.h) in this process and leaves a context current: before the peer starts, as it may
 * look for one. NULL, or what failed. */
const char *peer_device_open(const char *sides);

/* Is the memory that this rank sends from, or receives into, on a device? */
bool peer_device_sends(void);
bool peer_device_receives(void);

/* New buffers of so many bytes in place of those from before; of a side in the host's memory, *out or *in stays. Returns 0, or -1 after
 * having said on stderr what failed. */
int peer_device_grow(size_t bytes, unsigned char **out, unsigned char **in);

/* As long as the buffers. */
unsigned char *peer_device_mirror(void);

/* The first bytes: from the mirror to the buffer that is sent, and from the one that has been received to the mirror. Return when they are
 * there; end the process where the driver fails. */
void peer_device_put(size_t bytes);
void peer_device_get(size_t bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/device_buffer.h - buffers of a pair's sides that lie on a device of the fake CUDA driver, or in the host's memory, and
 * posts that do not say which. */
#ifndef NIGH_TESTS_DEVICE_BUFFER_H
#define NIGH_TESTS_DEVICE_BUFFER_H

#include "tests/support/pair.h"
#include "tests/support/test_cuda.h"

/* of a case's number: which sides are on a device, which kind of memory */
#define SENDER     1u
#define RECEIVER   2u
#define KIND(kind) ((uint64_t)(kind) << 8)

/* NULL before device_load(), which loads it once in a process; buffers on a device do. */
extern const struct test_cuda *cuda;
void device_load(void);

struct buffer {
    uint8_t *at;
    uint64_t bytes;
    bool on_device;
};

struct buffer buffer_make(struct pair *pair, unsigned side, uint64_t bytes);
void buffer_fill(struct buffer *buffer, uint64_t bytes, uint64_t seed);
/* From `at` on there are `bytes` of seed. */
void buffer_check(const struct buffer *buffer, uint64_t at, uint64_t bytes, uint64_t seed);
void buffer_drop(struct buffer *buffer);

/* Waits until both sides are connected; then the driver's work begins as late as the case's data says, if it has any. */
void device_ready(struct pair *pair);
/* The second side posts to its buffer and takes that back: the first side knows its device then. */
void device_say(struct pair *pair, const struct buffer *to);
/* Both sides have come here; each drops its buffer. */
void device_end(struct pair *pair, struct buffer *from, struct buffer *to);

/* The first side's, with NIGH_DEVICE; it must succeed. */
void buffer_send(struct pair *pair, struct buffer *buffer, uint64_t bytes, uint64_t tag, uint32_t flags,
                 uint64_t context);
/* The second side's. */
void buffer_recv(struct pair *pair, const struct buffer *buffer, uint64_t bytes, uint64_t tag,
                 uint64_t context);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/fi_device.h - buffers on a CUDA device, the fake one or a real one, and what they hold. */
#ifndef NIGH_TESTS_FI_DEVICE_H
#define NIGH_TESTS_FI_DEVICE_H

#include "tests/support/fi.h"
#include "tests/support/test_cuda.h"

#define DEVICE_CAPS \
    (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE | FI_HMEM)

extern const struct test_cuda *cuda;

/* Makes the fake the driver of this process, or, with NIGH_TEST_GPU set, the machine's own behind
 * tests/gpu/real_cuda.c. Ends the program with 77 where it has no device. */
void device_find(void);

/* Device memory and its descriptor; NULL where endpoints find out by themselves. */
struct device_buffer {
    char *at;
    size_t bytes;
    struct fid_mr *mr;
    void *desc;
};

/* `registered`: as FI_MR_HMEM wants it. */
void device_open(struct fi_lab *lab, struct device_buffer *buffer, enum cuda_memory kind, size_t bytes,
                 bool registered);
void device_close(struct device_buffer *buffer);

/* The bytes of a message numbered `seed`: written there, and whether they are there. */
void device_fill(const struct device_buffer *buffer, size_t offset, size_t bytes, unsigned seed);
void device_clear(const struct device_buffer *buffer);
void device_holds(const struct device_buffer *buffer, size_t offset, size_t bytes, unsigned seed);
void host_fill(char *at, size_t bytes, unsigned seed);
void host_holds(const char *at, size_t bytes, unsigned seed);

#endif

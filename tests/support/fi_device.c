/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/fi_device.c - see fi_device.h. */
#include "tests/support/fi_device.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct test_cuda *cuda;

/* The machine's own driver under NIGH_TEST_GPU, else the fake. */
void device_find(void)
{
    const char *build = getenv("NIGH_BUILDDIR"), *folder = getenv("NIGH_TEST_GPU") ? "gpu" : "support";
    char path[4096];
    void *object;

    snprintf(path, sizeof(path), "%s/tests/%s/.libs/libcuda.so.1", build ? build : ".", folder);
    object = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    cuda = object ? dlsym(object, TEST_CUDA_SYMBOL) : NULL;
    if (!cuda) {
        printf("cannot load %s: %s\n", path, dlerror());
        exit(1);
    }
    if (cuda->device() >= 0)
        return;
    printf("skipped: this machine has no CUDA device\n");
    exit(77);
}

void device_open(struct fi_lab *lab, struct device_buffer *buffer, enum cuda_memory kind, size_t bytes,
                 bool registered)
{
    *buffer = (struct device_buffer){.at = cuda->alloc(kind, cuda->device(), bytes), .bytes = bytes};
    if (registered) {
        struct iovec iov = {buffer->at, bytes};
        struct fi_mr_attr attr = {.mr_iov = &iov,
                                  .iov_count = 1,
                                  .access = FI_SEND | FI_RECV | FI_READ | FI_WRITE,
                                  .requested_key = (uintptr_t)buffer->at >> 12,
                                  .iface = FI_HMEM_CUDA,
                                  .device.cuda = cuda->device()};

        FI_OK(fi_mr_regattr(lab->domain, &attr, 0, &buffer->mr));
        buffer->desc = fi_mr_desc(buffer->mr);
    }
    device_clear(buffer);
}

void device_close(struct device_buffer *buffer)
{
    if (buffer->mr)
        FI_OK(fi_close(&buffer->mr->fid));
    if (buffer->at)
        cuda->free(buffer->at);
    *buffer = (struct device_buffer){0};
}

void host_fill(char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(i * 7 + i / 251 + seed);
}

void host_holds(const char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (char)(i * 7 + i / 251 + seed))
            fail_msg("byte %zu of %zu is %d, not %d", i, bytes, at[i], (char)(i * 7 + i / 251 + seed));
}

void device_fill(const struct device_buffer *buffer, size_t offset, size_t bytes, unsigned seed)
{
    char *copy = malloc(bytes + 1);

    host_fill(copy, bytes, seed);
    cuda->put(buffer->at + offset, copy, bytes);
    free(copy);
}

void device_clear(const struct device_buffer *buffer)
{
    char *copy = malloc(buffer->bytes);

    memset(copy, 0x55, buffer->bytes);
    cuda->put(buffer->at, copy, buffer->bytes);
    free(copy);
}

/* And 0x55 behind them. */
void device_holds(const struct device_buffer *buffer, size_t offset, size_t bytes, unsigned seed)
{
    bool more = offset + bytes < buffer->bytes;
    char *copy = malloc(bytes + 1);

    cuda->get(copy, buffer->at + offset, bytes + more);
    host_holds(copy, bytes, seed);
    if (more)
        assert_int_equal(copy[bytes], 0x55);
    free(copy);
}

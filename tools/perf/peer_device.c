/* SPDX-License-Identifier: BSD-3-Clause */
/* See peer_device.h. */
#include "tools/perf/peer_device.h"

#include "tools/perf/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

static struct {
    struct perf_cuda_sides sides;
    struct perf_cuda cuda;
    struct perf_cuda_buffer out, in;
    unsigned char *mirror;
    size_t bytes; /* of each */
} devices;

static int said(int rc)
{
    if (rc)
        fprintf(stderr, "peer: buffers on CUDA devices: %s\n", devices.cuda.why);
    return rc ? -1 : 0;
}

const char *peer_device_open(const char *sides)
{
    if (perf_cuda_sides_parse(sides, &devices.sides))
        return "--cuda wants SENDER,RECEIVER, of which one is on a device";
    return perf_cuda_open(&devices.cuda, &devices.sides) ? devices.cuda.why : NULL;
}

bool peer_device_sends(void)
{
    return devices.cuda.devices > 0 && devices.sides.from.kind != PERF_CUDA_HOST;
}

bool peer_device_receives(void)
{
    return devices.cuda.devices > 0 && devices.sides.to.kind != PERF_CUDA_HOST;
}

static int anew(const struct perf_cuda_side *side, struct perf_cuda_buffer *buffer, unsigned char **at)
{
    int rc = perf_cuda_free(&devices.cuda, buffer);

    if (rc == 0 && side->kind != PERF_CUDA_HOST) {
        rc = perf_cuda_alloc(&devices.cuda, side, devices.bytes, buffer);
        *at = (unsigned char *)(uintptr_t)buffer->at;
    }
    return rc;
}

static int mirror_anew(size_t bytes)
{
    int rc = devices.mirror ? perf_cuda_unpin(&devices.cuda, devices.mirror) : 0;

    if (rc)
        return rc;
    if (devices.mirror)
        munmap(devices.mirror, devices.bytes);
    devices.bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    devices.mirror =
        mmap(NULL, devices.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (devices.mirror == MAP_FAILED) {
        devices.mirror = NULL;
        snprintf(devices.cuda.why, sizeof devices.cuda.why, "no memory for %zu bytes in the host",
                 devices.bytes);
        return -ENOMEM;
    }
    return perf_cuda_pin(&devices.cuda, devices.mirror, devices.bytes);
}

int peer_device_grow(size_t bytes, unsigned char **out, unsigned char **in)
{
    int rc;

    if (devices.cuda.devices == 0)
        return 0;
    rc = mirror_anew(bytes);
    if (rc == 0)
        rc = anew(&devices.sides.from, &devices.out, out);
    if (rc == 0)
        rc = anew(&devices.sides.to, &devices.in, in);
    return said(rc);
}

unsigned char *peer_device_mirror(void)
{
    return devices.mirror;
}

static void must(int rc)
{
    if (said(rc))
        _exit(1);
}

void peer_device_put(size_t bytes)
{
    must(perf_cuda_put(&devices.cuda, &devices.out, devices.mirror, bytes));
}

void peer_device_get(size_t bytes)
{
    must(perf_cuda_get(&devices.cuda, devices.mirror, &devices.in, bytes));
}

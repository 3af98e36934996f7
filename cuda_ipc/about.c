/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/about.c - see about.h. */
#include "cuda_ipc/about.h"

#include <string.h>

void nigh_cuda_about(const struct nigh_cuda *cuda, int ordinal, struct nigh_cuda_about *out)
{
    const struct nigh_driver *driver = cuda->driver;
    size_t bytes = 0;
    int device;

    memset(out, 0, sizeof(*out));
    if (!driver->device_name || driver->device_get(&device, ordinal))
        return;
    if (driver->device_memory(&bytes, device) == 0)
        out->memory_bytes = bytes;
    if (driver->device_bus(out->bus, sizeof(out->bus), device))
        out->bus[0] = '\0';
    if (driver->device_name(out->name, sizeof(out->name), device))
        out->name[0] = '\0';
    out->bus[sizeof(out->bus) - 1] = out->name[sizeof(out->name) - 1] = '\0';
}

uint32_t nigh_cuda_callable(const struct nigh_cuda *cuda)
{
    return (cuda->driver->export_handle ? 1u << NIGH_CUDA_VMM : 0) |
           (cuda->driver->pool_export ? 1u << NIGH_CUDA_POOL : 0) |
           (cuda->driver->ipc_get ? 1u << NIGH_CUDA_LEGACY : 0);
}

bool nigh_cuda_reaches(const struct nigh_cuda *cuda, int by, int of)
{
    const struct nigh_driver *driver = cuda->driver;
    int mapper, owner, can = 0;

    if (by == of)
        return true;
    return driver->device_get(&mapper, by) == 0 && driver->device_get(&owner, of) == 0 &&
           driver->can_access_peer(&can, mapper, owner) == 0 && can;
}

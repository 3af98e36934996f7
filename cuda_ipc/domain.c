/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/domain.c - see domain.h. */
#include "cuda_ipc/domain.h"
#include "cuda_ipc/context.h"
#include "shm/os.h"
#include "shm/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t find_pid_space(void)
{
    int fd = nigh_os.open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC, 0);
    struct stat stat;
    uint64_t space = fd >= 0 && nigh_os.fstat(fd, &stat) == 0 ? stat.st_ino : 0;

    nigh_os_close(fd);
    return space;
}

static bool find_wsl(void)
{
    int fd = nigh_os.open("/proc/sys/kernel/osrelease", O_RDONLY | O_CLOEXEC, 0);
    char text[128] = "";
    ssize_t bytes = fd >= 0 ? nigh_os.read(fd, text, sizeof(text) - 1) : 0;

    nigh_os_close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    return strcasestr(text, "microsoft") != NULL;
}

static bool has(const struct nigh_driver *driver, int device, int attribute)
{
    int value = 0;

    return driver->device_attribute(&value, attribute, device) == 0 && value;
}

static int read_uuid(const struct nigh_driver *driver, int device, struct nigh_cuda_uuid *out)
{
    if (driver->instance_uuid && driver->instance_uuid(out, device) == 0)
        return 0;
    return driver->device_uuid ? driver->device_uuid(out, device) : NIGH_CUDA_NOT_SUPPORTED;
}

/* An instance has a UUID of its own besides that of the device. */
static bool is_instance(const struct nigh_driver *driver, int device, const struct nigh_cuda_uuid *uuid)
{
    struct nigh_cuda_uuid whole;

    return driver->device_uuid && driver->device_uuid(&whole, device) == 0 &&
           memcmp(&whole, uuid, sizeof(whole)) != 0;
}

static uint32_t offered(const struct nigh_driver *driver, int device)
{
    uint32_t ways = driver->ipc_get ? 1u << NIGH_CUDA_LEGACY : 0;
    int types = 0;

    if (driver->export_handle && has(driver, device, NIGH_CUDA_DEVICE_POSIX_FD))
        ways |= 1u << NIGH_CUDA_VMM;
    if (driver->pool_export &&
        driver->device_attribute(&types, NIGH_CUDA_DEVICE_POOL_HANDLE_TYPES, device) == 0 &&
        types & NIGH_CUDA_HANDLE_POSIX_FD)
        ways |= 1u << NIGH_CUDA_POOL;
    return ways;
}

static int look_at(const struct nigh_driver *driver, int ordinal, struct nigh_cuda_device *out)
{
    int device, result = driver->device_get(&device, ordinal);

    if (!result)
        result = read_uuid(driver, device, &out->uuid);
    if (result)
        return nigh_driver_check(driver, "cuDeviceGetUuid", result);
    out->mig = is_instance(driver, device, &out->uuid);
    out->window = has(driver, device, NIGH_CUDA_DEVICE_DMA_BUF_MMAP);
    out->mps = has(driver, device, NIGH_CUDA_DEVICE_MPS);
    out->offered = offered(driver, device);
    return 0;
}

int nigh_cuda_open(const struct nigh_cuda_options *options, struct nigh_cuda **out, const char **why)
{
    const struct nigh_driver *driver = nigh_driver_open(why);
    struct nigh_cuda *cuda;
    int rc = 0;

    if (!driver)
        return nigh_driver_is_forked() ? -ECHILD : -ENOTSUP;
    cuda = nigh_os.calloc(1, sizeof(*cuda));
    if (!cuda)
        return -ENOMEM;
    cuda->driver = driver;
    cuda->devices = nigh_os.calloc((size_t)driver->devices, sizeof(*cuda->devices));
    if (!cuda->devices)
        rc = -ENOMEM;
    for (int i = 0; i < driver->devices && !rc; i++)
        rc = look_at(driver, i, &cuda->devices[i]);
    if (!rc)
        rc = nigh_staging_open(&cuda->staging, options->staging);
    if (rc) {
        *why = "a CUDA device cannot be identified";
        free(cuda->devices);
        free(cuda);
        return rc;
    }
    pthread_mutex_init(&cuda->lock, NULL);
    nigh_cuda_closer_begin(&cuda->closer, options->log);
    cuda->pid_space = find_pid_space();
    cuda->wsl = find_wsl();
    *out = cuda;
    return 0;
}

void nigh_cuda_close(struct nigh_cuda *cuda)
{
    nigh_cuda_closer_end(&cuda->closer);
    nigh_staging_close(&cuda->staging);
    nigh_cuda_contexts_close(cuda);
    free(cuda->devices);
    free(cuda);
}

int nigh_cuda_device_of(const struct nigh_cuda *cuda, const struct nigh_cuda_uuid *uuid)
{
    for (int i = 0; i < cuda->driver->devices; i++)
        if (memcmp(&cuda->devices[i].uuid, uuid, sizeof(*uuid)) == 0)
            return i;
    return -1;
}

void nigh_cuda_count(struct nigh_cuda *cuda, uint64_t *counter)
{
    pthread_mutex_lock(&cuda->lock);
    nigh_store_relaxed(counter, *counter + 1);
    pthread_mutex_unlock(&cuda->lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/device.c - see device.h. */
#include "hosts/libfabric/provider.h"

#include "hosts/libfabric/device.h"
#include "hosts/libfabric/log.h"

#include <stdlib.h>

static nigh_cuda_ptr ptr(const void *memory)
{
    return (nigh_cuda_ptr)(uintptr_t)memory;
}

/* ---- contexts ------------------------------------------------------------------------------------------ */

static unsigned long long id_of(const struct nigh_cuda *cuda, void *context)
{
    unsigned long long id = 0;

    return cuda->context_id && cuda->context_id(context, &id) == 0 ? id + 1 : 0;
}

/* Our stream went with its context, and must not be touched. */
static bool is_gone(struct nigh_fi_device *device)
{
    device->gone |= device->id && id_of(device->cuda, device->context) != device->id;
    return device->gone;
}

static int enter(struct nigh_fi_device *device)
{
    int result;

    if (is_gone(device)) {
        nigh_fi_log(NIGH_FI_WARN, "CUDA: the context that a buffer of device %d lay in was destroyed",
                    device->ordinal);
        return -FI_EIO;
    }
    result = device->cuda->push(device->context);
    device->gone = result == NIGH_CUDA_INVALID_CONTEXT || result == NIGH_CUDA_DESTROYED;
    return nigh_cuda_check(device->cuda, "cuCtxPushCurrent", result);
}

static int leave(const struct nigh_fi_device *device)
{
    void *context;

    return nigh_cuda_check(device->cuda, "cuCtxPopCurrent", device->cuda->pop(&context));
}

static int open_stream(struct nigh_fi_device *device)
{
    int rc = enter(device), left;

    if (rc)
        return rc;
    rc = nigh_cuda_check(device->cuda, "cuStreamCreate",
                         device->cuda->stream_create(&device->stream, NIGH_CUDA_NON_BLOCKING));
    left = leave(device);
    return rc ? rc : left;
}

static void close_device(struct nigh_fi_device *device)
{
    if (device->stream && !is_gone(device) && enter(device) == 0) {
        nigh_cuda_check(device->cuda, "cuStreamDestroy", device->cuda->stream_destroy(device->stream));
        leave(device);
    }
    if (device->primary)
        nigh_cuda_check(device->cuda, "cuDevicePrimaryCtxRelease",
                        device->cuda->primary_release(device->ordinal));
    free(device);
}

/* `context` NULL: memory that belongs to none, as what is mapped piece by piece; the device's own will do. */
static int open_device(struct nigh_fi_domain *domain, void *context, int ordinal, struct nigh_fi_device **out)
{
    struct nigh_fi_device *device = calloc(1, sizeof(*device));
    int rc = 0;

    if (!device)
        return -FI_ENOMEM;
    device->cuda = domain->cuda;
    device->context = context;
    device->ordinal = ordinal;
    if (!context) {
        rc = nigh_cuda_check(domain->cuda, "cuDevicePrimaryCtxRetain",
                             domain->cuda->primary_retain(&device->context, ordinal));
        device->primary = !rc;
    }
    if (!rc) {
        device->id = id_of(device->cuda, device->context);
        rc = open_stream(device);
    }
    if (rc) {
        close_device(device);
        return rc;
    }
    device->next = domain->devices;
    domain->devices = device;
    *out = device;
    return 0;
}

static int find(struct nigh_fi_domain *domain, void *context, int ordinal, struct nigh_fi_device **out)
{
    for (struct nigh_fi_device *device = domain->devices; device; device = device->next)
        if ((context ? device->context == context : device->primary && device->ordinal == ordinal) &&
            !is_gone(device)) {
            *out = device;
            return 0;
        }
    return open_device(domain, context, ordinal, out);
}

int nigh_fi_device_of(struct nigh_fi_domain *domain, const void *memory, struct nigh_fi_device **out)
{
    int attributes[] = {NIGH_CUDA_CONTEXT, NIGH_CUDA_MEMORY_TYPE, NIGH_CUDA_ORDINAL};
    unsigned type = 0, one = 1;
    int ordinal = -1;
    void *context = NULL, *values[] = {&context, &type, &ordinal};
    int rc = nigh_cuda_check(domain->cuda, "cuPointerGetAttributes",
                             domain->cuda->pointer_attributes(3, attributes, values, ptr(memory)));

    if (rc)
        return rc;
    if (type != NIGH_CUDA_TYPE_DEVICE) {
        *out = NULL;
        return 0;
    }
    /* Else the host's own copies to it may still be under way when it calls us. Memory that is mapped piece by piece
     * does not have it, and its copies need it not. */
    if (domain->cuda->pointer_set(&one, NIGH_CUDA_SYNC_MEMOPS, ptr(memory)))
        nigh_fi_log(NIGH_FI_DEBUG, "device memory at %p cannot be told to finish the host's copies", memory);
    return find(domain, context, ordinal, out);
}

void nigh_fi_devices_close(struct nigh_fi_domain *domain)
{
    struct nigh_fi_device *next;

    for (; domain->devices; domain->devices = next) {
        next = domain->devices->next;
        close_device(domain->devices);
    }
}

/* ---- copies -------------------------------------------------------------------------------------------- */

/* After the copy was asked for: waits for it. */
static int finish(const struct nigh_fi_device *device, int rc)
{
    int left;

    if (!rc)
        rc = nigh_cuda_check(device->cuda, "cuStreamSynchronize", device->cuda->stream_wait(device->stream));
    left = leave(device);
    return rc ? rc : left;
}

int nigh_fi_device_read(struct nigh_fi_device *device, void *to, const void *from, size_t bytes)
{
    int rc = bytes ? enter(device) : 0;

    if (rc || !bytes)
        return rc;
    rc = device->cuda->to_host(to, ptr(from), bytes, device->stream);
    return finish(device, nigh_cuda_check(device->cuda, "cuMemcpyDtoHAsync", rc));
}

int nigh_fi_device_write(struct nigh_fi_device *device, void *to, const void *from, size_t bytes)
{
    int rc = bytes ? enter(device) : 0;

    if (rc || !bytes)
        return rc;
    rc = device->cuda->to_device(ptr(to), from, bytes, device->stream);
    return finish(device, nigh_cuda_check(device->cuda, "cuMemcpyHtoDAsync", rc));
}

int nigh_fi_device_pin(struct nigh_fi_device *device, void *memory, size_t bytes)
{
    int rc = enter(device), left;

    if (rc)
        return rc;
    rc = nigh_cuda_check(device->cuda, "cuMemHostRegister",
                         device->cuda->pin(memory, bytes, NIGH_CUDA_PORTABLE));
    left = leave(device);
    return rc ? rc : left;
}

void nigh_fi_device_unpin(struct nigh_fi_device *device, void *memory)
{
    if (is_gone(device) || enter(device))
        return;
    nigh_cuda_check(device->cuda, "cuMemHostUnregister", device->cuda->unpin(memory));
    leave(device);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/device.c - see device.h. */
#include "hosts/libfabric/provider.h"

#include "hosts/libfabric/device.h"
#include "hosts/libfabric/log.h"

#include <stdlib.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
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

/*
 * While the host captures a graph, the driver refuses its threads much of what touches other streams, ours too, and the
 * graph is void for having been asked; so our calls are made in a mode in which it does neither. *mode is for
 * put_back().
 */
static int relax(const struct nigh_cuda *cuda, int *mode)
{
    *mode = NIGH_CUDA_RELAXED;
    return nigh_cuda_check(cuda, "cuThreadExchangeStreamCaptureMode", cuda->exchange_capture_mode(mode));
}

static int put_back(const struct nigh_cuda *cuda, int mode)
{
    return nigh_cuda_check(cuda, "cuThreadExchangeStreamCaptureMode", cuda->exchange_capture_mode(&mode));
}

int nigh_fi_device_enter(struct nigh_fi_device *device, int *mode)
{
    const struct nigh_cuda *cuda = device->cuda;
    void *context;
    int result;

    if (is_gone(device)) {
        nigh_fi_log(NIGH_FI_WARN, "CUDA: the context that a buffer of device %d lay in was destroyed",
                    device->ordinal);
        return -FI_EIO;
    }
    result = cuda->push(device->context);
    device->gone = result == NIGH_CUDA_INVALID_CONTEXT || result == NIGH_CUDA_DESTROYED;
    if (result)
        return nigh_cuda_check(cuda, "cuCtxPushCurrent", result);
    result = relax(cuda, mode);
    if (result)
        cuda->pop(&context);
    return result;
}

int nigh_fi_device_leave(const struct nigh_fi_device *device, int mode)
{
    const struct nigh_cuda *cuda = device->cuda;
    void *context;
    int rc = put_back(cuda, mode), popped = nigh_cuda_check(cuda, "cuCtxPopCurrent", cuda->pop(&context));

    return rc ? rc : popped;
}

/* Without a slot short copies are slower, not wrong. */
static void open_slot(struct nigh_fi_device *device)
{
    const struct nigh_cuda *cuda = device->cuda;
    void *slot;

    if (posix_memalign(&slot, 4096, NIGH_FI_SLOT_BYTES))
        return;
    if (nigh_cuda_check(cuda, "cuMemHostRegister", cuda->pin(slot, NIGH_FI_SLOT_BYTES, NIGH_CUDA_PORTABLE)))
        free(slot);
    else
        device->slot = slot;
}

static int open_stream(struct nigh_fi_device *device)
{
    int mode, left, rc = nigh_fi_device_enter(device, &mode);

    if (rc)
        return rc;
    rc = nigh_cuda_check(device->cuda, "cuStreamCreate",
                         device->cuda->stream_create(&device->stream, NIGH_CUDA_NON_BLOCKING));
    if (!rc)
        open_slot(device);
    left = nigh_fi_device_leave(device, mode);
    return rc ? rc : left;
}

/* What belonged to a context that is gone went with it. */
static void close_stream(struct nigh_fi_device *device)
{
    const struct nigh_cuda *cuda = device->cuda;
    int mode;

    if (!device->stream || is_gone(device) || nigh_fi_device_enter(device, &mode))
        return;
    if (device->slot)
        nigh_cuda_check(cuda, "cuMemHostUnregister", cuda->unpin(device->slot));
    nigh_cuda_check(cuda, "cuStreamDestroy", cuda->stream_destroy(device->stream));
    nigh_fi_device_leave(device, mode);
}

static void close_device(struct nigh_fi_device *device)
{
    close_stream(device);
    free(device->slot);
    if (device->primary)
        nigh_cuda_check(device->cuda, "cuDevicePrimaryCtxRelease",
                        device->cuda->primary_release(device->ordinal));
    free(device);
}

/* `context` NULL: the device's own. */
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

/* ---- whose memory is this ------------------------------------------------------------------------------- */

/*
 * A host that has copied to memory and then sends it means what it has copied. But the driver's calls that copy from
 * memory that is not pinned return before the last bytes are there, unless memory or the context that they are made in
 * says otherwise: without, of 400 copies of 64 KiB to an H100 that were sent at once 394 were sent too early. Memory
 * that is mapped piece by piece cannot say so (801), its context can.
 *
 * Neither waits for the copies that are under way, and telling the context waits for all that its legacy stream does,
 * which may be a kernel that waits for the message. So before the next copy of ours that stream is looked at, for a
 * while: either it comes to rest, and the context can be told, or what keeps it busy are kernels, as copies that have
 * returned take microseconds and those that wait for kernels do not return. While a graph is captured it may not be
 * asked, and only the time is waited for. A context that could not be told is looked at before each copy, which is as
 * good, and slower.
 */
#define SETTLE_NS UINT64_C(2000000)

/* The context is current. True: the stream is at rest. */
static bool comes_to_rest(const struct nigh_cuda *cuda)
{
    uint64_t end = now_ns() + SETTLE_NS;
    int status = 0, result;
    bool captured = cuda->is_capturing(NULL, &status) || status;

    do
        result = captured ? NIGH_CUDA_NOT_READY : cuda->stream_query(NULL);
    while (result == NIGH_CUDA_NOT_READY && now_ns() < end);
    return result == 0;
}

static bool tell_context(const struct nigh_cuda *cuda)
{
    unsigned flags = 0;

    return cuda->set_flags && cuda->get_flags(&flags) == 0 &&
           (flags & NIGH_CUDA_FINISHES || cuda->set_flags(flags | NIGH_CUDA_FINISHES) == 0);
}

void nigh_fi_device_settle(struct nigh_fi_device *device)
{
    bool rests = comes_to_rest(device->cuda);

    device->due = false;
    if (rests && device->untold && tell_context(device->cuda)) {
        device->finishes = true;
        device->untold = false;
    }
}

/* Memory that is seen for the first time. */
static void finish_copies(struct nigh_fi_device *device, const void *memory)
{
    unsigned one = 1;

    if (device->finishes)
        return;
    device->due = true;
    if (device->cuda->pointer_set(&one, NIGH_CUDA_SYNC_MEMOPS, nigh_fi_device_ptr(memory)))
        device->untold = true;
}

/* Memory that was mapped piece by piece, or comes from a pool, belongs to no context: the one that the host works in
 * now will do, if it is of that device. */
static void *context_for(const struct nigh_cuda *cuda, int ordinal)
{
    void *context = NULL;
    int its = -1;

    if (cuda->current(&context) || !context || cuda->current_device(&its) || its != ordinal)
        return NULL;
    return context;
}

/* `told`: memory that has been told to have copies finished. */
static int device_at(struct nigh_fi_domain *domain, const void *memory, void *context, int ordinal, bool told,
                     struct nigh_fi_device **out)
{
    struct nigh_fi_device *device = NULL;
    int mode, left, rc = relax(domain->cuda, &mode);

    if (rc)
        return rc;
    rc = find(domain, context ? context : context_for(domain->cuda, ordinal), ordinal, &device);
    if (!rc && !told)
        finish_copies(device, memory);
    left = put_back(domain->cuda, mode);
    rc = rc ? rc : left;
    if (!rc)
        *out = device;
    return rc;
}

int nigh_fi_device_of(struct nigh_fi_domain *domain, const void *memory, struct nigh_fi_device **out)
{
    int attributes[] = {NIGH_CUDA_CONTEXT, NIGH_CUDA_MEMORY_TYPE, NIGH_CUDA_ORDINAL, NIGH_CUDA_SYNC_MEMOPS};
    unsigned type = 0, told = 0;
    int ordinal = -1;
    void *context = NULL, *values[] = {&context, &type, &ordinal, &told};
    int rc =
        nigh_cuda_check(domain->cuda, "cuPointerGetAttributes",
                        domain->cuda->pointer_attributes(4, attributes, values, nigh_fi_device_ptr(memory)));

    if (rc)
        return rc;
    if (type == NIGH_CUDA_TYPE_DEVICE)
        return device_at(domain, memory, context, ordinal, told, out);
    *out = NULL;
    return 0;
}

void nigh_fi_devices_close(struct nigh_fi_domain *domain)
{
    struct nigh_fi_device *next;

    for (; domain->devices; domain->devices = next) {
        next = domain->devices->next;
        close_device(domain->devices);
    }
}

/* ---- pinned memory of the host's ------------------------------------------------------------------------ */

int nigh_fi_device_pin(struct nigh_fi_device *device, void *memory, size_t bytes)
{
    int mode, left, rc = nigh_fi_device_enter(device, &mode);

    if (rc)
        return rc;
    rc = nigh_cuda_check(device->cuda, "cuMemHostRegister",
                         device->cuda->pin(memory, bytes, NIGH_CUDA_PORTABLE));
    left = nigh_fi_device_leave(device, mode);
    return rc ? rc : left;
}

void nigh_fi_device_unpin(struct nigh_fi_device *device, void *memory)
{
    int mode;

    if (is_gone(device) || nigh_fi_device_enter(device, &mode))
        return;
    nigh_cuda_check(device->cuda, "cuMemHostUnregister", device->cuda->unpin(memory));
    nigh_fi_device_leave(device, mode);
}

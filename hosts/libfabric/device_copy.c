/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/device_copy.c - copies between a device and memory of the host; see device.h. */
#include "hosts/libfabric/device.h"
#include "hosts/libfabric/log.h"

#include <string.h>

/* Before a copy of ours: those of the host's come first. */
static int begin(struct nigh_fi_device *device, int *mode)
{
    int rc = nigh_fi_device_enter(device, mode);

    if (!rc && (device->due || device->untold))
        nigh_fi_device_settle(device);
    return rc;
}

/* After copies were asked for: waits for them, if one of them could not be, too. */
static int finish(const struct nigh_fi_device *device, int mode, int rc)
{
    int waited =
            nigh_cuda_check(device->cuda, "cuStreamSynchronize", device->cuda->stream_wait(device->stream)),
        left = nigh_fi_device_leave(device, mode);

    if (!rc)
        rc = waited;
    return rc ? rc : left;
}

/*
 * Short copies from and to memory that is not pinned the driver makes in ways that wait until the device turns from
 * one process to another: of two processes on one H100 a message of 64 KiB took 190 us, 34 through a slot. Longer
 * ones it stages by itself, as fast as through slots of ours in turn: 1 MiB 148 and 150 to 163 us, 4 MiB 424 and 489.
 */
static bool by_slot(const struct nigh_fi_device *device, size_t bytes, bool pinned)
{
    return !pinned && device->slot && bytes <= NIGH_FI_SLOT_BYTES;
}

int nigh_fi_device_read(struct nigh_fi_device *device, void *to, const void *from, size_t bytes, bool pinned)
{
    int mode, rc = bytes ? begin(device, &mode) : 0;
    bool slot = by_slot(device, bytes, pinned);

    if (rc || !bytes)
        return rc;
    rc = device->cuda->to_host(slot ? device->slot : to, nigh_fi_device_ptr(from), bytes, device->stream);
    rc = finish(device, mode, nigh_cuda_check(device->cuda, "cuMemcpyDtoHAsync", rc));
    if (!rc && slot)
        memcpy(to, device->slot, bytes);
    return rc;
}

/*
 * From pinned memory as well, up to 28 KiB on an H100: 8 bytes took 143 us beside another process. As two rows of a
 * plane they take 9, as they do when no other process is there; 1 byte is no plane.
 */
#define AS_PLANE_BYTES 32768u

static int write_plane(const struct nigh_fi_device *device, void *to, const void *from, size_t bytes)
{
    struct nigh_cuda_plane plane = {
        .from_type = NIGH_CUDA_TYPE_HOST,
        .from_host = from,
        .from_pitch = bytes / 2,
        .to_type = NIGH_CUDA_TYPE_DEVICE,
        .to_device = nigh_fi_device_ptr(to),
        .to_pitch = bytes / 2,
        .width = bytes / 2,
        .height = 2,
    };

    return nigh_cuda_check(device->cuda, "cuMemcpy2DAsync", device->cuda->plane_copy(&plane, device->stream));
}

/* An odd number of bytes in two planes that overlap. */
static int write_short(const struct nigh_fi_device *device, void *to, const void *from, size_t bytes)
{
    size_t odd = bytes % 2;
    int rc = write_plane(device, to, from, bytes - odd);

    return rc || !odd ? rc : write_plane(device, (char *)to + 1, (const char *)from + 1, bytes - 1);
}

int nigh_fi_device_write(struct nigh_fi_device *device, void *to, const void *from, size_t bytes, bool pinned)
{
    int mode, rc = bytes ? begin(device, &mode) : 0;
    bool slot = by_slot(device, bytes, pinned);

    if (rc || !bytes)
        return rc;
    if (slot)
        from = memcpy(device->slot, from, bytes);
    if ((slot || pinned) && bytes > 1 && bytes <= AS_PLANE_BYTES)
        return finish(device, mode, write_short(device, to, from, bytes));
    rc = device->cuda->to_device(nigh_fi_device_ptr(to), from, bytes, device->stream);
    return finish(device, mode, nigh_cuda_check(device->cuda, "cuMemcpyHtoDAsync", rc));
}

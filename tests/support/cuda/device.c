/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/device.c - the fake driver's devices: who they are, and which reach each other. */
#include "tests/support/cuda/fake.h"

#include <stdio.h>
#include <string.h>

static bool is_device(int device)
{
    return device >= 0 && device < fake.shown;
}

int cuDeviceGet(int *device, int ordinal)
{
    FAKE_CALL;
    if (!is_device(ordinal))
        return CU_INVALID_DEVICE;
    *device = ordinal;
    return CU_SUCCESS;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    FAKE_CALL;
    if (!is_device(device) || bytes <= 0)
        return CU_INVALID_DEVICE;
    snprintf(name, (size_t)bytes, fake.mig ? "NIGH Fake GPU MIG 1g.10gb" : "NIGH Fake GPU");
    return CU_SUCCESS;
}

/* The same in every process, whatever it sees of the machine. Instances of one card share the card's. */
static int tell_uuid(struct cu_uuid *uuid, int device, bool instance)
{
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    for (int i = 0; i < 16; i++)
        uuid->bytes[i] = (unsigned char)(0x10 + i * 7);
    uuid->bytes[0] = (unsigned char)(0x10 + (fake.mig && !instance ? 0 : fake.visible[device]));
    return CU_SUCCESS;
}

int cuDeviceGetUuid(struct cu_uuid *uuid, int device)
{
    FAKE_CALL;
    return tell_uuid(uuid, device, false);
}

int cuDeviceGetUuid_v2(struct cu_uuid *uuid, int device)
{
    FAKE_CALL;
    return tell_uuid(uuid, device, true);
}

static int bus_of(int device)
{
    return 0x10 + fake.visible[device];
}

static int attribute_of(int attribute, int device)
{
    switch (attribute) {
    case DEVICE_MULTIPROCESSORS:
        return 132;
    case DEVICE_BUS:
        return bus_of(device);
    case DEVICE_ENGINES:
        return 3;
    case DEVICE_MAJOR:
        return 9;
    case DEVICE_MAPS_HOST:
    case DEVICE_UNIFIED:
    case DEVICE_MANAGED:
    case DEVICE_STREAM_MEMORY_OPS:
    case DEVICE_STREAM_MEMORY_OPS_64:
    case DEVICE_PINS:
    case DEVICE_VIRTUAL_MEMORY:
    case DEVICE_POSIX_HANDLES:
    case DEVICE_POOLS:
    case DEVICE_IPC_EVENTS:
    case DEVICE_HOST_NUMA_MEMORY:
        return 1;
    case DEVICE_POOL_HANDLES:
        return CU_POSIX_FD;
    case DEVICE_MPS:
        return fake.mps;
    case DEVICE_DMA_BUF:
    case DEVICE_DMA_BUF_MMAP:
        return fake.mmap;
    default:
        return 0;
    }
}

/* NIGH_FAKE_CUDA_ATTRIBUTES, "103=0,...", says otherwise. */
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    char name[16];
    long told;

    FAKE_CALL;
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    if (attribute <= 0)
        return CU_INVALID_VALUE;
    snprintf(name, sizeof(name), "%d", attribute);
    told = fake_listed(fake.attributes, name, NULL);
    *value = told >= 0 ? (int)told : attribute_of(attribute, device);
    return CU_SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    FAKE_CALL;
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    *bytes = fake.memory;
    return CU_SUCCESS;
}

int cuDeviceGetPCIBusId(char *name, int bytes, int device)
{
    FAKE_CALL;
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    if (bytes < 13)
        return CU_INVALID_VALUE;
    snprintf(name, (size_t)bytes, "0000:%02X:00.0", bus_of(device));
    return CU_SUCCESS;
}

int cuDeviceGetByPCIBusId(int *device, const char *name)
{
    unsigned domain, bus;

    FAKE_CALL;
    if (sscanf(name, "%x:%x:", &domain, &bus) != 2)
        return CU_INVALID_VALUE;
    for (int i = 0; i < fake.shown; i++)
        if (domain == 0 && bus_of(i) == (int)bus) {
            *device = i;
            return CU_SUCCESS;
        }
    return CU_INVALID_DEVICE;
}

/* A device is no peer of itself. */
int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    FAKE_CALL;
    if (!is_device(device) || !is_device(peer))
        return CU_INVALID_DEVICE;
    *can = fake.peers[fake.visible[device]][fake.visible[peer]];
    return CU_SUCCESS;
}

int cuDeviceGetP2PAttribute(int *value, int attribute, int device, int peer)
{
    bool reach;

    FAKE_CALL;
    if (!is_device(device) || !is_device(peer) || device == peer)
        return CU_INVALID_DEVICE;
    reach = fake.peers[fake.visible[device]][fake.visible[peer]];
    *value = attribute == 1 ? !reach : reach; /* 1: the rank, 0 is best */
    return CU_SUCCESS;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/config.c - what machine the fake driver plays: read from the environment when it is first used. */
#include "tests/support/cuda/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_config fake;

static long number_of(const char *name, long otherwise)
{
    const char *value = getenv(name);

    return value && *value ? strtol(value, NULL, 0) : otherwise;
}

uint64_t fake_random(void)
{
    fake.random ^= fake.random << 13;
    fake.random ^= fake.random >> 7;
    fake.random ^= fake.random << 17;
    return fake.random;
}

long fake_listed(const char *list, const char *name, long *after)
{
    size_t length = strlen(name);
    char *end;
    long value;

    for (; list && *list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL) {
        if (strncmp(list, name, length) != 0 || list[length] != '=')
            continue;
        value = strtol(list + length + 1, &end, 0);
        if (after)
            *after = *end == '@' ? strtol(end + 1, NULL, 0) : -1;
        return value;
    }
    return -1;
}

/* "0-1,2-3": the pairs that reach each other; else all do. */
static void read_peers(void)
{
    const char *pairs = getenv("NIGH_FAKE_CUDA_PEERS");
    int a, b;

    for (int i = 0; i < DEVICES_MOST; i++)
        for (int j = 0; j < DEVICES_MOST; j++)
            fake.peers[i][j] = i != j && !pairs && !fake.mig;
    for (; pairs && *pairs; pairs = strchr(pairs, ',') ? strchr(pairs, ',') + 1 : NULL)
        if (sscanf(pairs, "%d-%d", &a, &b) == 2 && a >= 0 && b >= 0 && a < DEVICES_MOST && b < DEVICES_MOST)
            fake.peers[a][b] = fake.peers[b][a] = true;
}

/* The number of the device that an entry of CUDA_VISIBLE_DEVICES names, or -1: it ends the list. */
static int named(const char *entry)
{
    unsigned of_uuid;
    char *end;
    long ordinal;

    if (sscanf(entry, "GPU-%8x", &of_uuid) == 1 || sscanf(entry, "MIG-%8x", &of_uuid) == 1)
        ordinal = (long)(of_uuid >> 24) - 0x10;
    else
        ordinal = strtol(entry, &end, 10);
    return ordinal >= 0 && ordinal < fake.devices ? (int)ordinal : -1;
}

static const char *copy_of(const char *name)
{
    const char *value = getenv(name);

    return value ? strdup(value) : NULL;
}

static void read_visible(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");

    fake.shown = 0;
    if (!list)
        for (int i = 0; i < fake.devices; i++)
            fake.visible[fake.shown++] = i;
    for (; list && *list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL) {
        int device = named(list);

        if (device < 0 || fake.shown == DEVICES_MOST)
            return;
        fake.visible[fake.shown++] = device;
    }
}

void fake_configure(void)
{
    static bool done;
    long devices = number_of("NIGH_FAKE_CUDA_DEVICES", 2), seed = number_of("NIGH_FAKE_CUDA_SEED", 1);

    if (done)
        return;
    done = true;
    fake.devices = devices < 0 || devices > DEVICES_MOST ? DEVICES_MOST : (int)devices;
    fake.mps = number_of("NIGH_FAKE_CUDA_MPS", 0);
    fake.mig = number_of("NIGH_FAKE_CUDA_MIG", 0);
    fake.mmap = number_of("NIGH_FAKE_CUDA_MMAP", 0);
    fake.version = (int)number_of("NIGH_FAKE_CUDA_VERSION", 13000);
    fake.worker = (int)number_of("NIGH_FAKE_CUDA_WORKER", 1);
    fake.memory = (size_t)number_of("NIGH_FAKE_CUDA_MEMORY", 16L << 30);
    fake.delay_us = number_of("NIGH_FAKE_CUDA_DELAY_US", 0);
    fake.random = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    fake.fails = copy_of("NIGH_FAKE_CUDA_FAIL");
    fake.delays = copy_of("NIGH_FAKE_CUDA_DELAY");
    fake.lacks = copy_of("NIGH_FAKE_CUDA_WITHOUT");
    fake.attributes = copy_of("NIGH_FAKE_CUDA_ATTRIBUTES");
    read_peers();
    read_visible();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/cuda.c - see cuda.h. */
#include "hosts/libfabric/cuda.h"
#include "hosts/libfabric/log.h"
#include "include/common/descriptor.h"

#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* CUpointer_attribute, CUmemorytype */
enum { MEMORY_TYPE = 2, IS_MANAGED = 8, DEVICE_ORDINAL = 9 };
enum { TYPE_DEVICE = 2 };

struct nigh_fi_cuda {
    int (*init)(unsigned flags);
    int (*device_count)(int *count);
    int (*error_name)(int error, const char **name);
    int (*pointer_attributes)(unsigned count, int *attributes, void **values, unsigned long long pointer);
    int (*exchange_capture_mode)(int *mode); /* the newest that nigh cannot do without; not called here */
};

static struct nigh_fi_cuda table;
static bool usable;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct {
    const char *name;
    size_t slot;
} symbols[] = {
    {"cuInit", offsetof(struct nigh_fi_cuda, init)},
    {"cuDeviceGetCount", offsetof(struct nigh_fi_cuda, device_count)},
    {"cuGetErrorName", offsetof(struct nigh_fi_cuda, error_name)},
    {"cuPointerGetAttributes", offsetof(struct nigh_fi_cuda, pointer_attributes)},
    {"cuThreadExchangeStreamCaptureMode", offsetof(struct nigh_fi_cuda, exchange_capture_mode)},
};

/* NULL, or what is wrong. */
static const char *load(void)
{
    static char missing[96];
    void *object = NIGH_FD_DURING(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));

    if (!object)
        return "there is no libcuda.so.1: no CUDA driver is installed";
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *found = dlsym(object, symbols[i].name);

        memcpy((char *)&table + symbols[i].slot, &found, sizeof(found));
        if (found)
            continue;
        snprintf(missing, sizeof(missing), "libcuda.so.1 has no %s: it is older than CUDA 11",
                 symbols[i].name);
        dlclose(object);
        return missing;
    }
    return NULL;
}

static const char *name_of(int result)
{
    const char *name = NULL;

    return table.error_name(result, &name) == 0 && name ? name : "unknown";
}

static const char *start(void)
{
    static char failed[96];
    int count = 0, result = NIGH_FD_DURING(table.init(0));

    if (!result)
        result = table.device_count(&count);
    if (result) {
        snprintf(failed, sizeof(failed), "the CUDA driver does not start: %s (%d)", name_of(result), result);
        return failed;
    }
    return count > 0 ? NULL : "the CUDA driver has no device";
}

const struct nigh_fi_cuda *nigh_fi_cuda_open(const char **why)
{
    const char *set = getenv("NIGH_CUDA"), *wrong = NULL;

    if (set && strcasecmp(set, "off") == 0) {
        *why = "NIGH_CUDA=off";
        return NULL;
    }
    pthread_mutex_lock(&lock);
    if (!usable) {
        wrong = load();
        if (!wrong)
            wrong = start();
        usable = !wrong;
    }
    pthread_mutex_unlock(&lock);
    *why = wrong;
    return wrong ? NULL : &table;
}

int nigh_fi_cuda_find(const struct nigh_fi_cuda *cuda, const void *memory, int *ordinal)
{
    int attributes[] = {MEMORY_TYPE, IS_MANAGED, DEVICE_ORDINAL};
    unsigned type = 0, managed = 0;
    int its = -1;
    void *values[] = {&type, &managed, &its};
    int result = cuda->pointer_attributes(3, attributes, values, (uintptr_t)memory);

    if (result) {
        nigh_fi_log(NIGH_FI_WARN, "CUDA: cuPointerGetAttributes fails: %s (%d)", name_of(result), result);
        return -FI_EIO;
    }
    *ordinal = type == TYPE_DEVICE || managed & 0xffu ? its : -1;
    return 0;
}

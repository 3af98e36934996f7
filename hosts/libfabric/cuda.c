/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/cuda.c - see cuda.h. */
#include "hosts/libfabric/cuda.h"
#include "hosts/libfabric/log.h"
#include "include/common/descriptor.h"

#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static struct nigh_cuda table;
static bool usable;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct symbol {
    const char *name;
    size_t slot;
};

static const struct symbol symbols[] = {
    {"cuInit", offsetof(struct nigh_cuda, init)},
    {"cuDeviceGetCount", offsetof(struct nigh_cuda, device_count)},
    {"cuGetErrorName", offsetof(struct nigh_cuda, error_name)},
    {"cuPointerGetAttributes", offsetof(struct nigh_cuda, pointer_attributes)},
    {"cuPointerSetAttribute", offsetof(struct nigh_cuda, pointer_set)},
    {"cuDevicePrimaryCtxRetain", offsetof(struct nigh_cuda, primary_retain)},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(struct nigh_cuda, primary_release)},
    {"cuCtxPushCurrent_v2", offsetof(struct nigh_cuda, push)},
    {"cuCtxPopCurrent_v2", offsetof(struct nigh_cuda, pop)},
    {"cuCtxGetCurrent", offsetof(struct nigh_cuda, current)},
    {"cuCtxGetDevice", offsetof(struct nigh_cuda, current_device)},
    {"cuCtxGetFlags", offsetof(struct nigh_cuda, get_flags)},
    {"cuThreadExchangeStreamCaptureMode", offsetof(struct nigh_cuda, exchange_capture_mode)},
    {"cuStreamCreate", offsetof(struct nigh_cuda, stream_create)},
    {"cuStreamDestroy_v2", offsetof(struct nigh_cuda, stream_destroy)},
    {"cuStreamSynchronize", offsetof(struct nigh_cuda, stream_wait)},
    {"cuStreamQuery", offsetof(struct nigh_cuda, stream_query)},
    {"cuStreamIsCapturing", offsetof(struct nigh_cuda, is_capturing)},
    {"cuMemcpyDtoHAsync_v2", offsetof(struct nigh_cuda, to_host)},
    {"cuMemcpyHtoDAsync_v2", offsetof(struct nigh_cuda, to_device)},
    {"cuMemcpy2DAsync_v2", offsetof(struct nigh_cuda, plane_copy)},
    {"cuMemHostRegister_v2", offsetof(struct nigh_cuda, pin)},
    {"cuMemHostUnregister", offsetof(struct nigh_cuda, unpin)},
};

/* What older drivers lack: NULL. */
static const struct symbol newer[] = {
    {"cuCtxGetId", offsetof(struct nigh_cuda, context_id)},
    {"cuCtxSetFlags", offsetof(struct nigh_cuda, set_flags)},
};

static bool take(void *object, const struct symbol *symbol)
{
    void *found = dlsym(object, symbol->name);

    memcpy((char *)&table + symbol->slot, &found, sizeof(found));
    return found != NULL;
}

/* NULL, or what is wrong. */
static const char *load(void)
{
    static char missing[96];
    void *object = NIGH_FD_DURING(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));

    if (!object)
        return "there is no libcuda.so.1: no CUDA driver is installed";
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        if (take(object, &symbols[i]))
            continue;
        snprintf(missing, sizeof(missing), "libcuda.so.1 has no %s: it is older than CUDA 11",
                 symbols[i].name);
        dlclose(object);
        return missing;
    }
    for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++)
        take(object, &newer[i]);
    return NULL;
}

static const char *name_of(const struct nigh_cuda *cuda, int result)
{
    const char *name = NULL;

    return cuda->error_name(result, &name) == 0 && name ? name : "unknown";
}

static const char *start(void)
{
    static char failed[96];
    int count = 0, result = NIGH_FD_DURING(table.init(0));

    if (!result)
        result = table.device_count(&count);
    if (result) {
        snprintf(failed, sizeof(failed), "the CUDA driver does not start: %s (%d)", name_of(&table, result),
                 result);
        return failed;
    }
    return count > 0 ? NULL : "the CUDA driver has no device";
}

const struct nigh_cuda *nigh_cuda_open(const char **why)
{
    const char *wrong = NULL;

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

int nigh_cuda_check(const struct nigh_cuda *cuda, const char *call, int result)
{
    if (!result)
        return 0;
    nigh_fi_log(NIGH_FI_WARN, "CUDA: %s fails: %s (%d)", call, name_of(cuda, result), result);
    return -FI_EIO;
}

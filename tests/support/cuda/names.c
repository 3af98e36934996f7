/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/names.c - see names.h. */
#include "tests/support/cuda/names.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Names that changed after CUDA 11, with the version from which the plain name means the newer call. */
static const struct {
    const char *name, *explicit_name;
    int since;
} versioned[] = {
    {"cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2", 13000},
    {"cuDeviceGetUuid", "cuDeviceGetUuid_v2", 11040},
};

static const char *explicit_name(const char *name, int version)
{
    for (size_t i = 0; i < sizeof(versioned) / sizeof(versioned[0]); i++)
        if (strcmp(versioned[i].name, name) == 0)
            return version >= versioned[i].since ? versioned[i].explicit_name : name;
    return NULL;
}

static void *symbol(const char *name)
{
    static void *self;
    Dl_info info;

    if (!self && dladdr((const void *)versioned, &info))
        self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return self ? dlsym(self, name) : NULL;
}

void *cuda_function(const char *name, int version)
{
    const char *of_version = explicit_name(name, version);
    char second[64];
    void *found;

    snprintf(second, sizeof(second), "%s_v2", name);
    found = symbol(of_version ? of_version : second);
    return found || of_version ? found : symbol(name);
}

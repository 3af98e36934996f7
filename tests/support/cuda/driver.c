/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/driver.c - the fake driver: start, version, error names, entry points. */
#include "tests/support/cuda/driver.h"
#include "tests/support/cuda/fake.h"
#include "tests/support/cuda/names.h"

static bool broken;
static int told_devices = -1;

void fake_set_broken(bool is)
{
    broken = is;
}

void fake_set_devices(int count)
{
    told_devices = count;
}

int cuInit(unsigned flags)
{
    FAKE_CALL;
    if (flags)
        return CU_INVALID_VALUE;
    if (!broken && !fake.shown)
        return CU_NO_DEVICE;
    fake_started(!broken);
    if (!broken && fake.worker == 2)
        fake_need_worker();
    return broken ? TEST_CUDA_ERROR : CU_SUCCESS;
}

int cuDriverGetVersion(int *version)
{
    FAKE_CALL;
    *version = fake.version;
    return CU_SUCCESS;
}

int cuDeviceGetCount(int *count)
{
    FAKE_CALL;
    *count = told_devices < 0 ? fake.shown : told_devices;
    return CU_SUCCESS;
}

int cuGetErrorName(int error, const char **name)
{
    static const struct {
        int error;
        const char *name;
    } names[] = {
        {CU_SUCCESS, "CUDA_SUCCESS"},
        {CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {CU_MAP_FAILED, "CUDA_ERROR_MAP_FAILED"},
        {CU_ALREADY_MAPPED, "CUDA_ERROR_ALREADY_MAPPED"},
        {CU_NO_PEER_ACCESS, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
        {CU_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM"},
        {CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {CU_NOT_READY, "CUDA_ERROR_NOT_READY"},
        {TEST_CUDA_ERROR, "CUDA_ERROR_FAKE"},
        {CU_CONTEXT_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
        {CU_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED"},
        {CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
        {CU_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {CU_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
        {999, "CUDA_ERROR_UNKNOWN"},
    };

    *name = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].error == error)
            *name = names[i].name;
    return *name ? CU_SUCCESS : CU_INVALID_VALUE;
}

int cuGetErrorString(int error, const char **text)
{
    return cuGetErrorName(error, text);
}

/* By the plain name, as the driver's own headers do it: the newest call that `version` knows. */
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status)
{
    bool known;

    FAKE_CALL;
    (void)flags;
    known = fake_listed(fake.lacks, name, NULL) < 0 && version <= fake.version;
    *function = known ? cuda_function(name, version) : NULL;
    if (status)
        *status = *function ? 0 : 1;
    return *function ? CU_SUCCESS : CU_NOT_FOUND;
}

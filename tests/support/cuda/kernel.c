/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/kernel.c - the fake driver's one kernel, which waits for a word, and graphs that hold nothing. */
#include "tests/support/cuda/fake.h"

#include <string.h>

enum { CAPTURE_INVALIDATED = 901 };

static char module_at, function_at, graph_at; /* nothing is ever read there */

int cuModuleLoadData(void **module, const void *image)
{
    FAKE_CALL;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    fake_waits_for_host(__func__);
    if (!strstr(image, "wait_for"))
        return CU_INVALID_VALUE;
    *module = &module_at;
    return CU_SUCCESS;
}

int cuModuleUnload(void *module)
{
    FAKE_CALL;
    fake_waits_for_host(__func__);
    return module == &module_at ? CU_SUCCESS : CU_INVALID_HANDLE;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    FAKE_CALL;
    if (module != &module_at || strcmp(name, "wait_for") != 0)
        return CU_NOT_FOUND;
    *function = &function_at;
    return CU_SUCCESS;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *handle, void **arguments, void **extra)
{
    struct stream *stream;
    cu_address word;

    FAKE_CALL;
    (void)shared, (void)extra;
    stream = fake_stream(handle);
    if (!stream)
        return CU_INVALID_CONTEXT;
    if (function != &function_at || x * y * z * bx * by * bz != 1)
        return CU_INVALID_VALUE;
    memcpy(&word, arguments[0], sizeof(word));
    return fake_submit(stream, &(struct work){.kind = WORK_SPIN, .to = word});
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    FAKE_CALL;
    (void)mode;
    if (!fake_stream(stream))
        return CU_INVALID_HANDLE;
    fake_capture(true);
    return CU_SUCCESS;
}

int cuStreamEndCapture(void *stream, void **graph)
{
    FAKE_CALL;
    if (!fake_stream(stream))
        return CU_INVALID_HANDLE;
    *graph = fake_capture(false) ? &graph_at : NULL;
    return *graph ? CU_SUCCESS : CAPTURE_INVALIDATED;
}

int cuGraphDestroy(void *graph)
{
    FAKE_CALL;
    return graph == &graph_at ? CU_SUCCESS : CU_INVALID_VALUE;
}

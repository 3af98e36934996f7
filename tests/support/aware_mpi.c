/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded, makes an MPI take buffers on CUDA devices in the calls that nigh-perf's peers use: each is copied through the host. With
 * AWARE_MPI_LOSES a receive's bytes do not reach the device. Compiled by that MPI's mpicc. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>

#define HELD_MAX    256
#define MEMORY_TYPE 2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define ON_DEVICE   2

/* What a request uses in place of the buffer. */
static struct held {
    MPI_Request request;
    void *host;
    uint64_t to; /* 0: of a send */
    size_t bytes;
} held[HELD_MAX];

static void *call(const char *name)
{
    static void *driver;

    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver ? dlsym(driver, name) : NULL;
}

static int is_on_device(const void *buffer)
{
    static int (*ask)(void *, int, uint64_t);
    unsigned type = 0;

    if (!ask)
        ask = (int (*)(void *, int, uint64_t))call("cuPointerGetAttribute");
    return ask && ask(&type, MEMORY_TYPE, (uintptr_t)buffer) == 0 && type == ON_DEVICE;
}

static void *fetched(const void *buffer, size_t bytes)
{
    int (*get)(void *, uint64_t, size_t) = (int (*)(void *, uint64_t, size_t))call("cuMemcpyDtoH_v2");
    void *host = malloc(bytes + 1);

    if (!host || (bytes && get(host, (uintptr_t)buffer, bytes)))
        abort();
    return host;
}

/* The driver returns when it has the host's bytes; they may not be on the device yet. */
static void bring(uint64_t to, const void *host, size_t bytes)
{
    int (*put)(uint64_t, const void *, size_t) =
        (int (*)(uint64_t, const void *, size_t))call("cuMemcpyHtoD_v2");
    int (*end)(void) = (int (*)(void))call("cuCtxSynchronize");

    if (bytes && !getenv("AWARE_MPI_LOSES") && (put(to, host, bytes) || end()))
        abort();
}

static void hold(MPI_Request request, void *host, uint64_t to, size_t bytes)
{
    for (int i = 0; i < HELD_MAX; i++)
        if (!held[i].host) {
            held[i] = (struct held){request, host, to, bytes};
            return;
        }
    abort();
}

static void let_go(MPI_Request request)
{
    for (int i = 0; i < HELD_MAX; i++)
        if (held[i].host && held[i].request == request) {
            if (held[i].to)
                bring(held[i].to, held[i].host, held[i].bytes);
            free(held[i].host);
            held[i].host = NULL;
        }
}

int MPIX_Query_cuda_support(void)
{
    return 1;
}

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    void *host = is_on_device(buffer) ? fetched(buffer, (size_t)count) : NULL;
    int rc = PMPI_Send(host ? host : buffer, count, type, to, tag, comm);

    free(host);
    return rc;
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    void *host = is_on_device(buffer) ? malloc((size_t)count + 1) : NULL;
    int rc = PMPI_Recv(host ? host : buffer, count, type, from, tag, comm, status);

    if (host)
        bring((uintptr_t)buffer, host, (size_t)count);
    free(host);
    return rc;
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    void *host = is_on_device(buffer) ? fetched(buffer, (size_t)count) : NULL;
    int rc = PMPI_Isend(host ? host : buffer, count, type, to, tag, comm, request);

    if (host)
        hold(*request, host, 0, 0);
    return rc;
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    void *host = is_on_device(buffer) ? malloc((size_t)count + 1) : NULL;
    int rc = PMPI_Irecv(host ? host : buffer, count, type, from, tag, comm, request);

    if (host)
        hold(*request, host, (uintptr_t)buffer, (size_t)count);
    return rc;
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    MPI_Request before[HELD_MAX];
    int rc;

    for (int i = 0; i < count; i++)
        before[i] = requests[i];
    rc = PMPI_Waitall(count, requests, statuses);
    for (int i = 0; i < count; i++)
        let_go(before[i]);
    return rc;
}

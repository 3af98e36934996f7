/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/gpu/mpi_device.c - an MPI program whose buffers lie on a GPU: messages there and back of all sizes, derived
 * types, collectives, windows. Takes the CUDA driver at run time, so any mpicc compiles it. With an argument it prints
 * how long messages take instead of checking what they hold.
 */
#include <mpi.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

enum { MOST = 4 << 20 };

static int rank, ranks;
static char *host;

#define DRIVER(name, types, ...) driver_ok(#name, ((int(*) types)driver_symbol(#name))(__VA_ARGS__))

static void *driver_symbol(const char *name)
{
    static void *driver;
    void *symbol;

    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    symbol = driver ? dlsym(driver, name) : NULL;
    if (!symbol) {
        fprintf(stderr, "no %s: %s\n", name, dlerror());
        exit(1);
    }
    return symbol;
}

static void driver_ok(const char *name, int result)
{
    if (!result)
        return;
    fprintf(stderr, "%s fails: %d\n", name, result);
    exit(1);
}

static void open_device(void)
{
    void *context;

    DRIVER(cuInit, (unsigned), 0);
    DRIVER(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
    DRIVER(cuCtxSetCurrent, (void *), context);
}

static char *device_alloc(size_t bytes)
{
    address at;

    DRIVER(cuMemAlloc_v2, (address *, size_t), &at, bytes);
    return (char *)(uintptr_t)at;
}

static void device_free(char *at)
{
    DRIVER(cuMemFree_v2, (address), (uintptr_t)at);
}

static void put(char *at, const void *from, size_t bytes)
{
    if (bytes)
        DRIVER(cuMemcpyHtoD_v2, (address, const void *, size_t), (uintptr_t)at, from, bytes);
}

static void get(void *to, const char *at, size_t bytes)
{
    if (bytes)
        DRIVER(cuMemcpyDtoH_v2, (void *, address, size_t), to, (uintptr_t)at, bytes);
}

static char byte_of(size_t i, unsigned seed)
{
    return (char)(i * 7 + i / 251 + seed);
}

static void fill(char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        host[i] = byte_of(i, seed);
    put(at, host, bytes);
}

static void holds(const char *at, size_t bytes, unsigned seed, const char *what)
{
    get(host, at, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (host[i] != byte_of(i, seed)) {
            fprintf(stderr, "rank %d: %s: byte %zu of %zu is %d, not %d\n", rank, what, i, bytes, host[i],
                    byte_of(i, seed));
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

/* ---- checks -------------------------------------------------------------------------------------------- */

static void messages(char *from, char *to)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;

    for (int bytes = 1; bytes <= MOST; bytes = bytes < 8 ? bytes + 7 : bytes * 4) {
        fill(from, (size_t)bytes, (unsigned)rank);
        fill(to, (size_t)bytes, 99);
        MPI_Sendrecv(from, bytes, MPI_BYTE, next, 1, to, bytes, MPI_BYTE, before, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        holds(to, (size_t)bytes, (unsigned)before, "a message");
    }
}

/* Every second block of 100 bytes of a device's memory, to the host. */
static void derived(char *from)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    static char to[100 * 1000];
    MPI_Datatype blocks;
    MPI_Request request;

    MPI_Type_vector(1000, 100, 200, MPI_BYTE, &blocks);
    MPI_Type_commit(&blocks);
    fill(from, 200 * 1000, (unsigned)rank);
    MPI_Irecv(to, sizeof(to), MPI_BYTE, before, 2, MPI_COMM_WORLD, &request);
    MPI_Send(from, 1, blocks, next, 2, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (size_t i = 0; i < sizeof(to); i++)
        if (to[i] != byte_of(i / 100 * 200 + i % 100, (unsigned)before)) {
            fprintf(stderr, "rank %d: a derived type: byte %zu is wrong\n", rank, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    MPI_Type_free(&blocks);
}

static void collectives(char *from, char *to)
{
    float *numbers = (float *)(void *)host;

    for (int count = 1; count <= MOST / 4; count *= 32) {
        for (int i = 0; i < count; i++)
            numbers[i] = (float)(i % 1000 + rank);
        put(from, numbers, (size_t)count * 4);
        MPI_Allreduce(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        get(numbers, to, (size_t)count * 4);
        for (int i = 0; i < count; i++)
            if (numbers[i] != (float)(ranks * (i % 1000) + ranks * (ranks - 1) / 2)) {
                fprintf(stderr, "rank %d: an allreduce of %d: element %d is %g\n", rank, count, i,
                        (double)numbers[i]);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
    }
    for (int bytes = 8; bytes <= MOST; bytes *= 8) {
        fill(from, (size_t)bytes, rank ? 0 : 5);
        MPI_Bcast(from, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        holds(from, (size_t)bytes, 5, "a broadcast");
    }
}

static void windows(char *memory, char *local)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Win window;

    MPI_Win_create(memory, MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    fill(memory, MOST, 50);
    for (int bytes = 8; bytes <= MOST; bytes *= 8) {
        fill(local, (size_t)bytes, (unsigned)rank);
        MPI_Win_fence(0, window);
        MPI_Put(local, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        holds(memory, (size_t)bytes, (unsigned)before, "what was put");
        MPI_Get(local, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        holds(local, (size_t)bytes, (unsigned)rank, "what was got");
    }
    MPI_Win_free(&window);
}

/* ---- times --------------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void times(char *from, char *to)
{
    static double took[64];

    for (int bytes = 8; bytes <= MOST; bytes *= 8) {
        for (int i = 0; i < 64; i++) {
            double begin;

            MPI_Barrier(MPI_COMM_WORLD);
            begin = MPI_Wtime();
            for (int k = 0; k < 4; k++)
                if (rank == 0) {
                    MPI_Send(from, bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
                    MPI_Recv(to, bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                } else if (rank == 1) {
                    MPI_Recv(to, bytes, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    MPI_Send(from, bytes, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
                }
            took[i] = (MPI_Wtime() - begin) / 8;
        }
        qsort(took, 64, sizeof(took[0]), by_time);
        if (rank == 0)
            printf("%8d bytes one way %9.2f us\n", bytes, took[32] * 1e6);
    }
}

int main(int argc, char **argv)
{
    char *from, *to;

    open_device();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    host = malloc(MOST);
    from = device_alloc(MOST);
    to = device_alloc(MOST);
    if (argc > 1) {
        times(from, to);
    } else {
        messages(from, to);
        derived(from);
        collectives(from, to);
        windows(to, from);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks with buffers on a GPU: done\n", ranks);
    device_free(from);
    device_free(to);
    free(host);
    MPI_Finalize();
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake CUDA driver in one process: its start, its memory and devices, what pointers are, what it refuses of them. */
#include "tests/support/cuda/roles.h"

#include <sys/mman.h>

/* ---- start --------------------------------------------------------------------------------------------------------- */

static void asks_early(void)
{
    unsigned long long handle;
    size_t bytes;
    int status, version;
    pid_t child;

    GIVES(cuMemGetInfo_v2(&bytes, &bytes), CU_NOT_INITIALIZED);
    OK(cuDriverGetVersion(&version));
    start(0);
    OK(cuMemGetInfo_v2(&bytes, &bytes));
    child = fork();
    if (!child) {
        GIVES(cuMemGetInfo_v2(&bytes, &bytes), CU_NOT_INITIALIZED);
        GIVES(cuMemRelease(0), CU_NOT_INITIALIZED);
        GIVES(cuInit(0), CU_NOT_INITIALIZED);
        _exit(0);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    OK(status);
    handle = create(PIECE, 0);
    OK(cuMemRelease(handle));
}

static void not_before_start_nor_after_fork(void **state)
{
    (void)state;
    play(asks_early, NULL, NULL);
}

static void finds_calls(void)
{
    void *function;
    int status;

    setenv("NIGH_FAKE_CUDA_WITHOUT", "cuMemCreate=1", 1);
    OK(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &status));
    HOLDS(function == (void *)(uintptr_t)cuMemAlloc_v2 && !status);
    OK(cuGetProcAddress_v2("cuMemcpyBatchAsync", &function, 12080, 0, &status));
    HOLDS(function == (void *)(uintptr_t)cuMemcpyBatchAsync);
    OK(cuGetProcAddress_v2("cuMemcpyBatchAsync", &function, 13000, 0, &status));
    HOLDS(function == (void *)(uintptr_t)cuMemcpyBatchAsync_v2);
    GIVES(cuGetProcAddress_v2("cuMemCreate", &function, 12000, 0, &status), CU_NOT_FOUND);
    GIVES(status, 1);
    HOLDS(!function);
    GIVES(cuGetProcAddress_v2("cuMemMap", &function, 99000, 0, &status), CU_NOT_FOUND);
}

static void calls_by_name(void **state)
{
    (void)state;
    play(finds_calls, NULL, NULL);
}

/* ---- virtual memory ---------------------------------------------------------------------------------------------------- */

static void maps_wrongly(void)
{
    struct cu_allocation properties = on_device(1);
    struct cu_access access = {.location = {CU_ON_DEVICE, 1}, .flags = CU_READ_WRITE};
    unsigned long long one, two, unused;
    cu_address at;

    start(1);
    GIVES(cuMemCreate(&unused, PIECE + 4096, &properties, 0), CU_INVALID_VALUE);
    properties.location.id = 7;
    GIVES(cuMemCreate(&unused, PIECE, &properties, 0), CU_INVALID_DEVICE);
    properties = on_device(1);
    properties.handle_types = CU_FABRIC;
    GIVES(cuMemCreate(&unused, PIECE, &properties, 0), CU_NOT_SUPPORTED);
    properties.handle_types = 0;
    OK(cuMemCreate(&one, PIECE, &properties, 0));
    GIVES(cuMemExportToShareableHandle(&unused, one, CU_POSIX_FD, 0), CU_INVALID_VALUE);
    OK(cuMemRelease(one));
    GIVES(cuMemRelease(one), CU_INVALID_VALUE);

    GIVES(cuMemAddressReserve(&at, PIECE + 1, 0, 0, 0), CU_INVALID_VALUE);
    at = reserve(3 * PIECE);
    one = create(PIECE, 1);
    two = create(PIECE, 1);
    GIVES(cuMemMap(at, PIECE, PIECE, one, 0), CU_INVALID_VALUE);
    GIVES(cuMemMap(at, 2 * PIECE, 0, one, 0), CU_INVALID_VALUE);
    GIVES(cuMemMap(at + 3 * PIECE, PIECE, 0, one, 0), CU_INVALID_VALUE);
    OK(cuMemMap(at, PIECE, 0, one, 0));
    GIVES(cuMemMap(at, PIECE, 0, two, 0), CU_INVALID_VALUE);
    OK(cuMemMap(at + 2 * PIECE, PIECE, 0, two, 0));
    GIVES(cuMemcpyDtoD_v2(at, at, 8), CU_INVALID_VALUE);                /* no access yet */
    GIVES(cuMemSetAccess(at, 3 * PIECE, &access, 1), CU_INVALID_VALUE); /* a hole */
    OK(cuMemSetAccess(at, PIECE, &access, 1));
    OK(cuMemSetAccess(at + 2 * PIECE, PIECE, &access, 1));
    GIVES(cuMemsetD8Async(at, 1, 3 * PIECE, NULL), CU_INVALID_VALUE);
    OK(cuMemsetD8Async(at, 1, PIECE, NULL));
    OK(cuStreamSynchronize(NULL));

    GIVES(cuMemAddressFree(at, 3 * PIECE), CU_INVALID_VALUE); /* mapped */
    GIVES(cuMemUnmap(at, PIECE / 2), CU_INVALID_VALUE);
    GIVES(cuMemUnmap(at, 3 * PIECE), CU_INVALID_VALUE);
    OK(cuMemUnmap(at, PIECE));
    OK(cuMemUnmap(at + 2 * PIECE, PIECE));
    GIVES(cuMemUnmap(at, PIECE), CU_INVALID_VALUE);
    GIVES(cuMemAddressFree(at, PIECE), CU_INVALID_VALUE);
    GIVES(fake_cuda.reserved(), 3 * PIECE);
    OK(cuMemAddressFree(at, 3 * PIECE));
    GIVES(cuMemAddressFree(at, 3 * PIECE), CU_INVALID_VALUE);
    GIVES(fake_cuda.used(1), 2 * PIECE);
    OK(cuMemRelease(one));
    OK(cuMemRelease(two));
    OK(fake_cuda.used(1));
}

static void virtual_memory_is_refused(void **state)
{
    (void)state;
    play(maps_wrongly, NULL, NULL);
}

/* Pieces of two allocations; one handle for what is retained twice; memory stays while it is mapped or retained. */
static void looks_at_pieces(void)
{
    unsigned long long one = 0, again, ids[2], start_of, around;
    cu_address at, base;
    size_t bytes;
    int kinds;

    start(0);
    at = reserve(4 * PIECE);
    for (int i = 0; i < 2; i++) {
        one = create(PIECE * (i + 1), 0);
        map(at + (cu_address)i * PIECE, PIECE * (size_t)(i + 1), one, 0);
        OK(cuMemRelease(one));
        GIVES(cuMemRelease(one), CU_INVALID_VALUE);
    }
    OK(cuMemGetAddressRange_v2(&base, &bytes, at + PIECE + 5));
    HOLDS(base == at + PIECE && bytes == 2 * PIECE);
    OK(cuPointerGetAttribute(&start_of, POINTER_RANGE_START, at + PIECE + 5));
    OK(cuPointerGetAttribute(&around, POINTER_RANGE_SIZE, at + PIECE + 5));
    HOLDS(start_of == at && around == 4 * PIECE);
    OK(cuPointerGetAttribute(&start_of, POINTER_MAPPING_BASE, at + PIECE + 5));
    HOLDS(start_of == at + PIECE);
    for (int i = 0; i < 2; i++)
        OK(cuPointerGetAttribute(&ids[i], POINTER_BUFFER_ID, at + (cu_address)i * PIECE));
    HOLDS(ids[0] != ids[1]);
    OK(cuPointerGetAttribute(&kinds, POINTER_LEGACY_CAPABLE, at));
    OK(kinds);
    GIVES(cuPointerGetAttribute(&kinds, POINTER_LEGACY_CAPABLE, at + 3 * PIECE), CU_INVALID_VALUE);
    OK(cuMemRetainAllocationHandle(&one, (void *)(uintptr_t)at));
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + 4096)));
    HOLDS(one == again);
    put(at + PIECE - 10, 20, 3);
    OK(cuMemUnmap(at, 3 * PIECE));
    GIVES(fake_cuda.used(0), PIECE);
    map(at + 2 * PIECE, PIECE, one, 0);
    has(at + 3 * PIECE - 10, 10, 3);
    OK(cuPointerGetAttribute(&ids[1], POINTER_BUFFER_ID, at + 2 * PIECE));
    HOLDS(ids[1] != ids[0]);
}

static void pieces_are_told_apart(void **state)
{
    (void)state;
    play(looks_at_pieces, NULL, NULL);
}

/* Memory of a node of the host's the CPU may touch, once it is given access. */
static void uses_a_node(void)
{
    struct cu_allocation properties = {.type = CU_PINNED, .location = {CU_ON_NODE, 0}};
    struct cu_access access = {.location = {CU_ON_NODE, 0}, .flags = CU_READ_WRITE};
    unsigned long long handle;
    unsigned type;
    cu_address at;

    start(0);
    OK(cuMemCreate(&handle, PIECE, &properties, 0));
    at = reserve(PIECE);
    map(at, PIECE, handle, 0);
    OK(cuMemSetAccess(at, PIECE, &access, 1));
    OK(cuPointerGetAttribute(&type, POINTER_MEMORY_TYPE, at));
    GIVES(type, CU_HOST_MEMORY);
    put(at, 4096, 8);
    GIVES(*(char *)(uintptr_t)(at + 3), (char)(3 * 7 + 8));
    OK(cuMemUnmap(at, PIECE));
    OK(cuMemAddressFree(at, PIECE));
}

static void host_nodes(void **state)
{
    (void)state;
    play(uses_a_node, NULL, NULL);
}

/* ---- other memory -------------------------------------------------------------------------------------------------------- */

static void looks_at_kinds(void)
{
    static const struct {
        enum cuda_memory kind;
        unsigned type, managed, legacy, types;
    } kinds[] = {{MEMORY_PLAIN, 2, 0, 1, 0}, {MEMORY_MAPPED, 2, 0, 0, 1},  {MEMORY_PIECES, 2, 0, 0, 1},
                 {MEMORY_POOL, 2, 0, 0, 0},  {MEMORY_MANAGED, 2, 1, 0, 0}, {MEMORY_HOST, 1, 0, 0, 0}};
    struct cu_ipc handle;

    start(1);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        cu_address at = (uintptr_t)test_cuda.alloc(kinds[i].kind, 1, 100000);
        int attributes[] = {POINTER_MEMORY_TYPE, POINTER_IS_MANAGED, POINTER_LEGACY_CAPABLE};
        unsigned values[3];
        unsigned long long types;
        void *pool, *out[] = {&values[0], &values[1], &values[2]};

        OK(cuPointerGetAttributes(3, attributes, out, at + 99999));
        GIVES(values[0], kinds[i].type);
        GIVES(values[1], kinds[i].managed);
        GIVES(values[2], kinds[i].legacy);
        OK(cuPointerGetAttribute(&types, POINTER_HANDLE_TYPES, at));
        GIVES(types, kinds[i].types);
        OK(cuPointerGetAttribute(&pool, POINTER_POOL, at));
        GIVES(pool != NULL, kinds[i].kind == MEMORY_POOL);
        GIVES(cuIpcGetMemHandle(&handle, at), kinds[i].legacy ? 0 : CU_INVALID_VALUE);
        put(at, 100000, 1);
        has(at, 100000, 1);
        test_cuda.free((void *)(uintptr_t)at);
        OK(cuPointerGetAttributes(1, attributes, out, at));
        OK(values[0]);
    }
}

static void kinds_of_memory(void **state)
{
    (void)state;
    play(looks_at_kinds, NULL, NULL);
}

/* At the same address, with another number. */
static void counts_pools(void)
{
    struct cu_pool_properties properties = {.type = CU_PINNED, .location = {CU_ON_DEVICE, 0}};
    cu_address at, again;
    void *pool, *stream;

    setenv("NIGH_FAKE_CUDA_MEMORY", "10485760", 1);
    start(0);
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemPoolCreate(&pool, &properties));
    OK(cuMemAllocFromPoolAsync(&at, 6 * MIB, pool, stream));
    GIVES(fake_cuda.used(0), 6 * MIB);
    GIVES(cuMemAllocAsync(&again, 5 * MIB, stream), CU_OUT_OF_MEMORY);
    OK(cuMemFreeAsync(at, stream));
    GIVES(cuMemFree_v2(at), CU_INVALID_VALUE);
    OK(cuStreamSynchronize(stream));
    OK(fake_cuda.used(0));
    OK(cuMemAllocAsync(&again, 5 * MIB, stream));
    OK(cuMemPoolDestroy(pool));
    GIVES(cuMemAllocFromPoolAsync(&at, 1, pool, stream), CU_INVALID_VALUE);
}

static void pools_are_counted(void **state)
{
    (void)state;
    play(counts_pools, NULL, NULL);
}

static void runs_out(void)
{
    size_t free_bytes, total;
    unsigned long long before, after;
    cu_address at, again;

    setenv("NIGH_FAKE_CUDA_MEMORY", "10485760", 1);
    start(0);
    OK(cuMemAlloc_v2(&at, 6 * MIB));
    OK(cuMemGetInfo_v2(&free_bytes, &total));
    HOLDS(free_bytes == 4 * MIB && total == 10 * MIB);
    GIVES(cuMemAlloc_v2(&again, 5 * MIB), CU_OUT_OF_MEMORY);
    OK(cuPointerGetAttribute(&before, POINTER_BUFFER_ID, at));
    GIVES(cuMemFree_v2(at + 1), CU_INVALID_VALUE);
    OK(cuMemFree_v2(at));
    GIVES(cuMemFree_v2(at), CU_INVALID_VALUE);
    OK(cuMemAlloc_v2(&again, 5 * MIB + 1));
    HOLDS(again == at);
    OK(cuPointerGetAttribute(&after, POINTER_BUFFER_ID, again));
    HOLDS(before != after);
}

static void memory_is_limited(void **state)
{
    (void)state;
    play(runs_out, NULL, NULL);
}

/* What the machine is, and memory for the CPU where its driver can. */
static void looks_at_devices(void)
{
    struct cu_uuid uuid;
    char name[64];
    int value;

    setenv("NIGH_FAKE_CUDA_MPS", "1", 1);
    setenv("NIGH_FAKE_CUDA_MIG", "1", 1);
    setenv("NIGH_FAKE_CUDA_MMAP", "1", 1);
    setenv("NIGH_FAKE_CUDA_DEVICES", "4", 1);
    setenv("NIGH_FAKE_CUDA_ATTRIBUTES", "125=0", 1);
    setenv("CUDA_VISIBLE_DEVICES", "GPU-12171e25,1,9,0", 1);
    start(0);
    OK(cuDeviceGetCount(&value));
    GIVES(value, 2); /* what is no device ends the list */
    OK(cuDeviceGetUuid_v2(&uuid, 0));
    GIVES(uuid.bytes[0], 0x12);
    OK(cuDeviceGetUuid_v2(&uuid, 1));
    GIVES(uuid.bytes[0], 0x11);
    OK(cuDeviceGetUuid(&uuid, 1)); /* the card's */
    GIVES(uuid.bytes[0], 0x10);
    OK(cuDeviceCanAccessPeer(&value, 0, 1));
    OK(value);
    OK(cuDeviceGetAttribute(&value, DEVICE_MPS, 0));
    GIVES(value, 1);
    OK(cuDeviceGetAttribute(&value, DEVICE_IPC_EVENTS, 0));
    OK(value);
    OK(cuDeviceGetName(name, sizeof(name), 0));
    HOLDS(strstr(name, "MIG"));
    GIVES(cuDeviceGetAttribute(&value, DEVICE_MPS, 2), CU_INVALID_DEVICE);
}

static void maps_for_cpu(void)
{
    cu_address at;
    char *seen;
    int fd;

    setenv("NIGH_FAKE_CUDA_MMAP", "1", 1);
    start(0);
    OK(cuMemAlloc_v2(&at, PIECE));
    put(at, 100, 4);
    OK(cuMemGetHandleForAddressRange(&fd, at, PIECE, 1, 0));
    seen = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    HOLDS(seen != MAP_FAILED);
    GIVES(seen[99], (char)(99 * 7 + 4));
    fill(seen, 100, 5);
    has(at, 100, 5);
    GIVES(cuMemGetHandleForAddressRange(&fd, at + 5, PIECE - 5, 1, 0), CU_INVALID_VALUE);
}

static void told_of_devices(void **state)
{
    (void)state;
    play(looks_at_devices, maps_for_cpu, NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_before_start_nor_after_fork),
        cmocka_unit_test(calls_by_name),
        cmocka_unit_test(virtual_memory_is_refused),
        cmocka_unit_test(pieces_are_told_apart),
        cmocka_unit_test(host_nodes),
        cmocka_unit_test(kinds_of_memory),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(pools_are_counted),
        cmocka_unit_test(told_of_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

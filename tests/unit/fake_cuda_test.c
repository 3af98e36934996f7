/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake CUDA driver in one process: what it refuses, in which order streams work, what pointers are, injected errors. */
#include "tests/support/cuda/roles.h"

#include <sys/mman.h>
#include <time.h>

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

/* ---- streams --------------------------------------------------------------------------------------------------------------- */

enum { ASKED = 24 };

/* How often the stream says that it is not ready, for each of several copies. */
static void counts_answers(void)
{
    unsigned char answers[ASKED] = {0};
    char host[64] = "a";
    cu_address at;
    void *stream;

    if (me)
        setenv("NIGH_FAKE_CUDA_SEED", me == 1 ? "1" : "2", 1);
    start(0);
    OK(cuMemAlloc_v2(&at, 64));
    OK(cuStreamCreate(&stream, 1));
    for (int i = 0; i < ASKED; i++) {
        host[0] = (char)i;
        OK(cuMemcpyHtoDAsync_v2(at, host, 64, stream));
        while (cuStreamQuery(stream) == CU_NOT_READY)
            answers[i]++;
    }
    if (me) {
        say(0, answers, sizeof(answers));
    } else {
        unsigned char same[ASKED], other[ASKED];
        int sum = 0;

        hear(1, same, sizeof(same));
        hear(2, other, sizeof(other));
        OK(memcmp(same, answers, sizeof(answers)));
        HOLDS(memcmp(other, answers, sizeof(answers)) != 0);
        for (int i = 0; i < ASKED; i++)
            sum += answers[i];
        HOLDS(sum > 0 && sum < 10 * ASKED);
    }
}

static void late_by_the_seed(void **state)
{
    (void)state;
    play(counts_answers, counts_answers, counts_answers);
}

/* Each in its order; between streams in none, but for events. */
static void orders_streams(void)
{
    void *streams[2], *event, *none, *timed[2];
    cu_address at;
    char host[16];
    float ms;

    start(0);
    OK(cuMemAlloc_v2(&at, 16));
    OK(cuEventCreate(&event, CU_NO_TIMING));
    OK(cuEventCreate(&none, CU_NO_TIMING));
    OK(cuEventCreate(&timed[0], 0));
    OK(cuEventCreate(&timed[1], 0));
    for (int i = 0; i < 2; i++)
        OK(cuStreamCreate(&streams[i], 1));
    for (unsigned turn = 1; turn < 100; turn++) {
        OK(cuStreamWaitEvent(streams[0], none, 0)); /* never recorded: for nothing */
        OK(cuMemsetD8Async(at, (unsigned char)turn, 16, streams[0]));
        OK(cuEventRecord(event, streams[0]));
        GIVES(cuMemcpyDtoHAsync_v2(host, at, 17, streams[1]), CU_INVALID_VALUE);
        OK(cuStreamWaitEvent(streams[1], event, 0));
        OK(cuMemcpyDtoHAsync_v2(host, at, 16, streams[1]));
        OK(cuMemsetD8Async(at, 0, 16, streams[1]));
        if (turn % 2)
            OK(cuStreamSynchronize(streams[1]));
        else
            while (cuStreamQuery(streams[1]) == CU_NOT_READY)
                ;
        OK(cuEventQuery(event));
        GIVES(host[15], turn);
    }
    OK(cuEventQuery(none));
    OK(cuEventSynchronize(none));
    GIVES(cuEventElapsedTime(&ms, event, timed[0]), CU_INVALID_HANDLE);
    OK(cuEventRecord(timed[0], streams[0]));
    OK(cuEventRecord(timed[1], streams[1]));
    OK(cuEventSynchronize(timed[0]));
    OK(cuEventSynchronize(timed[1]));
    OK(cuEventElapsedTime(&ms, timed[0], timed[1]));
    OK(cuEventDestroy_v2(event));
    GIVES(cuEventQuery(event), CU_INVALID_HANDLE);
    OK(cuStreamDestroy_v2(streams[0]));
    GIVES(cuStreamQuery(streams[0]), CU_INVALID_HANDLE);
}

static void order_within_and_between(void **state)
{
    (void)state;
    play(orders_streams, NULL, NULL);
}

/* What the context's legacy stream has been given comes between what other streams have; but not those that do not wait. */
static void orders_legacy(void)
{
    void *blocking, *other;
    cu_address at;
    char host[3][8];

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    OK(cuStreamCreate(&blocking, 0));
    OK(cuStreamCreate(&other, 1));
    for (unsigned char turn = 1; turn < 50; turn++) {
        OK(cuMemsetD8Async(at, turn, 8, blocking));
        OK(cuMemcpyDtoHAsync_v2(host[0], at, 8, NULL));
        OK(cuMemsetD8Async(at, 0, 8, blocking));
        OK(cuStreamSynchronize(blocking));
        GIVES(host[0][7], turn);
    }
    fake_cuda.delay(20000);
    OK(cuMemsetD8Async(at, 9, 8, blocking));
    OK(cuMemcpyDtoHAsync_v2(host[2], at, 8, other));
    GIVES(cuStreamQuery(NULL), CU_SUCCESS); /* itself it has nothing to do */
    GIVES(cuStreamQuery(blocking), CU_NOT_READY);
    OK(cuCtxSynchronize());
    OK(cuStreamQuery(blocking));
    OK(cuStreamQuery(other));
}

static void legacy_stream(void **state)
{
    (void)state;
    play(orders_legacy, NULL, NULL);
}

static void adds_one(void *argument)
{
    __atomic_add_fetch((int *)argument, 1, __ATOMIC_RELEASE);
}

/* Without anybody who asks or waits, too. */
static void calls_back(void)
{
    int called = 0;
    void *stream;
    cu_address word;

    start(0);
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemAlloc_v2(&word, 4));
    OK(cuMemsetD8Async(word, 0, 4, stream));
    OK(cuStreamWaitValue32_v2(stream, word, 7, 0));
    OK(cuLaunchHostFunc(stream, adds_one, &called));
    usleep(5000);
    OK(__atomic_load_n(&called, __ATOMIC_ACQUIRE));
    OK(cuStreamWriteValue32_v2(NULL, word, 8, 0));
    while (!__atomic_load_n(&called, __ATOMIC_ACQUIRE))
        usleep(100);
    OK(cuStreamSynchronize(stream));
}

static void host_functions(void **state)
{
    (void)state;
    play(calls_back, NULL, NULL);
}

/* ---- copies ---------------------------------------------------------------------------------------------------------------------- */

static void copies_planes(void)
{
    static _Alignas(4096) char host[8192];
    struct cu_plane plane = {.from_type = CU_HOST_MEMORY,
                             .from_host = host,
                             .from_pitch = 100,
                             .from_x = 10,
                             .to_type = CU_DEVICE_MEMORY,
                             .to_pitch = 64,
                             .to_y = 1,
                             .width = 50,
                             .height = 20};
    cu_address at;
    void *stream;
    char got[64 * 21];

    start(0);
    OK(cuMemAlloc_v2(&at, sizeof(got)));
    OK(cuStreamCreate(&stream, 1));
    plane.to_device = at;
    fill(host, sizeof(host), 1);
    GIVES(cuMemcpy2DAsync_v2(&plane, stream), CU_INVALID_VALUE); /* not pinned */
    OK(cuMemHostRegister_v2(host, sizeof(host), 1));
    GIVES(cuMemHostRegister_v2(host + 4000, 8, 1), CU_ALREADY_REGISTERED);
    OK(cuMemcpy2DAsync_v2(&plane, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(got, at, sizeof(got)));
    for (int row = 0; row < 20; row++)
        OK(memcmp(got + (row + 1) * 64, host + row * 100 + 10, 50));
    plane.from_pitch = 59;
    GIVES(cuMemcpy2DAsync_v2(&plane, stream), CU_INVALID_VALUE);
    plane.from_pitch = 100;
    plane.height = 21; /* beyond the end */
    GIVES(cuMemcpy2DAsync_v2(&plane, stream), CU_INVALID_VALUE);
    OK(cuMemHostUnregister(host));
    GIVES(cuMemHostUnregister(host), CU_NOT_REGISTERED);
}

static void planes(void **state)
{
    (void)state;
    play(copies_planes, NULL, NULL);
}

static void copies_batches(void)
{
    struct cu_copy_attributes attributes[2] = {{.order = 2}, {.order = 1}};
    char host[2][32];
    cu_address at, to[3], from[3];
    size_t bytes[3] = {32, 32, 32}, firsts[2] = {0, 1};
    void *stream;
    char got[32];

    start(0);
    OK(cuMemAlloc_v2(&at, 96));
    OK(cuStreamCreate(&stream, 1));
    for (unsigned i = 0; i < 2; i++) {
        fill(host[i], 32, i);
        from[i] = (uintptr_t)host[i];
    }
    from[2] = at;
    for (unsigned i = 0; i < 3; i++)
        to[i] = at + (cu_address)i * 32;
    GIVES(cuMemcpyBatchAsync_v2(to, from, bytes, 3, attributes, firsts, 2, NULL), CU_INVALID_VALUE);
    OK(cuMemcpyBatchAsync_v2(to, from, bytes, 3, attributes, firsts, 2, stream));
    memset(host[0], 0, 32); /* the first was read in the call */
    fill(host[1], 32, 7);   /* the second is read late */
    OK(cuStreamSynchronize(stream));
    has(at, 32, 0);
    has(at + 32, 32, 7);
    has(at + 64, 32, 0);
    OK(cuMemcpy((uintptr_t)got, at + 32, 32));
    fill(host[0], 32, 7);
    OK(memcmp(got, host[0], 32));
}

static void batches(void **state)
{
    (void)state;
    play(copies_batches, NULL, NULL);
}

/* A copy from pageable memory returns early, unless memory or context finish theirs. */
static void copies_early(void)
{
    cu_address at;
    char host[8], got[8];
    unsigned one = 1;
    void *stream;

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    OK(cuStreamCreate(&stream, 1));
    for (int turn = 0; turn < 3; turn++) {
        if (turn == 1)
            OK(cuPointerSetAttribute(&one, POINTER_SYNC_MEMOPS, at));
        if (turn == 2) {
            one = 0;
            OK(cuPointerSetAttribute(&one, POINTER_SYNC_MEMOPS, at));
            OK(cuCtxSetFlags(CU_CONTEXT_SYNC_MEMOPS));
        }
        memset(host, 3 + turn, 8);
        OK(cuMemcpyHtoD_v2(at, host, 8));
        OK(cuMemcpyDtoHAsync_v2(got, at, 8, stream));
        OK(cuStreamSynchronize(stream));
        GIVES(got[0] == 3 + turn, turn > 0);
    }
}

static void pageable_copies_are_late(void **state)
{
    (void)state;
    play(copies_early, NULL, NULL);
}

/* ---- what ends the program -------------------------------------------------------------------------------------------------------- */

static void touches(void)
{
    cu_address at;

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    signal(SIGSEGV, SIG_DFL);
    *(volatile char *)(uintptr_t)at = 1;
}

static void touch_faults(void **state)
{
    pid_t child = fork();
    int status;

    (void)state;
    if (!child) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        touches();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static cu_address mapped;
static void *used_stream;

static void begins_copy(void)
{
    static char host[64];

    start(0);
    mapped = reserve(PIECE);
    map(mapped, PIECE, create(PIECE, 0), 0);
    OK(cuStreamCreate(&used_stream, 1));
    OK(cuMemcpyDtoHAsync_v2(host, mapped + 64, 64, used_stream));
}

static void unmaps_under_a_copy(void)
{
    begins_copy();
    cuMemUnmap(mapped, PIECE);
}

static void waits_then_unmaps(void)
{
    begins_copy();
    OK(cuStreamSynchronize(used_stream));
    OK(cuMemUnmap(mapped, PIECE));
}

static void unmap_does_not_wait(void **state)
{
    (void)state;
    faults(unmaps_under_a_copy, "cuMemUnmap of memory that a copy under way reads or writes");
    play(waits_then_unmaps, NULL, NULL);
}

static void pushes_destroyed(void)
{
    void *context;

    start(0);
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuCtxDestroy_v2(context));
    cuCtxPushCurrent_v2(context);
}

static void destroyed_contexts(void **state)
{
    (void)state;
    faults(pushes_destroyed, "cuCtxPushCurrent_v2 of a context that was destroyed");
}

/* Calls that wait for the host's kernels: number `waiting` is tried. */
static int waiting;

static void waits_for_kernel(void)
{
    static char host[4096];
    void *event = NULL, *pinned = NULL;
    cu_address at, made;

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    OK(cuEventCreate(&event, CU_INTERPROCESS | CU_NO_TIMING));
    OK(cuMemAllocHost_v2(&pinned, 8));
    OK(cuMemHostRegister_v2(host, sizeof(host), 1));
    test_cuda.hold(0, true);
    switch (waiting) {
    case 0:
        cuMemFree_v2(at);
        break;
    case 1:
        cuMemAlloc_v2(&made, 8);
        break;
    case 2:
        cuMemFreeHost(pinned);
        break;
    case 3:
        cuMemHostUnregister(host);
        break;
    case 4:
        cuEventDestroy_v2(event);
        break;
    case 5:
        cuEventCreate(&event, CU_INTERPROCESS | CU_NO_TIMING);
        break;
    case 6:
        cuCtxSynchronize();
        break;
    case 7:
        cuCtxSetFlags(0);
        break;
    case 8:
        cuStreamSynchronize(NULL);
        break;
    case 9:
        cuMemcpyDtoH_v2(host, at, 8);
        break;
    default:
        cuMemcpyHtoD_v2(at, host, 8);
        break;
    }
}

/* And those that do not. */
static void works_beside_kernel(void)
{
    static char host[4096];
    void *stream, *event, *blocking;
    cu_address at;
    char got[8];

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    OK(cuStreamCreate(&blocking, 0));
    test_cuda.hold(0, true);
    OK(cuMemHostRegister_v2(host, sizeof(host), 1));
    OK(cuStreamCreate(&stream, 1));
    OK(cuEventCreate(&event, CU_NO_TIMING));
    OK(cuMemsetD8Async(at, 4, 8, stream));
    OK(cuMemsetD8Async(at, 5, 8, blocking));
    OK(cuMemcpyDtoHAsync_v2(got, at, 8, stream));
    OK(cuEventRecord(event, stream));
    OK(cuEventSynchronize(event));
    GIVES(got[0], 4);
    GIVES(cuStreamQuery(NULL), CU_NOT_READY);
    GIVES(cuStreamQuery(blocking), CU_NOT_READY);
    OK(cuEventDestroy_v2(event));
    OK(cuStreamDestroy_v2(stream));
    map(reserve(PIECE), PIECE, create(PIECE, 0), 0);
    test_cuda.hold(0, false);
    OK(cuStreamSynchronize(blocking));
    OK(cuMemHostUnregister(host));
}

static void kernels_of_the_host(void **state)
{
    (void)state;
    for (waiting = 0; waiting <= 10; waiting++)
        faults(waits_for_kernel, "waits for a kernel of the host's");
    play(works_beside_kernel, NULL, NULL);
}

/* A graph that is captured is void for what is asked of the driver meanwhile, but in the relaxed mode. */
static void captures(void)
{
    int mode = CU_CAPTURE_RELAXED;
    cu_address at, made;
    char host[8];
    void *stream;

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    OK(cuStreamCreate(&stream, 1));
    test_cuda.capture(0, true);
    GIVES(cuMemcpyDtoHAsync_v2(host, at, 8, stream), CU_CAPTURE_UNSUPPORTED);
    GIVES(cuMemAlloc_v2(&made, 8), CU_CAPTURE_UNSUPPORTED);
    HOLDS(!test_cuda.capture(0, false));
    test_cuda.capture(0, true);
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(cuMemcpyDtoHAsync_v2(host, at, 8, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS(test_cuda.capture(0, false));
    test_cuda.capture(0, true);
    GIVES(cuStreamQuery(NULL), CU_CAPTURE_IMPLICIT);
    HOLDS(!test_cuda.capture(0, false));
}

static void graphs(void **state)
{
    (void)state;
    play(captures, NULL, NULL);
}

/* ---- injected errors ------------------------------------------------------------------------------------------------------------------ */

static void is_injected(void)
{
    unsigned long long handle = 0;
    struct cu_allocation properties = on_device(0);
    struct timespec begin, end;
    size_t bytes;

    setenv("NIGH_FAKE_CUDA_FAIL", "cuMemCreate=2@1,cuMemRelease=999", 1);
    setenv("NIGH_FAKE_CUDA_DELAY", "cuMemGetAllocationGranularity=20000", 1);
    start(0);
    OK(cuMemCreate(&handle, PIECE, &properties, 0));
    GIVES(cuMemCreate(&handle, PIECE, &properties, 0), CU_OUT_OF_MEMORY);
    OK(cuMemCreate(&handle, PIECE, &properties, 0));
    GIVES(cuMemRelease(handle), 999);
    GIVES(cuMemRelease(handle), 999);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    OK(cuMemGetAllocationGranularity(&bytes, &properties, 0));
    clock_gettime(CLOCK_MONOTONIC, &end);
    HOLDS((end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000 >= 20000);
    fake_cuda.refuse("cuMemCreate", CU_NOT_PERMITTED);
    GIVES(cuMemCreate(&handle, PIECE, &properties, 0), CU_NOT_PERMITTED);
    GIVES(cuMemCreate(&handle, PIECE, &properties, 0), CU_NOT_PERMITTED);
    fake_cuda.refuse("cuMemCreate", 0);
    test_cuda.fail_once("cuMemCreate", 1);
    OK(cuMemCreate(&handle, PIECE, &properties, 0));
    GIVES(cuMemCreate(&handle, PIECE, &properties, 0), TEST_CUDA_ERROR);
    OK(cuMemCreate(&handle, PIECE, &properties, 0));
    GIVES(test_cuda.calls("cuMemCreate"), 8);
}

static void injected_errors(void **state)
{
    (void)state;
    play(is_injected, NULL, NULL);
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
        cmocka_unit_test(late_by_the_seed),
        cmocka_unit_test(order_within_and_between),
        cmocka_unit_test(legacy_stream),
        cmocka_unit_test(host_functions),
        cmocka_unit_test(planes),
        cmocka_unit_test(batches),
        cmocka_unit_test(pageable_copies_are_late),
        cmocka_unit_test(touch_faults),
        cmocka_unit_test(unmap_does_not_wait),
        cmocka_unit_test(destroyed_contexts),
        cmocka_unit_test(kernels_of_the_host),
        cmocka_unit_test(graphs),
        cmocka_unit_test(injected_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

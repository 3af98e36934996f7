/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake CUDA driver between two and three processes: memory by descriptor, pool and legacy handle, events, accounts. */
#include "tests/support/cuda/roles.h"

#include <sched.h>
#include <sys/stat.h>

enum { PIECES = 3 };

/* ---- memory by descriptor ---------------------------------------------------------------------------------------------- */

static int exported(unsigned long long handle)
{
    int fd;

    OK(cuMemExportToShareableHandle(&fd, handle, CU_POSIX_FD, 0));
    return fd;
}

static unsigned long long imported(int fd)
{
    unsigned long long handle;

    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_POSIX_FD));
    close(fd);
    return handle;
}

/* Pieces one behind the other, given away as one descriptor each. */
static void gives_pieces(void)
{
    unsigned long long handles[PIECES], again;
    cu_address at;

    start(1);
    at = reserve(PIECES * PIECE);
    for (int i = 0; i < PIECES; i++) {
        handles[i] = create(PIECE, 1);
        map(at + (cu_address)i * PIECE, PIECE, handles[i], 1);
        OK(cuMemRelease(handles[i]));
    }
    put(at, PIECES * PIECE, 5);
    for (int i = 0; i < PIECES; i++) {
        OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + (cu_address)i * PIECE + 77)));
        give_fd(1, exported(again));
        OK(cuMemRelease(again));
    }
    await(1);
    has(at + 100, PIECES * PIECE - 200, 9); /* what the other has written */
    OK(cuMemUnmap(at, PIECES * PIECE));
    OK(cuMemAddressFree(at, PIECES * PIECE));
    GIVES(fake_cuda.used(1), (size_t)PIECES * PIECE); /* the other still has it */
    tell(1);
    await(1);
    OK(fake_cuda.used(1));
    OK(cuCtxSetCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease_v2(1));
    HOLDS(!test_cuda.leaks());
}

static void takes_pieces(void)
{
    unsigned long long handle;
    cu_address at;

    start(0);
    at = reserve(PIECES * PIECE);
    for (int i = 0; i < PIECES; i++) {
        handle = imported(take_fd(0));
        map(at + (cu_address)i * PIECE, PIECE, handle, 0);
        OK(cuMemRelease(handle));
    }
    has(at, PIECES * PIECE, 5);
    put(at + 100, PIECES * PIECE - 200, 9);
    tell(0);
    await(0);
    has(at + 100, PIECES * PIECE - 200, 9); /* its maker has let go of it */
    OK(cuMemUnmap(at, PIECES * PIECE));
    OK(cuMemAddressFree(at, PIECES * PIECE));
    tell(0);
}

static void pieces_between_two(void **state)
{
    (void)state;
    play(gives_pieces, takes_pieces, NULL);
}

/* A descriptor on its way keeps the memory, wherever it is. */
static void counts_descriptors(void)
{
    unsigned long long handle;
    int fd;

    start(0);
    handle = create(PIECE, 0);
    fd = exported(handle);
    OK(cuMemRelease(handle));
    GIVES(fake_cuda.used(0), PIECE);
    give_fd(1, fd);
    GIVES(fake_cuda.used(0), PIECE);
    tell(2);
    await(1);
    OK(fake_cuda.used(0));
}

static void loses_a_descriptor(void)
{
    await(2);
    await(0); /* the byte that it came with: without room for it, it is gone */
    tell(0);
}

static void tells_when(void)
{
    await(0);
    tell(1);
}

static void descriptors_hold_memory(void **state)
{
    (void)state;
    play(counts_descriptors, loses_a_descriptor, tells_when);
}

/* One that is killed gives back what it has. */
static void outlives(void)
{
    unsigned long long handle;

    start(0);
    handle = create(PIECE, 0);
    give_fd(1, exported(handle));
    OK(cuMemRelease(handle));
    await(1);
    GIVES(fake_cuda.used(0), PIECE);
    tell(1);
    while (fake_cuda.used(0))
        usleep(1000);
}

static void dies_with_memory(void)
{
    start(0);
    map(reserve(PIECE), PIECE, imported(take_fd(0)), 0);
    tell(0);
    await(0);
    _exit(0);
}

static void death_gives_memory_back(void **state)
{
    (void)state;
    play(outlives, dies_with_memory, NULL);
}

/* No descriptor of another kind is memory. */
static void refuses_descriptors(void)
{
    struct cu_pool_properties pool = {
        .type = CU_PINNED, .handle_types = CU_POSIX_FD, .location = {CU_ON_DEVICE, 0}};
    unsigned long long handle;
    void *made;
    int fd, pipes[2];

    start(0);
    OK(pipe(pipes));
    OK(cuMemPoolCreate(&made, &pool));
    OK(cuMemPoolExportToShareableHandle(&fd, made, CU_POSIX_FD, 0));
    GIVES(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_POSIX_FD), CU_INVALID_VALUE);
    GIVES(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)pipes[0], CU_POSIX_FD), CU_INVALID_VALUE);
    GIVES(cuMemImportFromShareableHandle(&handle, (void *)-1, CU_POSIX_FD), CU_INVALID_VALUE);
    GIVES(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_FABRIC), CU_NOT_SUPPORTED);
    handle = create(PIECE, 0);
    GIVES(cuMemPoolImportFromShareableHandle(&made, (void *)(intptr_t)exported(handle), CU_POSIX_FD, 0),
          CU_INVALID_VALUE);
}

static void other_descriptors(void **state)
{
    (void)state;
    play(refuses_descriptors, NULL, NULL);
}

/* ---- pools ----------------------------------------------------------------------------------------------------------------- */

static void gives_pool(void)
{
    struct cu_pool_properties properties = {
        .type = CU_PINNED, .handle_types = CU_POSIX_FD, .location = {CU_ON_DEVICE, 0}};
    struct cu_pool_pointer pointers[3], none;
    cu_address at[2], other;
    void *pool, *second;
    int fd;

    start(0);
    OK(cuMemPoolCreate(&pool, &properties));
    OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_POSIX_FD, 0));
    give_fd(1, fd);
    for (int i = 0; i < 2; i++) {
        OK(cuMemAllocFromPoolAsync(&at[i], 100000, pool, NULL));
        put(at[i], 100000, 3 + (unsigned)i);
        OK(cuMemPoolExportPointer(&pointers[i], at[i]));
    }
    GIVES(cuMemPoolExportPointer(&none, at[0] + 512), CU_INVALID_VALUE);
    OK(cuMemAllocAsync(&other, 64, NULL)); /* of the device's own pool, which nobody can export */
    GIVES(cuMemPoolExportPointer(&none, other), CU_INVALID_VALUE);
    OK(cuMemPoolCreate(&second, &properties));
    OK(cuMemAllocFromPoolAsync(&other, 64, second, NULL));
    OK(cuMemPoolExportPointer(&pointers[2], other));
    say(1, pointers, sizeof(pointers));
    await(1);
    has(at[1], 100000, 11);
    OK(cuMemFreeAsync(at[0], NULL));
    GIVES(cuMemFreeAsync(at[0], NULL), CU_INVALID_VALUE);
    OK(cuMemFree_v2(at[1]));
    OK(cuMemPoolDestroy(pool));
}

static void takes_pool(void)
{
    const struct cu_access access = {.location = {CU_ON_DEVICE, 1}, .flags = CU_READ_WRITE};
    struct cu_pool_pointer pointers[3];
    cu_address at[2], again;
    void *pool, *of;
    char byte[1];

    start(1);
    OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)take_fd(0), CU_POSIX_FD, 0));
    hear(0, pointers, sizeof(pointers));
    for (int i = 1; i >= 0; i--) {
        OK(cuMemPoolImportPointer(&at[i], pool, &pointers[i]));
        GIVES(cuMemcpyDtoH_v2(byte, at[i], 1), i ? CU_INVALID_VALUE : CU_SUCCESS); /* the second device's */
        OK(cuMemPoolSetAccess(pool, &access, 1));
        has(at[i], 100000, 3 + (unsigned)i);
    }
    GIVES(cuMemPoolImportPointer(&again, pool, &pointers[0]), CU_ALREADY_MAPPED);
    GIVES(cuMemPoolImportPointer(&again, pool, &pointers[2]), CU_INVALID_VALUE); /* of another pool */
    OK(cuPointerGetAttribute(&of, POINTER_POOL, at[1]));
    HOLDS(of == pool);
    GIVES(cuMemAllocFromPoolAsync(&again, 64, pool, NULL), CU_INVALID_VALUE);
    put(at[1], 100000, 11);
    OK(cuMemFreeAsync(at[0], NULL));
    OK(cuMemFreeAsync(at[1], NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemPoolDestroy(pool));
    tell(0);
}

static void pools_between_two(void **state)
{
    (void)state;
    play(gives_pool, takes_pool, NULL);
}

/* ---- legacy handles ---------------------------------------------------------------------------------------------------------- */

static void gives_handle(void)
{
    struct cu_ipc handle, inner;
    cu_address at, here;

    start(0);
    OK(cuMemAlloc_v2(&at, 3 * MIB + 5));
    put(at, 3 * MIB + 5, 1);
    OK(cuIpcGetMemHandle(&handle, at));
    OK(cuIpcGetMemHandle(&inner, at + MIB));
    OK(memcmp(&handle, &inner, sizeof(handle)));
    GIVES(cuIpcOpenMemHandle_v2(&here, handle, 1), CU_INVALID_CONTEXT);
    for (int to = 1; to < 3; to++) {
        say(to, &handle, sizeof(handle));
        await(to);
    }
    has(at, 3 * MIB + 5, 4);
    OK(cuMemFree_v2(at));
    GIVES(fake_cuda.used(0), 3 * MIB + 5); /* two others have it open */
    tell(1);
    tell(2);
    await(1);
    await(2);
    OK(fake_cuda.used(0));
}

static void takes_handle(void)
{
    struct cu_ipc handle;
    cu_address at, again, base;
    size_t bytes;
    void *other;

    start(me - 1);
    hear(0, &handle, sizeof(handle));
    GIVES(cuIpcOpenMemHandle_v2(&at, handle, 0), CU_INVALID_VALUE);
    OK(cuIpcOpenMemHandle_v2(&at, handle, 1));
    OK(cuIpcOpenMemHandle_v2(&again, handle, 1));
    HOLDS(again == at);
    OK(cuMemGetAddressRange_v2(&base, &bytes, at + MIB));
    HOLDS(base == at && bytes == 3 * MIB + 5);
    OK(cuCtxCreate_v2(&other, 0, me - 1));
    GIVES(cuIpcOpenMemHandle_v2(&again, handle, 1), CU_INVALID_CONTEXT);
    OK(cuCtxDestroy_v2(other));
    start(me - 1);
    if (me == 1)
        has(at, 3 * MIB + 5, 1);
    put(at, 3 * MIB + 5, 2 * (unsigned)me);
    tell(0);
    await(0);
    GIVES(cuMemFree_v2(at), CU_INVALID_VALUE);
    OK(cuIpcCloseMemHandle(at));
    OK(cuIpcCloseMemHandle(at));
    GIVES(cuIpcCloseMemHandle(at), CU_INVALID_VALUE);
    GIVES(cuIpcOpenMemHandle_v2(&at, handle, 1), CU_INVALID_HANDLE); /* its maker has freed it */
    tell(0);
}

static void handles_between_three(void **state)
{
    (void)state;
    play(gives_handle, takes_handle, takes_handle);
}

/* Freed and allocated again at the same address: another handle, and the older must be closed first. */
static void allocates_again(void)
{
    struct cu_ipc handle;
    cu_address at, first = 0;

    start(0);
    for (unsigned i = 0; i < 2; i++) {
        OK(cuMemAlloc_v2(&at, PIECE));
        HOLDS(!first || at == first);
        first = at;
        put(at, PIECE, i);
        OK(cuIpcGetMemHandle(&handle, at));
        say(1, &handle, sizeof(handle));
        await(1);
        OK(cuMemFree_v2(at));
    }
}

static void opens_again(void)
{
    struct cu_ipc handle;
    cu_address at, second;

    start(0);
    hear(0, &handle, sizeof(handle));
    OK(cuIpcOpenMemHandle_v2(&at, handle, 1));
    tell(0);
    hear(0, &handle, sizeof(handle));
    GIVES(cuIpcOpenMemHandle_v2(&second, handle, 1), CU_ALREADY_MAPPED);
    has(at, PIECE, 0); /* the old bytes */
    OK(cuIpcCloseMemHandle(at));
    OK(cuIpcOpenMemHandle_v2(&second, handle, 1));
    has(second, PIECE, 1);
    OK(cuIpcCloseMemHandle(second));
    tell(0);
}

static void same_address_again(void **state)
{
    (void)state;
    play(allocates_again, opens_again, NULL);
}

/* In another PID namespace legacy handles are refused; descriptors do. */
static void gives_both(void)
{
    struct cu_ipc handle;
    cu_address at;

    start(0);
    OK(cuMemAlloc_v2(&at, PIECE));
    OK(cuIpcGetMemHandle(&handle, at));
    say(1, &handle, sizeof(handle));
    give_fd(1, exported(create(PIECE, 0)));
    await(1);
}

static void tries_both(void)
{
    struct cu_ipc handle;
    cu_address at;

    start(0);
    hear(0, &handle, sizeof(handle));
    GIVES(cuIpcOpenMemHandle_v2(&at, handle, 1), CU_INVALID_CONTEXT);
    map(reserve(PIECE), PIECE, imported(take_fd(0)), 0);
    tell(0);
}

/* Without the right to it by way of a user namespace. */
static bool leave_namespace(void)
{
    return unshare(CLONE_NEWPID) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0;
}

static void in_another_namespace(void)
{
    int status;
    pid_t child;

    HOLDS(leave_namespace());
    child = fork();
    if (!child) {
        tries_both();
        _exit(0);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    OK(status);
}

static bool can_unshare(void)
{
    pid_t child = fork();
    int status;

    if (!child)
        _exit(!leave_namespace());
    return waitpid(child, &status, 0) == child && status == 0;
}

static void between_namespaces(void **state)
{
    (void)state;
    if (!can_unshare()) {
        print_message("skipped: this process may make no PID namespace\n");
        skip();
    }
    play(gives_both, in_another_namespace, NULL);
}

/* ---- events -------------------------------------------------------------------------------------------------------------------- */

enum { TURNS = 20 };

static void records(void)
{
    struct cu_ipc handle;
    unsigned long long allocated;
    cu_address at;
    void *event, *stream;
    char *host = malloc(PIECE);

    start(0);
    fake_cuda.delay(3000);
    allocated = create(PIECE, 0);
    at = reserve(PIECE);
    map(at, PIECE, allocated, 0);
    GIVES(cuEventCreate(&event, CU_INTERPROCESS), CU_INVALID_VALUE);
    OK(cuEventCreate(&event, CU_INTERPROCESS | CU_NO_TIMING));
    OK(cuStreamCreate(&stream, 1));
    OK(cuIpcGetEventHandle(&handle, event));
    say(1, &handle, sizeof(handle));
    give_fd(1, exported(allocated));
    for (unsigned turn = 0; turn < TURNS; turn++) {
        fill(host, PIECE, turn);
        OK(cuMemcpyHtoDAsync_v2(at, host, PIECE, stream));
        OK(cuEventRecord(event, stream));
        tell(1); /* nothing of it has happened yet, and this process asks no more */
        await(1);
        OK(cuEventQuery(event));
    }
    OK(cuStreamDestroy_v2(stream));
    OK(cuEventDestroy_v2(event));
    tell(1);
    await(1);
    free(host);
}

/* In its own stream, without a wait of the CPU's. */
static void follows(void)
{
    struct cu_ipc handle;
    cu_address at, copy;
    void *event, *again, *stream;

    start(0);
    hear(0, &handle, sizeof(handle));
    OK(cuIpcOpenEventHandle(&event, handle));
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemAlloc_v2(&copy, PIECE));
    at = reserve(PIECE);
    map(at, PIECE, imported(take_fd(0)), 0);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        await(0);
        OK(cuStreamWaitEvent(stream, event, 0));
        OK(cuMemcpyDtoDAsync_v2(copy, at, PIECE, stream));
        while (cuStreamQuery(stream) == CU_NOT_READY)
            ;
        OK(cuEventQuery(event));
        has(copy, PIECE, turn);
        tell(0);
    }
    await(0);
    GIVES(cuIpcOpenEventHandle(&again, handle), CU_INVALID_HANDLE);
    OK(cuEventQuery(event));
    OK(cuEventDestroy_v2(event));
    tell(0);
}

static void events_between_two(void **state)
{
    (void)state;
    play(records, follows, NULL);
}

/* ---- devices -------------------------------------------------------------------------------------------------------------------- */

/* Each has another device as its first. */
static void names_devices(void)
{
    struct cu_uuid uuids[2], theirs[2];
    int count, can;

    if (me == 1)
        setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
    start(0);
    OK(cuDeviceGetCount(&count));
    GIVES(count, 2);
    for (int i = 0; i < 2; i++)
        OK(cuDeviceGetUuid_v2(&uuids[i], i));
    say(1 - me, uuids, sizeof(uuids));
    hear(1 - me, theirs, sizeof(theirs));
    OK(memcmp(&uuids[0], &theirs[1], sizeof(uuids[0])));
    OK(memcmp(&uuids[1], &theirs[0], sizeof(uuids[0])));
    HOLDS(memcmp(&uuids[0], &uuids[1], sizeof(uuids[0])) != 0);
    OK(cuDeviceCanAccessPeer(&can, 0, 0));
    OK(can);
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    GIVES(can, 1);
}

static void devices_have_names(void **state)
{
    (void)state;
    play(names_devices, names_devices, NULL);
}

/* Memory of a device that this process does not see, and of one that its device does not reach. */
static void gives_of_both(void)
{
    start(0);
    give_fd(1, exported(create(PIECE, 0)));
    give_fd(1, exported(create(PIECE, 1)));
    await(1);
}

static void sees_one(void)
{
    struct cu_access access = {.location = {CU_ON_DEVICE, 0}, .flags = CU_READ_WRITE};
    cu_address at;

    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    start(0);
    fake_cuda.set_peers(0, 1, false);
    at = reserve(2 * PIECE);
    OK(cuMemMap(at, PIECE, 0, imported(take_fd(0)), 0));
    GIVES(cuMemSetAccess(at, PIECE, &access, 1), CU_NO_PEER_ACCESS);
    map(at + PIECE, PIECE, imported(take_fd(0)), 0);
    put(at + PIECE, PIECE, 1);
    GIVES(cuMemsetD8_v2(at, 0, 8), CU_INVALID_VALUE);
    fake_cuda.set_peers(0, 1, true);
    OK(cuMemSetAccess(at, PIECE, &access, 1));
    put(at, 2 * PIECE, 1);
    tell(0);
}

static void unseen_devices(void **state)
{
    (void)state;
    play(gives_of_both, sees_one, NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_between_two),      cmocka_unit_test(descriptors_hold_memory),
        cmocka_unit_test(death_gives_memory_back), cmocka_unit_test(other_descriptors),
        cmocka_unit_test(pools_between_two),       cmocka_unit_test(handles_between_three),
        cmocka_unit_test(same_address_again),      cmocka_unit_test(between_namespaces),
        cmocka_unit_test(events_between_two),      cmocka_unit_test(devices_have_names),
        cmocka_unit_test(unseen_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory that cannot be handed over: each reason is told, and is the right one; what a peer sends wrongly ends that peer and
 * nothing else; every call of the driver fails once, and nothing stays open. Faults of others are named where they are met.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/cuda_lab.h"
#include "tests/support/logged.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 1 << 20, FD = NIGH_CUDA_HANDLE_POSIX_FD };

static const int zeros[NIGH_CUDA_SEGMENTS_MAX + 1];

/* ---- exports ------------------------------------------------------------------------------------------- */

static void staged(uint64_t at, uint64_t bytes, enum nigh_cuda_reason why)
{
    struct nigh_cuda_export *export = lab_export(at, bytes);
    int none;

    IS(export->wire->way, NIGH_CUDA_STAGED);
    IS(export->wire->reason, why);
    IS(nigh_cuda_record_fds(export->wire), 0);
    IS(nigh_cuda_export_open(export, &none), 0);
    MUST(export->wire->segment[0].base <= at);
    MUST(nigh_cuda_record_extent(export->wire) >= at + bytes - export->wire->segment[0].base);
    for (int i = 0; i < 64; i++)
        MUST(!export->wire->handle[i]);
    nigh_cuda_export_put(export);
}

static void stage_by_kind(int socket)
{
    uint64_t mapped;
    char *at;

    lab_begin();
    at = lab.test->alloc(MEMORY_MANAGED, 0, ROOM);
    staged((uintptr_t)at, ROOM, NIGH_CUDA_WHY_MANAGED);
    lab.test->free(at);
    at = lab.test->alloc(MEMORY_POOL, 0, ROOM);
    staged((uintptr_t)at, ROOM, NIGH_CUDA_WHY_POOL_PRIVATE);
    lab.test->free(at);
    mapped = lab_map(zeros, 2, 0);
    staged(mapped + 5, ROOM, NIGH_CUDA_WHY_NO_HANDLE_TYPE); /* and not by a legacy handle */
    IS(lab.test->calls("cuIpcGetMemHandle"), 0);
    lab_unmap(mapped, zeros, 2);
    mapped = lab_map(zeros, NIGH_CUDA_SEGMENTS_MAX + 1, FD);
    staged(mapped + 5, (uint64_t)NIGH_CUDA_SEGMENTS_MAX * LAB_PIECE, NIGH_CUDA_WHY_MANY_SEGMENTS);
    lab_unmap(mapped, zeros, NIGH_CUDA_SEGMENTS_MAX + 1);
    lab_say(socket, 1);
    lab_end();
}

static void stage_by_driver(int socket)
{
    uint64_t mapped, plain;
    void *pool;

    lab_begin();
    mapped = lab_map(zeros, 2, FD);
    plain = lab_alloc(0, ROOM);
    pool = lab_pool(0);
    logged_begin();
    lab.fake->refuse("cuMemExportToShareableHandle", NIGH_CUDA_NOT_SUPPORTED);
    lab.fake->refuse("cuIpcGetMemHandle", NIGH_CUDA_INVALID_VALUE);
    for (int i = 0; i < 5; i++) {
        staged(mapped, ROOM, NIGH_CUDA_WHY_EXPORT_REFUSED);
        staged(plain, ROOM, NIGH_CUDA_WHY_EXPORT_REFUSED);
    }
    IS(logged_lines(), 1); /* once */
    IS(lab.cuda->devices[0].worked, 1u << NIGH_CUDA_STAGED);
    IS(lab.cuda->devices[0].why, NIGH_CUDA_WHY_EXPORT_REFUSED);
    IS(lab.cuda->devices[0].refused, 1u << NIGH_CUDA_VMM | 1u << NIGH_CUDA_LEGACY);
    MUST(strstr(logged_text(), "staged through the host: the CUDA driver refuses"));
    lab.cuda->wsl = true;
    staged(mapped, ROOM, NIGH_CUDA_WHY_WSL);
    staged(plain, ROOM, NIGH_CUDA_WHY_WSL);
    lab.cuda->wsl = false;
    IS(logged_lines(), 2);
    lab.fake->refuse("cuMemPoolExportToShareableHandle", NIGH_CUDA_INVALID_VALUE);
    {
        uint64_t at = lab_pool_alloc(pool, ROOM);

        staged(at, ROOM, NIGH_CUDA_WHY_POOL_PRIVATE);
        lab.fake->refuse("cuMemPoolExportToShareableHandle", 0);
        lab.fake->refuse("cuMemPoolExportPointer", NIGH_CUDA_INVALID_VALUE);
        staged(at, ROOM, NIGH_CUDA_WHY_POOL_PRIVATE);
        lab_free(at);
    }
    IS(lab.cuda->devices[0].refused, 1u << NIGH_CUDA_VMM | 1u << NIGH_CUDA_LEGACY); /* the pool is to blame */
    lab.fake->refuse("cuMemExportToShareableHandle", 0);
    nigh_cuda_export_put(lab_export(mapped, ROOM));
    IS(lab.cuda->devices[0].refused, 1u << NIGH_CUDA_LEGACY); /* and what works is not refused any more */
    logged_end();
    lab_pool_end(pool);
    lab_free(plain);
    lab_unmap(mapped, zeros, 2);
    lab_say(socket, 1);
    lab_end();
}

static void just_hear(int socket)
{
    lab_hear(socket);
}

/* Faults 2 and 19: memory that is not exportable is said to be, by the right name. */
static void by_kind(void **state)
{
    (void)state;
    lab_pair(stage_by_kind, just_hear);
}

/* Fault 23: a driver that promises and refuses. */
static void by_driver(void **state)
{
    (void)state;
    lab_pair(stage_by_driver, just_hear);
}

/* ---- imports ------------------------------------------------------------------------------------------- */

/* Answers each request: 1: mapped by cuMemMap(), 2: cuMemAlloc(), 3: a pool's, 4: managed, 0: end. */
static void serve(int socket)
{
    uint64_t mapped, plain, pooled, request;
    struct nigh_cuda_export *exports[5] = {NULL};
    uint64_t at[5] = {0};
    char *managed;
    void *pool;

    lab_begin();
    pool = lab_pool(0);
    at[1] = mapped = lab_map(zeros, 2, FD);
    at[2] = plain = lab_alloc(0, ROOM);
    at[3] = pooled = lab_pool_alloc(pool, ROOM);
    managed = lab.test->alloc(MEMORY_MANAGED, 0, ROOM);
    at[4] = (uintptr_t)managed;
    for (int i = 1; i < 5; i++) {
        exports[i] = lab_export(at[i], ROOM);
        lab_put(at[i], ROOM, (unsigned)i);
    }
    while ((request = lab_hear(socket)))
        lab_send(socket, exports[request], at[request]);
    for (int i = 1; i < 5; i++)
        nigh_cuda_export_put(exports[i]);
    lab_unmap(mapped, zeros, 2);
    lab_free(plain);
    lab_free(pooled);
    lab_pool_end(pool);
    lab.test->free(managed);
    lab_end();
}

static struct nigh_cuda_peer *peer;
static struct lab_packet packet;

static void ask(int socket, uint64_t what)
{
    lab_say(socket, what);
    lab_receive(socket, &packet);
}

static void open_peer(void)
{
    lab_begin();
    IS(nigh_cuda_peer_open(lab.cuda, false, 0, &peer), 0);
}

static void close_all(int socket)
{
    lab_say(socket, 0);
    nigh_cuda_peer_close(peer);
    lab_end();
}

/* Asks for it, and gets this. */
static void refused(int socket, uint64_t what, int error, enum nigh_cuda_reason wanted)
{
    unsigned fds = (lab_context(0), lab_fds());
    struct nigh_cuda_mapping *mapping = NULL;
    enum nigh_cuda_reason why;

    ask(socket, what);
    IS(lab_import(peer, lab_context(0), &packet, &mapping, &why), error);
    MUST(!mapping);
    if (error == -ENOTSUP)
        IS(why, wanted);
    IS(lab_fds(), fds);
    IS(lab.fake->reserved(), 0);
}

static void taken(int socket, uint64_t what)
{
    struct nigh_cuda_mapping *mapping;
    enum nigh_cuda_reason why;
    uint64_t here = lab_alloc(0, ROOM);

    free(lab_look(here, ROOM));
    ask(socket, what);
    IS(lab_import(peer, lab_context(0), &packet, &mapping, &why), 0);
    IS(lab_copy_on_device(mapping->context, here, mapping->at + packet.offset, ROOM), 0);
    MUST(lab_has(here, ROOM, (unsigned)what));
    nigh_cuda_import_put(mapping);
    while (nigh_cuda_import_drop(peer, packet.number))
        sched_yield();
    lab_free(here);
}

static void take_refused(int socket)
{
    open_peer();
    logged_begin();
    refused(socket, 4, -ENOTSUP, NIGH_CUDA_WHY_MANAGED);
    lab.fake->refuse("cuMemImportFromShareableHandle", NIGH_CUDA_NOT_SUPPORTED);
    lab.fake->refuse("cuIpcOpenMemHandle_v2", NIGH_CUDA_INVALID_CONTEXT);
    lab.fake->refuse("cuMemPoolImportFromShareableHandle", NIGH_CUDA_OPERATING_SYSTEM);
    for (uint64_t i = 1; i < 4; i++)
        refused(socket, i, -ENOTSUP, NIGH_CUDA_WHY_IMPORT_REFUSED);
    lab.fake->refuse("cuMemImportFromShareableHandle", 0);
    lab.fake->refuse("cuIpcOpenMemHandle_v2", NIGH_CUDA_PEER_ACCESS_UNSUPPORTED);
    lab.fake->refuse("cuMemPoolImportFromShareableHandle", 0);
    lab.fake->refuse("cuMemSetAccess", NIGH_CUDA_INVALID_DEVICE);
    refused(socket, 1, -ENOTSUP, NIGH_CUDA_WHY_NO_PEER_ACCESS);
    refused(socket, 2, -ENOTSUP, NIGH_CUDA_WHY_NO_PEER_ACCESS);
    lab.fake->refuse("cuMemSetAccess", 0);
    lab.fake->refuse("cuIpcOpenMemHandle_v2", NIGH_CUDA_ALREADY_MAPPED); /* and not by us */
    refused(socket, 2, -ENOTSUP, NIGH_CUDA_WHY_CLASH);
    lab.fake->refuse("cuIpcOpenMemHandle_v2", NIGH_CUDA_OUT_OF_MEMORY);
    lab.fake->refuse("cuMemAddressReserve", NIGH_CUDA_OUT_OF_MEMORY);
    refused(socket, 1, -ENOMEM, 0);
    refused(socket, 2, -ENOMEM, 0);
    lab.fake->refuse("cuIpcOpenMemHandle_v2", 0);
    lab.fake->refuse("cuMemAddressReserve", 0);
    for (uint64_t i = 1; i < 4; i++)
        taken(socket, i);
    logged_end();
    close_all(socket);
}

static void refused_imports(void **state)
{
    (void)state;
    lab_pair(serve, take_refused);
}

/* Of the two devices of the machine the exporter's is the other one, and neither reaches the other. */
static void take_from_afar(int socket)
{
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    setenv("NIGH_FAKE_CUDA_PEERS", "2-3", 1);
    setenv("NIGH_FAKE_CUDA_MPS", "1", 1);
    open_peer();
    MUST(lab.cuda->devices[0].mps && !lab.cuda->devices[0].mig);
    refused(socket, 1, -ENOTSUP, NIGH_CUDA_WHY_NO_PEER_ACCESS);
    refused(socket, 2, -ENOTSUP, NIGH_CUDA_WHY_NO_PEER_ACCESS);
    refused(socket, 3, -ENOTSUP, NIGH_CUDA_WHY_NO_PEER_ACCESS);
    close_all(socket);
}

static void devices_that_do_not_reach_each_other(void **state)
{
    (void)state;
    lab_pair(serve, take_from_afar);
}

static void take_from_another_instance(int socket)
{
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    setenv("NIGH_FAKE_CUDA_MIG", "1", 1);
    open_peer();
    MUST(lab.cuda->devices[0].mig && !lab.cuda->devices[0].mps && !lab.cuda->devices[0].window);
    refused(socket, 1, -ENOTSUP, NIGH_CUDA_WHY_IMPORT_REFUSED);
    refused(socket, 2, -ENOTSUP, NIGH_CUDA_WHY_NO_PEER_ACCESS);
    close_all(socket);
}

static void instances_of_one_device(void **state)
{
    (void)state;
    lab_pair(serve, take_from_another_instance);
}

static void take_in_a_namespace(int socket)
{
    int status;
    pid_t child;

    if (unshare(CLONE_NEWPID)) {
        lab_say(socket, 0);
        fprintf(stderr, "skipped: no PID namespace can be made here\n");
        return;
    }
    child = fork();
    if (child) {
        MUST(waitpid(child, &status, 0) == child);
        IS(status, 0);
        return;
    }
    open_peer();
    taken(socket, 1);
    taken(socket, 3);
    refused(socket, 2, -ENOTSUP, NIGH_CUDA_WHY_PID_NAMESPACE);
    IS(lab.test->calls("cuIpcOpenMemHandle_v2"), 0); /* not tried */
    close_all(socket);
}

/* Fault 3: in two PID namespaces descriptors work, and legacy handles are refused by name. */
static void pid_namespaces(void **state)
{
    (void)state;
    lab_pair(serve, take_in_a_namespace);
}

/* ---- wrong peers ---------------------------------------------------------------------------------------- */

/* What lies behind the last descriptor of a packet is one by chance. */
static int beyond;

static void wrong(int socket, uint64_t what, void (*spoil)(struct nigh_cuda_wire *wire), int error)
{
    unsigned fds = (lab_context(0), lab_fds());
    struct nigh_cuda_mapping *mapping = NULL;
    enum nigh_cuda_reason why;

    ask(socket, what);
    spoil((struct nigh_cuda_wire *)packet.record);
    IS(lab_import(peer, lab_context(0), &packet, &mapping, &why), error);
    MUST(!mapping);
    if (beyond)
        close(beyond);
    beyond = 0;
    IS(lab_fds(), fds);
    IS(lab.fake->reserved(), 0);
    MUST(logged_lines() > 0);
    logged_begin();
}

static void larger(struct nigh_cuda_wire *wire)
{
    wire->segment[wire->segments - 1].bytes += (uint64_t)64 * LAB_PIECE;
}

static void much_larger(struct nigh_cuda_wire *wire)
{
    wire->segment[wire->segments - 1].bytes = NIGH_CUDA_EXTENT_MAX - LAB_PIECE;
}

static void uneven(struct nigh_cuda_wire *wire)
{
    wire->segment[wire->segments - 1].bytes += 1;
}

static void other_handle(struct nigh_cuda_wire *wire)
{
    memset(wire->handle, 0x5a, sizeof(wire->handle));
}

static void as_legacy(struct nigh_cuda_wire *wire)
{
    wire->way = NIGH_CUDA_LEGACY;
}

static void as_pool(struct nigh_cuda_wire *wire)
{
    wire->way = NIGH_CUDA_POOL;
}

static void no_descriptor(struct nigh_cuda_wire *wire)
{
    (void)wire;
    for (uint32_t i = 1; i < packet.count; i++)
        close(packet.fds[i]);
    beyond = packet.fds[0];
    packet.count = 0;
}

static void one_descriptor_less(struct nigh_cuda_wire *wire)
{
    (void)wire;
    beyond = packet.fds[--packet.count];
}

static void one_descriptor_more(struct nigh_cuda_wire *wire)
{
    (void)wire;
    packet.fds[packet.count] = dup(packet.fds[0]);
    packet.count++;
}

static void a_pipe(struct nigh_cuda_wire *wire)
{
    int ends[2];

    (void)wire;
    MUST(pipe(ends) == 0);
    MUST(dup2(ends[0], packet.fds[0]) == packet.fds[0]);
    close(ends[0]);
    close(ends[1]);
}

static void closed(struct nigh_cuda_wire *wire)
{
    (void)wire;
    close(packet.fds[packet.count - 1]);
}

static void cut(struct nigh_cuda_wire *wire)
{
    (void)wire;
    packet.bytes--;
}

static void take_wrong(int socket)
{
    open_peer();
    logged_begin();
    wrong(socket, 1, larger, -EPROTO);
    wrong(socket, 1, uneven, -EPROTO);
    wrong(socket, 1, as_legacy, -EPROTO);
    wrong(socket, 1, as_pool, -EPROTO);
    wrong(socket, 1, no_descriptor, -EPROTO);
    wrong(socket, 1, one_descriptor_less, -EPROTO);
    wrong(socket, 1, one_descriptor_more, -EPROTO);
    wrong(socket, 1, a_pipe, -EPROTO);
    wrong(socket, 1, closed, -EPROTO);
    wrong(socket, 1, cut, -EPROTO);
    wrong(socket, 2, larger, -EPROTO);
    wrong(socket, 2, other_handle, -EPROTO);
    wrong(socket, 2, as_pool, -EPROTO);
    wrong(socket, 2, much_larger, -EPROTO);
    wrong(socket, 3, larger, -EPROTO);
    wrong(socket, 3, other_handle, -EPROTO);
    wrong(socket, 3, as_legacy, -EPROTO);
    wrong(socket, 3, a_pipe, -EPROTO);
    wrong(socket, 3, no_descriptor, -EPROTO);
    wrong(socket, 4, as_legacy, -EPROTO);
    logged_end();
    for (uint64_t i = 1; i < 4; i++) /* of this process nothing is broken */
        taken(socket, i);
    close_all(socket);
}

/* Fault 7: descriptors of the wrong kind, closed or missing; and all else that a peer may lie about. */
static void peers_that_lie(void **state)
{
    (void)state;
    lab_pair(serve, take_wrong);
}

static void take_too_much(int socket)
{
    struct nigh_cuda_mapping *mapping;
    enum nigh_cuda_reason why;
    nigh_cuda_ptr at;

    open_peer();
    ask(socket, 2);
    IS(lab_import(peer, lab_context(0), &packet, &mapping, &why), 0);
    IS(nigh_cuda_import_at(mapping, 0, mapping->bytes, &at), 0);
    IS(nigh_cuda_import_at(mapping, mapping->bytes, 0, &at), 0);
    IS(nigh_cuda_import_at(mapping, 1, mapping->bytes, &at), -EPROTO);
    IS(nigh_cuda_import_at(mapping, mapping->bytes + 1, 0, &at), -EPROTO);
    IS(nigh_cuda_import_at(mapping, UINT64_MAX, 2, &at), -EPROTO);
    IS(nigh_cuda_import_at(mapping, 2, UINT64_MAX, &at), -EPROTO);
    nigh_cuda_import_put(mapping);
    close_all(socket);
}

static void offsets_that_lie(void **state)
{
    (void)state;
    lab_pair(serve, take_too_much);
}

/* ---- every call fails ------------------------------------------------------------------------------------ */

/* All but those that give something up: of these the driver's word is all there is. */
static const char *const calls[] = {"cuMemImportFromShareableHandle",
                                    "cuMemAddressReserve",
                                    "cuMemMap",
                                    "cuMemSetAccess",
                                    "cuIpcOpenMemHandle_v2",
                                    "cuMemPoolImportFromShareableHandle",
                                    "cuMemPoolImportPointer",
                                    "cuMemGetAddressRange_v2",
                                    "cuCtxPushCurrent_v2",
                                    "cuCtxPopCurrent_v2",
                                    "cuThreadExchangeStreamCaptureMode"};

static void take_with_failures(int socket)
{
    struct nigh_cuda_context *context;
    unsigned fds, failures = 0;

    open_peer();
    context = lab_context(0);
    fds = lab_fds();
    logged_begin();
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        for (unsigned after = 0; after < 3; after++)
            for (uint64_t what = 1; what < 4; what++) {
                struct nigh_cuda_mapping *mapping = NULL;
                enum nigh_cuda_reason why;
                int rc;

                ask(socket, what);
                lab.test->fail_once(calls[i], after);
                rc = lab_import(peer, context, &packet, &mapping, &why);
                lab.test->fail_once(NULL, 0);
                MUST(rc == 0 || rc == -EIO || rc == -EPROTO);
                failures += rc != 0;
                if (!rc)
                    nigh_cuda_import_put(mapping);
                while (nigh_cuda_import_drop(peer, packet.number))
                    sched_yield();
                IS(lab_fds(), fds);
            }
    logged_end();
    MUST(failures > 15);
    for (uint64_t i = 1; i < 4; i++)
        taken(socket, i);
    close_all(socket);
}

static void each_call_fails(void **state)
{
    (void)state;
    lab_pair(serve, take_with_failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_kind),
        cmocka_unit_test(by_driver),
        cmocka_unit_test(refused_imports),
        cmocka_unit_test(devices_that_do_not_reach_each_other),
        cmocka_unit_test(instances_of_one_device),
        cmocka_unit_test(pid_namespaces),
        cmocka_unit_test(peers_that_lie),
        cmocka_unit_test(offsets_that_lie),
        cmocka_unit_test(each_call_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

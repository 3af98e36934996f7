/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory from one process to another: every way, what is freed and allocated anew, threads, caches, and the ends of both
 * sides. Cases that answer a fault which others have had name it in their first line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/os.h"
#include "shm/shared.h"
#include "tests/support/cuda_lab.h"
#include "tests/support/logged.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 3 << 20, FD = NIGH_CUDA_HANDLE_POSIX_FD };

static const int three[] = {0, 0, 0};

/* No descriptor is ever taken out of another process: sandboxes forbid it. */
static int no_pidfd_getfd(int process, int fd, unsigned flags)
{
    (void)process, (void)fd, (void)flags;
    abort();
}

static void begin(void)
{
    nigh_os.pidfd_getfd = no_pidfd_getfd;
    lab_begin();
}

static struct nigh_cuda_peer *open_peer(uint32_t idle)
{
    struct nigh_cuda_peer *peer;

    IS(nigh_cuda_peer_open(lab.cuda, false, idle, &peer), 0);
    return peer;
}

static void import(struct nigh_cuda_peer *peer, struct lab_packet *packet, struct nigh_cuda_mapping **mapping)
{
    enum nigh_cuda_reason why;

    IS(lab_import(peer, lab_context(0), packet, mapping, &why), 0);
    IS(why, NIGH_CUDA_WHY_NONE);
}

static enum nigh_cuda_way way_of(const struct lab_packet *packet)
{
    return (enum nigh_cuda_way)((const struct nigh_cuda_wire *)packet->record)->way;
}

/* The bytes at an offset of the mapping, by a copy on the device. */
static bool mapping_has(const struct nigh_cuda_mapping *mapping, uint64_t offset, size_t bytes, unsigned seed)
{
    uint64_t here = lab_alloc(0, bytes);
    nigh_cuda_ptr there;
    bool has;

    free(lab_look(here, bytes));
    IS(nigh_cuda_import_at(mapping, offset, bytes, &there), 0);
    IS(lab_copy_on_device(mapping->context, here, there, bytes), 0);
    has = lab_has(here, bytes, seed);
    lab_free(here);
    return has;
}

static void dropped(struct nigh_cuda_peer *peer, uint64_t number)
{
    int rc = -EBUSY;

    for (int i = 0; rc == -EBUSY && i < LAB_STEPS; i++) {
        rc = nigh_cuda_import_drop(peer, number);
        sched_yield();
    }
    IS(rc, 0);
}

/* ---- every way ----------------------------------------------------------------------------------------- */

/* Sends memory, waits for what the other made of it. */
static void offer(int socket, uint64_t at, size_t bytes)
{
    struct nigh_cuda_export *export = lab_export(at, bytes);

    lab_put(at, bytes, 7);
    lab_send(socket, export, at);
    MUST(lab_hear(socket) == 1);
    MUST(lab_has(at, bytes, 8)); /* the other has written */
    nigh_cuda_export_put(export);
}

static void offer_each(int socket)
{
    void *pool;
    uint64_t at;

    begin();
    at = lab_map(three, 3, FD);
    offer(socket, at + 5000, 3 * LAB_PIECE - 9000);
    lab_unmap(at, three, 3);
    at = lab_alloc(0, ROOM);
    offer(socket, at + 16, ROOM - 16);
    lab_free(at);
    pool = lab_pool(0);
    at = lab_pool_alloc(pool, ROOM);
    offer(socket, at, ROOM);
    lab_free(at);
    lab_pool_end(pool);
    lab_end();
}

static void take_one(int socket, struct nigh_cuda_peer *peer, enum nigh_cuda_way way, size_t bytes,
                     unsigned segments)
{
    struct nigh_cuda_context *context = lab_context(0);
    char *host = malloc(bytes);
    struct nigh_cuda_mapping *mapping, *again;
    struct lab_packet packet;
    struct nigh_cuda_copy copy;

    lab_receive(socket, &packet);
    IS(way_of(&packet), way);
    IS(((struct nigh_cuda_wire *)packet.record)->segments, segments);
    import(peer, &packet, &mapping);
    MUST(mapping_has(mapping, packet.offset, bytes, 7));
    lab_fill(host, bytes, 8);
    nigh_cuda_copy_begin(&copy, context, context, NIGH_CUDA_COPY_TO_DEVICE, mapping->at + packet.offset,
                         (uintptr_t)host, bytes, false);
    IS(lab_copy(&copy), 0);
    IS(nigh_cuda_import_find(peer, context, packet.number, &again), 0);
    MUST(again == mapping);
    nigh_cuda_import_put(again);
    nigh_cuda_import_put(mapping);
    dropped(peer, packet.number);
    IS(nigh_cuda_import_find(peer, context, packet.number, &again), -ENOENT);
    free(host);
    lab_say(socket, 1);
}

static void take_each(int socket)
{
    struct nigh_cuda_peer *peer;
    unsigned fds;

    begin();
    peer = open_peer(4);
    lab_context(0);
    fds = lab_fds();
    take_one(socket, peer, NIGH_CUDA_VMM, 3 * LAB_PIECE - 9000, 3);
    IS(lab.fake->reserved(), 0);
    take_one(socket, peer, NIGH_CUDA_LEGACY, ROOM - 16, 1);
    take_one(socket, peer, NIGH_CUDA_POOL, ROOM, 1);
    IS(lab_fds(), fds);
    nigh_cuda_peer_close(peer);
    lab_end();
}

/* Fault 1: a buffer over three segments, every byte. Faults 2 and 4: by descriptors that travel on a socket. Fault 21: from the
 * host straight to a peer's device. */
static void every_way(void **state)
{
    (void)state;
    lab_pair(offer_each, take_each);
}

/* ---- another device, another process' devices ------------------------------------------------------------ */

static void offer_device_zero(int socket)
{
    static const int zero[] = {0};
    uint64_t plain, mapped;

    begin();
    plain = lab_alloc(0, ROOM);
    mapped = lab_map(zero, 1, FD);
    offer(socket, plain, ROOM);
    offer(socket, mapped, LAB_PIECE);
    lab_free(plain);
    lab_unmap(mapped, zero, 1);
    lab_end();
}

static void take_without_device_zero(int socket)
{
    struct nigh_cuda_peer *peer;

    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    begin();
    IS(lab.driver->devices, 1);
    peer = open_peer(4);
    take_one(socket, peer, NIGH_CUDA_LEGACY, ROOM, 1);
    take_one(socket, peer, NIGH_CUDA_VMM, LAB_PIECE, 1);
    nigh_cuda_peer_close(peer);
    lab_end();
}

/* Fault 12: the exporter's device is none of this process'. Opening decides. */
static void a_device_that_is_not_visible(void **state)
{
    (void)state;
    lab_pair(offer_device_zero, take_without_device_zero);
}

/* ---- freed and allocated anew ---------------------------------------------------------------------------- */

enum { ROUNDS = 24 };

static void offer_again_and_again(int socket)
{
    uint64_t first = 0, same = 0, number = 0;
    size_t used;

    begin();
    used = lab.fake->used(0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t at = i % 2 ? lab_map(three, 2, FD) : lab_alloc(0, ROOM);
        struct nigh_cuda_export *export = lab_export(at, ROOM);

        MUST(export->number > number); /* never again */
        number = export->number;
        first = first ? first : at;
        same += i && at == first;
        lab_put(at, ROOM, i);
        lab_send(socket, export, at);
        IS(lab_hear(socket), i); /* all of it is closed */
        nigh_cuda_export_put(export);
        if (i % 2)
            lab_unmap(at, three, 2);
        else
            lab_free(at);
        IS(lab.fake->used(0), used); /* within the round */
    }
    MUST(same > ROUNDS / 10); /* the premise: addresses come again */
    lab_end();
}

static void take_again_and_again(int socket)
{
    struct nigh_cuda_peer *peer;
    unsigned fds;

    begin();
    peer = open_peer(4);
    lab_context(0);
    fds = lab_fds();
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct nigh_cuda_mapping *mapping;
        struct lab_packet packet;

        lab_receive(socket, &packet);
        import(peer, &packet, &mapping);
        MUST(mapping_has(mapping, packet.offset, ROOM, i));
        nigh_cuda_import_put(mapping);
        dropped(peer, packet.number);
        lab_say(socket, i);
    }
    IS(lab_fds(), fds);
    IS(lab.fake->reserved(), 0);
    nigh_cuda_peer_close(peer);
    lab_end();
}

/* Fault 14: allocate, send, free: the memory returns within the round. */
static void nothing_is_kept(void **state)
{
    (void)state;
    lab_pair(offer_again_and_again, take_again_and_again);
}

/* The exporter frees without a word: as a program that forgets to deregister. */
static void offer_and_forget(int socket)
{
    uint64_t at, first = 0, same = 0;

    begin();
    for (unsigned i = 0; i < 12; i++) {
        struct nigh_cuda_export *export;

        at = lab_alloc(0, ROOM);
        first = first ? first : at;
        same += i && at == first;
        export = lab_export(at, ROOM);
        lab_put(at, ROOM, i);
        do
            lab_send(socket, export, at);
        while (lab_hear(socket) == 2); /* again */
        nigh_cuda_export_put(export);
        lab_free(at);
    }
    MUST(same > 3);
    lab_end();
}

static void take_the_forgotten(int socket)
{
    struct nigh_cuda_peer *peer;

    begin();
    peer = open_peer(64);
    for (unsigned i = 0; i < 12; i++) {
        struct nigh_cuda_mapping *mapping = NULL;
        enum nigh_cuda_reason why;
        struct lab_packet packet;
        int rc;

        do {
            lab_receive(socket, &packet);
            rc = lab_import(peer, lab_context(0), &packet, &mapping, &why);
            if (rc == -EAGAIN)
                lab_say(socket, 2);
        } while (rc == -EAGAIN);
        IS(rc, 0);
        MUST(mapping_has(mapping, packet.offset, ROOM, i)); /* not what was there before */
        nigh_cuda_import_put(mapping);
        lab_say(socket, 1);
    }
    MUST(nigh_load_relaxed(&lab.cuda->counts.remapped) > 0);
    MUST(nigh_load_relaxed(&lab.cuda->counts.imported) == 12);
    nigh_cuda_peer_close(peer);
    lab_end();
}

/* Fault 8: the same address, other memory: new bytes, and what the driver refuses meanwhile is tried again. */
static void other_memory_at_the_same_address(void **state)
{
    (void)state;
    lab_pair(offer_and_forget, take_the_forgotten);
}

static void offer_stale(int socket)
{
    struct nigh_cuda_export *export;
    int fds[NIGH_CUDA_SEGMENTS_MAX];
    uint64_t at;

    begin();
    at = lab_map(three, 3, FD);
    export = lab_export(at, 3 * LAB_PIECE);
    MUST(nigh_cuda_export_is_current(export));
    IS(nigh_cuda_export_open(export, fds), 0);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    IS(lab.driver->unmap(at + LAB_PIECE, LAB_PIECE), 0); /* one in the middle */
    MUST(!nigh_cuda_export_is_current(export));
    logged_begin();
    IS(nigh_cuda_export_open(export, fds), -ESTALE);
    MUST(strstr(logged_text(), "deregister it before it is freed"));
    logged_end();
    nigh_cuda_export_put(export);
    lab_unmap(at, (int[]){0, -1, 0}, 3);
    lab_say(socket, 1);
    lab_end();
}

static void just_hear(int socket)
{
    lab_hear(socket);
}

static void freed_while_exported(void **state)
{
    (void)state;
    lab_pair(offer_stale, just_hear);
}

/* ---- records ------------------------------------------------------------------------------------------- */

static void compare_exports(int socket)
{
    struct nigh_cuda_export *one, *two, *other;
    uint64_t at, plain;

    begin();
    at = lab_map(three, 3, FD);
    plain = lab_alloc(0, ROOM);
    one = lab_export(plain, 100);
    two = lab_export(plain + ROOM / 2, ROOM / 4);
    MUST(one == two); /* of one allocation */
    nigh_cuda_export_put(two);
    for (int i = 0; i < 20; i++) {
        void *noise = malloc(one->bytes);
        unsigned char *copy = malloc(one->bytes);
        uint64_t number = one->number;

        memcpy(copy, one->wire, one->bytes);
        memset(noise, 0xa5 + i, one->bytes);
        nigh_cuda_export_put(one);
        free(noise); /* what the next record may lie in */
        one = lab_export(plain, 100);
        MUST(memcmp(copy, one->wire, one->bytes) == 0);
        MUST(one->number != number);
        free(copy);
    }
    two = lab_export(at, LAB_PIECE);
    other = lab_export(at, 2 * LAB_PIECE);
    MUST(two != other && two->number != other->number);
    IS(other->wire->segments, 2);
    MUST(other->wire->segment[0].buffer_id == two->wire->segment[0].buffer_id);
    nigh_cuda_export_put(one);
    nigh_cuda_export_put(two);
    nigh_cuda_export_put(other);
    lab_unmap(at, three, 3);
    lab_free(plain);
    lab_say(socket, 1);
    lab_end();
}

/* Fault 6: equal exports are equal bytes, whatever was in the memory before. */
static void equal_exports_are_equal_bytes(void **state)
{
    (void)state;
    lab_pair(compare_exports, just_hear);
}

/* ---- caches ---------------------------------------------------------------------------------------------- */

enum { REGIONS = 16 };

static void offer_many(int socket)
{
    struct nigh_cuda_export *exports[REGIONS];
    uint64_t at[REGIONS];

    begin();
    for (unsigned i = 0; i < REGIONS; i++) {
        at[i] = i % 2 ? lab_map(three, 1, FD) : lab_alloc(0, LAB_PIECE);
        exports[i] = lab_export(at[i], LAB_PIECE);
        lab_put(at[i], LAB_PIECE, i);
        lab_send(socket, exports[i], at[i]);
    }
    MUST(lab_hear(socket) == 1);
    for (unsigned i = 0; i < REGIONS; i++) {
        nigh_cuda_export_put(exports[i]);
        if (i % 2)
            lab_unmap(at[i], three, 1);
        else
            lab_free(at[i]);
    }
    lab_end();
}

static void take_many(int socket)
{
    struct nigh_cuda_mapping *mapping[REGIONS], *again;
    static struct lab_packet packet[REGIONS];
    struct nigh_cuda_peer *peer;
    struct nigh_cuda_copy copy[REGIONS];
    uint64_t here;
    int left = REGIONS;

    begin();
    peer = open_peer(2);
    here = lab_alloc(0, (size_t)REGIONS * LAB_PIECE);
    free(lab_look(here, 1));
    lab.fake->delay(1000);
    for (unsigned i = 0; i < REGIONS; i++) {
        lab_receive(socket, &packet[i]);
        import(peer, &packet[i], &mapping[i]);
        nigh_cuda_copy_begin(&copy[i], mapping[i]->context, mapping[i]->context, NIGH_CUDA_COPY_ON_DEVICE,
                             here + (uint64_t)i * LAB_PIECE, mapping[i]->at, LAB_PIECE, false);
        nigh_cuda_copy_step(&copy[i]);
    }
    IS(nigh_load_relaxed(&lab.cuda->counts.evicted), 0); /* all are in use */
    while (left)
        for (int i = 0; i < REGIONS; i++)
            if (copy[i].context && nigh_cuda_copy_step(&copy[i]) == 0) {
                copy[i].context = NULL;
                nigh_cuda_import_put(mapping[i]);
                left--;
            }
    lab.fake->delay(0);
    for (unsigned i = 0; i < REGIONS; i++)
        MUST(lab_has(here + (uint64_t)i * LAB_PIECE, LAB_PIECE, i));
    IS(nigh_load_relaxed(&lab.cuda->counts.evicted), REGIONS - 2);
    for (int i = 0; i < REGIONS; i++)
        if (nigh_cuda_import_find(peer, lab_context(0), packet[i].number, &again) == 0) {
            left++;
            nigh_cuda_import_put(again);
        }
    IS(left, 2);
    lab_free(here);
    nigh_cuda_peer_close(peer);
    while (nigh_load_relaxed(&lab.cuda->counts.closed) < REGIONS)
        sched_yield();
    lab_say(socket, 1);
    lab_end();
}

/* Fault 13: a cache of two, sixteen regions in flight: none in use is evicted. */
static void a_small_cache(void **state)
{
    (void)state;
    lab_pair(offer_many, take_many);
}

enum { IMPORTS = 200, AT_ONCE = 40 };

static void offer_one_often(int socket)
{
    struct nigh_cuda_export *export;
    uint64_t at, number;

    begin();
    at = lab_map(three, 1, FD);
    export = lab_export(at, LAB_PIECE);
    number = export->number;
    for (int i = 0; i < IMPORTS; i++) {
        export->number = number + (uint64_t)i; /* another each time */
        lab_send(socket, export, at);
    }
    export->number = number;
    lab_hear(socket);
    nigh_cuda_export_put(export);
    lab_unmap(at, three, 1);
    lab_end();
}

static void take_one_often(int socket)
{
    struct nigh_cuda_mapping *mapping[AT_ONCE];
    struct nigh_cuda_peer *peer;

    begin();
    peer = open_peer(0);
    for (int i = 0; i < IMPORTS; i++) {
        struct lab_packet packet;

        lab_receive(socket, &packet);
        import(peer, &packet, &mapping[i % AT_ONCE]);
        IS(lab.fake->reserved(), (long)(i % AT_ONCE + 1) * LAB_PIECE);
        for (int j = 0; i % AT_ONCE == AT_ONCE - 1 && j < AT_ONCE; j++)
            nigh_cuda_import_put(mapping[j]);
    }
    IS(lab.fake->reserved(), 0);
    nigh_cuda_peer_close(peer);
    lab_say(socket, 1);
    lab_end();
}

/* Fault 5: addresses reserved are the sum of what is mapped, and all are given back. */
static void addresses_are_exact(void **state)
{
    (void)state;
    lab_pair(offer_one_often, take_one_often);
}

/* ---- threads and owners ------------------------------------------------------------------------------------ */

static struct nigh_cuda_peer *shared_peer;
static struct lab_packet shared_packet;
static struct nigh_cuda_context *shared_context;
static pthread_barrier_t meet;

static void *import_at_once(void *unused)
{
    struct nigh_cuda_mapping *mapping;
    enum nigh_cuda_reason why;

    pthread_barrier_wait(&meet);
    IS(nigh_cuda_import(shared_peer, shared_context, shared_packet.number, shared_packet.record,
                        shared_packet.bytes, NULL, 0, &mapping, &why),
       0);
    nigh_cuda_import_put(mapping);
    return unused;
}

static void offer_once(int socket)
{
    struct nigh_cuda_export *export;
    uint64_t at;

    begin();
    at = lab_alloc(0, ROOM);
    export = lab_export(at, ROOM);
    lab_put(at, ROOM, 3);
    lab_send(socket, export, at);
    lab_hear(socket);
    nigh_cuda_export_put(export);
    lab_free(at);
    lab_end();
}

static void take_by_threads(int socket)
{
    pthread_t threads[4];

    begin();
    shared_peer = open_peer(4);
    shared_context = lab_context(0);
    lab_receive(socket, &shared_packet);
    IS(shared_packet.count, 0);
    pthread_barrier_init(&meet, NULL, 4);
    for (int i = 0; i < 4; i++)
        IS(pthread_create(&threads[i], NULL, import_at_once, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    IS(lab.test->calls("cuIpcOpenMemHandle_v2"), 1);
    nigh_cuda_peer_close(shared_peer);
    lab_say(socket, 1);
    lab_end();
}

/* Fault 10: four threads import one region at once: it is opened once. */
static void threads_import_at_once(void **state)
{
    (void)state;
    lab_pair(offer_once, take_by_threads);
}

static void take_what_is_open_already(int socket)
{
    struct nigh_cuda_mapping *mapping;
    struct nigh_cuda_ipc_handle handle;
    struct nigh_cuda_peer *peer;
    struct lab_packet packet;
    nigh_cuda_ptr own;
    int mode;

    begin();
    peer = open_peer(4);
    lab_receive(socket, &packet);
    memcpy(&handle, ((struct nigh_cuda_wire *)packet.record)->handle, sizeof(handle));
    IS(nigh_cuda_enter(lab_context(0), &mode), 0);
    IS(lab.driver->ipc_open(&own, handle, NIGH_CUDA_IPC_LAZY_PEER_ACCESS), 0); /* the program's */
    import(peer, &packet, &mapping);
    MUST(mapping_has(mapping, packet.offset, ROOM, 3));
    nigh_cuda_import_put(mapping);
    dropped(peer, packet.number);
    MUST(lab_has(own, ROOM, 3)); /* it has survived ours */
    IS(lab.driver->ipc_close(own), 0);
    IS(nigh_cuda_leave(lab_context(0), mode), 0);
    nigh_cuda_peer_close(peer);
    lab_say(socket, 1);
    lab_end();
}

/* Fault 9: the program itself has opened the peer's handle, and goes on to use it. */
static void the_program_has_opened_it(void **state)
{
    (void)state;
    lab_pair(offer_once, take_what_is_open_already);
}

static void share_with_oneself(int socket)
{
    struct nigh_cuda_mapping *mapping;
    struct nigh_cuda_peer *self;
    enum nigh_cuda_reason why;
    static const enum cuda_memory kinds[] = {MEMORY_PLAIN, MEMORY_POOL, MEMORY_PIECES, MEMORY_MANAGED};

    begin();
    IS(nigh_cuda_peer_open(lab.cuda, true, 4, &self), 0);
    for (int i = 0; i < 4; i++) {
        char *at = lab.test->alloc(kinds[i], 0, ROOM);
        struct nigh_cuda_export *export = lab_export((uintptr_t)at, ROOM);
        uint64_t offset = (uintptr_t)at - export->wire->segment[0].base, here = lab_alloc(1, ROOM);

        lab_put((uintptr_t)at, ROOM, 20 + (unsigned)i);
        free(lab_look(here, ROOM)); /* of another device */
        IS(nigh_cuda_import(self, lab_context(1), export->number, export->wire, export->bytes, NULL, 0,
                            &mapping, &why),
           0);
        MUST(mapping->at + offset == (uintptr_t)at); /* the pointer itself */
        IS(lab_copy_on_device(mapping->context, here, mapping->at + offset, ROOM), 0);
        MUST(lab_has(here, ROOM, 20 + (unsigned)i));
        nigh_cuda_import_put(mapping);
        IS(nigh_cuda_import_drop(self, export->number), 0);
        nigh_cuda_export_put(export);
        lab.test->free(at);
        lab_free(here);
    }
    IS(lab.test->calls("cuIpcOpenMemHandle_v2"), 0);
    IS(lab.test->calls("cuMemImportFromShareableHandle"), 0);
    nigh_cuda_peer_close(self);
    /* The same memory, for another process afterwards. */
    lab_end();
    lab_begin();
    {
        uint64_t at = lab_alloc(0, ROOM);
        struct nigh_cuda_export *export = lab_export(at, ROOM);

        lab_put(at, ROOM, 3);
        IS(nigh_cuda_peer_open(lab.cuda, true, 4, &self), 0);
        IS(nigh_cuda_import(self, lab_context(0), export->number, export->wire, export->bytes, NULL, 0,
                            &mapping, &why),
           0);
        nigh_cuda_import_put(mapping);
        lab_send(socket, export, at);
        lab_hear(socket);
        nigh_cuda_peer_close(self);
        nigh_cuda_export_put(export);
        lab_free(at);
    }
    lab_end();
}

static void take_once(int socket)
{
    struct nigh_cuda_mapping *mapping;
    struct nigh_cuda_peer *peer;
    struct lab_packet packet;

    begin();
    peer = open_peer(4);
    lab_receive(socket, &packet);
    import(peer, &packet, &mapping);
    MUST(mapping_has(mapping, packet.offset, ROOM, 3));
    nigh_cuda_import_put(mapping);
    dropped(peer, packet.number);
    nigh_cuda_peer_close(peer);
    lab_say(socket, 1);
    lab_end();
}

/* Fault 11: memory of this process, of another device too, is never opened. Fault 24: a peer in the same process first, in
 * another one later. */
static void own_memory_is_not_opened(void **state)
{
    (void)state;
    lab_pair(share_with_oneself, take_once);
}

static void take_in_two_contexts(int socket)
{
    struct nigh_cuda_context *contexts[2];
    struct nigh_cuda_mapping *mapping, *again;
    struct nigh_cuda_peer *peer;
    struct lab_packet packet;
    void *second, *popped;
    uint64_t here;

    begin();
    peer = open_peer(4);
    second = lab_context_create(0);
    contexts[0] = lab_context(0);
    IS(lab.driver->push(second), 0);
    contexts[1] = lab_context(0);
    here = lab_alloc_here(ROOM);
    IS(lab.driver->pop(&popped), 0);
    MUST(contexts[0] != contexts[1]);
    lab_receive(socket, &packet);
    import(peer, &packet, &mapping);
    IS(nigh_cuda_import_find(peer, contexts[1], packet.number, &again), 0);
    MUST(again == mapping && again->context == contexts[0]);
    {
        struct nigh_cuda_copy copy;

        nigh_cuda_copy_begin(&copy, again->context, contexts[1], NIGH_CUDA_COPY_ON_DEVICE, here,
                             again->at + packet.offset, ROOM, false);
        IS(lab_copy(&copy), 0);
    }
    MUST(lab_has(here, ROOM, 3));
    nigh_cuda_import_put(again);
    nigh_cuda_import_put(mapping);
    dropped(peer, packet.number);
    lab_free(here);
    nigh_cuda_peer_close(peer);
    lab_say(socket, 1);
    lab_end_keeping();
    lab_context_destroy(second);
    lab_begin();
    lab_end();
}

/* One context of a device may open a handle: it serves the others. */
static void two_contexts_of_a_device(void **state)
{
    (void)state;
    lab_pair(offer_once, take_in_two_contexts);
}

/* ---- ends ------------------------------------------------------------------------------------------------ */

static void offer_two_ways(int socket)
{
    struct nigh_cuda_export *plain, *mapped;
    uint64_t at[2];

    begin();
    at[0] = lab_alloc(0, ROOM);
    at[1] = lab_map(three, 2, FD);
    plain = lab_export(at[0], ROOM);
    mapped = lab_export(at[1], ROOM);
    lab_put(at[0], ROOM, 5);
    lab_put(at[1], ROOM, 6);
    lab_send(socket, plain, at[0]);
    lab_send(socket, mapped, at[1]);
    lab_hear(socket);
    nigh_cuda_export_put(plain);
    nigh_cuda_export_put(mapped);
    lab_free(at[0]);
    lab_unmap(at[1], three, 2);
    lab_end();
}

static void drop_in_flight(struct nigh_cuda_peer *peer, struct lab_packet *packet, unsigned seed)
{
    uint64_t here = lab_alloc(0, ROOM);
    struct nigh_cuda_mapping *mapping;
    struct nigh_cuda_copy copy;

    free(lab_look(here, ROOM));
    import(peer, packet, &mapping);
    IS(lab_copy_on_device(mapping->context, here, mapping->at + packet->offset, 1), 0);
    lab.fake->delay(5000);
    nigh_cuda_copy_begin(&copy, mapping->context, mapping->context, NIGH_CUDA_COPY_ON_DEVICE, here,
                         mapping->at + packet->offset, ROOM, false);
    IS(nigh_cuda_copy_step(&copy), -EAGAIN);
    IS(nigh_cuda_import_drop(peer, packet->number), -EBUSY); /* the fake faults if it is unmapped now */
    IS(nigh_cuda_copy_step(&copy), -EAGAIN);
    lab.fake->delay(0);
    IS(lab_copy(&copy), 0);
    IS(nigh_cuda_import_drop(peer, packet->number), -EBUSY);
    nigh_cuda_import_put(mapping);
    dropped(peer, packet->number);
    MUST(lab_has(here, ROOM, seed));
    lab_free(here);
}

static void take_and_drop_in_flight(int socket)
{
    struct lab_packet plain, mapped;
    struct nigh_cuda_peer *peer;

    begin();
    peer = open_peer(4);
    lab_receive(socket, &plain);
    lab_receive(socket, &mapped);
    drop_in_flight(peer, &plain, 5);
    drop_in_flight(peer, &mapped, 6);
    IS(lab.fake->reserved(), 0);
    nigh_cuda_peer_close(peer);
    lab_say(socket, 1);
    lab_end();
}

/* Fault 15: the owner deregisters while a copy reads: it is told to wait. Fault 17: nothing is unmapped under a copy. */
static void dropped_in_flight(void **state)
{
    (void)state;
    lab_pair(offer_two_ways, take_and_drop_in_flight);
}

static int no_thread(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                     void *argument)
{
    (void)thread, (void)attributes, (void)run, (void)argument;
    return EAGAIN;
}

static void take_beside_a_kernel(int socket)
{
    struct nigh_cuda_mapping *mapping[2];
    struct lab_packet packet[2];
    struct nigh_cuda_peer *peer;

    begin();
    peer = open_peer(0);
    lab_receive(socket, &packet[0]);
    lab_receive(socket, &packet[1]);
    import(peer, &packet[0], &mapping[0]);
    import(peer, &packet[1], &mapping[1]);
    nigh_os.pthread_create = no_thread; /* whatever the closer is given stays */
    lab.test->hold(0, true);
    logged_begin();
    nigh_cuda_import_put(mapping[0]); /* evicted: the cache keeps none */
    nigh_cuda_import_put(mapping[1]);
    MUST(strstr(logged_text(), "no thread"));
    logged_end();
    IS(nigh_cuda_import_drop(peer, packet[0].number), -EBUSY);
    IS(nigh_cuda_import_drop(peer, packet[1].number), 0); /* needs no wait */
    IS(lab.test->calls("cuIpcCloseMemHandle"), 0);
    nigh_cuda_peer_close(peer);
    lab.test->hold(0, false);
    lab_end(); /* runs what was queued */
    IS(lab.test->calls("cuIpcCloseMemHandle"), 1);
    lab_say(socket, 1);
}

/* Fault 16: what waits for the host's kernels is not done by whoever moves messages. */
static void beside_a_kernel_that_waits(void **state)
{
    (void)state;
    lab_pair(offer_two_ways, take_beside_a_kernel);
}

static void offer_and_die(int socket)
{
    struct nigh_cuda_export *plain, *mapped;
    uint64_t at[2];

    begin();
    at[0] = lab_alloc(0, ROOM);
    at[1] = lab_map(three, 2, FD);
    plain = lab_export(at[0], ROOM);
    mapped = lab_export(at[1], ROOM);
    lab_put(at[0], ROOM, 5);
    lab_put(at[1], ROOM, 6);
    lab_send(socket, plain, at[0]);
    lab_send(socket, mapped, at[1]);
    lab_hear(socket);
    _exit(0); /* with all of it open */
}

static void take_of_the_dead(int socket)
{
    struct nigh_cuda_mapping *mapping[2];
    struct lab_packet packet[2];
    struct nigh_cuda_peer *peer;
    uint64_t here;
    struct nigh_cuda_copy copy;
    char byte;

    begin();
    peer = open_peer(4);
    here = lab_alloc(0, ROOM);
    free(lab_look(here, ROOM));
    for (int i = 0; i < 2; i++) {
        lab_receive(socket, &packet[i]);
        import(peer, &packet[i], &mapping[i]);
    }
    lab.fake->delay(2000);
    nigh_cuda_copy_begin(&copy, mapping[0]->context, mapping[0]->context, NIGH_CUDA_COPY_ON_DEVICE, here,
                         mapping[0]->at, ROOM, false);
    nigh_cuda_copy_step(&copy);
    lab_say(socket, 1);
    IS(read(socket, &byte, 1), 0); /* it has gone */
    nigh_cuda_peer_close(peer);
    lab.fake->delay(0);
    IS(lab_copy(&copy), 0);
    nigh_cuda_import_put(mapping[0]);
    nigh_cuda_import_put(mapping[1]);
    IS(lab.fake->reserved(), 0);
    lab_free(here);
    lab_end();
}

static void a_peer_dies_in_a_copy(void **state)
{
    (void)state;
    lab_pair(offer_and_die, take_of_the_dead);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way),
        cmocka_unit_test(a_device_that_is_not_visible),
        cmocka_unit_test(nothing_is_kept),
        cmocka_unit_test(other_memory_at_the_same_address),
        cmocka_unit_test(freed_while_exported),
        cmocka_unit_test(equal_exports_are_equal_bytes),
        cmocka_unit_test(a_small_cache),
        cmocka_unit_test(addresses_are_exact),
        cmocka_unit_test(threads_import_at_once),
        cmocka_unit_test(the_program_has_opened_it),
        cmocka_unit_test(own_memory_is_not_opened),
        cmocka_unit_test(two_contexts_of_a_device),
        cmocka_unit_test(dropped_in_flight),
        cmocka_unit_test(beside_a_kernel_that_waits),
        cmocka_unit_test(a_peer_dies_in_a_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

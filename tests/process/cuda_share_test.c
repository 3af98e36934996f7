/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory from one process to another: every way, devices, threads and owners. Cases that answer a fault which others have
 * had name it in their first line.
 */
#include "tests/support/cuda_share.h"
#include <pthread.h>

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
        if (kinds[i] == MEMORY_PLAIN ||
            kinds[i] == MEMORY_MANAGED) { /* the driver copies no others across devices */
            IS(lab_copy_on_device(mapping->context, here, mapping->at + offset, ROOM), 0);
            MUST(lab_has(here, ROOM, 20 + (unsigned)i));
        }
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way),
        cmocka_unit_test(a_device_that_is_not_visible),
        cmocka_unit_test(threads_import_at_once),
        cmocka_unit_test(the_program_has_opened_it),
        cmocka_unit_test(own_memory_is_not_opened),
        cmocka_unit_test(two_contexts_of_a_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory from one process to another that is freed and allocated anew, what is told of it, and the caches that hold it. Cases
 * that answer a fault which others have had name it in their first line. */
#include "shm/shared.h"
#include "tests/support/cuda_share.h"
#include "tests/support/logged.h"

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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_kept),      cmocka_unit_test(other_memory_at_the_same_address),
        cmocka_unit_test(freed_while_exported), cmocka_unit_test(equal_exports_are_equal_bytes),
        cmocka_unit_test(a_small_cache),        cmocka_unit_test(addresses_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory from one process to another, when either side gives it up or ends in the middle of a copy, or beside a kernel that
 * waits. Cases that answer a fault which others have had name it in their first line. */
#include "tests/support/cuda_share.h"
#include "tests/support/logged.h"

#include <fcntl.h>

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

/* Brought and mapped again while the older mapping, which was dropped, is in use: the answer to the drop closes that one alone. */
static void take_again_while_dropped(int socket)
{
    struct nigh_cuda_mapping *older, *newer, *found;
    struct lab_packet plain, mapped, again;
    struct nigh_cuda_peer *peer;

    begin();
    peer = open_peer(4);
    lab_receive(socket, &plain);
    for (uint32_t i = 0; i < plain.count; i++)
        close(plain.fds[i]);
    lab_receive(socket, &mapped);
    again = mapped;
    for (uint32_t i = 0; i < mapped.count; i++)
        again.fds[i] = fcntl(mapped.fds[i], F_DUPFD_CLOEXEC, 3);
    import(peer, &mapped, &older);
    IS(nigh_cuda_import_drop(peer, mapped.number), -EBUSY);
    import(peer, &again, &newer);
    MUST(newer != older);
    IS(nigh_cuda_import_dropped(peer, mapped.number), -EBUSY);
    nigh_cuda_import_put(older);
    nigh_cuda_import_put(newer);
    IS(nigh_cuda_import_dropped(peer, mapped.number), 0);
    IS(nigh_cuda_import_find(peer, lab_context(0), mapped.number, &found), 0);
    MUST(found == newer);
    nigh_cuda_import_put(found);
    nigh_cuda_peer_close(peer);
    lab_say(socket, 1);
    lab_end();
}

static void again_while_dropped(void **state)
{
    (void)state;
    lab_pair(offer_two_ways, take_again_while_dropped);
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
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropped_in_flight),
        cmocka_unit_test(again_while_dropped),
        cmocka_unit_test(beside_a_kernel_that_waits),
        cmocka_unit_test(a_peer_dies_in_a_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that complete when they are posted, and go as a copy that their receivers read, where ranks outnumber CPUs:
 * what arrives is what was sent, whatever becomes of the buffer, of the sender and of other receivers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "plugin/progress.h"
#include "tests/support/shares.h"
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All copies of a rank together are 16 MiB, of 16 buffers at a time. */
enum { BYTES = 40000, MOST = 65536, MANY = 40, LASTING = 16, FULL = 2 * (16 << 20) / BYTES };

static uint8_t out[MANY][MOST], in[MOST];
static void fill(uint8_t *bytes, unsigned seed)
{
    for (unsigned i = 0; i < MOST; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 4096 + seed * 31);
}

static void check(const uint8_t *bytes, uint64_t count, unsigned seed)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] != (uint8_t)(i * 7 + i / 4096 + seed * 31))
            fail_msg("byte %llu of %llu is wrong", (unsigned long long)i, (unsigned long long)count);
}

/* As a copy, or the test is none. */
static void post(unsigned p, unsigned tag, const uint8_t *buffer, uint32_t flags)
{
    uint64_t before = shared();

    assert_int_equal(hosted_send(to[p], tag, tag, buffer, BYTES, flags), 0);
    assert_int_equal(shared() - before, 1);
}

static void take(unsigned p, unsigned tag, unsigned seed)
{
    memset(in, 0, sizeof(in));
    peer[p].count = 0;
    assert_int_equal(hosted_recv(&peer[p], back[p], tag, tag, in, BYTES, 0), 0);
    assert_int_equal(until(&peer[p], NIGH_OP_RECV, tag)->status, 0);
    check(in, BYTES, seed);
}

/* To one receiver as well as to several: its buffer is being sent already. */
static void post_twice(unsigned p, unsigned tag, const uint8_t *buffer)
{
    post(p, tag, buffer, 0);
    post(p, tag, buffer, 0);
}

static void take_twice(unsigned p, unsigned tag, unsigned seed)
{
    take(p, tag, seed);
    take(p, tag, seed);
}

/* From then on buffers of that length are copied for the first one. */
static void broadcast(uint64_t bytes)
{
    static uint8_t from[1 << 20], at[PEERS][1 << 20];

    for (unsigned p = 0; p < PEERS; p++) {
        assert_int_equal(hosted_recv(&peer[p], back[p], 9000, 9000, at[p], bytes, 0), 0);
        assert_int_equal(hosted_send(to[p], 9000 + p, 9000, from, bytes, 0), 0);
    }
    for (unsigned p = 0; p < PEERS; p++) {
        until(&peer[p], NIGH_OP_RECV, 9000);
        until(&root, NIGH_OP_SEND, 9000 + p);
    }
    root.count = peer[0].count = peer[1].count = 0;
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    shares_open();
    broadcast(0);
    assert_int_equal(hosted_facts(&root).crowded, 1);
    broadcast(BYTES);
    return 0;
}

static int start_eager(void **state)
{
    assert_int_equal(setenv("NIGH_EAGER", "1M", 1), 0);
    start(state);
    return unsetenv("NIGH_EAGER");
}

static int stop(void **state)
{
    (void)state;
    return shares_close();
}

/* ---- the buffer
 * ---------------------------------------------------------------------------------------------------- */

static void complete_when_posted(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 10; i++) {
        root.count = 0;
        fill(out[0], i);
        for (unsigned p = 0; p < PEERS; p++)
            post(p, 10 * i + p, out[0], 0);
        hosted_poll(&root);
        for (unsigned p = 0; p < PEERS; p++)
            assert_int_equal(hosted_find(&root, NIGH_OP_SEND, 10 * i + p)->status, 0);
        fill(out[0], 99);
        for (unsigned p = 0; p < PEERS; p++)
            take(p, 10 * i + p, i);
    }
}

/* A host may not change it so early: this one does, to see which copies there are. */
static void one_copy_until_the_host_is_told(void **state)
{
    (void)state;
    fill(out[0], 1);
    post(0, 1, out[0], 0);
    fill(out[0], 2);
    post(1, 1, out[0], 0);
    post(0, 2, out[0], 0);
    hosted_poll(&root);
    post(1, 2, out[0], 0);
    take(0, 1, 1);
    take(1, 1, 1);
    take(0, 2, 1);
    take(1, 2, 2);
}

/* The host was told of one, and keeps the buffer for the other. */
static void told_of_the_first(void **state)
{
    struct nigh_completion done;

    (void)state;
    fill(out[0], 1);
    post(0, 1, out[0], 0);
    post(1, 1, out[0], 0);
    assert_int_equal(hosted_ops->poll_completions(root.context, &done, 1), 1);
    post(0, 2, out[0], 0);
    assert_int_equal(hosted_ops->poll_completions(root.context, &done, 1), 1);
    assert_int_equal(hosted_ops->poll_completions(root.context, &done, 1), 1);
    fill(out[0], 2);
    post(1, 2, out[0], 0);
    take(0, 1, 1);
    take(1, 1, 1);
    take(0, 2, 1);
    take(1, 2, 2);
}

/* Of those no completion tells. */
static void silent_ones(void **state)
{
    (void)state;
    fill(out[0], 1);
    post(0, 1, out[0], NIGH_SILENT);
    fill(out[0], 2);
    post(1, 1, out[0], NIGH_SILENT);
    fill(out[0], 3);
    post(0, 2, out[0], 0);
    take(0, 1, 1);
    take(1, 1, 2);
    take(0, 2, 3);
    turns(10);
    assert_int_equal(root.count, 1);
}

/* ---- the receive
 * --------------------------------------------------------------------------------------------------- */

static void into_all_kinds_of_receives(void **state)
{
    static uint8_t room[4 * MOST];
    const struct nigh_completion *done;

    (void)state;
    fill(out[0], 1);
    for (unsigned tag = 1; tag <= 3; tag++)
        post(0, tag, out[0], 0);
    peer[0].count = 0;
    assert_int_equal(hosted_recv(&peer[0], back[0], 1, 1, room, 1000, 0), 0);
    assert_int_equal(until(&peer[0], NIGH_OP_RECV, 1)->status, -EMSGSIZE);
    check(room, 1000, 1);
    assert_int_equal(hosted_recv(&peer[0], back[0], 2, 2, NULL, MOST, NIGH_IN_PLACE), 0);
    done = until(&peer[0], NIGH_OP_RECV, 2);
    assert_int_equal(done->status, 0);
    check(done->data, BYTES, 1);
    assert_int_equal(hosted_ops->release(peer[0].context, done->data), 0);
    assert_int_equal(hosted_recv(&peer[0], back[0], 3, 3, room, sizeof(room), NIGH_MULTI), 0);
    done = until(&peer[0], NIGH_OP_RECV, 3);
    assert_int_equal(done->status, 0);
    check(done->data, BYTES, 1);
}

/* What nobody takes: as many as there may be, and the others in chunks. In order. */
static void more_than_there_may_be(void **state)
{
    uint64_t before = shared();

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        fill(out[i], i);
        for (unsigned twice = 0; twice < 2; twice++)
            assert_int_equal(hosted_send(to[0], i, 7, out[i], BYTES, 0), 0);
    }
    assert_int_equal(shared() - before, 2 * LASTING);
    for (unsigned i = 0; i < MANY; i++)
        take_twice(0, 7, i);
    for (unsigned i = 0; i < LASTING; i++)
        post_twice(0, 8, out[i]);
}

/* ---- those that end
 * ------------------------------------------------------------------------------------------------ */

/* More than all copies have room for. */
static void send_much(unsigned p)
{
    for (unsigned i = 0; i < FULL; i++) {
        fill(out[1], i);
        post_twice(p, 20, out[1]);
        take_twice(p, 20, i);
        hosted_poll(&root);
        root.count = 0;
    }
}

static void the_sender_closes(void **state)
{
    (void)state;
    fill(out[0], 1);
    post(0, 1, out[0], 0);
    post(1, 1, out[0], 0);
    turns(100);
    hosted_close(&root);
    take(0, 1, 1);
    turns(100);
    take(1, 1, 1);
}

/* Half of it is copied when its receive is posted, and the rest in the next pass, which hears of
 * the sender's end first. */
static void the_sender_closes_in_the_middle(void **state)
{
    static uint8_t large[2][1 << 20];
    uint64_t before;

    (void)state;
    broadcast(sizeof(large[0]));
    before = shared();
    memset(large[0], 0x5a, sizeof(large[0]));
    assert_int_equal(hosted_send(to[0], 1, 1, large[0], sizeof(large[0]), 0), 0);
    assert_int_equal(shared() - before, 1);
    turns(100);
    assert_int_equal(hosted_recv(&peer[0], back[0], 1, 1, large[1], sizeof(large[1]), 0), 0);
    assert_null(hosted_find(&peer[0], NIGH_OP_RECV, 1));
    hosted_close(&root);
    assert_int_equal(until(&peer[0], NIGH_OP_RECV, 1)->status, 0);
    assert_memory_equal(large[0], large[1], sizeof(large[0]));
}

/* It uses the place for nothing else as long as the receiver is there, and then again. */
static void the_sender_leaves_one(void **state)
{
    (void)state;
    fill(out[0], 1);
    for (unsigned tag = 1; tag <= LASTING - 2; tag++) {
        post_twice(0, tag, out[0]);
        hosted_poll(&root);
    }
    turns(100);
    assert_int_equal(hosted_ops->disconnect(to[0]), 0);
    send_much(1);
    for (unsigned tag = 1; tag <= LASTING - 2; tag++)
        take_twice(0, tag, 1);
    assert_int_equal(hosted_ops->disconnect(back[0]), 0);
    turns(5000);
    for (unsigned i = 0; i < LASTING; i++)
        post_twice(1, 21, out[i]);
}

/* So for a receiver that is dying: it may be reading for a moment longer. */
static void a_receiver_is_dying(void **state)
{
    (void)state;
    fill(out[0], 1);
    for (unsigned tag = 1; tag <= LASTING - 2; tag++) {
        post_twice(0, tag, out[0]);
        hosted_poll(&root);
    }
    __atomic_store_n(&back[0]->pair->life, FUTEX_OWNER_DIED | FUTEX_WAITERS, __ATOMIC_SEQ_CST);
    nigh_progress_sweep(root.context);
    assert_int_equal(hosted_state(&root, to[0]), NIGH_PEER_DEAD);
    send_much(1);
    for (unsigned tag = 1; tag <= LASTING - 2; tag++)
        take_twice(0, tag, 1);
}

/* Those of a receiver that goes are the next one's. */
static void the_receiver_leaves(void **state)
{
    (void)state;
    for (unsigned i = 0; i < LASTING; i++)
        post_twice(0, 1, out[i]);
    turns(100);
    hosted_close(&peer[0]);
    turns(5000);
    send_much(1);
    turns(100);
    for (unsigned i = 0; i < LASTING; i++)
        post_twice(1, 21, out[i]);
}

/* Whoever is given it next takes it for as long as it is listed. */
static void check_kept(const struct nigh_early *early)
{
    unsigned kept = 0;

    for (unsigned size = 0; size < NIGH_EARLY_SIZES; size++) {
        void *memory = early->unused[size];

        kept += memory != NULL;
        assert_true(!memory || malloc_usable_size(memory) >= NIGH_EARLY_MIN << size);
    }
    assert_int_equal(kept, 1);
}

/* One of two that were sent the same; the other has it already. */
static struct nigh_message *claimed(void)
{
    struct nigh_completion found;
    struct nigh_message *message;

    fill(out[0], 1);
    post(0, 1, out[0], 0);
    post(1, 1, out[0], 0);
    take(1, 1, 1);
    while (hosted_ops->probe(peer[0].context, back[0], 1, 0, 0, &found, &message))
        turns(1);
    assert_int_equal(found.bytes, BYTES);
    return message;
}

static void take_claimed(struct nigh_message *message)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = in, .bytes = BYTES, .context = 5};

    assert_int_equal(hosted_ops->claim(peer[0].context, message, &recv), 0);
    assert_int_equal(until(&peer[0], NIGH_OP_RECV, 5)->status, 0);
    check(in, BYTES, 1);
}

/* What was claimed is the host's, though the sender is left: from then on the sender uses the place again. */
static void claimed_from_one_that_is_left(void **state)
{
    struct nigh_message *message = claimed();

    (void)state;
    assert_int_equal(hosted_ops->disconnect(back[0]), 0);
    turns(5000);
    send_much(1);
    take_claimed(message);
    check_kept(&peer[0].context->early);
}

/* The same where it is the sender that has left, or has closed. */
static void claimed_from_one_that_has_left(void **state)
{
    struct nigh_message *message = claimed();

    (void)state;
    assert_int_equal(hosted_ops->disconnect(to[0]), 0);
    turns(5000);
    send_much(1);
    hosted_close(&root);
    turns(100);
    take_claimed(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(complete_when_posted, start, stop),
        cmocka_unit_test_setup_teardown(one_copy_until_the_host_is_told, start, stop),
        cmocka_unit_test_setup_teardown(told_of_the_first, start, stop),
        cmocka_unit_test_setup_teardown(silent_ones, start, stop),
        cmocka_unit_test_setup_teardown(into_all_kinds_of_receives, start, stop),
        cmocka_unit_test_setup_teardown(more_than_there_may_be, start, stop),
        cmocka_unit_test_setup_teardown(the_sender_closes, start, stop),
        cmocka_unit_test_setup_teardown(the_sender_closes_in_the_middle, start_eager, stop),
        cmocka_unit_test_setup_teardown(the_sender_leaves_one, start, stop),
        cmocka_unit_test_setup_teardown(a_receiver_is_dying, start, stop),
        cmocka_unit_test_setup_teardown(the_receiver_leaves, start, stop),
        cmocka_unit_test_setup_teardown(claimed_from_one_that_is_left, start, stop),
        cmocka_unit_test_setup_teardown(claimed_from_one_that_has_left, start, stop),
    };

    return cmocka_run_group_tests_name("share whole", tests, NULL, NULL);
}

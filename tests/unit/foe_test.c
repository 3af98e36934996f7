/* SPDX-License-Identifier: BSD-3-Clause */
/* Chosen lies of a peer, each of them once able to crash the process, to hang it, or to take another peer's data. The
 * liar ends with -EPROTO and everybody else is served. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/siege.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct hosted victim, good;
static struct foe foe;
static struct nigh_endpoint *to_foe, *to_good;
static uint8_t big[1 << 20];

static int start(void **state)
{
    (void)state;
    alarm(300);
    siege_open(&victim, &foe, &good, &to_foe, &to_good);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    siege_close(&victim, &foe, &good);
    return 0;
}

/* The victim still talks to its other peer. */
static void assert_good_is_served(void)
{
    uint8_t out[256], in[256] = {0};

    memset(out, 0x5a, sizeof(out));
    assert_int_equal(hosted_recv(&good, NULL, 900, 900, in, sizeof(in), 0), 0);
    assert_int_equal(hosted_send(to_good, 901, 900, out, sizeof(out), 0), 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, 900)->status, 0);
    assert_memory_equal(in, out, sizeof(in));
}

static void assert_broken(void)
{
    for (unsigned i = 0; i < 100 && hosted_state(&victim, to_foe) == NIGH_READY; i++)
        hosted_turns(&victim, &good, 100);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_BROKEN);
    assert_int_equal(hosted_send(to_foe, 1, 1, big, 8, 0), -EPROTO);
    assert_good_is_served();
}

static uint64_t head(uint32_t kind, uint32_t flags)
{
    return nigh_head_make(kind, 0, 0, flags);
}

/* Pieces beyond what may come without asking would be read out of a buffer that was made for less. */
static void test_unasked_pieces(void **state)
{
    struct nigh_wire_first first = {.total = 65536, .id = 3, .line = foe_pool_line(&foe)};
    struct nigh_wire_piece piece = {.line = foe_pool_line(&foe), .bytes = 60000};

    (void)state;
    foe_send(&foe, head(NIGH_K_FIRST, 0), 77, 0, &first, sizeof(first));
    foe_send(&foe, head(NIGH_K_PIECE, 0), 3, 0, &piece, sizeof(piece));
    assert_broken();
}

static void test_more_pieces_than_promised(void **state)
{
    struct nigh_wire_first first = {
        .total = 65536, .id = 3, .eager = 128, .line = foe_pool_line(&foe), .bytes = 128};
    struct nigh_wire_piece piece = {.line = foe_pool_line(&foe), .bytes = 4096};

    (void)state;
    foe_send(&foe, head(NIGH_K_FIRST, 0), 77, 0, &first, sizeof(first));
    foe_send(&foe, head(NIGH_K_PIECE, 0), 3, 0, &piece, sizeof(piece));
    assert_broken();
}

/* Places behind a shuttle, over its end, and in our own, which has no memory yet. */
static void a_place_in_a_shuttle(uint32_t flags, uint32_t line, uint32_t bytes)
{
    struct nigh_wire_piece piece = {.line = line, .bytes = bytes};

    foe_send(&foe, head(NIGH_K_WHOLE, NIGH_F_SHUTTLE | flags), 77, 0, &piece, sizeof(piece));
    assert_broken();
}

static void test_behind_a_shuttle(void **state)
{
    (void)state;
    a_place_in_a_shuttle(0, NIGH_SHUTTLE_BYTES / NIGH_LINE, 1);
}

static void test_over_the_end_of_a_shuttle(void **state)
{
    (void)state;
    a_place_in_a_shuttle(0, NIGH_SHUTTLE_BYTES / NIGH_LINE - 1, 65);
}

static void test_far_from_a_shuttle(void **state)
{
    (void)state;
    a_place_in_a_shuttle(NIGH_F_RETURNS, UINT32_MAX, 65535);
}

static void test_our_shuttle_without_memory(void **state)
{
    (void)state;
    a_place_in_a_shuttle(NIGH_F_RETURNS, 0, 64);
}

/* A peer that writes what it does not hold spoils its own messages, and they go on. */
static void test_a_shuttle_that_it_does_not_hold(void **state)
{
    struct nigh_wire_piece piece = {.bytes = 4096};
    struct nigh_slot slot;

    (void)state;
    assert_int_equal(nigh_window_back_shuttle(&foe.window, &foe.arena, 65536), 0);
    memset(nigh_window_shuttle(&foe.window), 0x33, 4096);
    assert_int_equal(hosted_recv(&victim, NULL, 10, 77, big, 4096, 0), 0);
    foe_send(&foe, head(NIGH_K_WHOLE, NIGH_F_SHUTTLE), 77, 0, &piece, sizeof(piece));
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 10)->status, 0);
    assert_int_equal(big[4095], 0x33);
    /* The answer lies where the message has lain, as far as that has memory. */
    memset(big, 0x44, 4096);
    assert_int_equal(hosted_send(to_foe, 11, 5, big, 4096, 0), 0);
    for (unsigned i = 0; !foe_receive(&foe, &slot); i++) {
        assert_true(i < 100000);
        hosted_turns(&victim, &good, 1);
    }
    assert_int_equal(nigh_head_flags(slot.head) & (NIGH_F_SHUTTLE | NIGH_F_RETURNS),
                     NIGH_F_SHUTTLE | NIGH_F_RETURNS);
    assert_int_equal(nigh_window_shuttle(&foe.window)[4095], 0x44);
    /* The same one twice, the second time without holding it. */
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(hosted_recv(&victim, NULL, 13 + i, 77, big, 4096, 0), 0);
    for (unsigned i = 0; i < 2; i++)
        foe_send(&foe, head(NIGH_K_WHOLE, NIGH_F_SHUTTLE), 77, 0, &piece, sizeof(piece));
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 13)->status, 0);
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 14)->status, 0);
    assert_good_is_served();
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

/* A total near 2^64 must not wrap the room that a multi-receive buffer gives out: the next message would be put over
 * this one. */
static void test_enormous_total_in_a_shared_buffer(void **state)
{
    struct nigh_wire_first first = {
        .total = UINT64_MAX, .id = 3, .eager = 64, .line = foe_pool_line(&foe), .bytes = 64};
    struct nigh_endpoint *back = hosted_connect(&good, 0);
    uint8_t text[64];

    (void)state;
    assert_int_equal(hosted_recv(&victim, NULL, 10, 77, big, 4096, NIGH_MULTI), 0);
    memset(foe.arena.base + foe.arena.layout.pool_off, 0x11, 64);
    foe_send(&foe, head(NIGH_K_FIRST, 0), 77, 0, &first, sizeof(first));
    hosted_turns(&victim, NULL, 100);
    assert_int_equal(big[0], 0x11);
    memset(text, 0x22, sizeof(text));
    assert_int_equal(hosted_send(back, 11, 77, text, sizeof(text), 0), 0);
    hosted_until(&good, &victim, NIGH_OP_SEND, 11);
    hosted_turns(&victim, &good, 3000);
    assert_int_equal(big[0], 0x11);
}

/* Nothing to carry, nobody wrong: a message without bytes that waits for its match, and a get that is refused. */
static void test_beginnings_without_a_piece(void **state)
{
    struct nigh_rma get = {.size = sizeof(get), .buffer = big, .bytes = 64, .key = 5, .context = 51};
    struct nigh_endpoint *back = hosted_connect(&good, 0);

    (void)state;
    assert_int_equal(hosted_send(to_good, 50, 5, NULL, 0, NIGH_SYNC), 0);
    assert_int_equal(hosted_recv(&good, back, 52, 5, NULL, 0, 0), 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, 52)->status, 0);
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_SEND, 50)->status, 0);
    assert_int_equal(hosted_ops->post_get(to_good, &get), 0);
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_GET, 51)->status, -EACCES);
}

/* The peer answers for an operation that still waits for room: it would be in two lists, or freed in one. */
static void fill_ring_to_foe(void)
{
    for (unsigned i = 0; i < 100000; i++) {
        struct nigh_query_stats stats;

        assert_int_equal(hosted_send(to_foe, 5000 + i, 1, big, 32, NIGH_SILENT), 0);
        stats = hosted_stats(&victim);
        if (stats.ring_full > stats.ring_grown)
            return;
    }
    fail_msg("the ring never was full");
}

static void test_answers_before_the_question(void **state)
{
    static const uint32_t kinds[] = {NIGH_K_GRANT, NIGH_K_FINISH, NIGH_K_RESULT, NIGH_K_REPLY};

    (void)state;
    fill_ring_to_foe();
    assert_int_equal(hosted_send(to_foe, 20, 1, big, sizeof(big), NIGH_SYNC), 0);
    assert_int_equal(hosted_send(to_foe, 21, 1, big, 8, NIGH_SYNC), 0);
    hosted_turns(&victim, &good, 10);
    for (unsigned i = 0; i < 4; i++)
        foe_send(&foe, head(kinds[i], 0), 0, 0, big, 40);
    assert_broken();
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_SEND, 20)->status, -EPROTO);
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_SEND, 21)->status, -EPROTO);
}

static void test_grant_of_what_waits(void **state)
{
    (void)state;
    /* The message in question is the first of the queue, so that its start has been tried. */
    for (unsigned i = 0; i < 2000 && hosted_stats(&victim).ring_full <= hosted_stats(&victim).ring_grown; i++)
        assert_int_equal(hosted_send(to_foe, 19, 1, big, 8, NIGH_SYNC), 0);
    assert_true(hosted_stats(&victim).ring_full > hosted_stats(&victim).ring_grown);
    for (uint64_t id = 0; id < 2000 && hosted_state(&victim, to_foe) == NIGH_READY; id++) {
        foe_send(&foe, head(NIGH_K_GRANT, 0), id, 0, NULL, 0);
        hosted_poll(&victim);
    }
    assert_broken();
    hosted_turns(&victim, &good, 100);
    for (unsigned i = 0; i < victim.count; i++)
        assert_true(victim.done[i].status == 0 || victim.done[i].status == -EPROTO);
}

/* The answer to a get names a piece outside of the pool: the get must still complete. */
static void test_reply_out_of_the_pool(void **state)
{
    struct nigh_rma get = {.size = sizeof(get), .buffer = big, .bytes = 64, .key = 5, .context = 30};
    struct nigh_wire_first first = {.total = 64, .id = 9, .line = 1, .bytes = 64};

    (void)state;
    assert_int_equal(hosted_ops->post_get(to_foe, &get), 0);
    foe_send(&foe, head(NIGH_K_REPLY, 0), 0, 0, &first, sizeof(first));
    assert_broken();
    assert_int_equal(hosted_until(&victim, NULL, NIGH_OP_GET, 30)->status, -EPROTO);
}

/* A ring that says "go on in this ring" for ever, and a flag that asks to read it to its end. */
static void test_ring_without_end(void **state)
{
    (void)state;
    foe_publish(&foe, head(NIGH_K_MOVE, 0), foe.ring_word, 0, NULL, 1);
    nigh_store_relaxed(&foe.pair->closed, nigh_load_relaxed(&foe.pair->closed) | 1);
    foe_wake(&foe);
    for (unsigned i = 0; i < 100 && hosted_state(&victim, to_foe) == NIGH_READY; i++)
        hosted_turns(&victim, &good, 100);
    assert_int_not_equal(hosted_state(&victim, to_foe), NIGH_READY);
    assert_good_is_served();
}

/* Requests whose answers nobody reads: the memory that they wait in is bounded by the number of ids. */
static void test_answers_that_nobody_reads(void **state)
{
    struct nigh_wire_get get = {.total = 8};

    (void)state;
    for (uint32_t i = 0; i < 2u << 20 && hosted_state(&victim, to_foe) == NIGH_READY; i++) {
        while (!nigh_ring_room(&foe.tx, 1) && hosted_state(&victim, to_foe) == NIGH_READY)
            hosted_poll(&victim);
        get.id = i & 0xfffff;
        foe_send(&foe, head(NIGH_K_GET, 0), 4711, 0, &get, sizeof(get));
    }
    assert_broken();
}

/* Somebody says that he is the victim itself. */
static void test_our_own_name(void **state)
{
    struct nigh_endpoint *self = hosted_connect(&victim, 0);
    struct foe liar;

    (void)state;
    foe_open(&liar, foe.job, 3, hosted_facts(&victim).incarnation);
    foe_dial(&liar, 0);
    for (unsigned i = 0; i < 200; i++) {
        foe_progress(&liar);
        hosted_turns(&victim, NULL, 10);
        usleep(100);
    }
    assert_int_equal(hosted_state(&victim, self), NIGH_READY);
    foe_close(&liar);
}

/* One who attaches with memory that is refused. */
static void assert_refused(struct foe *other)
{
    struct nigh_endpoint *to = hosted_connect(&victim, 3);

    assert_int_equal(hosted_send(to, 50, 1, big, 8, 0), 0);
    for (unsigned i = 0; !hosted_find(&victim, NIGH_OP_SEND, 50); i++) {
        assert_true(i < 300000);
        foe_progress(other);
        hosted_turns(&victim, &good, 10);
        usleep(100);
    }
    assert_int_equal(hosted_find(&victim, NIGH_OP_SEND, 50)->status, -EPROTO);
    assert_int_equal(hosted_state(&victim, to), NIGH_BROKEN);
    assert_int_equal(hosted_stats(&victim).peers_broken, 1);
    assert_good_is_served();
    foe_close(other);
}

/* Another version's arena would be read wrongly: it is refused when it comes, and the log says which version it is. */
static void test_layout_of_another_version(void **state)
{
    struct foe other;

    (void)state;
    foe_open(&other, foe.job, 3, 0);
    ((struct nigh_arena_header *)(void *)other.arena.base)->version++;
    assert_refused(&other);
}

/* A ring's memory that could be cut off while it is read would be a SIGBUS. */
static void test_window_that_can_shrink(void **state)
{
    struct foe other;
    int fd = memfd_create("foe", MFD_CLOEXEC | MFD_ALLOW_SEALING), sound;

    (void)state;
    assert_int_equal(ftruncate(fd, 12288), 0);
    foe_open(&other, foe.job, 3, 0);
    sound = other.window.fd;
    other.window.fd = fd;
    assert_refused(&other);
    close(sound);
}

/* A ring that reaches beyond its memory. */
static void test_ring_outside_of_its_window(void **state)
{
    struct foe other;
    struct nigh_endpoint *to;

    (void)state;
    foe_open(&other, foe.job, 3, 0);
    to = hosted_connect(&victim, 3);
    nigh_store_release(&other.pair->ring, nigh_window_word(other.window.bytes - NIGH_PAGE, 128),
                       DIRECTORY_SET);
    for (unsigned i = 0; hosted_state(&victim, to) != NIGH_BROKEN; i++) {
        assert_true(i < 300000);
        foe_progress(&other);
        hosted_turns(&victim, &good, 10);
        usleep(100);
    }
    assert_good_is_served();
    foe_close(&other);
}

/* A credit lie that only a queued send can notice is noticed before the victim goes to sleep. */
static void test_credit_lie_before_sleep(void **state)
{
    uint64_t begun;

    (void)state;
    fill_ring_to_foe();
    assert_int_equal(hosted_send(to_foe, 40, 1, big, 8, 0), 0);
    nigh_store_release(&foe.pair->consumed, UINT64_MAX, CREDIT_RETURN);
    begun = hosted_stats(&victim).rescues;
    while (!hosted_find(&victim, NIGH_OP_SEND, 40)) {
        assert_int_equal(hosted_ops->wait(victim.context, UINT64_C(60000000000)), 0);
        hosted_poll(&victim);
    }
    assert_int_equal(hosted_find(&victim, NIGH_OP_SEND, 40)->status, -EPROTO);
    assert_int_equal(hosted_stats(&victim).rescues, begun);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_unasked_pieces, start, stop),
    cmocka_unit_test_setup_teardown(test_more_pieces_than_promised, start, stop),
    cmocka_unit_test_setup_teardown(test_behind_a_shuttle, start, stop),
    cmocka_unit_test_setup_teardown(test_over_the_end_of_a_shuttle, start, stop),
    cmocka_unit_test_setup_teardown(test_far_from_a_shuttle, start, stop),
    cmocka_unit_test_setup_teardown(test_our_shuttle_without_memory, start, stop),
    cmocka_unit_test_setup_teardown(test_a_shuttle_that_it_does_not_hold, start, stop),
    cmocka_unit_test_setup_teardown(test_enormous_total_in_a_shared_buffer, start, stop),
    cmocka_unit_test_setup_teardown(test_beginnings_without_a_piece, start, stop),
    cmocka_unit_test_setup_teardown(test_answers_before_the_question, start, stop),
    cmocka_unit_test_setup_teardown(test_grant_of_what_waits, start, stop),
    cmocka_unit_test_setup_teardown(test_reply_out_of_the_pool, start, stop),
    cmocka_unit_test_setup_teardown(test_ring_without_end, start, stop),
    cmocka_unit_test_setup_teardown(test_answers_that_nobody_reads, start, stop),
    cmocka_unit_test_setup_teardown(test_our_own_name, start, stop),
    cmocka_unit_test_setup_teardown(test_window_that_can_shrink, start, stop),
    cmocka_unit_test_setup_teardown(test_ring_outside_of_its_window, start, stop),
    cmocka_unit_test_setup_teardown(test_layout_of_another_version, start, stop),
    cmocka_unit_test_setup_teardown(test_credit_lie_before_sleep, start, stop),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring: bodies of every size at every place, laps beyond what 16 bits hold, payload that looks like the header of
 * the next lap, a larger ring behind a full one, and credits that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/ring.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { KIND = 5 };

/* A ring and both of its ends in private memory. */
struct both {
    struct nigh_slot *slots;
    struct nigh_ring_tx tx;
    struct nigh_ring_rx rx;
    uint64_t credit;
};

static struct both ring;

static void *zeroed(uint32_t slots)
{
    void *memory = aligned_alloc(NIGH_LINE, slots * sizeof(struct nigh_slot));

    assert_non_null(memory);
    memset(memory, 0, slots * sizeof(struct nigh_slot));
    return memory;
}

/* As if `begun` slots had gone through the ring of `slots` before. */
static void open_at(uint32_t slots, uint64_t begun, uint32_t spare)
{
    memset(&ring, 0, sizeof(ring));
    ring.slots = zeroed(slots);
    ring.tx.credit = &ring.credit;
    ring.rx.credit = &ring.credit;
    nigh_ring_tx_use(&ring.tx, ring.slots, slots, spare);
    nigh_ring_rx_use(&ring.rx, ring.slots, slots);
    if (!begun)
        return;
    /* Every slot carries the lap in which it was last used, as a header. */
    for (uint64_t seq = begun - slots; seq < begun; seq++)
        nigh_ring_slot(&ring.tx, seq)->head = nigh_ring_lap(&ring.tx, seq) << NIGH_LAP_SHIFT | 1;
    ring.tx.next = ring.rx.next = ring.rx.returned = ring.credit = begun;
    ring.tx.limit = begun + slots - spare;
    nigh_ring_advance(&ring.rx, 0);
}

static int close_ring(void **state)
{
    (void)state;
    free(ring.slots);
    ring.slots = NULL;
    return 0;
}

static void fill(uint8_t *to, uint32_t bytes, uint64_t salt)
{
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(salt * 167 + i * 31);
}

static void put(const void *payload, uint32_t bytes, uint64_t tag)
{
    uint32_t count = nigh_slots_for(bytes);

    assert_true(nigh_ring_room(&ring.tx, count));
    nigh_ring_at(&ring.tx)->tag = tag;
    nigh_ring_write_body(&ring.tx, payload, bytes);
    nigh_ring_commit(&ring.tx, nigh_head_make(KIND, bytes, 3, 9), count);
    /* Whatever is taken ahead, nobody sees it. */
    nigh_ring_own(&ring.tx, (uint32_t)(tag % 36));
}

static void get(const void *payload, uint32_t bytes, uint64_t tag)
{
    uint8_t found[NIGH_BODY_MAX + 1];
    uint64_t head = nigh_ring_peek(&ring.rx);

    assert_int_equal(nigh_head_kind(head), KIND);
    assert_int_equal(nigh_head_bytes(head), bytes);
    assert_int_equal(nigh_head_tclass(head), 3);
    assert_int_equal(nigh_head_flags(head), 9);
    assert_int_equal(ring.rx.at->tag, tag);
    nigh_ring_read_body(&ring.rx, found, bytes, bytes);
    assert_memory_equal(found, payload, bytes);
    /* Less of it than there is, and nothing behind that. */
    for (uint32_t wanted = tag % 50; wanted < bytes; wanted += 31) {
        memset(found, 0xee, sizeof(found));
        nigh_ring_read_body(&ring.rx, found, bytes, wanted);
        assert_memory_equal(found, payload, wanted);
        assert_int_equal(found[wanted], 0xee);
    }
    if (bytes <= NIGH_SLOT_PAYLOAD && tag % 2)
        nigh_ring_advance_one(&ring.rx);
    else
        nigh_ring_advance(&ring.rx, nigh_slots_for(bytes));
    if (nigh_ring_owes(&ring.rx))
        nigh_ring_return(&ring.rx);
}

static void test_slots_for(void **state)
{
    (void)state;
    assert_int_equal(nigh_slots_for(0), 1);
    assert_int_equal(nigh_slots_for(40), 1);
    assert_int_equal(nigh_slots_for(41), 2);
    assert_int_equal(nigh_slots_for(104), 2);
    assert_int_equal(nigh_slots_for(105), 3);
    assert_int_equal(nigh_slots_for(NIGH_BODY_MAX), 33);
}

/* Whatever a header says, no more is asked for than is worth it. */
static void test_foreseen(void **state)
{
    (void)state;
    assert_int_equal(nigh_ring_foreseen(nigh_head_make(1, 8, 0, 0)), 0);
    assert_int_equal(nigh_ring_foreseen(nigh_head_make(1, NIGH_SLOT_PAYLOAD, 0, 0)), 0);
    assert_int_equal(nigh_ring_foreseen(nigh_head_make(1, NIGH_SLOT_PAYLOAD + 1, 0, 0)), 1);
    assert_int_equal(nigh_ring_foreseen(nigh_head_make(1, NIGH_SLOT_PAYLOAD + 2 * NIGH_LINE, 0, 0)), 2);
    assert_int_equal(nigh_ring_foreseen(nigh_head_make(1, NIGH_BODY_MAX, 0, 0)), NIGH_RING_FORESEEN);
    assert_int_equal(nigh_ring_foreseen(UINT64_MAX), NIGH_RING_FORESEEN);
}

static void test_every_size_at_every_place(void **state)
{
    static uint8_t payload[NIGH_BODY_MAX];

    (void)state;
    open_at(64, 0, 0);
    for (uint32_t bytes = 0; bytes <= NIGH_BODY_MAX; bytes += bytes < 170 ? 1 : 61) {
        for (uint32_t place = 0; place < 64; place++) {
            while ((ring.tx.next & 63) != place) {
                put(payload, 8, 1);
                get(payload, 8, 1);
                assert_int_equal(nigh_ring_peek(&ring.rx), 0);
            }
            fill(payload, bytes, bytes + place);
            put(payload, bytes, bytes);
            get(payload, bytes, bytes);
            assert_int_equal(nigh_ring_peek(&ring.rx), 0);
        }
    }
}

/* Payload written as if it were the header of this lap, of the next one, of any: it is never taken for one. */
static void test_payload_that_looks_like_headers(void **state)
{
    uint64_t payload[NIGH_BODY_MAX / 8];
    uint64_t random = 88172645463325252;

    (void)state;
    open_at(64, 0, 0);
    for (uint32_t turn = 0; turn < 20000; turn++) {
        uint32_t bytes = (uint32_t)(random % (NIGH_BODY_MAX + 1));
        uint64_t lap = nigh_ring_lap(&ring.tx, ring.tx.next) + turn % 3;

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (turn % 4 == 0)
            bytes %= 41;
        for (uint32_t i = 0; i < NIGH_BODY_MAX / 8; i++)
            payload[i] = lap << NIGH_LAP_SHIFT | nigh_head_make(KIND, 8, 0, 0);
        put(payload, bytes, turn);
        get(payload, bytes, turn);
        assert_int_equal(nigh_ring_peek(&ring.rx), 0);
    }
}

/* The lap of a slot is 16 bits of a larger number: 65535, 0, 1 follow each other, and lap 0 is not "never used". */
static void test_laps_beyond_16_bits(void **state)
{
    uint8_t payload[200];

    (void)state;
    for (uint64_t laps = 65534; laps <= 131073; laps += laps == 65537 ? 65533 : 1) {
        open_at(64, laps * 64, 0);
        for (uint32_t i = 0; i < 400; i++) {
            uint32_t bytes = i % 3 == 0 ? 200 : i % 41;

            fill(payload, bytes, i);
            assert_int_equal(nigh_ring_peek(&ring.rx), 0);
            put(payload, bytes, i);
            get(payload, bytes, i);
        }
        close_ring(NULL);
    }
    open_at(64, 65535 * 64, 0);
    put(payload, 8, 1);
    assert_int_equal(nigh_ring_slot(&ring.tx, ring.tx.next - 1)->head >> NIGH_LAP_SHIFT, 0);
    get(payload, 8, 1);
}

/* Message i of a walk: one slot, class 3, no flags, but every 13th. */
static uint64_t walked_head(uint32_t i)
{
    switch (i % 13 ? 0 : i / 13 % 4) {
    case 0:
        return nigh_head_make(KIND, i % 41, 3, 0);
    case 1:
        return nigh_head_make(KIND, 8, 3, 1);
    case 2:
        return nigh_head_make(KIND, 8, 4, 0);
    default:
        return nigh_head_make(KIND + 1, 41 + i % 60, 3, 0);
    }
}

/* One after the other with the place in registers, wherever the ring ends and laps wrap: the same as step by step. */
static void walk_from(uint64_t begun)
{
    uint32_t sent = 0, walked = 0, stepped = 0;
    uint8_t payload[128] = {0};

    open_at(64, begun, 0);
    for (uint32_t turn = 0; turn < 60; turn++) {
        struct nigh_ring_walk walk;
        uint32_t end = sent + 1 + turn % 20, bytes, count = 0;

        for (; sent < end; sent++) {
            bytes = nigh_head_bytes(walked_head(sent));
            assert_true(nigh_ring_room(&ring.tx, nigh_slots_for(bytes)));
            nigh_ring_at(&ring.tx)->tag = sent;
            nigh_ring_write_body(&ring.tx, payload, bytes);
            nigh_ring_commit(&ring.tx, walked_head(sent), nigh_slots_for(bytes));
        }
        while (walked + stepped < sent) {
            walk = nigh_ring_walk_begin(&ring.rx, KIND, 3);
            for (count = 0; count < 7 && nigh_ring_walk_fits(&walk, nigh_ring_walk_peek(&walk), &bytes);
                 count++) {
                assert_int_equal(walk.at->tag, walked + stepped + count);
                assert_int_equal(bytes, (walked + stepped + count) % 41);
                nigh_ring_walk_prefetch(&walk, &ring.rx);
                nigh_ring_walk_on(&walk, &ring.rx);
            }
            nigh_ring_walk_end(&walk, &ring.rx, count);
            walked += count;
            if (count > 0)
                continue;
            assert_int_equal(nigh_ring_peek(&ring.rx) << 16, walked_head(walked + stepped) << 16);
            nigh_ring_advance(&ring.rx, nigh_slots_for(nigh_head_bytes(walked_head(walked + stepped))));
            stepped++;
        }
        assert_int_equal(nigh_ring_peek(&ring.rx), 0);
        nigh_ring_return(&ring.rx);
    }
    assert_int_equal(ring.rx.next, ring.tx.next);
    assert_true(walked > 400 && stepped > 20);
    close_ring(NULL);
}

static void test_walk(void **state)
{
    (void)state;
    walk_from(0);
    walk_from(63);
    walk_from(UINT64_C(65534) * 64 + 5);
}

/* As many as fit and not one more; the slot behind the last message is never one that has not been read. */
static void test_full(void **state)
{
    uint8_t payload[40] = {0};
    uint32_t count = 0;

    (void)state;
    open_at(64, 0, 0);
    for (; nigh_ring_room(&ring.tx, 1); count++)
        put(payload, 8, count);
    assert_int_equal(count, 63);
    for (uint32_t i = 0; i < count; i++)
        get(payload, 8, i);
    assert_int_equal(nigh_ring_peek(&ring.rx), 0);
    /* The consumer owes at most a quarter. */
    assert_true(nigh_ring_room(&ring.tx, 33));
    close_ring(state);
    open_at(64, 0, 1);
    for (count = 0; nigh_ring_room(&ring.tx, 1); count++)
        put(payload, 8, count);
    assert_int_equal(count, 62);
    nigh_ring_unspare(&ring.tx);
    assert_true(nigh_ring_room(&ring.tx, 1));
}

/* A consumer that has always more to read keeps back less than the longest message needs. */
static void test_credit_kept_back(void **state)
{
    uint8_t payload[40] = {0};

    (void)state;
    open_at(64, 0, 0);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(nigh_ring_room(&ring.tx, 33));
        put(payload, 8, i);
        assert_int_not_equal(nigh_ring_peek(&ring.rx), 0);
        nigh_ring_advance(&ring.rx, 1);
        if (nigh_ring_owes_much(&ring.rx))
            nigh_ring_return(&ring.rx);
    }
    assert_true(nigh_ring_owed(&ring.rx) < 32);
}

/* Slots are taken ahead where there is room for them and nowhere else, and never their first word. */
static void test_own(void **state)
{
    uint64_t ones[NIGH_LINE / 8];

    (void)state;
    open_at(64, 0, 0);
    memset(ring.slots, 0xff, 64 * sizeof(*ring.slots));
    memset(ones, 0xff, sizeof(ones));
    nigh_ring_own(&ring.tx, 64);
    for (uint32_t i = 0; i < 64; i++)
        assert_memory_equal(&ring.slots[i], ones, sizeof(ones));
    nigh_ring_own(&ring.tx, 3);
    for (uint32_t i = 0; i < 64; i++) {
        const struct nigh_slot *slot = nigh_ring_slot(&ring.tx, i);

        assert_int_equal(memcmp(slot, ones, sizeof(ones)) != 0, i >= 1 && i <= 3);
        assert_true(slot->head == UINT64_MAX);
    }
}

/* A larger ring takes over where the full one ended; credit goes on counting. */
static void test_larger_ring(void **state)
{
    struct nigh_slot *small, *large = zeroed(256);
    uint8_t payload[100];
    uint32_t put_count = 0;

    (void)state;
    open_at(64, 64 * 5 + 17, 1);
    small = ring.slots;
    fill(payload, 8, 0);
    while (nigh_ring_room(&ring.tx, 1))
        put(payload, 8, put_count++);
    nigh_ring_unspare(&ring.tx);
    put(payload, 8, 1000); /* stands for MOVE */
    nigh_ring_tx_use(&ring.tx, large, 256, 0);
    ring.slots = large;
    fill(payload, 100, 7);
    for (uint32_t i = 0; i < 100; i++)
        put(payload, 100, i);
    fill(payload, 8, 0);
    for (uint32_t i = 0; i < put_count; i++)
        get(payload, 8, i);
    get(payload, 8, 1000);
    assert_int_equal(nigh_ring_peek(&ring.rx), 0);
    nigh_ring_return(&ring.rx);
    assert_int_equal(nigh_ring_consumed(&ring.tx), ring.tx.base);
    nigh_ring_rx_use(&ring.rx, large, 256);
    fill(payload, 100, 7);
    for (uint32_t i = 0; i < 100; i++)
        get(payload, 100, i);
    for (uint32_t i = 0; i < 2000; i++) {
        put(payload, 100, i);
        get(payload, 100, i);
    }
    assert_int_equal(nigh_ring_peek(&ring.rx), 0);
    free(small);
}

/* More than was sent is a lie; less than before costs the liar room, and nobody else anything. */
static void test_credit_that_lies(void **state)
{
    uint8_t payload[8] = {0};

    (void)state;
    open_at(64, 0, 0);
    for (uint32_t i = 0; i < 63; i++)
        put(payload, 8, i);
    ring.credit = 64;
    assert_true(nigh_ring_consumed(&ring.tx) == UINT64_MAX);
    assert_false(nigh_ring_refresh(&ring.tx));
    assert_false(nigh_ring_room(&ring.tx, 1));
    ring.credit = UINT64_MAX;
    assert_false(nigh_ring_room(&ring.tx, 1));
    ring.credit = 63;
    assert_true(nigh_ring_room(&ring.tx, 33));
    ring.credit = 10; /* back */
    assert_true(nigh_ring_refresh(&ring.tx));
    assert_false(nigh_ring_room(&ring.tx, 33));
    assert_true(ring.tx.limit <= 64 + 63);
}

enum { RUN = 200000 };

/* On one CPU the other thread cannot do anything while this one looks. */
static void look_again(uint32_t *looks)
{
    if (++*looks % 1024)
        nigh_pause();
    else
        sched_yield();
}

static void *produce(void *data)
{
    uint64_t payload[16];
    uint32_t looks = 0;

    (void)data;
    for (uint64_t i = 0; i < RUN; i++) {
        uint32_t bytes = i % 5 == 0 ? 128 : 8;

        for (uint32_t at = 0; at < 16; at++)
            payload[at] = i * 17 + at;
        while (!nigh_ring_room(&ring.tx, nigh_slots_for(bytes)))
            look_again(&looks);
        nigh_ring_at(&ring.tx)->tag = i;
        nigh_ring_write_body(&ring.tx, payload, bytes);
        nigh_ring_commit(&ring.tx, nigh_head_make(KIND, bytes, 0, 0), nigh_slots_for(bytes));
    }
    return NULL;
}

static void test_two_threads(void **state)
{
    uint64_t payload[16], head;
    uint32_t looks = 0;
    pthread_t thread;

    (void)state;
    open_at(64, UINT64_C(65530) * 64, 0);
    assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
    for (uint64_t i = 0; i < RUN; i++) {
        uint32_t bytes = i % 5 == 0 ? 128 : 8;

        while (!(head = nigh_ring_peek(&ring.rx)))
            look_again(&looks);
        assert_int_equal(nigh_head_bytes(head), bytes);
        assert_int_equal(ring.rx.at->tag, i);
        nigh_ring_read_body(&ring.rx, payload, bytes, bytes);
        for (uint32_t at = 0; at < bytes / 8; at++)
            assert_int_equal(payload[at], i * 17 + at);
        nigh_ring_advance(&ring.rx, nigh_slots_for(bytes));
        if (nigh_ring_owes(&ring.rx))
            nigh_ring_return(&ring.rx);
    }
    pthread_join(thread, NULL);
    assert_int_equal(nigh_ring_peek(&ring.rx), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_slots_for),
    cmocka_unit_test(test_foreseen),
    cmocka_unit_test_teardown(test_every_size_at_every_place, close_ring),
    cmocka_unit_test_teardown(test_payload_that_looks_like_headers, close_ring),
    cmocka_unit_test_teardown(test_laps_beyond_16_bits, close_ring),
    cmocka_unit_test_teardown(test_walk, close_ring),
    cmocka_unit_test_teardown(test_full, close_ring),
    cmocka_unit_test_teardown(test_credit_kept_back, close_ring),
    cmocka_unit_test_teardown(test_own, close_ring),
    cmocka_unit_test_teardown(test_larger_ring, close_ring),
    cmocka_unit_test_teardown(test_credit_that_lies, close_ring),
    cmocka_unit_test_teardown(test_two_threads, close_ring),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Where ranks outnumber CPUs a buffer that is sent to several peers at a time is copied once. What arrives is what was
 * sent, whatever becomes of the buffer and of the receivers, and of memory there is no more than was said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "plugin/share.h"
#include "plugin/shuttle.h"
#include "shm/copy.h"
#include "tests/support/shares.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* No shuttle takes LONG, and SHORT completes as soon as it lies in one; one of MOST is all that is shared at a time. */
enum { SHORT = 300000, LONG = 1 << 20, MANY = 20 };
enum { BLOCK = 4 << 20, HALF = 8 << 20, MOST = 16 << 20, SHARES = MOST };

static uint8_t *out, *in[PEERS];

/* Copies past the cache of all but the first page of `watched` bytes. */
static unsigned pasts;
static uint64_t watched;

nigh_copy_fn __real_nigh_copy_select(enum nigh_copy_kernel kernel);
nigh_copy_fn __wrap_nigh_copy_select(enum nigh_copy_kernel kernel);

static void counted_past(void *to, const void *from, size_t bytes)
{
    nigh_copy_fn past = __real_nigh_copy_select(NIGH_COPY_NT);

    pasts += bytes + 4096 == watched;
    if (past)
        past(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

nigh_copy_fn __wrap_nigh_copy_select(enum nigh_copy_kernel kernel)
{
    return kernel == NIGH_COPY_NT ? counted_past : __real_nigh_copy_select(kernel);
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    shares_open();
    out = calloc(MANY, BLOCK);
    for (unsigned p = 0; p < PEERS; p++)
        in[p] = calloc(MANY, BLOCK);
    /* Both ways, so that all know by then who may read whom. */
    for (unsigned p = 0; p < PEERS; p++) {
        assert_int_equal(hosted_recv(&peer[p], back[p], 9000, 9000, NULL, 0, 0), 0);
        assert_int_equal(hosted_send(to[p], 9000, 9000, NULL, 0, NIGH_SILENT), 0);
        assert_int_equal(hosted_recv(&root, to[p], 9001 + p, 9001, NULL, 0, 0), 0);
        assert_int_equal(hosted_send(back[p], 9001, 9001, NULL, 0, NIGH_SILENT), 0);
        until(&peer[p], NIGH_OP_RECV, 9000);
        until(&root, NIGH_OP_RECV, 9001 + p);
    }
    assert_int_equal(hosted_facts(&root).crowded, 1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (unsigned p = 0; p < PEERS; p++)
        free(in[p]);
    free(out);
    return shares_close();
}

/* ---- what goes and what comes
 * ------------------------------------------------------------------------------------- */

static void fill(uint8_t *bytes, uint64_t count, unsigned seed)
{
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 4096 + seed * 31);
}

static void check(const uint8_t *bytes, uint64_t count, unsigned seed)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] != (uint8_t)(i * 7 + i / 4096 + seed * 31))
            fail_msg("byte %llu of %llu is wrong", (unsigned long long)i, (unsigned long long)count);
}

static void post(unsigned p, unsigned tag, const uint8_t *buffer, uint64_t bytes, uint32_t flags)
{
    assert_int_equal(hosted_send(to[p], 100 * p + tag, tag, buffer, bytes, flags), 0);
}

static void take(unsigned p, unsigned tag, uint8_t *room, uint64_t bytes, unsigned seed)
{
    assert_int_equal(hosted_recv(&peer[p], back[p], tag, tag, room, bytes, 0), 0);
    assert_int_equal(until(&peer[p], NIGH_OP_RECV, tag)->status, 0);
    check(room, bytes, seed);
}

static void sent(unsigned p, unsigned tag)
{
    assert_int_equal(until(&root, NIGH_OP_SEND, 100 * p + tag)->status, 0);
}

static void forget(void)
{
    root.count = peer[0].count = peer[1].count = 0;
}

/* A shuttle goes back to the root, so that what it sends next to that peer finds one. */
static void answer(unsigned p)
{
    forget();
    assert_int_equal(hosted_recv(&root, to[p], 800, 800, in[p] + BLOCK, SHORT, 0), 0);
    assert_int_equal(hosted_send(back[p], 801, 800, in[p], SHORT, 0), 0);
    assert_int_equal(until(&root, NIGH_OP_RECV, 800)->status, 0);
    until(&peer[p], NIGH_OP_SEND, 801);
    forget();
}

/* As the root of a linear broadcast. */
static void broadcast(uint64_t bytes, unsigned seed)
{
    forget();
    fill(out, bytes, seed);
    for (unsigned p = 0; p < PEERS; p++)
        post(p, 1, out, bytes, 0);
    for (unsigned p = 0; p < PEERS; p++)
        take(p, 1, in[p], bytes, seed);
    for (unsigned p = 0; p < PEERS; p++)
        sent(p, 1);
    for (unsigned p = 0; p < PEERS; p++)
        answer(p);
}

/* ---- tests
 * --------------------------------------------------------------------------------------------------------- */

static void two_slow_pages_in_a_row(void **state)
{
    struct nigh_shares shares = {.slow_ns = 700};

    (void)state;
    assert_false(nigh_shares_note_page(&shares, 200));
    assert_false(nigh_shares_note_page(&shares, 701));
    assert_true(nigh_shares_note_page(&shares, 1500));
    assert_true(nigh_shares_note_page(&shares, 900));
    assert_false(nigh_shares_note_page(&shares, 700));
    assert_false(nigh_shares_note_page(&shares, 1500));
    assert_false(nigh_shares_note_page(&shares, 300));
}

static unsigned pasts_of(uint64_t bytes, unsigned seed)
{
    watched = bytes;
    pasts = 0;
    broadcast(bytes, seed);
    return pasts;
}

/* No page is slow, then all are, as if their lines were behind another L3: from the second copy on. */
static void slow_places_are_written_past_the_cache(void **state)
{
    struct nigh_shares *shares = &root.context->shares;
    static const uint64_t bytes[] = {200000, LONG, LONG + 1, 32768, 32769, BLOCK};

    (void)state;
    shares->slow_ns = UINT64_MAX;
    assert_int_equal(pasts_of(LONG, 1), 0);
    shares->slow_ns = 0;
    pasts_of(LONG, 2);
    for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        pasts_of(bytes[i], 3 + i); /* which may not know yet that there are others */
        assert_int_equal(pasts_of(bytes[i], 13 + i), 1);
    }
    pasts_of(32767, 9);
    assert_int_equal(pasts_of(32767, 19), 0);
    shares->slow_ns = UINT64_MAX;
    assert_int_equal(pasts_of(LONG, 20), 0);
}

static void from_the_second_on(void **state)
{
    uint64_t before;

    (void)state;
    broadcast(SHORT, 1);
    before = shared();
    for (unsigned i = 0; i < 20; i++)
        broadcast(SHORT, i);
    assert_int_equal(shared() - before, 20 * PEERS);
    assert_int_equal(hosted_stats(&root).sent_bytes, 21u * PEERS * SHORT);
}

static void the_longest(void **state)
{
    (void)state;
    broadcast(MOST, 1);
    broadcast(MOST, 2);
    assert_in_range(shared(), 2 * PEERS - 1, 2 * PEERS);
}

/* The report of paths says so, and from which length on. */
static void reported(void **state)
{
    static struct nigh_query_path rows[32];
    uint64_t bytes = sizeof(rows);
    unsigned found = 0;

    (void)state;
    rows[0].size = sizeof(rows[0]);
    assert_int_equal(hosted_ops->query(root.context, to[0], NIGH_QUERY_PATHS, rows, &bytes), 0);
    for (uint64_t i = 0; i < bytes / sizeof(rows[0]); i++)
        found += strcmp(rows[i].path, "heap") == 0 && rows[i].bytes_from == 16385 &&
                 strstr(rows[i].reason, "several peers") != NULL;
    assert_int_equal(found, 1);
}

/* The first is still being sent when the second is posted, so that one can be copied, and the third. Where it would go
 * in chunks the first is copied, too. */
static void behind_one_that_waits(void **state)
{
    unsigned first = hosted_may_read(&root) ? 0 : 1;

    (void)state;
    fill(out, LONG, 3);
    post(0, 1, out, LONG, 0);
    assert_int_equal(shared(), first);
    post(1, 1, out, LONG, 0);
    post(0, 2, out, LONG, 0);
    assert_int_equal(shared(), first + 2);
    take(1, 1, in[1], LONG, 3);
    take(0, 1, in[0], LONG, 3);
    take(0, 2, in[0] + BLOCK, LONG, 3);
}

static void changed_when_one_is_complete(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        broadcast(LONG, i);
    for (unsigned i = 0; i < 6; i++) {
        unsigned p = i % PEERS;

        forget();
        fill(out, LONG, 50 + i);
        post(p, 1, out, LONG, 0);
        take(p, 1, in[p], LONG, 50 + i);
        sent(p, 1);
    }
}

static void alone_again(void **state)
{
    uint64_t before;

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        broadcast(SHORT, i);
    before = shared();
    for (unsigned i = 0; i < 20; i++) {
        forget();
        fill(out, SHORT, i);
        post(0, 1, out, SHORT, 0);
        take(0, 1, in[0], SHORT, i);
        sent(0, 1);
        answer(0);
    }
    assert_in_range(shared() - before, 0, 2);
    /* And it is learnt anew. */
    for (unsigned i = 0; i < 12; i++)
        broadcast(SHORT, i);
    before = shared();
    broadcast(SHORT, 99);
    assert_int_equal(shared() - before, PEERS);
}

/* As in an alltoall behind broadcasts of that length: each peer gets something else, and all of it is posted before any
 * of it is read. */
static void each_alone_behind_several(void **state)
{
    uint64_t before;

    (void)state;
    if (!hosted_may_read(&root)) {
        print_message("# skipped: process_vm_readv is not allowed here\n");
        skip();
    }
    for (unsigned i = 0; i < 5; i++)
        broadcast(LONG, i);
    forget();
    before = shared();
    for (unsigned i = 0; i < 8; i++) {
        fill(out + i * BLOCK, LONG, i);
        post(i % PEERS, 1 + i, out + i * BLOCK, LONG, 0);
    }
    assert_int_equal(shared() - before, 2);
    for (unsigned i = 0; i < 8; i++)
        take(i % PEERS, 1 + i, in[i % PEERS], LONG, i);
    for (unsigned i = 0; i < 8; i++)
        sent(i % PEERS, 1 + i);
    broadcast(LONG, 98);
    before = shared();
    broadcast(LONG, 99);
    assert_int_equal(shared() - before, PEERS);
}

/* As in a gather: nobody answers, so a shuttle takes the first only, and the others would go in chunks. */
static void without_an_answer(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        forget();
        fill(out, SHORT, i);
        post(0, 1, out, SHORT, 0);
        take(0, 1, in[0], SHORT, i);
        sent(0, 1);
        assert_int_equal(shared(), i);
    }
}

static void complete_when_matched(void **state)
{
    (void)state;
    broadcast(SHORT, 1);
    broadcast(SHORT, 1);
    fill(out, SHORT, 2);
    post(0, 1, out, SHORT, NIGH_SYNC);
    post(1, 1, out, SHORT, NIGH_SYNC);
    turns(3000);
    assert_null(hosted_find(&root, NIGH_OP_SEND, 1));
    assert_null(hosted_find(&root, NIGH_OP_SEND, 101));
    take(1, 1, in[1], SHORT, 2);
    sent(1, 1);
    assert_null(hosted_find(&root, NIGH_OP_SEND, 1));
    take(0, 1, in[0], SHORT, 2);
    sent(0, 1);
}

static void cut_for_one(void **state)
{
    (void)state;
    broadcast(SHORT, 1);
    broadcast(SHORT, 1);
    fill(out, SHORT, 2);
    assert_int_equal(hosted_recv(&peer[0], back[0], 1, 1, in[0], 1000, 0), 0);
    post(0, 1, out, SHORT, 0);
    post(1, 1, out, SHORT, 0);
    assert_int_equal(until(&peer[0], NIGH_OP_RECV, 1)->status, -EMSGSIZE);
    check(in[0], 1000, 2);
    take(1, 1, in[1], SHORT, 2);
    sent(0, 1);
    sent(1, 1);
}

/* One of two is given up: the other one gets all of it, and what is copied next does not disturb that. */
static void one_is_left(void **state)
{
    (void)state;
    broadcast(LONG, 1);
    broadcast(LONG, 1);
    fill(out, LONG, 2);
    assert_int_equal(hosted_recv(&peer[1], back[1], 1, 1, in[1], LONG, 0), 0);
    post(0, 1, out, LONG, 0);
    post(1, 1, out, LONG, 0);
    assert_int_equal(hosted_ops->disconnect(to[1]), 0);
    assert_int_equal(until(&root, NIGH_OP_SEND, 101)->status, -ECANCELED);
    fill(out + BLOCK, LONG, 3);
    post(0, 2, out + BLOCK, LONG, 0);
    post(0, 3, out + BLOCK, LONG, 0);
    assert_int_equal(until(&peer[1], NIGH_OP_RECV, 1)->status, -ECONNRESET);
    take(0, 1, in[0], LONG, 2);
    take(0, 2, in[0], LONG, 3);
    take(0, 3, in[0], LONG, 3);
    sent(0, 1);
}

/* The copy of those that were all given up is the next one's. */
static void all_are_left(void **state)
{
    (void)state;
    broadcast(HALF, 1);
    broadcast(HALF, 1);
    for (unsigned i = 0; i < 4; i++)
        post(1, 1 + i, out + (uint64_t)(i / 2) * HALF, HALF, 0);
    assert_int_equal(hosted_ops->disconnect(to[1]), 0);
    turns(100);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t before = shared();

        fill(out + (uint64_t)i * HALF, HALF, i);
        post(0, 1 + i, out + (uint64_t)i * HALF, HALF, 0);
        post(0, 11 + i, out + (uint64_t)i * HALF, HALF, 0);
        assert_int_equal(shared() - before, 2);
    }
    take(0, 1, in[0], HALF, 0);
    take(0, 11, in[0], HALF, 0);
    take(0, 2, in[0], HALF, 1);
    take(0, 12, in[0], HALF, 1);
}

/* More than there may be of them goes as it would have, and all of it arrives. The program's heap is not touched. */
static void within_bounds(void **state)
{
    uint64_t heap = hosted_facts(&root).heap_bytes, before, most;
    void *all;

    (void)state;
    broadcast(BLOCK, 1);
    broadcast(BLOCK, 1);
    most = hosted_facts(&root).shared_committed - BLOCK + SHARES;
    before = shared();
    for (unsigned i = 0; i < 6; i++) {
        fill(out + (uint64_t)i * BLOCK, BLOCK, i);
        post(0, 1 + i, out + (uint64_t)i * BLOCK, BLOCK, 0);
        post(1, 1 + i, out + (uint64_t)i * BLOCK, BLOCK, 0);
    }
    assert_int_equal(shared() - before, 2 * SHARES / BLOCK);
    /* The others go in chunks where they cannot be read, and those are memory as well. */
    if (hosted_may_read(&root))
        assert_in_range(hosted_facts(&root).shared_committed, 0, most + NIGH_SHUTTLES_BYTES);
    assert_int_equal(hosted_facts(&root).heap_used, 0);
    assert_int_equal(hosted_ops->heap_alloc(root.context, heap, &all), 0);
    assert_int_equal(hosted_facts(&root).heap_used, heap);
    memset(all, 0xee, heap);
    for (unsigned i = 0; i < 6; i++)
        for (unsigned p = 0; p < PEERS; p++)
            take(p, 1 + i, in[p], BLOCK, i);
    assert_int_equal(hosted_ops->heap_free(root.context, all), 0);
}

/* More buffers at a time than are watched. */
static void of_many_buffers(void **state)
{
    (void)state;
    broadcast(SHORT, 1);
    for (unsigned i = 0; i < MANY; i++)
        fill(out + (uint64_t)i * BLOCK, SHORT, i);
    for (unsigned p = 0; p < PEERS; p++)
        for (unsigned i = 0; i < MANY; i++)
            post(p, 1 + i, out + (uint64_t)i * BLOCK, SHORT, 0);
    for (unsigned i = 0; i < MANY; i++)
        for (unsigned p = 0; p < PEERS; p++)
            take(p, 1 + i, in[p], SHORT, i);
    for (unsigned i = 0; i < MANY; i++)
        for (unsigned p = 0; p < PEERS; p++)
            sent(p, 1 + i);
}

static void not_these(void **state)
{
    uint64_t bytes[] = {16384, MOST + 1};
    void *block;

    (void)state;
    for (unsigned i = 0; i < 2; i++)
        for (unsigned round = 0; round < 4; round++)
            broadcast(bytes[i], round);
    assert_int_equal(shared(), 0);
    /* What lies in the heap is read there. */
    assert_int_equal(hosted_ops->heap_alloc(root.context, LONG, &block), 0);
    for (unsigned round = 0; round < 3; round++) {
        forget();
        fill(block, LONG, round);
        for (unsigned p = 0; p < PEERS; p++)
            post(p, 1, block, LONG, 0);
        assert_int_equal(hosted_ops->heap_free(root.context, block), -EBUSY);
        for (unsigned p = 0; p < PEERS; p++)
            take(p, 1, in[p], LONG, round);
        for (unsigned p = 0; p < PEERS; p++)
            sent(p, 1);
    }
    assert_int_equal(hosted_ops->heap_free(root.context, block), 0);
}

static void closed_meanwhile(void **state)
{
    (void)state;
    broadcast(LONG, 1);
    broadcast(LONG, 1);
    fill(out, LONG, 2);
    post(0, 1, out, LONG, 0);
    post(1, 1, out, LONG, 0);
    hosted_close(&peer[1]);
    assert_int_equal(until(&root, NIGH_OP_SEND, 101)->status, -ECONNRESET);
    take(0, 1, in[0], LONG, 2);
    sent(0, 1);
    post(0, 2, out, LONG, 0);
    hosted_close(&root);
    assert_int_equal(hosted_recv(&peer[0], back[0], 2, 2, in[0], LONG, 0), 0);
    assert_int_equal(until(&peer[0], NIGH_OP_RECV, 2)->status, -ECONNRESET);
}

/* The root does not hear of it. In chunks it has to take part. */
static void by_itself(unsigned p)
{
    if (hosted_may_read(&root))
        hosted_poll(&peer[p]);
    else
        turns(1);
}

/* No completion tells the host that a silent one has ended: it may hear of it from the receiver,
 * before we do, and write there. */
static void silent_ones(void **state)
{
    (void)state;
    broadcast(LONG, 1);
    broadcast(LONG, 1);
    forget();
    fill(out, LONG, 2);
    for (unsigned p = 0; p < PEERS; p++)
        post(p, 1, out, LONG, NIGH_SILENT);
    for (unsigned p = 0; p < PEERS; p++) {
        assert_int_equal(hosted_recv(&peer[p], back[p], 1, 1, in[p], LONG, 0), 0);
        while (!hosted_find(&peer[p], NIGH_OP_RECV, 1))
            by_itself(p);
        check(in[p], LONG, 2);
    }
    forget();
    fill(out, LONG, 7);
    post(0, 5, out, LONG, 0);
    take(0, 5, in[0], LONG, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_slow_pages_in_a_row),
        cmocka_unit_test_setup_teardown(slow_places_are_written_past_the_cache, start, stop),
        cmocka_unit_test_setup_teardown(from_the_second_on, start, stop),
        cmocka_unit_test_setup_teardown(the_longest, start, stop),
        cmocka_unit_test_setup_teardown(reported, start, stop),
        cmocka_unit_test_setup_teardown(behind_one_that_waits, start, stop),
        cmocka_unit_test_setup_teardown(changed_when_one_is_complete, start, stop),
        cmocka_unit_test_setup_teardown(alone_again, start, stop),
        cmocka_unit_test_setup_teardown(each_alone_behind_several, start, stop),
        cmocka_unit_test_setup_teardown(without_an_answer, start, stop),
        cmocka_unit_test_setup_teardown(complete_when_matched, start, stop),
        cmocka_unit_test_setup_teardown(cut_for_one, start, stop),
        cmocka_unit_test_setup_teardown(one_is_left, start, stop),
        cmocka_unit_test_setup_teardown(all_are_left, start, stop),
        cmocka_unit_test_setup_teardown(within_bounds, start, stop),
        cmocka_unit_test_setup_teardown(of_many_buffers, start, stop),
        cmocka_unit_test_setup_teardown(silent_ones, start, stop),
        cmocka_unit_test_setup_teardown(not_these, start, stop),
        cmocka_unit_test_setup_teardown(closed_meanwhile, start, stop),
    };

    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}

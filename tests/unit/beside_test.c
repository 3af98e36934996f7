/* SPDX-License-Identifier: BSD-3-Clause */
/* Where each side has a CPU, both copy half of a long message, straight from one process to the other. Sender and
 * receiver are one thread here: who is at work is who is polled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "shm/os.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    KIB = 1024,
    FROM = 96 * KIB,
    MOST = 3 * 1024 * KIB + 5,
    SOME = 7,
    EACH = 256 * KIB,
    ALL = SOME * EACH
};

static struct nigh_os saved;
static struct hosted a, b;
static struct nigh_endpoint *to, *from;
static uint8_t out[MOST], in[MOST], back[MOST];

static unsigned reads, writes;
static uint64_t read_bytes, written_bytes;
static int failure;                                    /* of each write; 0: none */
static bool recycled;                                  /* the receiver's number is another process' */
static void (*in_write)(void), (*in_first_read)(void); /* called in the first one */

static ssize_t staged_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                            const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    (void)pid, (void)locals, (void)remotes, (void)flags;
    memcpy(local->iov_base, remote->iov_base, local->iov_len);
    if (local->iov_len == 8) { /* a probe */
        if (recycled)
            memset(local->iov_base, 0xee, local->iov_len);
        return (ssize_t)local->iov_len;
    }
    read_bytes += local->iov_len;
    if (reads++ == 0 && in_first_read)
        in_first_read();
    return (ssize_t)local->iov_len;
}

static ssize_t staged_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                             const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    (void)pid, (void)locals, (void)remotes, (void)flags;
    if (writes++ == 0 && in_write)
        in_write();
    if (failure) {
        errno = failure;
        return -1;
    }
    memcpy(remote->iov_base, local->iov_base, local->iov_len);
    written_bytes += local->iov_len;
    return (ssize_t)local->iov_len;
}

/* As if each had its own. */
static int staged_getcpu(void)
{
    static int cpu;

    return cpu++;
}

/* ---- the two sides ----------------------------------------------------------------------------------------- */

/* Whatever this machine has. */
static void set_apart(struct hosted *hosted)
{
    hosted->context->config.beside_from = hosted->context->config.beside_row_from = FROM;
    hosted->context->crowd.full = false;
    nigh_context_settle(hosted->context);
}

static int start_as(uint32_t flags)
{
    alarm(300);
    saved = nigh_os;
    nigh_os.process_vm_readv = staged_readv;
    nigh_os.process_vm_writev = staged_writev;
    nigh_os.sched_getcpu = staged_getcpu;
    reads = writes = 0;
    read_bytes = written_bytes = 0;
    failure = 0;
    recycled = false;
    in_write = in_first_read = NULL;
    memset(in, 0, sizeof(in));
    for (unsigned i = 0; i < MOST; i++)
        out[i] = (uint8_t)(i * 7 + i / 4096);
    to = hosted_open_pair(&a, &b, flags);
    from = hosted_connect(&b, 0);
    /* Both have found out by then that they may read each other. */
    assert_int_equal(hosted_recv(&a, to, 90, 90, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(from, 90, 90, NULL, 0, NIGH_SILENT), 0);
    hosted_until(&a, &b, NIGH_OP_RECV, 90);
    assert_int_equal(hosted_recv(&b, from, 91, 91, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(to, 91, 91, NULL, 0, NIGH_SILENT), 0);
    hosted_until(&b, &a, NIGH_OP_RECV, 91);
    set_apart(&a);
    set_apart(&b);
    return 0;
}

static int start(void **state)
{
    (void)state;
    return start_as(0);
}

static int start_threads(void **state)
{
    (void)state;
    return start_as(NIGH_OPEN_THREADS);
}

static int stop(void **state)
{
    (void)state;
    hosted_close_pair(&a, &b);
    nigh_os = saved;
    return 0;
}

static void post(uint64_t bytes)
{
    a.count = b.count = 0;
    assert_int_equal(hosted_recv(&b, from, 0, 0, in, bytes, 0), 0);
    assert_int_equal(hosted_send(to, 0, 0, out, bytes, 0), 0);
}

/* A row of them, one behind the other in one buffer. */
static void post_some(void)
{
    a.count = b.count = 0;
    for (unsigned i = 0; i < SOME; i++)
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * EACH, EACH, 0), 0);
    for (unsigned i = 0; i < SOME; i++)
        assert_int_equal(hosted_send(to, i, i, out + i * EACH, EACH, 0), 0);
}

static void polls(struct hosted *hosted, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        hosted_poll(hosted);
}

static void ends_well(unsigned count, uint64_t bytes)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, 0);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, 0);
    }
    assert_memory_equal(in, out, bytes);
}

/* ---- each its part ----------------------------------------------------------------------------------------- */

/* Each byte is copied once, and both had something to do. */
static void test_halves(void **state)
{
    static const uint64_t sizes[] = {FROM,          FROM + 1,       128 * KIB - 1, 128 * KIB,
                                     256 * KIB,     300 * KIB,      511 * KIB,     512 * KIB,
                                     512 * KIB + 1, 1024 * KIB - 1, MOST - 1,      MOST};

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        reads = writes = 0;
        read_bytes = written_bytes = 0;
        memset(in, 0, sizeof(in));
        post(sizes[i]);
        polls(&b, 1);
        polls(&a, 2);
        assert_true(reads && writes);
        ends_well(1, sizes[i]);
        assert_int_equal(read_bytes + written_bytes, sizes[i]);
    }
}

static void test_shorter(void **state)
{
    (void)state;
    post(FROM - 1);
    ends_well(1, FROM - 1);
    assert_int_equal(reads + writes, 0);
}

/* A receive that is shorter than its message: nothing behind its end is written. */
static void test_cut(void **state)
{
    enum { ROOM = 150 * KIB - 3 };

    (void)state;
    memset(in, 0xaa, sizeof(in));
    assert_int_equal(hosted_recv(&b, from, 0, 0, in, ROOM, 0), 0);
    assert_int_equal(hosted_send(to, 0, 0, out, EACH, 0), 0);
    polls(&b, 1);
    polls(&a, 2);
    assert_true(reads && writes);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 0)->status, -EMSGSIZE);
    assert_memory_equal(in, out, ROOM);
    for (unsigned i = ROOM; i < EACH; i++)
        assert_int_equal(in[i], 0xaa);
}

/* The receiver has its turn for one slice, of the oldest: then the sender goes on with all that it was asked for. */
static void test_sender_goes_on(void **state)
{
    (void)state;
    post_some();
    polls(&b, 1);
    assert_int_equal(reads, 1);
    polls(&a, 50);
    assert_int_equal(writes, 2 * NIGH_OFFERS - 1);
    ends_well(SOME, ALL);
    assert_int_equal(read_bytes + written_bytes, ALL);
}

/* Where the sender computes the receiver does it all. */
static void test_receiver_alone(void **state)
{
    (void)state;
    post_some();
    polls(&b, 100);
    for (unsigned i = 0; i < SOME; i++)
        assert_non_null(hosted_find(&b, NIGH_OP_RECV, i));
    assert_int_equal(writes, 0);
    assert_int_equal(read_bytes, ALL);
    ends_well(SOME, ALL);
}

/* In turn, by which all numbers come by, also those at the end of 32 bits: 0 is none. */
static void test_numbers(void **state)
{
    (void)state;
    from->offers = UINT32_MAX - SOME;
    for (unsigned i = 0; i < 3; i++) {
        memset(in, 0, sizeof(in));
        writes = 0;
        post_some();
        for (unsigned turn = 0; turn < 2 * SOME; turn++) {
            polls(&b, 1);
            polls(&a, 2); /* in the pass that hears of them there is something else to do */
        }
        assert_true(writes >= SOME - 1);
        ends_well(SOME, ALL);
    }
    assert_int_equal(from->offers, 2 * SOME);
    for (unsigned i = 0; i < NIGH_OFFERS; i++)
        assert_null(from->offered[i]);
    assert_null(a.context->asked);
}

/* Who sends such messages itself copies beside the other one anyway. */
static void swap(uint64_t bytes)
{
    reads = writes = 0;
    read_bytes = 0;
    a.count = b.count = 0;
    memset(in, 0, sizeof(in));
    memset(back, 0, sizeof(back));
    assert_int_equal(hosted_recv(&b, from, 0, 0, in, bytes, 0), 0);
    assert_int_equal(hosted_recv(&a, to, 5, 5, back, bytes, 0), 0);
    assert_int_equal(hosted_send(to, 0, 0, out, bytes, 0), 0);
    assert_int_equal(hosted_send(from, 5, 5, out, bytes, 0), 0);
    ends_well(1, bytes);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_RECV, 5)->status, 0);
    assert_memory_equal(back, out, bytes);
    assert_int_equal(writes, 0);
}

static void test_both_ways(void **state)
{
    (void)state;
    swap(MOST);
    assert_int_equal(read_bytes, 2 * MOST);
}

/* What has room in a shuttle goes there. */
static void test_both_ways_in_shuttles(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        swap(EACH);
        assert_int_equal(reads, 0);
    }
}

/* Shorter ones are copied so if they follow others. */
static void test_in_a_row(void **state)
{
    (void)state;
    a.context->config.beside_from = EACH + 1;
    a.context->config.beside_row_from = EACH;
    for (unsigned i = 0; i < 3; i++) {
        reads = 0;
        post(EACH);
        ends_well(1, EACH);
        assert_int_equal(reads, 0);
    }
    read_bytes = written_bytes = 0;
    post_some();
    ends_well(SOME, ALL);
    assert_int_equal(read_bytes + written_bytes, ALL - EACH);
}

/* ---- who does not ------------------------------------------------------------------------------------------ */

static void goes_in_pieces(void)
{
    reads = writes = 0;
    post(EACH);
    polls(&b, 2);
    polls(&a, 2);
    ends_well(1, EACH);
    assert_int_equal(reads + writes, 0);
}

static void test_threads(void **state)
{
    (void)state;
    goes_in_pieces();
}

/* What we may not read we may not write. */
static void test_not_both_ways(void **state)
{
    (void)state;
    nigh_plan_reading(to, -EPERM);
    goes_in_pieces();
    nigh_plan_reading(to, 0);
    post(EACH);
    ends_well(1, EACH);
    assert_true(reads);
}

/* The receiver copies what was put back, and the next ones go in pieces. */
static void test_not_allowed(void **state)
{
    (void)state;
    failure = EPERM;
    post(EACH);
    polls(&b, 1);
    polls(&a, 2);
    assert_int_equal(writes, 1);
    ends_well(1, EACH);
    assert_int_equal(read_bytes, EACH);
    goes_in_pieces();
}

/* Nothing is written into a process that is not the receiver any more; it is looked anew after a while. */
static void test_recycled(void **state)
{
    (void)state;
    post(EACH);
    polls(&b, 1);
    polls(&a, 2);
    assert_int_equal(writes, 1);
    ends_well(1, EACH);
    usleep(1000);
    recycled = true;
    post(EACH);
    polls(&b, 1);
    polls(&a, 2);
    assert_int_equal(writes, 1);
    recycled = false;
    ends_well(1, EACH);
}

/* ---- the end of one side ----------------------------------------------------------------------------------- */

static void receiver_leaves(void)
{
    assert_int_equal(hosted_ops->disconnect(from), 0);
    hosted_turns(&b, NULL, 2000);
    assert_null(hosted_find(&b, NIGH_OP_RECV, 0));
    assert_non_null(hosted_find(&b, NIGH_OP_RECV, SOME - 1));
}

/* Of several that the sender was asked for it is in the first: that buffer alone is not the host's yet, and nothing is
 * written to the others. */
static void test_receiver_leaves(void **state)
{
    (void)state;
    in_write = receiver_leaves;
    post_some();
    polls(&b, 1);
    polls(&a, 20);
    assert_int_equal(writes, 1);
    for (unsigned i = 0; i < SOME; i++) {
        assert_int_equal(hosted_until(&b, NULL, NIGH_OP_RECV, i)->status, -ECANCELED);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, -ECONNRESET);
    }
}

static void test_sender_leaves(void **state)
{
    (void)state;
    post_some();
    polls(&b, 1);
    polls(&a, 1);
    assert_int_equal(writes, 0); /* in the pass that hears of them there is something else to do */
    assert_non_null(a.context->asked);
    assert_int_equal(hosted_ops->disconnect(to), 0);
    assert_null(a.context->asked);
    for (unsigned i = 0; i < SOME; i++) {
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, -ECANCELED);
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, -ECONNRESET);
    }
    assert_int_equal(writes, 0);
}

#define TEST(name)         cmocka_unit_test_setup_teardown(test_##name, start, stop)
#define TEST_THREADS(name) cmocka_unit_test_setup_teardown(test_##name, start_threads, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(halves),         TEST(shorter),         TEST(cut),           TEST(sender_goes_on),
        TEST(receiver_alone), TEST(numbers),         TEST(both_ways),     TEST(both_ways_in_shuttles),
        TEST(in_a_row),       TEST_THREADS(threads), TEST(not_both_ways), TEST(not_allowed),
        TEST(recycled),       TEST(receiver_leaves), TEST(sender_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

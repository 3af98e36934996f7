/* SPDX-License-Identifier: BSD-3-Clause */
/* A sender that only waits copies slices of what its receiver reads out of it, where ranks outnumber CPUs. When it
 * stands still in a slice, and what happens meanwhile, is staged in the call that writes memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "plugin/progress.h"
#include "shm/os.h"
#include "tests/support/cpus.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLICE = 256 << 10, BYTES = 1 << 20, NONE = 1000, SMALL = 500 /* more than a ring has room for */ };

static struct nigh_os saved;
static struct hosted a, b;
static struct nigh_endpoint *to, *from;
static uint8_t out[2][BYTES], in[2][BYTES];
static cpu_set_t allowed;

/* ---- the staging
 * --------------------------------------------------------------------------------------------------- */

static unsigned writes; /* slices that were begun to be written */
static unsigned reads;
static uint64_t read_bytes, written_bytes;
static unsigned fails;         /* the write that fails, */
static int failure;            /* and with what */
static bool recycled;          /* the receiver's number is another process' */
static int cpu;                /* of who asks next */
static bool beside;            /* of all */
static void (*in_first)(void); /* called in the first write, before it copies */
static void (*in_read)(void);  /* and in each read */

static ssize_t staged_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                            const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    (void)pid, (void)locals, (void)remotes, (void)flags;
    memcpy(local->iov_base, remote->iov_base, local->iov_len);
    if (local->iov_len <= 8) { /* a probe */
        if (recycled)
            memset(local->iov_base, 0xee, local->iov_len);
    } else {
        reads++;
        read_bytes += local->iov_len;
        if (in_read)
            in_read();
    }
    return (ssize_t)local->iov_len;
}

static ssize_t staged_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                             const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    unsigned write = writes++;

    (void)locals, (void)remotes, (void)flags;
    assert_int_equal(pid, getpid());
    assert_int_equal(local->iov_len, remote->iov_len);
    if (write == 0 && in_first)
        in_first();
    if (write == fails) {
        errno = failure;
        return -1;
    }
    memcpy(remote->iov_base, local->iov_base, local->iov_len);
    written_bytes += local->iov_len;
    return (ssize_t)local->iov_len;
}

/* Sender and receiver are one thread, but may be told that they are apart. */
static int staged_getcpu(void)
{
    return beside ? 0 : cpu++;
}

/* ---- the two sides
 * ------------------------------------------------------------------------------------------------- */

static int start_as(uint32_t flags)
{
    alarm(300);
    saved = nigh_os;
    nigh_os.process_vm_readv = staged_readv;
    nigh_os.process_vm_writev = staged_writev;
    nigh_os.sched_getcpu = staged_getcpu;
    cpu = 1;
    beside = false;
    writes = reads = 0;
    read_bytes = written_bytes = 0;
    fails = NONE;
    recycled = false;
    in_first = in_read = NULL;
    memset(in, 0, sizeof(in));
    for (unsigned i = 0; i < BYTES; i++) {
        out[0][i] = (uint8_t)(i * 7 + i / 4096);
        out[1][i] = (uint8_t)(i * 5 + i / 4096);
    }
    /* Two contexts on one CPU are a crowd. */
    assert_int_equal(cpus_one(&allowed), 0);
    to = hosted_open_pair(&a, &b, flags);
    from = hosted_connect(&b, 0);
    hosted_meet(&a, to, &b, from);
    assert_int_equal(hosted_facts(&b).crowded, 1);
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
    return cpus_all(&allowed);
}

static void post_one(unsigned message, uint64_t bytes)
{
    assert_int_equal(hosted_recv(&b, from, message, message, in[message], bytes, 0), 0);
    assert_int_equal(hosted_send(to, message, message, out[message], bytes, 0), 0);
}

/* The first is what the receiver begins with, the second what the sender is asked to help with. */
static void post_two(void)
{
    post_one(0, BYTES);
    post_one(1, BYTES);
}

/* The sender is asked, and then helps until there is nothing more to be written, in passes that find nothing else: on a
 * busy machine its service thread may be late, and what it has to say is something else. */
static void help(void)
{
    hosted_poll(&b);
    for (unsigned i = 0; i < 20; i++)
        hosted_poll(&a);
}

static void ends_well(unsigned message, uint64_t bytes)
{
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, message)->status, 0);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, message)->status, 0);
    assert_memory_equal(in[message], out[message], bytes);
}

/* ---- two copy
 * ------------------------------------------------------------------------------------------------------ */

/* Of two messages: each byte of both is copied once, and there was something for both to do. */
static void test_both_copy(void **state)
{
    (void)state;
    post_two();
    help();
    assert_int_equal(writes, 2);
    assert_int_equal(written_bytes, 2 * SLICE);
    ends_well(0, BYTES);
    ends_well(1, BYTES);
    assert_int_equal(read_bytes + written_bytes, 2 * BYTES);
}

/* What is a whole number of slices, and what is not. */
static void test_sizes(void **state)
{
    static const uint64_t sizes[] = {2 * SLICE + 1, 3 * SLICE - 1, 3 * SLICE, 3 * SLICE + 1, BYTES - 1};

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        writes = 0;
        a.count = b.count = 0;
        memset(in, 0, sizeof(in));
        post_one(0, BYTES);
        post_one(1, sizes[i]);
        help();
        assert_true(writes > 0);
        ends_well(0, BYTES);
        ends_well(1, sizes[i]);
    }
}

static void poll_sender(void)
{
    in_read = NULL;
    for (unsigned i = 0; i < 20; i++)
        hosted_poll(&a);
}

/* Those that are too short for two whole slices have two halves, and what is shorter still has none. All of them are
 * copied in the pass that finds them, so the sender has its turn in that. */
static void test_short_ones(void **state)
{
    static const uint64_t sizes[] = {SLICE, SLICE + 1, SLICE * 3 / 2, 2 * SLICE - 1};

    (void)state;
    a.context->config.place_from = SLICE / 2;
    a.context->config.eager_bytes = SLICE / 4;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        writes = 0;
        read_bytes = written_bytes = 0;
        a.count = b.count = 0;
        memset(in, 0, sizeof(in));
        in_read = poll_sender;
        post_one(0, BYTES);
        post_one(1, sizes[i]);
        help();
        assert_int_equal(writes, 2);
        ends_well(0, BYTES);
        ends_well(1, sizes[i]);
        assert_int_equal(read_bytes + written_bytes, BYTES + sizes[i]);
    }
    writes = 0;
    a.count = b.count = 0;
    in_read = poll_sender;
    post_one(0, BYTES);
    post_one(1, SLICE - 1);
    help();
    ends_well(0, BYTES);
    ends_well(1, SLICE - 1);
    assert_int_equal(writes, 0);
}

/* A receive that is shorter than its message: nothing behind its end is written. */
static void test_cut(void **state)
{
    (void)state;
    memset(in, 0xaa, sizeof(in));
    assert_int_equal(hosted_recv(&b, from, 0, 0, in[0], BYTES, 0), 0);
    assert_int_equal(hosted_recv(&b, from, 1, 1, in[1], 3 * SLICE - 5, 0), 0);
    assert_int_equal(hosted_send(to, 0, 0, out[0], BYTES, 0), 0);
    assert_int_equal(hosted_send(to, 1, 1, out[1], BYTES, 0), 0);
    help();
    assert_true(writes > 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 1)->status, -EMSGSIZE);
    assert_memory_equal(in[1], out[1], 3 * SLICE - 5);
    for (unsigned i = 3 * SLICE - 5; i < BYTES; i++)
        assert_int_equal(in[1][i], 0xaa);
    ends_well(0, BYTES);
}

/* ---- who is not asked
 * ----------------------------------------------------------------------------------------------- */

static void test_alone(void **state)
{
    (void)state;
    post_one(0, BYTES);
    help();
    ends_well(0, BYTES);
    assert_int_equal(writes, 0);
    assert_int_equal(reads, 2); /* its sender may yet be asked */
}

/* Who sends such messages itself has CPUs that copy beside it, and reads each in one go if its CPU is one of those. */
static void test_who_sends(void **state)
{
    (void)state;
    b.context->config.place_from = SLICE;
    assert_int_equal(hosted_send(from, 5, 5, out[0], BYTES, 0), 0);
    post_two();
    help();
    ends_well(0, BYTES);
    ends_well(1, BYTES);
    assert_int_equal(writes, 0);
    assert_int_equal(reads, 2);
    assert_int_equal(hosted_recv(&a, to, 5, 5, in[0], BYTES, 0), 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_SEND, 5)->status, 0);
    post_two();
    help();
    assert_true(writes > 0);
}

static void test_who_sends_elsewhere(void **state)
{
    (void)state;
    b.context->config.place_from = BYTES;
    assert_int_equal(hosted_send(from, 5, 5, out[0], BYTES, 0), 0);
    post_one(0, BYTES);
    ends_well(0, BYTES);
    assert_int_equal(reads, 2);
}

static void drain_at_last(void)
{
    for (unsigned i = 0; i < 10 && read_bytes == 2 * BYTES; i++)
        hosted_poll(&a);
}

/* The ring is full when the sender would be asked, and has room again when the messages end: FINISH
 * goes ahead of what waits. */
static void test_no_room(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SMALL; i++)
        assert_int_equal(hosted_recv(&a, to, 100 + i, 70, NULL, 0, 0), 0);
    for (unsigned i = 0; i < SMALL; i++)
        assert_int_equal(hosted_send(from, 70, 70, NULL, 0, NIGH_SILENT), 0);
    post_two();
    in_read = drain_at_last;
    for (unsigned i = 0; i < 10; i++)
        hosted_poll(&b);
    assert_non_null(hosted_find(&b, NIGH_OP_RECV, 1));
    in_read = NULL;
    ends_well(0, BYTES);
    ends_well(1, BYTES);
    hosted_until(&a, &b, NIGH_OP_RECV, 100 + SMALL - 1);
    assert_int_equal(hosted_state(&a, to), NIGH_READY);
}

static void test_threads(void **state)
{
    (void)state;
    post_two();
    help();
    ends_well(0, BYTES);
    ends_well(1, BYTES);
    assert_int_equal(writes, 0);
}

/* ---- what cannot be written
 * ------------------------------------------------------------------------------------------ */

/* The receiver copies what has been put back, and the next message is helped with again, unless it is not allowed. */
static void fail_once(int error, unsigned before, unsigned after)
{
    fails = before;
    failure = error;
    post_two();
    help();
    assert_int_equal(writes, before + 1);
    ends_well(0, BYTES);
    ends_well(1, BYTES);
    assert_int_equal(read_bytes + written_bytes, 2 * BYTES);
    a.count = b.count = 0;
    post_two();
    help();
    assert_int_equal(writes, before + 1 + after);
    ends_well(0, BYTES);
    ends_well(1, BYTES);
}

static void test_slice_put_back(void **state)
{
    (void)state;
    fail_once(EFAULT, 0, 2);
}

static void test_second_put_back(void **state)
{
    (void)state;
    fail_once(EFAULT, 1, 2);
}

static void test_not_allowed(void **state)
{
    (void)state;
    fail_once(EPERM, 0, 0);
}

/* Nothing is written into a process that is not the receiver any more. */
static void test_recycled(void **state)
{
    (void)state;
    post_two();
    recycled = true;
    help();
    assert_int_equal(writes, 0);
    recycled = false;
    ends_well(0, BYTES);
    ends_well(1, BYTES);
}

/* ---- it stands still
 * ------------------------------------------------------------------------------------------------- */

/* The receiver takes all but that slice, and the message waits for it; the other one does not. */
static void poll_receiver(void)
{
    for (unsigned i = 0; i < 2000; i++)
        hosted_poll(&b);
    assert_non_null(hosted_find(&b, NIGH_OP_RECV, 0));
    assert_null(hosted_find(&b, NIGH_OP_RECV, 1));
    assert_int_equal(read_bytes, 2 * BYTES - SLICE);
}

static void test_standing(void **state)
{
    (void)state;
    in_first = poll_receiver;
    post_two();
    help();
    assert_int_equal(writes, 1);
    ends_well(0, BYTES);
    ends_well(1, BYTES);
}

static void poll_then_fail(void)
{
    poll_receiver();
    fails = 0;
    failure = EFAULT;
}

static void test_standing_and_put_back(void **state)
{
    (void)state;
    in_first = poll_then_fail;
    post_two();
    help();
    ends_well(0, BYTES);
    ends_well(1, BYTES);
    assert_int_equal(read_bytes, 2 * BYTES);
}

/* It sleeps while it waits for that slice, and is woken by it. */
static void sleep_a_while(void)
{
    poll_receiver();
    b.count = 0;
    while (hosted_stats(&b).sleeps == 0) /* on a busy machine the time may be over before */
        assert_int_equal(hosted_ops->wait(b.context, 30000000), -ETIMEDOUT);
}

static void test_sleeping(void **state)
{
    (void)state;
    in_first = sleep_a_while;
    post_two();
    help();
    assert_int_equal(hosted_ops->wait(b.context, 1000000000), 0);
    ends_well(1, BYTES);
    assert_int_equal(hosted_stats(&b).rescues, 0);
}

static void disconnect(void)
{
    assert_int_equal(hosted_ops->disconnect(from), 0);
    for (unsigned i = 0; i < 2000; i++)
        hosted_poll(&b);
    assert_null(hosted_find(&b, NIGH_OP_RECV, 1));
}

/* The buffer is the host's again only when nobody writes to it. */
static void test_disconnect(void **state)
{
    (void)state;
    in_first = disconnect;
    post_two();
    help();
    assert_int_equal(hosted_until(&b, NULL, NIGH_OP_RECV, 1)->status, -ECANCELED);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 1)->status, -ECONNRESET);
    assert_int_equal(writes, 1);
}

/* Nothing of the second message is written any more, and its sender has sent it. */
static void was_dropped(void)
{
    assert_int_equal(hosted_until(&b, NULL, NIGH_OP_RECV, 1)->status, -ECANCELED);
    memset(in[1], 0x77, BYTES);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 1)->status, 0);
    ends_well(0, BYTES);
    for (unsigned i = 0; i < BYTES; i++)
        assert_int_equal(in[1][i], 0x77);
}

static void cancel(void)
{
    assert_int_equal(hosted_ops->cancel(b.context, 1), 0);
    assert_int_equal(hosted_ops->cancel(b.context, 1), -ENOENT);
    for (unsigned i = 0; i < 2000; i++)
        hosted_poll(&b);
    assert_null(hosted_find(&b, NIGH_OP_RECV, 1));
}

/* The sender is in a slice: the receive completes behind it. */
static void test_cancel(void **state)
{
    (void)state;
    in_first = cancel;
    post_two();
    help();
    assert_int_equal(writes, 1);
    was_dropped();
}

static void cancel_then_fail(void)
{
    cancel();
    fails = 0;
    failure = EFAULT;
}

static void test_cancel_and_put_back(void **state)
{
    (void)state;
    in_first = cancel_then_fail;
    post_two();
    help();
    was_dropped();
}

/* It was asked, and has begun with none. */
static void test_cancel_before_it_helps(void **state)
{
    (void)state;
    post_two();
    hosted_poll(&b);
    assert_int_equal(hosted_ops->cancel(b.context, 1), 0);
    assert_int_equal(hosted_until(&b, NULL, NIGH_OP_RECV, 1)->status, -ECANCELED);
    help();
    assert_int_equal(writes, 0);
    was_dropped();
    a.count = b.count = 0;
    post_two();
    help();
    assert_true(writes > 0);
    ends_well(0, BYTES);
    ends_well(1, BYTES);
}

/* Whichever comes first, the end of the slice, of the receive or of the endpoint. */
static void cancel_and_disconnect(void)
{
    cancel();
    disconnect();
}

static void test_cancel_and_disconnect(void **state)
{
    (void)state;
    in_first = cancel_and_disconnect;
    post_two();
    help();
    assert_int_equal(hosted_until(&b, NULL, NIGH_OP_RECV, 1)->status, -ECANCELED);
    assert_int_equal(writes, 1);
}

/* What the kernel does to the sender's life word when its process ends, before its last system call is over. */
static void mark_sender(void)
{
    __atomic_store_n(&to->pair->life, FUTEX_OWNER_DIED | FUTEX_WAITERS, __ATOMIC_SEQ_CST);
    nigh_progress_sweep(b.context);
    assert_int_equal(hosted_state(&b, from), NIGH_PEER_DEAD);
    for (unsigned i = 0; i < 2000; i++)
        hosted_poll(&b);
}

static void die_in_slice(void)
{
    mark_sender();
    assert_non_null(hosted_find(&b, NIGH_OP_RECV, 0));
    assert_null(hosted_find(&b, NIGH_OP_RECV, 1));
}

/* A sender that dies in a slice may write it to its end: the buffer is the host's when it has, and nothing is written later. */
static void test_dying_in_slice(void **state)
{
    static uint8_t left[BYTES];

    (void)state;
    in_first = die_in_slice;
    post_two();
    help();
    assert_int_equal(hosted_until(&b, NULL, NIGH_OP_RECV, 1)->status, -ECONNRESET);
    assert_int_equal(writes, 1);
    memcpy(left, in[1], BYTES);
    for (unsigned i = 0; i < 100; i++)
        hosted_poll(&a);
    assert_int_equal(writes, 1);
    assert_memory_equal(in[1], left, BYTES);
}

/* What it was asked for it can take no more. */
static void test_dying_before_slice(void **state)
{
    unsigned before;

    (void)state;
    post_two();
    hosted_poll(&b);
    before = reads;
    mark_sender();
    assert_int_equal(reads, before);
    assert_int_equal(hosted_find(&b, NIGH_OP_RECV, 1)->status, -ECONNRESET);
    help();
    assert_int_equal(writes, 0);
}

/* Nothing is written into a process that is about to be another program's. */
static void test_dying_receiver(void **state)
{
    (void)state;
    post_two();
    hosted_poll(&b);
    while (!a.context->asked)
        hosted_poll(&a);
    __atomic_store_n(&from->pair->life, FUTEX_OWNER_DIED | FUTEX_WAITERS, __ATOMIC_SEQ_CST);
    nigh_help_progress(a.context);
    assert_int_equal(writes, 0);
}

static unsigned stands, released, closed;

static unsigned get(unsigned *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void set(unsigned *word)
{
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

static void stand(void)
{
    set(&stands);
    while (!get(&released))
        usleep(100);
}

static void *polls(void *unused)
{
    for (unsigned i = 0; i < 20; i++)
        hosted_poll(&a);
    return unused;
}

static void *closes(void *unused)
{
    hosted_close(&b);
    set(&closed);
    return unused;
}

/* close() waits for a slice that is being written. */
static void test_close(void **state)
{
    pthread_t poller, closer;

    (void)state;
    stands = released = closed = 0;
    in_first = stand;
    post_two();
    hosted_poll(&b);
    assert_int_equal(pthread_create(&poller, NULL, polls, NULL), 0);
    while (!get(&stands))
        usleep(100);
    assert_int_equal(pthread_create(&closer, NULL, closes, NULL), 0);
    usleep(50000);
    assert_int_equal(get(&closed), 0);
    set(&released);
    assert_int_equal(pthread_join(closer, NULL), 0);
    assert_int_equal(pthread_join(poller, NULL), 0);
    assert_int_equal(hosted_until(&a, NULL, NIGH_OP_SEND, 1)->status, -ECONNRESET);
}

#define TEST(name)         cmocka_unit_test_setup_teardown(test_##name, start, stop)
#define TEST_THREADS(name) cmocka_unit_test_setup_teardown(test_##name, start_threads, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_copy),
        TEST(sizes),
        TEST(short_ones),
        TEST(cut),
        TEST(alone),
        TEST(who_sends),
        TEST_THREADS(threads),
        TEST(slice_put_back),
        TEST(second_put_back),
        TEST(not_allowed),
        TEST(recycled),
        TEST(standing),
        TEST(standing_and_put_back),
        TEST(sleeping),
        TEST(disconnect),
        TEST(cancel),
        TEST(cancel_and_put_back),
        TEST(cancel_before_it_helps),
        TEST(cancel_and_disconnect),
        TEST(dying_in_slice),
        TEST(dying_before_slice),
        TEST(dying_receiver),
        TEST(close),
        TEST(no_room),
        TEST(who_sends_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

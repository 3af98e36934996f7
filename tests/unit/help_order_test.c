/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of several messages their receiver copies first, where their senders may help: that depends on the
 * CPUs that these had, which are staged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/os.h"
#include "tests/support/cpus.h"
#include "tests/support/hosted.h"
#include <string.h>
#include <unistd.h>

enum { SLICE = 256 << 10, BYTES = 1 << 20, SENDERS = 2, OURS = 3, ANOTHER = 4 /* CPUs */, MANY = 32 };

static struct nigh_os saved;
static struct hosted receiver, sender[SENDERS];
static struct nigh_endpoint *to[SENDERS], *from[SENDERS];
static uint8_t out[SENDERS][BYTES], more[MANY][BYTES], in[SENDERS][BYTES];
static cpu_set_t allowed;

static int cpu;         /* that is asked for */
static unsigned writes; /* slices that senders have written */
static uint64_t read_bytes;
static const uint8_t *first; /* what the receiver has read first */

static int staged_getcpu(void)
{
    return cpu;
}

static ssize_t staged_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                            const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    (void)pid, (void)locals, (void)remotes, (void)flags;
    memcpy(local->iov_base, remote->iov_base, local->iov_len);
    if (local->iov_len <= 8) /* a probe */
        return (ssize_t)local->iov_len;
    if (!read_bytes)
        first = remote->iov_base;
    read_bytes += local->iov_len;
    return (ssize_t)local->iov_len;
}

static ssize_t staged_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                             const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    (void)pid, (void)locals, (void)remotes, (void)flags;
    memcpy(remote->iov_base, local->iov_base, local->iov_len);
    writes++;
    return (ssize_t)local->iov_len;
}

/* Both have found out by then that they may read each other. */
static void meet(unsigned i)
{
    to[i] = hosted_connect(&sender[i], SENDERS);
    from[i] = hosted_connect(&receiver, i);
    assert_int_equal(hosted_recv(&sender[i], to[i], 90, 90, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(from[i], 90, 90, NULL, 0, NIGH_SILENT), 0);
    hosted_until(&sender[i], &receiver, NIGH_OP_RECV, 90);
    assert_int_equal(hosted_recv(&receiver, from[i], 91 + i, 91, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(to[i], 91, 91, NULL, 0, NIGH_SILENT), 0);
    hosted_until(&receiver, &sender[i], NIGH_OP_RECV, 91 + i);
}

static int start(void **state)
{
    uint64_t job = hosted_job();

    (void)state;
    alarm(300);
    saved = nigh_os;
    nigh_os.process_vm_readv = staged_readv;
    nigh_os.process_vm_writev = staged_writev;
    nigh_os.sched_getcpu = staged_getcpu;
    memset(in, 0, sizeof(in));
    for (unsigned i = 0; i < sizeof(out); i++)
        out[i / BYTES][i % BYTES] = (uint8_t)(i * 7 + i / 4096);
    /* Three contexts on one CPU are a crowd. */
    assert_int_equal(cpus_one(&allowed), 0);
    hosted_open(&receiver, job, SENDERS, 0);
    for (unsigned i = 0; i < SENDERS; i++) {
        hosted_open(&sender[i], job, i, 0);
        meet(i);
    }
    assert_int_equal(hosted_facts(&receiver).crowded, 1);
    cpu = OURS;
    writes = 0;
    read_bytes = 0;
    first = NULL;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close(&receiver);
    for (unsigned i = 0; i < SENDERS; i++)
        hosted_close(&sender[i]);
    nigh_os = saved;
    return cpus_all(&allowed);
}

static void post(unsigned i, int where)
{
    assert_int_equal(hosted_recv(&receiver, from[i], i, i, in[i], BYTES, 0), 0);
    cpu = where;
    assert_int_equal(hosted_send(to[i], i, i, out[i], BYTES, 0), 0);
    cpu = OURS;
}

static void help(void)
{
    for (unsigned i = 0; i < 20; i++) {
        hosted_poll(&sender[0]);
        hosted_poll(&sender[1]);
    }
}

static void end_well(void)
{
    for (unsigned i = 0; i < SENDERS; i++) {
        assert_int_equal(hosted_until(&receiver, &sender[i], NIGH_OP_RECV, i)->status, 0);
        assert_int_equal(hosted_until(&sender[i], &receiver, NIGH_OP_SEND, i)->status, 0);
        assert_memory_equal(in[i], out[i], BYTES);
    }
    assert_int_equal(read_bytes + (uint64_t)writes * SLICE, SENDERS * BYTES);
}

/* Who runs only while the receiver does not is no help. */
static void test_beside(void **state)
{
    (void)state;
    post(0, OURS);
    post(1, OURS);
    hosted_poll(&receiver);
    help();
    assert_int_equal(writes, 0);
    end_well();
}

static void test_unknown(void **state)
{
    (void)state;
    post(0, -1);
    post(1, -1);
    cpu = -1;
    hosted_poll(&receiver);
    help();
    assert_true(writes > 0);
    end_well();
}

/* What nobody else can copy goes first, though it is younger. */
static void test_beside_first(void **state)
{
    (void)state;
    post(0, ANOTHER);
    post(1, OURS);
    hosted_poll(&receiver);
    assert_ptr_equal(first, out[1]);
    help();
    assert_true(writes > 0);
    end_well();
}

/* But not for ever. From buffers of their own: of one that is sent twice there is a copy. */
static void test_passed_at_last(void **state)
{
    unsigned passed = 0;

    (void)state;
    post(0, ANOTHER);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(hosted_recv(&receiver, from[1], 1, 1, in[1], BYTES, 0), 0);
        assert_int_equal(hosted_send(to[1], 1, 1, more[i], BYTES, 0), 0);
    }
    while (!hosted_find(&receiver, NIGH_OP_RECV, 0))
        hosted_poll(&receiver);
    for (unsigned i = 0; i < receiver.count; i++)
        passed += receiver.done[i].context == 1;
    assert_in_range(passed, MANY / 4, MANY - MANY / 4);
    while (receiver.count < MANY + 1)
        hosted_poll(&receiver);
    assert_memory_equal(in[0], out[0], BYTES);
}

/* With one more receive to come: from a rank that may wait for this CPU. What is here its senders copy meanwhile. */
static void test_gives_way(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&receiver, from[0], 5, 5, NULL, 0, 0), 0);
    post(0, ANOTHER);
    post(1, ANOTHER);
    hosted_poll(&receiver);
    assert_int_equal(read_bytes, 0);
    help();
    assert_true(writes > 0);
    end_well();
    assert_null(first);
}

/* If they do not, it does. */
static void test_gives_way_for_a_moment(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&receiver, from[0], 5, 5, NULL, 0, 0), 0);
    post(0, ANOTHER);
    post(1, ANOTHER);
    hosted_turns(&receiver, NULL, 10);
    assert_true(read_bytes > 0);
    end_well();
}

/* Nor does it sleep meanwhile: there is something to be done. */
static void test_no_sleep(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&receiver, from[0], 5, 5, NULL, 0, 0), 0);
    post(0, ANOTHER);
    post(1, ANOTHER);
    while (receiver.count < SENDERS) {
        assert_int_equal(hosted_ops->wait(receiver.context, UINT64_C(10000000000)), 0);
        hosted_poll(&receiver);
    }
    assert_int_equal(hosted_stats(&receiver).rescues, 0);
    end_well();
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(beside),         TEST(unknown),   TEST(beside_first),
        TEST(passed_at_last), TEST(gives_way), TEST(gives_way_for_a_moment),
        TEST(no_sleep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

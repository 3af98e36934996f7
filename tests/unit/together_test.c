/* SPDX-License-Identifier: BSD-3-Clause */
/* Several threads copy one message: who comes helps, who is done last ends it, once, and whatever ends it before its
 * time waits until nobody writes to its buffer any more. Which slice stands still when is staged in the call that reads
 * memory; sched_yield() is the test's own (-Wl,--wrap). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/os.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLICE = 64 * 1024, SLICES = 4, BYTES = SLICES * SLICE, NONE = 1000, THREADS = 3, ROUNDS = 100 };
enum { LONG_BYTES = 2 << 20, LONG_SLICES = LONG_BYTES / SLICE };
enum { YIELDS = 100 }; /* a wait yields 64 times before it would sleep */

static struct nigh_os saved;
static struct hosted a, b;
static struct nigh_endpoint *to, *from;
static uint8_t out[BYTES], in[BYTES], long_out[LONG_BYTES], long_in[LONG_BYTES];

/* ---- the staging
 * --------------------------------------------------------------------------------------------------- */

static unsigned copies, standing; /* slices that were begun; those that stand still */
static unsigned holds; /* a bit for each slice that is to stand still, by the order in which they begin */
static unsigned fails; /* the slice that fails */
static __thread unsigned own; /* slices that this thread has copied */
static size_t sizes[LONG_SLICES];

static unsigned get(unsigned *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void release(unsigned slices)
{
    __atomic_and_fetch(&holds, ~slices, __ATOMIC_ACQ_REL);
}

static void until_standing(unsigned count)
{
    while (get(&standing) != count)
        sched_yield();
}

static ssize_t staged_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                            const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    unsigned slice;

    (void)pid, (void)locals, (void)remotes, (void)flags;
    if (local->iov_len <= 8) { /* the probe */
        memcpy(local->iov_base, remote->iov_base, local->iov_len);
        return (ssize_t)local->iov_len;
    }
    slice = __atomic_fetch_add(&copies, 1, __ATOMIC_ACQ_REL);
    if (slice < LONG_SLICES)
        sizes[slice] = local->iov_len;
    own++;
    if (slice < SLICES && get(&holds) & 1u << slice) {
        __atomic_add_fetch(&standing, 1, __ATOMIC_ACQ_REL);
        while (get(&holds) & 1u << slice)
            sched_yield();
        __atomic_sub_fetch(&standing, 1, __ATOMIC_ACQ_REL);
    }
    if (slice == fails) {
        errno = EFAULT;
        return -1;
    }
    memcpy(local->iov_base, remote->iov_base, local->iov_len);
    return (ssize_t)local->iov_len;
}

/* ---- threads that poll
 * --------------------------------------------------------------------------------------------- */

struct poller {
    pthread_t thread;
    unsigned copied;
};

static unsigned stopped, ended; /* ended: receives, of any thread */
static struct nigh_completion last;

/* What this thread has polled of the receiver. */
static void poll_receiver(void)
{
    struct nigh_completion done[4] = {[0 ... 3] = {.op = NIGH_OP_RECV}}; /* so that one too many is seen */
    int count = hosted_ops->poll_completions(b.context, done, 4);

    for (int i = 0; i < count; i++)
        if (done[i].op == NIGH_OP_RECV) {
            last = done[i];
            __atomic_add_fetch(&ended, 1, __ATOMIC_ACQ_REL);
        }
}

static void *polls(void *data)
{
    struct poller *poller = data;

    while (!get(&stopped)) {
        poll_receiver();
        sched_yield();
    }
    poller->copied = own;
    return NULL;
}

static void begin(struct poller *poller)
{
    assert_int_equal(pthread_create(&poller->thread, NULL, polls, poller), 0);
}

static void end(struct poller *pollers, unsigned count)
{
    __atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_join(pollers[i].thread, NULL), 0);
}

static void until_ended(unsigned count)
{
    while (get(&ended) < count) {
        if (a.context)
            hosted_poll(&a);
        sched_yield();
    }
}

/* ---- a thread that gives way
 * ---------------------------------------------------------------------------------------- */

static __thread unsigned yields_left; /* 0: this thread's are not counted */
static unsigned asked, answered;

/* A call of another thread comes in meanwhile, and only then the first slice ends. */
static void while_it_yields(void)
{
    __atomic_store_n(&asked, 1, __ATOMIC_RELEASE);
    while (!get(&answered))
        usleep(100);
    release(1);
}

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    if (yields_left && --yields_left == 0)
        while_it_yields();
    return __real_sched_yield();
}

static void *calls_when_asked(void *unused)
{
    while (!get(&asked))
        usleep(100);
    (void)hosted_stats(&b);
    __atomic_store_n(&answered, 1, __ATOMIC_RELEASE);
    return unused;
}

/* ---- the two sides
 * ------------------------------------------------------------------------------------------------- */

static int start(void **state)
{
    (void)state;
    alarm(300);
    saved = nigh_os;
    nigh_os.process_vm_readv = staged_readv;
    setenv("NIGH_PATH", "cma", 1);
    copies = standing = holds = stopped = ended = own = yields_left = asked = answered = 0;
    fails = NONE;
    memset(in, 0, sizeof(in));
    for (unsigned i = 0; i < BYTES; i++)
        out[i] = (uint8_t)(i * 7 + i / SLICE);
    to = hosted_open_pair(&a, &b, NIGH_OPEN_THREADS);
    from = hosted_connect(&b, 0);
    /* The sender has found out by then that it may be read. */
    assert_int_equal(hosted_recv(&a, to, 2, 2, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(from, 2, 2, NULL, 0, NIGH_SILENT), 0);
    hosted_until(&a, &b, NIGH_OP_RECV, 2);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close_pair(&a, &b);
    unsetenv("NIGH_PATH");
    nigh_os = saved;
    return 0;
}

static void post(void)
{
    assert_int_equal(hosted_recv(&b, from, 1, 1, in, sizeof(in), 0), 0);
    assert_int_equal(hosted_send(to, 1, 1, out, sizeof(out), 0), 0);
}

/* A thread copies the first slice, and stands still in it. This one has posted the receive. */
static void post_and_stand(struct poller *poller, unsigned held)
{
    holds = held | 1u;
    post();
    begin(poller);
    until_standing(1);
}

/* A receive ended so, once, and the sender has heard of it. */
static void check_ended(int status)
{
    assert_int_equal(get(&ended), 1);
    assert_int_equal(last.context, 1);
    assert_int_equal(last.status, status);
    if (status)
        return;
    assert_memory_equal(in, out, BYTES);
    if (fails == NONE)
        assert_int_equal(get(&copies), SLICES);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 1)->status, 0);
}

/* ---- the cases
 * ----------------------------------------------------------------------------------------------------- */

static void test_who_comes_copies_the_rest(void **state)
{
    struct poller poller;

    (void)state;
    post_and_stand(&poller, 0);
    while (get(&copies) < SLICES)
        poll_receiver();
    assert_int_equal(own, SLICES - 1);
    for (unsigned i = 0; i < 100; i++)
        poll_receiver();
    assert_int_equal(get(&ended), 0); /* the first slice is not there yet */
    release(1);
    until_ended(1);
    end(&poller, 1);
    assert_int_equal(poller.copied, 1);
    check_ended(0);
}

/* Between the two halves of a poll, of which the second copies, another thread polls into an array of its own. */
static void test_who_copies_is_told_of_its_own(void **state)
{
    struct poller poller;

    (void)state;
    post_and_stand(&poller, 0);
    assert_int_equal(hosted_recv(&b, from, 3, 3, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(to, 3, 3, NULL, 0, NIGH_SILENT), 0);
    while (!get(&ended))
        poll_receiver();
    assert_int_equal(last.context, 3);
    while (get(&copies) < SLICES)
        poll_receiver();
    assert_int_equal(hosted_recv(&b, from, 3, 3, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(to, 3, 3, NULL, 0, NIGH_SILENT), 0);
    while (get(&ended) < 2)
        poll_receiver();
    __atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
    release(1);
    end(&poller, 1);
    assert_int_equal(get(&ended), 3);
    ended -= 2;
    check_ended(0);
}

/* The thread of NIGH_PROGRESS=thread does not poll: it waits for nothing. */
static void test_who_waits_copies_the_rest(void **state)
{
    struct poller poller;

    (void)state;
    post_and_stand(&poller, 0);
    while (get(&copies) < SLICES)
        assert_int_equal(hosted_ops->wait(b.context, 0), -ETIMEDOUT);
    assert_int_equal(own, SLICES - 1);
    assert_int_equal(hosted_ops->wait(b.context, 1000000), -ETIMEDOUT);
    release(1);
    until_ended(1);
    end(&poller, 1);
    check_ended(0);
}

/* Who has posted the receive is away: the other one does not wait for it. */
static void *polls_once(void *unused)
{
    poll_receiver();
    return unused;
}

static void test_who_finds_it_begins(void **state)
{
    pthread_t thread;

    (void)state;
    post();
    assert_int_equal(pthread_create(&thread, NULL, polls_once, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(get(&copies), 1, SLICES);
    while (!get(&ended))
        poll_receiver();
    check_ended(0);
}

/* Few slices, and small ones in the end, so that two end together. */
static void test_slices_become_smaller(void **state)
{
    size_t left = LONG_BYTES;

    (void)state;
    for (size_t i = 0; i < LONG_BYTES; i++)
        long_out[i] = (uint8_t)(i * 7 + i / SLICE);
    assert_int_equal(hosted_recv(&b, from, 1, 1, long_in, sizeof(long_in), 0), 0);
    assert_int_equal(hosted_send(to, 1, 1, long_out, sizeof(long_out), 0), 0);
    while (!get(&ended))
        poll_receiver();
    assert_int_equal(last.status, 0);
    assert_memory_equal(long_in, long_out, LONG_BYTES);
    assert_in_range(get(&copies), 1, LONG_SLICES - 1);
    assert_int_equal(sizes[0], LONG_BYTES / 8);
    for (unsigned i = 0; i < get(&copies); left -= sizes[i++])
        assert_in_range(sizes[i], SLICE, left / 8 > SLICE ? left / 8 : SLICE);
    assert_int_equal(left, 0);
}

/* It may not go on with what the poster is in the middle of, and does not sleep: so it keeps neither the
 * CPU from it nor the lock from others. */
static void *posts_and_waits(void *unused)
{
    assert_int_equal(hosted_recv(&b, from, 1, 1, in, sizeof(in), 0), 0);
    while (!get(&asked))
        (void)hosted_ops->wait(b.context, 0);
    return unused;
}

static void test_who_waits_gives_way(void **state)
{
    pthread_t poster, caller;

    (void)state;
    holds = 1;
    assert_int_equal(pthread_create(&poster, NULL, posts_and_waits, NULL), 0);
    assert_int_equal(hosted_send(to, 1, 1, out, sizeof(out), 0), 0);
    until_standing(1);
    assert_int_equal(pthread_create(&caller, NULL, calls_when_asked, NULL), 0);
    yields_left = YIELDS;
    assert_int_equal(hosted_ops->wait(b.context, UINT64_C(120000000000)), 0);
    assert_int_equal(yields_left, 0);
    poll_receiver();
    assert_int_equal(pthread_join(caller, NULL), 0);
    assert_int_equal(pthread_join(poster, NULL), 0);
    check_ended(0);
}

/* Two stand in the first and the last slice; `first` goes on, then the other one, or both at once. */
static void two_end(unsigned first)
{
    struct poller pollers[2];

    post_and_stand(&pollers[0], 1u << (SLICES - 1));
    begin(&pollers[1]);
    until_standing(2);
    release(first);
    if (first == 1u || first == 1u << (SLICES - 1)) {
        until_standing(1);
        for (unsigned i = 0; i < 100; i++)
            poll_receiver();
        assert_int_equal(get(&ended), 0);
        release(~0u);
    }
    until_ended(1);
    for (unsigned i = 0; i < 100; i++)
        poll_receiver();
    end(pollers, 2);
    check_ended(0);
}

static void test_the_first_slice_is_the_last(void **state)
{
    (void)state;
    two_end(1u << (SLICES - 1));
}

static void test_the_last_slice_is_the_last(void **state)
{
    (void)state;
    two_end(1);
}

static void test_two_end_together(void **state)
{
    (void)state;
    two_end(1u | 1u << (SLICES - 1));
}

/* Nobody copies any more of it, nor is the sender asked for it in pieces while the first slice is being written. */
static void test_a_slice_fails_beside_another(void **state)
{
    struct poller poller;

    (void)state;
    fails = 1;
    post_and_stand(&poller, 0);
    for (unsigned i = 0; i < 100; i++)
        poll_receiver();
    assert_int_equal(get(&copies), 2);
    assert_int_equal(get(&ended), 0);
    release(1);
    until_ended(1);
    end(&poller, 1);
    assert_int_equal(get(&copies), 2);
    check_ended(0);
}

static void test_the_last_one_fails(void **state)
{
    struct poller poller;

    (void)state;
    fails = 0;
    post_and_stand(&poller, 0);
    while (get(&copies) < SLICES)
        poll_receiver();
    release(1);
    until_ended(1);
    end(&poller, 1);
    assert_int_equal(get(&copies), SLICES);
    check_ended(0);
}

/* A receive that has met its message is left alone. */
static void test_cancel_unmatched_comes_too_late(void **state)
{
    struct poller poller;

    (void)state;
    post_and_stand(&poller, 0);
    assert_int_equal(hosted_ops->cancel_unmatched(b.context, 1), -ENOENT);
    release(1);
    until_ended(1);
    end(&poller, 1);
    check_ended(0);
}

/* Its sender sees nothing of it, and nothing is written to the buffer any more. */
static void check_cancelled(void)
{
    check_ended(-ECANCELED);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 1)->status, 0);
    memset(in, 0x77, sizeof(in));
    for (unsigned i = 0; i < 100; i++)
        poll_receiver();
    for (unsigned i = 0; i < BYTES; i++)
        assert_int_equal(in[i], 0x77);
}

/* No further slice begins, and the receive completes behind the one that is being copied. */
static void test_cancelled_while_it_is_copied(void **state)
{
    struct poller poller;

    (void)state;
    post_and_stand(&poller, 0);
    assert_int_equal(hosted_ops->cancel(b.context, 1), 0);
    assert_int_equal(hosted_ops->cancel(b.context, 1), -ENOENT);
    for (unsigned i = 0; i < 100; i++)
        poll_receiver();
    assert_int_equal(get(&ended), 0);
    assert_int_equal(get(&copies), 1);
    release(1);
    until_ended(1);
    end(&poller, 1);
    check_cancelled();
    assert_int_equal(get(&copies), 1);
}

static void test_cancelled_while_the_last_is_copied(void **state)
{
    struct poller poller;

    (void)state;
    post_and_stand(&poller, 0);
    while (get(&copies) < SLICES)
        poll_receiver();
    assert_int_equal(hosted_ops->cancel(b.context, 1), 0);
    assert_int_equal(get(&ended), 0);
    release(1);
    until_ended(1);
    end(&poller, 1);
    check_cancelled();
}

static void test_disconnected_while_it_is_copied(void **state)
{
    struct poller poller;

    (void)state;
    post_and_stand(&poller, 0);
    assert_int_equal(hosted_ops->disconnect(from), 0);
    for (unsigned i = 0; i < 20000; i++) /* sweeps, in which endpoints are freed */
        poll_receiver();
    assert_int_equal(get(&ended), 0);
    assert_int_equal(get(&copies), 1);
    release(1);
    until_ended(1);
    end(&poller, 1);
    check_ended(-ECANCELED);
    assert_null(last.endpoint);
}

/* All is taken: it is no longer among those that have something left. */
static void test_disconnected_while_the_last_is_copied(void **state)
{
    struct poller poller;

    (void)state;
    post_and_stand(&poller, 0);
    while (get(&copies) < SLICES)
        poll_receiver();
    assert_int_equal(hosted_ops->disconnect(from), 0);
    release(1);
    until_ended(1);
    end(&poller, 1);
    check_ended(-ECANCELED);
}

/* Its end comes first: that the host then disconnects, too, changes nothing of what the receive says. */
static void test_the_peer_closes_while_it_is_copied(void **state)
{
    struct poller poller;

    (void)state;
    post_and_stand(&poller, 0);
    hosted_close(&a);
    while (hosted_state(&b, from) != NIGH_PEER_CLOSED)
        poll_receiver();
    assert_int_equal(get(&ended), 0);
    assert_int_equal(hosted_ops->disconnect(from), 0);
    release(1);
    until_ended(1);
    end(&poller, 1);
    check_ended(-ECONNRESET);
}

/* With nothing staged: whoever comes first. */
static void test_many_messages(void **state)
{
    struct poller pollers[THREADS];

    (void)state;
    for (unsigned i = 0; i < THREADS; i++)
        begin(&pollers[i]);
    for (unsigned round = 0; round < ROUNDS; round++) {
        memset(in, 0, sizeof(in));
        memset(out, (int)round + 1, sizeof(out));
        a.count = 0;
        post();
        until_ended(round + 1);
        assert_int_equal(last.status, 0);
        assert_memory_equal(in, out, sizeof(in));
        while (!hosted_find(&a, NIGH_OP_SEND, 1))
            hosted_poll(&a);
    }
    end(pollers, THREADS);
    assert_int_equal(get(&ended), ROUNDS);
    assert_int_equal(get(&copies), ROUNDS * SLICES);
}

/* One thread cancels while the others copy, and writes to the buffer as soon as it is told that it may. */
static void test_many_cancelled(void **state)
{
    struct poller pollers[THREADS];

    (void)state;
    for (unsigned i = 0; i < THREADS; i++)
        begin(&pollers[i]);
    for (unsigned round = 0; round < ROUNDS; round++) {
        a.count = 0;
        __atomic_store_n(&copies, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&holds, 1u | 1u << (SLICES - 1), __ATOMIC_RELEASE); /* it does not end before */
        post();
        while (!get(&standing))
            sched_yield();
        if (round % 2)
            release(1);
        assert_int_equal(hosted_ops->cancel(b.context, 1), 0);
        release(~0u);
        until_ended(round + 1);
        assert_int_equal(last.status, -ECANCELED);
        memset(in, 0x77, sizeof(in));
        while (!hosted_find(&a, NIGH_OP_SEND, 1))
            hosted_poll(&a);
        assert_int_equal(hosted_find(&a, NIGH_OP_SEND, 1)->status, 0);
        for (unsigned i = 0; i < BYTES; i++)
            assert_int_equal(in[i], 0x77);
    }
    end(pollers, THREADS);
    assert_int_equal(get(&ended), ROUNDS);
}

#define STAGED(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(test_who_comes_copies_the_rest),
        STAGED(test_who_copies_is_told_of_its_own),
        STAGED(test_who_waits_copies_the_rest),
        STAGED(test_who_finds_it_begins),
        STAGED(test_slices_become_smaller),
        STAGED(test_who_waits_gives_way),
        STAGED(test_the_first_slice_is_the_last),
        STAGED(test_the_last_slice_is_the_last),
        STAGED(test_two_end_together),
        STAGED(test_a_slice_fails_beside_another),
        STAGED(test_the_last_one_fails),
        STAGED(test_cancel_unmatched_comes_too_late),
        STAGED(test_cancelled_while_it_is_copied),
        STAGED(test_cancelled_while_the_last_is_copied),
        STAGED(test_disconnected_while_it_is_copied),
        STAGED(test_disconnected_while_the_last_is_copied),
        STAGED(test_the_peer_closes_while_it_is_copied),
        STAGED(test_many_messages),
        STAGED(test_many_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

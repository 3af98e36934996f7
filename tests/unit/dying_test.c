/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer whose life word is marked may go on for a moment: its process' other threads are stopped later, and a system call
 * of theirs later still. Here one goes on for as long as the test likes: its word is marked by hand. Its death is reported
 * at once, and nothing that it reads or writes from then on reaches a host as if it were right. */
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
#include "tests/support/osfail.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ONCE is read in one call. */
enum { LARGE = 3 << 20, ONCE = 400 << 10, PIECES = 48 << 10, MANY = 400 };

static struct nigh_os saved;
static struct hosted a, b, c; /* b is the one that dies */
static struct nigh_endpoint *to_b, *to_c, *b_to_a, *c_to_a;
static uint8_t out[LARGE], in[LARGE];
static cpu_set_t allowed;

/* What the kernel does when b's process ends: to the word that a looks at. */
static void mark_b(void)
{
    uint32_t *life = &b_to_a->pair->life;

    __atomic_store_n(life, FUTEX_OWNER_DIED | FUTEX_WAITERS, __ATOMIC_SEQ_CST);
    saved.futex(life, FUTEX_WAKE, 1, NULL);
}

static void open_all(void)
{
    uint64_t job = hosted_job();

    hosted_open(&a, job, 0, NIGH_OPEN_WAIT_FD);
    hosted_open(&b, job, 1, 0);
    hosted_open(&c, job, 2, 0);
    to_b = hosted_connect(&a, 1);
    to_c = hosted_connect(&a, 2);
    b_to_a = hosted_connect(&b, 0);
    c_to_a = hosted_connect(&c, 0);
    hosted_meet(&a, to_b, &b, b_to_a);
    hosted_meet(&a, to_c, &c, c_to_a);
    a.count = b.count = c.count = 0;
}

static int start(void **state)
{
    (void)state;
    alarm(120);
    hosted_quiet = true;
    saved = nigh_os;
    for (unsigned i = 0; i < LARGE; i++)
        out[i] = (uint8_t)(i * 7 + i / 4096);
    memset(in, 0, sizeof(in));
    open_all();
    return 0;
}

/* Two on one CPU are a crowd, and read each other. */
static int start_crowd(void **state)
{
    assert_int_equal(cpus_one(&allowed), 0);
    return start(state);
}

static int stop(void **state)
{
    (void)state;
    hosted_close(&a);
    hosted_close(&b);
    hosted_close(&c);
    nigh_os = saved;
    return 0;
}

static int stop_crowd(void **state)
{
    return stop(state) | cpus_all(&allowed);
}

static int start_in_chunks(void **state)
{
    setenv("NIGH_PATH", "chunked", 1);
    return start(state);
}

static int stop_in_chunks(void **state)
{
    unsetenv("NIGH_PATH");
    return stop(state);
}

/* a alone, until it knows. */
static void a_hears(void)
{
    while (hosted_state(&a, to_b) == NIGH_READY)
        hosted_poll(&a);
    assert_int_equal(hosted_state(&a, to_b), NIGH_PEER_DEAD);
}

/* ---- the report --------------------------------------------------------------------------------------------- */

/* What it had published is received first; what it publishes later never is. */
static void test_what_it_had_sent_comes_first(void **state)
{
    uint64_t words[4] = {1, 2, 3, 4}, got[5] = {0};

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(hosted_send(b_to_a, i, i, &words[i], 8, 0), 0);
    mark_b();
    a_hears();
    assert_int_equal(hosted_send(b_to_a, 3, 3, &words[3], 8, 0), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(hosted_recv(&a, to_b, i, i, &got[i], 8, 0), 0);
        assert_int_equal(hosted_until(&a, &c, NIGH_OP_RECV, i)->status, 0);
        assert_int_equal(got[i], words[i]);
    }
    assert_int_equal(hosted_recv(&a, to_b, 3, 3, &got[3], 8, 0), -ECONNRESET);
    assert_int_equal(hosted_recv(&a, NULL, 4, 3, &got[3], 8, 0), 0);
    assert_int_equal(hosted_until(&a, &c, NIGH_OP_RECV, 4)->status, -ECONNRESET); /* the death itself */
    assert_int_equal(hosted_recv(&a, NULL, 5, 3, &got[3], 8, 0), 0);
    hosted_turns(&a, &b, 3000);
    assert_null(hosted_find(&a, NIGH_OP_RECV, 5));
    assert_int_equal(got[3], 0);
    assert_int_equal(hosted_ops->cancel(a.context, 5), 0);
}

static void *mark_later(void *nothing)
{
    usleep(30000);
    mark_b();
    return nothing;
}

/* Nobody but the word tells of it, and somebody rings: a sleep that ends by its bound hears no bell. */
static void test_a_sleeper_is_woken(void **state)
{
    pthread_t thread;
    uint32_t bell;
    uint64_t word;

    (void)state;
    if (!a.context->lookouts) {
        print_message("SKIP: this kernel has no futex_waitv\n");
        skip();
    }
    assert_int_equal(hosted_recv(&a, to_b, 1, 1, &word, 8, 0), 0);
    hosted_turns(&a, &b, 2000);
    bell = nigh_bell_read(&a.context->bell);
    assert_int_equal(pthread_create(&thread, NULL, mark_later, NULL), 0);
    assert_int_equal(hosted_ops->wait(a.context, UINT64_C(10000000000)), 0);
    assert_true(nigh_bell_read(&a.context->bell) != bell);
    assert_int_equal(hosted_until(&a, &c, NIGH_OP_RECV, 1)->status, -ECONNRESET);
    pthread_join(thread, NULL);
}

/* Where nobody sleeps on words, who polls sees them. */
static void test_without_lookouts(void **state)
{
    (void)state;
    hosted_close(&a);
    hosted_close(&b);
    hosted_close(&c);
    osfail_install();
    osfail_arm_all(OSFAIL_futex_waitv, 1, ENOSYS);
    open_all();
    assert_null(a.context->lookouts);
    mark_b();
    a_hears();
    osfail_remove();
}

/* What its owner writes there in place of a mark is no death. */
static void test_other_values(void **state)
{
    static const uint32_t values[] = {0, 1, FUTEX_TID_MASK, FUTEX_WAITERS, FUTEX_WAITERS | FUTEX_TID_MASK};
    uint32_t *life = &b_to_a->pair->life;

    (void)state;
    for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        __atomic_store_n(life, values[i], __ATOMIC_SEQ_CST);
        saved.futex(life, FUTEX_WAKE, 1, NULL);
        hosted_turns(&a, &c, 1100);
        assert_int_equal(hosted_state(&a, to_b), NIGH_READY);
    }
    a.count = b.count = 0;
    hosted_meet(&a, to_b, &b, b_to_a);
}

/* Who has said goodbye has left, whatever its word says by the time that somebody looks. */
static void test_goodbye_first(void **state)
{
    (void)state;
    mark_b();
    assert_int_equal(hosted_ops->disconnect(b_to_a), 0);
    while (hosted_state(&a, to_b) == NIGH_READY)
        hosted_poll(&a);
    assert_int_equal(hosted_state(&a, to_b), NIGH_PEER_CLOSED);
}

/* ---- what it reads ------------------------------------------------------------------------------------------ */

static void take_in_b(unsigned tag, uint64_t bytes)
{
    const struct nigh_completion *done;

    assert_int_equal(hosted_recv(&b, b_to_a, tag, tag, in, bytes, 0), 0);
    done = hosted_until(&b, &c, NIGH_OP_RECV, tag);
    if (done->status == 0)
        assert_memory_equal(in, out, bytes);
    else
        assert_int_equal(done->status, -ECONNRESET);
}

/* Of our heap, which is our program's again when its send has failed. */
static void test_it_reads_the_heap(void **state)
{
    void *heap;

    (void)state;
    assert_int_equal(hosted_ops->heap_alloc(a.context, LARGE, &heap), 0);
    memcpy(heap, out, LARGE);
    assert_int_equal(hosted_send(to_b, 1, 1, heap, LARGE, 0), 0);
    mark_b();
    a_hears();
    assert_int_equal(hosted_until(&a, &c, NIGH_OP_SEND, 1)->status, -ECONNRESET);
    memset(heap, 0xee, LARGE);
    take_in_b(1, LARGE);
    assert_int_equal(hosted_ops->heap_free(a.context, heap), 0);
}

/* The same out of private memory. */
static void test_it_reads_the_process(void **state)
{
    static uint8_t mine[LARGE];

    (void)state;
    if (!hosted_may_read(&b)) {
        print_message("SKIP: processes may not read each other here\n");
        skip();
    }
    memcpy(mine, out, LARGE);
    assert_int_equal(hosted_send(to_b, 1, 1, mine, LARGE, 0), 0);
    mark_b();
    a_hears();
    assert_int_equal(hosted_until(&a, &c, NIGH_OP_SEND, 1)->status, -ECONNRESET);
    memset(mine, 0xee, LARGE);
    take_in_b(1, LARGE);
}

/* Chunks that it may be reading are no other message's until its process has ended. */
static void test_it_reads_chunks(void **state)
{
    static uint8_t other[PIECES];

    (void)state;
    memset(other, 0xee, sizeof(other));
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(hosted_send(to_b, i, i, out, PIECES, 0), 0);
    mark_b();
    a_hears();
    for (unsigned i = 0; i < MANY; i++) {
        a.count = c.count = 0;
        assert_int_equal(hosted_send(to_c, 10, 10, other, PIECES, 0), 0);
        assert_int_equal(hosted_recv(&c, c_to_a, 10, 10, in, PIECES, 0), 0);
        assert_int_equal(hosted_until(&c, &a, NIGH_OP_RECV, 10)->status, 0);
    }
    for (unsigned i = 0; i < 4; i++)
        take_in_b(i, PIECES);
}

/* ---- what we read of it ------------------------------------------------------------------------------------- */

/* The heap of a peer that dies stays as it was, as long as it has not left. */
static void test_its_heap_is_read(void **state)
{
    void *heap;

    (void)state;
    assert_int_equal(hosted_ops->heap_alloc(b.context, LARGE, &heap), 0);
    memcpy(heap, out, LARGE);
    assert_int_equal(hosted_send(b_to_a, 1, 1, heap, LARGE, 0), 0);
    hosted_turns(&a, &c, 10);
    mark_b();
    a_hears();
    assert_int_equal(hosted_recv(&a, to_b, 2, 1, in, LARGE, 0), 0);
    assert_int_equal(hosted_until(&a, &c, NIGH_OP_RECV, 2)->status, 0);
    assert_memory_equal(in, out, LARGE);
}

static unsigned read_calls;

/* A process that begins another program has that one's memory at the same place. */
static ssize_t another_program(pid_t pid, const struct iovec *local, unsigned long locals,
                               const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    if (local->iov_len <= 8)
        return saved.process_vm_readv(pid, local, locals, remote, remotes, flags);
    read_calls++;
    mark_b();
    memset(local->iov_base, 0xee, local->iov_len);
    return (ssize_t)local->iov_len;
}

/* And none where it had a message; what is noticed meanwhile, by another thread. */
static ssize_t no_memory_there(pid_t pid, const struct iovec *local, unsigned long locals,
                               const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    if (local->iov_len <= 8)
        return saved.process_vm_readv(pid, local, locals, remote, remotes, flags);
    read_calls++;
    mark_b();
    nigh_progress_sweep(a.context);
    errno = EFAULT;
    return -1;
}

static void test_it_begins_another_program(void **state)
{
    if (!hosted_may_read(&a)) {
        print_message("SKIP: processes may not read each other here\n");
        skip();
    }
    nigh_os.process_vm_readv = *state ? no_memory_there : another_program;
    b.context->config.place_from = ONCE / 2;
    b.context->config.eager_bytes = ONCE / 4;
    read_calls = 0;
    assert_int_equal(hosted_recv(&a, to_b, 1, 1, in, ONCE, 0), 0);
    assert_int_equal(hosted_send(b_to_a, 1, 1, out, ONCE, 0), 0);
    assert_int_equal(hosted_until(&a, &c, NIGH_OP_RECV, 1)->status, -ECONNRESET);
    assert_int_equal(read_calls, 1);
}

#define CASE(name)   cmocka_unit_test_setup_teardown(name, start, stop)
#define CROWD(name)  cmocka_unit_test_setup_teardown(name, start_crowd, stop_crowd)
#define CHUNKS(name) cmocka_unit_test_setup_teardown(name, start_in_chunks, stop_in_chunks)

int main(void)
{
    static int faults = 1;
    const struct CMUnitTest tests[] = {
        CASE(test_what_it_had_sent_comes_first),
        CASE(test_a_sleeper_is_woken),
        CASE(test_without_lookouts),
        CASE(test_other_values),
        CASE(test_goodbye_first),
        CASE(test_it_reads_the_heap),
        CROWD(test_it_reads_the_process),
        CHUNKS(test_it_reads_chunks),
        CASE(test_its_heap_is_read),
        CROWD(test_it_begins_another_program),
        {"test_it_begins_another_program_elsewhere", test_it_begins_another_program, start_crowd, stop_crowd,
         &faults},
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/apart.h - two sides with a CPU each, whatever this machine has: what tests of messages that both copy
 * begin and end with. Sender and receiver are one thread: who is at work is who is polled. Of one program, so all of it is
 * static. */
#ifndef NIGH_TESTS_APART_H
#define NIGH_TESTS_APART_H

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
    SOME = 11,
    EACH = 256 * KIB,
    ALL = SOME * EACH,
    TURN = 2 /* of these the receiver copies in a pass */
};

static struct nigh_os saved;
static struct hosted a, b;
static struct nigh_endpoint *to, *from;
static uint8_t out[MOST], in[MOST], back[MOST];

static unsigned reads, writes, writes_back; /* the last: those to `back` */
static unsigned read_calls, write_calls;
static uint64_t longest_call; /* bytes */
static bool one_by_one;       /* calls with several places fail */
static uint64_t read_bytes, written_bytes;
static uint8_t *first_written;
static int failure;            /* of each write; 0: none */
static int read_failure;       /* of each read that is no probe */
static uint8_t *unreadable;    /* a read from here fails */
static bool recycled;          /* the receiver's number is another process' */
static void (*in_write)(void); /* called in the first one */
static void (*in_read)(void);  /* in each, behind it */

/* Several places are as many reads in one call. */
static ssize_t staged_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                            const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    ssize_t moved = 0;

    (void)pid, (void)remotes, (void)flags;
    if (local->iov_len == 8) { /* a probe */
        memcpy(local->iov_base, remote->iov_base, local->iov_len);
        if (recycled)
            memset(local->iov_base, 0xee, local->iov_len);
        return (ssize_t)local->iov_len;
    }
    if (read_failure) {
        errno = read_failure;
        return -1;
    }
    if (one_by_one && locals > 1) {
        errno = EINVAL;
        return -1;
    }
    for (unsigned long i = 0; i < locals; i++) {
        if (remote[i].iov_base == unreadable)
            return moved;
        assert_int_equal(local[i].iov_len, remote[i].iov_len);
        memcpy(local[i].iov_base, remote[i].iov_base, local[i].iov_len);
        moved += (ssize_t)local[i].iov_len;
        reads++;
    }
    read_bytes += (uint64_t)moved;
    longest_call = (uint64_t)moved > longest_call ? (uint64_t)moved : longest_call;
    read_calls++;
    if (in_read)
        in_read();
    return moved;
}

static ssize_t staged_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                             const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    ssize_t moved = 0;

    (void)pid, (void)remotes, (void)flags;
    if (writes == 0)
        first_written = remote->iov_base;
    writes += (unsigned)locals;
    if (write_calls++ == 0 && in_write)
        in_write();
    if (failure || (one_by_one && locals > 1)) {
        errno = failure ? failure : EINVAL;
        return -1;
    }
    for (unsigned long i = 0; i < locals; i++) {
        uint8_t *at = remote[i].iov_base;

        assert_int_equal(local[i].iov_len, remote[i].iov_len);
        memcpy(at, local[i].iov_base, local[i].iov_len);
        moved += (ssize_t)local[i].iov_len;
        writes_back += at >= back && at < back + sizeof(back);
    }
    written_bytes += (uint64_t)moved;
    longest_call = (uint64_t)moved > longest_call ? (uint64_t)moved : longest_call;
    return moved;
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
    reads = writes = writes_back = read_calls = write_calls = 0;
    longest_call = 0;
    one_by_one = false;
    unreadable = NULL;
    read_bytes = written_bytes = 0;
    failure = read_failure = 0;
    recycled = false;
    in_write = in_read = NULL;
    memset(in, 0, sizeof(in));
    for (unsigned i = 0; i < MOST; i++)
        out[i] = (uint8_t)(i * 7 + i / 4096);
    to = hosted_open_pair(&a, &b, flags);
    from = hosted_connect(&b, 0);
    hosted_meet(&a, to, &b, from);
    set_apart(&a);
    set_apart(&b);
    return 0;
}

static int start(void **state)
{
    (void)state;
    return start_as(0);
}

static int stop(void **state)
{
    (void)state;
    hosted_close_pair(&a, &b);
    nigh_os = saved;
    return 0;
}

static inline void post(uint64_t bytes)
{
    a.count = b.count = 0;
    assert_int_equal(hosted_recv(&b, from, 0, 0, in, bytes, 0), 0);
    assert_int_equal(hosted_send(to, 0, 0, out, bytes, 0), 0);
}

/* What ends a row. */
static inline void comes_back(void)
{
    assert_int_equal(hosted_recv(&a, to, 80, 80, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(from, 80, 80, NULL, 0, NIGH_SILENT), 0);
    hosted_until(&a, &b, NIGH_OP_RECV, 80);
}

/* A row of them, one behind the other in one buffer. */
static inline void post_some(void)
{
    a.count = b.count = 0;
    for (unsigned i = 0; i < SOME; i++)
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * EACH, EACH, 0), 0);
    for (unsigned i = 0; i < SOME; i++)
        assert_int_equal(hosted_send(to, i, i, out + i * EACH, EACH, 0), 0);
}

static inline void polls(struct hosted *hosted, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        hosted_poll(hosted);
}

/* The sender has its turn while the receiver is at a slice: until it has written one, as on a busy machine its service
 * thread may be late, and what that has to say comes first; or a while, if it does not. */
static inline void sender_helps(void)
{
    unsigned before = writes;

    for (unsigned i = 0; i < 50 && writes == before; i++)
        hosted_poll(&a);
}

static inline void ends_well(unsigned count, uint64_t bytes)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, 0);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, 0);
    }
    assert_memory_equal(in, out, bytes);
}

#endif

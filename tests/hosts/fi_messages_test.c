/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages through libfabric's calls: both interfaces, every way to send and to receive. */
#include "tests/support/fi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct fi_lab lab;
static char from[1 << 20], to[(1 << 20) + 64];

#define TX (&lab.side[0])
#define RX (&lab.side[1])

static void fill(size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        from[i] = (char)(i * 7 + seed);
    memset(to, 0x55, sizeof(to));
}

static int open_all(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){0});
    return 0;
}

static int open_directed_msg(void **state)
{
    (void)state;
    fi_lab_open(&lab,
                &(struct fi_wish){.caps = FI_MSG | FI_TAGGED, .apart = true, .threading = FI_THREAD_SAFE});
    return 0;
}

static int open_shared(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.shared = true});
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fi_lab_close(&lab);
    return 0;
}

/* ---- sizes --------------------------------------------------------------------------------------------- */

static void tagged_sizes(void **state)
{
    static const size_t sizes[] = {0, 1, 8, 41, 1000, 1024, 5000, 70000, 1 << 20};

    (void)state;
    for (unsigned i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = sizes[i / 2];
        struct fi_cq_tagged_entry sent, got;

        fill(bytes, i);
        if (i % 2)
            FI_OK(fi_trecv(RX->ep, to, sizeof(to), NULL, FI_ADDR_UNSPEC, 40 + i, 0, &to[i]));
        FI_OK(fi_tsend(TX->ep, from, bytes, NULL, TX->peer, 40 + i, &from[i]));
        if (!(i % 2)) {
            fi_pump(&lab);
            FI_OK(fi_trecv(RX->ep, to, sizeof(to), NULL, FI_ADDR_UNSPEC, 40 + i, 0, &to[i]));
        }
        got = fi_await(&lab, RX->rx);
        sent = fi_await(&lab, TX->tx);
        assert_ptr_equal(sent.op_context, &from[i]);
        assert_int_equal(sent.flags, FI_SEND | FI_TAGGED);
        assert_ptr_equal(got.op_context, &to[i]);
        assert_int_equal(got.flags, FI_RECV | FI_TAGGED);
        assert_int_equal(got.len, bytes);
        assert_int_equal(got.tag, 40 + i);
        assert_memory_equal(from, to, bytes);
        assert_int_equal(to[bytes], 0x55);
    }
}

static void untagged_is_apart(void **state)
{
    struct fi_cq_tagged_entry got;

    (void)state;
    fill(16, 3);
    FI_OK(fi_recv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, &to[0]));
    FI_OK(fi_trecv(RX->ep, to + 8, 8, NULL, FI_ADDR_UNSPEC, 0, 0, &to[8]));
    FI_OK(fi_tsend(TX->ep, from + 8, 8, NULL, TX->peer, 0, NULL));
    got = fi_await(&lab, RX->rx);
    assert_ptr_equal(got.op_context, &to[8]);
    FI_OK(fi_send(TX->ep, from, 8, NULL, TX->peer, NULL));
    got = fi_await(&lab, RX->rx);
    assert_ptr_equal(got.op_context, &to[0]);
    assert_int_equal(got.flags, FI_RECV | FI_MSG);
    assert_memory_equal(from, to, 16);
    assert_int_equal(fi_await(&lab, TX->tx).flags, FI_SEND | FI_TAGGED);
    assert_int_equal(fi_await(&lab, TX->tx).flags, FI_SEND | FI_MSG);
}

static void data_travels(void **state)
{
    struct fi_cq_tagged_entry got;

    (void)state;
    fill(2000, 9);
    FI_OK(fi_trecv(RX->ep, to, 2000, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    FI_OK(fi_tsenddata(TX->ep, from, 2000, NULL, 0xfedcba98, TX->peer, 5, NULL));
    got = fi_await(&lab, RX->rx);
    assert_int_equal(got.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
    assert_int_equal(got.data, 0xfedcba98);
    FI_OK(fi_recv(RX->ep, to, 2000, NULL, FI_ADDR_UNSPEC, NULL));
    FI_OK(fi_injectdata(TX->ep, from, 100, 0, TX->peer));
    got = fi_await(&lab, RX->rx);
    assert_int_equal(got.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
    assert_int_equal(got.data, 0);
    FI_OK(fi_recv(RX->ep, to, 2000, NULL, FI_ADDR_UNSPEC, NULL));
    FI_OK(fi_send(TX->ep, from, 100, NULL, TX->peer, NULL));
    assert_int_equal(fi_await(&lab, RX->rx).flags, FI_RECV | FI_MSG);
}

static void inject_is_silent(void **state)
{
    (void)state;
    fill(1024, 1);
    FI_OK(fi_trecv(RX->ep, to, 1024, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
    FI_OK(fi_tinject(TX->ep, from, 1024, TX->peer, 1));
    memset(from, 0, 1024);
    assert_int_equal(fi_await(&lab, RX->rx).len, 1024);
    assert_int_equal((unsigned char)to[1023], (unsigned char)(1023 * 7 + 1));
    fi_quiet(&lab, TX->tx);
    FI_GIVES(fi_tinject(TX->ep, from, lab.info->tx_attr->inject_size + 1, TX->peer, 1), -FI_EMSGSIZE);
}

static void vectors(void **state)
{
    static const size_t sizes[] = {30, 3000, 300000};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        size_t part = sizes[i] / 3;
        struct iovec out[3] = {{from, part}, {from + part, 2 * part - 1}, {from + 3 * part - 1, 1}};
        struct iovec in[4] = {{to, 1}, {to + 1, part}, {to + 1 + part, 0}, {to + 1 + part, 2 * part - 1}};

        fill(sizes[i], i);
        FI_OK(fi_trecvv(RX->ep, in, NULL, 4, FI_ADDR_UNSPEC, 2, 0, &in));
        FI_OK(fi_tsendv(TX->ep, out, NULL, 3, TX->peer, 2, &out));
        assert_ptr_equal(fi_await(&lab, RX->rx).op_context, &in);
        assert_ptr_equal(fi_await(&lab, TX->tx).op_context, &out);
        assert_memory_equal(from, to, sizes[i]);
        assert_int_equal(to[sizes[i]], 0x55);
    }
    FI_GIVES(fi_tsendv(TX->ep, &(struct iovec){from, 1}, NULL, 5, TX->peer, 2, NULL), -FI_EINVAL);
}

/* ---- matching ------------------------------------------------------------------------------------------ */

static void tags_and_masks(void **state)
{
    (void)state;
    fill(24, 4);
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 0x100, 0xff, &to[0]));
    FI_OK(fi_trecv(RX->ep, to + 8, 8, NULL, FI_ADDR_UNSPEC, 0x2ff, 0, &to[8]));
    FI_OK(fi_trecv(RX->ep, to + 16, 8, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, &to[16]));
    FI_OK(fi_tinject(TX->ep, from + 8, 8, TX->peer, 0x2ff));
    FI_OK(fi_tinject(TX->ep, from + 16, 8, TX->peer, 0x3ff));
    FI_OK(fi_tinject(TX->ep, from, 8, TX->peer, 0x1ab));
    assert_ptr_equal(fi_await(&lab, RX->rx).op_context, &to[8]);
    assert_ptr_equal(fi_await(&lab, RX->rx).op_context, &to[16]);
    assert_int_equal(fi_await(&lab, RX->rx).tag, 0x1ab);
    assert_memory_equal(from, to, 24);
}

/* From a source that is not the sender: not matched, until the right one sends. */
static void directed(void **state)
{
    (void)state;
    fill(16, 4);
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, RX->self, 1, 0, &to[0]));
    FI_OK(fi_trecv(RX->ep, to + 8, 8, NULL, RX->peer, 1, 0, &to[8]));
    FI_OK(fi_tinject(TX->ep, from + 8, 8, TX->peer, 1));
    assert_ptr_equal(fi_await(&lab, RX->rx).op_context, &to[8]);
    fi_quiet(&lab, RX->rx);
    FI_OK(fi_tinject(RX->ep, from, 8, RX->self, 1));
    assert_ptr_equal(fi_await(&lab, RX->rx).op_context, &to[0]);
    assert_memory_equal(from, to, 16);
}

/* Without FI_DIRECTED_RECV the source of a receive says nothing. */
static void undirected(void **state)
{
    (void)state;
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, RX->self, 1, 0, &to[0]));
    FI_OK(fi_tinject(TX->ep, from, 8, TX->peer, 1));
    assert_ptr_equal(fi_await(&lab, RX->rx).op_context, &to[0]);
    FI_OK(fi_tsend(TX->ep, from, 8, NULL, TX->peer, 1, &from[7]));
    assert_ptr_equal(fi_await(&lab, TX->tx).op_context, &from[7]);
    fi_quiet(&lab, TX->rx);
}

static void one_queue_for_two(void **state)
{
    struct fi_cq_tagged_entry first, second;

    (void)state;
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &to[0]));
    FI_OK(fi_tsend(TX->ep, from, 8, NULL, TX->peer, 1, &from[0]));
    first = fi_await(&lab, TX->tx);
    second = fi_await(&lab, TX->tx);
    assert_int_equal(first.flags | second.flags, FI_SEND | FI_RECV | FI_TAGGED);
}

/* Hosts that yield when a read finds nothing lose the CPU for each that finds nothing though there is something. */
static void read_once(void **state)
{
    struct fi_cq_tagged_entry got[4];

    (void)state;
    fi_pump(&lab);
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 0, 0, &to[0]));
    FI_OK(fi_tinject(TX->ep, from, 8, TX->peer, 0));
    assert_ptr_equal(fi_await(&lab, RX->rx).op_context, &to[0]);
    for (unsigned i = 1; i < 100; i++) {
        FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, i, 0, &to[i]));
        FI_OK(fi_tinject(TX->ep, from, 8, TX->peer, i));
        FI_GIVES(fi_cq_read(RX->rx, got, 4), 1);
        assert_ptr_equal(got[0].op_context, &to[i]);
    }
}

/* Hosts that only want progress read no entries, whether there are some or not. */
static void read_of_nothing_moves_things(void **state)
{
    (void)state;
    fill(16, 5);
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 9, 0, &to[0])); /* they meet */
    FI_OK(fi_tinject(TX->ep, from, 0, TX->peer, 9));
    assert_ptr_equal(fi_await(&lab, RX->rx).op_context, &to[0]);
    for (unsigned i = 0; i < 2; i++)
        FI_OK(fi_trecv(RX->ep, &to[8 * i], 8, NULL, FI_ADDR_UNSPEC, i, 0, &to[8 * i]));
    for (unsigned i = 0; i < 2; i++) {
        FI_OK(fi_tinject(TX->ep, &from[8 * i], 8, TX->peer, i));
        for (unsigned looks = 0; looks < 10000 && to[8 * i] == 0x55; looks++) {
            fi_cq_read(TX->tx, NULL, 0);
            fi_cq_read(RX->rx, NULL, 0);
        }
        assert_memory_equal(&to[8 * i], &from[8 * i], 8);
        FI_GIVES(fi_cq_read(RX->rx, NULL, 0), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_ptr_equal(fi_await(&lab, RX->rx).op_context, &to[8 * i]);
}

/* ---- what goes wrong ----------------------------------------------------------------------------------- */

static void truncated(void **state)
{
    static const size_t sizes[] = {40, 900, 5000, 200000};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct fi_cq_err_entry error;

        fill(sizes[i], 1);
        FI_OK(fi_trecv(RX->ep, to, 16, NULL, FI_ADDR_UNSPEC, 3, 0, &to[1]));
        FI_OK(fi_tsend(TX->ep, from, sizes[i], NULL, TX->peer, 3, NULL));
        error = fi_await_error(&lab, RX->rx);
        assert_int_equal(error.err, FI_ETRUNC);
        assert_ptr_equal(error.op_context, &to[1]);
        assert_int_equal(error.tag, 3);
        assert_int_equal(error.flags, FI_RECV | FI_TAGGED);
        assert_int_equal(error.len, 16);
        assert_int_equal(error.olen, sizes[i] - 16);
        assert_null(error.buf);
        assert_memory_equal(from, to, 16);
        assert_int_equal(to[16], 0x55);
        fi_await(&lab, TX->tx);
    }
}

/* The same into a vector, and no bytes at all. */
static void truncated_vectors(void **state)
{
    struct iovec in[2] = {{to, 6}, {to + 6, 10}};
    struct fi_cq_err_entry error;

    (void)state;
    fill(5000, 2);
    FI_OK(fi_trecvv(RX->ep, in, NULL, 2, FI_ADDR_UNSPEC, 3, 0, &in));
    FI_OK(fi_tsend(TX->ep, from, 5000, NULL, TX->peer, 3, NULL));
    error = fi_await_error(&lab, RX->rx);
    assert_int_equal(error.err, FI_ETRUNC);
    assert_int_equal(error.len, 16);
    assert_int_equal(error.olen, 5000 - 16);
    assert_memory_equal(from, to, 16);
    assert_int_equal(to[16], 0x55);
    fi_await(&lab, TX->tx);
    FI_OK(fi_trecv(RX->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 3, 0, &in));
    FI_OK(fi_tinject(TX->ep, from, 8, TX->peer, 3));
    error = fi_await_error(&lab, RX->rx);
    assert_int_equal(error.len, 0);
    assert_int_equal(error.olen, 8);
}

static void cancelled(void **state)
{
    struct iovec in[2] = {{to, 8}, {to + 8, 8}};
    struct fi_cq_err_entry error;

    (void)state;
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 3, 0, &to[1]));
    FI_OK(fi_trecvv(RX->ep, in, NULL, 2, FI_ADDR_UNSPEC, 3, 0, &to[2]));
    FI_OK((int)fi_cancel(&RX->ep->fid, &to[1]));
    error = fi_await_error(&lab, RX->rx);
    assert_int_equal(error.err, FI_ECANCELED);
    assert_ptr_equal(error.op_context, &to[1]);
    FI_OK((int)fi_cancel(&RX->ep->fid, &to[2]));
    error = fi_await_error(&lab, RX->rx);
    assert_int_equal(error.err, FI_ECANCELED);
    assert_ptr_equal(error.op_context, &to[2]);
    FI_GIVES((int)fi_cancel(&RX->ep->fid, &to[1]), -FI_ENOENT);
}

/* A receive that has met its message is not cancelled: MPIs count on that the message is not lost. */
static void cancelled_too_late(void **state)
{
    enum { LONG = 3 << 20 };
    struct fi_cq_tagged_entry done;
    char *sent = calloc(1, LONG), *got = malloc(LONG);

    (void)state;
    memset(got, 0xff, LONG);
    FI_OK(fi_trecv(RX->ep, got, LONG, NULL, FI_ADDR_UNSPEC, 3, 0, &to[1]));
    FI_OK(fi_tsend(TX->ep, sent, LONG, NULL, TX->peer, 3, NULL));
    while (got[0])
        fi_pump(&lab);
    (void)fi_cancel(&RX->ep->fid, &to[1]);
    done = fi_await(&lab, RX->rx);
    assert_int_equal(done.len, LONG);
    assert_memory_equal(got, sent, LONG);
    fi_await(&lab, TX->tx);
    free(sent);
    free(got);
}

/* A peer that closes: what names it fails, nothing hangs. */
static void peer_closes(void **state)
{
    struct fi_cq_err_entry error;
    ssize_t rc;

    (void)state;
    FI_OK(fi_trecv(TX->ep, to, 8, NULL, TX->peer, 9, 0, &to[9]));
    FI_OK(fi_tsend(TX->ep, from, 8, NULL, TX->peer, 1, NULL));
    fi_await(&lab, TX->tx);
    fi_pump(&lab);
    fi_side_close(RX);
    error = fi_await_error(&lab, TX->rx);
    assert_int_equal(error.err, FI_ECONNRESET);
    assert_ptr_equal(error.op_context, &to[9]);
    rc = fi_tsend(TX->ep, from, 8, NULL, TX->peer, 1, NULL);
    assert_int_equal(rc, -FI_ECONNRESET);
}

/* ---- looking ahead ------------------------------------------------------------------------------------- */

static struct fi_msg_tagged look_for(uint64_t tag, uint64_t ignore, struct fi_context *context)
{
    return (struct fi_msg_tagged){.addr = FI_ADDR_UNSPEC, .tag = tag, .ignore = ignore, .context = context};
}

static void peek_nothing(void **state)
{
    struct fi_context context;
    struct fi_msg_tagged look = look_for(4, 0, &context);
    struct fi_cq_err_entry error;

    (void)state;
    FI_OK(fi_trecvmsg(RX->ep, &look, FI_PEEK));
    error = fi_await_error(&lab, RX->rx);
    assert_int_equal(error.err, FI_ENOMSG);
    assert_ptr_equal(error.op_context, &context);
    FI_OK(fi_trecvmsg(RX->ep, &look, FI_PEEK | FI_CLAIM));
    assert_int_equal(fi_await_error(&lab, RX->rx).err, FI_ENOMSG);
}

/* Of two messages the second is received, so the first has come. */
static void arrive(size_t bytes, uint64_t tag)
{
    fill(bytes, (unsigned)tag);
    FI_OK(fi_tsenddata(TX->ep, from, bytes, NULL, 12, TX->peer, tag, NULL));
    FI_OK(fi_trecv(RX->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 1000, 0, &lab));
    FI_OK(fi_tinject(TX->ep, NULL, 0, TX->peer, 1000));
    assert_ptr_equal(fi_await(&lab, RX->rx).op_context, &lab);
}

static void peek_leaves_it(void **state)
{
    struct fi_context context;
    struct fi_msg_tagged look = look_for(0, UINT64_MAX, &context);
    struct fi_cq_tagged_entry found;

    (void)state;
    arrive(300, 4);
    for (int i = 0; i < 3; i++) {
        FI_OK(fi_trecvmsg(RX->ep, &look, FI_PEEK));
        found = fi_await(&lab, RX->rx);
        assert_int_equal(found.len, 300);
        assert_int_equal(found.tag, 4);
        assert_int_equal(found.data, 12);
        assert_int_equal(found.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
    }
    FI_OK(fi_trecv(RX->ep, to, 300, NULL, FI_ADDR_UNSPEC, 4, 0, NULL));
    assert_int_equal(fi_await(&lab, RX->rx).len, 300);
    assert_memory_equal(from, to, 300);
}

static void claim_takes_it(void **state)
{
    static const size_t sizes[] = {8, 300, 200000};
    struct fi_context context;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct iovec in = {to, sizeof(to)};
        struct fi_msg_tagged look = look_for(4, 0, &context);

        arrive(sizes[i], 4);
        FI_OK(fi_trecvmsg(RX->ep, &look, FI_PEEK | FI_CLAIM));
        assert_int_equal(fi_await(&lab, RX->rx).len, sizes[i]);
        FI_OK(fi_trecvmsg(RX->ep, &look, FI_PEEK));
        assert_int_equal(fi_await_error(&lab, RX->rx).err, FI_ENOMSG);
        look.msg_iov = &in;
        look.iov_count = 1;
        FI_OK(fi_trecvmsg(RX->ep, &look, FI_CLAIM));
        assert_int_equal(fi_await(&lab, RX->rx).len, sizes[i]);
        assert_memory_equal(from, to, sizes[i]);
        FI_GIVES(fi_trecvmsg(RX->ep, &look, FI_CLAIM), -FI_EINVAL);
        fi_await(&lab, TX->tx);
    }
}

static void discard_drops_it(void **state)
{
    struct fi_context context;
    struct fi_msg_tagged look = look_for(4, 0, &context);
    struct fi_cq_tagged_entry dropped;

    (void)state;
    arrive(300, 4);
    FI_OK(fi_trecvmsg(RX->ep, &look, FI_PEEK | FI_DISCARD));
    assert_int_equal(fi_await(&lab, RX->rx).len, 300);
    arrive(200000, 4);
    FI_OK(fi_trecvmsg(RX->ep, &look, FI_PEEK | FI_CLAIM));
    assert_int_equal(fi_await(&lab, RX->rx).len, 200000);
    FI_OK(fi_trecvmsg(RX->ep, &look, FI_CLAIM | FI_DISCARD));
    dropped = fi_await(&lab, RX->rx);
    assert_ptr_equal(dropped.op_context, &context);
    assert_int_equal(dropped.tag, 4);
    assert_int_equal(dropped.len, 200000);
    assert_int_equal(dropped.data, 12);
    fi_await(&lab, TX->tx);
    fi_await(&lab, TX->tx);
    FI_OK(fi_trecvmsg(RX->ep, &look, FI_PEEK));
    assert_int_equal(fi_await_error(&lab, RX->rx).err, FI_ENOMSG);
    fi_quiet(&lab, RX->rx);
}

/* ---- many into one buffer ------------------------------------------------------------------------------ */

static void multi_receive(void **state)
{
    struct iovec in = {to, 4096};
    struct fi_msg post = {.msg_iov = &in, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &in};
    size_t least = 512, bytes = sizeof(least);
    unsigned got = 0;
    uint64_t flags;

    (void)state;
    fill(4096, 1);
    FI_OK(fi_setopt(&RX->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
    least = 0;
    FI_OK(fi_getopt(&RX->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &bytes));
    assert_int_equal(least, 512);
    FI_OK(fi_recvmsg(RX->ep, &post, FI_MULTI_RECV));
    do {
        struct fi_cq_tagged_entry entry;

        FI_OK(fi_inject(TX->ep, from + got, 600, TX->peer));
        entry = fi_await(&lab, RX->rx);
        assert_ptr_equal(entry.op_context, &in);
        assert_int_equal(entry.len, 600);
        assert_true((char *)entry.buf >= to && (char *)entry.buf + 600 <= to + 4096);
        assert_memory_equal(entry.buf, from + got, 600);
        flags = entry.flags;
        assert_int_equal(flags & ~FI_MULTI_RECV, FI_RECV | FI_MSG);
        got++;
    } while (!(flags & FI_MULTI_RECV));
    assert_int_equal(got, 6);
}

#define CASE(name)         cmocka_unit_test_setup_teardown(name, open_all, close_all)
#define WITH(name, opened) cmocka_unit_test_setup_teardown(name, opened, close_all)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(tagged_sizes),
        CASE(untagged_is_apart),
        CASE(data_travels),
        CASE(inject_is_silent),
        CASE(vectors),
        CASE(tags_and_masks),
        CASE(directed),
        CASE(truncated),
        CASE(truncated_vectors),
        CASE(cancelled),
        CASE(cancelled_too_late),
        CASE(peer_closes),
        CASE(peek_nothing),
        CASE(peek_leaves_it),
        CASE(claim_takes_it),
        CASE(discard_drops_it),
        CASE(multi_receive),
        CASE(read_once),
        CASE(read_of_nothing_moves_things),
        WITH(read_of_nothing_moves_things, open_shared),
        WITH(undirected, open_directed_msg),
        WITH(one_queue_for_two, open_shared),
        WITH(tagged_sizes, open_directed_msg),
    };

    fi_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

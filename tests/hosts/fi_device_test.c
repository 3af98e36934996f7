/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory through libfabric's calls: every operation from and to it, with descriptors (FI_MR_HMEM) and without.
 * The CPU cannot touch it: a byte that does not go through the driver ends the test.
 */
#include "tests/support/fi_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { ROOM = (1 << 20) + 4096, KEY = 7 };

static struct fi_lab lab;
static struct device_buffer from, to;
static char near[ROOM], far[ROOM];
static bool registered;
static size_t at_rest; /* bytes pinned for the device: of both endpoints, where buffers are registered */

#define TX (&lab.side[0])
#define RX (&lab.side[1])

static void open_with(const struct fi_wish *wish, enum cuda_memory kind)
{
    fi_lab_open(&lab, wish);
    registered = wish->mr_mode & FI_MR_HMEM;
    assert_int_equal(lab.info->domain_attr->mr_mode, wish->mr_mode);
    assert_true(lab.info->caps & FI_HMEM);
    device_open(&lab, &from, kind, ROOM, registered);
    device_open(&lab, &to, kind, ROOM, registered);
    at_rest = cuda->pinned();
}

#define OPENS(name, memory, ...)                                                  \
    static int name(void **state)                                                 \
    {                                                                             \
        (void)state;                                                              \
        open_with(&(struct fi_wish){.caps = DEVICE_CAPS, ##__VA_ARGS__}, memory); \
        return 0;                                                                 \
    }

#define REGISTERED .mr_mode = FI_MR_HMEM
OPENS(open_registered, MEMORY_PLAIN, REGISTERED)
OPENS(open_found, MEMORY_PLAIN, .threading = FI_THREAD_SAFE)
OPENS(open_mapped, MEMORY_MAPPED, REGISTERED)
OPENS(open_pieces, MEMORY_PIECES, REGISTERED)
OPENS(open_pieces_found, MEMORY_PIECES)
OPENS(open_pool, MEMORY_POOL)
OPENS(open_managed, MEMORY_MANAGED, REGISTERED)
OPENS(open_managed_found, MEMORY_MANAGED)
OPENS(open_counting, MEMORY_PLAIN, REGISTERED, .counters = true, .selective = FI_SELECTIVE_COMPLETION)

static int close_all(void **state)
{
    (void)state;
    device_close(&from);
    device_close(&to);
    fi_lab_close(&lab);
    if (cuda->leaks())
        fail_msg("%s", cuda->leaks());
    return 0;
}

/* ---- messages ------------------------------------------------------------------------------------------ */

static const size_t sizes[] = {0, 1, 3, 8, 1024, 1025, 5000, 65536, 65537, 200000, 1 << 20};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void done_with(struct fid_cq *cq, const void *context, uint64_t flags, size_t bytes)
{
    struct fi_cq_tagged_entry done = fi_await(&lab, cq);

    assert_ptr_equal(done.op_context, context);
    assert_int_equal(done.flags, flags);
    if (flags & FI_RECV) {
        assert_int_equal(done.len, bytes);
        assert_null(done.buf);
    }
}

/* Posted before and after the message comes. */
static void tagged(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * SIZES; i++) {
        size_t bytes = sizes[i / 2];

        device_fill(&from, 0, bytes, i);
        device_clear(&to);
        if (i % 2)
            FI_OK(fi_trecv(RX->ep, to.at, ROOM, to.desc, FI_ADDR_UNSPEC, i, 0, &to));
        FI_OK(fi_tsend(TX->ep, from.at, bytes, from.desc, TX->peer, i, &from));
        if (!(i % 2)) {
            fi_pump(&lab);
            FI_OK(fi_trecv(RX->ep, to.at, ROOM, to.desc, RX->peer, i, 0, &to));
        }
        done_with(RX->rx, &to, FI_RECV | FI_TAGGED, bytes);
        done_with(TX->tx, &from, FI_SEND | FI_TAGGED, bytes);
        device_holds(&to, 0, bytes, i);
    }
}

static void untagged_to_and_from_the_host(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SIZES; i++) {
        host_fill(near, sizes[i], i);
        device_clear(&to);
        FI_OK(fi_recv(RX->ep, to.at, ROOM, to.desc, FI_ADDR_UNSPEC, &to));
        FI_OK(fi_send(TX->ep, near, sizes[i], NULL, TX->peer, near));
        done_with(RX->rx, &to, FI_RECV | FI_MSG, sizes[i]);
        done_with(TX->tx, near, FI_SEND | FI_MSG, sizes[i]);
        device_holds(&to, 0, sizes[i], i);
        memset(far, 0, sizes[i]);
        FI_OK(fi_recv(TX->ep, far, ROOM, NULL, FI_ADDR_UNSPEC, far));
        FI_OK(fi_send(RX->ep, to.at, sizes[i], to.desc, RX->peer, &to));
        done_with(TX->rx, far, FI_RECV | FI_MSG, sizes[i]);
        done_with(RX->tx, &to, FI_SEND | FI_MSG, sizes[i]);
        host_holds(far, sizes[i], i);
    }
}

/* What is shorter than nigh's limit is sent before it is received, as of the host; the rest waits. */
static void short_ones_do_not_wait(void **state)
{
    (void)state;
    device_fill(&from, 0, 100000, 3);
    FI_OK(fi_tsend(TX->ep, from.at, 60000, from.desc, TX->peer, 1, &from));
    done_with(TX->tx, &from, FI_SEND | FI_TAGGED, 60000);
    FI_OK(fi_tsend(TX->ep, from.at, 100000, from.desc, TX->peer, 2, &from));
    fi_quiet(&lab, TX->tx);
    FI_OK(fi_trecv(RX->ep, to.at, ROOM, to.desc, RX->peer, 2, 0, &to));
    done_with(TX->tx, &from, FI_SEND | FI_TAGGED, 100000);
    done_with(RX->rx, &to, FI_RECV | FI_TAGGED, 100000);
    device_holds(&to, 0, 100000, 3);
}

/* Messages from a device stay in order with those that were injected, long before anyone receives them. */
static void order_is_kept(void **state)
{
    struct device_buffer all;
    size_t at = 0;

    (void)state;
    device_open(&lab, &all, MEMORY_PLAIN, 4 << 20, true);
    for (unsigned i = 0; i < 40; i++) {
        size_t bytes = sizes[i % SIZES] / 2 + 1;

        host_fill(near, 5, i);
        if (i % 3) {
            assert_true(at + bytes <= all.bytes);
            device_fill(&all, at, bytes, i);
            FI_OK(fi_send(TX->ep, all.at + at, bytes, all.desc, TX->peer, NULL));
            at += bytes;
        } else {
            FI_OK(fi_inject(TX->ep, near, 5, TX->peer));
        }
    }
    for (unsigned i = 0; i < 40; i++) {
        size_t bytes = i % 3 ? sizes[i % SIZES] / 2 + 1 : 5;

        device_clear(&to);
        FI_OK(fi_recv(RX->ep, to.at, ROOM, to.desc, RX->peer, NULL));
        done_with(RX->rx, NULL, FI_RECV | FI_MSG, bytes);
        device_holds(&to, 0, bytes, i);
    }
    for (unsigned i = 0; i < 26; i++)
        fi_await(&lab, TX->tx);
    device_close(&all);
}

static void data_travels(void **state)
{
    struct fi_cq_tagged_entry got;

    (void)state;
    device_fill(&from, 0, 5000, 1);
    FI_OK(fi_trecv(RX->ep, to.at, ROOM, to.desc, RX->peer, 5, 0, &to));
    FI_OK(fi_tsenddata(TX->ep, from.at, 5000, from.desc, 0x1234, TX->peer, 5, &from));
    got = fi_await(&lab, RX->rx);
    assert_int_equal(got.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
    assert_int_equal(got.data, 0x1234);
    assert_int_equal(got.tag, 5);
    fi_await(&lab, TX->tx);
}

/* Parts here and there, at both ends. */
static void vectors(void **state)
{
    static const size_t lengths[] = {600, 90000};

    (void)state;
    for (int i = 0; i < 2; i++) {
        size_t bytes = lengths[i];
        struct iovec out[3] = {{from.at + 64, bytes}, {near, 10}, {from.at, 5}},
                     in[2] = {{far, 100}, {to.at + 32, ROOM - 32}};
        void *out_desc[3] = {from.desc, NULL, from.desc}, *in_desc[2] = {NULL, to.desc};

        device_clear(&to);
        device_fill(&from, 64, bytes, 9);
        device_fill(&from, 0, 5, 2);
        host_fill(near, 10, 4);
        FI_OK(fi_recvv(RX->ep, in, in_desc, 2, RX->peer, &in));
        FI_OK(fi_sendv(TX->ep, out, out_desc, 3, TX->peer, &out));
        done_with(RX->rx, &in, FI_RECV | FI_MSG, bytes + 15);
        done_with(TX->tx, &out, FI_SEND | FI_MSG, 0);
        host_holds(far, 100, 9);
        cuda->get(near, to.at + 32, bytes);
        memmove(near + 100, near, bytes);
        memcpy(near, far, 100);
        host_holds(near, bytes, 9);
        host_holds(near + bytes, 10, 4);
        host_holds(near + bytes + 10, 5, 2);
    }
}

/* Of a message that is too long what fits is kept, as in memory of the host, and nothing lies beyond. */
static void truncated(void **state)
{
    static const size_t lengths[] = {100, 5000, 100000};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct fi_cq_err_entry error;

        device_fill(&from, 0, lengths[i], i);
        device_clear(&to);
        FI_OK(fi_trecv(RX->ep, to.at, 64, to.desc, RX->peer, 1, 0, &to));
        FI_OK(fi_tsend(TX->ep, from.at, lengths[i], from.desc, TX->peer, 1, &from));
        error = fi_await_error(&lab, RX->rx);
        assert_int_equal(error.err, FI_ETRUNC);
        assert_ptr_equal(error.op_context, &to);
        assert_int_equal(error.len, 64);
        assert_int_equal(error.olen, lengths[i] - 64);
        device_holds(&to, 0, 64, i);
        done_with(TX->tx, &from, FI_SEND | FI_TAGGED, 0);
    }
}

static void multi_receive(void **state)
{
    struct iovec iov = {to.at, 5000};
    struct fi_msg msg = {
        .msg_iov = &iov, .desc = &to.desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &to};
    uint64_t flags = 0;
    size_t min = 700, at = 0;

    (void)state;
    FI_OK(fi_setopt(&RX->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
    FI_OK(fi_recvmsg(RX->ep, &msg, FI_MULTI_RECV));
    for (unsigned i = 0; !(flags & FI_MULTI_RECV); i++) {
        struct fi_cq_tagged_entry got;

        assert_true(i < 8);
        device_fill(&from, 0, 600, i);
        FI_OK(fi_send(TX->ep, from.at, 600, from.desc, TX->peer, &from));
        got = fi_await(&lab, RX->rx);
        flags = got.flags;
        assert_ptr_equal(got.op_context, &to);
        assert_int_equal(got.len, 600);
        assert_true((char *)got.buf >= to.at + at && (char *)got.buf + 600 <= to.at + 5000);
        at = (size_t)((char *)got.buf - to.at) + 600;
        device_holds(&to, at - 600, 600, i);
        fi_await(&lab, TX->tx);
    }
    assert_true(at > 5000 - 700 - 64);
}

/* Peeks until the message has come. */
static void claim(const struct fi_msg_tagged *msg)
{
    struct fi_cq_tagged_entry found;
    struct fi_cq_err_entry none = {0};
    time_t start = time(NULL);
    ssize_t rc;

    do {
        assert_true(time(NULL) - start < 60);
        fi_pump(&lab);
        FI_OK(fi_trecvmsg(RX->ep, msg, FI_PEEK | FI_CLAIM));
        while ((rc = fi_cq_read(RX->rx, &found, 1)) == -FI_EAGAIN)
            fi_pump(&lab);
    } while (rc == -FI_EAVAIL && fi_cq_readerr(RX->rx, &none, 0) == 1 && none.err == FI_ENOMSG);
    FI_GIVES(rc, 1);
    assert_int_equal(found.len, 100000);
}

static void claimed(void **state)
{
    struct iovec iov = {to.at, ROOM};
    struct fi_msg_tagged msg = {
        .msg_iov = &iov, .desc = &to.desc, .iov_count = 1, .addr = RX->peer, .tag = 3, .context = &msg};

    (void)state;
    device_fill(&from, 0, 100000, 6);
    FI_OK(fi_tsend(TX->ep, from.at, 100000, from.desc, TX->peer, 3, &from));
    claim(&msg);
    FI_OK(fi_trecvmsg(RX->ep, &msg, FI_CLAIM));
    done_with(RX->rx, &msg, FI_RECV | FI_TAGGED, 100000);
    done_with(TX->tx, &from, FI_SEND | FI_TAGGED, 0);
    device_holds(&to, 0, 100000, 6);
}

static void cancelled(void **state)
{
    (void)state;
    FI_OK(fi_trecv(RX->ep, to.at, ROOM, to.desc, RX->peer, 3, 0, &to));
    FI_OK(fi_cancel(&RX->ep->fid, &to));
    assert_int_equal(fi_await_error(&lab, RX->rx).err, FI_ECANCELED);
}

/* Whatever is under way when an endpoint is closed: what is pinned for it does not stay so. */
static void closed_in_between(void **state)
{
    (void)state;
    device_fill(&from, 0, 200000, 6);
    FI_OK(fi_trecv(RX->ep, to.at, ROOM, to.desc, RX->peer, 3, 0, &to));
    for (int i = 0; i < 5; i++)
        FI_OK(fi_tsend(TX->ep, from.at, 200000, from.desc, TX->peer, 4, &from));
    fi_pump(&lab);
    assert_int_equal(cuda->pinned(), at_rest);
    fi_side_close(TX);
    assert_int_equal(cuda->pinned(), at_rest / 2); /* the other's */
    assert_int_equal(fi_await_error(&lab, RX->rx).err, FI_ECONNRESET);
}

static void peer_goes(void **state)
{
    (void)state;
    device_fill(&from, 0, 200000, 6);
    FI_OK(fi_tsend(TX->ep, from.at, 200000, from.desc, TX->peer, 4, &from));
    fi_pump(&lab);
    fi_side_close(RX);
    assert_int_equal(fi_await_error(&lab, TX->tx).err, FI_ECONNRESET);
}

/* Many at a time need no more pinned memory than one, whatever nobody receives: to pin some, or to let go of it, would wait for
 * the host's kernels. */
static void staging_is_bounded(void **state)
{
    enum { BYTES = 8 << 20, TIMES = 36 };
    struct device_buffer large, there;

    (void)state;
    device_open(&lab, &large, MEMORY_PLAIN, BYTES, true);
    device_open(&lab, &there, MEMORY_PLAIN, BYTES, true);
    device_fill(&large, 0, BYTES, 1);
    cuda->hold(cuda->device(), true);
    for (unsigned i = 0; i < TIMES; i++)
        FI_OK(fi_tsend(TX->ep, large.at, BYTES, large.desc, TX->peer, 1, &large));
    assert_int_equal(cuda->pinned(), at_rest);
    for (unsigned i = 0; i < TIMES; i++) {
        FI_OK(fi_trecv(RX->ep, there.at, BYTES, there.desc, RX->peer, 1, 0, &there));
        fi_await(&lab, RX->rx);
        fi_await(&lab, TX->tx);
    }
    assert_int_equal(cuda->pinned(), at_rest);
    cuda->hold(cuda->device(), false);
    device_holds(&there, 0, BYTES, 1);
    device_close(&large);
    device_close(&there);
}

/* ---- beside the host's own work ------------------------------------------------------------------------- */

static void exchange(size_t bytes)
{
    FI_OK(fi_trecv(RX->ep, to.at, ROOM, to.desc, RX->peer, 1, 0, &to));
    FI_OK(fi_tsend(TX->ep, from.at, bytes, from.desc, TX->peer, 1, &from));
    done_with(RX->rx, &to, FI_RECV | FI_TAGGED, bytes);
    done_with(TX->tx, &from, FI_SEND | FI_TAGGED, bytes);
}

static void register_both(void)
{
    struct device_buffer *const buffers[] = {&from, &to};

    for (unsigned i = 0; i < 2; i++) {
        struct iovec iov = {buffers[i]->at, ROOM};
        struct fi_mr_attr attr = {.mr_iov = &iov,
                                  .iov_count = 1,
                                  .access = FI_SEND | FI_RECV,
                                  .iface = FI_HMEM_CUDA,
                                  .device.cuda = cuda->device()};

        FI_OK(fi_mr_regattr(lab.domain, &attr, 0, &buffers[i]->mr));
        buffers[i]->desc = fi_mr_desc(buffers[i]->mr);
    }
}

/* A message comes although a kernel waits for it, in memory that is seen for the first time too: neither copies wait
 * for the kernel nor memory that is pinned for them nor what is said to the driver of memory. */
static void beside_a_kernel(bool then_registered)
{
    device_fill(&from, 0, ROOM, 3);
    cuda->hold(cuda->device(), true);
    if (then_registered)
        register_both();
    exchange(8);
    exchange(5000);
    exchange(ROOM);
    cuda->hold(cuda->device(), false);
    device_holds(&to, 0, ROOM, 3);
    /* Nothing was forgotten over it. */
    for (unsigned i = 0; i < 50; i++) {
        device_clear(&to);
        device_fill(&from, 0, 65536, i);
        exchange(65536);
        device_holds(&to, 0, 65536, i);
    }
}

static void kernels_are_not_waited_for(void **state)
{
    (void)state;
    beside_a_kernel(false);
}

static void registered_beside_a_kernel(void **state)
{
    (void)state;
    beside_a_kernel(true);
}

/* The driver's calls that copy from memory that is not pinned return early: neither is a send too early for them, nor
 * do they come over what was received. */
static void copies_are_waited_for(void **state)
{
    unsigned looks;

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        size_t bytes = i % 2 ? 65536 : 8;

        device_clear(&to);
        device_fill(&from, 0, bytes, i);
        exchange(bytes);
        device_holds(&to, 0, bytes, i);
    }
    /* Once that is seen to, nobody looks. */
    looks = cuda->calls("cuStreamQuery");
    exchange(8);
    assert_int_equal(cuda->calls("cuStreamQuery"), looks);
}

/* Everything that the provider asks of the driver, the first time too, while the host captures a graph. */
static void beside_a_graph(size_t bytes)
{
    device_clear(&to);
    device_fill(&from, 0, bytes, 4);
    assert_true(cuda->capture(cuda->device(), true));
    register_both();
    exchange(bytes);
    assert_true(cuda->capture(cuda->device(), false));
    device_holds(&to, 0, bytes, 4);
}

static void no_graph_is_spoilt(void **state)
{
    (void)state;
    beside_a_graph(8);
}

static void no_graph_is_spoilt_by_long_ones(void **state)
{
    (void)state;
    beside_a_graph(ROOM);
}

/* What one kind of memory needs is not forgotten over another. */
static void kinds_side_by_side(void **state)
{
    struct device_buffer plain;

    (void)state;
    device_open(&lab, &plain, MEMORY_PLAIN, 4096, false);
    cuda->hold(cuda->device(), true);
    register_both();
    FI_OK(fi_trecv(RX->ep, far, ROOM, NULL, RX->peer, 9, 0, far));
    FI_OK(fi_tsend(TX->ep, plain.at, 4096, NULL, TX->peer, 9, near));
    fi_await(&lab, RX->rx);
    fi_await(&lab, TX->tx);
    cuda->hold(cuda->device(), false);
    for (unsigned i = 0; i < 20; i++) {
        device_clear(&to);
        device_fill(&from, 0, 5000, i);
        exchange(5000);
        device_holds(&to, 0, 5000, i);
    }
    device_close(&plain);
}

/* ---- remote memory ------------------------------------------------------------------------------------- */

static void writes_and_reads(void **state)
{
    struct fid_mr *region;

    (void)state;
    FI_OK(fi_mr_reg(lab.domain, far, ROOM, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &region, NULL));
    for (unsigned i = 1; i < SIZES; i++) {
        device_fill(&from, 0, sizes[i], i);
        device_clear(&to);
        FI_OK(fi_write(TX->ep, from.at, sizes[i], from.desc, TX->peer, 64, KEY, &from));
        done_with(TX->tx, &from, FI_RMA | FI_WRITE, 0);
        host_holds(far + 64, sizes[i], i);
        FI_OK(fi_read(TX->ep, to.at, sizes[i], to.desc, TX->peer, 64, KEY, &to));
        done_with(TX->tx, &to, FI_RMA | FI_READ, 0);
        device_holds(&to, 0, sizes[i], i);
    }
    device_fill(&from, 0, 3000, 77);
    FI_OK(fi_writedata(TX->ep, from.at, 3000, from.desc, 0xab, TX->peer, 0, KEY, &from));
    assert_int_equal(fi_await(&lab, RX->rx).data, 0xab);
    host_holds(far, 3000, 77);
    fi_await(&lab, TX->tx);
    FI_OK(fi_close(&region->fid));
}

/* Adds device memory to memory of the host's and fetches what was there before to a device. */
static void atomics(void **state)
{
    uint64_t ones[4] = {1, 1, 1, 1}, before[4];
    struct fid_mr *region;

    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        memcpy(far + i * 8, &i, sizeof(i));
    FI_OK(fi_mr_reg(lab.domain, far, ROOM, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &region, NULL));
    cuda->put(from.at, ones, sizeof(ones));
    FI_OK(fi_atomic(TX->ep, from.at, 4, from.desc, TX->peer, 0, KEY, FI_UINT64, FI_SUM, &from));
    done_with(TX->tx, &from, FI_ATOMIC | FI_WRITE, 0);
    FI_OK(fi_fetch_atomic(TX->ep, from.at, 4, from.desc, to.at, to.desc, TX->peer, 0, KEY, FI_UINT64, FI_SUM,
                          &to));
    done_with(TX->tx, &to, FI_ATOMIC | FI_READ, 0);
    cuda->get(before, to.at, sizeof(before));
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(before[i], i + 1);
        memcpy(&ones[i], far + i * 8, sizeof(ones[i]));
        assert_int_equal(ones[i], i + 2);
    }
    FI_OK(fi_close(&region->fid));
}

/* What peers do to a device's memory is copied there by its owner. */
static void remote_device(void **state)
{
    struct iovec iov = {to.at, ROOM};
    struct fi_mr_attr attr = {.mr_iov = &iov,
                              .iov_count = 1,
                              .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
                              .requested_key = KEY,
                              .iface = FI_HMEM_CUDA,
                              .device.cuda = cuda->device()};
    struct fid_mr *region;

    (void)state;
    FI_OK(fi_mr_regattr(lab.domain, &attr, 0, &region));
    for (unsigned i = 1; i < SIZES; i++) {
        device_clear(&to);
        device_fill(&from, 0, sizes[i], i);
        FI_OK(fi_write(TX->ep, from.at, sizes[i], from.desc, TX->peer, 64, KEY, &from));
        done_with(TX->tx, &from, FI_RMA | FI_WRITE, 0);
        device_holds(&to, 64, sizes[i], i);
        device_clear(&from);
        FI_OK(fi_read(TX->ep, from.at, sizes[i], from.desc, TX->peer, 64, KEY, &to));
        done_with(TX->tx, &to, FI_RMA | FI_READ, 0);
        device_holds(&from, 0, sizes[i], i);
        memset(far, 0, sizes[i]);
        FI_OK(fi_read(TX->ep, far, sizes[i], NULL, TX->peer, 64, KEY, far));
        done_with(TX->tx, far, FI_RMA | FI_READ, 0);
        host_holds(far, sizes[i], i);
    }
    host_fill(near, 3000, 77);
    device_clear(&to);
    FI_OK(fi_writedata(TX->ep, near, 3000, NULL, 0xab, TX->peer, ROOM - 3000, KEY, near));
    assert_int_equal(fi_await(&lab, RX->rx).data, 0xab);
    device_holds(&to, ROOM - 3000, 3000, 77);
    fi_await(&lab, TX->tx);
    FI_OK(fi_write(TX->ep, near, 3000, NULL, TX->peer, ROOM - 2999, KEY, near));
    assert_int_equal(fi_await_error(&lab, TX->tx).err, FI_EACCES);
    FI_OK(fi_close(&region->fid));
    FI_OK(fi_write(TX->ep, near, 8, NULL, TX->peer, 0, KEY, near));
    assert_int_equal(fi_await_error(&lab, TX->tx).err, FI_EACCES);
}

static void remote_device_atomics(void **state)
{
    uint64_t now[4] = {5, 6, 7, 8}, one[4] = {1, 1, 1, 1}, seven[4] = {7, 7, 7, 7}, before[4];
    struct fid_mr *region;

    (void)state;
    FI_OK(fi_mr_reg(lab.domain, to.at, ROOM, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &region, NULL));
    cuda->put(to.at + 8, now, sizeof(now));
    FI_OK(fi_atomic(TX->ep, one, 4, NULL, TX->peer, 8, KEY, FI_UINT64, FI_SUM, one));
    done_with(TX->tx, one, FI_ATOMIC | FI_WRITE, 0);
    cuda->get(now, to.at + 8, sizeof(now));
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(now[i], 6 + i);
    FI_OK(fi_compare_atomic(TX->ep, one, 4, NULL, seven, NULL, before, NULL, TX->peer, 8, KEY, FI_UINT64,
                            FI_CSWAP, before));
    done_with(TX->tx, before, FI_ATOMIC | FI_READ, 0);
    cuda->get(now, to.at + 8, sizeof(now));
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(before[i], 6 + i);
        assert_int_equal(now[i], 6 + i == 7 ? 1 : 6 + i);
    }
    FI_OK(fi_fetch_atomic(TX->ep, NULL, 4, NULL, before, NULL, TX->peer, 8, KEY, FI_UINT64, FI_ATOMIC_READ,
                          before));
    done_with(TX->tx, before, FI_ATOMIC | FI_READ, 0);
    assert_memory_equal(before, now, sizeof(now));
    FI_OK(fi_close(&region->fid));
}

/* The peer's operation fails, and only that one. */
static void remote_device_fails(void **state)
{
    static const char *const calls[] = {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
                                        "cuMemcpyDtoHAsync_v2", "cuMemcpy2DAsync_v2"};
    uint64_t one = 1;
    struct fid_mr *region;

    (void)state;
    FI_OK(fi_mr_reg(lab.domain, to.at, ROOM, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &region, NULL));
    for (int i = 0; i < 8; i++) {
        if (i % 2 == 0)
            cuda->fail_once(calls[i / 2], 0);
        if (i / 2 == 0)
            FI_OK(fi_write(TX->ep, near, 70000, NULL, TX->peer, 0, KEY, near));
        else if (i / 2 == 1)
            FI_OK(fi_read(TX->ep, far, 70000, NULL, TX->peer, 0, KEY, far));
        else
            FI_OK(fi_atomic(TX->ep, &one, 1, NULL, TX->peer, 0, KEY, FI_UINT64, FI_SUM, &one));
        if (i % 2 == 0)
            assert_int_equal(fi_await_error(&lab, TX->tx).err, FI_EIO);
        else
            fi_await(&lab, TX->tx);
    }
    FI_OK(fi_close(&region->fid));
}

/* ---- what the modes differ in -------------------------------------------------------------------------- */

/* With descriptors a message of the host's asks the driver nothing. */
static void host_memory_costs_no_call(void **state)
{
    unsigned before;

    (void)state;
    before = cuda->calls(NULL);
    host_fill(near, 5000, 1);
    FI_OK(fi_trecv(RX->ep, far, ROOM, NULL, RX->peer, 3, 0, far));
    FI_OK(fi_tsend(TX->ep, near, 5000, NULL, TX->peer, 3, near));
    done_with(RX->rx, far, FI_RECV | FI_TAGGED, 5000);
    fi_await(&lab, TX->tx);
    host_holds(far, 5000, 1);
    assert_int_equal(cuda->calls(NULL), before);
}

/* Calls without a place for a descriptor. */
static void injected(void **state)
{
    struct fid_mr *region;

    (void)state;
    FI_OK(fi_mr_reg(lab.domain, far, ROOM, FI_REMOTE_WRITE, 0, KEY, 0, &region, NULL));
    device_fill(&from, 0, 1000, 4);
    FI_OK(fi_tinject(TX->ep, from.at, 1000, TX->peer, 3));
    FI_OK(fi_inject_write(TX->ep, from.at, 1000, TX->peer, 8, KEY));
    device_clear(&from);
    FI_OK(fi_trecv(RX->ep, to.at, ROOM, NULL, RX->peer, 3, 0, &to));
    done_with(RX->rx, &to, FI_RECV | FI_TAGGED, 1000);
    device_holds(&to, 0, 1000, 4);
    FI_OK(fi_write(TX->ep, near, 1, NULL, TX->peer, 0, KEY, near));
    done_with(TX->tx, near, FI_RMA | FI_WRITE, 0);
    fi_quiet(&lab, TX->tx);
    host_holds(far + 8, 1000, 4);
    FI_OK(fi_close(&region->fid));
}

/* Plain registration finds out, too. */
static void found_when_registered(void **state)
{
    struct fid_mr *mr;

    (void)state;
    FI_OK(fi_mr_reg(lab.domain, from.at, 64, FI_SEND, 0, KEY, 0, &mr, NULL));
    device_fill(&from, 0, 64, 4);
    FI_OK(fi_tsend(TX->ep, from.at, 64, fi_mr_desc(mr), TX->peer, 3, NULL));
    FI_OK(fi_trecv(RX->ep, far, ROOM, NULL, RX->peer, 3, 0, far));
    done_with(RX->rx, far, FI_RECV | FI_TAGGED, 64);
    host_holds(far, 64, 4);
    fi_await(&lab, TX->tx);
    FI_OK(fi_close(&mr->fid));
}

/* Of the host's memory where nobody says what it is: ranges, and all of it. */
static void the_hosts_is_found(void **state)
{
    struct iovec iov = {far, 4096};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = far};
    struct fid_mr *all, *some;
    unsigned before;

    (void)state;
    FI_OK(fi_mr_reg(lab.domain, NULL, UINT64_MAX, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &all, NULL));
    FI_OK(fi_mr_reg(lab.domain, far, 64, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY + 1, 0, &some, NULL));
    host_fill(near, 64, 1);
    FI_OK(fi_write(TX->ep, near, 64, NULL, TX->peer, (uintptr_t)far + 64, KEY, near));
    done_with(TX->tx, near, FI_RMA | FI_WRITE, 0);
    host_holds(far + 64, 64, 1);
    FI_GIVES(fi_write(TX->ep, near, 64, fi_mr_desc(some), TX->peer, 0, KEY + 1, near), -FI_EINVAL);
    FI_OK(fi_write(TX->ep, far + 64, 64, NULL, TX->peer, 0, KEY + 1, near));
    done_with(TX->tx, near, FI_RMA | FI_WRITE, 0);
    host_holds(far, 64, 1);
    FI_OK(fi_close(&all->fid));
    FI_OK(fi_close(&some->fid));
    /* A buffer for many messages is filled in place. */
    before = cuda->calls(NULL);
    FI_OK(fi_recvmsg(RX->ep, &msg, FI_MULTI_RECV));
    before = cuda->calls(NULL) - before;
    assert_int_equal(before, 1);
    FI_OK(fi_inject(TX->ep, near, 8, TX->peer));
    assert_ptr_equal(fi_await(&lab, RX->rx).buf, far);
    host_holds(far, 8, 1);
}

/* What the driver lends of the host's memory the CPU may touch. */
static void pinned_memory_is_the_hosts(void **state)
{
    struct device_buffer pinned;
    unsigned before;

    (void)state;
    device_open(&lab, &pinned, MEMORY_HOST, 4096, true);
    before = cuda->calls("cuMemcpyDtoHAsync_v2");
    host_fill(pinned.at, 4096, 1);
    FI_OK(fi_trecv(RX->ep, far, ROOM, NULL, RX->peer, 3, 0, far));
    FI_OK(fi_tsend(TX->ep, pinned.at, 4096, pinned.desc, TX->peer, 3, near));
    done_with(RX->rx, far, FI_RECV | FI_TAGGED, 4096);
    fi_await(&lab, TX->tx);
    host_holds(far, 4096, 1);
    assert_int_equal(cuda->calls("cuMemcpyDtoHAsync_v2"), before);
    device_close(&pinned);
}

static void counts(struct fid_cntr *cntr, uint64_t value, uint64_t errors)
{
    time_t start = time(NULL);

    while ((fi_cntr_read(cntr) < value || fi_cntr_readerr(cntr) < errors) && time(NULL) - start < 60)
        fi_pump(&lab);
    assert_int_equal(fi_cntr_read(cntr), value);
    assert_int_equal(fi_cntr_readerr(cntr), errors);
}

static void counted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        FI_OK(fi_trecv(RX->ep, to.at, ROOM, to.desc, RX->peer, 3, 0, &to));
        FI_OK(fi_tsend(TX->ep, from.at, sizes[3 * i + 2], from.desc, TX->peer, 3, &from));
        counts(RX->cntr[FI_RECVS], i + 1, 0);
        counts(TX->cntr[FI_SENDS], i + 1, 0);
    }
    fi_quiet(&lab, TX->tx);
    cuda->fail_once("cuMemcpy2DAsync_v2", 0);
    FI_OK(fi_trecv(RX->ep, to.at, ROOM, to.desc, RX->peer, 3, 0, &to));
    FI_OK(fi_tsend(TX->ep, from.at, 8, from.desc, TX->peer, 3, &from));
    counts(RX->cntr[FI_RECVS], 3, 1);
    assert_int_equal(fi_await_error(&lab, RX->rx).err, FI_EIO);
}

#define CASE(name, opened)                                \
    {                                                     \
#name ": " #opened, name, opened, close_all, NULL \
    }

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(tagged, open_registered),
        CASE(tagged, open_found),
        CASE(tagged, open_mapped),
        CASE(tagged, open_pieces),
        CASE(tagged, open_pool),
        CASE(tagged, open_managed),
        CASE(tagged, open_managed_found),
        CASE(untagged_to_and_from_the_host, open_registered),
        CASE(untagged_to_and_from_the_host, open_found),
        CASE(short_ones_do_not_wait, open_registered),
        CASE(order_is_kept, open_registered),
        CASE(data_travels, open_registered),
        CASE(vectors, open_registered),
        CASE(vectors, open_found),
        CASE(truncated, open_registered),
        CASE(multi_receive, open_registered),
        CASE(multi_receive, open_found),
        CASE(claimed, open_registered),
        CASE(cancelled, open_registered),
        CASE(closed_in_between, open_registered),
        CASE(peer_goes, open_registered),
        CASE(staging_is_bounded, open_registered),
        CASE(kernels_are_not_waited_for, open_registered),
        CASE(kernels_are_not_waited_for, open_found),
        CASE(kernels_are_not_waited_for, open_pieces_found),
        CASE(kernels_are_not_waited_for, open_pool),
        CASE(kernels_are_not_waited_for, open_managed_found),
        CASE(registered_beside_a_kernel, open_found),
        CASE(registered_beside_a_kernel, open_pieces_found),
        CASE(copies_are_waited_for, open_registered),
        CASE(copies_are_waited_for, open_found),
        CASE(copies_are_waited_for, open_pieces_found),
        CASE(copies_are_waited_for, open_pool),
        CASE(copies_are_waited_for, open_managed_found), /* a GPU's: the fake's copies are in time */
        CASE(kinds_side_by_side, open_pieces_found),
        CASE(no_graph_is_spoilt_by_long_ones, open_found),
        CASE(no_graph_is_spoilt_by_long_ones, open_pieces_found),
        CASE(no_graph_is_spoilt, open_found),
        CASE(no_graph_is_spoilt, open_pieces_found),
        CASE(writes_and_reads, open_registered),
        CASE(writes_and_reads, open_found),
        CASE(writes_and_reads, open_pieces),
        CASE(writes_and_reads, open_pool),
        CASE(writes_and_reads, open_managed),
        CASE(atomics, open_registered),
        CASE(atomics, open_found),
        CASE(remote_device, open_registered),
        CASE(remote_device, open_found),
        CASE(remote_device, open_pieces),
        CASE(remote_device, open_managed_found),
        CASE(remote_device_atomics, open_found),
        CASE(remote_device_fails, open_found),
        CASE(host_memory_costs_no_call, open_registered),
        CASE(injected, open_found),
        CASE(found_when_registered, open_found),
        CASE(the_hosts_is_found, open_found),
        CASE(pinned_memory_is_the_hosts, open_registered),
        CASE(counted, open_counting),
    };

    fi_find();
    device_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory where something is missing or fails: no driver, what is not asked for, each call of the driver once. */
#include "tests/support/fi_device.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROOM = 1 << 18, LONG = 16 << 20 };

static struct fi_lab lab;
static struct device_buffer from, to;
static char near[ROOM], long_one[LONG];

#define TX (&lab.side[0])
#define RX (&lab.side[1])

static void open_lab(void)
{
    fi_lab_open(&lab, &(struct fi_wish){.caps = DEVICE_CAPS, .mr_mode = FI_MR_HMEM});
}

static void close_lab(void)
{
    device_close(&from);
    device_close(&to);
    fi_lab_close(&lab);
    if (cuda->leaks())
        fail_msg("%s", cuda->leaks());
}

static void open_buffers(void)
{
    device_open(&lab, &from, MEMORY_PLAIN, ROOM, true);
    device_open(&lab, &to, MEMORY_PLAIN, ROOM, true);
}

/* ---- what is offered ----------------------------------------------------------------------------------- */

/* What asking for `caps` gives; the capabilities, if it is granted. */
static int ask(uint64_t caps, uint64_t *granted)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    int rc;

    hints->caps = caps;
    hints->domain_attr->mr_mode = FI_MR_HMEM;
    rc = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
    if (!rc)
        *granted = info->caps;
    fi_freeinfo(info);
    fi_freeinfo(hints);
    return rc;
}

static int alone = -1; /* how the process without a driver ended */
static char alone_log[1 << 18];

/* In a process of its own, and before this one has the fake. */
static void run_alone(void)
{
    size_t used = 0;
    int pipes[2];
    ssize_t got;
    pid_t child;

    if (pipe(pipes))
        abort();
    child = fork();
    if (!child) {
        uint64_t granted = 0;

        if (dlopen("libcuda.so.1", RTLD_NOW))
            _exit(77);
        dup2(pipes[1], STDERR_FILENO);
        setenv("FI_LOG_LEVEL", "info", 1);
        _exit(ask(FI_MSG | FI_HMEM, &granted) == -FI_ENODATA && ask(FI_MSG, &granted) == 0 ? 0 : 1);
    }
    close(pipes[1]);
    while ((got = read(pipes[0], alone_log + used, sizeof(alone_log) - 1 - used)) > 0)
        used += (size_t)got;
    close(pipes[0]);
    waitpid(child, &alone, 0);
}

/* Its log says why. */
static void without_a_driver(void **state)
{
    (void)state;
    if (WIFEXITED(alone) && WEXITSTATUS(alone) == 77) {
        print_message("skipped: this machine has a CUDA driver\n");
        skip();
    }
    assert_int_equal(alone, 0);
    if (!strstr(alone_log, "FI_HMEM is not offered: there is no libcuda.so.1"))
        fail_msg("the log does not say why: %s", alone_log);
}

/* Who does not ask for device memory never meets the driver. */
static void not_asked_for(void **state)
{
    uint64_t granted;
    struct fid_mr *mr;
    struct iovec iov = {near, 64};
    struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = FI_SEND, .iface = FI_HMEM_CUDA};
    int value = FI_HMEM_P2P_ENABLED;

    (void)state;
    FI_OK(ask(FI_MSG | FI_TAGGED, &granted));
    assert_false(granted & FI_HMEM);
    FI_OK(ask(0, &granted));
    assert_false(granted & FI_HMEM);
    fi_lab_open(&lab, &(struct fi_wish){0});
    FI_GIVES(fi_mr_regattr(lab.domain, &attr, 0, &mr), -FI_ENOSYS);
    FI_GIVES(fi_setopt(&TX->ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &value, sizeof(value)),
             -FI_ENOPROTOOPT);
    fi_lab_close(&lab);
    assert_int_equal(cuda->calls(NULL), 0);
}

/* A driver that does not work is none, until it does. */
static void driver_does_not_start(void **state)
{
    uint64_t granted;

    (void)state;
    cuda->set_broken(true);
    FI_GIVES(ask(FI_MSG | FI_HMEM, &granted), -FI_ENODATA);
    cuda->set_broken(false);
    setenv("NIGH_CUDA", "Off", 1);
    FI_GIVES(ask(FI_MSG | FI_HMEM, &granted), -FI_ENODATA);
    unsetenv("NIGH_CUDA");
    cuda->set_devices(0);
    FI_GIVES(ask(FI_MSG | FI_HMEM, &granted), -FI_ENODATA);
    cuda->set_devices(-1);
    FI_OK(ask(FI_MSG | FI_HMEM, &granted));
    assert_true(granted & FI_HMEM);
}

static void options(void **state)
{
    enum { CUDA_API_PERMITTED = 10 }; /* FI_OPT_CUDA_API_PERMITTED, since libfabric 1.18 */
    int value = FI_HMEM_P2P_REQUIRED;
    size_t bytes = sizeof(value);
    struct fid *ep;
    bool yes = true, no = false;

    (void)state;
    open_lab();
    ep = &TX->ep->fid;
    FI_GIVES(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &value, bytes), -FI_EOPNOTSUPP);
    FI_OK(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &value, &bytes));
    assert_int_equal(value, FI_HMEM_P2P_ENABLED);
    value = FI_HMEM_P2P_DISABLED;
    FI_OK(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &value, bytes));
    value = 9;
    FI_GIVES(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &value, bytes), -FI_EINVAL);
    FI_OK(fi_setopt(ep, FI_OPT_ENDPOINT, CUDA_API_PERMITTED, &yes, sizeof(yes)));
    FI_GIVES(fi_setopt(ep, FI_OPT_ENDPOINT, CUDA_API_PERMITTED, &no, sizeof(no)), -FI_EOPNOTSUPP);
    close_lab();
}

static int register_bytes(enum fi_hmem_iface iface, int device, uint64_t access, size_t bytes)
{
    struct iovec iov = {from.at, bytes};
    struct fi_mr_attr attr = {.mr_iov = &iov,
                              .iov_count = 1,
                              .access = access,
                              .iface = iface,
                              .requested_key = 5,
                              .device.cuda = device};
    struct fid_mr *mr = NULL;
    int rc = fi_mr_regattr(lab.domain, &attr, 0, &mr);

    if (!rc)
        FI_OK(fi_close(&mr->fid));
    return rc;
}

static int register_as(enum fi_hmem_iface iface, int device, uint64_t access)
{
    return register_bytes(iface, device, access, 64);
}

static void registration(void **state)
{
    (void)state;
    open_lab();
    open_buffers();
    FI_OK(register_as(FI_HMEM_CUDA, cuda->device(), FI_SEND));
    FI_GIVES(register_as(FI_HMEM_CUDA, cuda->device() + 1, FI_SEND), -FI_EINVAL);
    FI_OK(register_as(FI_HMEM_CUDA, cuda->device(), FI_SEND | FI_REMOTE_READ));
    FI_GIVES(register_as(FI_HMEM_ROCR, cuda->device(), FI_SEND), -FI_ENOSYS);
    FI_GIVES(register_bytes(FI_HMEM_CUDA, cuda->device(), FI_SEND, (size_t)1 << 40), -FI_EFAULT);
    close_lab();
}

/* ---- the heap is small --------------------------------------------------------------------------------- */

/* What is sent from devices takes no room in it, however much of it waits. */
static void heap_is_small(void **state)
{
    enum { SENDS = 100 };

    (void)state;
    setenv("NIGH_HEAP", "4M", 1);
    open_lab();
    unsetenv("NIGH_HEAP");
    device_open(&lab, &from, MEMORY_PLAIN, LONG, true);
    device_open(&lab, &to, MEMORY_PLAIN, LONG, true);
    device_fill(&from, 0, LONG, 7);
    FI_OK(fi_tsend(TX->ep, from.at, LONG, from.desc, TX->peer, 1, &from));
    for (int i = 0; i < SENDS; i++)
        FI_OK(fi_tsend(TX->ep, from.at, ROOM, from.desc, TX->peer, 1, &from));
    for (int i = 0; i < SENDS + 1; i++) {
        FI_OK(fi_trecv(RX->ep, to.at, LONG, to.desc, RX->peer, 1, 0, &to));
        assert_int_equal(fi_await(&lab, RX->rx).len, i ? ROOM : LONG);
        fi_await(&lab, TX->tx);
    }
    device_holds(&to, 0, LONG, 7);
    close_lab();
}

/* ---- an endpoint is closed before its operations end ---------------------------------------------------- */

/* Staging memory of all kinds is in use, each time by the records of the time before. */
static void closed_and_opened_again(void **state)
{
    struct fi_side side = {0};
    size_t at_rest;
    struct fi_msg multi = {.iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &to};

    (void)state;
    open_lab();
    open_buffers();
    at_rest = cuda->pinned();
    multi.msg_iov = &(struct iovec){to.at, ROOM};
    multi.desc = &to.desc;
    for (int life = 0; life < 3; life++) {
        fi_side_open(&lab, &(struct fi_wish){0}, &side);
        side.peer = fi_side_insert(&side, RX->name);
        FI_OK(fi_recvmsg(side.ep, &multi, FI_MULTI_RECV));
        for (uint64_t tag = 0; tag < 4; tag++) {
            FI_OK(fi_trecv(side.ep, to.at, ROOM, to.desc, FI_ADDR_UNSPEC, tag, 0, &to));
            FI_OK(fi_tsend(side.ep, from.at, ROOM, from.desc, side.peer, 9, &from));
            FI_OK(fi_tsend(side.ep, from.at, 5000, from.desc, side.peer, 9, &from));
        }
        fi_pump(&lab);
        fi_side_close(&side);
        assert_int_equal(cuda->pinned(), at_rest);
    }
    close_lab();
}

/* A message of which a part has come when its sender closes: an error, of the place in the buffer
 * where it was to go. */
static void sender_closes_in_between(void **state)
{
    struct fi_msg multi = {.iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &to};
    struct fi_cq_err_entry error;

    (void)state;
    setenv("NIGH_PATH", "chunked", 1);
    open_lab();
    unsetenv("NIGH_PATH");
    device_open(&lab, &to, MEMORY_PLAIN, LONG, true);
    multi.msg_iov = &(struct iovec){to.at, LONG};
    multi.desc = &to.desc;
    FI_OK(fi_recvmsg(RX->ep, &multi, FI_MULTI_RECV));
    /* Told of, so that both have attached: an injected one comes before its sender has. */
    FI_OK(fi_send(TX->ep, long_one, 64, NULL, TX->peer, NULL));
    assert_ptr_equal(fi_await(&lab, RX->rx).buf, to.at);
    fi_await(&lab, TX->tx);
    FI_OK(fi_send(TX->ep, long_one, LONG - 64, NULL, TX->peer, long_one));
    for (int i = 0; i < 4; i++)
        fi_pump(&lab);
    fi_side_close(TX);
    error = fi_await_error(&lab, RX->rx);
    assert_ptr_equal(error.op_context, &to);
    assert_int_equal(error.err, FI_ECONNRESET);
    assert_ptr_equal(error.buf, to.at + 64);
    close_lab();
}

/* ---- each call fails once ------------------------------------------------------------------------------ */

/* 0, or the error of the operation that ends there. */
static int ends(struct fid_cq *cq, const void *context)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    time_t start = time(NULL);
    ssize_t rc;

    while ((rc = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN) {
        assert_true(time(NULL) - start < 60);
        fi_pump(&lab);
    }
    if (rc == 1) {
        assert_ptr_equal(entry.op_context, context);
        return 0;
    }
    FI_GIVES(rc, -FI_EAVAIL);
    FI_GIVES(fi_cq_readerr(cq, &error, 0), 1);
    assert_ptr_equal(error.op_context, context);
    return error.err;
}

/* A message there, a read back: 0, or what the first that failed said. What fails at the sender has failed at the
 * receiver. */
static int exchange(void)
{
    static char region[ROOM];
    struct fid_mr *mr;
    int sent, received;
    ssize_t rc;

    device_clear(&to);
    device_fill(&from, 0, ROOM, 5);
    rc = fi_trecv(RX->ep, to.at, ROOM, to.desc, RX->peer, 1, 0, &to);
    if (rc)
        return (int)-rc;
    FI_OK(fi_tsend(TX->ep, from.at, ROOM, from.desc, TX->peer, 1, &from));
    received = ends(RX->rx, &to);
    sent = ends(TX->tx, &from);
    if (received || sent) {
        assert_int_equal(received, FI_EIO);
        return received;
    }
    device_holds(&to, 0, ROOM, 5);
    FI_OK(fi_mr_reg(lab.domain, region, ROOM, FI_REMOTE_READ, 0, 5, 0, &mr, NULL));
    rc = -fi_read(TX->ep, to.at, ROOM, to.desc, TX->peer, 0, 5, &to);
    if (!rc)
        rc = ends(TX->tx, &to);
    FI_OK(fi_close(&mr->fid));
    return (int)rc;
}

static int open_one(void)
{
    struct iovec iov;
    struct fi_mr_attr attr = {.mr_iov = &iov,
                              .iov_count = 1,
                              .access = FI_SEND,
                              .requested_key = 9,
                              .iface = FI_HMEM_CUDA,
                              .device.cuda = cuda->device()};
    int rc;

    from = (struct device_buffer){.at = cuda->alloc(MEMORY_MAPPED, cuda->device(), ROOM), .bytes = ROOM};
    iov = (struct iovec){from.at, ROOM};
    rc = fi_mr_regattr(lab.domain, &attr, 0, &from.mr);
    if (!rc)
        from.desc = fi_mr_desc(from.mr);
    return rc;
}

/* Registration fails, if it asks for that at all, and leaves nothing: for the device's own context where the host works
 * in none. */
static void registering_fails(void **state)
{
    static const char *const calls[] = {"cuPointerGetAttributes", "cuDevicePrimaryCtxRetain",
                                        "cuCtxPushCurrent_v2",    "cuThreadExchangeStreamCaptureMode",
                                        "cuStreamCreate",         "cuCtxPopCurrent_v2"};
    unsigned before;
    int rc;

    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        open_lab();
        before = cuda->calls(calls[i]);
        cuda->fail_once(calls[i], 0);
        rc = open_one();
        /* On a real device the host has a context, and the device's own is not asked for. */
        assert_true(cuda->calls(calls[i]) > before || getenv("NIGH_TEST_GPU"));
        FI_GIVES(rc, cuda->calls(calls[i]) > before ? -FI_EIO : 0);
        device_close(&from);
        cuda->fail_once(NULL, 0);
        FI_OK(open_one());
        close_lab();
    }
}

/* What is sent before the two have met is staged. */
static void meet(void)
{
    FI_OK(fi_trecv(RX->ep, near, 8, NULL, RX->peer, 9, 0, &to));
    FI_OK(fi_tsend(TX->ep, long_one, 8, NULL, TX->peer, 9, &from));
    fi_await(&lab, TX->tx);
    fi_await(&lab, RX->rx);
}

/* Whatever copies: the failure is told once, as an error of that operation, and the next one works. */
static void copying_fails(void **state)
{
    static const struct {
        const char *call;
        unsigned after;
        enum cuda_memory from, to;
    } points[] = {
        {"cuCtxPushCurrent_v2", 1, MEMORY_PLAIN, MEMORY_HOST},
        {"cuCtxPushCurrent_v2", 2, MEMORY_HOST, MEMORY_PLAIN},
        {"cuCtxPushCurrent_v2", 1, MEMORY_PLAIN, MEMORY_PLAIN},
        {"cuCtxPopCurrent_v2", 1, MEMORY_PLAIN, MEMORY_HOST},
        {"cuCtxPopCurrent_v2", 2, MEMORY_HOST, MEMORY_PLAIN},
        {"cuCtxPopCurrent_v2", 1, MEMORY_PLAIN, MEMORY_PLAIN},
        {"cuMemcpyDtoHAsync_v2", 0, MEMORY_PLAIN, MEMORY_HOST},
        {"cuMemcpyHtoDAsync_v2", 0, MEMORY_HOST, MEMORY_PLAIN},
        {"cuThreadExchangeStreamCaptureMode", 2, MEMORY_PLAIN, MEMORY_HOST},
        {"cuThreadExchangeStreamCaptureMode", 3, MEMORY_HOST, MEMORY_PLAIN},
        {"cuMemcpyHtoDAsync_v2", 1, MEMORY_HOST, MEMORY_PLAIN},
        {"cuMemcpyDtoDAsync_v2", 0, MEMORY_PLAIN, MEMORY_PLAIN},
        {"cuEventQuery", 0, MEMORY_PLAIN, MEMORY_HOST},
        {"cuEventQuery", 0, MEMORY_PLAIN, MEMORY_PLAIN},
        {"cuEventRecord", 0, MEMORY_PLAIN, MEMORY_HOST},
        {"cuEventRecord", 0, MEMORY_PLAIN, MEMORY_PLAIN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        open_lab();
        device_open(&lab, &from, points[i].from, ROOM, true);
        device_open(&lab, &to, points[i].to, ROOM, true);
        meet();
        cuda->fail_once(points[i].call, points[i].after);
        if (exchange() != FI_EIO)
            fail_msg("%s fails after %u, and nobody is told", points[i].call, points[i].after);
        assert_int_equal(exchange(), 0);
        close_lab();
    }
}

static int short_exchange(void)
{
    device_clear(&to);
    device_fill(&from, 0, 1001, 6);
    FI_OK(fi_trecv(RX->ep, to.at, ROOM, to.desc, RX->peer, 1, 0, &to));
    FI_OK(fi_tsend(TX->ep, from.at, 1001, from.desc, TX->peer, 1, &from));
    fi_await(&lab, TX->tx);
    fi_await(&lab, RX->rx);
    device_holds(&to, 0, 1001, 6);
    return 0;
}

/* A context that cannot be told is waited for each time; memory that needs no telling is none the worse. */
static void telling_fails(void **state)
{
    static const char *const calls[] = {"cuCtxGetFlags", "cuCtxSetFlags"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        open_lab();
        device_open(&lab, &from, MEMORY_PIECES, ROOM, true);
        device_open(&lab, &to, MEMORY_PIECES, ROOM, true);
        for (int turn = 0; turn < 3; turn++) {
            cuda->fail_once(calls[i], 0);
            short_exchange();
            cuda->fail_once(calls[i], 0);
            assert_int_equal(exchange(), 0);
        }
        close_lab();
    }
}

/* Without it copies are slower, not wrong; and whatever cannot be let go of cannot be helped. */
static void pinning_fails(void **state)
{
    static const char *const calls[] = {"cuMemHostRegister_v2", "cuMemHostRegister_v2", "cuMemHostUnregister",
                                        "cuStreamDestroy_v2"};

    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        open_lab();
        if (i == 0) /* the slot */
            cuda->fail_once(calls[i], 0);
        open_buffers();
        if (i > 0)
            cuda->fail_once(calls[i], 0);
        FI_OK(short_exchange());
        assert_int_equal(exchange(), 0);
        close_lab();
    }
}

/* Whose streams and memory went with it, and the host makes another, maybe in the same place. */
static void context_is_destroyed(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.caps = DEVICE_CAPS});
    for (int life = 0; life < 3; life++) {
        device_open(&lab, &from, MEMORY_PLAIN, ROOM, false);
        device_open(&lab, &to, MEMORY_PLAIN, ROOM, false);
        assert_int_equal(exchange(), 0);
        cuda->destroy_context(cuda->device());
        cuda->create_context(cuda->device());
        device_close(&from);
        device_close(&to);
    }
    close_lab();
}

/* The buffers are no more. */
static int exchange_in_nothing(void)
{
    int received;

    FI_OK(fi_trecv(RX->ep, to.at, ROOM, to.desc, RX->peer, 1, 0, &to));
    FI_OK(fi_tsend(TX->ep, from.at, ROOM, from.desc, TX->peer, 1, &from));
    received = ends(RX->rx, &to);
    assert_int_equal(ends(TX->tx, &from), FI_EIO);
    return received;
}

/* What was registered in it fails; what is registered anew does not. */
static void registered_in_it(void **state)
{
    (void)state;
    open_lab();
    open_buffers();
    assert_int_equal(exchange(), 0);
    cuda->destroy_context(cuda->device());
    assert_int_equal(exchange_in_nothing(), FI_EIO);
    cuda->create_context(cuda->device());
    assert_int_equal(exchange_in_nothing(), FI_EIO);
    device_close(&from);
    device_close(&to);
    open_buffers();
    assert_int_equal(exchange(), 0);
    close_lab();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_driver),
        cmocka_unit_test(not_asked_for),
        cmocka_unit_test(driver_does_not_start),
        cmocka_unit_test(options),
        cmocka_unit_test(registration),
        cmocka_unit_test(heap_is_small),
        cmocka_unit_test(sender_closes_in_between),
        cmocka_unit_test(closed_and_opened_again),
        cmocka_unit_test(registering_fails),
        cmocka_unit_test(copying_fails),
        cmocka_unit_test(pinning_fails),
        cmocka_unit_test(telling_fails),
        cmocka_unit_test(context_is_destroyed),
        cmocka_unit_test(registered_in_it),
    };

    fi_find();
    run_alone();
    device_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

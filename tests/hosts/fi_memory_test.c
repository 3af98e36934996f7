/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory through libfabric's calls: reads, writes, atomics, keys, and the counters that tell of them. */
#include "tests/support/fi.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

enum { ROOM = 1 << 18, KEY = 77 };

static struct fi_lab lab;
static char near[ROOM], far[ROOM];
static struct fid_mr *region;

#define TX (&lab.side[0])
#define RX (&lab.side[1])

static void register_far(void)
{
    FI_OK(fi_mr_reg(lab.domain, far, ROOM, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &region, NULL));
    assert_int_equal(fi_mr_key(region), KEY);
    for (int i = 0; i < ROOM; i++) {
        near[i] = (char)(i * 3 + 1);
        far[i] = (char)(i * 5 + 2);
    }
}

static int open_all(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){0});
    register_far();
    return 0;
}

static int open_counting(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.counters = true, .selective = FI_SELECTIVE_COMPLETION});
    register_far();
    return 0;
}

static int open_telling(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.counters = true});
    register_far();
    return 0;
}

static int open_without_events(void **state)
{
    (void)state;
    fi_lab_open(&lab,
                &(struct fi_wish){.caps = FI_MSG | FI_RMA, .counters = true, .tx_op_flags = FI_COMPLETION});
    register_far();
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    if (region)
        FI_OK(fi_close(&region->fid));
    region = NULL;
    fi_lab_close(&lab);
    return 0;
}

/* ---- reads and writes ---------------------------------------------------------------------------------- */

static void writes_and_reads(void **state)
{
    static const size_t sizes[] = {1, 8, 100, 5000, 200000};

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct fi_cq_tagged_entry done;

        FI_OK(fi_write(TX->ep, near, sizes[i], NULL, TX->peer, 64, KEY, &near[1]));
        done = fi_await(&lab, TX->tx);
        assert_ptr_equal(done.op_context, &near[1]);
        assert_int_equal(done.flags, FI_RMA | FI_WRITE);
        assert_memory_equal(far + 64, near, sizes[i]);
        assert_int_equal(far[63], (char)(63 * 5 + 2));
        memset(near, 0, sizes[i]);
        FI_OK(fi_read(TX->ep, near, sizes[i], NULL, TX->peer, 64, KEY, &near[2]));
        done = fi_await(&lab, TX->tx);
        assert_int_equal(done.flags, FI_RMA | FI_READ);
        assert_memory_equal(far + 64, near, sizes[i]);
    }
}

static void vectors(void **state)
{
    struct iovec parts[3] = {{near, 10}, {near + 100, 5000}, {near + 6000, 1}};

    (void)state;
    FI_OK(fi_writev(TX->ep, parts, NULL, 3, TX->peer, 0, KEY, NULL));
    fi_await(&lab, TX->tx);
    assert_memory_equal(far, near, 10);
    assert_memory_equal(far + 10, near + 100, 5000);
    assert_int_equal(far[5010], near[6000]);
    memset(near, 0, sizeof(near));
    FI_OK(fi_readv(TX->ep, parts, NULL, 3, TX->peer, 0, KEY, &parts));
    assert_ptr_equal(fi_await(&lab, TX->tx).op_context, &parts);
    assert_memory_equal(far, near, 10);
    assert_memory_equal(far + 10, near + 100, 5000);
    assert_int_equal(far[5010], near[6000]);
    assert_int_equal(near[10], 0);
}

static void injected(void **state)
{
    (void)state;
    FI_OK(fi_inject_write(TX->ep, near, 1000, TX->peer, 0, KEY));
    memset(near, 0, 1000);
    FI_OK(fi_read(TX->ep, near, 8, NULL, TX->peer, 4096, KEY, &near[5]));
    assert_ptr_equal(fi_await(&lab, TX->tx).op_context, &near[5]);
    fi_quiet(&lab, TX->tx);
    assert_int_equal(far[999], (char)(999 * 3 + 1));
    FI_GIVES(fi_inject_write(TX->ep, near, 1025, TX->peer, 0, KEY), -FI_EMSGSIZE);
}

static void data_is_told(void **state)
{
    struct fi_cq_tagged_entry done;

    (void)state;
    FI_OK(fi_writedata(TX->ep, near, 100, NULL, 0xabcd, TX->peer, 0, KEY, NULL));
    done = fi_await(&lab, RX->rx);
    assert_int_equal(done.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
    assert_int_equal(done.data, 0xabcd);
    assert_memory_equal(far, near, 100);
    fi_await(&lab, TX->tx);
}

/* What is for this process alone takes no key: MPIs ask for the same one for all of it. */
static void keys_are_for_peers(void **state)
{
    struct fid_mr *own[2], *again;

    (void)state;
    for (int i = 0; i < 2; i++)
        FI_OK(fi_mr_reg(lab.domain, near, 8, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, KEY + 5, 0, &own[i],
                        NULL));
    FI_OK(fi_mr_reg(lab.domain, near, 8, FI_REMOTE_READ, 0, KEY + 5, 0, &again, NULL));
    FI_OK(fi_close(&own[0]->fid));
    FI_OK(fi_mr_reg(lab.domain, near, 8, FI_SEND, 0, KEY + 5, 0, &own[0], NULL));
    FI_OK(fi_read(TX->ep, far, 8, NULL, TX->peer, 0, KEY + 5, far));
    fi_await(&lab, TX->tx);
    FI_OK(fi_close(&again->fid));
    FI_OK(fi_close(&own[0]->fid));
    FI_OK(fi_close(&own[1]->fid));
}

static void refused(void **state)
{
    struct fi_cq_err_entry error;
    struct fid_mr *again;

    (void)state;
    FI_OK(fi_write(TX->ep, near, 8, NULL, TX->peer, 0, KEY + 1, &near[3]));
    assert_int_equal(fi_await_error(&lab, TX->tx).err, FI_EACCES);
    FI_OK(fi_read(TX->ep, near, 8, NULL, TX->peer, ROOM - 7, KEY, &near[3]));
    error = fi_await_error(&lab, TX->tx);
    assert_int_equal(error.err, FI_EACCES);
    assert_string_equal(fi_cq_strerror(TX->tx, error.prov_errno, NULL, NULL, 0), strerror(ERANGE));
    FI_GIVES(fi_mr_reg(lab.domain, near, 8, FI_REMOTE_READ, 0, KEY, 0, &again, NULL), -FI_ENOKEY);
    FI_GIVES(fi_mr_reg(lab.domain, near, 8, FI_REMOTE_READ, 0, UINT64_C(1) << 63, 0, &again, NULL),
             -FI_EKEYREJECTED);
    FI_OK(fi_close(&region->fid));
    region = NULL;
    FI_OK(fi_write(TX->ep, near, 8, NULL, TX->peer, 0, KEY, &near[3]));
    assert_int_equal(fi_await_error(&lab, TX->tx).err, FI_EACCES);
}

/* All that the process has: offsets are addresses. */
static void everything(void **state)
{
    struct fid_mr *all;

    (void)state;
    FI_OK(
        fi_mr_reg(lab.domain, NULL, UINT64_MAX, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY + 1, 0, &all, NULL));
    memset(near, 'n', 100);
    memset(far, 0, ROOM);
    FI_OK(fi_write(TX->ep, near, 100, NULL, TX->peer, (uintptr_t)far + 5, KEY + 1, &near[3]));
    fi_await(&lab, TX->tx);
    assert_memory_equal(far + 5, near, 100);
    assert_int_equal(far[4] | far[105], 0);
    far[7] = 'f';
    FI_OK(fi_read(TX->ep, near, 8, NULL, TX->peer, (uintptr_t)far + 7, KEY + 1, &near[3]));
    fi_await(&lab, TX->tx);
    assert_int_equal(near[0], 'f');
    FI_OK(fi_close(&all->fid));
}

/* Memory that was registered before the endpoint came is there for it, too. */
static void later_endpoint(void **state)
{
    struct fi_side late = {0};
    fi_addr_t address;

    (void)state;
    fi_side_open(&lab, &(struct fi_wish){0}, &late);
    address = fi_side_insert(TX, late.name);
    FI_OK(fi_write(TX->ep, near, 8, NULL, address, 0, KEY, &near[3]));
    /* Until it is there, however busy the machine is: nobody else has a part in this. */
    for (time_t start = time(NULL); memcmp(near, far, 8) != 0 && time(NULL) - start < 60; sched_yield()) {
        fi_cq_read(late.rx, NULL, 0);
        fi_pump(&lab);
    }
    assert_memory_equal(near, far, 8);
    fi_side_close(&late);
}

/* ---- atomics ------------------------------------------------------------------------------------------- */

static void sums_and_swaps(void **state)
{
    uint64_t *target = (uint64_t *)(void *)far, add[2] = {5, 7}, old[2] = {0, 0}, expect = 15, value = 99;
    struct fi_cq_tagged_entry done;
    size_t count = 0;

    (void)state;
    target[0] = 10;
    target[1] = 20;
    FI_OK(fi_atomicvalid(TX->ep, FI_UINT64, FI_SUM, &count));
    assert_int_equal(count, 128);
    FI_OK(fi_atomic(TX->ep, add, 2, NULL, TX->peer, 0, KEY, FI_UINT64, FI_SUM, &add));
    done = fi_await(&lab, TX->tx);
    assert_int_equal(done.flags, FI_ATOMIC | FI_WRITE);
    assert_int_equal(target[0], 15);
    assert_int_equal(target[1], 27);
    FI_OK(
        fi_fetch_atomic(TX->ep, NULL, 2, NULL, old, NULL, TX->peer, 0, KEY, FI_UINT64, FI_ATOMIC_READ, &old));
    done = fi_await(&lab, TX->tx);
    assert_int_equal(done.flags, FI_ATOMIC | FI_READ);
    assert_ptr_equal(done.op_context, &old);
    assert_int_equal(old[1], 27);
    FI_OK(fi_compare_atomic(TX->ep, &value, 1, NULL, &expect, NULL, old, NULL, TX->peer, 0, KEY, FI_UINT64,
                            FI_CSWAP, NULL));
    fi_await(&lab, TX->tx);
    assert_int_equal(old[0], 15);
    assert_int_equal(target[0], 99);
    FI_OK(fi_inject_atomic(TX->ep, add, 1, TX->peer, 8, KEY, FI_UINT64, FI_ATOMIC_WRITE));
    FI_OK(fi_fetch_atomic(TX->ep, add, 1, NULL, old, NULL, TX->peer, 8, KEY, FI_UINT64, FI_BXOR, NULL));
    fi_await(&lab, TX->tx);
    assert_int_equal(old[0], 5);
    assert_int_equal(target[1], 0);
}

static void atomics_that_are_none(void **state)
{
    size_t count;
    char one = 1;
    struct fi_ioc wraps[2] = {{&one, 1000}, {&one, (size_t)-999}};

    (void)state;
    FI_GIVES(fi_atomicvalid(TX->ep, FI_DOUBLE_COMPLEX, FI_SUM, &count), -FI_EOPNOTSUPP);
    FI_GIVES(fi_atomicvalid(TX->ep, FI_DOUBLE, FI_BXOR, &count), -FI_EOPNOTSUPP);
    FI_GIVES(fi_atomicvalid(TX->ep, FI_INT8, FI_CSWAP, &count), -FI_EOPNOTSUPP);
    FI_GIVES(fi_compare_atomicvalid(TX->ep, FI_INT8, FI_SUM, &count), -FI_EOPNOTSUPP);
    FI_OK(fi_compare_atomicvalid(TX->ep, FI_INT8, FI_CSWAP, &count));
    FI_GIVES(fi_atomic(TX->ep, &one, 2000, NULL, TX->peer, 0, KEY, FI_INT8, FI_SUM, NULL), -FI_EINVAL);
    FI_GIVES(fi_atomicv(TX->ep, wraps, NULL, 2, TX->peer, 0, KEY, FI_INT8, FI_SUM, NULL), -FI_EINVAL);
    FI_GIVES(fi_atomic(TX->ep, &one, 1, NULL, TX->peer, 0, KEY, (enum fi_datatype)99, FI_SUM, NULL),
             -FI_EOPNOTSUPP);
}

/* ---- counters ------------------------------------------------------------------------------------------ */

static void await_count(struct fid_cntr *cntr, uint64_t value)
{
    for (time_t start = time(NULL); fi_cntr_read(cntr) < value && time(NULL) - start < 60; sched_yield())
        fi_pump(&lab);
    assert_int_equal(fi_cntr_read(cntr), value);
}

/* Without FI_COMPLETION nothing is shown, and everything counted. */
static void counted(void **state)
{
    uint64_t one = 1, old;

    (void)state;
    for (int i = 0; i < 10; i++) {
        FI_OK(fi_trecv(RX->ep, far, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        FI_OK(i % 2 ? fi_tsend(TX->ep, near, 8, NULL, TX->peer, 1, NULL)
                    : fi_tinject(TX->ep, near, 8, TX->peer, 1));
        FI_OK(fi_write(TX->ep, near, 8, NULL, TX->peer, 0, KEY, NULL));
        FI_OK(fi_inject_write(TX->ep, near, 8, TX->peer, 0, KEY));
        FI_OK(fi_read(TX->ep, near, 8, NULL, TX->peer, 0, KEY, NULL));
        FI_OK(fi_atomic(TX->ep, &one, 1, NULL, TX->peer, 64, KEY, FI_UINT64, FI_SUM, NULL));
        FI_OK(fi_fetch_atomic(TX->ep, &one, 1, NULL, &old, NULL, TX->peer, 64, KEY, FI_UINT64, FI_SUM, NULL));
    }
    await_count(TX->cntr[FI_SENDS], 10);
    await_count(RX->cntr[FI_RECVS], 10);
    await_count(TX->cntr[FI_WRITES], 30);
    await_count(TX->cntr[FI_READS], 20);
    await_count(RX->cntr[FI_REMOTE_WRITES], 30);
    await_count(RX->cntr[FI_REMOTE_READS], 20);
    fi_quiet(&lab, TX->tx);
    fi_quiet(&lab, RX->rx);
    FI_OK(fi_cntr_wait(TX->cntr[FI_READS], 20, 0));
    FI_GIVES(fi_cntr_wait(TX->cntr[FI_READS], 21, 5), -FI_ETIMEDOUT);
    FI_OK(fi_cntr_add(TX->cntr[FI_READS], 3));
    FI_OK(fi_cntr_wait(TX->cntr[FI_READS], 23, 0));
    FI_OK(fi_cntr_set(TX->cntr[FI_READS], 1));
    assert_int_equal(fi_cntr_read(TX->cntr[FI_READS]), 1);
}

/* Not for those who have not asked for it. */
static void events_are_asked_for(void **state)
{
    (void)state;
    assert_false(lab.info->caps & FI_RMA_EVENT);
    FI_OK(fi_writedata(TX->ep, near, 8, NULL, 5, TX->peer, 0, KEY, NULL));
    FI_OK(fi_write(TX->ep, near, 8, NULL, TX->peer, 0, KEY, NULL));
    await_count(TX->cntr[FI_WRITES], 2);
    assert_int_equal(fi_await(&lab, RX->rx).data, 5);
    await_count(RX->cntr[FI_REMOTE_WRITES], 1);
    fi_quiet(&lab, RX->rx);
}

/* Counters of one region; what is told of a region that is gone finds nobody. */
static void memory_counts(void **state)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
    struct fid_cntr *writes, *reads;

    (void)state;
    FI_OK(fi_cntr_open(lab.domain, &attr, &writes, NULL));
    FI_OK(fi_cntr_open(lab.domain, &attr, &reads, NULL));
    FI_GIVES(fi_mr_bind(region, &writes->fid, FI_SEND), -FI_EBADFLAGS);
    FI_OK(fi_mr_bind(region, &writes->fid, FI_REMOTE_WRITE));
    FI_OK(fi_mr_bind(region, &reads->fid, FI_REMOTE_READ));
    FI_GIVES(fi_mr_bind(region, &reads->fid, FI_REMOTE_READ), -FI_EINVAL);
    FI_OK(fi_write(TX->ep, near, 5000, NULL, TX->peer, 0, KEY, near));
    FI_OK(fi_read(TX->ep, near, 5000, NULL, TX->peer, 0, KEY, near));
    fi_await(&lab, TX->tx);
    fi_await(&lab, TX->tx);
    FI_OK(fi_cntr_wait(writes, 1, 10000));
    FI_OK(fi_cntr_wait(reads, 1, 10000));
    FI_GIVES(fi_cntr_wait(reads, 2, 5), -FI_ETIMEDOUT);
    FI_OK(fi_writedata(TX->ep, near, 8, NULL, 77, TX->peer, 0, KEY, near));
    assert_int_equal(fi_await(&lab, RX->rx).data, 77);
    await_count(writes, 2);
    FI_GIVES(fi_close(&writes->fid), -FI_EBUSY);
    FI_OK(fi_inject_write(TX->ep, near, 8, TX->peer, 0, KEY));
    FI_OK(fi_close(&region->fid));
    region = NULL;
    fi_quiet(&lab, RX->rx);
    FI_OK(fi_close(&writes->fid));
    FI_OK(fi_close(&reads->fid));
}

static void write_some(unsigned count)
{
    ssize_t rc;

    for (unsigned i = 0; i < count; i++)
        while ((rc = fi_writedata(TX->ep, near, 8, NULL, 5, TX->peer, 0, KEY, NULL)) != 0) {
            FI_GIVES(rc, -FI_EAGAIN);
            fi_pump(&lab);
        }
}

/* Lets nigh take what has come for RX, without the queue: looking for a message does. The errors stay in the queue. */
static void look_only(unsigned times)
{
    struct fi_msg_tagged none = {.addr = FI_ADDR_UNSPEC, .tag = 99};

    for (unsigned i = 0; i < times; i++) {
        fi_cntr_read(TX->cntr[FI_WRITES]);
        FI_OK(fi_trecvmsg(RX->ep, &none, FI_PEEK));
    }
}

/* The region is closed while there is no memory. */
static void close_without_memory(void)
{
    struct rlimit old, none;
    void **held = NULL, **one;

    FI_OK(getrlimit(RLIMIT_AS, &old));
    none = (struct rlimit){1 << 20, old.rlim_max};
    FI_OK(setrlimit(RLIMIT_AS, &none));
    for (size_t bytes = 1 << 20; bytes >= 4096; bytes /= 2)
        while ((one = malloc(bytes))) {
            *one = held;
            held = one;
        }
    FI_OK(fi_close(&region->fid));
    FI_OK(setrlimit(RLIMIT_AS, &old));
    for (; (one = held); free(one))
        held = *one;
    region = NULL;
}

/* What nigh has told of a region, and the queue had no memory for when that was closed, finds nobody's record later. */
static void told_too_late(void **state)
{
    enum { STAGED = 32, LATE = 30, LOOKS = 24 }; /* of 64 places, so that 32 more need memory */
    struct iovec iov[2] = {{far, 8}, {far + 8, 8}};
    struct fi_cq_tagged_entry got;

    (void)state;
    if (getenv("NIGH_SANITIZED")) {
        print_message("skipped: sanitizers do not outlive a process without memory\n");
        skip();
    }
    for (unsigned i = 0; i < STAGED; i += 16) {
        write_some(16);
        await_count(RX->cntr[FI_REMOTE_WRITES], i + 16);
    }
    write_some(LATE);
    look_only(LOOKS);
    close_without_memory();
    FI_OK(fi_trecvv(RX->ep, iov, NULL, 2, RX->peer, 1, 0, iov));
    for (unsigned i = 0; i < STAGED; i++)
        assert_null(fi_await(&lab, RX->rx).op_context);
    for (unsigned i = 0; i < LOOKS; i++)
        assert_int_equal(fi_await_error(&lab, RX->rx).err, FI_ENOMSG);
    for (unsigned i = 0; i < LATE; i++) {
        got = fi_await(&lab, RX->rx);
        assert_null(got.op_context);
        assert_int_equal(got.data, 5);
    }
    FI_OK(fi_tinject(TX->ep, near, 16, TX->peer, 1));
    assert_ptr_equal(fi_await(&lab, RX->rx).op_context, iov);
}

static void errors_are_counted(void **state)
{
    (void)state;
    FI_OK(fi_write(TX->ep, near, 8, NULL, TX->peer, 0, KEY + 1, &near[3]));
    for (time_t start = time(NULL); fi_cntr_readerr(TX->cntr[FI_WRITES]) == 0 && time(NULL) - start < 60;
         sched_yield())
        fi_pump(&lab);
    assert_int_equal(fi_cntr_readerr(TX->cntr[FI_WRITES]), 1);
    assert_int_equal(fi_await_error(&lab, TX->tx).err, FI_EACCES);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
#define WITH(name) cmocka_unit_test_setup_teardown(name, open_counting, close_all)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(writes_and_reads),
        CASE(vectors),
        CASE(injected),
        CASE(memory_counts),
        cmocka_unit_test_setup_teardown(events_are_asked_for, open_without_events, close_all),
        CASE(data_is_told),
        CASE(keys_are_for_peers),
        CASE(refused),
        CASE(everything),
        CASE(later_endpoint),
        CASE(sums_and_swaps),
        WITH(counted),
        CASE(atomics_that_are_none),
        WITH(errors_are_counted),
        cmocka_unit_test_setup_teardown(told_too_late, open_telling, close_all),
    };

    fi_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

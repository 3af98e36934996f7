/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on one queue while other threads use others of the same endpoint. Most cases are what the threads would do,
 * by one thread in the order in which it goes wrong. */
#include "tests/support/fi.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct fi_lab lab;
static char from[300000], to[300000];

#define TX (&lab.side[0])
#define RX (&lab.side[1])

static void open_lab(bool counters)
{
    fi_lab_open(&lab,
                &(struct fi_wish){
                    .wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE, .apart = true, .counters = counters});
}

static void send_one(size_t bytes)
{
    FI_OK(fi_tsend(TX->ep, from, bytes, NULL, TX->peer, 5, NULL));
}

/* The first message makes the connection: afterwards nothing moves by itself. */
static void meet(void)
{
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    send_one(8);
    fi_await(&lab, RX->rx);
    fi_await(&lab, TX->tx);
}

/* The end of the attach that a first message made is heard of a moment later, on a loaded machine much later, and
 * rings: an arm that has nothing else to hear stays silent once that is over. */
static void watch_in_peace(struct fid *fid)
{
    time_t end = time(NULL) + 100;
    bool rung;

    do {
        fi_watch(&lab, fid);
        rung = fi_is_readable(fid);
    } while (rung && time(NULL) < end);
    assert_false(rung);
}

/* Until such a ring is none that came while it slept: that stays in the descriptor until the next sleep. */
static void sleep_in_vain(struct fid_cq *cq, struct fid_cntr *cntr)
{
    struct fi_cq_tagged_entry entry;
    time_t end = time(NULL) + 100;

    do
        if (cq)
            FI_GIVES(fi_cq_sread(cq, &entry, 1, NULL, 20), -FI_EAGAIN);
        else
            FI_GIVES(fi_cntr_wait(cntr, 10, 20), -FI_ETIMEDOUT);
    while (fi_is_readable(cq ? &cq->fid : &cntr->fid) && time(NULL) < end);
}

/* What comes late is read there, and the other queue is left as it is. */
static void watch_sends(void)
{
    time_t end = time(NULL) + 100;

    while (fi_try(&lab, &RX->tx->fid) == -FI_EAGAIN && time(NULL) < end)
        fi_cq_read(RX->tx, NULL, 0);
    FI_OK(fi_try(&lab, &RX->tx->fid));
}

/* The read of one queue puts something into the other, and takes the endpoint's own descriptor back. */
static void read_by_another(void **state)
{
    struct fi_cq_tagged_entry entry;

    (void)state;
    open_lab(false);
    meet();
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, &to));
    watch_in_peace(&RX->rx->fid);
    send_one(8);
    FI_GIVES(fi_cq_read(RX->tx, &entry, 1), -FI_EAGAIN);
    watch_sends();
    assert_true(fi_is_readable(&RX->rx->fid));
    FI_GIVES(fi_try(&lab, &RX->rx->fid), -FI_EAGAIN);
    FI_GIVES(fi_cq_read(RX->rx, &entry, 1), 1);
    assert_ptr_equal(entry.op_context, &to);
    watch_in_peace(&RX->rx->fid);
    fi_lab_close(&lab);
}

/* Both ends of a message from `far`. */
static void await_both(struct fi_lab *far)
{
    struct fi_cq_tagged_entry entry;
    bool received = false, sent = false;
    time_t end = time(NULL) + 100;

    while (!(received && sent) && time(NULL) < end) {
        received |= fi_cq_read(RX->rx, &entry, 1) == 1;
        sent |= fi_cq_read(far->side[0].tx, &entry, 1) == 1;
    }
    assert_true(received && sent);
}

/* Whoever finds something when it wants to sleep has taken the arms off for all. The sender is of another domain: what
 * it posts moves nothing in this one. */
static void disarmed_by_another(void **state)
{
    static struct fi_lab far;
    fi_addr_t peer;

    (void)state;
    open_lab(false);
    fi_lab_open(&far, &(struct fi_wish){0});
    peer = fi_side_insert(&far.side[0], RX->name);
    for (int i = 0; i < 2; i++) { /* the first makes the connection */
        FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
        if (i == 1)
            fi_watch(&lab, &RX->rx->fid);
        FI_OK(fi_tsend(far.side[0].ep, from, 8, NULL, peer, 5, NULL));
        if (i == 1)
            FI_GIVES(fi_try(&lab, &RX->tx->fid), -FI_EAGAIN);
        if (i == 1)
            assert_true(fi_is_readable(&RX->rx->fid));
        await_both(&far);
    }
    fi_lab_close(&far);
    fi_lab_close(&lab);
}

/* The sender is of another domain here, too. */
static void send_from_afar(struct fi_lab *far, fi_addr_t peer)
{
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    FI_OK(fi_tsend(far->side[0].ep, from, 8, NULL, peer, 5, NULL));
}

/* Who has slept and gives up leaves nothing behind that messages ring: each ring is a system call of their sender. */
static void disarmed_at_last(void **state)
{
    static struct fi_lab far;
    fi_addr_t peer;

    (void)state;
    open_lab(true);
    fi_lab_open(&far, &(struct fi_wish){0});
    peer = fi_side_insert(&far.side[0], RX->name);
    send_from_afar(&far, peer); /* makes the connection */
    await_both(&far);
    sleep_in_vain(RX->rx, NULL);
    send_from_afar(&far, peer);
    assert_false(fi_is_readable(&RX->rx->fid));
    await_both(&far);
    sleep_in_vain(NULL, RX->cntr[FI_RECVS]);
    send_from_afar(&far, peer);
    assert_false(fi_is_readable(&RX->cntr[FI_RECVS]->fid));
    await_both(&far);
    fi_watch(&lab, &RX->rx->fid);
    send_from_afar(&far, peer);
    assert_true(fi_gets_readable(&RX->rx->fid));
    await_both(&far);
    fi_lab_close(&far);
    fi_lab_close(&lab);
}

/* What a post completes at once is no news of any peer. */
static void completed_by_a_post(void **state)
{
    (void)state;
    open_lab(false);
    meet();
    send_one(8);
    for (int i = 0; i < 100; i++)
        fi_pump(&lab);
    fi_watch(&lab, &RX->rx->fid);
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    assert_true(fi_is_readable(&RX->rx->fid));
    fi_await(&lab, RX->rx);
    fi_lab_close(&lab);
}

/* One thread at a time calls, another one sleeps on the descriptor. */
static void completed_in_a_domain_without_a_lock(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.wait = FI_WAIT_FD, .apart = true});
    meet();
    fi_watch(&lab, &TX->tx->fid);
    send_one(8);
    assert_true(fi_is_readable(&TX->tx->fid));
    fi_lab_close(&lab);
}

/* More than is taken at a time, and what is waited for comes last. The peer is of another domain, and does nothing. */
static void completed_behind_many(void **state)
{
    static struct fi_lab far;
    fi_addr_t peer;

    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.caps = FI_TAGGED | FI_DIRECTED_RECV,
                                        .wait = FI_WAIT_FD,
                                        .threading = FI_THREAD_SAFE,
                                        .apart = true});
    fi_lab_open(&far, &(struct fi_wish){0});
    peer = fi_side_insert(RX, far.side[0].name);
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, peer, 5, 0, NULL));
    for (int i = 0; i < 40; i++)
        FI_OK(fi_tsend(RX->ep, from, sizeof(from), NULL, peer, 5, NULL));
    fi_watch(&lab, &RX->rx->fid);
    FI_OK(fi_av_remove(RX->av, &peer, 1, 0));
    assert_true(fi_is_readable(&RX->rx->fid));
    fi_lab_close(&far);
    fi_lab_close(&lab);
}

/* A signal wakes who sleeps on the descriptor, once. */
static void signalled(void **state)
{
    (void)state;
    open_lab(false);
    fi_watch(&lab, &RX->rx->fid);
    FI_OK(fi_cq_signal(RX->rx));
    assert_true(fi_is_readable(&RX->rx->fid));
    FI_GIVES(fi_try(&lab, &RX->rx->fid), -FI_EAGAIN);
    FI_OK(fi_try(&lab, &RX->rx->fid));
    assert_false(fi_is_readable(&RX->rx->fid));
    fi_lab_close(&lab);
}

/* ---- two at once ---------------------------------------------------------------------------------------- */

/* Two messages that wait for their receives, so that a post alone completes one; and somebody who sleeps. */
static void be_ready(void)
{
    open_lab(false);
    meet();
    send_one(8);
    send_one(8);
    for (int i = 0; i < 100; i++)
        fi_pump(&lab);
    watch_in_peace(&RX->rx->fid);
}

static void complete_by_a_post(void)
{
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
}

/* One sleeps on the descriptor and has not run yet since it became readable; the other one may not
 * sleep and goes on without. */
static void looked_at_by_another(void **state)
{
    struct fi_cq_tagged_entry entry;

    (void)state;
    be_ready();
    complete_by_a_post();
    FI_GIVES(fi_try(&lab, &RX->rx->fid), -FI_EAGAIN);
    FI_GIVES(fi_cq_read(RX->rx, &entry, 1), 1);
    complete_by_a_post();
    assert_true(fi_is_readable(&RX->rx->fid));
    fi_lab_close(&lab);
}

/* The same beside a thread in sread: what wakes that one is not taken from the other. */
static void slept_by_another(void **state)
{
    struct fi_cq_tagged_entry entry;

    (void)state;
    be_ready();
    complete_by_a_post();
    FI_GIVES(fi_cq_read(RX->rx, &entry, 1), 1);
    FI_GIVES(fi_cq_sread(RX->rx, &entry, 1, NULL, 50), -FI_EAGAIN);
    complete_by_a_post();
    assert_true(fi_is_readable(&RX->rx->fid));
    fi_lab_close(&lab);
}

/* Peers keep the descriptor by which they wake an endpoint for longer than it lives. */
static void endpoint_leaves(void **state)
{
    struct fi_wish wish = {.wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE};
    struct fi_side side;
    fi_addr_t peer;

    (void)state;
    open_lab(false);
    side = (struct fi_side){.tx = RX->rx};
    fi_side_open(&lab, &wish, &side);
    peer = fi_side_insert(TX, side.name);
    FI_OK(fi_trecv(side.ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    FI_OK(fi_tsend(TX->ep, from, 8, NULL, peer, 5, NULL));
    fi_await(&lab, RX->rx);
    fi_await(&lab, TX->tx);
    fi_watch(&lab, &RX->rx->fid);
    FI_OK(fi_tsend(TX->ep, from, 8, NULL, peer, 5, NULL));
    side.tx = side.rx = NULL;
    fi_side_close(&side);
    watch_in_peace(&RX->rx->fid);
    fi_lab_close(&lab);
}

/* ---- threads ------------------------------------------------------------------------------------------- */

static void *sleep_a_second(void *cq)
{
    struct fi_cq_tagged_entry entry;

    return (void *)(intptr_t)fi_cq_sread(cq, &entry, 1, NULL, 1000);
}

static double cpu_seconds(void)
{
    struct timespec spent;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (double)spent.tv_sec + (double)spent.tv_nsec / 1e9;
}

/* Those who find nothing must not wake each other to look again: two of them took 1.2 CPUs. */
static void asleep_together(void **state)
{
    struct fid_cq *queues[3];
    pthread_t sleepers[3];
    double began;
    void *rc;

    (void)state;
    open_lab(false);
    queues[0] = RX->tx;
    queues[1] = queues[2] = RX->rx;
    began = cpu_seconds();
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&sleepers[i], NULL, sleep_a_second, queues[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(sleepers[i], &rc);
        assert_int_equal((intptr_t)rc, -FI_EAGAIN);
    }
    if (cpu_seconds() - began > 0.3)
        fail_msg("three threads asleep for a second took %.2f s of CPU time", cpu_seconds() - began);
    fi_lab_close(&lab);
}

static void *await_last(void *cq)
{
    struct fi_cq_tagged_entry entry = {0};

    while (fi_cq_sread(cq, &entry, 1, NULL, 100000) == 1 && !entry.op_context)
        ;
    return entry.op_context;
}

/* Endpoints come and go on a queue that somebody sleeps on; what the last one brings is found. */
static void endpoints_come_and_go(void **state)
{
    struct fi_wish wish = {.wait = FI_WAIT_FD};
    pthread_t sleeper;
    void *context;

    (void)state;
    open_lab(false);
    assert_int_equal(pthread_create(&sleeper, NULL, await_last, RX->rx), 0);
    for (int i = 0; i < 10; i++) {
        struct fi_side side = {.tx = RX->rx};
        fi_addr_t peer;

        fi_side_open(&lab, &wish, &side);
        peer = fi_side_insert(TX, side.name);
        usleep(1000);
        FI_OK(fi_trecv(side.ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, i < 9 ? NULL : &to));
        FI_OK(fi_tsend(TX->ep, from, 8, NULL, peer, 5, NULL));
        fi_await(&lab, TX->tx);
        if (i == 9) {
            pthread_join(sleeper, &context);
            assert_ptr_equal(context, &to);
        }
        side.tx = side.rx = NULL;
        fi_side_close(&side);
    }
    fi_lab_close(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_by_another),
        cmocka_unit_test(disarmed_by_another),
        cmocka_unit_test(disarmed_at_last),
        cmocka_unit_test(completed_by_a_post),
        cmocka_unit_test(completed_in_a_domain_without_a_lock),
        cmocka_unit_test(completed_behind_many),
        cmocka_unit_test(signalled),
        cmocka_unit_test(looked_at_by_another),
        cmocka_unit_test(slept_by_another),
        cmocka_unit_test(endpoint_leaves),
        cmocka_unit_test(asleep_together),
        cmocka_unit_test(endpoints_come_and_go),
    };

    fi_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

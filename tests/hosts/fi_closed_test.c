/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that close all descriptors, as daemons do, and open others: the provider touches none of these and says what was
 * lost, whoever sleeps or would gets an error, and polling goes on. */
#include "tests/support/fi.h"
#include "tests/support/others.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { NO_LIMIT = -1, LAST_FD = OTHERS_LAST + 1 };

static struct fi_lab lab;
static char from[300000], to[300000];
static struct fi_cq_tagged_entry entry;

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
    FI_OK(fi_trecv(RX->ep, to, bytes, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    FI_OK(fi_tsend(TX->ep, from, bytes, NULL, TX->peer, 5, NULL));
    fi_await(&lab, RX->rx);
    fi_await(&lab, TX->tx);
}

/* A short message may go before its sender has met its peer, a large one does not. */
static void meet(void)
{
    send_one(sizeof(to));
}

static struct fid_eq *open_eq(void)
{
    struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_FD};
    struct fid_eq *eq = NULL;

    FI_OK(fi_eq_open(lab.fabric, &attr, &eq, NULL));
    return eq;
}

static void untouched(void)
{
    assert_int_equal(others_touched(), -1);
}

static void gives_no_descriptor(struct fid *fid)
{
    int fd = -1;

    FI_GIVES(fi_try(&lab, fid), -FI_EBADF);
    FI_GIVES(fi_control(fid, FI_GETWAIT, &fd), -FI_EBADF);
}

/* ---- all closed ---------------------------------------------------------------------------------------- */

/* Descriptors that somebody may sleep on, and that have something or have not. */
static void queues(void **state)
{
    (void)state;
    for (unsigned shift = 0; shift < OTHERS_KINDS; shift++) {
        open_lab(true);
        meet();
        fi_watch(&lab, &RX->rx->fid);
        fi_watch(&lab, &TX->cntr[FI_SENDS]->fid);
        FI_OK(fi_cq_signal(TX->tx));
        others_open_all(shift);
        FI_OK(fi_cntr_add(TX->cntr[FI_SENDS], 1)); /* rings */
        send_one(8);
        send_one(sizeof(to));
        gives_no_descriptor(&RX->rx->fid);
        gives_no_descriptor(&RX->cntr[FI_RECVS]->fid);
        FI_GIVES(fi_cq_signal(RX->rx), -FI_EBADF);
        FI_GIVES(fi_cq_sread(RX->rx, &entry, 1, NULL, NO_LIMIT), -FI_EBADF);
        FI_GIVES(fi_cntr_wait(RX->cntr[FI_RECVS], 4, NO_LIMIT), -FI_EBADF);
        FI_OK(fi_cntr_wait(RX->cntr[FI_RECVS], 3, NO_LIMIT));
        send_one(8);
        fi_lab_close(&lab);
        untouched();
    }
}

/* What another thread's message brings is there for a thread that would sleep. */
static void what_has_come_is_read(void **state)
{
    (void)state;
    open_lab(false);
    meet();
    others_open_all(0);
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, &to));
    FI_OK(fi_tsend(TX->ep, from, 8, NULL, TX->peer, 5, NULL));
    FI_GIVES(fi_cq_sread(RX->rx, &entry, 1, NULL, NO_LIMIT), 1);
    assert_ptr_equal(entry.op_context, &to);
    fi_await(&lab, TX->tx);
    FI_GIVES(fi_cq_sread(RX->rx, &entry, 1, NULL, 0), -FI_EAGAIN); /* no sleep */
    fi_lab_close(&lab);
    untouched();
}

static void event_queues(void **state)
{
    struct fi_eq_entry put = {.data = 1};
    struct fid_eq *eq, *full;
    uint32_t event;

    (void)state;
    for (unsigned shift = 0; shift < OTHERS_KINDS; shift++) {
        open_lab(false);
        eq = open_eq();
        full = open_eq();
        FI_GIVES(fi_eq_write(full, FI_NOTIFY, &put, sizeof(put), 0), sizeof(put));
        others_open_all(shift);
        gives_no_descriptor(&eq->fid);
        FI_GIVES(fi_eq_sread(eq, &event, &put, sizeof(put), NO_LIMIT, 0), -FI_EBADF);
        for (int i = 0; i < 3; i++)
            FI_GIVES(fi_eq_write(eq, FI_NOTIFY, &put, sizeof(put), 0), sizeof(put));
        FI_GIVES(fi_eq_sread(eq, &event, &put, sizeof(put), NO_LIMIT, 0), sizeof(put));
        for (int i = 0; i < 2; i++)
            FI_GIVES(fi_eq_read(eq, &event, &put, sizeof(put), 0), sizeof(put));
        FI_GIVES(fi_eq_read(full, &event, &put, sizeof(put), 0), sizeof(put));
        FI_GIVES(fi_eq_read(full, &event, &put, sizeof(put), 0), -FI_EAGAIN);
        FI_GIVES(fi_eq_write(full, FI_NOTIFY, &put, sizeof(put), 0), sizeof(put));
        FI_OK(fi_close(&eq->fid));
        FI_OK(fi_close(&full->fid));
        fi_lab_close(&lab);
        untouched();
    }
}

/* ---- those who sleep ----------------------------------------------------------------------------------- */

static void *sleep_on_queue(void *cq)
{
    struct fi_cq_tagged_entry none;

    return (void *)(intptr_t)fi_cq_sread(cq, &none, 1, NULL, NO_LIMIT);
}

static void *sleep_on_counter(void *cntr)
{
    return (void *)(intptr_t)fi_cntr_wait(cntr, 100, NO_LIMIT);
}

static void *sleep_on_events(void *eq)
{
    struct fi_eq_entry none;
    uint32_t event;

    return (void *)(intptr_t)fi_eq_sread(eq, &event, &none, sizeof(none), NO_LIMIT, 0);
}

static pid_t begin_child(void)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        for (;;)
            pause();
    return child;
}

/* Beside a child that holds all of it open nothing hangs up when the program closes it. */
static void asleep(bool beside_a_child)
{
    struct {
        void *(*sleep)(void *);
        void *on;
        pthread_t thread;
    } sleepers[3] = {{sleep_on_queue, NULL, 0}, {sleep_on_counter, NULL, 0}, {sleep_on_events, NULL, 0}};
    pid_t child = 0;
    struct fid_eq *eq;
    void *rc;

    open_lab(true);
    eq = open_eq();
    meet();
    sleepers[0].on = RX->rx;
    sleepers[1].on = RX->cntr[FI_RECVS];
    sleepers[2].on = eq;
    if (beside_a_child)
        child = begin_child();
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&sleepers[i].thread, NULL, sleepers[i].sleep, sleepers[i].on), 0);
    usleep(20000);
    others_open_all(0);
    for (int i = 0; i < 3; i++) {
        pthread_join(sleepers[i].thread, &rc);
        assert_int_equal((intptr_t)rc, -FI_EBADF);
    }
    if (beside_a_child) {
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    FI_OK(fi_close(&eq->fid));
    fi_lab_close(&lab);
    untouched();
}

static void those_who_sleep_hear_of_it(void **state)
{
    (void)state;
    asleep(false);
}

static void also_beside_a_child(void **state)
{
    (void)state;
    asleep(true);
}

/* ---- one closed ---------------------------------------------------------------------------------------- */

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void note_open(bool open[LAST_FD])
{
    for (int fd = 0; fd < LAST_FD; fd++)
        open[fd] = is_open(fd);
}

static struct fid *open_queue(void)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    struct fid_cq *cq = NULL;

    FI_OK(fi_cq_open(lab.domain, &attr, &cq, NULL));
    return &cq->fid;
}

static struct fid *open_events(void)
{
    return &open_eq()->fid;
}

/* Of those that opening it makes the `nth` alone becomes another file: that is noticed, and what is left is closed, but for the
 * set's number, which is known by its members. False: there are not as many. */
static bool play_one_closed(struct fid *(*open_it)(void), unsigned nth, unsigned kind)
{
    bool before[LAST_FD];
    unsigned count = 0;
    struct fid *fid;
    int victim = -1;

    note_open(before);
    fid = open_it();
    for (int fd = 0; fd < LAST_FD; fd++)
        if (!before[fd] && is_open(fd) && count++ == nth)
            victim = fd;
    if (victim >= 0) {
        others_open(victim, kind);
        gives_no_descriptor(fid);
    }
    FI_OK(fi_close(fid));
    untouched();
    for (int fd = 0; fd < LAST_FD; fd++)
        if (is_open(fd) != before[fd])
            fail_msg("descriptor %d is %s", fd, before[fd] ? "closed" : "left open");
    return victim >= 0;
}

static void one_alone(void **state)
{
    unsigned of_queue = 0, of_events = 0;

    (void)state;
    open_lab(false);
    for (unsigned kind = 0; kind < OTHERS_KINDS; kind++) {
        for (of_queue = 0; play_one_closed(open_queue, of_queue, kind); of_queue++)
            ;
        for (of_events = 0; play_one_closed(open_events, of_events, kind); of_events++)
            ;
    }
    assert_int_equal(of_queue, 3);
    assert_int_equal(of_events, 2);
    fi_lab_close(&lab);
}

/* A set of the program's under the number of a queue's, and files of its own in it under those of the pair. */
static void a_set_of_the_programs(void **state)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0xbeef};
    bool before[LAST_FD];
    struct fid *queue;
    int set = -1, file = eventfd(1, EFD_CLOEXEC), made = epoll_create1(EPOLL_CLOEXEC);

    (void)state;
    open_lab(false);
    note_open(before);
    queue = open_queue();
    FI_OK(fi_control(queue, FI_GETWAIT, &set));
    assert_int_equal(dup3(made, set, O_CLOEXEC), set);
    for (int fd = 0; fd < LAST_FD; fd++) {
        if (before[fd] || !is_open(fd) || fd == set)
            continue;
        assert_int_equal(dup3(file, fd, O_CLOEXEC), fd);
        assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
    }
    gives_no_descriptor(queue);
    FI_OK(fi_close(queue));
    assert_int_equal(epoll_wait(set, &event, 1, 0), 1);
    assert_int_equal(event.data.u64, 0xbeef);
    for (int fd = 0; fd < LAST_FD; fd++)
        if (!before[fd])
            close(fd);
    close(file);
    close(made);
    fi_lab_close(&lab);
}

/* ---- clocks -------------------------------------------------------------------------------------------- */

static void *watch_a_count(void *cntr)
{
    fi_watch(&lab, cntr);
    return NULL;
}

/* A thread that was told a second ago and has not looked since is woken by the counter's clock from then on. */
static void be_given_up(struct fid_cntr *cntr)
{
    pthread_t gone;

    assert_int_equal(pthread_create(&gone, NULL, watch_a_count, &cntr->fid), 0);
    pthread_join(gone, NULL);
    FI_OK(fi_cntr_add(cntr, 1));
    for (int i = 0; i < 2; i++) /* this thread is told first, then waits for the other one */
        FI_GIVES(fi_try(&lab, &cntr->fid), -FI_EAGAIN);
}

static struct fid_cntr *open_counter(void)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
    struct fid_cntr *cntr = NULL;

    FI_OK(fi_cntr_open(lab.domain, &attr, &cntr, NULL));
    be_given_up(cntr);
    return cntr;
}

/* The number of the clock that it gets. */
static int get_clock(struct fid_cntr *cntr)
{
    bool before[LAST_FD];

    note_open(before);
    fi_watch(&lab, &cntr->fid);
    for (int fd = 0; fd < LAST_FD; fd++)
        if (!before[fd] && is_open(fd))
            return fd;
    fail_msg("there is no clock");
    return -1;
}

static void goes_on_without(struct fid_cntr *cntr)
{
    FI_OK(fi_cntr_add(cntr, 1));
    FI_GIVES(fi_cntr_read(cntr), 2);
    gives_no_descriptor(&cntr->fid);
    FI_OK(fi_close(&cntr->fid));
}

/* The clock alone, of each kind. */
static void clock_alone(struct fid_cntr *cntr, unsigned kind)
{
    others_open(get_clock(cntr), kind);
    goes_on_without(cntr);
    untouched();
}

/* Clocks that are lost alone, with a thread that sleeps beside them, and before they are made. */
static void clocks(void **state)
{
    struct fid_cntr *alone[OTHERS_KINDS], *slept_on[OTHERS_KINDS], *late[OTHERS_KINDS];
    pthread_t sleepers[OTHERS_KINDS];
    void *rc;

    (void)state;
    open_lab(false);
    for (unsigned i = 0; i < OTHERS_KINDS; i++) {
        late[i] = open_counter();
        slept_on[i] = open_counter();
    }
    for (unsigned i = 0; i < OTHERS_KINDS; i++)
        alone[i] = open_counter();
    usleep(1050000);
    for (unsigned i = 0; i < OTHERS_KINDS; i++)
        clock_alone(alone[i], i);
    for (unsigned i = 0; i < OTHERS_KINDS; i++) {
        assert_true(get_clock(slept_on[i]) <= OTHERS_LAST);
        assert_int_equal(pthread_create(&sleepers[i], NULL, sleep_on_counter, slept_on[i]), 0);
    }
    usleep(20000);
    others_open_all(0);
    for (unsigned i = 0; i < OTHERS_KINDS; i++) {
        pthread_join(sleepers[i], &rc);
        assert_int_equal((intptr_t)rc, -FI_EBADF);
        goes_on_without(slept_on[i]);
        goes_on_without(late[i]);
    }
    fi_lab_close(&lab);
    untouched();
}

/* ---- what is said -------------------------------------------------------------------------------------- */

/* The program's standard error, from here on; before the provider is loaded, which looks where it leads. */
static int redirect(void)
{
    int said = memfd_create("said", 0);

    return said >= 0 && fcntl(said, F_SETFL, O_APPEND) == 0 && dup2(said, STDERR_FILENO) >= 0 ? 0 : -1;
}

static unsigned count_said(const char *words)
{
    static char text[65536];
    ssize_t bytes = pread(STDERR_FILENO, text, sizeof(text) - 1, 0);
    unsigned count = 0;

    text[bytes > 0 ? bytes : 0] = 0;
    for (const char *at = text; (at = strstr(at, words)); at++)
        count++;
    return count;
}

/* In a process of its own, as it is said once in one. */
static int lose_in_silence(void)
{
    struct fid_eq *eq[2];

    alarm(60);
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    open_lab(true);
    eq[0] = open_eq();
    eq[1] = open_eq();
    if (count_said("closefrom"))
        return 1;
    others_open_all(0);
    for (int i = 0; i < 4; i++) {
        FI_GIVES((intptr_t)sleep_on_events(eq[i % 2]), -FI_EBADF);
        FI_GIVES((intptr_t)sleep_on_queue(RX->rx), -FI_EBADF);
        gives_no_descriptor(&RX->cntr[FI_RECVS]->fid);
    }
    if (count_said("gets FI_EBADF (fi_cq_sread") != 1)
        return 2;
    if (count_said("do it before queues and counters are opened") != 1)
        return 3;
    return 0;
}

static void it_is_said_once(void **state)
{
    pid_t child;
    int status;

    (void)state;
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(redirect() ? 9 : lose_in_silence());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Without the error who sleeps sleeps on. */
static int begin(void **state)
{
    (void)state;
    alarm(60);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup(name, begin)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(it_is_said_once), /* first: nothing is loaded yet */
        CASE(queues),
        CASE(what_has_come_is_read),
        CASE(event_queues),
        CASE(those_who_sleep_hear_of_it),
        CASE(also_beside_a_child),
        CASE(one_alone),
        CASE(a_set_of_the_programs),
        CASE(clocks),
    };

    fi_find();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on the descriptor of a counter, one thread and several: a count that all have to see is taken by nobody. */
#include "tests/support/fi.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct fi_lab lab;
static char to[64];
static struct fid_cntr *cntr;

static int open_counter(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE, .counters = true});
    cntr = lab.side[1].cntr[FI_RECVS];
    return 0;
}

static void alone(void **state)
{
    (void)state;
    fi_watch(&lab, &cntr->fid);
    assert_false(fi_is_readable(&cntr->fid));
    FI_OK(fi_cntr_add(cntr, 1));
    assert_true(fi_is_readable(&cntr->fid));
    FI_GIVES(fi_try(&lab, &cntr->fid), -FI_EAGAIN);
    FI_GIVES((long)fi_cntr_read(cntr), 1);
    fi_watch(&lab, &cntr->fid);
    assert_false(fi_is_readable(&cntr->fid));
}

/* Nothing rings for what peers do to memory: there is no sleeping for that. */
static void of_memory(void **state)
{
    struct fid_mr *mr;

    (void)state;
    FI_OK(fi_mr_reg(lab.domain, to, sizeof(to), FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
    FI_OK(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
    for (int i = 0; i < 3; i++)
        FI_GIVES(fi_try(&lab, &cntr->fid), -FI_EAGAIN);
    FI_OK(fi_close(&mr->fid));
}

/* ---- another thread, that does as it is told ------------------------------------------------------------- */

enum order { TRY, TRY_TWO, SLEEP, READ, END };

static struct {
    pthread_t thread;
    sem_t go, done;
    enum order order;
    long result;
    bool lives;
} other;

/* One that has nothing to be seen, and one of which this thread has seen nothing. */
static long try_two(void)
{
    struct fid *two[] = {&cntr->fid, &lab.side[1].cntr[FI_SENDS]->fid};

    return fi_trywait(lab.fabric, two, 2);
}

static long sleep_there(void)
{
    struct pollfd on = {.events = POLLIN};

    return fi_control(&cntr->fid, FI_GETWAIT, &on.fd) ? -1 : poll(&on, 1, 100000);
}

static void *obey(void *data)
{
    enum order order;

    (void)data;
    do {
        sem_wait(&other.go);
        order = other.order;
        other.result = order == TRY       ? fi_try(&lab, &cntr->fid)
                       : order == TRY_TWO ? try_two()
                       : order == SLEEP   ? sleep_there()
                       : order == READ    ? (long)fi_cntr_read(cntr)
                                          : 0;
        sem_post(&other.done);
    } while (order != END);
    return NULL;
}

static long tell(enum order order)
{
    other.order = order;
    sem_post(&other.go);
    sem_wait(&other.done);
    return other.result;
}

static void begin(void)
{
    sem_init(&other.go, 0, 0);
    sem_init(&other.done, 0, 0);
    assert_int_equal(pthread_create(&other.thread, NULL, obey, NULL), 0);
    other.lives = true;
}

static void end(void)
{
    tell(END);
    pthread_join(other.thread, NULL);
    sem_destroy(&other.go);
    sem_destroy(&other.done);
    other.lives = false;
}

/* Also where a case has failed in between. */
static int close_counter(void **state)
{
    (void)state;
    if (other.lives)
        end();
    fi_lab_close(&lab);
    return 0;
}

static void it_sleeps(void)
{
    for (int i = 0; tell(TRY); i++)
        assert_true(other.result == -FI_EAGAIN && i < 1000);
}

/* What this thread has seen the other one has not. */
static void read_by_another(void **state)
{
    (void)state;
    begin();
    it_sleeps();
    FI_GIVES(tell(READ), 0);
    FI_OK(fi_cntr_add(cntr, 1));
    FI_GIVES((long)fi_cntr_read(cntr), 1);
    FI_GIVES(tell(TRY), -FI_EAGAIN);
    FI_GIVES(tell(READ), 1);
    it_sleeps();
    end();
}

/* Neither does it see it because this thread was told. */
static void told_to_another(void **state)
{
    (void)state;
    begin();
    it_sleeps();
    FI_GIVES(tell(READ), 0);
    FI_OK(fi_cntr_add(cntr, 1));
    FI_GIVES(fi_try(&lab, &cntr->fid), -FI_EAGAIN);
    FI_GIVES(tell(TRY), -FI_EAGAIN);
    end();
}

/* The other one sleeps, and has not run yet since it was woken. */
static void not_run_yet(void **state)
{
    (void)state;
    begin();
    it_sleeps();
    FI_OK(fi_cntr_add(cntr, 1));
    FI_GIVES((long)fi_cntr_read(cntr), 1);
    for (int i = 0; i < 3; i++)
        FI_GIVES(fi_try(&lab, &cntr->fid), -FI_EAGAIN);
    FI_GIVES(fi_cntr_wait(cntr, 2, 1), -FI_ETIMEDOUT);
    assert_true(fi_is_readable(&cntr->fid));
    FI_GIVES(tell(READ), 1);
    fi_watch(&lab, &cntr->fid);
    assert_false(fi_is_readable(&cntr->fid));
    end();
}

/* More than once where a second has passed in between: then it is readable for who was given up. */
static void sleep_without_it(void)
{
    do
        fi_watch(&lab, &cntr->fid);
    while (fi_is_readable(&cntr->fid));
}

/* Who was to look and has ended keeps nobody awake for long. */
static void gone(void **state)
{
    (void)state;
    begin();
    it_sleeps();
    end();
    FI_OK(fi_cntr_add(cntr, 1));
    sleep_without_it();
}

/* Who was stopped before it slept, for longer than others wait for it, is woken all the same: whoever slept
 * meanwhile wakes with it, for nothing. */
static void stopped_before_it_slept(void **state)
{
    (void)state;
    begin();
    it_sleeps();
    FI_OK(fi_cntr_add(cntr, 1));
    sleep_without_it();
    FI_GIVES(tell(SLEEP), 1);
    FI_GIVES(tell(TRY), -FI_EAGAIN);
    FI_GIVES(tell(READ), 1);
    it_sleeps();
    end();
}

/* Who does not sleep, because of something else that it would have slept for, keeps nobody awake. */
static void one_of_two(void **state)
{
    (void)state;
    begin();
    fi_watch(&lab, &cntr->fid);
    it_sleeps();
    FI_GIVES(tell(READ), 0);
    FI_GIVES(tell(TRY_TWO), -FI_EAGAIN);
    FI_OK(fi_cntr_add(cntr, 1));
    FI_GIVES((long)fi_cntr_read(cntr), 1);
    FI_OK(fi_try(&lab, &cntr->fid));
    FI_GIVES(tell(TRY), -FI_EAGAIN);
    end();
}

/* More threads than are kept in mind. */
static void many(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        begin();
        it_sleeps();
        FI_GIVES(tell(READ), i);
        end();
        FI_OK(fi_cntr_add(cntr, 1));
    }
    fi_watch(&lab, &cntr->fid);
    assert_false(fi_is_readable(&cntr->fid));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_counter, close_counter)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(alone),       CASE(of_memory), CASE(read_by_another),         CASE(told_to_another),
        CASE(not_run_yet), CASE(gone),      CASE(stopped_before_it_slept), CASE(one_of_two),
        CASE(many),
    };

    fi_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

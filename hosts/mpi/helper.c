/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/helper.c - see helper.h. The thread calls nigh alone, and neither MPI nor functions of the program's: MPI may have been
 * told that it has one thread. It looks now and then: what is waited for moves on without it.
 */
#include "hosts/mpi/helper.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/session.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define LOOK_NS 200000
/* So many looks with nothing under way, and it sleeps until it is woken. */
#define IDLE_LOOKS 500u

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    _Atomic bool runs, sleeps, ends;
} helper = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static bool is_busy(void)
{
    return nigh_mpi_session_requests > 0 || helper.ends;
}

/* Where another thread has the lock, that one moves them on. */
static void look(void)
{
    if (!nigh_mpi_session_try())
        return;
    while (nigh_mpi_session_functions == 0 && nigh_mpi_session_poll() > 0)
        ;
    nigh_mpi_session_unlock();
}

static void sleep_until_busy(void)
{
    pthread_mutex_lock(&helper.lock);
    helper.sleeps = true;
    while (!is_busy())
        pthread_cond_wait(&helper.wake, &helper.lock);
    helper.sleeps = false;
    pthread_mutex_unlock(&helper.lock);
}

static void *run(void *arg)
{
    const struct timespec between = {.tv_nsec = LOOK_NS};
    unsigned idle = 0;

    while (!helper.ends) {
        nanosleep(&between, NULL);
        if (nigh_mpi_session_requests > 0) {
            idle = 0;
            look();
        } else if (++idle == IDLE_LOOKS) {
            sleep_until_busy();
            idle = 0;
        }
    }
    return arg;
}

static void wake(void)
{
    pthread_mutex_lock(&helper.lock);
    pthread_cond_signal(&helper.wake);
    pthread_mutex_unlock(&helper.lock);
}

static bool start(void)
{
    sigset_t all, before;
    int rc;

    nigh_mpi_session_share();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&helper.thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        nigh_mpi_log("no thread for collectives that return a request: %s", strerror(rc));
    helper.runs = rc == 0;
    return rc == 0;
}

bool nigh_mpi_helper_begin(void)
{
    static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

    if (!helper.runs) {
        pthread_mutex_lock(&starting);
        if (!helper.runs)
            (void)start();
        pthread_mutex_unlock(&starting);
    }
    if (helper.sleeps)
        wake();
    return helper.runs;
}

/* It only tries for the session's lock. */
void nigh_mpi_helper_end(void)
{
    if (!helper.runs)
        return;
    helper.ends = true;
    wake();
    pthread_join(helper.thread, NULL);
    helper.runs = false;
}

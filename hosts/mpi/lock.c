/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/lock.c - see lock.h. */
#include "hosts/mpi/lock.h"
#include "hosts/mpi/calls.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

/* So long a call may take, as ranks may share CPUs. */
#define PATIENCE_NS UINT64_C(1000000000)
#define LOOK_NS     50000

/* One thread waits for `waited`, and the other one tests `tested` meanwhile. */
struct trial {
    nigh_mpi_request waited, tested;
    _Atomic bool waits, ends, went_on;
    bool is_over, is_shared;
};

static int query(void *state, void *status)
{
    (void)state;
    nigh_mpi_calls()->Status_set_elements(status, NIGH_MPI_BYTE, 0);
    nigh_mpi_calls()->Status_set_cancelled(status, 0);
    return NIGH_MPI_SUCCESS;
}

static int release(void *state)
{
    (void)state;
    return NIGH_MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state;
    (void)complete;
    return NIGH_MPI_SUCCESS;
}

static void pause_a_little(void)
{
    const struct timespec little = {.tv_nsec = LOOK_NS};

    nanosleep(&little, NULL);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- the thread that calls ------------------------------------------------------------------------------ */

static void *call(void *state)
{
    struct trial *trial = state;
    int flag;

    while (!trial->waits && !trial->ends)
        pause_a_little();
    if (trial->waits)
        (void)nigh_mpi_calls()->Test(&trial->tested, &flag, NIGH_MPI_STATUS_IGNORE);
    trial->went_on = true;
    return NULL;
}

/* Signals are the program's threads'. */
static bool start_thread(struct trial *trial, pthread_t *thread)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(thread, NULL, call, trial);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0;
}

/* ---- the thread that waits ------------------------------------------------------------------------------ */

static int wait_for_call(int count, void **states, double timeout, void *status)
{
    struct trial *trial = states[0];
    uint64_t end = now_ns() + PATIENCE_NS;

    (void)count;
    (void)timeout;
    (void)status;
    if (trial->is_over)
        return NIGH_MPI_SUCCESS;
    trial->waits = true;
    while (!trial->went_on && now_ns() < end)
        pause_a_little();
    trial->is_shared = trial->went_on;
    trial->is_over = true;
    return nigh_mpi_calls()->Grequest_complete(trial->waited);
}

/* An MPI that does not wait by the other one. */
static int poll_for_call(void *state, void *status)
{
    return wait_for_call(1, &state, 0, status);
}

static void try_with(struct trial *trial)
{
    pthread_t thread;

    if (!start_thread(trial, &thread)) {
        (void)nigh_mpi_calls()->Grequest_complete(trial->waited);
        (void)nigh_mpi_calls()->Wait(&trial->waited, NIGH_MPI_STATUS_IGNORE);
        return;
    }
    (void)nigh_mpi_calls()->Waitall(1, &trial->waited, NIGH_MPI_STATUSES_IGNORE);
    trial->ends = true;
    pthread_join(thread, NULL);
}

bool nigh_mpi_lock_is_shared(nigh_mpi_request_start start)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    struct trial trial = {.is_shared = false};
    int level = NIGH_MPI_THREAD_MULTIPLE;

    (void)mpi->Query_thread(&level);
    if (level != NIGH_MPI_THREAD_MULTIPLE)
        return true;
    if (mpi->Grequest_start(query, release, cancel, &trial, &trial.tested))
        return false;
    if (!start(query, release, cancel, poll_for_call, wait_for_call, &trial, &trial.waited))
        try_with(&trial);
    (void)mpi->Grequest_complete(trial.tested);
    (void)mpi->Wait(&trial.tested, NIGH_MPI_STATUS_IGNORE);
    return trial.is_shared;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/progress.c - see progress.h. */
#include "hosts/mpi/progress.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/helper.h"
#include "hosts/mpi/kept.h"
#include "hosts/mpi/lock.h"
#include "hosts/mpi/request.h"
#include "hosts/mpi/session.h"

#include <pthread.h>
#include <stddef.h>

/* True: something has moved. */
static bool move(void)
{
    bool moved = nigh_mpi_kept_move();

    if (!nigh_mpi_session_requests && !nigh_mpi_session_finished)
        return moved;
    if (!nigh_mpi_session_try())
        return moved;
    moved |= nigh_mpi_session_poll() > 0;
    nigh_mpi_session_unlock();
    return moved;
}

#ifdef NIGH_MPI_OPENMPI

static struct {
    int (*add)(int (*)(void));
    int (*take)(int (*)(void));
    bool added;
} opal;
static pthread_once_t once = PTHREAD_ONCE_INIT, add_once = PTHREAD_ONCE_INIT;

static void find(void)
{
    *(void **)&opal.add = nigh_mpi_find("opal_progress_register");
    *(void **)&opal.take = nigh_mpi_find("opal_progress_unregister");
}

bool nigh_mpi_progress_can(void)
{
    pthread_once(&once, find);
    return opal.add && opal.take;
}

static int hook(void)
{
    return move();
}

static void add(void)
{
    opal.added = opal.add(hook) == 0;
}

bool nigh_mpi_progress_begin(void)
{
    pthread_once(&add_once, add);
    return opal.added;
}

bool nigh_mpi_progress_without_nigh(void)
{
    return nigh_mpi_progress_can() && nigh_mpi_progress_begin();
}

void nigh_mpi_progress_complete(struct nigh_mpi_operation *operation)
{
    (void)nigh_mpi_request_complete(operation);
}

int nigh_mpi_progress_request(nigh_mpi_request_query query, nigh_mpi_request_free release,
                              nigh_mpi_request_cancel cancel, void *state, nigh_mpi_request *request)
{
    return nigh_mpi_calls()->Grequest_start(query, release, cancel, state, request);
}

void nigh_mpi_progress_done(struct nigh_mpi_operation *operation)
{
    operation->next = nigh_mpi_session_finished;
    nigh_mpi_session_finished = operation;
}

void nigh_mpi_progress_end(void)
{
    if (opal.added)
        (void)opal.take(hook);
}

#else

enum { ASYNC_NOTHING = 0, ASYNC_DONE = 1 };
#define STREAM_NULL 0x3c000000
/* MPICH calls a hook in each pass, so it goes when there was nothing to do for so many. */
#define HOOK_PASSES 10000u

static struct {
    int (*async_start)(int (*)(void *), void *, int);
    nigh_mpi_request_start request_start;
    bool is_shared;
    _Atomic bool added;
} mpich;
static pthread_once_t once = PTHREAD_ONCE_INIT, try_once = PTHREAD_ONCE_INIT;

static void find(void)
{
    *(void **)&mpich.async_start = nigh_mpi_find("PMPIX_Async_start");
    *(void **)&mpich.request_start = nigh_mpi_find("PMPIX_Grequest_start");
}

static void try_lock(void)
{
    mpich.is_shared = nigh_mpi_lock_is_shared(mpich.request_start);
}

static bool has_requests(void)
{
    pthread_once(&once, find);
    return mpich.request_start;
}

bool nigh_mpi_progress_can(void)
{
    if (!has_requests())
        return false;
    pthread_once(&try_once, try_lock);
    return mpich.is_shared;
}

/* Without the lock in a call of MPI's, which may wait for whoever is in the hook. */
static bool is_added_else_add(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool before;

    pthread_mutex_lock(&lock);
    before = mpich.added;
    mpich.added = true;
    pthread_mutex_unlock(&lock);
    return before;
}

static int hook(void *thing)
{
    static _Atomic unsigned idle;

    (void)thing;
    if (nigh_mpi_session_requests) {
        idle = 0;
        (void)move();
        return ASYNC_NOTHING;
    }
    if (nigh_mpi_session_is_open() && idle++ < HOOK_PASSES)
        return ASYNC_NOTHING;
    idle = 0;
    mpich.added = false;
    /* Either a thread that has begun a request meanwhile finds that this is gone, or this finds the request. */
    if (nigh_mpi_session_requests && !is_added_else_add())
        return ASYNC_NOTHING;
    return ASYNC_DONE;
}

bool nigh_mpi_progress_begin(void)
{
    if (!mpich.async_start)
        return nigh_mpi_helper_begin();
    if (mpich.added || is_added_else_add())
        return true;
    if (!mpich.async_start(hook, NULL, STREAM_NULL))
        return true;
    mpich.added = false;
    return false;
}

/*
 * A request becomes complete for the MPI in these two, in the thread that tests it or waits for it: it may hold a lock of MPI's here,
 * which another thread would wait for. MPICH refuses a request without the second, and stops in MPI_Waitall() without it.
 */
static int poll_request(void *state, void *status)
{
    (void)status;
    /* MPICH before 4.3 is in a loop of these, and does not look for its own messages. */
    if (!move() && !mpich.async_start)
        nigh_mpi_session_idle(true);
    (void)nigh_mpi_request_complete(state);
    return NIGH_MPI_SUCCESS;
}

static bool complete_any(int count, void **states)
{
    bool any = false;

    for (int i = 0; i < count; i++)
        any |= nigh_mpi_request_complete(states[i]);
    return any;
}

/* One of them must be complete then. */
static int wait_for_requests(int count, void **states, double timeout, void *status)
{
    (void)timeout;
    (void)status;
    for (uint32_t empty = 1; !complete_any(count, states); empty++) {
        if (move())
            empty = 0;
        else if (empty % nigh_mpi_session_patience == 0)
            nigh_mpi_session_idle(true);
    }
    return NIGH_MPI_SUCCESS;
}

bool nigh_mpi_progress_without_nigh(void)
{
    return has_requests();
}

void nigh_mpi_progress_complete(struct nigh_mpi_operation *operation)
{
    (void)operation;
}

int nigh_mpi_progress_request(nigh_mpi_request_query query, nigh_mpi_request_free release,
                              nigh_mpi_request_cancel cancel, void *state, nigh_mpi_request *request)
{
    return mpich.request_start(query, release, cancel, poll_request, wait_for_requests, state, request);
}

void nigh_mpi_progress_done(struct nigh_mpi_operation *operation)
{
    (void)operation;
}

void nigh_mpi_progress_end(void)
{
    if (!mpich.async_start)
        nigh_mpi_helper_end();
}

#endif

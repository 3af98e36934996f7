/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/service.c - the service thread. */
#include "shm/service.h"
#include "shm/life.h"
#include "shm/log.h"
#include "shm/os.h"
#include "shm/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Bits of the flag. The thread raises RAISED, its owner takes it down; ENDED stays. */
#define RAISED 1u
#define ENDED  2u

struct nigh_service {
    uint32_t flag;   /* also the futex word that the thread waits on until it is taken */
    int fd, stop[2]; /* the thread polls the first and hears the second closed, whoever closes it */
    struct nigh_file_id id[2];
    uint32_t blind; /* `fd` is the program's by now */
    struct nigh_bell *bell;
    const struct nigh_arena_state *state;
    struct nigh_life *life;
    pthread_t thread;
};

/* Returns whether to go on. */
static bool raise_flag(struct nigh_service *service)
{
    uint32_t asleep;

    if (nigh_fetch_or_release(&service->flag, RAISED, FLAG_RAISE) & ENDED)
        return false;
    nigh_fence_full(SLEEP_CHECK);
    /* Relaxed: it steers only whether to wake; the fence has put it behind the flag. */
    asleep = nigh_load_relaxed(&service->state->asleep);
    if (asleep != NIGH_AWAKE)
        nigh_bell_ring(service->bell, asleep);
    return true;
}

void nigh_service_raise(struct nigh_service *service)
{
    (void)raise_flag(service);
}

static bool is_blind(struct nigh_service *service)
{
    /* Relaxed: it is looked at before each poll. */
    return nigh_load_relaxed(&service->blind) || !nigh_os_is(service->stop[0], &service->id[0]);
}

/*
 * A system call that fails for no reason but a signal or memory pressure counts as readiness: the owner then looks
 * in vain once, and nothing spins, because this waits for it. False: the program has closed the descriptors, which wakes this,
 * as the other end hangs up. A poll() that is woken looks at what has the numbers by then, so identity is asked before and
 * behind it.
 */
static bool wait_ready(struct nigh_service *service)
{
    struct pollfd fds[] = {{.fd = service->fd, .events = POLLIN}, {.fd = service->stop[0], .events = POLLIN}};
    int before;

    if (is_blind(service))
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    nigh_os.poll(fds, 2, -1);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return !is_blind(service) && !(fds[1].revents & (POLLHUP | POLLERR | POLLNVAL));
}

static void wait_end(struct nigh_service *service)
{
    uint32_t flag;

    while (!((flag = nigh_load_acquire(&service->flag, FLAG_SEE)) & ENDED))
        nigh_os.futex(&service->flag, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, flag, NULL);
}

static void wait_taken(struct nigh_service *service)
{
    while (nigh_load_acquire(&service->flag, FLAG_SEE) == RAISED)
        nigh_os.futex(&service->flag, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, RAISED, NULL);
}

static void *run(void *argument)
{
    struct nigh_service *service = argument;
    bool sees = true;
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_setname_np(pthread_self(), "nigh-service");
    if (service->life)
        nigh_life_enter(service->life);
    while (sees) {
        sees = wait_ready(service);
        if (!raise_flag(service))
            return NULL;
        wait_taken(service);
    }
    wait_end(service);
    return NULL;
}

int nigh_service_start(int fd, struct nigh_bell *bell, const struct nigh_arena_state *state,
                       struct nigh_life *life, struct nigh_service **out)
{
    struct nigh_service *service = nigh_os.calloc(1, sizeof(*service));
    int error;

    if (!service)
        return -ENOMEM;
    *service = (struct nigh_service){.fd = fd, .stop = {-1, -1}, .bell = bell, .state = state, .life = life};
    error = nigh_os_pair(service->stop, service->id);
    if (!error)
        error = nigh_thread_spawn(&service->thread, run, service);
    if (error) {
        nigh_log(NIGH_LOG_ERROR,
                 "cannot start the service thread: %s (raise what stands in the way: ulimit -u, ulimit -v, "
                 "ulimit -n)",
                 strerror(-error));
        nigh_os_close(service->stop[0]);
        nigh_os_close(service->stop[1]);
        free(service);
        return error == -ENFILE ? -EMFILE : error;
    }
    *out = service;
    return 0;
}

static void wake(struct nigh_service *service)
{
    nigh_os.futex(&service->flag, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL);
}

void nigh_service_stop(struct nigh_service *service)
{
    if (!service)
        return;
    if (service->life)
        nigh_life_release(service->life);
    /* Whichever of its two waits it is in, or between: the flag ends the second, the descriptor the first. */
    (void)nigh_fetch_or_release(&service->flag, ENDED, FLAG_RAISE);
    wake(service);
    if (nigh_os_is(service->stop[1], &service->id[1]))
        nigh_os.shutdown(service->stop[1], SHUT_RDWR);
    else /* a forked child may hold the other end open, so that nothing hangs up */
        pthread_cancel(service->thread);
    pthread_join(service->thread, NULL);
    nigh_os_close_own(service->stop[0], &service->id[0]);
    nigh_os_close_own(service->stop[1], &service->id[1]);
    free(service);
}

void nigh_service_blind(struct nigh_service *service)
{
    nigh_store_relaxed(&service->blind, 1);
}

const uint32_t *nigh_service_flag(const struct nigh_service *service)
{
    return &service->flag;
}

void nigh_service_taken(struct nigh_service *service)
{
    (void)nigh_exchange_acquire(&service->flag, 0, FLAG_SEE);
    wake(service);
}

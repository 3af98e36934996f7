/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/service.c - the service thread. It is the only thread that nigh starts. */
#include "shm/service.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* Bits of the flag. The thread raises RAISED, its owner takes it down; ENDED stays. */
#define RAISED 1u
#define ENDED  2u

struct nigh_service {
    uint32_t flag; /* also the futex word that the thread waits on until it is taken */
    int fd, stop;
    struct nigh_bell *bell;
    const struct nigh_arena_state *state;
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

/* A system call that fails for no reason but a signal or memory pressure counts as readiness: the owner then looks
 * in vain once, and nothing spins, because this waits for it. */
static void wait_ready(struct nigh_service *service)
{
    struct pollfd fds[] = {{.fd = service->fd, .events = POLLIN}, {.fd = service->stop, .events = POLLIN}};

    nigh_os.poll(fds, 2, -1);
}

static void wait_taken(struct nigh_service *service)
{
    while (nigh_load_acquire(&service->flag, FLAG_SEE) == RAISED)
        nigh_os.futex(&service->flag, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, RAISED, NULL);
}

static void *run(void *argument)
{
    struct nigh_service *service = argument;

    pthread_setname_np(pthread_self(), "nigh-service");
    do {
        wait_ready(service);
        if (!raise_flag(service))
            break;
        wait_taken(service);
    } while (true);
    return NULL;
}

/* The host's signals are for the host's threads: the new thread inherits a mask without any. */
static int start_thread(struct nigh_service *service)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = nigh_os.pthread_create(&service->thread, NULL, run, service);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    /* That is what a stack finds no room for, or a thread no place: nothing that trying again would change. */
    return error == EAGAIN ? -ENOMEM : -error;
}

int nigh_service_start(int fd, struct nigh_bell *bell, const struct nigh_arena_state *state,
                       struct nigh_service **out)
{
    struct nigh_service *service = nigh_os.calloc(1, sizeof(*service));
    int error;

    if (!service)
        return -ENOMEM;
    *service = (struct nigh_service){.fd = fd, .bell = bell, .state = state};
    service->stop = nigh_os.eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    error = service->stop < 0 ? -errno : start_thread(service);
    if (error) {
        nigh_log(NIGH_LOG_ERROR,
                 "cannot start the service thread: %s (raise what stands in the way: ulimit -u, ulimit -v, "
                 "ulimit -n)",
                 strerror(-error));
        nigh_os_close(service->stop);
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
    /* Whichever of its two waits it is in, or between: the flag ends the second, the descriptor the first. */
    (void)nigh_fetch_or_release(&service->flag, ENDED, FLAG_RAISE);
    wake(service);
    while (nigh_os.write(service->stop, &(uint64_t){1}, sizeof(uint64_t)) < 0 && errno == EINTR)
        continue;
    pthread_join(service->thread, NULL);
    nigh_os_close(service->stop);
    free(service);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/thread.c - see thread.h. */
#include "shm/thread.h"
#include "shm/os.h"

#include <errno.h>
#include <signal.h>

/* The host's signals are for the host's threads: the new thread inherits a mask without any. */
int nigh_thread_spawn(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = nigh_os.pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    /* That is what a stack finds no room for, or a thread no place: nothing that trying again would change. */
    return error == EAGAIN ? -ENOMEM : -error;
}

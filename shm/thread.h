/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/thread.h - starting the threads of a context. */
#ifndef NIGH_SHM_THREAD_H
#define NIGH_SHM_THREAD_H

#include <pthread.h>

/* A thread with all signals blocked. -ENOMEM (no room for its stack, or too many threads, included), and pthread_create's. */
int nigh_thread_spawn(pthread_t *thread, void *(*run)(void *), void *argument);

#endif

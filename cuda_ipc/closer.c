/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/closer.c - see closer.h. */
#include "cuda_ipc/closer.h"
#include "cuda_ipc/driver.h"
#include "shm/log.h"
#include "shm/thread.h"

#include <string.h>

void nigh_cuda_closer_begin(struct nigh_cuda_closer *closer, const struct nigh_log_sink *log)
{
    *closer = (struct nigh_cuda_closer){.log = log};
    pthread_mutex_init(&closer->lock, NULL);
    pthread_cond_init(&closer->changed, NULL);
}

/* The lock is held, and let go of while a job runs. */
static void run_all(struct nigh_cuda_closer *closer)
{
    struct nigh_cuda_job *job;

    while ((job = closer->first)) {
        closer->first = job->next;
        pthread_mutex_unlock(&closer->lock);
        job->run(job);
        pthread_mutex_lock(&closer->lock);
    }
}

static void *work(void *argument)
{
    struct nigh_cuda_closer *closer = argument;

    nigh_log_use(closer->log);
    pthread_mutex_lock(&closer->lock);
    while (!closer->stopping || closer->first) {
        run_all(closer);
        if (!closer->stopping)
            pthread_cond_wait(&closer->changed, &closer->lock);
    }
    pthread_mutex_unlock(&closer->lock);
    return NULL;
}

/* The lock is held. */
static void start(struct nigh_cuda_closer *closer)
{
    int rc = closer->running ? 0 : nigh_thread_spawn(&closer->thread, work, closer);

    closer->running = closer->running || !rc;
    if (rc && !closer->failed)
        nigh_log(NIGH_LOG_WARN,
                 "no thread to close peers' device memory can be started (%s): it stays mapped until "
                 "the context is closed",
                 strerror(-rc));
    closer->failed = rc != 0;
}

void nigh_cuda_closer_add(struct nigh_cuda_closer *closer, struct nigh_cuda_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&closer->lock);
    if (closer->first)
        *closer->last = job;
    else
        closer->first = job;
    closer->last = &job->next;
    start(closer);
    pthread_cond_signal(&closer->changed);
    pthread_mutex_unlock(&closer->lock);
}

void nigh_cuda_closer_end(struct nigh_cuda_closer *closer)
{
    if (nigh_driver_is_forked())
        return;
    pthread_mutex_lock(&closer->lock);
    closer->stopping = true;
    pthread_cond_signal(&closer->changed);
    pthread_mutex_unlock(&closer->lock);
    if (closer->running)
        pthread_join(closer->thread, NULL);
    pthread_mutex_lock(&closer->lock);
    run_all(closer);
    pthread_mutex_unlock(&closer->lock);
    pthread_cond_destroy(&closer->changed);
    pthread_mutex_destroy(&closer->lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/closer.h - a thread that does what waits for the device. cuIpcCloseMemHandle() and cuMemFree() wait for every
 * kernel of the host, which may be waiting for a message of ours: so they are queued here by whoever moves messages. The
 * thread is started by the first job.
 */
#ifndef NIGH_CUDA_IPC_CLOSER_H
#define NIGH_CUDA_IPC_CLOSER_H

#include <pthread.h>
#include <stdbool.h>

struct nigh_log_sink;

struct nigh_cuda_job {
    struct nigh_cuda_job *next;
    void (*run)(struct nigh_cuda_job *job); /* on the closer's thread, once; the job may free itself */
};

struct nigh_cuda_closer {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct nigh_cuda_job *first, **last;
    pthread_t thread;
    bool running, stopping, failed;
    const struct nigh_log_sink *log;
};

/* `log`: where its thread's lines go; NULL: standard error. */
void nigh_cuda_closer_begin(struct nigh_cuda_closer *closer, const struct nigh_log_sink *log);

/* Never blocks. If no thread can be started, the jobs run when the domain is closed. */
void nigh_cuda_closer_add(struct nigh_cuda_closer *closer, struct nigh_cuda_job *job);

/* Runs what is queued and ends the thread. In a forked child, where there is no thread, nothing is run. */
void nigh_cuda_closer_end(struct nigh_cuda_closer *closer);

#endif

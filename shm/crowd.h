/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/crowd.h - are there more ranks than CPUs for them? Then spinning takes the CPU from the very rank that is waited
 * for. Judged by the affinity of all processes that are attached (a rank that is bound to one CPU is not crowded by
 * others that are bound to theirs), by the control group's quota of CPU time and by the size of the job. One thread at
 * a time.
 */
#ifndef NIGH_SHM_CROWD_H
#define NIGH_SHM_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/topology.h"

struct nigh_crowd {
    bool full; /* more ranks than CPUs: do not spin */
    uint32_t ranks, members;
    uint32_t online;                        /* CPUs of the machine */
    uint32_t quota;                         /* thousandths of a CPU, UINT32_MAX: none */
    uint64_t cpus[NIGH_TOPOLOGY_CPUS / 64]; /* that any member may run on */
};

/* A crowd of the calling thread alone, in a job of `ranks` on this machine. Cannot fail. */
void nigh_crowd_start(struct nigh_crowd *crowd, uint32_t ranks);

/* One more member: process `pid`; 0 or less: one that cannot be seen from here, which may run anywhere. One system
 * call. */
void nigh_crowd_add(struct nigh_crowd *crowd, int pid);

/* One less. Its CPUs stay: others may run there. */
void nigh_crowd_remove(struct nigh_crowd *crowd);

#endif

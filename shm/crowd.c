/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/crowd.c - counts members and the CPUs that they may run on. */
#include "shm/crowd.h"
#include "shm/cgroup.h"
#include "shm/os.h"

#include <string.h>
#include <unistd.h>

enum { WORDS = NIGH_TOPOLOGY_CPUS / 64 };

/* Those that cannot be read may run on every CPU. */
static void add_cpus(struct nigh_crowd *crowd, int pid)
{
    uint64_t cpus[WORDS] = {0};

    if (pid < 0 || nigh_os.sched_getaffinity(pid, sizeof(cpus), (cpu_set_t *)(void *)cpus) != 0) {
        for (uint32_t i = 0; i < crowd->online && i < NIGH_TOPOLOGY_CPUS; i++)
            cpus[i / 64] |= UINT64_C(1) << i % 64;
    }
    for (uint32_t i = 0; i < WORDS; i++)
        crowd->cpus[i] |= cpus[i];
}

static uint32_t within_quota(const struct nigh_crowd *crowd, uint32_t cpus)
{
    uint32_t paid = crowd->quota == UINT32_MAX ? cpus : crowd->quota / 1000;

    return paid < cpus ? paid : cpus;
}

/* Ranks that are not attached yet may be bound to CPUs that nobody here uses, so they are held against the machine. */
static void judge(struct nigh_crowd *crowd)
{
    uint32_t cpus = 0;

    for (uint32_t i = 0; i < WORDS; i++)
        cpus += (uint32_t)__builtin_popcountll(crowd->cpus[i]);
    crowd->full =
        crowd->members > within_quota(crowd, cpus) || crowd->ranks > within_quota(crowd, crowd->online);
}

void nigh_crowd_start(struct nigh_crowd *crowd, uint32_t ranks)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    *crowd = (struct nigh_crowd){.ranks = ranks,
                                 .members = 1,
                                 .online = online < 1 ? 1 : (uint32_t)online,
                                 .quota = nigh_cgroup_cpu_milli()};
    add_cpus(crowd, 0);
    judge(crowd);
}

void nigh_crowd_add(struct nigh_crowd *crowd, int pid)
{
    crowd->members++;
    add_cpus(crowd, pid > 0 ? pid : -1);
    judge(crowd);
}

void nigh_crowd_remove(struct nigh_crowd *crowd)
{
    crowd->members--;
    judge(crowd);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/topology.h - the CPUs that this process may use and what they share: L3 caches, NUMA nodes, packages; and memory
 * placed near them. From hwloc; where hwloc has nothing, from the kernel's lists; where these have
 * nothing, a guess that says so.
 */
#ifndef NIGH_SHM_TOPOLOGY_H
#define NIGH_SHM_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#define NIGH_TOPOLOGY_CPUS   8192u /* numbers of CPUs are below: the largest that Linux can be built for */
#define NIGH_TOPOLOGY_REASON 112u

/* Domains are numbered from 0 without gaps, in the order of the first CPU in each. */
struct nigh_topology_cpu {
    uint16_t number; /* as the kernel counts */
    uint16_t l3, node, package;
};

struct nigh_topology {
    uint32_t cpus; /* that this process may run on; at least 1 */
    uint32_t l3_domains, numa_nodes, packages;
    struct nigh_topology_cpu *cpu;     /* [cpus], by ascending number */
    char reason[NIGH_TOPOLOGY_REASON]; /* why this is not, or not all, what the machine says; "" if it is */
};

/*
 * Looks at the machine; takes milliseconds (hwloc reads hundreds of files). The CPUs are those that the calling
 * thread's affinity allows, unless HWLOC_XMLFILE or HWLOC_SYNTHETIC describe another machine: then all of that one.
 * -ENOMEM, nothing to free then. Anything else that goes wrong ends in `reason`. Any thread.
 */
int nigh_topology_load(struct nigh_topology *out);
void nigh_topology_free(struct nigh_topology *topology);

/* The entry of a CPU, NULL if this process may not use it. */
const struct nigh_topology_cpu *nigh_topology_find(const struct nigh_topology *topology, uint32_t number);

/* How many threads of this process can run at one time: the CPUs of the calling thread's affinity, or fewer if the
 * control group's quota of CPU time pays for fewer. At least 1. Cheap enough for each open: no hwloc. */
uint32_t nigh_topology_runnable(void);

/*
 * Asks the kernel to take the pages of [base, base + bytes) from the NUMA node of the calling thread's CPU, and from
 * elsewhere only when that is full: a wish, so that it can never make an access fail. Nothing happens on a machine with
 * one node, and where the user has chosen a policy (numactl). `base` on a page. 0, or a negative errno of mbind, which
 * changes nothing.
 */
int nigh_topology_place(void *base, uint64_t bytes);

/* For nigh_topology_place() and its test: the same with the node given. */
int nigh_topology_place_on(uint32_t node, void *base, uint64_t bytes);

/* For topology.c alone: what a source says of one CPU, in any numbers; NIGH_TOPOLOGY_UNKNOWN where it says nothing. */
#define NIGH_TOPOLOGY_UNKNOWN UINT32_MAX
struct nigh_topology_facts {
    uint32_t l3, node, package;
};

/* Fills facts[cpus] of the CPUs numbers[cpus] from /sys. Cannot fail: what is not there stays unknown. */
void nigh_topology_read_sysfs(const uint16_t *numbers, uint32_t cpus, struct nigh_topology_facts *facts);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/place.c - puts shared memory near the thread that asks. Apart from topology.c because it asks libnuma, which
 * answers in a system call, where hwloc takes milliseconds. */
#include "shm/os.h"
#include "shm/topology.h"

#include <errno.h>
#include <numa.h>
#include <numaif.h>

enum { WORD_BITS = 8 * sizeof(unsigned long), NODES = 1024 };

int nigh_topology_place_on(uint32_t node, void *base, uint64_t bytes)
{
    unsigned long nodes[NODES / WORD_BITS] = {0};

    if (node >= NODES)
        return -EINVAL;
    nodes[node / WORD_BITS] = 1ul << (node % WORD_BITS);
    /* One more bit than there are: the kernel takes the number as exclusive. */
    return nigh_os.mbind(base, bytes, MPOL_PREFERRED, nodes, NODES + 1, 0) == 0 ? 0 : -errno;
}

int nigh_topology_place(void *base, uint64_t bytes)
{
    int cpu, node, policy = MPOL_DEFAULT;

    if (numa_available() < 0 || numa_num_configured_nodes() < 2)
        return 0;
    if (nigh_os.get_mempolicy(&policy, NULL, 0, NULL, 0) != 0 || policy != MPOL_DEFAULT)
        return 0;
    cpu = nigh_os.sched_getcpu();
    node = cpu < 0 ? -1 : numa_node_of_cpu(cpu);
    return node < 0 ? 0 : nigh_topology_place_on((uint32_t)node, base, bytes);
}

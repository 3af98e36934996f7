/* SPDX-License-Identifier: BSD-3-Clause */
/* The order in which CPUs are given to ranks. */
#include "tools/perf/cpus.h"

#include <errno.h>
#include <hwloc.h>
#include <sched.h>

/* The `turn`-th allowed hardware thread of each core. */
static uint32_t one_per_core(hwloc_topology_t topology, const cpu_set_t *allowed, unsigned turn, int *cpus,
                             uint32_t max)
{
    int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    uint32_t n = 0;

    for (int c = 0; c < cores; c++) {
        hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)c);
        unsigned seen = 0;
        int cpu;

        hwloc_bitmap_foreach_begin(cpu, core->cpuset) if (cpu < CPU_SETSIZE &&
                                                          CPU_ISSET((size_t)cpu, allowed) && seen++ == turn &&
                                                          n < max) cpus[n++] = cpu;
        hwloc_bitmap_foreach_end();
    }
    return n;
}

static uint32_t by_number(const cpu_set_t *allowed, int *cpus, uint32_t max)
{
    uint32_t n = 0;

    for (int cpu = 0; cpu < CPU_SETSIZE && n < max; cpu++)
        if (CPU_ISSET((size_t)cpu, allowed))
            cpus[n++] = cpu;
    return n;
}

int perf_cpus(int *cpus, uint32_t max)
{
    hwloc_topology_t topology;
    cpu_set_t allowed;
    uint32_t n = 0, more = 1;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return -errno;
    if (hwloc_topology_init(&topology) == 0) {
        if (hwloc_topology_load(topology) == 0)
            for (unsigned turn = 0; more > 0 && n < max; turn++) {
                more = one_per_core(topology, &allowed, turn, cpus + n, max - n);
                n += more;
            }
        hwloc_topology_destroy(topology);
    }
    /* Containers that hide the topology: numbers are all there is. */
    return (int)(n ? n : by_number(&allowed, cpus, max));
}

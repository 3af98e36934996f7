/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank runs on which CPUs. */
#ifndef NIGH_TOOLS_RUN_BIND_H
#define NIGH_TOOLS_RUN_BIND_H

#include <stdbool.h>
#include <stdint.h>

#include <hwloc.h>

#include "tools/run/options.h"

struct run_binding {
    hwloc_topology_t topology;
    hwloc_cpuset_t *places; /* NULL: nobody is bound */
    uint32_t place_count, ranks;
    uint32_t cores, cpus; /* that this process may use */
    hwloc_cpuset_t spare; /* of those it may use, the CPUs of no rank */
};

/*
 * Look at the machine and choose places, within the CPUs that nigh-run itself may use. 0, -ENODEV when the
 * machine has no object of the kind that was asked for, or another negative errno of hwloc; *binding is only
 * written on success and then closed by run_binding_close.
 */
int run_binding_open(struct run_binding *binding, enum run_bind bind, uint32_t ranks);
void run_binding_close(struct run_binding *binding);

/* More ranks than cores? */
bool run_binding_oversubscribed(const struct run_binding *binding);

/* More ranks than CPUs, of which a core may have several: do they run in turns? */
bool run_binding_crowded(const struct run_binding *binding);

/* Bind the calling process to rank's place; nothing to do when nobody is bound. 0 or a negative errno. */
int run_binding_apply(const struct run_binding *binding, uint32_t rank);

/* rank's CPUs as text, "any" when it is not bound; `text` gets at most `bytes`. */
void run_binding_text(const struct run_binding *binding, uint32_t rank, char *text, size_t bytes);

/* CPUs that no rank is bound to as text, for the threads that ranks have: one for each rank, in their order and as near
 * to it as can be, or all there are if they are fewer. Empty when nobody is bound, and when there are none. */
void run_binding_spare_text(const struct run_binding *binding, char *text, size_t bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/where.h - where on the machine the calling thread may run: the L3 cache, the NUMA node and the package that all CPUs of its
 * affinity share. The numbers mean the same to all processes of the machine; those of shm/topology.h are a process's own. */
#ifndef NIGH_SHM_WHERE_H
#define NIGH_SHM_WHERE_H

#include <stdbool.h>
#include <stdint.h>

/* A number + 1 each; 0: not known, or the affinity spans several. */
struct nigh_where {
    uint16_t l3, node, package;
};

#define NIGH_WHERE_MOST 65534u /* of a number */

/* From the kernel's lists of the first CPU of the affinity: a few files, however many CPUs there are. From hwloc where
 * HWLOC_XMLFILE or HWLOC_SYNTHETIC describe another machine. What cannot be read is not known. Any thread. */
void nigh_where_look(struct nigh_where *out);

/* "L3/NODE/PACKAGE", each a number up to NIGH_WHERE_MOST or "-": not known. False: it is not of this form. */
bool nigh_where_parse(const char *text, struct nigh_where *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/topology_sysfs.c - the topology from the kernel's own lists, for machines that hwloc cannot read. */
#include "shm/file.h"
#include "shm/topology.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CPU_FOLDER  "/sys/devices/system/cpu/cpu"
#define NODE_FOLDER "/sys/devices/system/node"

enum { INDEXES = 16, LIST_ROOM = 16384 };

static void keep_first(uint32_t number, void *data)
{
    uint32_t *first = data;

    if (*first == NIGH_TOPOLOGY_UNKNOWN)
        *first = number;
}

/* The first CPU of the list that an L3 is shared by stands for that L3: the `id` file is younger than many kernels. */
static uint32_t read_l3(uint32_t cpu)
{
    char path[128], text[LIST_ROOM];

    for (uint32_t index = 0; index < INDEXES; index++) {
        uint32_t first = NIGH_TOPOLOGY_UNKNOWN;
        uint64_t level;

        snprintf(path, sizeof(path), CPU_FOLDER "%" PRIu32 "/cache/index%" PRIu32 "/level", cpu, index);
        if (nigh_file_read_number(path, &level) != 0)
            return NIGH_TOPOLOGY_UNKNOWN;
        if (level != 3)
            continue;
        snprintf(path, sizeof(path), CPU_FOLDER "%" PRIu32 "/cache/index%" PRIu32 "/shared_cpu_list", cpu,
                 index);
        if (nigh_file_read(path, text, sizeof(text)) == 0)
            nigh_file_each_of_list(text, NIGH_TOPOLOGY_CPUS, keep_first, &first);
        return first;
    }
    return NIGH_TOPOLOGY_UNKNOWN;
}

static uint32_t read_package(uint32_t cpu)
{
    char path[128];
    uint64_t package;

    snprintf(path, sizeof(path), CPU_FOLDER "%" PRIu32 "/topology/physical_package_id", cpu);
    /* Some virtual machines write -1, which is no number of a package. */
    if (nigh_file_read_number(path, &package) != 0 || package >= UINT32_C(1) << 31)
        return NIGH_TOPOLOGY_UNKNOWN;
    return (uint32_t)package;
}

/* While the lists of the nodes are read. */
struct nodes {
    const uint16_t *numbers;
    uint32_t cpus;
    struct nigh_topology_facts *facts;
    uint32_t node;
};

static void add_cpu(uint32_t number, void *data)
{
    struct nodes *nodes = data;

    for (uint32_t i = 0; i < nodes->cpus; i++) {
        if (nodes->numbers[i] == number)
            nodes->facts[i].node = nodes->node;
    }
}

static void read_node(uint32_t node, void *data)
{
    struct nodes *nodes = data;
    char path[128], text[LIST_ROOM];

    snprintf(path, sizeof(path), NODE_FOLDER "/node%" PRIu32 "/cpulist", node);
    nodes->node = node;
    if (nigh_file_read(path, text, sizeof(text)) == 0)
        nigh_file_each_of_list(text, NIGH_TOPOLOGY_CPUS, add_cpu, nodes);
}

void nigh_topology_read_sysfs(const uint16_t *numbers, uint32_t cpus, struct nigh_topology_facts *facts)
{
    struct nodes nodes = {numbers, cpus, facts, 0};
    char text[LIST_ROOM];

    for (uint32_t i = 0; i < cpus; i++) {
        facts[i].l3 = read_l3(numbers[i]);
        facts[i].package = read_package(numbers[i]);
        facts[i].node = NIGH_TOPOLOGY_UNKNOWN;
    }
    if (nigh_file_read(NODE_FOLDER "/online", text, sizeof(text)) == 0)
        nigh_file_each_of_list(text, NIGH_TOPOLOGY_CPUS, read_node, &nodes);
}

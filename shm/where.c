/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/where.c - see where.h. Not by hwloc on this machine: hwloc reads the lists of all CPUs, in each of the ranks at once. */
#include "shm/where.h"
#include "shm/file.h"
#include "shm/os.h"
#include "shm/topology.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPU_FOLDER  "/sys/devices/system/cpu/cpu"
#define NODE_FOLDER "/sys/devices/system/node"

enum { WORD = 8 * sizeof(unsigned long), INDEXES = 16, LIST_ROOM = 16384 };

struct cpus {
    unsigned long words[NIGH_TOPOLOGY_CPUS / WORD];
    uint32_t count, first;
};

static bool has_cpu(const struct cpus *cpus, uint32_t number)
{
    return number < NIGH_TOPOLOGY_CPUS && cpus->words[number / WORD] >> number % WORD & 1;
}

static bool read_affinity(struct cpus *out)
{
    memset(out, 0, sizeof(*out));
    if (nigh_os.sched_getaffinity(0, sizeof(out->words), (cpu_set_t *)(void *)out->words))
        return false;
    out->first = UINT32_MAX;
    for (uint32_t i = 0; i < NIGH_TOPOLOGY_CPUS; i++) {
        if (!has_cpu(out, i))
            continue;
        out->first = i < out->first ? i : out->first;
        out->count++;
    }
    return out->count != 0;
}

/* ---- the kernel's lists ---- */

struct list {
    const struct cpus *cpus;
    uint32_t first, shared; /* the lowest number in it; how many of `cpus` are in it */
};

static void add_number(uint32_t number, void *data)
{
    struct list *list = data;

    if (list->first == UINT32_MAX)
        list->first = number;
    list->shared += has_cpu(list->cpus, number);
}

/* False: there is no such file. */
static bool read_list(const char *path, const struct cpus *cpus, struct list *out)
{
    char text[LIST_ROOM];

    *out = (struct list){.cpus = cpus, .first = UINT32_MAX};
    if (nigh_file_read(path, text, sizeof(text)))
        return false;
    nigh_file_each_of_list(text, NIGH_TOPOLOGY_CPUS, add_number, out);
    return true;
}

/* The lowest CPU of a list stands for what its CPUs share. */
static uint16_t shared_of(const char *path, const struct cpus *cpus)
{
    struct list list;

    return read_list(path, cpus, &list) && list.shared == cpus->count ? (uint16_t)(list.first + 1) : 0;
}

static uint16_t look_for_l3(const struct cpus *cpus)
{
    char path[128];

    for (uint32_t index = 0; index < INDEXES; index++) {
        uint64_t level;

        snprintf(path, sizeof(path), CPU_FOLDER "%" PRIu32 "/cache/index%" PRIu32 "/level", cpus->first,
                 index);
        if (nigh_file_read_number(path, &level))
            return 0;
        if (level != 3)
            continue;
        snprintf(path, sizeof(path), CPU_FOLDER "%" PRIu32 "/cache/index%" PRIu32 "/shared_cpu_list",
                 cpus->first, index);
        return shared_of(path, cpus);
    }
    return 0;
}

static uint16_t look_for_package(const struct cpus *cpus)
{
    char path[128];
    uint64_t number;
    uint16_t package;

    /* Some virtual machines write -1, and list what they do not know. */
    snprintf(path, sizeof(path), CPU_FOLDER "%" PRIu32 "/topology/physical_package_id", cpus->first);
    if (nigh_file_read_number(path, &number) || number > INT32_MAX)
        return 0;
    snprintf(path, sizeof(path), CPU_FOLDER "%" PRIu32 "/topology/package_cpus_list", cpus->first);
    package = shared_of(path, cpus);
    if (package)
        return package;
    /* Its name in kernels before 5.2. */
    snprintf(path, sizeof(path), CPU_FOLDER "%" PRIu32 "/topology/core_siblings_list", cpus->first);
    return shared_of(path, cpus);
}

struct node_look {
    const struct cpus *cpus;
    uint16_t node;
};

static void look_at_node(uint32_t node, void *data)
{
    struct node_look *look = data;
    struct list list;
    char path[128];

    snprintf(path, sizeof(path), NODE_FOLDER "/node%" PRIu32 "/cpulist", node);
    if (!look->node && node <= NIGH_WHERE_MOST && read_list(path, look->cpus, &list) &&
        list.shared == look->cpus->count)
        look->node = (uint16_t)(node + 1);
}

static uint16_t look_for_node(const struct cpus *cpus)
{
    struct node_look look = {.cpus = cpus};
    char text[LIST_ROOM];

    if (nigh_file_read(NODE_FOLDER "/online", text, sizeof(text)) == 0)
        nigh_file_each_of_list(text, NIGH_TOPOLOGY_CPUS, look_at_node, &look);
    return look.node;
}

/* ---- another machine ---- */

static uint16_t agreed(bool first, uint16_t before, uint16_t number)
{
    return first || before == number + 1 ? (uint16_t)(number + 1) : 0;
}

static void look_at_described(const struct cpus *cpus, struct nigh_where *out)
{
    struct nigh_topology topology;
    bool first = true;

    if (nigh_topology_load(&topology))
        return;
    for (uint32_t i = cpus->first; i < NIGH_TOPOLOGY_CPUS; i++) {
        const struct nigh_topology_cpu *cpu = has_cpu(cpus, i) ? nigh_topology_find(&topology, i) : NULL;

        if (!has_cpu(cpus, i))
            continue;
        if (!cpu) { /* that machine has no such CPU */
            *out = (struct nigh_where){.l3 = 0};
            break;
        }
        out->l3 = agreed(first, out->l3, cpu->l3);
        out->node = agreed(first, out->node, cpu->node);
        out->package = agreed(first, out->package, cpu->package);
        first = false;
    }
    nigh_topology_free(&topology);
}

void nigh_where_look(struct nigh_where *out)
{
    struct cpus cpus;

    *out = (struct nigh_where){.l3 = 0};
    if (!read_affinity(&cpus))
        return;
    if (getenv("HWLOC_XMLFILE") || getenv("HWLOC_SYNTHETIC")) {
        look_at_described(&cpus, out);
        return;
    }
    out->l3 = look_for_l3(&cpus);
    out->node = look_for_node(&cpus);
    out->package = look_for_package(&cpus);
}

/* ---- as text ---- */

static bool parse_one(const char **at, char end, uint16_t *out)
{
    unsigned long number = 0;
    const char *text = *at;

    *out = 0;
    if (*text == '-') {
        text++;
    } else {
        if (*text < '0' || *text > '9')
            return false;
        for (; *text >= '0' && *text <= '9' && number <= NIGH_WHERE_MOST; text++)
            number = number * 10 + (unsigned long)(*text - '0');
        if (number > NIGH_WHERE_MOST)
            return false;
        *out = (uint16_t)(number + 1);
    }
    if (*text != end)
        return false;
    *at = text + (end != '\0');
    return true;
}

bool nigh_where_parse(const char *text, struct nigh_where *out)
{
    struct nigh_where where;

    if (!parse_one(&text, '/', &where.l3) || !parse_one(&text, '/', &where.node) ||
        !parse_one(&text, '\0', &where.package))
        return false;
    *out = where;
    return true;
}

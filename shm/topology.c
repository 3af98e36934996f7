/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/topology.c - asks hwloc, else the kernel's lists, and numbers what they say. */
#include "shm/topology.h"
#include "include/common/descriptor.h"
#include "shm/cgroup.h"
#include "shm/os.h"

#include <errno.h>
#include <hwloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN NIGH_TOPOLOGY_UNKNOWN

/* While a topology is put together. */
struct draft {
    uint32_t cpus;
    uint16_t numbers[NIGH_TOPOLOGY_CPUS];
    struct nigh_topology_facts facts[NIGH_TOPOLOGY_CPUS];
    char *reason; /* of the topology; the first reason stays */
};

static void __attribute__((format(printf, 2, 3))) explain(struct draft *draft, const char *format, ...)
{
    va_list arguments;

    if (draft->reason[0] != 0)
        return;
    va_start(arguments, format);
    vsnprintf(draft->reason, NIGH_TOPOLOGY_REASON, format, arguments);
    va_end(arguments);
}

/* ---- which CPUs ---- */

typedef struct {
    unsigned long words[NIGH_TOPOLOGY_CPUS / (8 * sizeof(unsigned long))];
} cpu_bits;

static bool has_cpu(const cpu_bits *bits, uint32_t number)
{
    const uint32_t width = 8 * sizeof(unsigned long);

    return (bits->words[number / width] >> (number % width) & 1) != 0;
}

static int read_affinity(cpu_bits *out)
{
    memset(out, 0, sizeof(*out));
    return nigh_os.sched_getaffinity(0, sizeof(*out), (cpu_set_t *)(void *)out) == 0 ? 0 : -errno;
}

static uint32_t count_cpus(const cpu_bits *bits)
{
    uint32_t count = 0;

    for (size_t i = 0; i < sizeof(bits->words) / sizeof(bits->words[0]); i++)
        count += (uint32_t)__builtin_popcountl(bits->words[i]);
    return count;
}

static void list_affinity(struct draft *draft)
{
    cpu_bits bits;
    int rc = read_affinity(&bits);

    if (rc != 0 || count_cpus(&bits) == 0) {
        explain(draft, "the affinity cannot be read (%s): taken to be CPU 0 alone", strerror(-rc));
        draft->numbers[draft->cpus++] = 0;
        return;
    }
    for (uint32_t i = 0; i < NIGH_TOPOLOGY_CPUS; i++) {
        if (has_cpu(&bits, i))
            draft->numbers[draft->cpus++] = (uint16_t)i;
    }
}

uint32_t nigh_topology_runnable(void)
{
    uint32_t quota = nigh_cgroup_cpu_milli(), cpus = 1;
    cpu_bits bits;

    if (read_affinity(&bits) == 0)
        cpus = count_cpus(&bits);
    if (cpus == 0)
        cpus = 1;
    if (quota != UINT32_MAX && quota / 1000 < cpus)
        cpus = quota / 1000; /* what is left of a quota of 2.5 is no CPU that a third thread could spin on */
    return cpus == 0 ? 1 : cpus;
}

/* ---- hwloc ---- */

/* An XML file that cannot be read makes hwloc look at the machine without a word, so it is named to it. */
static void name_source(struct draft *draft, hwloc_topology_t hwloc)
{
    const char *file = getenv("HWLOC_XMLFILE");

    if (file != NULL && hwloc_topology_set_xml(hwloc, file) != 0)
        explain(draft, "HWLOC_XMLFILE=%.50s cannot be read: looked at the machine", file);
}

static void list_all(struct draft *draft, hwloc_topology_t hwloc)
{
    hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(hwloc);
    unsigned number;

    hwloc_bitmap_foreach_begin(number, allowed)
    {
        if (number < NIGH_TOPOLOGY_CPUS)
            draft->numbers[draft->cpus++] = (uint16_t)number;
    }
    hwloc_bitmap_foreach_end();
    explain(draft, "described by %s, not by this machine",
            getenv("HWLOC_XMLFILE") != NULL ? "HWLOC_XMLFILE" : "hwloc's environment variables");
}

static uint32_t ancestor(hwloc_topology_t hwloc, hwloc_obj_t cpu, hwloc_obj_type_t type)
{
    hwloc_obj_t object = hwloc_get_ancestor_obj_by_type(hwloc, type, cpu);

    return object == NULL ? UNKNOWN : object->logical_index;
}

static struct nigh_topology_facts ask_hwloc(hwloc_topology_t hwloc, uint16_t number)
{
    hwloc_obj_t cpu = hwloc_get_pu_obj_by_os_index(hwloc, number);
    int node = cpu == NULL || cpu->nodeset == NULL ? -1 : hwloc_bitmap_first(cpu->nodeset);

    if (cpu == NULL)
        return (struct nigh_topology_facts){UNKNOWN, UNKNOWN, UNKNOWN};
    return (struct nigh_topology_facts){.l3 = ancestor(hwloc, cpu, HWLOC_OBJ_L3CACHE),
                                        .node = node < 0 ? UNKNOWN : (uint32_t)node,
                                        .package = ancestor(hwloc, cpu, HWLOC_OBJ_PACKAGE)};
}

static void read_hwloc(struct draft *draft, hwloc_topology_t hwloc)
{
    if (!hwloc_topology_is_thissystem(hwloc))
        list_all(draft, hwloc);
    if (draft->cpus == 0)
        list_affinity(draft);
    for (uint32_t i = 0; i < draft->cpus; i++) {
        draft->facts[i] = ask_hwloc(hwloc, draft->numbers[i]);
        if (draft->facts[i].package == UNKNOWN && draft->facts[i].node == UNKNOWN)
            explain(draft, "hwloc does not know CPU %u", draft->numbers[i]);
    }
}

static void read_machine(struct draft *draft)
{
    const char *file = getenv("HWLOC_XMLFILE");
    unsigned low = nigh_low_hold(); /* hwloc keeps a directory open until it is destroyed */
    hwloc_topology_t hwloc;
    int failed = hwloc_topology_init(&hwloc);

    if (failed == 0) {
        name_source(draft, hwloc);
        failed = hwloc_topology_load(hwloc);
        if (failed == 0)
            read_hwloc(draft, hwloc);
        hwloc_topology_destroy(hwloc);
    }
    nigh_low_release(low);
    if (failed == 0)
        return;
    /* Without its plugin for libxml2 hwloc finds out so late that a file holds nothing. */
    if (file != NULL)
        explain(draft, "HWLOC_XMLFILE=%.50s describes no machine: taken from /sys/devices/system", file);
    explain(draft, "hwloc does not know this machine: taken from /sys/devices/system");
    list_affinity(draft);
    nigh_topology_read_sysfs(draft->numbers, draft->cpus, draft->facts);
}

/* ---- numbering ---- */

/* Without an L3 in the lists (virtual machines, some Arm) a package is the best guess at what shares a cache. */
static void guess(struct draft *draft)
{
    for (uint32_t i = 0; i < draft->cpus; i++) {
        struct nigh_topology_facts *facts = &draft->facts[i];

        if (facts->l3 == UNKNOWN) {
            explain(draft, "no L3 cache is listed for CPU %u: a package is taken to share one",
                    draft->numbers[i]);
            facts->l3 = facts->package == UNKNOWN ? UNKNOWN : facts->package | UINT32_C(1) << 31;
        }
    }
}

/* The number of `value` among those seen, which it joins if it is new. */
static uint16_t number_of(uint32_t value, uint32_t *seen, uint32_t *count)
{
    uint32_t i = 0;

    while (i < *count && seen[i] != value)
        i++;
    if (i == *count)
        seen[(*count)++] = value;
    return (uint16_t)i;
}

static void number_all(const struct draft *draft, struct nigh_topology *topology, uint32_t *seen)
{
    uint32_t *l3s = seen, *nodes = seen + draft->cpus, *packages = nodes + draft->cpus;

    for (uint32_t i = 0; i < draft->cpus; i++) {
        const struct nigh_topology_facts *facts = &draft->facts[i];

        topology->cpu[i] = (struct nigh_topology_cpu){
            .number = draft->numbers[i],
            .l3 = number_of(facts->l3, l3s, &topology->l3_domains),
            .node = number_of(facts->node, nodes, &topology->numa_nodes),
            .package = number_of(facts->package, packages, &topology->packages),
        };
    }
    topology->cpus = draft->cpus;
}

int nigh_topology_load(struct nigh_topology *out)
{
    struct nigh_topology topology = {0};
    struct draft *draft = nigh_os.calloc(1, sizeof(*draft));
    uint32_t *seen;
    int rc = -ENOMEM;

    if (draft == NULL)
        return -ENOMEM;
    draft->reason = topology.reason;
    read_machine(draft);
    guess(draft);
    seen = nigh_os.calloc(3 * (size_t)draft->cpus, sizeof(*seen));
    if (seen == NULL)
        goto no_seen;
    topology.cpu = nigh_os.calloc(draft->cpus, sizeof(*topology.cpu));
    if (topology.cpu == NULL)
        goto no_cpu;
    number_all(draft, &topology, seen);
    *out = topology;
    rc = 0;
no_cpu:
    free(seen);
no_seen:
    free(draft);
    return rc;
}

void nigh_topology_free(struct nigh_topology *topology)
{
    free(topology->cpu);
    memset(topology, 0, sizeof(*topology));
}

const struct nigh_topology_cpu *nigh_topology_find(const struct nigh_topology *topology, uint32_t number)
{
    uint32_t first = 0, end = topology->cpus;

    while (first < end) {
        uint32_t middle = first + (end - first) / 2;

        if (topology->cpu[middle].number < number)
            first = middle + 1;
        else
            end = middle;
    }
    return first < topology->cpus && topology->cpu[first].number == number ? &topology->cpu[first] : NULL;
}

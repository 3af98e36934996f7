/* SPDX-License-Identifier: BSD-3-Clause */
/* Places for ranks out of hwloc's picture of the machine, cut down to the CPUs that nigh-run may use itself. */
#include "tools/run/bind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int load(hwloc_topology_t *topology)
{
    if (hwloc_topology_init(topology) != 0)
        return -ENOMEM;
    if (hwloc_topology_load(*topology) != 0) {
        hwloc_topology_destroy(*topology);
        return -EIO;
    }
    return 0;
}

/*
 * All objects of `type` that share CPUs with `allowed`, as sets of those CPUs. NUMA nodes without CPUs (memory
 * only) fall out by the same rule. The number, or a negative errno.
 */
static int collect(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_cpuset_t allowed,
                   hwloc_cpuset_t **places)
{
    hwloc_obj_t object = NULL;
    int count = 0, all = hwloc_get_nbobjs_by_type(topology, type);
    hwloc_cpuset_t *found;

    if (all <= 0)
        return 0;
    found = calloc((size_t)all, sizeof(*found));
    if (found == NULL)
        return -ENOMEM;
    while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != NULL) {
        hwloc_cpuset_t place;

        if (!hwloc_bitmap_intersects(object->cpuset, allowed))
            continue;
        place = hwloc_bitmap_dup(object->cpuset);
        if (place == NULL)
            abort(); /* a few bytes, before any rank has started */
        hwloc_bitmap_and(place, place, allowed);
        found[count++] = place;
    }
    *places = found;
    return count;
}

static void drop(hwloc_cpuset_t *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        hwloc_bitmap_free(places[i]);
    free(places);
}

/* The CPUs that this process may use: its affinity, which a cgroup's cpuset has already cut. By thread, here and below: of a
 * process hwloc looks for the threads in /proc, and both have but one. */
static hwloc_cpuset_t own_cpus(hwloc_topology_t topology)
{
    hwloc_cpuset_t cpus = hwloc_bitmap_alloc();

    if (cpus != NULL && hwloc_get_cpubind(topology, cpus, HWLOC_CPUBIND_THREAD) != 0)
        hwloc_bitmap_copy(cpus, hwloc_topology_get_allowed_cpuset(topology));
    return cpus;
}

static int choose(struct run_binding *binding, enum run_bind bind, hwloc_const_cpuset_t allowed)
{
    static const hwloc_obj_type_t types[] = {[RUN_BIND_CORE] = HWLOC_OBJ_CORE,
                                             [RUN_BIND_L3] = HWLOC_OBJ_L3CACHE,
                                             [RUN_BIND_NUMA] = HWLOC_OBJ_NUMANODE};
    hwloc_cpuset_t *cores = NULL;
    int count = collect(binding->topology, HWLOC_OBJ_CORE, allowed, &cores);

    if (count == 0) /* a machine that does not tell its cores: each CPU is one */
        count = collect(binding->topology, HWLOC_OBJ_PU, allowed, &cores);
    if (count < 0)
        return count;
    binding->cores = (uint32_t)count;
    if (bind == RUN_BIND_CORE && !run_binding_oversubscribed(binding)) {
        binding->places = cores;
        binding->place_count = binding->cores;
        return 0;
    }
    drop(cores, binding->cores);
    if (bind == RUN_BIND_CORE || bind == RUN_BIND_NONE)
        return 0;
    count = collect(binding->topology, types[bind], allowed, &binding->places);
    if (count <= 0)
        return count < 0 ? count : -ENODEV;
    binding->place_count = (uint32_t)count;
    return 0;
}

/* Cores are given out in order; caches and nodes in blocks, so that neighbours in rank share one. */
static hwloc_const_cpuset_t place_of(const struct run_binding *binding, uint32_t rank)
{
    if (binding->ranks <= binding->place_count)
        return binding->places[rank];
    return binding->places[(uint64_t)rank * binding->place_count / binding->ranks];
}

static hwloc_cpuset_t left_over(const struct run_binding *binding, hwloc_const_cpuset_t allowed)
{
    hwloc_cpuset_t spare = hwloc_bitmap_dup(allowed);

    for (uint32_t rank = 0; spare != NULL && rank < binding->ranks; rank++)
        hwloc_bitmap_andnot(spare, spare, place_of(binding, rank));
    return spare;
}

int run_binding_open(struct run_binding *binding, enum run_bind bind, uint32_t ranks)
{
    struct run_binding made = {.ranks = ranks};
    hwloc_cpuset_t allowed;
    int rc = load(&made.topology);

    if (rc != 0)
        return rc;
    allowed = own_cpus(made.topology);
    rc = allowed == NULL ? -ENOMEM : choose(&made, bind, allowed);
    if (rc == 0)
        made.cpus = (uint32_t)hwloc_bitmap_weight(allowed);
    if (rc == 0 && made.places != NULL)
        made.spare = left_over(&made, allowed);
    hwloc_bitmap_free(allowed);
    if (rc != 0) {
        hwloc_topology_destroy(made.topology);
        return rc;
    }
    *binding = made;
    return 0;
}

void run_binding_close(struct run_binding *binding)
{
    drop(binding->places, binding->place_count);
    hwloc_bitmap_free(binding->spare);
    hwloc_topology_destroy(binding->topology);
}

bool run_binding_oversubscribed(const struct run_binding *binding)
{
    return binding->ranks > binding->cores;
}

bool run_binding_crowded(const struct run_binding *binding)
{
    return binding->ranks > binding->cpus;
}

int run_binding_apply(const struct run_binding *binding, uint32_t rank)
{
    if (binding->places == NULL)
        return 0;
    return hwloc_set_cpubind(binding->topology, place_of(binding, rank), HWLOC_CPUBIND_THREAD) == 0 ? 0
                                                                                                    : -errno;
}

void run_binding_text(const struct run_binding *binding, uint32_t rank, char *text, size_t bytes)
{
    if (binding->places == NULL)
        snprintf(text, bytes, "any");
    else
        hwloc_bitmap_list_snprintf(text, bytes, place_of(binding, rank));
}

/* Takes out of `spare` a CPU within the smallest object around rank's place that has any. */
static int take_near(const struct run_binding *binding, uint32_t rank, hwloc_bitmap_t spare)
{
    hwloc_obj_t around = hwloc_get_obj_covering_cpuset(binding->topology, place_of(binding, rank));
    hwloc_bitmap_t near = hwloc_bitmap_alloc();
    int cpu;

    while (around != NULL && !hwloc_bitmap_intersects(around->cpuset, spare))
        around = around->parent;
    if (near != NULL && around != NULL)
        hwloc_bitmap_and(near, around->cpuset, spare);
    cpu = near != NULL ? hwloc_bitmap_first(near) : -1;
    hwloc_bitmap_free(near);
    if (cpu >= 0)
        hwloc_bitmap_clr(spare, (unsigned)cpu);
    return cpu;
}

void run_binding_spare_text(const struct run_binding *binding, char *text, size_t bytes)
{
    hwloc_bitmap_t spare = binding->spare ? hwloc_bitmap_dup(binding->spare) : NULL;
    size_t used = 0;

    text[0] = '\0';
    if (spare != NULL && hwloc_bitmap_weight(spare) < (int)binding->ranks) {
        hwloc_bitmap_list_snprintf(text, bytes, spare);
    } else if (spare != NULL) {
        for (uint32_t rank = 0; rank < binding->ranks && used < bytes; rank++)
            used += (size_t)snprintf(text + used, bytes - used, "%s%d", rank ? "," : "",
                                     take_near(binding, rank, spare));
        if (used >= bytes)
            text[0] = '\0'; /* of thousands of ranks */
    }
    hwloc_bitmap_free(spare);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Topologies: of machines described by XML, of this one, of one that hwloc cannot read; and where memory is put. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/topology.h"
#include "tests/support/fakeroot.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <hwloc.h>
#include <numa.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The linker puts this in place of hwloc's, so that the way without it can be gone. */
int __real_hwloc_topology_load(hwloc_topology_t topology);
int __wrap_hwloc_topology_load(hwloc_topology_t topology);
static bool hwloc_fails;

int __wrap_hwloc_topology_load(hwloc_topology_t topology)
{
    return hwloc_fails ? -1 : __real_hwloc_topology_load(topology);
}

static cpu_set_t allowed;

static int fake_affinity(pid_t pid, size_t bytes, cpu_set_t *out)
{
    (void)pid;
    memset(out, 0, bytes);
    memcpy(out, &allowed, bytes < sizeof(allowed) ? bytes : sizeof(allowed));
    return 0;
}

static void allow(int first, int last)
{
    CPU_ZERO(&allowed);
    for (int i = first; i <= last; i++)
        CPU_SET(i, &allowed);
    nigh_os.sched_getaffinity = fake_affinity;
}

static int keep_table(void **state)
{
    struct nigh_os *kept = malloc(sizeof(*kept));

    assert_non_null(kept);
    *kept = nigh_os;
    *state = kept;
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_THISSYSTEM");
    return 0;
}

static int restore_table(void **state)
{
    nigh_os = *(struct nigh_os *)*state;
    free(*state);
    hwloc_fails = false;
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_THISSYSTEM");
    return 0;
}

/* Writes the machine that hwloc's short description names to an XML file and makes hwloc read it. */
static void describe(const char *machine, char *path)
{
    hwloc_topology_t hwloc;
    int fd;

    strcpy(path, "/tmp/nigh-topology-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(hwloc_topology_init(&hwloc), 0);
    assert_int_equal(hwloc_topology_set_synthetic(hwloc, machine), 0);
    assert_int_equal(__real_hwloc_topology_load(hwloc), 0);
    assert_int_equal(hwloc_topology_export_xml(hwloc, path, 0), 0);
    hwloc_topology_destroy(hwloc);
    setenv("HWLOC_XMLFILE", path, 1);
}

static void load_described(const char *machine, struct nigh_topology *topology)
{
    char path[64];

    describe(machine, path);
    assert_int_equal(nigh_topology_load(topology), 0);
    unlink(path);
}

static void machines_are_counted(void **state)
{
    static const struct {
        const char *machine;
        uint32_t cpus, l3_domains, numa_nodes, packages;
    } cases[] = {
        {"pack:1 [numa] l3:1 core:4 pu:1", 4, 1, 1, 1},  {"pack:1 [numa] l3:4 core:2 pu:2", 16, 4, 1, 1},
        {"pack:2 [numa] l3:2 core:2 pu:2", 16, 4, 2, 2}, {"pack:2 numa:2 l3:3 core:2 pu:1", 24, 12, 4, 2},
        {"[numa] pack:2 l3:1 core:1 pu:1", 2, 2, 1, 2},  {"pack:1 [numa] l3:1 core:1 pu:1", 1, 1, 1, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nigh_topology t;

        load_described(cases[i].machine, &t);
        if (t.cpus != cases[i].cpus || t.l3_domains != cases[i].l3_domains ||
            t.numa_nodes != cases[i].numa_nodes || t.packages != cases[i].packages)
            fail_msg("%s: %u CPUs, %u L3s, %u nodes, %u packages", cases[i].machine, t.cpus, t.l3_domains,
                     t.numa_nodes, t.packages);
        assert_string_equal(t.reason, "described by HWLOC_XMLFILE, not by this machine");
        nigh_topology_free(&t);
    }
}

/* CPUs numbered across the packages, as many servers do. */
static void each_cpu_has_its_domains(void **state)
{
    static const struct nigh_topology_cpu wanted[] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 0, 0, 0}, {3, 1, 1, 1},
                                                      {4, 2, 0, 0}, {5, 3, 1, 1}, {6, 2, 0, 0}, {7, 3, 1, 1}};
    struct nigh_topology t;

    (void)state;
    load_described("pack:2 [numa] l3:2 core:2 pu:1(indexes=0,2,4,6,1,3,5,7)", &t);
    assert_int_equal(t.cpus, 8);
    for (uint32_t i = 0; i < 8; i++) {
        const struct nigh_topology_cpu *cpu = nigh_topology_find(&t, i);

        assert_non_null(cpu);
        if (memcmp(cpu, &wanted[i], sizeof(*cpu)) != 0)
            fail_msg("CPU %u: number %u, L3 %u, node %u, package %u", i, cpu->number, cpu->l3, cpu->node,
                     cpu->package);
    }
    assert_null(nigh_topology_find(&t, 8));
    assert_null(nigh_topology_find(&t, UINT32_MAX));
    nigh_topology_free(&t);
}

static void only_the_cpus_of_the_affinity_count(void **state)
{
    struct nigh_topology t;

    (void)state;
    setenv("HWLOC_THISSYSTEM", "1", 1);
    allow(3, 5);
    load_described("pack:2 [numa] l3:2 core:2 pu:1", &t);
    assert_string_equal(t.reason, "");
    assert_int_equal(t.cpus, 3);
    assert_int_equal(t.l3_domains, 2);
    assert_int_equal(t.numa_nodes, 2);
    assert_int_equal(nigh_topology_find(&t, 3)->l3, 0);
    assert_int_equal(nigh_topology_find(&t, 4)->l3, 1);
    assert_int_equal(nigh_topology_find(&t, 5)->l3, 1);
    assert_null(nigh_topology_find(&t, 2));
    assert_null(nigh_topology_find(&t, 6));
    nigh_topology_free(&t);
}

static void without_an_l3_a_package_counts_as_one(void **state)
{
    struct nigh_topology t;

    (void)state;
    setenv("HWLOC_THISSYSTEM", "1", 1);
    allow(0, 7);
    load_described("pack:2 [numa] core:4 pu:1", &t);
    assert_string_equal(t.reason, "no L3 cache is listed for CPU 0: a package is taken to share one");
    assert_int_equal(t.l3_domains, 2);
    assert_int_equal(nigh_topology_find(&t, 3)->l3, 0);
    assert_int_equal(nigh_topology_find(&t, 4)->l3, 1);
    nigh_topology_free(&t);
}

static void a_cpu_that_hwloc_does_not_know_is_told(void **state)
{
    struct nigh_topology t;

    (void)state;
    setenv("HWLOC_THISSYSTEM", "1", 1);
    allow(3, 4);
    load_described("pack:1 [numa] l3:1 core:4 pu:1", &t);
    assert_string_equal(t.reason, "hwloc does not know CPU 4");
    assert_int_equal(t.cpus, 2);
    nigh_topology_free(&t);
}

static void a_file_that_is_none_is_told(void **state)
{
    struct nigh_topology t;

    (void)state;
    setenv("HWLOC_XMLFILE", "/nowhere/topology.xml", 1);
    assert_int_equal(nigh_topology_load(&t), 0);
    assert_string_equal(t.reason,
                        "HWLOC_XMLFILE=/nowhere/topology.xml cannot be read: looked at the machine");
    assert_in_range(t.cpus, 1, NIGH_TOPOLOGY_CPUS);
    nigh_topology_free(&t);
}

static void a_short_description_is_told(void **state)
{
    struct nigh_topology t;

    (void)state;
    setenv("HWLOC_SYNTHETIC", "pack:2 [numa] l3:2 core:1 pu:1", 1);
    assert_int_equal(nigh_topology_load(&t), 0);
    assert_string_equal(t.reason, "described by hwloc's environment variables, not by this machine");
    assert_int_equal(t.l3_domains, 4);
    nigh_topology_free(&t);
}

static void this_machine_is_sound(void **state)
{
    struct nigh_topology t;
    cpu_set_t set;

    (void)state;
    assert_int_equal(nigh_topology_load(&t), 0);
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    assert_int_equal(t.cpus, CPU_COUNT(&set));
    for (uint32_t i = 0; i < t.cpus; i++) {
        assert_true(CPU_ISSET(t.cpu[i].number, &set));
        assert_in_range(t.cpu[i].l3, 0, t.l3_domains - 1);
        assert_in_range(t.cpu[i].node, 0, t.numa_nodes - 1);
        assert_in_range(t.cpu[i].package, 0, t.packages - 1);
    }
    print_message("%u CPUs, %u L3s, %u nodes, %u packages, %u runnable; \"%s\"\n", t.cpus, t.l3_domains,
                  t.numa_nodes, t.packages, nigh_topology_runnable(), t.reason);
    nigh_topology_free(&t);
}

/* ---- without hwloc ---- */

static void write_cpu(unsigned cpu, const char *l3, const char *package)
{
    char path[128];

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cache/index0/level", cpu);
    fakeroot_write(path, "1\n");
    if (l3 != NULL) {
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cache/index1/level", cpu);
        fakeroot_write(path, "3\n");
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cache/index1/shared_cpu_list", cpu);
        fakeroot_write(path, l3);
    }
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/physical_package_id", cpu);
    fakeroot_write(path, package);
}

static void without_hwloc_the_kernels_lists_are_read(void **state)
{
    static const struct nigh_topology_cpu wanted[] = {{1, 0, 0, 0}, {2, 1, 0, 0}, {3, 1, 0, 0}, {4, 2, 1, 1}};
    struct nigh_topology t;

    (void)state;
    hwloc_fails = true;
    allow(1, 4);
    fakeroot_install();
    write_cpu(1, "0-1\n", "0\n");
    write_cpu(2, "2-3\n", "0\n");
    write_cpu(3, "2-3\n", "0\n");
    write_cpu(4, "4,6\n", "1\n");
    fakeroot_write("/sys/devices/system/node/online", "0,2\n");
    fakeroot_write("/sys/devices/system/node/node0/cpulist", "0-3\n");
    fakeroot_write("/sys/devices/system/node/node2/cpulist", "4-7\n");
    assert_int_equal(nigh_topology_load(&t), 0);
    fakeroot_remove();
    assert_string_equal(t.reason, "hwloc does not know this machine: taken from /sys/devices/system");
    assert_int_equal(t.cpus, 4);
    assert_int_equal(t.l3_domains, 3);
    assert_int_equal(t.numa_nodes, 2);
    assert_int_equal(t.packages, 2);
    assert_memory_equal(t.cpu, wanted, sizeof(wanted));
    nigh_topology_free(&t);
}

static void without_anything_it_is_one_of_each(void **state)
{
    struct nigh_topology t;

    (void)state;
    hwloc_fails = true;
    allow(0, 2);
    fakeroot_install();
    write_cpu(0, NULL, "-1\n");
    assert_int_equal(nigh_topology_load(&t), 0);
    fakeroot_remove();
    assert_int_equal(t.cpus, 3);
    assert_int_equal(t.l3_domains, 1);
    assert_int_equal(t.numa_nodes, 1);
    assert_int_equal(t.packages, 1);
    assert_string_equal(t.reason, "hwloc does not know this machine: taken from /sys/devices/system");
    nigh_topology_free(&t);
}

static void without_an_affinity_it_is_one_cpu(void **state)
{
    struct nigh_topology t;

    (void)state;
    osfail_install();
    osfail_arm_all(OSFAIL_sched_getaffinity, 1, EPERM);
    assert_int_equal(nigh_topology_runnable(), 1);
    assert_int_equal(nigh_topology_load(&t), 0);
    osfail_remove();
    assert_string_equal(t.reason,
                        "the affinity cannot be read (Operation not permitted): taken to be CPU 0 alone");
    assert_int_equal(t.cpus, 1);
    nigh_topology_free(&t);
}

static void without_memory_load_fails_cleanly(void **state)
{
    struct nigh_topology t;

    (void)state;
    osfail_install();
    for (unsigned nth = 1; nth <= 3; nth++) {
        osfail_arm(OSFAIL_calloc, nth, ENOMEM);
        assert_int_equal(nigh_topology_load(&t), -ENOMEM);
        assert_true(osfail_hit());
    }
    osfail_remove();
}

/* ---- how many can run ---- */

static void a_quota_lowers_what_can_run(void **state)
{
    static const struct {
        const char *quota;
        uint32_t runnable;
    } cases[] = {{"max 100000", 4},    {"400000 100000", 4}, {"1000000 100000", 4}, {"399999 100000", 3},
                 {"250000 100000", 2}, {"100000 100000", 1}, {"1000 100000", 1}};

    (void)state;
    allow(0, 3);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t runnable;

        fakeroot_install();
        fakeroot_write("/proc/self/cgroup", "0::/\n");
        fakeroot_write("/sys/fs/cgroup/cpu.max", cases[i].quota);
        runnable = nigh_topology_runnable();
        fakeroot_remove();
        if (runnable != cases[i].runnable)
            fail_msg("quota \"%s\": %u can run", cases[i].quota, runnable);
    }
}

/* ---- placing ---- */

static void memory_is_asked_from_a_node(void **state)
{
    const size_t bytes = 1 << 20;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned long nodes[16] = {0};
    int mode = -1;

    (void)state;
    assert_true(base != MAP_FAILED);
    if (get_mempolicy(&mode, NULL, 0, NULL, 0) != 0) {
        print_message("this kernel refuses get_mempolicy\n");
        munmap(base, bytes);
        skip();
    }
    assert_int_equal(nigh_topology_place_on(0, base, bytes), 0);
    assert_int_equal(get_mempolicy(&mode, nodes, 1024, (char *)base + bytes - 1, MPOL_F_ADDR), 0);
    assert_int_equal(mode, MPOL_PREFERRED);
    assert_int_equal(nodes[0], 1);
    assert_int_equal(nigh_topology_place_on(1023, base, bytes), -EINVAL); /* no such node */
    assert_int_equal(nigh_topology_place_on(1024, base, bytes), -EINVAL);
    munmap(base, bytes);
}

static struct {
    unsigned calls;
    int mode;
    unsigned long nodes, bytes;
} placed;

static long fake_mbind(void *at, unsigned long bytes, int mode, const unsigned long *nodes,
                       unsigned long bits, unsigned flags)
{
    (void)at, (void)flags;
    assert_true(bits > 64);
    placed.calls++;
    placed.mode = mode;
    placed.nodes = nodes[0];
    placed.bytes = bytes;
    return 0;
}

static void the_mask_names_the_node(void **state)
{
    (void)state;
    nigh_os.mbind = fake_mbind;
    memset(&placed, 0, sizeof(placed));
    assert_int_equal(nigh_topology_place_on(3, NULL, 8192), 0);
    assert_int_equal(placed.calls, 1);
    assert_int_equal(placed.mode, MPOL_PREFERRED);
    assert_int_equal(placed.nodes, 8);
    assert_int_equal(placed.bytes, 8192);
}

static void one_node_needs_no_placing(void **state)
{
    (void)state;
    if (numa_available() >= 0 && numa_num_configured_nodes() > 1) {
        print_message("this machine has several NUMA nodes\n");
        skip();
    }
    nigh_os.mbind = fake_mbind;
    memset(&placed, 0, sizeof(placed));
    assert_int_equal(nigh_topology_place(NULL, 8192), 0);
    assert_int_equal(placed.calls, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, keep_table, restore_table)
    const struct CMUnitTest tests[] = {
        CASE(machines_are_counted),
        CASE(each_cpu_has_its_domains),
        CASE(only_the_cpus_of_the_affinity_count),
        CASE(without_an_l3_a_package_counts_as_one),
        CASE(a_cpu_that_hwloc_does_not_know_is_told),
        CASE(a_file_that_is_none_is_told),
        CASE(a_short_description_is_told),
        CASE(this_machine_is_sound),
        CASE(without_hwloc_the_kernels_lists_are_read),
        CASE(without_anything_it_is_one_of_each),
        CASE(without_an_affinity_it_is_one_cpu),
        CASE(without_memory_load_fails_cleanly),
        CASE(a_quota_lowers_what_can_run),
        CASE(memory_is_asked_from_a_node),
        CASE(the_mask_names_the_node),
        CASE(one_node_needs_no_placing),
    };
    return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}

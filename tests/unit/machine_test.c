/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process is told about its machine: reading others' memory under each policy, huge pages, memory, CPUs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/machine.h"
#include "tests/support/fakeroot.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check_reason(const char *reason, const char *wanted)
{
    if (strstr(reason, wanted) == NULL)
        fail_msg("\"%s\" instead of \"...%s...\"", reason, wanted);
    if (strlen(reason) == NIGH_REASON_BYTES - 1)
        fail_msg("\"%s\" was cut", reason);
}

static void this_machine_is_described(void **state)
{
    struct nigh_query_machine machine;
    cpu_set_t set;

    (void)state;
    memset(&machine, 0xee, sizeof(machine));
    nigh_machine_query(&machine);
    assert_int_equal(machine.size, sizeof(machine));
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    assert_int_equal(machine.cpus, CPU_COUNT(&set));
    assert_in_range(machine.cpus_runnable, 1, machine.cpus);
    assert_in_range(machine.l3_domains, 1, machine.cpus);
    assert_in_range(machine.packages, 1, machine.l3_domains);
    assert_in_range(machine.numa_nodes, 1, machine.cpus);
    assert_true(machine.page_bytes >= 4096);
    assert_true(machine.memory_bytes > machine.page_bytes);
    for (size_t i = 0; i < sizeof(machine.reserved) / sizeof(machine.reserved[0]); i++)
        assert_int_equal(machine.reserved[i], 0);
    print_message("cma %u: %s; huge %u: %s; topology \"%s\"\n", machine.cma, machine.cma_reason,
                  machine.huge_shared, machine.huge_reason, machine.topology_reason);
}

static void reading_others_is_as_the_policy_says(void **state)
{
    static const struct {
        const char *scope, *status; /* NULL: no such file */
        uint32_t cma;
        const char *reason;
    } cases[] = {
        {NULL, NULL, 1, "processes of the same user may read each other"},
        {"0\n", NULL, 1, "processes of the same user may read each other"},
        {"1\n", NULL, 1, "ptrace_scope is 1: parents may read children, no others"},
        {"1\n", "Name:\tx\nCapEff:\t0000000000000000\n", 1, "ptrace_scope is 1: parents"},
        {"1\n", "Name:\tx\nCapEff:\t0000000000080000\n", 1, "allowed by CAP_SYS_PTRACE"},
        {"2\n", "Name:\tx\nCapEff:\tfffffffffff7ffff\n", 0,
         "is 2: nobody without CAP_SYS_PTRACE; set it to 0"},
        {"2\n", "Name:\tx\nCapEff:\tffffffffffffffff\n", 1, "allowed by CAP_SYS_PTRACE"},
        {"3\n", "Name:\tx\nCapEff:\tffffffffffffffff\n", 0, "is 3: nobody; set it to 0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nigh_query_machine machine;

        fakeroot_install();
        if (cases[i].scope != NULL)
            fakeroot_write("/proc/sys/kernel/yama/ptrace_scope", cases[i].scope);
        if (cases[i].status != NULL)
            fakeroot_write("/proc/self/status", cases[i].status);
        nigh_machine_query(&machine);
        fakeroot_remove();
        check_reason(machine.cma_reason, cases[i].reason);
        if (machine.cma != cases[i].cma)
            fail_msg("case %zu: cma is %u: %s", i, machine.cma, machine.cma_reason);
    }
}

static void a_refused_call_is_told(void **state)
{
    static const struct {
        int error;
        const char *reason;
    } cases[] = {
        {ENOSYS, "this kernel has no process_vm_readv"},
        {EPERM, "process_vm_readv of oneself fails (Operation not permitted): a container's filter?"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nigh_query_machine machine;

        osfail_install();
        osfail_arm(OSFAIL_process_vm_readv, 1, cases[i].error);
        nigh_machine_query(&machine);
        assert_true(osfail_hit());
        osfail_remove();
        assert_int_equal(machine.cma, 0);
        assert_string_equal(machine.cma_reason, cases[i].reason);
    }
}

static ssize_t lying_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                           const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    (void)pid, (void)locals, (void)remote, (void)remotes, (void)flags;
    memset(local->iov_base, 0x5a, local->iov_len);
    return (ssize_t)local->iov_len;
}

/* Some sandboxes answer calls that they do not carry out. */
static void a_call_that_reads_nothing_is_told(void **state)
{
    struct nigh_os kept = nigh_os;
    struct nigh_query_machine machine;

    (void)state;
    nigh_os.process_vm_readv = lying_readv;
    nigh_machine_query(&machine);
    nigh_os = kept;
    assert_int_equal(machine.cma, 0);
    check_reason(machine.cma_reason, "process_vm_readv of oneself fails (Input/output error)");
}

static void huge_pages_are_as_the_policy_says(void **state)
{
    static const struct {
        const char *policy; /* NULL: no such file */
        uint32_t huge;
        const char *reason;
    } cases[] = {{"always within_size advise [never] deny force\n", 0, "does not allow it"},
                 {"always within_size advise never [deny] force\n", 0, "does not allow it"},
                 {"always within_size [advise] never deny force\n", 1, "NIGH_HUGE=1"},
                 {"[always] within_size advise never deny force\n", 1, "NIGH_HUGE=1"},
                 {NULL, 0, "no transparent huge pages"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nigh_query_machine machine;

        fakeroot_install();
        if (cases[i].policy != NULL)
            fakeroot_write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", cases[i].policy);
        nigh_machine_query(&machine);
        fakeroot_remove();
        check_reason(machine.huge_reason, cases[i].reason);
        if (machine.huge_shared != cases[i].huge)
            fail_msg("case %zu: huge_shared is %u: %s", i, machine.huge_shared, machine.huge_reason);
    }
}

static void limits_are_those_of_the_control_group(void **state)
{
    struct nigh_query_machine machine;

    (void)state;
    fakeroot_install();
    fakeroot_write("/proc/meminfo", "MemTotal:       16000 kB\nMemAvailable: 9 kB\nSwapFree: 0 kB\n");
    fakeroot_write("/proc/self/cgroup", "0::/\n");
    fakeroot_write("/sys/fs/cgroup/memory.max", "1048576\n");
    fakeroot_write("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    nigh_machine_query(&machine);
    fakeroot_remove();
    assert_int_equal(machine.memory_bytes, 16000 * 1024);
    assert_int_equal(machine.memory_limit, 1048576);
    assert_int_equal(machine.cpu_quota, 1500);
    assert_int_equal(machine.cpus_runnable, 1);
    fakeroot_install();
    nigh_machine_query(&machine);
    fakeroot_remove();
    assert_int_equal(machine.memory_bytes,
                     (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    assert_int_equal(machine.memory_limit, 0);
    assert_int_equal(machine.cpu_quota, 0);
    assert_int_equal(machine.cpus_runnable, machine.cpus);
}

static void without_memory_the_topology_is_told_missing(void **state)
{
    struct nigh_query_machine machine;

    (void)state;
    osfail_install();
    osfail_arm_all(OSFAIL_calloc, 1, ENOMEM);
    nigh_machine_query(&machine);
    osfail_remove();
    assert_int_equal(machine.cpus, 0);
    assert_string_equal(machine.topology_reason, "no memory to read the topology");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_machine_is_described),
        cmocka_unit_test(reading_others_is_as_the_policy_says),
        cmocka_unit_test(a_refused_call_is_told),
        cmocka_unit_test(a_call_that_reads_nothing_is_told),
        cmocka_unit_test(huge_pages_are_as_the_policy_says),
        cmocka_unit_test(limits_are_those_of_the_control_group),
        cmocka_unit_test(without_memory_the_topology_is_told_missing),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}

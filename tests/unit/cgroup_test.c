/* SPDX-License-Identifier: BSD-3-Clause */
/* Control groups of both versions, as the kernel and containers present them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/cgroup.h"
#include "tests/support/fakeroot.h"
#include <stdio.h>

#define FILES 8

static const struct machine {
    const char *what;
    uint64_t memory;
    uint32_t cpu;
    struct {
        const char *path, *text;
    } files[FILES];
} machines[] = {
    {"no control groups", UINT64_MAX, UINT32_MAX, {{NULL, NULL}}},
    {"v2 without limits",
     UINT64_MAX,
     UINT32_MAX,
     {{"/proc/self/cgroup", "0::/user.slice\n"},
      {"/sys/fs/cgroup/user.slice/memory.max", "max\n"},
      {"/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"}}},
    {"v2, the smallest on the way up",
     1 << 20,
     1500,
     {{"/proc/self/cgroup", "0::/a/b\n"},
      {"/sys/fs/cgroup/a/b/memory.max", "2097152\n"},
      {"/sys/fs/cgroup/a/memory.max", "1048576\n"},
      {"/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"},
      {"/sys/fs/cgroup/a/cpu.max", "800000 100000\n"}}},
    {"v2 in a container: the host's path, its own level mounted as the root",
     4096,
     250,
     {{"/proc/self/cgroup", "0::/docker/0123\n"},
      {"/sys/fs/cgroup/memory.max", "4096\n"},
      {"/sys/fs/cgroup/cpu.max", "2500 10000\n"}}},
    {"v2 with a namespace",
     8192,
     2000,
     {{"/proc/self/cgroup", "0::/\n"},
      {"/sys/fs/cgroup/memory.max", "8192\n"},
      {"/sys/fs/cgroup/cpu.max", "20000 10000\n"}}},
    {"v2 without /proc: what is mounted as the root",
     8192,
     2000,
     {{"/sys/fs/cgroup/memory.max", "8192\n"}, {"/sys/fs/cgroup/cpu.max", "20000 10000\n"}}},
    {"v1",
     3 << 20,
     500,
     {{"/proc/self/cgroup", "12:cpuset:/x\n4:cpu,cpuacct:/job\n3:memory:/job\n1:name=systemd:/job\n0::/\n"},
      {"/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3145728\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n"},
      {"/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}},
    {"v1 without limits",
     UINT64_MAX,
     UINT32_MAX,
     {{"/proc/self/cgroup", "2:cpu:/\n1:memory:/\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}},
    {"cpuset and cpuacct are not cpu",
     UINT64_MAX,
     UINT32_MAX,
     {{"/proc/self/cgroup", "2:cpuacct,cpuset:/\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "1000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "1000\n"}}},
    {"v1 for CPUs, v2 beside it for memory",
     65536,
     3000,
     {{"/proc/self/cgroup", "2:cpu:/\n0::/unit\n"},
      {"/sys/fs/cgroup/unified/unit/memory.max", "65536\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "3000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "1000\n"}}},
    {"a tiny quota is not none",
     UINT64_MAX,
     1,
     {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "1 1000000\n"}}},
    {"garbage",
     UINT64_MAX,
     UINT32_MAX,
     {{"/proc/self/cgroup", "::\nx\n\n0:\n0::/../..\n"},
      {"/sys/fs/cgroup/cpu.max", "100 0\n"},
      {"/sys/fs/cgroup/memory.max", "lots\n"}}},
};

static void every_machine_gives_its_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        const struct machine *machine = &machines[i];
        uint64_t memory;
        uint32_t cpu;

        fakeroot_install();
        for (size_t k = 0; k < FILES && machine->files[k].path != NULL; k++)
            fakeroot_write(machine->files[k].path, machine->files[k].text);
        memory = nigh_cgroup_memory();
        cpu = nigh_cgroup_cpu_milli();
        fakeroot_remove();
        if (memory != machine->memory || cpu != machine->cpu)
            fail_msg("%s: memory %llu instead of %llu, CPU %u instead of %u", machine->what,
                     (unsigned long long)memory, (unsigned long long)machine->memory, cpu, machine->cpu);
    }
}

static const struct used {
    const char *what;
    uint64_t swap, left;
    struct {
        const char *path, *text;
    } files[FILES];
} used[] = {
    {"v2: the cache of files and slabs does not count",
     0,
     1000 - 700 + 100 + 50 + 7,
     {{"/proc/self/cgroup", "0::/a\n"},
      {"/sys/fs/cgroup/a/memory.max", "1000\n"},
      {"/sys/fs/cgroup/a/memory.current", "700\n"},
      {"/sys/fs/cgroup/a/memory.stat",
       "anon 400\nfile 300\nshmem 90\nxinactive_file 9\ninactive_file 100\nactive_file "
       "50\nslab_reclaimable 7\nslab 900\n"}}},
    {"v2: the level that leaves least, not the one with the least limit",
     0,
     100,
     {{"/proc/self/cgroup", "0::/a/b\n"},
      {"/sys/fs/cgroup/a/b/memory.max", "1000\n"},
      {"/sys/fs/cgroup/a/b/memory.current", "10\n"},
      {"/sys/fs/cgroup/a/memory.max", "5000\n"},
      {"/sys/fs/cgroup/a/memory.current", "4900\n"}}},
    {"v2: more is used than is allowed",
     0,
     0,
     {{"/proc/self/cgroup", "0::/\n"},
      {"/sys/fs/cgroup/memory.max", "1000\n"},
      {"/sys/fs/cgroup/memory.current", "1001\n"}}},
    {"v2: swap as far as the machine has it",
     30,
     530,
     {{"/proc/self/cgroup", "0::/\n"},
      {"/sys/fs/cgroup/memory.max", "1000\n"},
      {"/sys/fs/cgroup/memory.current", "500\n"},
      {"/sys/fs/cgroup/memory.swap.max", "max\n"}}},
    {"v2: swap as far as the cgroup may use it",
     300,
     520,
     {{"/proc/self/cgroup", "0::/\n"},
      {"/sys/fs/cgroup/memory.max", "1000\n"},
      {"/sys/fs/cgroup/memory.current", "500\n"},
      {"/sys/fs/cgroup/memory.swap.max", "100\n"},
      {"/sys/fs/cgroup/memory.swap.current", "80\n"}}},
    {"v2: use that cannot be read counts as none",
     0,
     1000,
     {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/memory.max", "1000\n"}}},
    {"v2: use without a limit",
     0,
     UINT64_MAX,
     {{"/proc/self/cgroup", "0::/\n"},
      {"/sys/fs/cgroup/memory.max", "max\n"},
      {"/sys/fs/cgroup/memory.current", "500\n"}}},
    {"v1: swap below the limit of both",
     100,
     4096 - 3000 + 200 + 100,
     {{"/proc/self/cgroup", "3:memory:/job\n"},
      {"/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4096\n"},
      {"/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "3000\n"},
      {"/sys/fs/cgroup/memory/job/memory.memsw.limit_in_bytes", "9223372036854771712\n"},
      {"/sys/fs/cgroup/memory/job/memory.stat", "inactive_file 5\ntotal_inactive_file 200\n"}}},
    {"v1: the limit of both",
     100,
     4196 - 4000,
     {{"/proc/self/cgroup", "3:memory:/job\n"},
      {"/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4096\n"},
      {"/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "3000\n"},
      {"/sys/fs/cgroup/memory/job/memory.memsw.limit_in_bytes", "4196\n"},
      {"/sys/fs/cgroup/memory/job/memory.memsw.usage_in_bytes", "4000\n"}}},
};

static void what_is_left_is_less_than_the_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
        uint64_t left;

        fakeroot_install();
        for (size_t k = 0; k < FILES && used[i].files[k].path != NULL; k++)
            fakeroot_write(used[i].files[k].path, used[i].files[k].text);
        left = nigh_cgroup_memory_left(used[i].swap);
        fakeroot_remove();
        if (left != used[i].left)
            fail_msg("%s: %llu instead of %llu", used[i].what, (unsigned long long)left,
                     (unsigned long long)used[i].left);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_machine_gives_its_limits),
        cmocka_unit_test(what_is_left_is_less_than_the_limit),
    };
    return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}

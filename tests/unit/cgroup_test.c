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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_machine_gives_its_limits),
    };
    return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}

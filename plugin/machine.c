/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/machine.c - topology, memory, and whether other processes' memory may be read. */
#include "plugin/machine.h"
#include "include/common/proc.h"
#include "shm/arena.h"
#include "shm/cgroup.h"
#include "shm/file.h"
#include "shm/limits.h"
#include "shm/os.h"
#include "shm/topology.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CAP_SYS_PTRACE_BIT 19
#define YAMA               "/proc/sys/kernel/yama/ptrace_scope"

static_assert(NIGH_TOPOLOGY_REASON <= NIGH_REASON_BYTES, "the topology's reason fits the answer");

static void __attribute__((format(printf, 2, 3))) say(char reason[NIGH_REASON_BYTES], const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reason, NIGH_REASON_BYTES, format, arguments);
    va_end(arguments);
}

static void ask_topology(struct nigh_query_machine *out)
{
    uint32_t quota = nigh_cgroup_cpu_milli();
    struct nigh_topology topology;

    out->cpus_runnable = nigh_topology_runnable();
    out->cpu_quota = quota == UINT32_MAX ? 0 : quota;
    if (nigh_topology_load(&topology) != 0) {
        say(out->topology_reason, "no memory to read the topology");
        return;
    }
    out->cpus = topology.cpus;
    out->l3_domains = topology.l3_domains;
    out->numa_nodes = topology.numa_nodes;
    out->packages = topology.packages;
    say(out->topology_reason, "%s", topology.reason);
    nigh_topology_free(&topology);
}

static void ask_memory(struct nigh_query_machine *out)
{
    const char *refused = nigh_arena_huge_policy();
    struct nigh_limits limits;

    nigh_limits_read(&limits);
    out->page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
    out->memory_bytes = limits.memory == UINT64_MAX ? 0 : limits.memory;
    out->memory_limit = limits.cgroup == UINT64_MAX ? 0 : limits.cgroup;
    out->huge_shared = refused[0] == 0;
    say(out->huge_reason, "%s", refused[0] == 0 ? "given on request (NIGH_HUGE=1)" : refused);
}

/* A process may always read itself, so what fails here is the call: a kernel without it, or a filter of the
 * container's. That costs no fork of the host's process, which might hold locks, threads and a GPU. */
static int try_call(void)
{
    uint64_t nonce = UINT64_C(0x6e6967682d636d61), copy = 0;
    struct iovec to = {&copy, sizeof(copy)}, from = {&nonce, sizeof(nonce)};
    ssize_t got = nigh_os.process_vm_readv(getpid(), &to, 1, &from, 1, 0);

    if (got < 0)
        return -errno;
    return got == sizeof(copy) && copy == nonce ? 0 : -EIO;
}

static int may_trace_all(void)
{
    char text[4096];
    const char *line;

    if (nigh_file_read("/proc/self/status", text, sizeof(text)) != 0)
        return 0;
    line = strstr(text, "\nCapEff:");
    return line != NULL && (strtoull(line + 8, NULL, 16) >> CAP_SYS_PTRACE_BIT & 1) != 0;
}

/* What the Yama security module leaves of the kernel's rule, which is: processes of the same user. */
static void ask_yama(struct nigh_query_machine *out)
{
    uint64_t scope = 0;
    int rc = nigh_file_read_number(YAMA, &scope);

    if (rc != 0 || scope == 0) {
        out->cma = 1;
        say(out->cma_reason, "processes of the same user may read each other%s",
            rc != 0 && nigh_proc_self() == 0 ? ", unless Yama forbids it: no /proc tells" : "");
    } else if (scope < 3 && may_trace_all()) {
        out->cma = 1;
        say(out->cma_reason, "allowed by CAP_SYS_PTRACE; without it ptrace_scope is %d", (int)scope);
    } else if (scope == 1) {
        out->cma = 1;
        say(out->cma_reason, YAMA " is 1: parents may read children, no others; 0 lets all of a user");
    } else {
        out->cma = 0;
        say(out->cma_reason, YAMA " is %d: nobody%s; set it to 0", (int)scope,
            scope == 2 ? " without CAP_SYS_PTRACE" : "");
    }
}

static void ask_cma(struct nigh_query_machine *out)
{
    int rc = try_call();

    if (rc == 0)
        ask_yama(out);
    else if (rc == -ENOSYS)
        say(out->cma_reason, "this kernel has no process_vm_readv");
    else
        say(out->cma_reason, "process_vm_readv of oneself fails (%.32s): a container's filter?",
            strerror(-rc));
}

void nigh_machine_query(struct nigh_query_machine *out)
{
    *out = (struct nigh_query_machine){.size = sizeof(*out)};
    ask_topology(out);
    ask_memory(out);
    ask_cma(out);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/limits.c - the limits of this process that a transport runs into, each with what it limits. */
#include "tools/info/facts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

static const struct {
    const char *name, *shell, *unit, *use;
    int what;
} resources[] = {
    {"RLIMIT_NOFILE", "ulimit -n", "files", "descriptors; every peer takes some", RLIMIT_NOFILE},
    {"RLIMIT_MEMLOCK", "ulimit -l", "bytes", "locked memory; nigh locks none", RLIMIT_MEMLOCK},
    {"RLIMIT_AS", "ulimit -v", "bytes",
     "address space; heap and pool are reserved in it (NIGH_HEAP, NIGH_POOL)", RLIMIT_AS},
    {"RLIMIT_FSIZE", "ulimit -f", "bytes", "size of a file; shared memory counts as one", RLIMIT_FSIZE},
    {"RLIMIT_NPROC", "ulimit -u", "processes", "processes and threads of this user", RLIMIT_NPROC},
};

static json_t *amount(rlim_t value)
{
    return value == RLIM_INFINITY ? json_null() : json_integer((json_int_t)value);
}

static json_t *resource(size_t i)
{
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)resources[i].what, &limit) != 0)
        return json_pack("{ss ss}", "name", resources[i].name, "error", "cannot be read");
    return json_pack("{ss ss ss so so ss}", "name", resources[i].name, "shell", resources[i].shell, "unit",
                     resources[i].unit, "soft", amount(limit.rlim_cur), "hard", amount(limit.rlim_max), "use",
                     resources[i].use);
}

static json_t *pid_max(void)
{
    static const char path[] = "/proc/sys/kernel/pid_max";
    FILE *file = fopen(path, "re");
    char text[32] = "";
    char *read = NULL;

    if (file != NULL) {
        read = fgets(text, sizeof(text), file);
        fclose(file);
    }
    if (read == NULL)
        return json_pack("{ss ss}", "name", path, "error", "cannot be read");
    return json_pack("{ss ss sI ss}", "name", path, "unit", "processes", "soft",
                     (json_int_t)strtoull(text, NULL, 10), "use", "processes and threads of the machine");
}

static json_t *shm(void)
{
    struct statvfs shm;

    if (statvfs("/dev/shm", &shm) != 0)
        return json_pack("{ss ss}", "name", "/dev/shm", "error", "is not mounted; nigh does not use it");
    return json_pack("{ss ss sI ss}", "name", "/dev/shm", "unit", "bytes", "soft",
                     (json_int_t)(shm.f_blocks * shm.f_frsize), "use",
                     "nigh does not use it: its memory has no name");
}

json_t *info_limits(const struct info_plugin *plugin)
{
    json_t *limits = json_array();

    (void)plugin;
    for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++)
        json_array_append_new(limits, resource(i));
    json_array_append_new(limits, pid_max());
    json_array_append_new(limits, shm());
    return limits;
}

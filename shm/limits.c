/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/limits.c - reads resource limits, /proc/meminfo and the limit of our control groups. */
#include "shm/limits.h"
#include "shm/cgroup.h"
#include "shm/file.h"
#include "shm/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT64_MAX

static uint64_t resource(int what)
{
    struct rlimit limit;

    if (nigh_os.getrlimit(what, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return NONE;
    return limit.rlim_cur;
}

/* The number of kilobytes behind `name` in /proc/meminfo's text. */
static uint64_t meminfo(const char *text, const char *name)
{
    const char *line = strstr(text, name);

    return line ? strtoull(line + strlen(name), NULL, 10) * 1024 : NONE;
}

/* Without /proc. What others use is not known, so that `available` is what can be had at most. Returns how much swap is free. */
static uint64_t ask_sysinfo(struct nigh_limits *out)
{
    struct sysinfo info;
    uint64_t swap;

    if (nigh_os.sysinfo(&info))
        return 0;
    swap = (uint64_t)info.freeswap * info.mem_unit;
    out->memory = (uint64_t)info.totalram * info.mem_unit;
    out->available = out->memory + swap;
    return swap;
}

/* Returns how much swap is free. */
static uint64_t read_meminfo(struct nigh_limits *out)
{
    char *text = nigh_file_load("/proc/meminfo", 4096);
    uint64_t swap;

    out->memory = out->available = NONE;
    if (!text)
        return ask_sysinfo(out);
    out->memory = meminfo(text, "MemTotal:");
    out->available = meminfo(text, "MemAvailable:");
    swap = meminfo(text, "SwapFree:");
    free(text);
    if (swap == NONE)
        return 0;
    if (out->available != NONE)
        out->available += swap;
    return swap;
}

void nigh_limits_read(struct nigh_limits *out)
{
    out->file = resource(RLIMIT_FSIZE);
    out->address = resource(RLIMIT_AS);
    out->cgroup = nigh_cgroup_memory();
    out->cgroup_left = nigh_cgroup_memory_left(read_meminfo(out));
}

char *nigh_bytes_text(uint64_t bytes, char text[NIGH_BYTES_TEXT])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    unsigned unit = 0;

    if (bytes == NONE) {
        snprintf(text, NIGH_BYTES_TEXT, "none");
        return text;
    }
    if (bytes < 1024) {
        snprintf(text, NIGH_BYTES_TEXT, "%u bytes", (unsigned)bytes);
        return text;
    }
    for (; value >= 1024; value /= 1024)
        unit++;
    snprintf(text, NIGH_BYTES_TEXT, "%.1f %s", value, units[unit]);
    return text;
}

void nigh_limits_describe(const struct nigh_limits *limits, char *text, size_t room)
{
    char file[NIGH_BYTES_TEXT], address[NIGH_BYTES_TEXT], cgroup[NIGH_BYTES_TEXT];
    char available[NIGH_BYTES_TEXT], left[NIGH_BYTES_TEXT], of_cgroup[NIGH_BYTES_TEXT + 16] = "";

    if (limits->cgroup != NONE)
        snprintf(of_cgroup, sizeof(of_cgroup), " (%s left)", nigh_bytes_text(limits->cgroup_left, left));
    snprintf(
        text, room,
        "RLIMIT_FSIZE (ulimit -f) %s, RLIMIT_AS (ulimit -v) %s, cgroup memory limit %s%s, available memory "
        "and swap %s",
        nigh_bytes_text(limits->file, file), nigh_bytes_text(limits->address, address),
        nigh_bytes_text(limits->cgroup, cgroup), of_cgroup, nigh_bytes_text(limits->available, available));
}

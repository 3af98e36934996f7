/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/limits.c - reads resource limits, /proc/meminfo and the files of our memory cgroup. */
#include "shm/limits.h"
#include "shm/os.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CGROUP_ROOT "/sys/fs/cgroup"
#define NONE        UINT64_MAX
/* cgroup v1 writes "no limit" as the largest page-aligned signed number. */
#define V1_NONE (UINT64_C(1) << 62)

static int read_file(const char *path, char *text, size_t room)
{
    int fd = nigh_os.open(path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t got;

    if (fd < 0)
        return -1;
    got = nigh_os.read(fd, text, room - 1);
    nigh_os_close(fd);
    if (got < 0)
        return -1;
    text[got] = 0;
    return 0;
}

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

static void read_meminfo(struct nigh_limits *out)
{
    char text[4096];
    uint64_t swap;

    out->memory = out->available = NONE;
    if (read_file("/proc/meminfo", text, sizeof(text)))
        return;
    out->memory = meminfo(text, "MemTotal:");
    out->available = meminfo(text, "MemAvailable:");
    swap = meminfo(text, "SwapFree:");
    if (out->available != NONE && swap != NONE)
        out->available += swap;
}

static uint64_t limit_in(const char *path)
{
    char text[64], *end;
    uint64_t bytes;

    if (read_file(path, text, sizeof(text)))
        return NONE;
    bytes = strtoull(text, &end, 10);
    return end == text || bytes >= V1_NONE ? NONE : bytes; /* "max" has no digit */
}

/*
 * The smallest limit from `path` up to the root. Levels whose file is not there are passed over: inside a
 * container the path is often the host's while only the container's own level is mounted, as the root.
 */
static uint64_t smallest_up(const char *root, char *path, const char *file)
{
    uint64_t smallest = NONE;

    for (;;) {
        char full[4096 + 256];
        uint64_t bytes;
        char *slash;

        snprintf(full, sizeof(full), "%s%s/%s", root, path, file);
        bytes = limit_in(full);
        if (bytes < smallest)
            smallest = bytes;
        slash = strrchr(path, '/');
        if (!slash)
            return smallest;
        *slash = 0;
    }
}

/* A line of /proc/self/cgroup is "hierarchy:controllers:path"; v2 has hierarchy 0 and no controllers. */
static uint64_t cgroup_of_line(char *line)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;

    if (!path)
        return NONE;
    *controllers++ = 0;
    *path++ = 0;
    if (strcmp(path, "/") == 0)
        *path = 0;
    if (*controllers == 0)
        return smallest_up(CGROUP_ROOT, path, "memory.max");
    if (strcmp(controllers, "memory") == 0)
        return smallest_up(CGROUP_ROOT "/memory", path, "memory.limit_in_bytes");
    return NONE;
}

static uint64_t read_cgroup(void)
{
    char text[4096], *rest = NULL;
    uint64_t smallest = NONE;

    if (read_file("/proc/self/cgroup", text, sizeof(text)))
        return NONE;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        uint64_t bytes = cgroup_of_line(line);

        if (bytes < smallest)
            smallest = bytes;
    }
    return smallest;
}

void nigh_limits_read(struct nigh_limits *out)
{
    out->file = resource(RLIMIT_FSIZE);
    out->address = resource(RLIMIT_AS);
    out->cgroup = read_cgroup();
    read_meminfo(out);
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
    char available[NIGH_BYTES_TEXT];

    snprintf(
        text, room,
        "RLIMIT_FSIZE (ulimit -f) %s, RLIMIT_AS (ulimit -v) %s, cgroup memory limit %s, available memory "
        "and swap %s",
        nigh_bytes_text(limits->file, file), nigh_bytes_text(limits->address, address),
        nigh_bytes_text(limits->cgroup, cgroup), nigh_bytes_text(limits->available, available));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/cgroup.c - walks the files of our control groups from our own level up to the root. */
#include "shm/cgroup.h"
#include "shm/file.h"
#include "shm/os.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT "/sys/fs/cgroup"
#define NONE UINT64_MAX
/* Version 1 writes "no limit" as the largest page-aligned signed number. */
#define V1_NONE (UINT64_C(1) << 62)

/* A limit of one level, whose folder is `level`, with room for the name of a file behind it; NONE where there is none. `swap`:
 * what the machine has free of it. */
typedef uint64_t limit_of_level(char *level, uint64_t swap);

/* Where the two versions keep a limit, and how a level says it. */
struct limit {
    const char *controller; /* of version 1, and its folder under ROOT */
    limit_of_level *v1, *v2;
    uint64_t swap;
};

/* Paths and files are kept on the heap: memory is committed by threads that may have the smallest of stacks. */
enum { PATH_ROOM = 4096 + 64, FILE_ROOM = 64, LINE_ROOM = 128, STAT_ROOM = 8192, LIST_ROOM = 4096 };

/* Behind the path of the level, for as long as the file is read. */
static char *load_in(char *level, const char *file, size_t room)
{
    size_t length = strlen(level);
    char *text;

    snprintf(level + length, FILE_ROOM, "/%s", file);
    text = nigh_file_load(level, room);
    level[length] = 0;
    return text;
}

static uint64_t number_in(char *level, const char *file)
{
    char *text = load_in(level, file, LINE_ROOM), *end;
    uint64_t number = NONE;

    if (text && text[0] != '-') { /* version 1 writes a quota of -1 for none */
        number = strtoull(text, &end, 10);
        if (end == text || number >= V1_NONE)
            number = NONE; /* "max" has no digit */
    }
    free(text);
    return number;
}

static uint64_t memory_v1(char *level, uint64_t swap)
{
    (void)swap;
    return number_in(level, "memory.limit_in_bytes");
}

static uint64_t memory_v2(char *level, uint64_t swap)
{
    (void)swap;
    return number_in(level, "memory.max");
}

/* The number behind `name` in memory.stat; 0 without it. */
static uint64_t in_stat(const char *text, const char *name)
{
    size_t length = strlen(name);

    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return strtoull(line + length, NULL, 10);
    }
    return 0;
}

/* What the kernel drops before it kills: pages of files. Shared memory and tmpfs are not on these lists. */
static uint64_t droppable(char *level, const char *inactive, const char *active, const char *slab)
{
    char *text = load_in(level, "memory.stat", STAT_ROOM);
    uint64_t bytes = text ? in_stat(text, inactive) + in_stat(text, active) + in_stat(text, slab) : 0;

    free(text);
    return bytes;
}

/* limit - used + dropped, no less than 0. */
static uint64_t left_of(uint64_t limit, uint64_t used, uint64_t dropped)
{
    if (limit == NONE || used == NONE || used <= dropped)
        return limit;
    used -= dropped;
    return limit > used ? limit - used : 0;
}

/* Its second limit is one of memory and swap together. */
static uint64_t left_v1(char *level, uint64_t swap)
{
    uint64_t limit = number_in(level, "memory.limit_in_bytes");
    uint64_t both = number_in(level, "memory.memsw.limit_in_bytes"), dropped, left;

    if (limit == NONE && both == NONE)
        return NONE;
    dropped = droppable(level, "total_inactive_file", "total_active_file", "");
    left = left_of(limit, number_in(level, "memory.usage_in_bytes"), dropped);
    if (left != NONE)
        left += swap;
    both = left_of(both, number_in(level, "memory.memsw.usage_in_bytes"), dropped);
    return left < both ? left : both;
}

static uint64_t left_v2(char *level, uint64_t swap)
{
    uint64_t limit = number_in(level, "memory.max"), left;

    if (limit == NONE)
        return NONE;
    left = left_of(number_in(level, "memory.swap.max"), number_in(level, "memory.swap.current"), 0);
    if (swap > left)
        swap = left;
    return left_of(limit, number_in(level, "memory.current"),
                   droppable(level, "inactive_file", "active_file", "slab_reclaimable")) +
           swap;
}

static uint64_t milli(uint64_t quota, uint64_t period)
{
    uint64_t thousandths;

    if (quota == NONE || period == NONE || period == 0 || quota > UINT64_MAX / 1000)
        return NONE;
    thousandths = quota * 1000 / period;
    return thousandths == 0 ? 1 : thousandths;
}

static uint64_t cpu_v1(char *level, uint64_t swap)
{
    (void)swap;
    return milli(number_in(level, "cpu.cfs_quota_us"), number_in(level, "cpu.cfs_period_us"));
}

/* "QUOTA PERIOD" or "max PERIOD". */
static uint64_t cpu_v2(char *level, uint64_t swap)
{
    char *text = load_in(level, "cpu.max", LINE_ROOM);
    unsigned long long quota, period;
    bool limited = text && sscanf(text, "%llu %llu", &quota, &period) == 2;

    (void)swap;
    free(text);
    return limited ? milli(quota, period) : NONE;
}

/*
 * The smallest limit from `path` up to the root. Levels whose file is not there are passed over: inside a container the
 * path is often the host's while only the container's own level is mounted, as the root.
 */
static uint64_t smallest_up(const char *root, const char *path, limit_of_level *limit, uint64_t swap)
{
    uint64_t smallest = NONE;
    size_t bottom = strlen(root);
    char *level = nigh_os.calloc(1, PATH_ROOM + FILE_ROOM), *slash = level;

    if (!level)
        return NONE;
    if (snprintf(level, PATH_ROOM, "%s%s", root, path) >= PATH_ROOM)
        slash = NULL;
    while (slash) {
        uint64_t here = limit(level, swap);

        if (here < smallest)
            smallest = here;
        slash = strrchr(level + bottom, '/');
        if (slash)
            *slash = 0;
    }
    free(level);
    return smallest;
}

/* Is `name` one of the comma-separated `list`? */
static bool has(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length) {
        if ((at == list || at[-1] == ',') && (at[length] == 0 || at[length] == ','))
            return true;
    }
    return false;
}

/* A line of /proc/self/cgroup is "hierarchy:controllers:path"; version 2 has no controllers. It is mounted as the root
 * itself, or beside the folders of version 1 as "unified". */
static uint64_t of_line(char *line, const struct limit *limit)
{
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    uint64_t alone, beside;
    char root[64];

    if (path == NULL)
        return NONE;
    *controllers++ = 0;
    *path++ = 0;
    if (strcmp(path, "/") == 0)
        *path = 0;
    if (*controllers == 0) {
        alone = smallest_up(ROOT, path, limit->v2, limit->swap);
        beside = smallest_up(ROOT "/unified", path, limit->v2, limit->swap);
        return alone < beside ? alone : beside;
    }
    if (!has(controllers, limit->controller))
        return NONE;
    snprintf(root, sizeof(root), ROOT "/%s", limit->controller);
    return smallest_up(root, path, limit->v1, limit->swap);
}

/* Where /proc is not mounted: what a container has for its root is its own. */
static char *roots(void)
{
    static const char text[] = "2:memory:/\n1:cpu:/\n0::/\n";
    char *copy = nigh_os.calloc(1, sizeof(text));

    if (copy)
        memcpy(copy, text, sizeof(text));
    return copy;
}

static uint64_t smallest(const struct limit *limit)
{
    char *text = nigh_file_load("/proc/self/cgroup", LIST_ROOM), *rest = NULL;
    uint64_t least = NONE;

    if (!text)
        text = roots();
    if (!text)
        return NONE;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        uint64_t here = of_line(line, limit);

        if (here < least)
            least = here;
    }
    free(text);
    return least;
}

uint64_t nigh_cgroup_memory(void)
{
    static const struct limit memory = {"memory", memory_v1, memory_v2, 0};

    return smallest(&memory);
}

uint64_t nigh_cgroup_memory_left(uint64_t swap)
{
    const struct limit left = {"memory", left_v1, left_v2, swap};

    return smallest(&left);
}

uint32_t nigh_cgroup_cpu_milli(void)
{
    static const struct limit cpu = {"cpu", cpu_v1, cpu_v2, 0};
    uint64_t least = smallest(&cpu);

    return least >= UINT32_MAX ? UINT32_MAX : (uint32_t)least;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks for arenas among the descriptors of all processes. The kernel gives them, for reading, to whoever may
 * inspect the process, so the job has no part in it and is not even woken: sockets would be answered by the
 * service thread, which wakes its rank.
 */
#include "tools/top/find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A descriptor may also be with a peer that is just attaching, or with a child that was forked: the owner is the one
 * that has the arena mapped for writing. */
static bool maps_for_writing(pid_t pid, uint64_t file)
{
    char path[32], line[512], rights[8];
    bool found = false;
    FILE *maps;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    maps = fopen(path, "re");
    if (!maps)
        return false;
    while (!found && fgets(line, sizeof(line), maps)) {
        uint64_t inode;

        found = sscanf(line, "%*s %7s %*s %*s %" SCNu64, rights, &inode) == 2 && inode == file &&
                strcmp(rights, "rw-s") == 0;
    }
    fclose(maps);
    return found;
}

static int add(struct top_crop *crop, const struct top_found *found)
{
    struct top_found *all = realloc(crop->all, (crop->count + 1) * sizeof(*all));

    if (!all)
        return -ENOMEM;
    all[crop->count++] = *found;
    crop->all = all;
    return 0;
}

static int look_at(struct top_crop *crop, pid_t pid, int number, const char *path)
{
    struct top_found found = {.pid = pid, .fd = number};
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

    if (fd < 0)
        return 0; /* closed meanwhile */
    rc = nigh_observe_open(fd, &found.arena);
    close(fd);
    crop->others += rc == -ENOTSUP;
    if (rc)
        return rc == -ENOMEM ? rc : 0;
    if (maps_for_writing(pid, found.arena.file) && top_process_read(pid, &found.process))
        rc = add(crop, &found);
    else
        rc = -ENOENT;
    if (rc)
        nigh_observe_close(&found.arena);
    return rc == -ENOMEM ? rc : 0;
}

static int look_through(struct top_crop *crop, pid_t pid)
{
    char path[64], link[64];
    struct dirent *entry;
    int rc = 0;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    if (!folder) {
        struct stat stat;

        snprintf(path, sizeof(path), "/proc/%d", (int)pid);
        crop->hidden += lstat(path, &stat) == 0 && stat.st_uid == geteuid();
        return 0;
    }
    while (!rc && (entry = readdir(folder))) {
        ssize_t bytes = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link));

        if (bytes != (ssize_t)strlen(NIGH_ARENA_LINK) || memcmp(link, NIGH_ARENA_LINK, (size_t)bytes) != 0)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", (int)pid, entry->d_name);
        rc = look_at(crop, pid, atoi(entry->d_name), path);
    }
    closedir(folder);
    return rc;
}

static int by_rank(const void *a, const void *b)
{
    const struct top_found *one = a, *two = b;

    if (one->arena.job != two->arena.job)
        return one->arena.job < two->arena.job ? -1 : 1;
    if (one->arena.rank != two->arena.rank)
        return one->arena.rank < two->arena.rank ? -1 : 1;
    return one->pid < two->pid ? -1 : one->pid > two->pid;
}

int top_find(struct top_crop *out)
{
    struct top_crop crop = {0};
    struct dirent *entry;
    DIR *folder = opendir("/proc");
    struct stat self;
    int rc = 0;

    if (!folder)
        return -errno;
    if (lstat("/proc/self", &self) != 0) { /* an empty folder, where a system of its own has it mounted */
        rc = -errno;
        closedir(folder);
        return rc;
    }
    while (!rc && (entry = readdir(folder))) {
        if (isdigit((unsigned char)entry->d_name[0]))
            rc = look_through(&crop, (pid_t)atoi(entry->d_name));
    }
    closedir(folder);
    if (rc) {
        top_crop_free(&crop);
        return rc;
    }
    if (crop.count)
        qsort(crop.all, crop.count, sizeof(*crop.all), by_rank);
    *out = crop;
    return 0;
}

void top_crop_free(struct top_crop *crop)
{
    for (size_t i = 0; i < crop->count; i++)
        nigh_observe_close(&crop->all[i].arena);
    free(crop->all);
    *crop = (struct top_crop){0};
}

bool top_still_there(pid_t pid, int fd, uint64_t file)
{
    struct stat here;
    char path[48];

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
    return stat(path, &here) == 0 && here.st_ino == file;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/sweep.c - see sweep.h. */
#include "shm/sweep.h"
#include "shm/clock.h"
#include "shm/log.h"
#include "shm/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

enum { MOST = 64 }; /* of other jobs' sockets that an open looks at: many may be alive */

/* Some entries of a directory: each `stride`-th of those that may be swept. */
struct sweep {
    const struct nigh_name *name;
    int probe;
    unsigned count, stride, first, removed;
};

/* The path of `entry` if that is a name of another job's. */
static bool is_of_other_job(const struct nigh_name *name, const char *entry, struct sockaddr_un *address,
                            socklen_t *bytes)
{
    struct nigh_name other = *name;
    const char *slash;

    if (sscanf(entry, "%16" SCNx64 "-%" SCNu32, &other.job, &other.rank) != 2 || other.job == name->job ||
        nigh_name_address(&other, address, bytes))
        return false;
    slash = strrchr(address->sun_path, '/');
    return slash && strcmp(slash + 1, entry) == 0;
}

/* A socket of another type tells a living owner by EPROTOTYPE, and does not disturb it. The lock is held: remove_stale(). */
static void sweep_one(struct sweep *sweep, const struct sockaddr_un *address, socklen_t bytes)
{
    const char *path = address->sun_path;
    struct stat file;

    if (!nigh_name_is_ours(sweep->name, path, &file) ||
        (!(file.st_mode & S_IWUSR) && nigh_name_open_up(path)))
        return;
    if (nigh_os.connect(sweep->probe, (const struct sockaddr *)address, bytes) == 0 || errno != ECONNREFUSED)
        return;
    sweep->removed += nigh_os.unlink(path) == 0;
}

/* Looks at all entries of `directory` from where it stands; counts without a stride. */
static void sweep_entries(struct sweep *sweep, int directory)
{
    union {
        struct dirent64 first;
        char bytes[1024];
    } some;
    struct sockaddr_un address;
    socklen_t bytes;
    ssize_t got;

    sweep->count = 0;
    while ((got = nigh_os.getdents64(directory, &some, sizeof(some))) > 0)
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *entry = (const void *)(some.bytes + at);

            at += entry->d_reclen;
            if (!is_of_other_job(sweep->name, entry->d_name, &address, &bytes))
                continue;
            if (sweep->stride && sweep->count % sweep->stride == sweep->first)
                sweep_one(sweep, &address, bytes);
            sweep->count++;
        }
}

/* On a file system that machines share the owner may be alive on another one. */
static bool is_local(int directory)
{
    static const unsigned long local[] = {TMPFS_MAGIC,       EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,
                                          BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC,
                                          RAMFS_MAGIC};
    struct statfs system;

    if (nigh_os.fstatfs(directory, &system))
        return false;
    for (unsigned i = 0; i < sizeof(local) / sizeof(local[0]); i++)
        if ((unsigned long)system.f_type == local[i])
            return true;
    return false;
}

void nigh_sweep(const struct nigh_name *name, int directory)
{
    struct sweep sweep = {.name = name};
    int again;

    if (!is_local(directory))
        return;
    sweep_entries(&sweep, directory);
    if (!sweep.count || nigh_name_socket(SOCK_STREAM, &sweep.probe))
        return;
    sweep.stride = (sweep.count + MOST - 1) / MOST;
    sweep.first = (unsigned)(nigh_clock_ns() % sweep.stride);
    again = nigh_os.open(name->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (again >= 0)
        sweep_entries(&sweep, again);
    nigh_os_close(again);
    nigh_os_close(sweep.probe);
    if (sweep.removed)
        nigh_log(NIGH_LOG_INFO, "%s: removed %u sockets of processes that have ended", name->directory,
                 sweep.removed);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/held.c - see held.h. It stands below the table of shm/os.h, whose calls it is part of, and allocates nothing: an allocator
 * may hold its lock while it forks. */
#include "shm/held.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

/* What fs.nr_open is by default. A child keeps its copies of those beyond. */
#define FDS_MAX (1 << 20)

/* Many files have no inode of their own, so an open file is known again by the signal that fcntl(F_SETSIG) gives it, and that
 * nobody is sent without O_ASYNC. A peer's file that is slow to answer stops nobody, as it is not asked. */
#define MARK SIGURG

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static uint64_t held[FDS_MAX / 64], marked[FDS_MAX / 64];
static int end; /* one past the highest that was ever there */

void nigh_held_lock(void)
{
    pthread_mutex_lock(&lock);
}

void nigh_held_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static bool has(const uint64_t *set, int fd)
{
    return set[fd / 64] >> fd % 64 & 1;
}

static void put(uint64_t *set, int fd, bool there)
{
    uint64_t bit = UINT64_C(1) << fd % 64;

    set[fd / 64] = there ? set[fd / 64] | bit : set[fd / 64] & ~bit;
}

int nigh_held_add(int fd)
{
    int error = errno;

    if (fd < 0 || fd >= FDS_MAX)
        return fd;
    put(marked, fd, fcntl(fd, F_SETSIG, MARK) == 0);
    put(held, fd, true);
    if (fd >= end)
        end = fd + 1;
    errno = error;
    return fd;
}

bool nigh_held_remove(int fd)
{
    if (fd < 0 || fd >= FDS_MAX || !has(held, fd))
        return false;
    put(held, fd, false);
    return true;
}

void nigh_held_abandon(void)
{
    for (int fd = 0; fd < end; fd++) {
        if (!has(held, fd))
            continue;
        put(held, fd, false);
        /* Where it could not be marked nothing speaks against it. */
        if (!has(marked, fd) || fcntl(fd, F_GETSIG) == MARK)
            close(fd);
    }
    end = 0;
    lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/malloc/calls.c - the C library's functions by which a program maps other memory where a block lies, or limits what it
 * may have, in the place of its own. Peers copy from the file: they are told ahead of a call behind which
 * the program has something else there. docs/memory-model.md, "The program's memory".
 */
#include "hosts/malloc/blocks.h"
#include "hosts/malloc/system.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *mmap(void *at, size_t bytes, int rights, int flags, int fd, off_t offset);
EXPORTED void *mmap64(void *at, size_t bytes, int rights, int flags, int fd, off64_t offset);
EXPORTED int munmap(void *at, size_t bytes);
EXPORTED void *mremap(void *at, size_t before, size_t after, int flags, ...);
EXPORTED int madvise(void *at, size_t bytes, int advice);
EXPORTED void *shmat(int id, const void *at, int flags);
EXPORTED int remap_file_pages(void *at, size_t bytes, int rights, size_t page, int flags);
EXPORTED int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit);
EXPORTED int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit);
EXPORTED int prlimit(pid_t pid, enum __rlimit_resource resource, const struct rlimit *limit,
                     struct rlimit *before);
EXPORTED int prlimit64(pid_t pid, enum __rlimit_resource resource, const struct rlimit64 *limit,
                       struct rlimit64 *before);
EXPORTED long syscall(long number, ...);

/* ---- mappings ------------------------------------------------------------------------------------------ */

static bool is_ours(const void *at, size_t bytes, uintptr_t *end)
{
    if (__builtin_add_overflow((uintptr_t)at, bytes, end))
        *end = UINTPTR_MAX;
    return (uintptr_t)at<nigh_malloc_blocks_end && * end> nigh_malloc_blocks_begin;
}

/* [at, at + bytes) is about to be something else. */
static void changes(const void *at, size_t bytes)
{
    uintptr_t end;

    if (is_ours(at, bytes, &end) && !nigh_malloc_system_is_ours())
        nigh_malloc_blocks_foreign((uintptr_t)at, end);
}

void *mmap(void *at, size_t bytes, int rights, int flags, int fd, off_t offset)
{
    if (flags & MAP_FIXED)
        changes(at, bytes);
    return nigh_malloc_system.mmap(at, bytes, rights, flags, fd, offset);
}

void *mmap64(void *at, size_t bytes, int rights, int flags, int fd, off64_t offset)
{
    return mmap(at, bytes, rights, flags, fd, offset);
}

int munmap(void *at, size_t bytes)
{
    changes(at, bytes);
    return nigh_malloc_system.munmap(at, bytes);
}

void *mremap(void *at, size_t before, size_t after, int flags, ...)
{
    void *to = NULL;
    va_list list;

    va_start(list, flags);
    if (flags & MREMAP_FIXED)
        to = va_arg(list, void *);
    va_end(list);
    changes(at, before);
    if (flags & MREMAP_FIXED)
        changes(to, after);
    return nigh_malloc_system.mremap(at, before, after, flags, to);
}

static void changes_by_shmat(int id, const void *at, int flags)
{
    struct shmid_ds segment;

    if (at && flags & SHM_REMAP && shmctl(id, IPC_STAT, &segment) == 0)
        changes(at, segment.shm_segsz);
}

void *shmat(int id, const void *at, int flags)
{
    changes_by_shmat(id, at, flags);
    return nigh_malloc_system.shmat(id, at, flags);
}

int remap_file_pages(void *at, size_t bytes, int rights, size_t page, int flags)
{
    changes(at, bytes);
    return nigh_malloc_system.remap_file_pages(at, bytes, rights, page, flags);
}

/* ---- contents ------------------------------------------------------------------------------------------ */

/* Memory of no file reads as zeros behind MADV_DONTNEED. A file has to lose its pages for that, and where the memory has
 * become the process's own, others may have the file's. */
static int forget(void *at, size_t bytes)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
              rights = PROT_READ | PROT_WRITE;

    if (nigh_malloc_blocks_shared())
        return nigh_malloc_system_madvise(at, bytes, MADV_REMOVE);
    return nigh_malloc_system_mmap(at, bytes, rights, flags, -1, 0) == MAP_FAILED ? -1 : 0;
}

int madvise(void *at, size_t bytes, int advice)
{
    uintptr_t end;

    if (is_ours(at, bytes, &end) && !nigh_malloc_system_is_ours()) {
        if (advice == MADV_DONTNEED && (nigh_malloc_blocks_shared() || nigh_malloc_blocks_are_own()))
            return forget(at, bytes);
        if (advice == MADV_FREE) /* memory of no file alone has it */
            return 0;
    }
    return nigh_malloc_system.madvise(at, bytes, advice);
}

/* ---- limits -------------------------------------------------------------------------------------------- */

/* A limit to address space counts what is mapped and free, so that goes back first. One to data counts a process's own
 * memory, which blocks become before a fork: they do so while there is none. */
static void limits(pid_t pid, int resource, const struct rlimit *limit)
{
    if (!limit || (pid && pid != getpid()))
        return;
    if (resource == RLIMIT_AS)
        nigh_malloc_blocks_limit(limit->rlim_cur != RLIM_INFINITY);
    if (resource == RLIMIT_DATA && limit->rlim_cur != RLIM_INFINITY)
        nigh_malloc_blocks_own();
}

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    limits(0, (int)resource, limit);
    return nigh_malloc_system.setrlimit((int)resource, limit);
}

int prlimit(pid_t pid, enum __rlimit_resource resource, const struct rlimit *limit, struct rlimit *before)
{
    limits(pid, (int)resource, limit);
    return nigh_malloc_system.prlimit(pid, (int)resource, limit, before);
}

static_assert(sizeof(struct rlimit) == sizeof(struct rlimit64) && sizeof(off_t) == sizeof(off64_t),
              "both are of 64 bits");

int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
{
    return setrlimit(resource, (const struct rlimit *)limit);
}

int prlimit64(pid_t pid, enum __rlimit_resource resource, const struct rlimit64 *limit,
              struct rlimit64 *before)
{
    return prlimit(pid, resource, (const struct rlimit *)limit, (struct rlimit *)before);
}

/* ---- by number ----------------------------------------------------------------------------------------- */

long syscall(long number, ...)
{
    long a[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++) /* as many as any has */
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_mmap && a[3] & MAP_FIXED)
        changes((const void *)a[0], (size_t)a[1]);
    else if (number == SYS_munmap || number == SYS_remap_file_pages)
        changes((const void *)a[0], (size_t)a[1]);
    else if (number == SYS_mremap) {
        changes((const void *)a[0], (size_t)a[1]);
        if (a[3] & MREMAP_FIXED)
            changes((const void *)a[4], (size_t)a[2]);
    } else if (number == SYS_shmat)
        changes_by_shmat((int)a[0], (const void *)a[1], (int)a[2]);
    else if (number == SYS_prlimit64)
        limits((pid_t)a[0], (int)a[1], (const struct rlimit *)a[2]);
    return nigh_malloc_system_call(number, a);
}

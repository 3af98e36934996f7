/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/malloc/system.h - the C library's calls that change mappings and limits, past those of calls.c, which stand before
 * them. Whatever else hooks the C library's still sees what is done here.
 */
#ifndef NIGH_MALLOC_SYSTEM_H
#define NIGH_MALLOC_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

/* The kernel's own, until nigh_malloc_system_find(), and where the process has no other. */
extern struct nigh_malloc_system {
    void *(*mmap)(void *at, size_t bytes, int rights, int flags, int fd, off_t offset);
    int (*munmap)(void *at, size_t bytes);
    void *(*mremap)(void *at, size_t before, size_t after, int flags, ...);
    int (*madvise)(void *at, size_t bytes, int advice);
    void *(*shmat)(int id, const void *at, int flags);
    int (*remap_file_pages)(void *at, size_t bytes, int rights, size_t page, int flags);
    int (*setrlimit)(int resource, const struct rlimit *limit);
    int (*prlimit)(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *before);
} nigh_malloc_system;

void nigh_malloc_system_find(void);

/*
 * The same, on our own behalf. Others hook these functions (Open MPI, UCX) and may come back by syscall() or one of calls.c,
 * which must not take that for the program's: nigh_malloc_system_is_ours() says so, of the calling thread.
 */
void *nigh_malloc_system_mmap(void *at, size_t bytes, int rights, int flags, int fd, off_t offset);
int nigh_malloc_system_munmap(void *at, size_t bytes);
int nigh_malloc_system_madvise(void *at, size_t bytes, int advice);
/* To `to`, which is replaced. */
bool nigh_malloc_system_move(void *at, size_t bytes, void *to);
bool nigh_malloc_system_is_ours(void);

/* A system call of the kernel's, as syscall(). */
long nigh_malloc_system_call(long number, const long arguments[6]);

#endif

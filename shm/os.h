/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/os.h - every call into the system that can fail, in one table that tests replace, so that each call can
 * be made to fail once and the code behind it is seen to clean up. */
#ifndef NIGH_SHM_OS_H
#define NIGH_SHM_OS_H

#include "include/common/descriptor.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

/* Linux 5.14; older C libraries do not name them. */
#define NIGH_MADV_POPULATE_READ  22
#define NIGH_MADV_POPULATE_WRITE 23

/* Linux 6.5; missing in the headers of many that run on a newer kernel. Architectures with numbers of their own
 * (parisc, sparc) are told by their different SO_PEERCRED. */
#if !defined(SO_PEERPIDFD) && SO_PEERCRED == 17
#define SO_PEERPIDFD 77
#endif

/* Linux 5.16: one futex of several that a thread waits on. Headers of older systems do not name it. */
struct nigh_futex_wait {
    uint64_t value, address;
    uint32_t flags, reserved;
};
#define NIGH_FUTEX_WAITS_MAX 128u
#define NIGH_FUTEX_32        2u

/*
 * CALL(result, failed, name, (parameters), (arguments))
 *
 * Meaning, result and errno are those of the libc function or system call of that name. `failed` is what the
 * call returns when it fails with errno `error`: the tests' replacements are made from this list. Variadic
 * calls have the one form that is used here. What cannot fail (close of a good descriptor, free, munmap of
 * what was mapped) is in the list too, so that tests can count it.
 */
/* What makes a descriptor. The real calls keep it above stderr (common/descriptor.h), and in the set of shm/held.h. */
#define NIGH_OS_MAKERS(CALL)                                                                \
    CALL(int, -1, memfd_create, (const char *name, unsigned flags), (name, flags))          \
    CALL(int, -1, epoll_create1, (int flags), (flags))                                      \
    CALL(int, -1, timerfd_create, (int clock, int flags), (clock, flags))                   \
    CALL(int, -1, pidfd_open, (pid_t pid, unsigned flags), (pid, flags))                    \
    CALL(int, -1, pidfd_getfd, (int process, int fd, unsigned flags), (process, fd, flags)) \
    CALL(int, -1, socket, (int domain, int type, int protocol), (domain, type, protocol))   \
    CALL(int, -1, accept4, (int fd, struct sockaddr *from, socklen_t *bytes, int flags),    \
         (fd, from, bytes, flags))

/* What may bring descriptors in what it writes: above stderr too, once the caller has taken each with nigh_os_take(). */
#define NIGH_OS_BRINGERS(CALL)                                                                    \
    CALL(int, -1, getsockopt, (int fd, int level, int name, void *value, socklen_t *bytes),       \
         (fd, level, name, value, bytes))                                                         \
    CALL(ssize_t, -1, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags)) \
    CALL(int, -1, socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds))

/* What makes some, or closes them: in the set, too. */
#define NIGH_OS_HOLDERS(CALL)                                                            \
    CALL(int, -1, open, (const char *path, int flags, mode_t mode), (path, flags, mode)) \
    CALL(int, -1, fcntl, (int fd, int command, int argument), (fd, command, argument))   \
    CALL(int, -1, close, (int fd), (fd))

/* All others. */
#define NIGH_OS_OTHERS(CALL)                                                                                 \
    CALL(int, -1, ftruncate, (int fd, off_t bytes), (fd, bytes))                                             \
    CALL(int, -1, fallocate, (int fd, int mode, off_t offset, off_t bytes), (fd, mode, offset, bytes))       \
    CALL(int, -1, fstat, (int fd, struct stat *out), (fd, out))                                              \
    CALL(int, -1, lstat, (const char *path, struct stat *out), (path, out))                                  \
    CALL(int, -1, fstatfs, (int fd, struct statfs *out), (fd, out))                                          \
    CALL(void *, MAP_FAILED, mmap, (void *at, size_t bytes, int prot, int flags, int fd, off_t offset),      \
         (at, bytes, prot, flags, fd, offset))                                                               \
    CALL(int, -1, munmap, (void *at, size_t bytes), (at, bytes))                                             \
    CALL(int, -1, mprotect, (void *at, size_t bytes, int prot), (at, bytes, prot))                           \
    CALL(int, -1, munlock, (const void *at, size_t bytes), (at, bytes))                                      \
    CALL(int, -1, madvise, (void *at, size_t bytes, int advice), (at, bytes, advice))                        \
    CALL(int, -1, sysinfo, (struct sysinfo * out), (out))                                                    \
    CALL(int, -1, getrlimit, (int what, struct rlimit *out), (what, out))                                    \
    CALL(int, -1, setrlimit, (int what, const struct rlimit *to), (what, to))                                \
    CALL(int, -1, flock, (int fd, int operation), (fd, operation))                                           \
    CALL(ssize_t, -1, read, (int fd, void *to, size_t bytes), (fd, to, bytes))                               \
    CALL(ssize_t, -1, pread, (int fd, void *to, size_t bytes, off_t offset), (fd, to, bytes, offset))        \
    CALL(ssize_t, -1, write, (int fd, const void *from, size_t bytes), (fd, from, bytes))                    \
    CALL(ssize_t, -1, pwrite, (int fd, const void *from, size_t bytes, off_t offset),                        \
         (fd, from, bytes, offset))                                                                          \
    CALL(int, -1, ioctl, (int fd, unsigned long request, void *argument), (fd, request, argument))           \
    CALL(int, -1, mkdir, (const char *path, mode_t mode), (path, mode))                                      \
    CALL(int, -1, unlink, (const char *path), (path))                                                        \
    CALL(int, -1, chmod, (const char *path, mode_t mode), (path, mode))                                      \
    CALL(ssize_t, -1, getdents64, (int directory, void *to, size_t bytes), (directory, to, bytes))           \
    CALL(int, -1, rename, (const char *from, const char *to), (from, to))                                    \
    CALL(int, -1, futex, (uint32_t * word, int op, uint32_t value, const struct timespec *timeout),          \
         (word, op, value, timeout))                                                                         \
    CALL(int, -1, futex_waitv,                                                                               \
         (struct nigh_futex_wait * waits, unsigned count, unsigned flags, struct timespec *timeout,          \
          int clock),                                                                                        \
         (waits, count, flags, timeout, clock))                                                              \
    CALL(int, -1, set_robust_list, (void *head, size_t bytes), (head, bytes))                                \
    CALL(int, -1, membarrier, (int command, unsigned flags), (command, flags))                               \
    CALL(int, -1, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event), (epoll, op, fd, event)) \
    CALL(int, -1, epoll_wait, (int epoll, struct epoll_event *events, int count, int timeout_ms),            \
         (epoll, events, count, timeout_ms))                                                                 \
    CALL(int, -1, timerfd_settime,                                                                           \
         (int fd, int flags, const struct itimerspec *to, struct itimerspec *before),                        \
         (fd, flags, to, before))                                                                            \
    CALL(int, -1, poll, (struct pollfd * fds, nfds_t count, int timeout_ms), (fds, count, timeout_ms))       \
    CALL(int, -1, bind, (int fd, const struct sockaddr *to, socklen_t bytes), (fd, to, bytes))               \
    CALL(int, -1, listen, (int fd, int backlog), (fd, backlog))                                              \
    CALL(int, -1, connect, (int fd, const struct sockaddr *to, socklen_t bytes), (fd, to, bytes))            \
    CALL(int, -1, setsockopt, (int fd, int level, int name, const void *value, socklen_t bytes),             \
         (fd, level, name, value, bytes))                                                                    \
    CALL(ssize_t, -1, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))      \
    CALL(int, -1, shutdown, (int fd, int how), (fd, how))                                                    \
    CALL(ssize_t, -1, process_vm_readv,                                                                      \
         (pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,            \
          unsigned long remotes, unsigned long flags),                                                       \
         (pid, local, locals, remote, remotes, flags))                                                       \
    CALL(ssize_t, -1, process_vm_writev,                                                                     \
         (pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,            \
          unsigned long remotes, unsigned long flags),                                                       \
         (pid, local, locals, remote, remotes, flags))                                                       \
    CALL(int, error, pthread_create,                                                                         \
         (pthread_t * out, const pthread_attr_t *attributes, void *(*run)(void *), void *argument),          \
         (out, attributes, run, argument))                                                                   \
    CALL(ssize_t, -1, getrandom, (void *to, size_t bytes, unsigned flags), (to, bytes, flags))               \
    CALL(int, -1, sched_getaffinity, (pid_t pid, size_t bytes, cpu_set_t * out), (pid, bytes, out))          \
    CALL(int, -1, sched_getcpu, (void), ())                                                                  \
    CALL(long, -1, mbind,                                                                                    \
         (void *at, unsigned long bytes, int mode, const unsigned long *nodes, unsigned long bits,           \
          unsigned flags),                                                                                   \
         (at, bytes, mode, nodes, bits, flags))                                                              \
    CALL(long, -1, get_mempolicy,                                                                            \
         (int *mode, unsigned long *nodes, unsigned long bits, void *at, unsigned long flags),               \
         (mode, nodes, bits, at, flags))                                                                     \
    CALL(void *, NULL, calloc, (size_t count, size_t bytes), (count, bytes))

#define NIGH_OS_CALLS(CALL) \
    NIGH_OS_MAKERS(CALL) NIGH_OS_BRINGERS(CALL) NIGH_OS_HOLDERS(CALL) NIGH_OS_OTHERS(CALL)

#define NIGH_OS_MEMBER(result, failed, name, parameters, arguments) result(*name) parameters;
struct nigh_os {
    NIGH_OS_CALLS(NIGH_OS_MEMBER)
};
#undef NIGH_OS_MEMBER

/* The table in use. Tests may change it while no other thread of the process is inside nigh. */
extern struct nigh_os nigh_os;

/* nigh_os.close() that keeps errno, for error paths; nothing happens for -1. */
void nigh_os_close(int fd);

/* A descriptor that came by another way than a call that makes one: above stderr, closed on exec. -1 and errno, and it is closed. */
int nigh_os_take(int fd);

/*
 * Programs close descriptors that are not theirs (closefrom(3) in a daemon) and open others under the same numbers. Whatever
 * nigh keeps, and will write to, hand on or close later, it identifies when it makes it, and asks again before that.
 */
/* 0; negative errno. */
int nigh_os_identify(int fd, struct nigh_file_id *out);
/* Two stream sockets that are connected, not blocking, identified. A socket has an inode by which it is known again, and can
 * be written to without SIGPIPE. 0; negative errno, both are -1. */
int nigh_os_pair(int fds[2], struct nigh_file_id ids[2]);
/* Keeps errno. */
bool nigh_os_is(int fd, const struct nigh_file_id *id);
/* nigh_os_close(), if it is. */
void nigh_os_close_own(int fd, const struct nigh_file_id *id);

#endif

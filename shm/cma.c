/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/cma.c - process_vm_readv and process_vm_writev, in pieces as the kernel gives them. */
#include "shm/cma.h"
#include "shm/os.h"

#include <errno.h>

typedef ssize_t (*move_fn)(pid_t pid, const struct iovec *local, unsigned long locals,
                           const struct iovec *remote, unsigned long remotes, unsigned long flags);

/* The kernel moves at most 2 GiB a call, and fewer where it meets a page that it cannot reach. */
static int move(move_fn call, int pid, char *local, uint64_t remote, uint64_t bytes)
{
    uint64_t done = 0;

    if (pid <= 0) /* 0: not visible from here */
        return -ESRCH;
    if (remote > UINTPTR_MAX - bytes)
        return -EFAULT;
    while (done < bytes) {
        struct iovec here = {.iov_base = local + done, .iov_len = bytes - done};
        struct iovec there = {.iov_base = (void *)(uintptr_t)(remote + done), .iov_len = bytes - done};
        ssize_t got = call(pid, &here, 1, &there, 1, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0 || (uint64_t)got > bytes - done)
            return -EIO;
        done += (uint64_t)got;
    }
    return 0;
}

int nigh_cma_read(int pid, void *local, uint64_t remote, uint64_t bytes)
{
    return move(nigh_os.process_vm_readv, pid, local, remote, bytes);
}

int nigh_cma_write(int pid, uint64_t remote, const void *local, uint64_t bytes)
{
    return move(nigh_os.process_vm_writev, pid, (char *)(uintptr_t)local, remote, bytes);
}

static int move_several(move_fn call, int pid, const struct iovec *here, const struct iovec *there,
                        unsigned count, uint64_t bytes)
{
    ssize_t got = pid > 0 ? call(pid, here, count, there, count, 0) : -1;

    return got >= 0 && (uint64_t)got == bytes ? 0 : -EIO;
}

int nigh_cma_read_several(int pid, const struct iovec *here, const struct iovec *there, unsigned count,
                          uint64_t bytes)
{
    return move_several(nigh_os.process_vm_readv, pid, here, there, count, bytes);
}

int nigh_cma_write_several(int pid, const struct iovec *there, const struct iovec *here, unsigned count,
                           uint64_t bytes)
{
    return move_several(nigh_os.process_vm_writev, pid, here, there, count, bytes);
}

int nigh_cma_probe(int pid, uint64_t remote, uint64_t nonce)
{
    uint64_t seen;
    int error = nigh_cma_read(pid, &seen, remote, sizeof(seen));

    if (error)
        return error;
    /* Another process of that number, in another PID namespace, or one that lies. */
    return seen == nonce ? 0 : -EPERM;
}

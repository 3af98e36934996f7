/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/cma.c - process_vm_readv, in pieces as the kernel gives them. */
#include "shm/cma.h"
#include "shm/os.h"

#include <errno.h>

int nigh_cma_read(int pid, void *local, uint64_t remote, uint64_t bytes)
{
    uint64_t done = 0;

    if (pid <= 0) /* 0: not visible from here */
        return -ESRCH;
    if (remote > UINTPTR_MAX - bytes)
        return -EFAULT;
    /* The kernel moves at most 2 GiB a call, and fewer where it meets a page that it cannot read. */
    while (done < bytes) {
        struct iovec to = {.iov_base = (char *)local + done, .iov_len = bytes - done};
        struct iovec from = {.iov_base = (void *)(uintptr_t)(remote + done), .iov_len = bytes - done};
        ssize_t got = nigh_os.process_vm_readv(pid, &to, 1, &from, 1, 0);

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

int nigh_cma_probe(int pid, uint64_t remote, uint64_t nonce)
{
    uint64_t seen;
    int error = nigh_cma_read(pid, &seen, remote, sizeof(seen));

    if (error)
        return error;
    /* Another process of that number, in another PID namespace, or one that lies. */
    return seen == nonce ? 0 : -EPERM;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/cma.h - reading another process's memory by process_vm_readv, where it is allowed. */
#ifndef NIGH_SHM_CMA_H
#define NIGH_SHM_CMA_H

#include <stdint.h>
#include <sys/uio.h>

/* Copies [remote, remote + bytes) of process `pid` to `local`. 0; -EPERM, -ESRCH, -EFAULT, -ENOSYS, -EIO
 * (short). */
int nigh_cma_read(int pid, void *local, uint64_t remote, uint64_t bytes);

/* Copies `bytes` of `local` to `remote` in process `pid`. The same errors; some of it may have been copied then. */
int nigh_cma_write(int pid, uint64_t remote, const void *local, uint64_t bytes);

/* Several places at once, `bytes` in all, each as long there as here: 0 if all of it was copied. Else some may have been;
 * the calls above say what is wrong. */
int nigh_cma_read_several(int pid, const struct iovec *here, const struct iovec *there, unsigned count,
                          uint64_t bytes);
int nigh_cma_write_several(int pid, const struct iovec *there, const struct iovec *here, unsigned count,
                           uint64_t bytes);

/* Whether reading `pid` works: reads a nonce that lies at `remote` in it and compares it with `nonce`. 0, or
 * why not. */
int nigh_cma_probe(int pid, uint64_t remote, uint64_t nonce);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/memfd.c - memfd_create as old and new kernels, and guarded machines, want it. */
#include "shm/memfd.h"
#include "shm/os.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

int nigh_memfd_create(const char *name)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    /* NOEXEC_SEAL first: machines with vm.memfd_noexec=2 insist on it, kernels before 6.3 do not know it. */
    int fd = nigh_os.memfd_create(name, flags | MFD_NOEXEC_SEAL);

    return fd < 0 && errno == EINVAL ? nigh_os.memfd_create(name, flags) : fd;
}

int nigh_memfd_error(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
        return -EMFILE;
    case ENOSYS:
    case EINVAL: /* an unknown seal */
        return -ENOSYS;
    case EPERM:
    case EACCES:
        return -EPERM;
    default:
        return -ENOMEM;
    }
}

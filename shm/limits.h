/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/limits.h - how much memory the machine lets this process have: to refuse what can never be had before
 * the kernel kills for it, and to name the limit that stood in the way. */
#ifndef NIGH_SHM_LIMITS_H
#define NIGH_SHM_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* In bytes. UINT64_MAX: no such limit, or it cannot be read. */
struct nigh_limits {
    uint64_t file;        /* RLIMIT_FSIZE; exceeding it by ftruncate is a signal that kills */
    uint64_t address;     /* RLIMIT_AS */
    uint64_t cgroup;      /* the smallest memory limit of our cgroup and those above it, v1 or v2 */
    uint64_t cgroup_left; /* of it now, for all its processes together */
    uint64_t memory;      /* of the machine */
    uint64_t available;   /* of it and of swap now, before others must be killed */
};

/* Reads them all, now. Cannot fail. Any thread; some ten system calls, twice that where a cgroup has a
 * limit. */
void nigh_limits_read(struct nigh_limits *out);

/* "RLIMIT_AS 1.0 GiB, cgroup memory limit 64.0 MiB (1.0 MiB left), ..." into text, cut to `room`. */
void nigh_limits_describe(const struct nigh_limits *limits, char *text, size_t room);

/* "512 bytes", "1.5 MiB", "none" for UINT64_MAX. Returns text. */
#define NIGH_BYTES_TEXT 24
char *nigh_bytes_text(uint64_t bytes, char text[NIGH_BYTES_TEXT]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/observe.h - looking at a context from outside: one page of its arena, mapped read-only, from a descriptor that
 * the kernel gives to whoever may inspect the process (/proc/PID/fd). The context has no part in it: no socket, no
 * endpoint, no wake-up; it may compute, sleep or be stopped. Nothing here logs.
 */
#ifndef NIGH_SHM_OBSERVE_H
#define NIGH_SHM_OBSERVE_H

#include "nigh/transport.h"
#include "shm/layout.h"
#include <stdbool.h>

#define NIGH_ARENA_LINK "/memfd:nigh-arena (deleted)" /* what such a descriptor links to */

struct nigh_observed {
    const uint8_t *page; /* NULL: not open */
    uint64_t job, incarnation;
    uint32_t rank, ranks;
    uint64_t bytes;     /* of the arena: address space */
    uint64_t file;      /* the arena's inode: the same for every descriptor of it */
    uint64_t allocated; /* bytes of memory that it takes, when it was opened */
};

/*
 * Maps the state page after checking what it comes in: a sealed memfd of ordinary pages, with a sound header. Does not
 * close fd. -EPROTO it is none; -ENOTSUP it is of another version of nigh; -ENOMEM.
 */
int nigh_observe_open(int fd, struct nigh_observed *out);
void nigh_observe_close(struct nigh_observed *observed);

/* Errors of nigh_note_read(). */
int nigh_observe_note(const struct nigh_observed *observed, struct nigh_note *out);
/* Each word by itself. */
void nigh_observe_counters(const struct nigh_observed *observed, struct nigh_arena_counters *out);
/* Does it sleep in wait(), or for its descriptor? */
bool nigh_observe_sleeps(const struct nigh_observed *observed);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/strategy.h - a way to copy large messages. shm/tune.h has the list of those that a machine has,
 * shm/pace.h which of them a message takes. */
#ifndef NIGH_SHM_STRATEGY_H
#define NIGH_SHM_STRATEGY_H

#include "shm/copy.h"
#include <stdint.h>

/* How a large message is copied: into a chunk by `sender`, out of it by `receiver`. */
struct nigh_strategy {
    uint8_t sender, receiver; /* enum nigh_copy_kernel */
    uint8_t reserved[2];
    uint32_t span;  /* bytes of chunks in rotation: one pool serves all, that of tune.near counts */
    uint32_t piece; /* the largest piece; a multiple of 4 KiB */
    /* Only for messages of at least so many bytes, which then take none that writes alike and is for shorter ones, too:
     * a reader that writes past its cache wins every timing, but its program then finds the data in memory. */
    uint32_t from;
    /* Tried from so many on, where it, or that of a neighbouring size, must be better by figures: at most `from`; 0: not
     * below that. */
    uint32_t tried;
};

/* 0; -EINVAL when a kernel is none of the enum, when a piece is 0, no multiple of 4 KiB or more than half of the
 * span, when `tried` is above `from`; -ENOTSUP when this CPU lacks a kernel. *why (may be NULL) then says which, in
 * static storage. */
int nigh_strategy_check(const struct nigh_strategy *strategy, const char **why);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/far.h - how slices of large messages are copied into buffers that another CPU's cache has: through the cache,
 * or past it. Both are timed; what lies in a cache is worth something to whoever reads it next. */
#ifndef NIGH_SHM_FAR_H
#define NIGH_SHM_FAR_H

#include <stdbool.h>
#include <stdint.h>

#define NIGH_FAR_TRIAL 128u /* slices from one look at the other way to the next: six messages of 4 MiB */

struct nigh_far {
    uint64_t ns[2]; /* of 64 KiB: through the cache, past it; 0: not known */
    uint32_t count;
};

/* Whether the next slice is to go past the cache; *trial: that is the other way than what pays. */
static inline bool nigh_far_choose(struct nigh_far *far, bool *trial)
{
    bool past = far->ns[0] > far->ns[1] + far->ns[1] / 4;

    *trial = true;
    if (!far->ns[0] || !far->ns[1])
        return far->ns[0] != 0;
    *trial = ++far->count % NIGH_FAR_TRIAL == 0;
    return past != *trial;
}

/* What one has taken, of several that may be under way. The way that is taken always is averaged; one that is
 * looked at now and then may have changed since. Of one slice that was held up, by an interrupt of 3 us,
 * nothing must follow for the next eight messages: it counts twice the average at most, and a sixteenth;
 * rounded up, so that it gets away from 1. */
static inline void nigh_far_learn(struct nigh_far *far, bool past, bool trial, uint64_t ns)
{
    uint64_t known = far->ns[past];

    far->ns[past] = known && !trial ? (15 * known + (ns < 2 * known ? ns : 2 * known) + 15) / 16 : ns;
    if (!far->ns[past])
        far->ns[past] = 1;
}

#endif

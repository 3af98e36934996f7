/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/slice.h - a part of a message that lies with its sender, as one thread copies it: by the better of two ways,
 * of several threads each a slice of its own, the bytes of one that the sender may help with by turns with it.
 */
#ifndef NIGH_PLUGIN_SLICE_H
#define NIGH_PLUGIN_SLICE_H

#include "plugin/context.h"

/* Copied in one go when it is matched (without threads), and then in each pass: long enough to make the pass not count,
 * short enough that other peers are heard every 50 us or so; where ranks share CPUs some go on for longer,
 * nigh_slice_most(). */
#define NIGH_TURN_BYTES (512u * 1024)
/* The least that one of several threads takes at once. */
#define NIGH_SLICE_BYTES (64u * 1024)

/* What one thread copies, with all that it needs for it outside of the lock. */
struct nigh_slice {
    struct nigh_message *message; /* stays until the slice is reported */
    uint8_t *to;
    const void *at; /* NULL: `from` in the process `pid` */
    nigh_copy_fn kernel;
    uint64_t from, bytes, ns; /* ns: what it has taken, where it is timed */
    int32_t pid;
    bool posters; /* is copied by the thread that has posted the receive, of several */
    bool timed, past, trial;
};

/* Has another thread posted its receive? */
bool nigh_slice_is_anothers(const struct nigh_message *message);
/* May this thread copy? The poster of a receive that waits for it does it all, as it is near to its buffer. */
bool nigh_slice_is_ours(struct nigh_message *message);
/* How much of the message to take next, at most. */
uint64_t nigh_slice_most(const struct nigh_message *message);
/* Takes the next slice, of at most `most` bytes. False: there is none, as all is taken, the rest is the
 * sender's for now, or it cannot be read. */
bool nigh_slice_take(struct nigh_message *message, uint64_t most, struct nigh_slice *slice);
/* With or without the lock. Once it is no longer among the copiers the message may be gone. */
void nigh_slice_copy(struct nigh_slice *slice);
/* With the lock: what it has taken. */
void nigh_slice_learn(struct nigh_context *context, const struct nigh_slice *slice);
/* Does nobody copy any of it now? */
bool nigh_slice_all_done(const struct nigh_message *message);

#endif

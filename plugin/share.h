/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/share.h - one copy for several receivers. Where ranks run in turns, a buffer that is being sent to several
 * peers at a time, as by the root of a broadcast, is copied once, to where all of them may read, and each copies it
 * from there: n + 1 copies in place of 2n, and the lines of one place in place of those of n. On the wire it is a send
 * of heap memory. Behind the heap, so that the program's own blocks are never short of it. What would go in chunks
 * there, as nobody answers and no shuttle comes back, is copied so for one receiver, too.
 */
#ifndef NIGH_PLUGIN_SHARE_H
#define NIGH_PLUGIN_SHARE_H

#include "nigh/transport.h"
#include "shm/extents.h"
#include <stdbool.h>
#include <stdint.h>

struct nigh_context;
struct nigh_endpoint;
struct nigh_send_op;

/* The longest message that is shared; up to which length those stay in chunks that complete unasked, as nothing
 * was gained there; of all copies together, as what has had memory once keeps it; buffers that are watched at a
 * time, and lengths that are remembered. */
#define NIGH_SHARE_MAX    (UINT64_C(16) << 20)
#define NIGH_SHARE_ABOVE  (UINT64_C(16) << 10)
#define NIGH_SHARES_BYTES (UINT64_C(16) << 20)
#define NIGH_SHARES       16u
#define NIGH_GUESSES      16u

/* A buffer that the host leaves as it is: a send of it is not complete, or, of what completes when it is posted,
 * the host has not been told of it yet. */
struct nigh_share {
    const void *buffer;
    uint64_t bytes;
    uint64_t until;           /* the host leaves it so while it was told of no more completions */
    struct nigh_extent *copy; /* NULL: there is none */
    uint32_t sends, ever;     /* not complete, 0: this is vacant; and with those that are */
    bool lone;                /* was noted to go to one alone */
};

/* Of one length: was a buffer sent to one peer alone, or to several? */
struct nigh_guess {
    uint64_t bytes;
    const void *buffer; /* of the last one, and whom it went to; never followed */
    const struct nigh_endpoint *to;
    struct nigh_share *share; /* it was that one's, unless that has changed */
    int32_t score;            /* more than 0: to several */
};

struct nigh_shares {
    struct nigh_extents extents;
    struct nigh_share at[NIGH_SHARES];
    struct nigh_guess guess[NIGH_GUESSES];
    bool open, refused; /* refused: the machine had no memory for a copy, so no more are made */
    bool slow;          /* the first page of the last timed copy took more than */
    uint64_t slow_ns;
};

/*
 * Notes what the first page of a copy took through the cache. True: the rest is to go past it. The lines of a place
 * that was read behind another L3 are in caches there, and each that is written comes from there: 2.5 GB/s. Where the
 * readers ran only they know, but a page takes 100 to 400 ns near and 700 to 2100 there; stores that are still under
 * way are not in that. One slow page alone was interrupted, or is new (docs/rationale/crowd-shared-copies.md).
 */
static inline bool nigh_shares_note_page(struct nigh_shares *shares, uint64_t ns)
{
    bool before = shares->slow;

    shares->slow = ns > shares->slow_ns;
    return before && shares->slow;
}

/* -ENOMEM. */
int nigh_shares_open(struct nigh_context *context);
/* All sends have ended. */
void nigh_shares_close(struct nigh_context *context);

/* May a message of so many bytes of private memory go so, if others of its buffer do, and complete when it has
 * been read? No silent one: its host is never told that it is complete, and may know so by other ways and
 * change the buffer while we do not. */
bool nigh_share_is_for(const struct nigh_endpoint *endpoint, uint64_t bytes);
/* The shortest that goes so, either way; 0: none to this peer, now. */
uint64_t nigh_share_from(const struct nigh_endpoint *endpoint);
/* Such a message is posted; `in_place`: it would be read out of its buffer otherwise. True: a copy of it
 * lies at *offset of the arena until nigh_share_end(). Either way the operation is one of those that keep
 * the host from changing the buffer. */
bool nigh_share_begin(struct nigh_endpoint *endpoint, const struct nigh_send *send, struct nigh_send_op *op,
                      bool in_place, uint64_t *offset);
/* It is complete, or never will be. */
void nigh_share_end(struct nigh_context *context, struct nigh_send_op *op);

/* Sends one that is complete when it is posted, as up to NIGH_EAGER all are, by a reference to a copy that stays until
 * its receivers have read it, whatever becomes of us. Nothing waits before it. -EAGAIN: it goes another way. */
int nigh_share_whole(struct nigh_endpoint *endpoint, const struct nigh_send *send);
/* Is that all that this operation is about: a copy, which its receiver may read though we have left? */
bool nigh_share_outlives(const struct nigh_send_op *op);
/* The peer reads nothing of ours any more. */
void nigh_share_reclaim(struct nigh_endpoint *endpoint);

#endif

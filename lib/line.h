/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/line.h - the status line: what a call that blocks writes into shared memory for others to read, what others say
 * in theirs, and both in words. Ranks in a line are ranks of the world, tags the program's.
 */
#ifndef NIGH_LIB_LINE_H
#define NIGH_LIB_LINE_H

#include "lib/block.h"
#include "lib/request.h"

#define NIGH_LINE_ANY_TAG UINT64_MAX

/* Says what `block` waits for, or that its call goes on. Written before anything is posted: transport.h, note(). */
void nigh_line_block(struct nigh_block *block);
/* The same again if some of what it waits for has ended meanwhile; or that it goes on, if it may. To be called behind
 * each poll and before anything else is polled: a pass of the plugin answers nudges for a line that stands. */
void nigh_line_refresh(struct nigh_block *block);
void nigh_line_run(const struct nigh_block *block);

/* At nigh_init; at the end of nigh_finalize. */
void nigh_line_begin(void);
void nigh_line_leave(void);

/*
 * Reads the line of a rank of the world, connecting to it if need be. Errors: -EAGAIN it has not answered, or the line
 * is being written; -ECONNRESET, -EPROTO it has ended without ever saying anything.
 */
int nigh_line_read(int world_rank, struct nigh_note *out);

/* Has it left in good order? Told even when its process has ended since. */
bool nigh_line_has_left(int world_rank);

/* What a rank is about, for those who wait for it. */
enum nigh_doing {
    NIGH_DOING_UNKNOWN = 0, /* not met: has not come yet, or had ended before */
    NIGH_DOING_RUNS,
    NIGH_DOING_WAITS,   /* its line says for whom */
    NIGH_DOING_LEAVING, /* in nigh_finalize: nothing but leaving will come of it any more */
    NIGH_DOING_GONE,    /* has left, was killed, is broken */
};
enum nigh_doing nigh_line_doing(int world_rank, struct nigh_note *out);

/* Does it wait for all of them (each must come), not for any? */
bool nigh_line_is_all(const struct nigh_note *note);

/* Does its wait end later than `after_ns`, or never? UINT64_MAX: never. */
static inline bool nigh_line_outlasts(const struct nigh_note *note, uint64_t after_ns)
{
    return note->until_ns == 0 || note->until_ns > after_ns;
}

/* Does the line of `rank` say that it waits for `other`? */
bool nigh_line_names(int rank, const struct nigh_note *note, int other);

/* "rank 1 waits in nigh_recv for rank 0, tag 7, at most 8 bytes, in communicator "world" (ring.c:12)" */
struct nigh_sentence nigh_line_text(int rank, const struct nigh_note *note);

/* The same of a rank in any state: "rank 1 runs the program, since nigh_recv at ring.c:12 ended 2.1 s ago". */
struct nigh_sentence nigh_doing_text(int world_rank);

/* ": " and why, if that rank of `comm` was never met; else "". */
struct nigh_sentence nigh_unmet_text(const struct nigh_comm *comm, int rank);

/* Of a call that has waited too long for `peer` of `comm`, or (NIGH_ANY_SOURCE) any of it: what
 * they do; a few are named. */
struct nigh_sentence nigh_missing_text(const struct nigh_comm *comm, int peer);

/* Those of `comm` whose lines do not say that they are in the collective `op` of it: they have not
 * come. "" if all have. */
struct nigh_sentence nigh_absent_text(const struct nigh_comm *comm, uint32_t op);

#endif

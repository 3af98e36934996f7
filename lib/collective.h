/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/collective.h - the collective calls: arguments as nigh.h has them, what one rank can find wrong with its own, and the
 * call of the table that comes of them. lib/group.h has what happens to it then.
 */
#ifndef NIGH_LIB_COLLECTIVE_H
#define NIGH_LIB_COLLECTIVE_H

#include "lib/group.h"

/* Which arguments a call has. */
enum nigh_coll_has {
    NIGH_COLL_COUNT = 1, /* and a type */
    NIGH_COLL_OP = 2,
    NIGH_COLL_ROOT = 4,
    NIGH_COLL_SEND_COUNTS = 8, /* the call has counts and offsets of what is sent */
    NIGH_COLL_RECV_COUNTS = 16,
};

struct nigh_coll_args {
    int what; /* enum nigh_collective_op */
    unsigned has;
    const void *send;
    void *recv;
    uint64_t count;
    int type, op, root;
    const uint64_t *send_counts, *send_offsets, *recv_counts, *recv_offsets;
};

/* -EINVAL, -ERANGE, -EFAULT, -EOPNOTSUPP, said: this rank cannot call so. */
int nigh_coll_check(struct nigh_call call, const struct nigh_comm *comm, const struct nigh_coll_args *args);

/* As the table takes it. */
struct nigh_collective nigh_coll_make(const struct nigh_comm *comm, const struct nigh_coll_args *args);

/* What others hear of a call that was refused here with `error`, the last error of this thread. */
void nigh_coll_say_refused(struct nigh_call call, struct nigh_comm *comm, const char *arguments, int error);
/* What they get for it: what this rank did wrong is no error of theirs, what befell it is. */
int nigh_coll_error_for_others(int refused);

/* Makes a call, and waits for it: errors are said. */
int nigh_coll_run(struct nigh_call call, struct nigh_comm *comm, const struct nigh_collective *what);

/* Makes a call, and a request of it; or, persistent, only that. *request is written on success. Errors are said. */
int nigh_coll_request(struct nigh_call call, struct nigh_comm *comm, const struct nigh_collective *what,
                      bool persistent, nigh_request *request);
/* A request's operation goes: also what it has of its own. */
void nigh_coll_release(struct nigh_operation *operation);
/* nigh_start(). */
int nigh_coll_restart(struct nigh_call call, struct nigh_operation *operation);

/* ---- texts ---- */

/* "(count 100, NIGH_F32, root 0)": as the call was made. */
struct nigh_sentence nigh_coll_arguments(const struct nigh_coll_args *args);
/* "nigh_iallreduce (count 100, NIGH_F32, NIGH_SUM)": as it went to the table. */
struct nigh_sentence nigh_coll_request_text(const struct nigh_operation *operation);

/* Why a group has ended, out of query_group(): its members are the ranks of `comm`. */
void nigh_coll_end_text(const struct nigh_comm *comm, const char *text, int status, bool by_host, char *out,
                        size_t room);
/* Why `comm` has no collectives any more: comm->lost. May poll. */
struct nigh_sentence nigh_coll_lost_text(struct nigh_comm *comm);

/* "rank 3", "ranks 1, 3 and 2 more", "the others": whom it waits for. Returns `out`. */
const char *nigh_coll_waited_for(const struct nigh_operation *operation, char *out, size_t room);
/* What these do: of time-outs. */
struct nigh_sentence nigh_coll_missing_text(const struct nigh_operation *operation);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/agree.h - what the ranks of a communicator, or some of them, decide together. */
#ifndef NIGH_LIB_AGREE_H
#define NIGH_LIB_AGREE_H

#include "lib/comm.h"

/* Some of the ranks of a communicator, in an order that all of them know. */
struct nigh_members {
    struct nigh_comm *comm;
    const int *ranks; /* in `comm`; NULL: all of them in their order */
    int count, me;    /* `me`: index of this rank */
    uint32_t number;  /* the same at all of them: keeps agreements of different members apart */
};

/* The greatest of all values, at all members. Waits. Errors: those of nigh_control_swap(). */
int nigh_agree_max(struct nigh_call call, const struct nigh_members *members, uint32_t *value);

/* An identifier for a new communicator, that no rank of the members has ever used. Waits. */
int nigh_agree_id(struct nigh_call call, const struct nigh_members *members, uint32_t *id);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/short.h - calls of few bytes, which ride in the members' slots: begun, looked for and taken in a few steps. */
#ifndef NIGH_COLL_SHORT_H
#define NIGH_COLL_SHORT_H

#include "coll/call.h"

/* What follows from the arguments; also whether the call is a short one. Behind its shape. */
void nigh_short_form(struct nigh_call *call);

/* This member's input to its slot, but for the head; its own block of what only moves. */
void nigh_short_show(const struct nigh_call *call, struct nigh_call_slot *slot);
/* Takes the lines of the next call's slot away from the members that read them a round ago, while this call waits. */
void nigh_short_own_next(const struct nigh_call *call);
void nigh_short_copy_own(const struct nigh_call *call);

/* True: all have come, and the result is there. False: not yet, or the call is an ordinary one now. */
bool nigh_short_take(struct nigh_call *call);

#endif

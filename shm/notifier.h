/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/notifier.h - the descriptor of wait_fd(), and the thread that makes it readable. Peers ring the doorbell alone, and never
 * write to a descriptor that another process made: this thread sleeps on the doorbell while the descriptor is armed, and
 * signals it. docs/memory-model.md, "NOTIFY_ARM and NOTIFY_TAKE".
 */
#ifndef NIGH_SHM_NOTIFIER_H
#define NIGH_SHM_NOTIFIER_H

#include "shm/doorbell.h"

struct nigh_notifier;

/* Starts the thread (all signals blocked, named "nigh-notifier"), not armed. `bell` outlives it. -ENOMEM (no room for its
 * stack, or too many threads, included), -EMFILE; logged. */
int nigh_notifier_start(struct nigh_bell *bell, struct nigh_notifier **out);
/* Ends and joins it; bounded. NULL: nothing. */
void nigh_notifier_stop(struct nigh_notifier *notifier);

/* Takes old readiness off and returns the descriptor. -EBADF: the program has closed it, or opened another file under its
 * number (logged once). */
int nigh_notifier_clear(struct nigh_notifier *notifier);
/* From now on the descriptor becomes readable when the bell differs from `seen`, once. Arm it behind the last look, with the
 * bell as it was read before the flag was raised. And when `bound_ns` have passed, UINT64_MAX: never: the owner looks then. */
void nigh_notifier_arm(struct nigh_notifier *notifier, uint32_t seen, uint64_t bound_ns);
/* No more, but for what is under way. */
void nigh_notifier_disarm(struct nigh_notifier *notifier);

#endif

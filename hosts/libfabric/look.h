/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/look.h - who of those that sleep on a counter's descriptor has looked at it since it changed. What a
 * queue has stays there until somebody takes it, and whoever finds nothing may sleep; a count is taken by nobody, and
 * may be what one thread waits for after any number of others have read it. The lock is held throughout.
 */
#ifndef NIGH_LIBFABRIC_LOOK_H
#define NIGH_LIBFABRIC_LOOK_H

#include "hosts/libfabric/provider.h"

/* The calling thread reads what is there now. */
void nigh_fi_look(struct nigh_fi_waiter *waiter);

/* Has the calling thread read what is there now? Where it has not, it is told so once: that it was told counts as a
 * look. False also where that cannot be noted. */
bool nigh_fi_has_looked(struct nigh_fi_waiter *waiter);

/* It may sleep from here on, until it looks again; or it does not sleep, because of something else. */
void nigh_fi_looks_no_more(struct nigh_fi_waiter *waiter);
void nigh_fi_looks_again(struct nigh_fi_waiter *waiter);

/* Is some thread that may sleep still to look at what is there? Not for longer than a second: then it has gone, or
 * it is woken by the waiter's clock. */
bool nigh_fi_is_unseen(struct nigh_fi_waiter *waiter);

void nigh_fi_looks_free(struct nigh_fi_waiter *waiter);

#endif

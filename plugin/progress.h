/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/progress.h - what a pass does: rings are read, waiting sends go on, hints and the sockets
 * of attaching are looked at. */
#ifndef NIGH_PLUGIN_PROGRESS_H
#define NIGH_PLUGIN_PROGRESS_H

#include "plugin/endpoint.h"

/* One pass over whatever may have something. Returns whether anything moved. */
bool nigh_progress(struct nigh_context *context);
/* Looks at every endpoint, not only the hot ones, and brings the counters up to date. */
bool nigh_progress_sweep(struct nigh_context *context);
/* Looks at everything there is: the sockets of attaching too. Costs system calls. */
bool nigh_progress_all(struct nigh_context *context);
/* Puts the endpoint on the list of those whose sends wait. */
void nigh_progress_busy(struct nigh_endpoint *endpoint);
/* Makes the endpoint one that is polled each time. */
void nigh_progress_warm(struct nigh_endpoint *endpoint);
/* A new one: polled each time if there is room for it, else by the hints that it is asked for. */
void nigh_progress_admit(struct nigh_endpoint *endpoint);
void nigh_progress_forget(struct nigh_endpoint *endpoint);
/* All indices are in use: those of peers that have gone, noticed or not, are given back now. */
void nigh_progress_make_room(struct nigh_context *context);
/* What lay in the peer's memory has been received or given back. */
static inline void nigh_progress_unpin(struct nigh_endpoint *endpoint)
{
    if (--endpoint->pins == 0 && endpoint->state >= NIGH_PEER_CLOSED)
        nigh_progress_busy(endpoint);
}

/* Is there something of it that nobody has received, or that was not looked at yet? */
bool nigh_progress_is_unread(const struct nigh_endpoint *endpoint);

#endif

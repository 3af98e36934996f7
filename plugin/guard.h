/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/guard.h - the context's lock, where it may be used by several threads: taken in entry.c,
 * left while one sleeps. */
#ifndef NIGH_PLUGIN_GUARD_H
#define NIGH_PLUGIN_GUARD_H

#include "plugin/endpoint.h"

/* Lets other threads in while this one sleeps. */
void nigh_guard_leave(struct nigh_context *context);
void nigh_guard_enter(struct nigh_context *context);
/* Only that, for a while in which this thread neither sleeps nor has anything to poll. nigh_guard_enter() ends it. */
void nigh_guard_open(struct nigh_context *context);

/* Posts under it, for slots that find one. */
int nigh_guarded_send(struct nigh_endpoint *endpoint, const struct nigh_send *send);
int nigh_guarded_recv(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv);

#endif

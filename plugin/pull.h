/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/pull.h - reading what lies with the sender. */
#ifndef NIGH_PLUGIN_PULL_H
#define NIGH_PLUGIN_PULL_H

#include "plugin/endpoint.h"

void nigh_pull_begin(struct nigh_message *message);
/* Has the sender send it in pieces in place of that. False: it cannot be asked, begin. */
bool nigh_pull_divert(struct nigh_message *message);
/* Continues; true when something moved. */
bool nigh_pull_progress(struct nigh_context *context);
/* The same, with the context's lock open while bytes are copied: other threads come in, and may copy the same message.
 * For those who have nothing half done. */
bool nigh_pull_apart(struct nigh_context *context);
/* Ends one before its time; at once, or, where threads or its sender are copying it, when they are done. */
void nigh_pull_fail(struct nigh_message *message, int status);
/* Cancels the receive, or the get, of one, in the same way; its sender is told that it was received. */
void nigh_pull_cancel(struct nigh_message *message);
/* Behind a copy out of the peer's process: was it that process until now? */
bool nigh_pull_lives(struct nigh_endpoint *endpoint);
/* For close: waits for senders that are in the middle of a slice of what has been ended so; 5 s at
 * most, if one was stopped there. */
void nigh_pull_drain(struct nigh_context *context);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/poll.h - how completions come to the host, and the passes that are made for them. */
#ifndef NIGH_PLUGIN_POLL_H
#define NIGH_PLUGIN_POLL_H

#include "plugin/endpoint.h"

/* The slots poll_completions(), and take_completions(). */
int nigh_poll(struct nigh_context *context, struct nigh_completion *out, uint32_t count);
int nigh_take(struct nigh_context *context, struct nigh_taken *out, uint32_t count);
/* poll_completions() with threads. */
int nigh_poll_shared(struct nigh_context *context, struct nigh_completion *out, uint32_t count);

#endif

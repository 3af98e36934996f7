/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/pulls.h - which messages that lie with their senders have something left to be taken (the context's `pulls`, in
 * the order in which they have come), and which wait for another thread, or for their sender, to copy the rest (`copying`,
 * what has come to it last first).
 */
#ifndef NIGH_PLUGIN_PULLS_H
#define NIGH_PLUGIN_PULLS_H

#include <stdbool.h>

struct nigh_context;
struct nigh_message;

/* A new one. */
void nigh_pulls_add(struct nigh_message *message);
/* There is nothing for us to take any more, or not for now. */
void nigh_pulls_taken(struct nigh_message *message);
/* Something is left after all: it is the first again. */
void nigh_pulls_go_on(struct nigh_message *message);
/* It is in neither any more. */
void nigh_pulls_leave(struct nigh_message *message);

#endif

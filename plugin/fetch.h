/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/fetch.h - messages that lie with their senders, but are to be over unreceived as eager ones are (NIGH_F_EARLY).
 * One that has no receive after a while is fetched into private memory, so that two ranks that both send before either
 * receives go on. The while: who receives one behind the other posts the next receive soon, and it is copied once then.
 */
#ifndef NIGH_PLUGIN_FETCH_H
#define NIGH_PLUGIN_FETCH_H

#include <stdbool.h>

/* For so long one waits for its receive where it lies. A receiver that is there takes some us from one to the next; who
 * is not lets its sender wait, who would have gone on. config.fetch_ns. */
#define NIGH_FETCH_NS 50000u

/* Longer ones wait for their receive, or go in chunks if they may not. */
#define NIGH_FETCH_MAX (UINT64_C(1) << 20)

struct nigh_context;
struct nigh_message;

/* It has come and has no receive; claimed or not. */
void nigh_fetch_later(struct nigh_message *message);
/* It is freed. */
void nigh_fetch_forget(struct nigh_message *message);
/* Those whose time has come, the oldest first; a pass. True: some were fetched, or are left, so nobody may sleep, nor say
 * that it has nothing to do. */
bool nigh_fetch_progress(struct nigh_context *context);

#endif

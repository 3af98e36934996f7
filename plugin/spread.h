/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/spread.h - long messages that a rank sends to several peers at a time where ranks run in turns: what all of them
 * write is more than the caches hold before the first of it is read. Where the CPU is better off with one copy, they are
 * read where they lie (docs/rationale/crowd-large.md has the figures).
 */
#ifndef NIGH_PLUGIN_SPREAD_H
#define NIGH_PLUGIN_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

struct nigh_context;
struct nigh_endpoint;
struct nigh_send_op;

struct nigh_spread {
    uint32_t peers; /* to which long messages are under way */
    bool several;   /* since there was none, there was a time with two */
    bool before;    /* the same of the time before */
    /* Those that may be over before they are received: nothing of them is under way behind their posts, so they are counted
     * from one look of the host's at completions to the next. */
    const struct nigh_endpoint *burst_last;
    uint64_t burst; /* what the host had been told of when it began, + 1 */
    uint32_t burst_peers, burst_peers_before;
};

/* A message is under way, until nigh_spread_end() at its operation's end. */
void nigh_spread_begin(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
void nigh_spread_end(struct nigh_endpoint *endpoint, struct nigh_send_op *op);

/* Does it stay where it lies, for its receiver to read? It is one of several peers', or of a swap, or is expected to be. */
bool nigh_spread_in_place(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op);

/* Is one of up to NIGH_EAGER bytes that may wait for its receiver, one of several peers', read where it lies? If its
 * receiver has mapped it, it takes one copy there, and two else. Whatever it answers of a send, it does again. */
bool nigh_spread_early(struct nigh_endpoint *endpoint, const void *buffer, uint64_t bytes);

#endif

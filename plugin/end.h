/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/end.h - why an endpoint has ended, or is not connected yet: kept when it is decided, put in words when asked. */
#ifndef NIGH_PLUGIN_END_H
#define NIGH_PLUGIN_END_H

#include "nigh/transport.h"
#include "shm/rendezvous.h"

struct nigh_endpoint;

struct nigh_end {
    enum nigh_reason reason; /* 0: it has not ended */
    int error;               /* negative errno behind it, 0: none */
    bool there;
    int pid; /* of the other side, 0: not known */
    uint64_t value;
    const char *why; /* BROKEN: what it did; static */
};

/* A refusal as the rendezvous tells it. */
struct nigh_end nigh_end_of(const struct nigh_refusal *why);

/* Is it known already? Otherwise keeps it. */
void nigh_end_set(struct nigh_endpoint *endpoint, const struct nigh_end *end);

/* What stands in the way of a connection that was refused or is not made yet, what has ended one; "" of one that is
 * READY. At most NIGH_END_BYTES. */
void nigh_end_text(const struct nigh_endpoint *endpoint, char *text);

/* Answers NIGH_QUERY_END. */
void nigh_end_query(const struct nigh_endpoint *endpoint, struct nigh_query_end *out);

#endif

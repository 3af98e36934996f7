/* SPDX-License-Identifier: BSD-3-Clause */
/* What other transports reach on the same machine, at the same moment, doing the same thing (--compare). It
 * is a seam: nigh-perf's own tests know nothing of MPI or UCX, and a peer knows nothing of nigh. */
#ifndef NIGH_PERF_PEERS_H
#define NIGH_PERF_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a peer is asked to do: the same as nigh in the row that it is compared with. */
struct perf_case {
    const char *test; /* "latency", "rate", "bandwidth", "overlap", ... */
    uint64_t bytes;
    uint32_t ranks;
    uint32_t window;  /* messages in flight: rate and bandwidth */
    bool stale;       /* send the same bytes for ever; else each message is rewritten before it is sent */
    double seconds;   /* time to spend */
    const int *cpus;  /* CPU of each rank, `ranks` of them */
    const char *unit; /* what *value is to be given in: "ns", "GB/s", "M/s", "%", "bytes" */
};

/* Names for --compare, static storage; returns how many, at most `max` written. Does not say that they are
 * installed. */
size_t perf_peer_names(const char **names, size_t max);

/*
 * Runs `peer` on the case in processes of its own and waits for them; from one thread. On success *value is
 * the median in c->unit. Errors: -ENOENT no such name; -ENOSYS the peer is not installed; -EOPNOTSUPP it has
 * no such test; -EIO it ran and failed (what it said went to stderr); -ETIMEDOUT.
 */
int perf_peer_measure(const char *peer, const struct perf_case *c, double *value);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What other transports reach on the same machine, at the same moment, doing the same thing (--compare). It
 * is a seam: nigh-perf's own tests know nothing of MPI or UCX, and a peer knows nothing of nigh. A peer's
 * processes are started once and then do one short round at a time, so that its rounds can alternate with
 * nigh's; between rounds all of them sleep in a system call. */
#ifndef NIGH_PERF_PEERS_H
#define NIGH_PERF_PEERS_H

#include "tools/perf/operations.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_WHY_BYTES 1024

/* What a peer is asked to do: the same as nigh in the row that it is compared with.
 *
 *   latency    half a round trip of blocking calls. Up to 1 KiB a message is rewritten and checked within the
 *              timed part (16 round trips to a sample); above, each round trip is a sample: both ranks rewrite
 *              their message, meet, and check after the clock has stopped.
 *   rate       windows of non-blocking calls back to back, one empty message back after 16 windows.
 *   bandwidth  one window of distinct buffers, all rewritten before the clock starts, all receives posted
 *              before it starts, one empty message back at its end.
 *   sends      the same, but each is sent by a blocking call when the one before is over, and received so.
 *   the names of perf_operation(), bcast (broadcast), bcast+barrier (one behind the other)
 *              root 0; `bytes` of a block. By `how`:
 *              USUAL    up to 1 KiB 32 calls in a row to a sample, with writing and checking, and with a barrier behind
 *                       those whose root the others need not wait for. Above, and every broadcast: as BARRIER.
 *              ROW      `window` buffers are written, then come a barrier and a call on each of them.
 *              BARRIER  each call follows a barrier. Of both, the time of the rank that returns last.
 *              OVERLAP  percent of the time of a call of rank 0 that was hidden behind computing.
 */
struct perf_case {
    const char *test; /* one of the above */
    uint64_t bytes;   /* a multiple of 8 */
    uint32_t ranks;   /* 2 for latency, rate and bandwidth */
    uint32_t
        window; /* messages in flight: rate and bandwidth; calls of ROW; at most 256. 2 MiB in all is a good choice */
    enum perf_how how; /* collectives */
    bool stale;        /* send the same bytes for ever; else each message is rewritten before it is sent */
    double seconds;    /* time to spend */
    const int *cpus;   /* CPU of each rank, `ranks` of them; NULL: not pinned */
    const char *cuda;  /* sides on devices (cuda_sides.h): latency and bandwidth; NULL: memory of the host */
    const char *unit;  /* what values are to be given in: "ns", "us", "GB/s", "M/s", "%"; NULL: "ns" */
    /* Round trips, windows or calls that are timed, and those before them that are not. Both 0: as many as take about
     * `seconds`, an eighth of them before. */
    uint32_t count, warm;
};

/* The names of the collectives of the test `collective`; ends with NULL. */
extern const char *const perf_peer_collectives[];

/* One round of one peer. */
struct perf_peer_round {
    double value;          /* median of the samples in c->unit */
    double p50, p99, best; /* nanoseconds of one operation: one way, one window, one call; OVERLAP: percent */
    double handoff_before; /* L in ns between ranks 0 and 1 of the peer, before the round */
    double handoff_after;  /* and after it */
    uint64_t samples;      /* at least 1 */
};

/* Processes of one peer, all asleep unless a round runs. Used by one thread. After a fork the child may run
 * rounds (one of the two at a time), but only the process that opened the peer closes it. */
struct perf_peer;

/* Names for --compare, static storage; returns how many, at most `max` written. Does not say that they are
 * installed. "all" is not among them: it means every name of this list. */
size_t perf_peer_names(const char **names, size_t max);

/*
 * Behind a name: another job of the same peer. NAME:again is one that is the same, so what the two differ by is noise;
 * NAME:VARIABLE=VALUE[:VARIABLE=VALUE...] one with these variables in its ranks' environment, behind and over what
 * nigh-perf sets itself. Returns what stands behind the first ':', NULL where that is neither.
 */
const char *perf_peer_variant(const char *name);

/* 0 when the peer is installed; -ENOENT no such name, -ENOSYS not installed. On error `why` (of `room`
 * bytes) holds one line: what is missing and how to install it. */
int perf_peer_installed(const char *name, char *why, size_t room);

/*
 * Compiles the peer's program where that was not done before (some seconds) and starts c->ranks processes on
 * c->cpus with buffers as c->cuda says; of the case only these are read. Blocks until all ranks have reported, for 60 s at most. On
 * success *out belongs to the caller until perf_peer_close(). On error `why` says in a few lines what was
 * wrong, with the end of what the peer printed, and nothing is left running. Errors: -ENOENT no such name;
 * -ENOSYS not installed; -EOPNOTSUPP it takes no such buffers; -EINVAL ranks; -EIO it could not be compiled or started; -ETIMEDOUT; -ENOMEM.
 */
int perf_peer_open(const char *name, const struct perf_case *c, struct perf_peer **out, char *why,
                   size_t room);

/*
 * One round of c->count repetitions, or of about c->seconds, of which L takes 0.1 to 0.6 ms: 2 to 5 ms are a good
 * choice, and before the first round of such a case some more are run, to find out how much work that is. The ranks of
 * the case must be those of open. Blocks, at most 10 s and 20 times c->seconds. Errors: -EINVAL the case; -EOPNOTSUPP
 * the peer has no such test (UCX has no collectives), it can go on; -EIO a rank failed or died; -ETIMEDOUT. After the
 * last two the peer has been ended, perf_peer_said() tells what it printed, and it can only be closed.
 */
int perf_peer_round(struct perf_peer *peer, const struct perf_case *c, struct perf_peer_round *out);

/* Valid until close. The version as the peer itself tells it; the command that it was started with; the
 * end of what its processes printed, "" when that is nothing. */
const char *perf_peer_version(const struct perf_peer *peer);
const char *perf_peer_command(const struct perf_peer *peer);
const char *perf_peer_said(struct perf_peer *peer);

/* Ends the processes, by pid where they do not end by themselves within 5 s, and frees the peer. NULL is
 * allowed. No process and no file of the peer is left. */
void perf_peer_close(struct perf_peer *peer);

/*
 * open, rounds for c->seconds, close. On success *value is the median in c->unit. Errors: as open and round;
 * what went wrong has been printed on stderr.
 */
int perf_peer_measure(const char *peer, const struct perf_case *c, double *value);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What one rank of a peer (an MPI, UCX) needs besides the peer itself: options, pinning, the page that the
 * ranks share, the cache-line handoff, order statistics and the control socket. It is compiled together with
 * peer_mpi.c or peer_ucx.c by the peer's own compiler, so it includes nothing of nigh but operations.h and work.h. */
#ifndef NIGH_TOOLS_PERF_PEER_RANK_H
#define NIGH_TOOLS_PERF_PEER_RANK_H

#include "tools/perf/operations.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PEER_READY       'r'
#define PEER_LINE        64
#define PEER_SAMPLES_MAX 4096
#define PEER_RANKS_MAX   256

/* One round: `iterations` operations of one kind, timed in at most PEER_SAMPLES_MAX samples. */
struct peer_case {
    char test[16];       /* latency, rate, bandwidth, or a collective (peers.h) */
    uint64_t bytes;      /* of one message, or of the vector of a collective */
    uint32_t window;     /* messages in flight: rate and bandwidth; collective calls in a row */
    uint32_t how;        /* enum perf_how: collectives */
    uint32_t stale;      /* 1: the sender's buffers are written once and never again */
    uint64_t iterations; /* round trips, windows or collective calls */
    uint64_t warm;       /* of them that come before and are not timed */
};

/* Times in nanoseconds, of one operation: one way, one window (rate, bandwidth), one collective call. */
struct peer_result {
    double p50, p99, best;
    double handoff_before, handoff_after; /* of a cache line, one way, measured between ranks 0 and 1 */
    uint64_t samples;
    uint64_t took; /* the whole round */
};

/* The pages that the ranks share. A rank writes only its own spent[] row; the two lines of the handoff have
 * one writer each; `turn` is written by rank 0. */
struct peer_shared {
    _Alignas(PEER_LINE) _Atomic uint64_t ping;
    _Alignas(PEER_LINE) _Atomic uint64_t pong;
    _Alignas(PEER_LINE) _Atomic uint32_t turn;
    _Alignas(PEER_LINE) uint64_t spent[][PEER_SAMPLES_MAX];
};

/* A rank. The peer fills what the second half names before it calls peer_rank_main. */
struct peer_rank {
    int rank, ranks;
    struct peer_shared *shared;
    uint64_t handoffs, turns; /* handoffs and turns done so far: equal on every rank */
    double tick_ns;           /* nanoseconds of one tick of peer_ticks */
    const char *name;         /* the peer, as --compare knows it */
    const char *version;      /* one line, as the peer tells it */
    /* Runs the rounds of `c` on this rank; durations of rank 0 go to `samples` in nanoseconds. Returns how
     * many samples there are, or a negative number after having said on stderr what failed. */
    int (*run)(struct peer_rank *self, const struct peer_case *c, double *samples);
    /* Gives rank 0's bytes to all ranks: what is run by hand, and steps of computing. */
    void (*share)(struct peer_rank *self, void *bytes, size_t size);
};

/* What the command line says. */
struct peer_options {
    const char *control; /* abstract name of the socket to obey; NULL: run by hand */
    const char *cpus;    /* "2,3": rank r runs on the (r modulo count)-th; NULL: not pinned */
    const char *name;
    const char *tests; /* by hand: "latency:8,bandwidth:4096"; NULL: the usual ones */
    int rounds;        /* by hand */
    int ranks;         /* only where the peer has no launcher */
    const char *cuda;  /* sides on devices (peer_device.h); NULL: the host's */
    int stale;
};

/* `PROGRAM --launch COMMAND...`: runs COMMAND, watches over all that it starts, ends them all when standard
 * input brings "k" or ends, or the command ends. "r" there says that all ranks are up. Returns the
 * exit status. Call it first in main. */
int peer_launch(char **command);

/* Reads the command line. Returns 0, or -1 after having printed what is wrong. */
int peer_options_read(struct peer_options *options, int argc, char **argv);

/* Pins the calling process as rank `rank`. Returns 0, or -1 after having printed what is wrong. */
int peer_pin(const struct peer_options *options, int rank);

/* The rank that the launcher of any of the peers gave this process, or -1: known before MPI_Init, so that
 * memory that the peer touches while it starts is touched from the right CPU. */
int peer_rank_from_environment(void);

/* Bytes of the shared pages for so many ranks. */
size_t peer_shared_size(int ranks);

/* A new memfd of that size, or -1. */
int peer_shared_create(int ranks);

/* Maps the descriptor; NULL on failure. */
struct peer_shared *peer_shared_map(int fd, int ranks);

/* What was asked for this peer cannot do: tells nigh-perf, or, by hand, says on stderr what `why` is. Returns 2. */
int peer_cannot(const struct peer_options *options, const char *why);

/* Says on stderr what is wrong with the command line, and its form. Returns -1. */
int peer_wrong(const char *what, const char *value);

/* The value below which a part `q` (0 to 1) of them lies. Sorts them. */
double peer_quantile(double *values, int count, double q);

/* Ranks 0 and 1 have both come here. */
void peer_meet(struct peer_rank *self);

/* One round with L before and after it; called by all ranks. Only rank 0's *result is filled completely. Returns
 * 0, or -1 after having said on stderr what failed. */
int peer_round(struct peer_rank *self, const struct peer_case *c, struct peer_result *result);

/* Runs the cases of the command line and prints them as JSON. Returns the exit status. */
int peer_by_hand(struct peer_rank *self, const struct peer_options *options);

/* Obeys the control socket, or runs the cases of the command line. Returns the exit status. */
int peer_rank_main(struct peer_rank *self, const struct peer_options *options);

/* A clock that costs little to read. Not comparable between ranks. */
static inline uint64_t peer_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    extern uint64_t peer_clock_ns(void);
    return peer_clock_ns();
#endif
}

uint64_t peer_clock_ns(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the machine allows with no protocol at all. Ranks 0 and 1 work, the others look on; each piece may run next to
 * a transport's test as its floor (struct perf_piece.run). All of them check the data that they move. */
#ifndef NIGH_PERF_FLOORS_H
#define NIGH_PERF_FLOORS_H

#include "shm/copy.h"
#include "tools/perf/job.h"

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Which line of perf_shared does what. */
enum perf_line_use {
    PERF_LINE_HANDOFF = 16, /* and the next three */
    PERF_LINE_RATE = 2,     /* credits of the line stream */
    PERF_LINE_SYNC = 3,     /* and the next one: perf_pair_sync() */
    PERF_LINE_DONE = 5,
    PERF_LINE_PIPE = 6, /* and the next one: credits of the pipes */
    PERF_LINE_YIELD = 8,
    PERF_LINE_WAKE = 9,    /* and the next two */
    PERF_LINE_HEAP = 12,   /* and the next one */
    PERF_LINE_COUNT = 14,  /* and the next one: pieces in a shuttle */
    PERF_LINE_HALVES = 20, /* and the next one, as of the following: how far each has come */
    PERF_LINE_FROM = 22,   /* addresses of its buffers */
    PERF_LINE_TO = 24,
    PERF_LINE_MAY = 26,      /* may it read and write the other's? */
    PERF_LINE_EXCHANGE = 28, /* and the next one: what each has written */
    PERF_LINE_SLOTS = 32,    /* and the next three: pieces put into slots and taken out, from either rank */
    PERF_LINE_ASK = 36,      /* gets through slots */
};

/* Parts of the job's scratch memory; a job with floors asks for PERF_SCRATCH(bytes of its messages in flight). */
#define PERF_SCRATCH_RING   (UINT64_C(1) << 20)
#define PERF_SCRATCH_ARENA  (UINT64_C(9) << 20)
#define PERF_SCRATCH(bytes) (PERF_SCRATCH_RING + 2 * PERF_SCRATCH_ARENA + 3 * ((bytes) + 4096))

/* Both of ranks 0 and 1 have come here. About 2 L. */
void perf_pair_sync(struct perf_rank *me);

/* ---- L: one way of one cache line, ns ---- */

/* Each rank writes a line of its own and spins on the other's. */
double perf_handoff_load(struct perf_rank *me, void *arg, uint32_t count);
double perf_handoff_cas(struct perf_rank *me, void *arg, uint32_t count);

/* Both write the same line: faster, but not between processes that may only read each other's memory. */
double perf_handoff_shared_load(struct perf_rank *me, void *arg, uint32_t count);
double perf_handoff_shared_cas(struct perf_rank *me, void *arg, uint32_t count);

/* L itself: the better of load and cas, each rank writing its own line. */
double perf_handoff_probe(struct perf_rank *me, uint32_t count);

/* ---- R: lines per microsecond (M/s) from one core to the other, flow control included ---- */

struct perf_rate_kind {
    uint32_t lines;    /* of the ring, a power of two */
    uint32_t prefetch; /* lines that the producer takes ahead, 0: none */
};
double perf_line_rate(struct perf_rank *me, void *kind, uint32_t count);

/* ---- messages through a bare ring of slots, one way, ns ---- */

#define PERF_RING_BYTES 1024u
#define PERF_RING_KINDS 3u

struct perf_ring_kind {
    const char *name;
    size_t bytes; /* of payload, written before and checked behind each way; at most PERF_RING_BYTES */
    bool ahead;   /* who waits asks for the body before it comes */
    bool own;     /* who has sent takes the lines of the next body */
};
double perf_ring_oneway(struct perf_rank *me, void *kind, uint32_t count);

/* The kinds that are worth a try for messages of `bytes`. Returns how many; 0: too long for a ring. */
uint32_t perf_ring_kinds(size_t bytes, struct perf_ring_kind out[PERF_RING_KINDS]);

/* ---- copies, GB/s; messages of `bytes` ---- */

struct perf_copy_kind {
    size_t bytes;
    uint8_t *private_from, *private_to; /* of this rank; bytes each */
};
double perf_copy_one(struct perf_rank *me, void *kind, uint32_t count);  /* one core, its own memory */
double perf_copy_both(struct perf_rank *me, void *kind, uint32_t count); /* each core copies half */
double perf_copy_vm(struct perf_rank *me, void *kind, uint32_t count); /* process_vm_readv by the receiver */

/* All of it, by process_vm_readv or process_vm_writev. 0 or -errno. */
typedef ssize_t (*perf_vm_fn)(pid_t pid, const struct iovec *local, unsigned long locals,
                              const struct iovec *remote, unsigned long remotes, unsigned long flags);
int perf_vm_move(perf_vm_fn call, pid_t pid, uint8_t *local, uint64_t remote, size_t bytes);

/* 1 when process_vm_readv between two ranks is allowed here; else 0, and *why says so (static storage). */
int perf_copy_vm_allowed(const char **why);

/* ---- half by each side, straight from one process to the other ---- */

#define PERF_HALVES_CALL 4u

struct perf_pipe_load;
struct perf_halves {
    uint32_t
        whole; /* messages in a call, up to PERF_HALVES_CALL, of which each side has half; 0: half of each message */
    const struct perf_pipe_load *load;
    uint64_t peer_from, peer_to; /* addresses in process `pid` */
    pid_t pid;
};

/* In all ranks. False, in all of them: ranks 0 and 1 may not read and write each other's memory here. */
bool perf_halves_open(struct perf_rank *me, const struct perf_pipe_load *load, uint32_t whole,
                      struct perf_halves *halves);
double perf_halves_stream(struct perf_rank *me, void *halves, uint32_t count); /* windows, GB/s */
double perf_halves_oneway(struct perf_rank *me, void *halves, uint32_t count); /* ns */

/* ---- an exchange: each of two ranks copies what the other has just written in shared memory, ns ---- */

#define PERF_EXCHANGE_KINDS 3u

struct perf_exchange {
    size_t bytes;    /* of what each gets */
    uint8_t *to;     /* this rank's private memory */
    uint8_t *shared; /* perf_exchange_scratch(bytes), zero at first, the same place in both */
    const char *name;
    nigh_copy_fn copy; /* name and copy: by perf_exchange_kinds() */
};

size_t perf_exchange_scratch(size_t bytes);
double perf_exchange(struct perf_rank *me, void *kind, uint32_t count);

/* The kinds that are worth a try for messages of `bytes`, with the memory of `like`. Returns how many. */
uint32_t perf_exchange_kinds(const struct perf_exchange *like, struct perf_exchange out[PERF_EXCHANGE_KINDS]);

/* ---- how much of a copy another core hides behind computing, percent ---- */

#define PERF_HIDDEN_KINDS 4u

struct perf_hidden_kind {
    size_t bytes;      /* of the message */
    uint32_t work;     /* computing takes so many times as long as rank 0's own copy */
    int cpu;           /* of the thread that copies */
    uint8_t *to;       /* rank 0's private memory */
    const char *name;  /* the rest: by perf_hidden_kinds() */
    nigh_copy_fn copy; /* of that thread */
    bool both;         /* rank 0 comes and helps when it has computed */
};

/* A piece. Counted as the test of the same name counts: the copy, by rank 0 itself, and the work,
 * each alone, and together. */
double perf_hidden(struct perf_rank *me, void *kind, uint32_t count);

/* Where the thread of NIGH_PROGRESS=thread of rank 0 runs: a CPU that no rank has. -1: there is
 * none. The same in all ranks. */
int perf_hidden_cpu(const struct perf_rank *me);

/* The kinds that are worth a try, with the bytes, work, cpu and to of `like`. Returns how many. */
uint32_t perf_hidden_kinds(const struct perf_hidden_kind *like,
                           struct perf_hidden_kind out[PERF_HIDDEN_KINDS]);

/* ---- between processes on one core, and asleep, ns ---- */

double perf_yield_switch(struct perf_rank *me, void *arg, uint32_t count); /* one way, by sched_yield */
double perf_futex_wake(struct perf_rank *me, void *arg,
                       uint32_t count); /* a sleeper on another core, L not included */

#define PERF_SLEEP_NS 500000.0

/* Spins while the other rank falls asleep. */
void perf_let_sleep(void);

#endif

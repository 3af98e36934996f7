/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/options.h - the options of a context, from the host and from the environment, checked and complete. */
#ifndef NIGH_PLUGIN_OPTIONS_H
#define NIGH_PLUGIN_OPTIONS_H

#include "nigh/transport.h"
#include "shm/tune.h"
#include "shm/where.h"
#include <stdbool.h>

/*
 * Slots of a busy pair's ring where ranks share CPUs, a megabyte for each of 32 ranks at most. Senders run ahead of a
 * receiver that waits for its turn, and who finds the ring full gives its own away: 8 ranks on 2 CPUs, gathers of 1 KiB
 * in a row take 0.6 of what they take with 128 slots. A pair with a CPU each is slower with more than its L1 holds.
 */
#define NIGH_RING_CROWDED       512u
#define NIGH_RING_CROWDED_RANKS 32u

struct nigh_config {
    uint64_t job;     /* as host or launcher name it: for people */
    uint64_t meeting; /* the id under which this life of it meets */
    uint32_t rank, ranks, peers_max;
    uint64_t heap_bytes, pool_bytes;
    uint64_t span_bytes; /* chunks in rotation */
    uint32_t ring_slots, eager_bytes, body_bytes;
    uint64_t heap_from;  /* heap sends of at least this go by reference */
    uint64_t place_from; /* in a crowd sends of at least this are copied once; others: spread.c, swap.h */
    uint64_t beside_from,
        beside_row_from;        /* out of a crowd half of such a send is copied by each side: beside.h */
    uint64_t away_ns, fetch_ns; /* of those of up to eager_bytes: beside.h, fetch.h */
    uint64_t spin_ns;
    bool ring_by_load; /* nobody said how long: NIGH_RING_CROWDED while there are more ranks than CPUs */
    bool span_by_load; /* nobody said how wide: less while there are more ranks than CPUs */
    bool spin_by_load; /* nobody said how long: not at all while there are more ranks than CPUs */
    int path;          /* enum nigh_path, or -1: choose */
    bool threads, wait_fd, huge;
    bool cuda;          /* memory of CUDA devices may be registered */
    bool cuda_required; /* and is not staged through the host: device_way.h */
    int log_level;
    enum nigh_level domains;
    bool is_placed; /* `where` is the user's */
    struct nigh_where where;
    char directory[108]; /* "" = abstract names */
    struct nigh_tune tune;
};

/* Where variables come from; tests bring their own. */
struct nigh_environment {
    const char *(*get)(void *data, const char *name); /* NULL: not set */
    void *data;
};

/* Fills `out` from options and environment (NULL: the process'). -EINVAL (logged: name, value, limit), -ENOENT (DETECT
 * found nothing), -ENAMETOOLONG. */
int nigh_config_read(const struct nigh_open *options, const struct nigh_environment *environment,
                     struct nigh_config *out);

/* All variables, a line each: for the table's config_help. */
extern const char nigh_config_help[];

#endif

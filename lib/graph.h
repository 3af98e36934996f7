/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/graph.h - who waits for whom, from the status lines, and what follows for this rank. It is a guess until
 * lib/stall.c has proved that nothing is under way among those that it names.
 */
#ifndef NIGH_LIB_GRAPH_H
#define NIGH_LIB_GRAPH_H

#include "lib/line.h"

/* What is to be expected for this rank's wait. */
enum nigh_fate {
    NIGH_FATE_OPEN = 1, /* somebody can still act: or that cannot be ruled out */
    NIGH_FATE_CIRCLE,   /* this rank and others wait for each other */
    NIGH_FATE_DESERTED, /* whoever it waits for has left or is leaving */
};

struct nigh_vertex {
    int rank;
    enum nigh_doing doing;
    struct nigh_note note;
    bool stuck;   /* none of those that could end its wait can */
    bool reaches; /* this rank, through others that are stuck */
    bool witness; /* part of the circle; or one that has left */
};

struct nigh_graph {
    struct nigh_block *block;     /* of this rank */
    struct nigh_vertex *vertices; /* [0] is this rank */
    int count, room;
    int *index;        /* by rank: 1 + place among the vertices; 0: not looked at */
    uint64_t after_ns; /* waits that end by then are no reason to be stuck */
    uint64_t until;    /* how long may be waited for ranks that have not been met */
    bool incomplete;   /* one of them did not answer in time */
};

/* Reads lines, as many as needed. Waits that end by `after_ns` are taken for going on; UINT64_MAX: all that end.
 * -ENOMEM. To be closed in any case. */
int nigh_graph_open(struct nigh_graph *graph, struct nigh_block *block, uint64_t after_ns);
void nigh_graph_close(struct nigh_graph *graph);

/* Marks the witnesses of what it returns. */
enum nigh_fate nigh_graph_judge(struct nigh_graph *graph);

#endif

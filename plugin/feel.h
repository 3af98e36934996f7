/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/feel.h - what handing over a line costs now, felt by reading a word that the peer has just written: about half
 * a handoff. That is how a pair notices at once, in either direction, that its CPUs have come to lie on one L3 or on
 * two. Figures alone do not show it: copies past the cache cost the same in both. When it is asked: plan.c.
 */
#ifndef NIGH_PLUGIN_FEEL_H
#define NIGH_PLUGIN_FEEL_H

#include <stdint.h>

#define NIGH_FELT 5u

struct nigh_feel {
    uint64_t opened_ns, opened; /* clock and counter when the endpoint was opened */
    uint64_t cost;              /* of looking at the counter twice */
    float tick_ns;              /* 0: not known yet */
    float felt[NIGH_FELT];      /* what reading a word of the peer's cost lately, ns */
    uint32_t count;
    uint32_t waited;   /* short messages since it was asked for */
    uint32_t watched;  /* looks at what is timed */
    uint32_t reclaims; /* looks for chunks that have been read */
    uint32_t bytes;    /* of long messages since it was felt behind one of their pieces */
    uint64_t at;       /* how far the peer had read at the last look */
};

void nigh_feel_open(struct nigh_feel *feel);

/* One feeling more: the ticks of the CPU's counter that reading a new word took. What a handoff costs, ns, behind every
 * NIGH_FELT that were one; 0 otherwise. */
float nigh_feel_take(struct nigh_feel *feel, uint64_t ticks);

#endif

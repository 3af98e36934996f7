/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/idle.h - what to do when a queue is empty. MPIs differ: some come back at once and never let go of the
 * CPU, even where more ranks than CPUs wait for it; others give it away after each empty look, which costs several times
 * what a message takes. So a queue that is found empty gives the CPU away where the machine is crowded, and looks on for
 * as long as the host's detours take where it is not.
 */
#ifndef NIGH_LIBFABRIC_IDLE_H
#define NIGH_LIBFABRIC_IDLE_H

#include <stdbool.h>
#include <stdint.h>

struct nigh_fi_ep;

struct nigh_fi_idle {
    uint32_t empty;    /* looks in a row that found nothing */
    uint32_t votes;    /* for hosts that make detours: the more, the surer */
    uint32_t spin_ns;  /* how long to look on; 0: not */
    uint32_t missed;   /* spins in a row that found nothing */
    uint32_t ask_in;   /* empty looks until it is asked again whether it is crowded */
    bool crowded;      /* more ranks than CPUs, when it was last asked */
    uint64_t tight_ns; /* crowded: when it was last looked at how fast the host comes back */
    uint64_t left_ns;  /* when the host was sent away; 0: not noted */
};

uint64_t nigh_fi_now(void);

/* The host is back: how long was it away? */
void nigh_fi_idle_back(struct nigh_fi_idle *idle);

/* Nothing was there. True: look again until nigh_fi_idle_more() says no. */
bool nigh_fi_idle_wait(struct nigh_fi_idle *idle, const struct nigh_fi_ep *ep);

/* May one look again, since `start`? */
static inline bool nigh_fi_idle_more(const struct nigh_fi_idle *idle, uint64_t start)
{
    return nigh_fi_now() - start < idle->spin_ns;
}

/* Something was found, or not, after looking on. */
void nigh_fi_idle_result(struct nigh_fi_idle *idle, bool found);

#endif

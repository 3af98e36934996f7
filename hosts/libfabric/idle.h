/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/idle.h - what to do when a queue is empty. MPIs differ: some come back at once and never let go of
 * the CPU, even where more ranks than CPUs wait for it; others give it away after each empty look, which costs several
 * times what a message takes. So a queue that is found empty gives the CPU away where the machine is crowded, and looks
 * on for as long as the host's detours take where it is not.
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
    uint32_t strays;   /* reads until the host is again taken for one that reads until there is nothing */
    bool drained;      /* the last read took all that there was, and nothing was asked since */
    bool crowded;      /* more ranks, or threads that read queues, than CPUs, when it was last asked */
    uint32_t spins;    /* crowded: the more, the surer that the host looks on and on without yielding */
    uint64_t tight_ns; /* crowded: when the looks began whose time tells that */
    uint64_t left_ns;  /* when the host was sent away; 0: not noted */
};

/*
 * Looks more that a read takes when it and the one before found nothing. What a host does between two reads takes as
 * long as eight looks, and meanwhile nothing is noticed. 8 bytes one way with none, 4 and 12 of them: 132 to 143, 128
 * to 132, 130 ns over Open MPI 5; 117, 114, 120 over Intel MPI.
 */
#define NIGH_FI_LOOKS 4

/*
 * The same for hosts that read once, in every read: they come back from any of them by their whole way round. 8 bytes
 * one way over Open MPI 5, in turn within one job, less than the 160 to 170 ns of 1 look behind a completion and 5 in
 * later reads: with 5 in all 3 ns, with 13 3 to 5, with 33 3 to 6.
 */
#define NIGH_FI_LOOKS_ONCE 16

/* Reads in a row after which nothing is expected in a queue any more: hosts have queues that they
 * read and never use. */
#define NIGH_FI_FORLORN 4096u

/* Reads behind a completion that are looks again once something was posted before one: see
 * nigh_fi_idle_is_drained(). */
#define NIGH_FI_STRAYS 64u

uint64_t nigh_fi_now(void);

/*
 * The read behind a completion. Open MPI 4 reads on until there is nothing, and holds the completion back
 * meanwhile: this one read needs no look, the next gets one. Other hosts read once and go on with what has come;
 * for them an answer without a look is a message seen one round late, and where they yield when there is nothing, a
 * change of the process for each message (Open MPI 5, 8 ranks on 2 CPUs: barrier 34 in place of 15 us). They are
 * known by posting between the two reads.
 */
static inline bool nigh_fi_idle_is_drained(struct nigh_fi_idle *idle, bool posted)
{
    idle->drained = false;
    if (posted)
        idle->strays = NIGH_FI_STRAYS;
    else if (idle->strays > 0)
        idle->strays--;
    return idle->strays == 0;
}

/* Looks that a read may take until it finds something. */
static inline uint32_t nigh_fi_idle_looks(const struct nigh_fi_idle *idle)
{
    if (idle->crowded || idle->empty >= NIGH_FI_FORLORN)
        return 1;
    if (idle->strays > 0)
        return 1 + NIGH_FI_LOOKS_ONCE;
    return idle->empty == 0 ? 1 : 1 + NIGH_FI_LOOKS;
}

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

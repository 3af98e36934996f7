/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/idle.c - see idle.h. */
#include "hosts/libfabric/idle.h"
#include "hosts/libfabric/pollers.h"
#include "hosts/libfabric/provider.h"

#include <sched.h>
#include <time.h>

#define ASK_EVERY   1024u /* empty looks between two questions whether it is crowded */
#define YIELD_EVERY 32u   /* empty looks between two questions whether the host yields */
#define TIGHT_LOOKS 2u    /* the last of them, whose time tells */
#define TIGHT_NS    250u  /* looks that come faster are of a host that does not */
/* Where that was seen lately. 8 ranks on 2 CPUs of an Emerald Rapids, Open MPI's allgathers by doubling of 32 to 256 KiB:
 * 0.86 to 0.97 of what they take with 32; 8 do the same. Asked so of everybody, 8 bytes take 1.02. */
#define YIELD_SOON 4u
#define SPINS_STEP 2u
#define SPINS_MAX \
    32u /* so many questions in a row find a host that yields until it is forgotten that it spun */
#define NOTE_EVERY \
    16u /* empty looks between two notes of the time, while the host seems to come right back */
#define VOTES_MAX 8u
#define VOTES_FOR 4u
#define SHORT_NS  300u /* whoever is away for less looks often enough */
/* Longer than an answer takes to which both sides come back late: with no more than the detour itself
 * (0.8 us) they kept missing each other. */
#define SPIN_NS 2000u
#define LONG_NS \
    3000u /* whoever is away for more computes, or others run meanwhile: looking on would only cost */
#define MISSES_MAX 16u /* then what is waited for takes longer than any spin */

uint64_t nigh_fi_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void nigh_fi_idle_back(struct nigh_fi_idle *idle)
{
    uint64_t away = nigh_fi_now() - idle->left_ns;

    idle->left_ns = 0;
    if (away < SHORT_NS || away > LONG_NS) {
        idle->votes -= idle->votes > 0;
    } else {
        idle->votes += idle->votes < VOTES_MAX;
        if (idle->votes >= VOTES_FOR)
            idle->spin_ns = SPIN_NS;
    }
    if (idle->votes < VOTES_FOR)
        idle->spin_ns = 0;
}

static bool ask(const struct nigh_fi_ep *ep)
{
    struct nigh_query_context facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);

    return ep->nigh->query(ep->context, NULL, NIGH_QUERY_CONTEXT, &facts, &bytes) == 0 && facts.crowded;
}

/* Hosts that yield by themselves must not pay twice, so they are asked seldom. The same host may do both: Open MPI yields
 * between the looks of a wait, never between those of a blocking send. */
static void give_way(struct nigh_fi_idle *idle)
{
    uint32_t every = idle->spins ? YIELD_SOON : YIELD_EVERY, at = idle->empty % every;

    if (at == every - TIGHT_LOOKS)
        idle->tight_ns = nigh_fi_now();
    if (at)
        return;
    if (nigh_fi_now() - idle->tight_ns >= TIGHT_LOOKS * TIGHT_NS) {
        idle->spins -= idle->spins > 0;
        return;
    }
    idle->spins = idle->spins < SPINS_MAX - SPINS_STEP ? idle->spins + SPINS_STEP : SPINS_MAX;
    sched_yield();
}

bool nigh_fi_idle_wait(struct nigh_fi_idle *idle, const struct nigh_fi_ep *ep)
{
    idle->empty++;
    /* counted on through what comes: right behind each message it would be asked most often when it matters most */
    if (idle->ask_in-- == 0) {
        idle->crowded = ask(ep) || nigh_fi_pollers_crowd();
        idle->ask_in = ASK_EVERY;
    }
    if (idle->crowded) {
        give_way(idle);
        return false;
    }
    if (idle->spin_ns && idle->missed < MISSES_MAX)
        return true;
    if (idle->empty % NOTE_EVERY == 0)
        idle->left_ns = nigh_fi_now();
    return false;
}

void nigh_fi_idle_result(struct nigh_fi_idle *idle, bool found)
{
    if (found) {
        idle->missed = idle->empty = 0;
        return;
    }
    idle->missed++;
    idle->left_ns = nigh_fi_now();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/feel.c - from single feelings to what a handoff costs. */
#include "plugin/feel.h"

#include "shm/clock.h"

/* A load that takes less than this was no handoff: something else has brought the line here meanwhile. It takes 5 ns
 * where the nearest handoff takes 25, which is less than the clock can tell apart, hence the counter. */
#define HIT_NS 12.0F
/* Time that must have gone by before the rate of the CPU's counter is known. */
#define RATE_NS 100000u

/* What looking at the counter twice costs, at the least. */
static uint64_t counter_cost(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 16; i++) {
        uint64_t before = nigh_clock_ticks(), took = nigh_clock_ticks() - before;

        least = took < least ? took : least;
    }
    return least;
}

void nigh_feel_open(struct nigh_feel *feel)
{
    *feel = (struct nigh_feel){
        .opened_ns = nigh_clock_ns(), .opened = nigh_clock_ticks(), .cost = counter_cost()};
}

/* Nanoseconds of a tick; 0: too early to say. */
static float tick_ns(struct nigh_feel *feel)
{
    uint64_t ns, ticks;

    if (feel->tick_ns > 0)
        return feel->tick_ns;
    ns = nigh_clock_ns() - feel->opened_ns;
    ticks = nigh_clock_ticks() - feel->opened;
    if (ns >= RATE_NS && ticks)
        feel->tick_ns = (float)ns / (float)ticks;
    return feel->tick_ns;
}

/*
 * Interruptions, and stores that are still under way, only ever add to a feeling: behind copies past the cache in one
 * L3 up to two in three of those that take 50 ns took 200 to 600; across two L3s all take 130 and more. But for one in
 * a hundred, wherever the peer is: its line was on its way already, and took 20 to 30. So neither the middle nor the
 * least.
 */
static float second_least(const float v[NIGH_FELT])
{
    float least = v[0] < v[1] ? v[0] : v[1], second = v[0] < v[1] ? v[1] : v[0];

    for (unsigned i = 2; i < NIGH_FELT; i++) {
        second = v[i] < least ? least : v[i] < second ? v[i] : second;
        least = v[i] < least ? v[i] : least;
    }
    return second;
}

float nigh_feel_take(struct nigh_feel *feel, uint64_t ticks)
{
    float ns = ticks > feel->cost ? tick_ns(feel) * (float)(ticks - feel->cost) : 0;

    if (ns < HIT_NS)
        return 0;
    feel->felt[feel->count++ % NIGH_FELT] = ns;
    return feel->count % NIGH_FELT ? 0 : 2 * second_least(feel->felt);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/progress.c - one pass over whatever may have something. With few peers all are polled each time. With many,
 * only those that were heard lately are; the others set a hint, and a sweep now and then makes up for one that got
 * lost.
 */
#include "plugin/progress.h"
#include "plugin/arrive.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/device_peer.h"
#include "plugin/device_receive.h"
#include "plugin/device_send.h"
#include "plugin/fetch.h"
#include "plugin/large.h"
#include "plugin/note.h"
#include "plugin/pull.h"
#include "plugin/send.h"
#include "plugin/stay.h"
#include "shm/clock.h"
#include "shm/note.h"
#include "shm/rendezvous.h"
#include "shm/service.h"
#include <errno.h>

/* Passes without news before all peers are looked at: about 20 us of polling. With news, whose peers could otherwise
 * keep the others from ever being looked at, about a millisecond. */
#define SWEEP_PASSES      1024u
#define SWEEP_BUSY_PASSES 16384u
/* Passes without news in which an unexpected message may stay in its ring. With 1 nothing was gained where ranks
 * share CPUs, 64 are as good as 8. */
#define LEAVING_PASSES 8u
/* In which a thread that was told of a message answers it, where its peer had connected by itself and left. */
#define ANSWER_NS UINT64_C(10000000000)

void nigh_progress_busy(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;

    if (endpoint->busy)
        return;
    endpoint->busy = true;
    endpoint->next_busy = context->busy;
    context->busy = endpoint;
}

/* Relaxed: the flag only asks for hints, and one that comes too late costs a sweep. */
static void set_cold(struct nigh_endpoint *endpoint, uint32_t cold)
{
    nigh_store_relaxed(&endpoint->pair->cold, cold);
    if (cold)
        nigh_store_relaxed(&nigh_arena_state(&endpoint->context->arena)->cold, 1);
}

/* What it published before it could know has asked for no hint, and a pass that ended when the host's array was full
 * has not looked: the next one does, once. */
static void cold_but_once(struct nigh_endpoint *endpoint)
{
    set_cold(endpoint, 1);
    nigh_bell_hint(&endpoint->context->bell, endpoint->index);
}

static void cool(struct nigh_context *context, uint32_t at)
{
    struct nigh_endpoint *endpoint = context->hot[at];

    endpoint->hot = false;
    cold_but_once(endpoint);
    context->hot[at] = context->hot[--context->hot_count];
}

/* The one that was heard longest ago. */
static uint32_t coolest(const struct nigh_context *context)
{
    uint32_t at = 0;

    for (uint32_t i = 1; i < context->hot_count; i++)
        if (context->hot[i]->heard < context->hot[at]->heard)
            at = i;
    return at;
}

void nigh_progress_warm(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;

    endpoint->heard = ++context->clock;
    if (endpoint->hot)
        return;
    if (context->hot_count == NIGH_HOT_MAX)
        cool(context, coolest(context));
    endpoint->hot = true;
    context->hot[context->hot_count++] = endpoint;
    set_cold(endpoint, 0);
}

void nigh_progress_admit(struct nigh_endpoint *endpoint)
{
    if (endpoint->context->hot_count < NIGH_HOT_MAX)
        nigh_progress_warm(endpoint);
    else
        cold_but_once(endpoint);
}

void nigh_progress_forget(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_endpoint **link = &context->busy;

    for (uint32_t i = 0; i < context->hot_count; i++)
        if (context->hot[i] == endpoint) {
            context->hot[i] = context->hot[--context->hot_count];
            break;
        }
    endpoint->hot = false;
    if (!endpoint->busy)
        return;
    while (*link != endpoint)
        link = &(*link)->next_busy;
    *link = endpoint->next_busy;
    endpoint->busy = false;
    /* Else no pass over the busy ones would, and nobody sleeps again. */
    if (!context->busy)
        context->suspects = context->devices.scarce = false;
}

/* A peer that said goodbye is gone once everything that it had published was read. */
static void check_closed(struct nigh_endpoint *endpoint)
{
    /* The flag was set before the hint or the bell that made us look, and a sweep looks again. */
    if (endpoint->state == NIGH_READY && nigh_endpoint_left(endpoint) && nigh_arrive_rest(endpoint))
        nigh_endpoint_fail(endpoint, NIGH_PEER_CLOSED, -ECONNRESET, NULL);
}

static bool look(struct nigh_endpoint *endpoint)
{
    uint32_t count;

    /* Nothing is taken from an endpoint that has ended: nobody would end what begins then. */
    if (!endpoint->attached || endpoint->gone || endpoint->state != NIGH_READY)
        return false;
    count = nigh_arrive_poll(endpoint, NIGH_TURN);
    check_closed(endpoint);
    if (count && endpoint->state == NIGH_READY)
        nigh_progress_warm(endpoint);
    return count != 0;
}

static bool take_hints(struct nigh_context *context)
{
    struct nigh_doorbell *shared = context->bell.shared;
    uint64_t summary = nigh_exchange_acquire(&shared->summary, 0, HINT_TAKE);
    bool moved = false;

    while (summary) {
        uint32_t bit = (uint32_t)__builtin_ctzll(summary);

        summary &= summary - 1;
        for (uint32_t word = bit; word < context->bell.words; word += 64) {
            uint64_t hints = nigh_exchange_acquire(&shared->hints[word], 0, HINT_TAKE);

            for (; hints; hints &= hints - 1) {
                uint32_t index = word * 64 + (uint32_t)__builtin_ctzll(hints);
                struct nigh_endpoint *endpoint =
                    index < context->config.peers_max ? context->by_index[index] : NULL;

                if (endpoint)
                    moved |= look(endpoint);
            }
        }
    }
    return moved;
}

/* Frees endpoints that were disconnected once their peers look at them no longer. */
static void bury(struct nigh_endpoint *endpoint)
{
    if (!endpoint->gone || endpoint->pins)
        return;
    if (endpoint->attached && !endpoint->dead && !nigh_endpoint_left(endpoint)) {
        nigh_large_reclaim(endpoint, false);
        return;
    }
    nigh_endpoint_free(endpoint);
}

bool nigh_progress_is_unread(const struct nigh_endpoint *endpoint)
{
    for (uint32_t tclass = 0; tclass < NIGH_TCLASSES; tclass++)
        if (nigh_match_find(&endpoint->context->matcher, endpoint->index, tclass, 0, NIGH_IGNORE_ALL, false))
            return true;
    return endpoint->state < NIGH_PEER_CLOSED;
}

/* A peer that closed and that nobody here connected to: nobody else will. Not before the host has had its messages, and
 * the completions that name it. */
static bool is_left_over(const struct nigh_endpoint *endpoint)
{
    if (endpoint->state < NIGH_PEER_CLOSED || endpoint->refs || endpoint->gone || endpoint->pins ||
        nigh_cq_in_use(&endpoint->context->cq))
        return false;
    return !nigh_progress_is_unread(endpoint);
}

/* With threads another one may still be at a completion that names it: it has ten seconds to answer, unless room is
 * short. */
static bool may_be_answered(struct nigh_endpoint *endpoint)
{
    const struct nigh_context *context = endpoint->context;
    uint64_t now;

    if (!(context->guard & NIGH_GUARD_THREADS) ||
        context->endpoint_count - context->aside_count > context->config.peers_max / 2)
        return false;
    now = nigh_clock_ns();
    if (!endpoint->left_over_ns)
        endpoint->left_over_ns = now;
    return now - endpoint->left_over_ns < ANSWER_NS;
}

/* What observers read. */
static void show_counts(struct nigh_context *context, uint64_t queued)
{
    nigh_count_taken(context);
    nigh_store_relaxed(&context->counters->posted, nigh_match_posted(&context->matcher));
    nigh_store_relaxed(&context->counters->arrived, context->matcher.arrived_count);
    nigh_store_relaxed(&context->counters->queued, queued);
    nigh_store_relaxed(&context->counters->peers, context->endpoint_count - context->aside_count);
}

/* Behind its look: those that have ended need no other. */
static void settle(struct nigh_endpoint *endpoint)
{
    nigh_endpoint_strip(endpoint); /* mostly it is already */
    if (is_left_over(endpoint) && !may_be_answered(endpoint))
        nigh_endpoint_retire(endpoint);
    if (endpoint->refs)
        nigh_endpoint_set_aside(endpoint);
    else
        bury(endpoint);
}

void nigh_progress_make_room(struct nigh_context *context)
{
    for (struct nigh_endpoint *endpoint = context->all, *next; endpoint; endpoint = next) {
        next = endpoint->next_all;
        if (endpoint->attached)
            check_closed(endpoint);
        settle(endpoint);
    }
}

bool nigh_progress_sweep(struct nigh_context *context)
{
    uint64_t queued = 0;
    bool moved = false;

    context->idle_passes = context->busy_passes = 0;
    if (nigh_rendezvous_is_lost(context->rendezvous))
        moved = nigh_endpoint_ask_all(context);
    for (struct nigh_endpoint *endpoint = context->all, *next; endpoint; endpoint = next) {
        next = endpoint->next_all;
        moved |= look(endpoint);
        if (endpoint->state == NIGH_READY && nigh_endpoint_marked(endpoint)) {
            nigh_endpoint_lost(endpoint);
            moved = true;
        }
        if (nigh_ring_ones(&endpoint->tx))
            nigh_count_tally(endpoint);
        queued += endpoint->queue.count + endpoint->flow.count;
        settle(endpoint);
    }
    moved |= nigh_coll_sweep(&context->coll);
    show_counts(context, queued);
    if (moved && context->blocked)
        nigh_note_moved(nigh_arena_note(&context->arena));
    return moved;
}

/* For what peers have brought: device_reach.c. Behind a pass over the endpoints, which this may end. */
static void hear(struct nigh_context *context)
{
    context->devices.listens = false;
    context->devices.silences += !nigh_rendezvous_progress(context->rendezvous);
}

static bool push_sends(struct nigh_context *context)
{
    struct nigh_endpoint *endpoint = context->busy, *next;
    bool moved = false, drops;

    context->busy = NULL;
    context->suspects = context->devices.scarce = false;
    for (; endpoint; endpoint = next) {
        next = endpoint->next_busy;
        endpoint->busy = false;
        if (endpoint->suspect) {
            const char *why = endpoint->suspect;

            endpoint->suspect = NULL;
            nigh_endpoint_fail(endpoint, NIGH_BROKEN, -EPROTO, why);
            moved = true;
            continue;
        }
        if (endpoint->state >= NIGH_PEER_CLOSED) {
            moved |= nigh_device_receive_progress(endpoint);
            if (endpoint->device_receives)
                nigh_progress_busy(endpoint);
            nigh_endpoint_strip(endpoint);
            continue;
        }
        if (endpoint->device_sends)
            moved |= nigh_device_send_progress(endpoint);
        if (endpoint->device_receives)
            moved |= nigh_device_receive_progress(endpoint);
        drops = endpoint->device_peer && nigh_device_peer_progress(endpoint);
        moved |= nigh_send_progress(endpoint) || endpoint->suspect;
        if (drops || endpoint->device_sends || endpoint->device_receives || endpoint->queue.head ||
            endpoint->flow.head || endpoint->timed_count || endpoint->suspect)
            nigh_progress_busy(endpoint);
    }
    if (context->devices.listens)
        hear(context);
    return moved;
}

static bool serve(struct nigh_context *context)
{
    nigh_log_use(&context->log);
    nigh_service_taken(context->service);
    nigh_rendezvous_progress(context->rendezvous);
    if (nigh_rendezvous_is_lost(context->rendezvous))
        nigh_service_blind(context->service);
    nigh_progress_sweep(context);
    return true;
}

bool nigh_progress_all(struct nigh_context *context)
{
    bool moved;

    nigh_log_use(&context->log);
    nigh_rendezvous_progress(context->rendezvous);
    moved = nigh_progress_sweep(context);
    moved |= push_sends(context);
    moved |= nigh_pull_progress(context);
    moved |= nigh_coll_progress(&context->coll);
    return nigh_fetch_progress(context) || moved;
}

/*
 * Who has just got the CPU back finds news of several peers, each in a line that another core holds, 50 to 240
 * ns, and what it keeps of them gone from its cache. Each look goes on by what it finds, so unless all are asked
 * for before they come one after the other. 8 ranks on 2 CPUs, alltoall of 8 bytes over Open MPI: 0.97 with the
 * slots, 0.95 with the endpoints' lines as well. The next slot of our own for each gained nothing. Apart, so
 * that a pair of ranks sees nothing of it.
 */
static __attribute__((noinline)) void ask_hot(const struct nigh_context *context)
{
    for (uint32_t i = 0; i < context->hot_count; i++) {
        __builtin_prefetch(context->hot[i]);
        __builtin_prefetch(&context->hot[i]->tx);
        __builtin_prefetch(context->hot[i]->rx.at);
        /* Else gcc sees a function without effects, and calls it no more. */
        __asm__ volatile("" : : : "memory");
    }
}

/* Until the host's array is full: what is left lies in the rings as well as in our own queue, and is copied once
 * less. Then the next pass begins with the next peer. */
static inline bool poll_hot(struct nigh_context *context)
{
    uint32_t at = context->first_hot < context->hot_count ? context->first_hot : 0;
    bool moved = false;

    context->leaves = (context->idle_passes < LEAVING_PASSES || context->crowd.full) && !context->probing &&
                      !context->looks_for;
    if (__builtin_expect(context->hot_count > 2 && context->crowd.full, 0))
        ask_hot(context);
    for (uint32_t i = 0; i < context->hot_count; i++) {
        struct nigh_endpoint *endpoint;
        uint64_t head = 0;

        if (at >= context->hot_count) /* a poll may have taken one out */
            at = 0;
        endpoint = context->hot[at++];
        if (endpoint->rx.quiet ? !(head = nigh_ring_peek(&endpoint->rx))
                               : context->leaves && nigh_stay_goes_on(endpoint))
            continue;
        if (!(head ? nigh_short_poll(endpoint, head) : nigh_arrive_poll(endpoint, NIGH_TURN)))
            continue;
        endpoint->heard = ++context->clock;
        moved = true;
        if (nigh_cq_is_full(&context->cq)) {
            context->first_hot = at;
            break;
        }
    }
    context->leaves = false;
    if (__builtin_expect(context->stays, 0))
        moved |= nigh_stay_pass(context, moved);
    return moved;
}

bool nigh_progress(struct nigh_context *context)
{
    bool moved = false, asked = false;

    if (__builtin_expect(nigh_load_acquire(context->service_flag, FLAG_SEE) != 0, 0))
        moved = serve(context);
    moved |= poll_hot(context);
    /* Relaxed: HINT_TAKE follows where there is something. */
    if (__builtin_expect(nigh_load_relaxed(context->hint_summary) != 0, 0)) {
        moved |= take_hints(context);
        asked = nigh_note_is_asked(context);
    }
    if (__builtin_expect(context->busy != NULL, 0))
        moved |= push_sends(context);
    if (__builtin_expect((context->pulls || context->copying) && !context->apart, 0))
        moved |= nigh_pull_progress(context);
    if (__builtin_expect(context->fetches != NULL, 0))
        moved |= nigh_fetch_progress(context);
    if (__builtin_expect(!nigh_coll_is_idle(&context->coll), 0))
        moved |= nigh_coll_progress(&context->coll);
    if (__builtin_expect(context->asked != NULL && !moved, 0))
        moved = nigh_help_progress(context);
    if (moved) {
        context->idle_passes = 0;
        if (__builtin_expect(context->blocked, 0))
            nigh_note_moved(nigh_arena_note(&context->arena));
    }
    if (__builtin_expect(asked, 0))
        moved |= nigh_note_answer(context, moved);
    if (__builtin_expect(
            moved ? ++context->busy_passes >= SWEEP_BUSY_PASSES : ++context->idle_passes >= SWEEP_PASSES, 0))
        moved |= nigh_progress_sweep(context);
    return moved;
}

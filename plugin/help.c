/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/help.c - whose slice is whose: each side says how many it has taken in a word that it alone writes, fences,
 * and looks at the other's word. So of two that take the same slice one at least sees the other, and puts it back. Here
 * the receiver's side, in helper.c the sender's.
 */
#include "plugin/help.h"
#include "plugin/beside.h"
#include "plugin/context.h"
#include "plugin/here.h"
#include "plugin/pulls.h"

/* Short messages that are not offered behind which is not looked for others: each run would look at all of them. */
#define SKIPPED_MAX 8u

/* Half of a message of so many bytes, in pages, but not more than that. */
static uint32_t half_of(uint64_t bytes)
{
    uint64_t half = ((bytes + 1) / 2 + NIGH_PAGE - 1) / NIGH_PAGE * NIGH_PAGE;

    return half < NIGH_HELP_SLICE_BYTES ? (uint32_t)half : NIGH_HELP_SLICE_BYTES;
}

uint32_t nigh_help_slice_of(uint64_t bytes, bool one)
{
    return one ? (uint32_t)bytes : half_of(bytes);
}
static_assert(NIGH_HELP_HALVES_FROM <= NIGH_HELP_FROM, "in a crowd there are two slices at least");

static uint64_t slices_of(const struct nigh_message *message)
{
    return nigh_help_slices(message->wanted, message->slice);
}

static uint64_t slices_got(const struct nigh_message *message)
{
    return nigh_help_slices(message->got, message->slice);
}

/* Not one that sends messages of this kind itself: where all send to all, all CPUs copy anyway, and who helps keeps its
 * CPU from a rank that would copy for itself. */
bool nigh_help_may(const struct nigh_message *message)
{
    const struct nigh_endpoint *endpoint = message->endpoint;
    const struct nigh_context *context = endpoint->context;
    bool beside = nigh_beside_is_on(context);
    uint64_t least = beside ? NIGH_HELP_BESIDE_FROM : NIGH_HELP_FROM;

    return message->refer == NIGH_REFER_CMA && message->wanted >= least && (context->crowd.full || beside) &&
           !context->referred && !(context->guard & NIGH_GUARD_THREADS) && !endpoint->self &&
           endpoint->state == NIGH_READY && nigh_plan_peer_reads(endpoint);
}

bool nigh_help_cannot(const struct nigh_message *message, uint32_t cpu)
{
    return message->cpu && message->cpu == cpu;
}

static uint32_t next_offer(const struct nigh_endpoint *endpoint)
{
    return endpoint->offers == UINT32_MAX ? 1 : endpoint->offers + 1; /* 0 is none */
}

bool nigh_help_is_short(const struct nigh_message *message)
{
    return message->wanted < NIGH_HELP_HALVES_FROM && !message->got;
}

/* What was copied before was not counted in slices. */
static bool has_slices(const struct nigh_message *message, uint32_t least)
{
    uint64_t all = slices_of(message);

    return message->got % message->slice == 0 && all - slices_got(message) >= least &&
           all <= NIGH_HELP_SLICES_MAX;
}

static bool offer(struct nigh_message *message, bool one)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    struct nigh_wire_help help = {(uintptr_t)message->to, message->wanted};
    uint32_t number = next_offer(endpoint);
    uint64_t *word = &endpoint->pair->offered[nigh_help_slot(number)];

    message->slice = nigh_help_slice_of(message->wanted, one);
    if (!has_slices(message, one ? 1 : 2))
        return false;
    /* Relaxed: the slot that tells of it is published behind. */
    nigh_store_relaxed(word, nigh_help_word(number, (uint32_t)slices_got(message)));
    /* At once or not: an answer that waits for room may be overtaken by the message's FINISH, behind
     * which nobody knows the number. */
    if (nigh_link_send(endpoint, nigh_head_make(NIGH_K_HELP, 0, 0, one ? NIGH_F_ONE : 0), message->id, number,
                       &help, sizeof(help))) {
        nigh_store_relaxed(word, 0);
        return false;
    }
    endpoint->offers = number;
    endpoint->offered[nigh_help_slot(number)] = message;
    endpoint->offered_count++;
    message->offer = number;
    return true;
}

/* In a crowd one at a time, as many senders take turns; beside a CPU of its own a sender has the next ones to go on
 * with while we are at a slice of ours. */
static bool has_room(const struct nigh_endpoint *endpoint)
{
    return endpoint->context->crowd.full ? !endpoint->offered_count
                                         : !endpoint->offered[nigh_help_slot(next_offer(endpoint))];
}

static bool may_be_asked(const struct nigh_message *message, uint32_t cpu)
{
    return !message->offer && has_room(message->endpoint) && nigh_help_may(message) &&
           !nigh_help_cannot(message, cpu);
}

/* A message by itself, as in a tree, is best copied where it is used next if ranks outnumber CPUs: a broadcast of 1 MiB
 * 1.1 to 1.25 in place of 1.08. */
static bool is_by_itself(const struct nigh_context *context)
{
    return context->crowd.full && !context->pulls->next && !context->matcher.arrived_count;
}

/* The newest, of which the receiver copies nothing for a while. */
static void offer_in_crowd(struct nigh_context *context, uint32_t cpu)
{
    for (struct nigh_message *message = context->pulls_last; message; message = message->before)
        if (may_be_asked(message, cpu))
            offer(message, false);
}

/* Whole ones of several, the newest first, until their sender has about as many as are left to us. They are its until we
 * have nothing else to copy. */
static void offer_whole(struct nigh_context *context, uint32_t cpu)
{
    struct nigh_message *message = context->pulls_last, *before;
    unsigned skipped = 0;

    for (; message != context->pulls && skipped < SKIPPED_MAX; message = before) {
        before = message->before;
        if (message->endpoint->offered_count + 1 < context->pulls_count && nigh_help_is_short(message) &&
            may_be_asked(message, cpu) && offer(message, true))
            nigh_pulls_taken(message);
        else
            skipped++;
    }
}

/* Half of each, the oldest first, as we are at that. A short one only if it is there alone. */
static void offer_halves(struct nigh_context *context, uint32_t cpu)
{
    struct nigh_message *message = context->pulls;
    unsigned skipped = 0;

    for (; message && skipped < SKIPPED_MAX; message = message->next) {
        bool whole = nigh_help_is_short(message) && (message->next || message->endpoint->offered_count);

        if (!whole && may_be_asked(message, cpu))
            offer(message, false);
        else
            skipped += whole;
    }
}

void nigh_help_offer(struct nigh_context *context)
{
    uint32_t cpu;

    if (!context->pulls || is_by_itself(context))
        return;
    cpu = nigh_here_cpu();
    if (context->crowd.full) {
        offer_in_crowd(context, cpu);
    } else {
        offer_whole(context, cpu);
        offer_halves(context, cpu);
    }
}

/* HELP_SEE for what is claimed, too: what is put back may have been written in part, and may be the host's again. */
static uint64_t said(const struct nigh_message *message)
{
    return nigh_load_acquire(message->endpoint->peer_helped + nigh_help_slot(message->offer), HELP_SEE);
}

/* Of another offer: none. */
static uint32_t helped(const struct nigh_message *message)
{
    uint64_t word = said(message);

    return word >> 32 == message->offer ? (uint32_t)word : 0;
}

static uint32_t claimed(const struct nigh_message *message)
{
    return helped(message) >> 16;
}

static uint32_t written(const struct nigh_message *message)
{
    return helped(message) & UINT16_MAX;
}

bool nigh_help_has_begun(const struct nigh_message *message)
{
    return message->offer && claimed(message);
}

/* Offered as one slice, and not taken back. */
static bool is_lent(const struct nigh_message *message)
{
    return message->offer && message->slice == message->wanted && !message->got;
}

bool nigh_help_is_unanswered(const struct nigh_message *message)
{
    return is_lent(message) && said(message) >> 32 != message->offer;
}

uint64_t nigh_help_take(struct nigh_message *message)
{
    uint32_t all = (uint32_t)slices_of(message), mine = (uint32_t)slices_got(message), slice = message->slice;
    uint64_t *word = &message->endpoint->pair->offered[nigh_help_slot(message->offer)];
    uint64_t left = message->wanted - message->got;

    if (!left)
        return 0;
    nigh_store_relaxed(word, nigh_help_word(message->offer, mine + 1));
    nigh_fence_full(HELP_TAKE);
    if (claimed(message) <= all - mine - 1)
        return left < slice ? left : slice;
    nigh_store_relaxed(word, nigh_help_word(message->offer, mine));
    return 0;
}

/* One more than are left is none: it claims that, sees that it is not there, and puts it back. */
bool nigh_help_lies(const struct nigh_message *message)
{
    uint64_t left;

    if (!message->offer)
        return false;
    left = slices_of(message) - slices_got(message);
    return claimed(message) > left + 1 || written(message) > left;
}

bool nigh_help_writes(const struct nigh_message *message)
{
    const struct nigh_endpoint *endpoint = message->endpoint;
    uint32_t taken;

    /* Once all are ours no claim stands. A peer that has left is in no slice. */
    if (!message->offer || message->got == message->wanted || endpoint->dead || nigh_endpoint_left(endpoint))
        return false;
    taken = claimed(message);
    if (taken == written(message) || nigh_help_lies(message))
        return false;
    /* Nobody may have looked whether it lives: the endpoint has ended, or is about to. A mark alone does not tell: one of
     * its system calls may be under way until its process has ended. */
    return (endpoint->state == NIGH_READY && !message->ended) || nigh_endpoint_lives(endpoint);
}

bool nigh_help_is_whole(const struct nigh_message *message)
{
    return message->got == message->wanted || slices_got(message) + written(message) == slices_of(message);
}

/* Behind the look at the word it is seen whether it is still this peer's, and not of the next one at its index. */
bool nigh_help_was_senders(const struct nigh_message *message)
{
    const struct nigh_endpoint *endpoint = message->endpoint;

    return is_lent(message) && said(message) == nigh_help_word(message->offer, 1u << 16 | 1) &&
           nigh_load_relaxed(endpoint->peer_closed) - endpoint->peer_open <= 1;
}

void nigh_help_withdraw(struct nigh_message *message)
{
    if (!message->offer)
        return;
    /* Relaxed, and before the look whether it writes. */
    nigh_store_relaxed(&message->endpoint->pair->offered[nigh_help_slot(message->offer)], 0);
    nigh_fence_full(HELP_TAKE);
}

void nigh_help_end(struct nigh_message *message)
{
    if (!message->offer)
        return;
    /* Nothing is left to be claimed, or it is withdrawn, or its sender is gone: the word is as good as none. */
    message->endpoint->offered[nigh_help_slot(message->offer)] = NULL;
    message->endpoint->offered_count--;
    message->offer = 0;
}

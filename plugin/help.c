/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/help.c - whose slice is whose: each side says how many it has taken in a word that it alone writes, fences,
 * and looks at the other's word. So of two that take the same slice one at least sees the other, and puts it back.
 */
#include "plugin/help.h"
#include "plugin/context.h"
#include "plugin/near.h"
#include "shm/cma.h"
#include "shm/os.h"
#include "shm/rendezvous.h"
#include <errno.h>

/* What a sender copies before its host has its turn: as much as a receiver does. */
#define TURN_BYTES (512u * 1024)

/* Of a message of so many bytes: both sides know those. */
static uint32_t slice_of(uint64_t wanted)
{
    return wanted < 2 * NIGH_HELP_SLICE_BYTES ? NIGH_HELP_SLICE_BYTES / 2 : NIGH_HELP_SLICE_BYTES;
}
static_assert(NIGH_HELP_FROM >= 2 * (NIGH_HELP_SLICE_BYTES / 2), "there are two slices at least");

static uint32_t slices_in(uint64_t bytes, uint32_t slice)
{
    return (uint32_t)((bytes + slice - 1) / slice);
}

static uint32_t slices_of(const struct nigh_message *message)
{
    return slices_in(message->wanted, slice_of(message->wanted));
}

static uint32_t slices_got(const struct nigh_message *message)
{
    return slices_in(message->got, slice_of(message->wanted));
}

static uint64_t word_of(uint32_t offer, uint32_t count)
{
    return (uint64_t)offer << 32 | count;
}

/* Of another offer: none. */
static uint32_t count_of(uint64_t word, uint32_t offer)
{
    return word >> 32 == offer ? (uint32_t)word : 0;
}

/* ---- the receiver's ---------------------------------------------------------------------------------------- */

/* Not one that sends messages of this kind itself: where all send to all, all CPUs copy anyway, and who helps keeps its
 * CPU from a rank that would copy for itself. */
bool nigh_help_may(const struct nigh_message *message)
{
    const struct nigh_endpoint *endpoint = message->endpoint;
    const struct nigh_context *context = endpoint->context;

    return message->refer == NIGH_REFER_CMA && message->wanted >= NIGH_HELP_FROM && context->crowd.full &&
           !context->referred && !(context->guard & NIGH_GUARD_THREADS) && !endpoint->self &&
           endpoint->state == NIGH_READY && nigh_plan_peer_reads(endpoint);
}

bool nigh_help_cannot(const struct nigh_message *message, uint32_t cpu)
{
    return message->cpu && message->cpu == cpu;
}

static void offer(struct nigh_message *message)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    struct nigh_wire_help help = {(uintptr_t)message->to, message->wanted};
    uint32_t slice = slice_of(message->wanted);

    /* What was copied before was not counted in slices. */
    if (message->wanted - message->got < 2 * slice || message->got % slice)
        return;
    endpoint->offers += endpoint->offers == UINT32_MAX ? 2 : 1; /* 0 is none */
    /* Relaxed: the slot that tells of it is published behind. */
    nigh_store_relaxed(&endpoint->pair->offered, word_of(endpoint->offers, slices_got(message)));
    /* At once or not: an answer that waits for room may be overtaken by the message's FINISH, behind
     * which nobody knows the number. */
    if (nigh_link_send(endpoint, nigh_head_make(NIGH_K_HELP, 0, 0, 0), message->id, endpoint->offers, &help,
                       sizeof(help))) {
        nigh_store_relaxed(&endpoint->pair->offered, 0);
        return;
    }
    endpoint->offered = message;
    message->offer = endpoint->offers;
}

void nigh_help_offer(struct nigh_context *context)
{
    struct nigh_message *message = context->pulls;
    uint32_t cpu;

    /* A message by itself, as in a tree, is best copied where it is used next: a broadcast of 1 MiB
     * 1.1 to 1.25 in place of 1.08. */
    if (!message || !context->crowd.full || (!message->next && !context->matcher.arrived_count))
        return;
    cpu = nigh_near_cpu();
    for (; message; message = message->next)
        if (!message->endpoint->offered && nigh_help_may(message) && !nigh_help_cannot(message, cpu))
            offer(message);
}

/* HELP_SEE here, too: what is put back may have been written in part, and may be the host's again. */
static uint32_t claimed(const struct nigh_message *message)
{
    return count_of(nigh_load_acquire(message->endpoint->peer_claimed, HELP_SEE), message->offer);
}

static uint32_t written(const struct nigh_message *message)
{
    return count_of(nigh_load_acquire(message->endpoint->peer_written, HELP_SEE), message->offer);
}

bool nigh_help_has_begun(const struct nigh_message *message)
{
    return message->offer && claimed(message);
}

uint64_t nigh_help_take(struct nigh_message *message)
{
    uint32_t all = slices_of(message), mine = slices_got(message), slice = slice_of(message->wanted);
    uint64_t left = message->wanted - message->got, *word = &message->endpoint->pair->offered;

    if (!left)
        return 0;
    nigh_store_relaxed(word, word_of(message->offer, mine + 1));
    nigh_fence_full(HELP_TAKE);
    if (claimed(message) <= all - mine - 1)
        return left < slice ? left : slice;
    nigh_store_relaxed(word, word_of(message->offer, mine));
    return 0;
}

/* One more than are left is none: it claims that, sees that it is not there, and puts it back. */
bool nigh_help_lies(const struct nigh_message *message)
{
    uint32_t left = slices_of(message) - slices_got(message);

    return message->offer && (claimed(message) > left + 1 || written(message) > left);
}

bool nigh_help_writes(const struct nigh_message *message)
{
    const struct nigh_endpoint *endpoint = message->endpoint;
    uint32_t taken;

    /* Once all are ours no claim stands. A peer that has left is in no slice. */
    if (!message->offer || message->got == message->wanted || endpoint->state == NIGH_PEER_DEAD ||
        nigh_endpoint_left(endpoint))
        return false;
    taken = claimed(message);
    if (taken == written(message) || nigh_help_lies(message))
        return false;
    /* Nobody may have looked whether it lives: the endpoint has ended, or is about to. */
    return (endpoint->state == NIGH_READY && !message->ended) ||
           nigh_rendezvous_lives(endpoint->context->rendezvous, endpoint);
}

bool nigh_help_is_whole(const struct nigh_message *message)
{
    return message->got == message->wanted || slices_got(message) + written(message) == slices_of(message);
}

void nigh_help_withdraw(struct nigh_message *message)
{
    if (!message->offer)
        return;
    /* Relaxed, and before the look whether it writes. */
    nigh_store_relaxed(&message->endpoint->pair->offered, 0);
    nigh_fence_full(HELP_TAKE);
}

void nigh_help_end(struct nigh_message *message)
{
    if (!message->offer)
        return;
    nigh_help_withdraw(message);
    message->endpoint->offered = NULL;
    message->offer = 0;
}

/* ---- the sender's ------------------------------------------------------------------------------------------ */

void nigh_help_asked(struct nigh_endpoint *endpoint, struct nigh_send_op *op, uint32_t offer, uint64_t to,
                     uint64_t bytes)
{
    struct nigh_context *context = endpoint->context;

    if (context->guard & NIGH_GUARD_THREADS || context->helps_not)
        return;
    if (!endpoint->help.op) {
        endpoint->next_asked = context->asked;
        context->asked = endpoint;
    }
    endpoint->help = (struct nigh_help){op, to, bytes, offer, 0};
}

void nigh_help_forget(struct nigh_endpoint *endpoint)
{
    struct nigh_endpoint **link = &endpoint->context->asked;

    endpoint->help.op = NULL;
    while (*link != endpoint)
        link = &(*link)->next_asked;
    *link = endpoint->next_asked;
}

static void say_claimed(struct nigh_endpoint *endpoint, uint32_t count)
{
    nigh_store_release(&endpoint->pair->claimed, word_of(endpoint->help.offer, count), HELP_DONE);
}

/* Claims one more of `all`. */
static bool claim(struct nigh_endpoint *endpoint, uint32_t all)
{
    const struct nigh_help *help = &endpoint->help;
    uint64_t word;

    say_claimed(endpoint, help->taken + 1);
    nigh_fence_full(HELP_CLAIM);
    /* Relaxed: a count, and whether this offer still stands. */
    word = nigh_load_relaxed(endpoint->peer_offered);
    if (word >> 32 == help->offer && (uint32_t)word < all - help->taken && !nigh_endpoint_left(endpoint))
        return true;
    say_claimed(endpoint, help->taken);
    return false;
}

/*
 * What is written cannot be taken back, so it is looked first whether the number is still that process':
 * its private memory has what was drawn for it alone. Between the two calls it would have to die, be
 * waited for, and its number be given away.
 */
static int write_slice(const struct nigh_endpoint *endpoint, uint32_t all)
{
    const struct nigh_help *help = &endpoint->help;
    uint32_t slice = slice_of(help->bytes);
    uint64_t at = (uint64_t)(all - help->taken - 1) * slice, left = help->bytes - at;
    int rc = nigh_cma_probe(endpoint->pid, endpoint->view.layout.nonce_address, endpoint->incarnation);

    return rc ? rc
              : nigh_cma_write(endpoint->pid, help->to + at, help->op->buffer + at,
                               left < slice ? left : slice);
}

static bool help_once(struct nigh_endpoint *endpoint)
{
    struct nigh_help *help = &endpoint->help;
    uint32_t all = slices_in(help->bytes, slice_of(help->bytes));
    bool ours = help->taken < all && claim(endpoint, all);
    int rc = ours ? write_slice(endpoint, all) : 0;

    if (ours && !rc) {
        nigh_store_release(&endpoint->pair->written, word_of(help->offer, ++help->taken), HELP_DONE);
    } else {
        say_claimed(endpoint, help->taken);
        endpoint->context->helps_not |= rc == -EPERM || rc == -ENOSYS;
        nigh_help_forget(endpoint);
    }
    /* It may sleep until we are done with it. */
    nigh_link_published(endpoint);
    return ours;
}

bool nigh_help_progress(struct nigh_context *context)
{
    uint32_t bytes = 0;

    while (context->asked && bytes < TURN_BYTES) {
        uint32_t slice = slice_of(context->asked->help.bytes);

        if (help_once(context->asked))
            bytes += slice;
    }
    return bytes != 0;
}

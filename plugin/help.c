/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/help.c - whose slice is whose: each side says how many it has taken in a word that it alone writes, fences,
 * and looks at the other's word. So of two that take the same slice one at least sees the other, and puts it back.
 */
#include "plugin/help.h"
#include "plugin/beside.h"
#include "plugin/context.h"
#include "plugin/near.h"
#include "shm/clock.h"
#include "shm/cma.h"
#include "shm/os.h"
#include "shm/rendezvous.h"
#include <errno.h>

/* What a sender that shares its CPU copies before its host has its turn: as much as a receiver does. */
#define TURN_BYTES (512u * 1024)
/* For so long a process is taken to be still the one that it was: in that time nobody dies, is waited for, and has his
 * number given away. To look takes 0.55 us, a tenth of a slice of 64 KiB. */
#define PROBED_NS UINT64_C(100000)

/* Half of a message of so many bytes, in pages, but not more than that. */
static uint32_t half_of(uint64_t bytes)
{
    uint64_t half = ((bytes + 1) / 2 + NIGH_PAGE - 1) / NIGH_PAGE * NIGH_PAGE;

    return half < NIGH_HELP_SLICE_BYTES ? (uint32_t)half : NIGH_HELP_SLICE_BYTES;
}

/* Both sides know it. */
static uint32_t slice_of(uint64_t bytes, bool one)
{
    return one ? (uint32_t)bytes : half_of(bytes);
}
static_assert(NIGH_HELP_HALVES_FROM <= NIGH_HELP_FROM, "in a crowd there are two slices at least");

static uint32_t slices_in(uint64_t bytes, uint32_t slice)
{
    return (uint32_t)((bytes + slice - 1) / slice);
}

static uint32_t slices_of(const struct nigh_message *message)
{
    return slices_in(message->wanted, message->slice);
}

static uint32_t slices_got(const struct nigh_message *message)
{
    return slices_in(message->got, message->slice);
}

static uint32_t slot_of(uint32_t offer)
{
    return offer % NIGH_OFFERS;
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
    bool beside = nigh_beside_is_on(context);
    uint64_t least = beside ? NIGH_HELP_BESIDE_FROM : NIGH_HELP_FROM;

    return message->refer == NIGH_REFER_CMA && message->wanted >= least && (context->crowd.full || beside) &&
           !context->referred && !(context->guard & NIGH_GUARD_THREADS) && !endpoint->self &&
           endpoint->state == NIGH_READY && nigh_plan_peer_reads(endpoint);
}

uint64_t nigh_help_slice(const struct nigh_message *message)
{
    return half_of(message->wanted);
}

bool nigh_help_cannot(const struct nigh_message *message, uint32_t cpu)
{
    return message->cpu && message->cpu == cpu;
}

static uint32_t next_offer(const struct nigh_endpoint *endpoint)
{
    return endpoint->offers == UINT32_MAX ? 1 : endpoint->offers + 1; /* 0 is none */
}

/* Of several each side copies whole ones by turns. */
static bool is_one_slice(const struct nigh_message *message)
{
    const struct nigh_context *context = message->endpoint->context;

    return nigh_beside_is_on(context) && message->wanted < NIGH_HELP_HALVES_FROM && !message->got &&
           context->pulls->next;
}

/* What was copied before was not counted in slices. */
static bool has_slices(const struct nigh_message *message, uint32_t least)
{
    return message->got % message->slice == 0 && slices_of(message) - slices_got(message) >= least;
}

static void offer(struct nigh_message *message)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    struct nigh_wire_help help = {(uintptr_t)message->to, message->wanted};
    uint32_t number = next_offer(endpoint);
    uint64_t *word = &endpoint->pair->offered[slot_of(number)];
    bool one = is_one_slice(message);

    message->slice = slice_of(message->wanted, one);
    if (!has_slices(message, one ? 1 : 2))
        return;
    /* Relaxed: the slot that tells of it is published behind. */
    nigh_store_relaxed(word, word_of(number, slices_got(message)));
    /* At once or not: an answer that waits for room may be overtaken by the message's FINISH, behind
     * which nobody knows the number. */
    if (nigh_link_send(endpoint, nigh_head_make(NIGH_K_HELP, 0, 0, one ? NIGH_F_ONE : 0), message->id, number,
                       &help, sizeof(help))) {
        nigh_store_relaxed(word, 0);
        return;
    }
    endpoint->offers = number;
    endpoint->offered[slot_of(number)] = message;
    message->offer = number;
}

/* In a crowd one at a time, as many senders take turns; beside a CPU of its own a sender has the next ones to go on
 * with while we are at a slice of ours. */
static bool has_room(const struct nigh_endpoint *endpoint)
{
    if (!endpoint->context->crowd.full)
        return !endpoint->offered[slot_of(next_offer(endpoint))];
    for (unsigned i = 0; i < NIGH_OFFERS; i++)
        if (endpoint->offered[i])
            return false;
    return true;
}

/* A message by itself, as in a tree, is best copied where it is used next if ranks outnumber CPUs: a broadcast of 1 MiB
 * 1.1 to 1.25 in place of 1.08. */
static bool is_by_itself(const struct nigh_context *context)
{
    return context->crowd.full && !context->pulls->next && !context->matcher.arrived_count;
}

void nigh_help_offer(struct nigh_context *context)
{
    /* In a crowd the newest, of which the receiver copies nothing for a while; else in the order in which it does. */
    bool crowd = context->crowd.full;
    struct nigh_message *message = crowd ? context->pulls_last : context->pulls;
    uint32_t cpu;

    if (!message || is_by_itself(context))
        return;
    cpu = nigh_near_cpu();
    for (; message; message = crowd ? message->before : message->next)
        if (!message->offer && has_room(message->endpoint) && nigh_help_may(message) &&
            !nigh_help_cannot(message, cpu))
            offer(message);
}

/* HELP_SEE here, too: what is put back may have been written in part, and may be the host's again. */
static uint32_t claimed(const struct nigh_message *message)
{
    const uint64_t *word = message->endpoint->peer_claimed + slot_of(message->offer);

    return count_of(nigh_load_acquire(word, HELP_SEE), message->offer);
}

static uint32_t written(const struct nigh_message *message)
{
    const uint64_t *word = message->endpoint->peer_written + slot_of(message->offer);

    return count_of(nigh_load_acquire(word, HELP_SEE), message->offer);
}

bool nigh_help_has_begun(const struct nigh_message *message)
{
    return message->offer && claimed(message);
}

uint64_t nigh_help_take(struct nigh_message *message)
{
    uint32_t all = slices_of(message), mine = slices_got(message), slice = message->slice;
    uint64_t *word = &message->endpoint->pair->offered[slot_of(message->offer)];
    uint64_t left = message->wanted - message->got;

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
    uint32_t left;

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
    nigh_store_relaxed(&message->endpoint->pair->offered[slot_of(message->offer)], 0);
    nigh_fence_full(HELP_TAKE);
}

void nigh_help_end(struct nigh_message *message)
{
    if (!message->offer)
        return;
    nigh_help_withdraw(message);
    message->endpoint->offered[slot_of(message->offer)] = NULL;
    message->offer = 0;
}

/* ---- the sender's ------------------------------------------------------------------------------------------ */

static bool is_one(const struct nigh_help *help)
{
    return help->slice == help->bytes;
}

/* The receiver, too, is at that which it asked for first: of that the other half, if it has one; else that which it
 * comes to last. */
static bool goes_before(const struct nigh_help *help, const struct nigh_help *other)
{
    bool older = (int32_t)(help->offer - other->offer) < 0;

    return is_one(help) == is_one(other) ? older != is_one(help) : !is_one(help);
}

/* The one to go on with. NULL: none. */
static struct nigh_help *first_of(struct nigh_endpoint *endpoint)
{
    struct nigh_help *first = NULL;

    for (unsigned i = 0; i < NIGH_OFFERS; i++) {
        struct nigh_help *help = &endpoint->help[i];

        if (help->op && (!first || goes_before(help, first)))
            first = help;
    }
    return first;
}

bool nigh_help_asked(struct nigh_endpoint *endpoint, struct nigh_send_op *op, uint32_t offer, uint64_t to,
                     uint64_t bytes, bool one)
{
    struct nigh_context *context = endpoint->context;

    if (one && bytes >= NIGH_HELP_HALVES_FROM)
        return false;
    if (context->guard & NIGH_GUARD_THREADS || context->helps_not)
        return true;
    if (!first_of(endpoint)) {
        endpoint->next_asked = context->asked;
        context->asked = endpoint;
    }
    /* What stands there has ended, though its FINISH, which may have to wait for room, may come later: it has no more
     * slices to be claimed. */
    endpoint->help[slot_of(offer)] = (struct nigh_help){op, to, bytes, offer, 0, slice_of(bytes, one)};
    op->helped = true;
    return true;
}

static void forget(struct nigh_endpoint *endpoint, struct nigh_help *help)
{
    struct nigh_endpoint **link = &endpoint->context->asked;

    help->op = NULL;
    if (first_of(endpoint))
        return;
    while (*link != endpoint)
        link = &(*link)->next_asked;
    *link = endpoint->next_asked;
}

void nigh_help_forget(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    for (unsigned i = 0; op->helped && i < NIGH_OFFERS; i++)
        if (endpoint->help[i].op == op)
            forget(endpoint, &endpoint->help[i]);
    op->helped = false;
}

static void say_claimed(struct nigh_endpoint *endpoint, const struct nigh_help *help, uint32_t count)
{
    uint64_t *word = &endpoint->pair->claimed[slot_of(help->offer)];

    nigh_store_release(word, word_of(help->offer, count), HELP_DONE);
}

/* Claims one more of `all`. */
static bool claim(struct nigh_endpoint *endpoint, const struct nigh_help *help, uint32_t all)
{
    uint64_t word;

    say_claimed(endpoint, help, help->taken + 1);
    nigh_fence_full(HELP_CLAIM);
    /* Relaxed: a count, and whether this offer still stands. */
    word = nigh_load_relaxed(endpoint->peer_offered + slot_of(help->offer));
    if (word >> 32 == help->offer && (uint32_t)word < all - help->taken && !nigh_endpoint_left(endpoint))
        return true;
    say_claimed(endpoint, help, help->taken);
    return false;
}

/*
 * What is written cannot be taken back, so it is looked first whether the number is still that process':
 * its private memory has what was drawn for it alone. Between the two calls it would have to die, be
 * waited for, and its number be given away.
 */
static int probe(struct nigh_endpoint *endpoint)
{
    uint64_t now = nigh_clock_ns();
    int rc;

    if (now - endpoint->probed < PROBED_NS)
        return 0;
    rc = nigh_cma_probe(endpoint->pid, endpoint->view.layout.nonce_address, endpoint->incarnation);
    if (!rc)
        endpoint->probed = now;
    return rc;
}

static int write_slice(struct nigh_endpoint *endpoint, const struct nigh_help *help, uint32_t all)
{
    uint64_t at = (uint64_t)(all - help->taken - 1) * help->slice, left = help->bytes - at;
    int rc = probe(endpoint);

    if (rc)
        return rc;
    rc = nigh_cma_write(endpoint->pid, help->to + at, help->op->buffer + at,
                        left < help->slice ? left : help->slice);
    endpoint->context->helps_not |= rc == -EPERM || rc == -ENOSYS;
    return rc;
}

/* A slice: its bytes. 0: there was none. */
static uint32_t help_once(struct nigh_endpoint *endpoint)
{
    struct nigh_help *help = first_of(endpoint);
    uint32_t slice = help->slice, all = slices_in(help->bytes, slice);
    bool ours = help->taken < all && claim(endpoint, help, all);
    int rc = ours ? write_slice(endpoint, help, all) : 0;

    if (ours && !rc) {
        uint64_t *word = &endpoint->pair->written[slot_of(help->offer)];

        nigh_store_release(word, word_of(help->offer, ++help->taken), HELP_DONE);
    } else {
        say_claimed(endpoint, help, help->taken);
        forget(endpoint, help);
    }
    /* It may sleep until we are done with it. */
    nigh_link_published(endpoint);
    return ours ? slice : 0;
}

/* The next time another one: of the first there may always be a next message. */
static void let_pass(struct nigh_context *context)
{
    struct nigh_endpoint *first = context->asked, **link = &context->asked;

    if (!first || !first->next_asked)
        return;
    *link = first->next_asked;
    while (*link)
        link = &(*link)->next_asked;
    first->next_asked = NULL;
    *link = first;
}

bool nigh_help_progress(struct nigh_context *context)
{
    uint32_t bytes = 0;

    while (context->asked && context->crowd.full && bytes < TURN_BYTES)
        bytes += help_once(context->asked);
    if (context->crowd.full)
        return bytes != 0;
    while (context->asked && !bytes)
        bytes = help_once(context->asked);
    let_pass(context);
    return bytes != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/helper.c - the sender's side of help.h. */
#include "plugin/context.h"
#include "plugin/help.h"
#include "plugin/run.h"
#include "plugin/send.h"
#include "shm/clock.h"
#include "shm/cma.h"
#include <errno.h>

/* What a sender that shares its CPU copies before its host has its turn: as much as a receiver does. */
#define TURN_BYTES (512u * 1024)

/* Slices that are written in one call: one of a message, or all of several short ones. */
struct turn {
    struct nigh_help *help[NIGH_RUN_MESSAGES];
    struct nigh_run run;
};

static bool is_one(const struct nigh_help *help)
{
    return help->slice == help->bytes;
}

static uint64_t slices_of(const struct nigh_help *help)
{
    return nigh_help_slices(help->bytes, help->slice);
}

static bool is_before(const struct nigh_help *help, const struct nigh_help *other)
{
    return (int32_t)(help->offer - other->offer) < 0;
}

/* What the receiver asked for first. NULL: nothing. */
static struct nigh_help *first_of(struct nigh_endpoint *endpoint)
{
    struct nigh_help *first = NULL;

    for (unsigned i = 0; i < NIGH_OFFERS; i++) {
        struct nigh_help *help = &endpoint->help[i];

        if (help->op && (!first || is_before(help, first)))
            first = help;
    }
    return first;
}

bool nigh_help_asked(struct nigh_endpoint *endpoint, struct nigh_send_op *op, uint32_t offer, uint64_t to,
                     uint64_t bytes, bool one)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_help help = {op, to, bytes, offer, 0, nigh_help_slice_of(bytes, one)};

    /* Each message is asked for once. */
    if (op->helped || (one && bytes >= NIGH_HELP_HALVES_FROM) || slices_of(&help) > NIGH_HELP_SLICES_MAX)
        return false;
    if (context->guard & NIGH_GUARD_THREADS || context->helps_not)
        return true;
    if (!endpoint->asked_count++) {
        endpoint->next_asked = context->asked;
        context->asked = endpoint;
    }
    /* What stands there has ended, though its FINISH, which may have to wait for room, may come later: it has no more
     * slices to be claimed. */
    endpoint->asked_count -= endpoint->help[nigh_help_slot(offer)].op != NULL;
    endpoint->help[nigh_help_slot(offer)] = help;
    op->helped = true;
    return true;
}

static void forget(struct nigh_endpoint *endpoint, struct nigh_help *help)
{
    struct nigh_endpoint **link = &endpoint->context->asked;

    help->op = NULL;
    if (--endpoint->asked_count)
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

static void say(struct nigh_endpoint *endpoint, const struct nigh_help *help, uint32_t claimed)
{
    uint64_t *word = &endpoint->pair->helped[nigh_help_slot(help->offer)];

    nigh_store_release(word, nigh_help_word(help->offer, claimed << 16 | help->taken), HELP_DONE);
}

/* Is the slice that was claimed ours? It was said before the fence. */
static bool is_ours(const struct nigh_endpoint *endpoint, const struct nigh_help *help)
{
    /* Relaxed: a count, and whether this offer still stands. */
    uint64_t word = nigh_load_relaxed(endpoint->peer_offered + nigh_help_slot(help->offer));

    return word >> 32 == help->offer && (uint32_t)word < slices_of(help) - help->taken &&
           !nigh_endpoint_left(endpoint);
}

static void put_back(struct nigh_endpoint *endpoint, struct nigh_help *help)
{
    say(endpoint, help, help->taken);
    forget(endpoint, help);
}

static bool add(struct turn *turn, struct nigh_help *help)
{
    uint64_t at = (uint64_t)(slices_of(help) - help->taken - 1) * help->slice, left = help->bytes - at;

    if (!nigh_run_add(&turn->run, help->op->buffer + at, help->to + at,
                      left < help->slice ? left : help->slice))
        return false;
    turn->help[turn->run.count - 1] = help;
    return true;
}

/* Short ones behind the first, to half of what was asked for: the receiver may be about to come back for the rest. */
static void add_next_ones(struct nigh_endpoint *endpoint, struct turn *turn)
{
    const struct nigh_help *first = turn->help[0];

    for (uint32_t i = 1; is_one(first) && turn->run.count < endpoint->asked_count / 2 && i < NIGH_OFFERS;
         i++) {
        struct nigh_help *help = &endpoint->help[nigh_help_slot(first->offer + i)];

        if (help->op && is_one(help) && !help->taken && !add(turn, help))
            break;
    }
}

/* Claims what it can of them; puts the others back, and takes them out. What is left has room, as all had. */
static void claim(struct nigh_endpoint *endpoint, struct turn *turn)
{
    struct turn all = *turn;

    for (uint32_t i = 0; i < all.run.count; i++)
        say(endpoint, all.help[i], all.help[i]->taken + 1);
    nigh_fence_full(HELP_CLAIM);
    turn->run.count = turn->run.bytes = 0;
    for (uint32_t i = 0; i < all.run.count; i++) {
        if (is_ours(endpoint, all.help[i]))
            add(turn, all.help[i]);
        else
            put_back(endpoint, all.help[i]);
    }
}

/*
 * What is written cannot be taken back, so it is looked first whether the number is still that process':
 * its private memory has what was drawn for it alone. Between the two calls it would have to die, be
 * waited for, and its number be given away. That look takes 0.55 us, a tenth of a slice of 64 KiB.
 */
static int probe(struct nigh_endpoint *endpoint)
{
    uint64_t now = nigh_clock_ns();
    int rc;

    endpoint->early_ns = now;
    if (nigh_endpoint_marked(endpoint))
        return -ESRCH;
    if (now - endpoint->probed < NIGH_NUMBER_KEPT_NS)
        return 0;
    rc = nigh_cma_probe(endpoint->pid, endpoint->view.layout.nonce_address, endpoint->incarnation);
    if (!rc)
        endpoint->probed = now;
    return rc;
}

static int write_one(struct nigh_endpoint *endpoint, const struct iovec *here, const struct iovec *there)
{
    int rc = nigh_cma_write(endpoint->pid, (uintptr_t)there->iov_base, here->iov_base, here->iov_len);

    endpoint->context->helps_not |= rc == -EPERM || rc == -ENOSYS;
    return rc;
}

/* All of them, or, where that fails, one by one. */
static void write_turn(struct nigh_endpoint *endpoint, struct turn *turn)
{
    const struct nigh_run *run = &turn->run;
    bool all = false;
    int rc = probe(endpoint);

    if (!rc && run->count > 1)
        all = !nigh_cma_write_several(endpoint->pid, run->there, run->here, run->count, run->bytes);
    for (uint32_t i = 0; i < run->count; i++) {
        struct nigh_help *help = turn->help[i];

        if (rc || (!all && write_one(endpoint, &run->here[i], &run->there[i]))) {
            put_back(endpoint, help);
            continue;
        }
        help->taken++;
        say(endpoint, help, help->taken);
        /* All of it is in the receiver's buffer: no FINISH follows. */
        if (is_one(help))
            nigh_send_complete(endpoint, help->op, 0, help->op->bytes);
    }
}

/* A slice, or several short ones: its bytes. 0: there was none. */
static uint64_t help_once(struct nigh_endpoint *endpoint)
{
    struct nigh_help *help = first_of(endpoint);
    struct turn turn = {.run.count = 0};

    if (help->taken == slices_of(help)) {
        forget(endpoint, help);
        return 0;
    }
    add(&turn, help);
    add_next_ones(endpoint, &turn);
    claim(endpoint, &turn);
    if (turn.run.count)
        write_turn(endpoint, &turn);
    /* It may sleep until we are done with it. */
    nigh_link_published(endpoint);
    return turn.run.bytes;
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
    uint64_t bytes = 0;

    while (context->asked && context->crowd.full && bytes < TURN_BYTES)
        bytes += help_once(context->asked);
    if (context->crowd.full)
        return bytes != 0;
    while (context->asked && !bytes)
        bytes = help_once(context->asked);
    let_pass(context);
    return bytes != 0;
}

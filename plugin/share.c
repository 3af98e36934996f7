/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/share.c - which buffers are copied once for several receivers, and for how long. A copy is as good as its buffer while a
 * send of that is not complete. That others will follow the first one cannot be known: hosts that have done so do it again.
 */
#include "plugin/share.h"
#include "plugin/context.h"
#include "plugin/shuttle.h"
#include "shm/copy.h"

/* A second receiver speaks for several, one that stays alone against it, and that weighs more: two of them, and a length has to show
 * it again; and where it goes to and fro, three of four messages go the way they would have. */
#define SCORE_MOST  4
#define SCORE_ALONE 3

int nigh_shares_open(struct nigh_context *context)
{
    int rc = nigh_extents_create(NIGH_SHARES_BYTES / NIGH_PAGE, &context->shares.extents);

    context->shares.open = !rc;
    return rc;
}

void nigh_shares_close(struct nigh_context *context)
{
    if (context->shares.open)
        nigh_extents_destroy(&context->shares.extents);
    context->shares.open = false;
}

/* ---- what will follow -------------------------------------------------------------------------------------- */

static struct nigh_guess *guess_of(struct nigh_shares *shares, uint64_t bytes)
{
    static_assert(NIGH_GUESSES == 16, "four bits of a product");
    return &shares->guess[bytes * UINT64_C(0x9e3779b97f4a7c15) >> 60];
}

/* Notes a send. By what went before it, are others of its buffer to be expected? */
static bool expects_others(struct nigh_shares *shares, const struct nigh_send *send,
                           const struct nigh_endpoint *to)
{
    struct nigh_guess *guess = guess_of(shares, send->bytes);
    bool others = guess->bytes == send->bytes && guess->score > 0;

    if (guess->bytes != send->bytes)
        *guess = (struct nigh_guess){.bytes = send->bytes};
    else if (guess->buffer == send->buffer && guess->to != to && guess->score < SCORE_MOST)
        guess->score++;
    guess->buffer = send->buffer;
    guess->to = to;
    return others;
}

static void learn(struct nigh_shares *shares, const struct nigh_share *share)
{
    struct nigh_guess *guess = guess_of(shares, share->bytes);

    if (guess->bytes != share->bytes)
        return;
    if (share->ever > 1)
        guess->score = SCORE_MOST;
    else if (guess->score > 0)
        guess->score -= SCORE_ALONE;
}

/* ---- the copies -------------------------------------------------------------------------------------------- */

static uint64_t place_of(const struct nigh_context *context, const struct nigh_share *share)
{
    const struct nigh_arena_header *layout = &context->arena.layout;

    return layout->heap_off + layout->heap_bytes + share->copy->page * NIGH_PAGE;
}

static void drop(struct nigh_context *context, struct nigh_share *share)
{
    nigh_extents_give(&context->shares.extents, share->copy);
    share->copy = NULL;
}

/* The place that was given back last, mostly: its lines are still near. False: there is none. */
static bool copy(struct nigh_context *context, struct nigh_share *share)
{
    struct nigh_shares *shares = &context->shares;

    if (shares->refused)
        return false;
    share->copy = nigh_extents_take(&shares->extents, (share->bytes + NIGH_PAGE - 1) / NIGH_PAGE);
    if (!share->copy)
        return false;
    shares->refused =
        nigh_arena_commit_if(&context->arena, place_of(context, share), share->copy->pages * NIGH_PAGE) != 0;
    if (shares->refused) {
        drop(context, share);
        return false;
    }
    nigh_copy_select(NIGH_COPY_PLAIN)(context->arena.base + place_of(context, share), share->buffer,
                                      share->bytes);
    return true;
}

/* Of that buffer, or a vacant one made its own. NULL: too many are being sent. */
static struct nigh_share *share_of(struct nigh_shares *shares, const struct nigh_send *send)
{
    struct nigh_share *vacant = NULL;

    for (uint32_t i = 0; i < NIGH_SHARES; i++) {
        struct nigh_share *share = &shares->at[i];

        if (!share->sends)
            vacant = share;
        else if (share->buffer == send->buffer && share->bytes == send->bytes)
            return share;
    }
    if (vacant)
        *vacant = (struct nigh_share){.buffer = send->buffer, .bytes = send->bytes};
    return vacant;
}

/* Not what completes unasked, as up to NIGH_EAGER all does; nor what waits for its peer to attach, perhaps for ever. */
bool nigh_share_is_for(const struct nigh_endpoint *endpoint, uint64_t bytes)
{
    const struct nigh_context *context = endpoint->context;

    return context->crowd.full && context->config.path < 0 && bytes > context->config.eager_bytes &&
           bytes <= NIGH_SHARE_MAX && endpoint->state == NIGH_READY && !endpoint->self;
}

/* Ranks that run in turns are slow in chunks, one receiver or several: what nobody answers, as in a gather, finds no shuttle. */
static bool would_take_chunks(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    return !nigh_plan_in_place(endpoint, bytes) && !nigh_shuttle_takes(endpoint, bytes);
}

bool nigh_share_begin(struct nigh_endpoint *endpoint, const struct nigh_send *send, struct nigh_send_op *op,
                      uint64_t *offset)
{
    struct nigh_context *context = endpoint->context;
    bool others = expects_others(&context->shares, send, endpoint);
    struct nigh_share *share = share_of(&context->shares, send);

    if (!share)
        return false;
    others |= share->sends != 0 || would_take_chunks(endpoint, send->bytes);
    share->sends++;
    share->ever++;
    op->share = share;
    if (!others || (!share->copy && !copy(context, share)))
        return false;
    *offset = place_of(context, share);
    return true;
}

void nigh_share_end(struct nigh_context *context, struct nigh_send_op *op)
{
    struct nigh_share *share = op->share;

    op->share = NULL;
    if (--share->sends || !share->copy)
        return;
    learn(&context->shares, share);
    drop(context, share);
}

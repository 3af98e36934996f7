/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/share.c - which buffers are copied once for several receivers, and for how long. A copy is as good as its
 * buffer while a send of that is not complete, or the host does not know yet that it is. That others will follow the
 * first one cannot be known: hosts that have done so do it again.
 */
#include "plugin/share.h"
#include "plugin/context.h"
#include "plugin/send.h"
#include "plugin/shuttle.h"
#include "shm/clock.h"
#include "shm/copy.h"
#include <errno.h>

/* A second receiver speaks for several, one that stays alone against it, and that weighs more: two of them, and a
 * length has to show it again; and where it goes to and fro, three of four messages go the way they would have. */
#define SCORE_MOST  4
#define SCORE_ALONE 3

/* The first page of a copy of so many bytes is timed, which costs 70 ns; a page that takes longer than so many times
 * half of far_ns is slow: 720 ns, unless the tuning file says otherwise; on Intel's CPUs 4.5 us, as good as never. */
#define TIMED_FROM         32768u
#define SLOW_HALF_HANDOFFS 9u

/* Looking at the clock twice takes 40 ns, or, where that is a system call, as long as a page. */
static uint64_t clock_cost(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 8; i++) {
        uint64_t before = nigh_clock_ns(), took = nigh_clock_ns() - before;

        least = took < least ? took : least;
    }
    return least;
}

int nigh_shares_open(struct nigh_context *context)
{
    int rc = nigh_extents_create(NIGH_SHARES_BYTES / NIGH_PAGE, &context->shares.extents);

    context->shares.slow_ns = clock_cost() + context->config.tune.far_ns * SLOW_HALF_HANDOFFS / 2;
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

static void note_lone(struct nigh_guess *guess, struct nigh_share *share)
{
    if (!share->lone && guess->score > 0)
        guess->score -= SCORE_ALONE;
    share->lone = true;
}

/*
 * Another buffer follows: has the last one a copy that one peer alone was sent? That is noted now and not when it is
 * complete, as an alltoall posts all of its messages first, and behind an allgather of that length each had a copy. Both
 * in turn, of 128 and 512 KiB over Intel MPI, 8 ranks on 2 CPUs: 0.88 of the time. What guess->share names may be
 * another buffer's by now.
 */
static void note_last(struct nigh_guess *guess)
{
    struct nigh_share *share = guess->share;

    if (share && share->sends && share->ever == 1 && share->copy && share->buffer == guess->buffer &&
        share->bytes == guess->bytes)
        note_lone(guess, share);
}

/* Notes a send. By what went before it, are others of its buffer to be expected? */
static bool expects_others(struct nigh_shares *shares, const struct nigh_send *send,
                           const struct nigh_endpoint *to)
{
    struct nigh_guess *guess = guess_of(shares, send->bytes);
    bool others;

    if (guess->bytes != send->bytes)
        *guess = (struct nigh_guess){.bytes = send->bytes};
    else if (guess->buffer != send->buffer)
        note_last(guess);
    others = guess->score > 0;
    if (guess->buffer == send->buffer && guess->to != to && guess->score < SCORE_MOST)
        guess->score++;
    guess->buffer = send->buffer;
    guess->to = to;
    return others;
}

static void learn(struct nigh_shares *shares, struct nigh_share *share)
{
    struct nigh_guess *guess = guess_of(shares, share->bytes);

    if (guess->bytes != share->bytes)
        return;
    if (share->ever > 1)
        guess->score = SCORE_MOST;
    else
        note_lone(guess, share);
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

/* The first page is timed, whatever follows it. In quarters all is copied, as their pages are to begin together. */
static void copy_out(struct nigh_context *context, uint8_t *to, const struct nigh_share *share)
{
    nigh_copy_fn past = nigh_copy_select(NIGH_COPY_NT);
    enum nigh_copy_kernel kernel = nigh_context_kernel(context, share->bytes);
    const uint8_t *from = share->buffer;
    uint64_t started, done = 0;

    if (past && share->bytes >= TIMED_FROM) {
        started = nigh_clock_ns();
        nigh_copy_select(NIGH_COPY_PLAIN)(to, from, NIGH_PAGE);
        if (nigh_shares_note_page(&context->shares, nigh_clock_ns() - started)) {
            past(to + NIGH_PAGE, from + NIGH_PAGE, share->bytes - NIGH_PAGE);
            return;
        }
        done = kernel == NIGH_COPY_QUARTERS ? 0 : NIGH_PAGE;
    }
    nigh_copy_select(kernel)(to + done, from + done, share->bytes - done);
}

/* The place that was given back last, mostly: its lines are still in caches. False: there is none. */
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
    copy_out(context, context->arena.base + place_of(context, share), share);
    return true;
}

/* Of that buffer, or a vacant one made its own. NULL: too many are being sent. */
static struct nigh_share *share_of(struct nigh_context *context, const struct nigh_send *send)
{
    struct nigh_shares *shares = &context->shares;
    struct nigh_share *vacant = NULL;

    for (uint32_t i = 0; i < NIGH_SHARES; i++) {
        struct nigh_share *share = &shares->at[i];

        if (!share->sends)
            vacant = share;
        else if (share->buffer == send->buffer && share->bytes == send->bytes &&
                 context->cq.told < share->until)
            return share;
    }
    if (vacant) {
        *vacant = (struct nigh_share){.buffer = send->buffer, .bytes = send->bytes, .until = UINT64_MAX};
        guess_of(shares, send->bytes)->share = vacant;
    }
    return vacant;
}

/* Not for what waits for its peer to attach, perhaps for ever. */
static bool is_open(const struct nigh_endpoint *endpoint)
{
    const struct nigh_context *context = endpoint->context;

    return context->crowd.full && context->config.path < 0 && endpoint->state == NIGH_READY &&
           !endpoint->self;
}

bool nigh_share_is_for(const struct nigh_endpoint *endpoint, uint64_t bytes)
{
    return is_open(endpoint) && bytes > endpoint->context->config.eager_bytes && bytes <= NIGH_SHARE_MAX;
}

uint64_t nigh_share_from(const struct nigh_endpoint *endpoint)
{
    uint64_t above = endpoint->context->config.eager_bytes;

    if (above > NIGH_SHARE_ABOVE)
        above = NIGH_SHARE_ABOVE;
    return is_open(endpoint) ? above + 1 : 0;
}

/* Ranks that run in turns are slow in chunks, one receiver or several: what nobody answers, as in a
 * gather, finds no shuttle. */
static bool would_take_chunks(struct nigh_endpoint *endpoint, uint64_t bytes, bool in_place)
{
    return !in_place && !nigh_shuttle_takes(endpoint, bytes);
}

bool nigh_share_begin(struct nigh_endpoint *endpoint, const struct nigh_send *send, struct nigh_send_op *op,
                      bool in_place, uint64_t *offset)
{
    struct nigh_context *context = endpoint->context;
    bool others = expects_others(&context->shares, send, endpoint);
    struct nigh_share *share = share_of(context, send);

    if (!share)
        return false;
    others |= share->sends != 0 || would_take_chunks(endpoint, send->bytes, in_place);
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

/* ---- what completes when it is posted ---------------------------------------------------------------------------- */

static struct nigh_send_op *copy_op(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_send_op *op = nigh_slab_take(&context->send_ops);

    if (!op)
        return NULL;
    nigh_slab_zero(op, sizeof(*op));
    op->kind = NIGH_SEND_REFER;
    op->refer = NIGH_REFER_COPY;
    op->bytes = send->bytes;
    if (nigh_ids_take(&endpoint->out, op, &op->id)) {
        nigh_slab_give(&context->send_ops, op);
        return NULL;
    }
    return op;
}

/* Its completion is the next one. Of a silent one the host may know otherwise that it is complete,
 * so nothing is shared with it later. */
static void hold(struct nigh_context *context, struct nigh_share *share, const struct nigh_send *send)
{
    if (!(send->flags & NIGH_SILENT))
        share->until = nigh_cq_number(&context->cq);
    else if (!share->sends)
        share->until = 0;
    share->sends++;
    share->ever++;
}

/* With a copy of it, which nobody holds yet where it is new. NULL: it goes another way. */
static struct nigh_share *copy_of(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    struct nigh_context *context = endpoint->context;
    bool others = expects_others(&context->shares, send, endpoint);
    struct nigh_share *share = share_of(context, send);

    if (!share || nigh_link_room(endpoint, 1))
        return NULL;
    others |= share->sends != 0;
    return others && (share->copy || copy(context, share)) ? share : NULL;
}

int nigh_share_whole(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_wire_refer refer = {.total = send->bytes, .refer = NIGH_REFER_COPY};
    struct nigh_share *share;
    struct nigh_send_op *op;

    if (send->bytes <= NIGH_SHARE_ABOVE || send->bytes > NIGH_SHARE_MAX || !is_open(endpoint))
        return -EAGAIN;
    share = copy_of(endpoint, send);
    if (!share)
        return -EAGAIN;
    op = copy_op(endpoint, send);
    if (!op) {
        if (!share->sends)
            drop(context, share);
        return -EAGAIN;
    }
    op->share = share;
    hold(context, share, send);
    refer.id = op->id;
    refer.where = place_of(context, share);
    /* There is room. */
    nigh_link_send(endpoint, nigh_head_make(NIGH_K_REFER, 0, send->tclass, 0), send->tag, send->imm, &refer,
                   sizeof(refer));
    return 0;
}

bool nigh_share_outlives(const struct nigh_send_op *op)
{
    return op->kind == NIGH_SEND_REFER && op->refer == NIGH_REFER_COPY;
}

void nigh_share_reclaim(struct nigh_endpoint *endpoint)
{
    for (uint32_t id = 0; id < endpoint->out.size; id++) {
        struct nigh_send_op *op = endpoint->out.at[id];

        if (op && nigh_share_outlives(op))
            nigh_send_discard(endpoint, op);
    }
}

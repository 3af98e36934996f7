/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/collective_fold.c - collectives that compute. Every one is a fold from rank 0 on, ((x0 op x1) op
 * x2) ..., whatever way the elements have come: so a sum of floats is the same on every rank, in every
 * run and with every algorithm to come.
 */
#include "lib/collective.h"
#include "lib/reduce.h"

#include <string.h>

/* Long ones go in slices, one per rank, which it alone folds, and these in pieces: what comes in fits the caches. */
#define PIECES    (UINT64_C(1) << 20) /* of all ranks together */
#define PIECE_MAX (UINT64_C(256) << 10)
#define PIECE_MIN (UINT64_C(16) << 10)
#define SEGMENT   (UINT64_C(128) << 10) /* of a scan */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static const uint8_t *mine(const struct nigh_coll *coll)
{
    return coll->send ? coll->send : coll->recv;
}

/* ---- short: every rank has everything and folds for itself ---- */

/* Ranks 0 .. end-1 of what nigh_coll_share() gave, each from `offset` of its block on, into `out`. */
static void fold_all(const struct nigh_coll *coll, const uint8_t *all, uint64_t block, uint64_t offset,
                     int end, void *out)
{
    const uint8_t *folded = all + nigh_coll_place(coll, 0) * block + offset;

    if (end == 1 && coll->bytes)
        memcpy(out, folded, coll->bytes);
    for (int rank = 1; rank < end; rank++) {
        nigh_combine(coll->op, coll->type, out, folded, all + nigh_coll_place(coll, rank) * block + offset,
                     coll->count);
        folded = out;
    }
}

static int fold_short(struct nigh_coll *coll, uint64_t block)
{
    const uint8_t *all;
    int rc = nigh_coll_share(coll, mine(coll), block, &all), end = coll->size;

    if (rc)
        return rc;
    if (coll->what == NIGH_SCAN)
        end = coll->me + 1;
    else if (coll->what == NIGH_EXSCAN)
        end = coll->me;
    else if (coll->what == NIGH_REDUCE && coll->me != coll->root)
        end = 0;
    fold_all(coll, all, block, block == coll->bytes ? 0 : (unsigned)coll->me * coll->bytes, end, coll->recv);
    return 0;
}

/* ---- long: slices ---- */

/* Who folds what: rank i the elements from i * each on, `each` of them or what is left. */
struct slices {
    const struct nigh_coll *coll;
    uint64_t each; /* bytes; a multiple of 64, except of nigh_reduce_scatter() */
    uint64_t total;
    uint64_t piece; /* bytes of a slice that are folded at a time; a multiple of 64 */
    uint8_t *room;  /* a piece from every rank */
};

static uint64_t slice_begin(const struct slices *slices, int rank)
{
    return least((unsigned)rank * slices->each, slices->total);
}

static uint64_t slice_bytes(const struct slices *slices, int rank)
{
    return slice_begin(slices, rank + 1) - slice_begin(slices, rank);
}

/* The part of a rank's slice that piece `offset` has. */
static uint64_t piece_bytes(const struct slices *slices, int rank, uint64_t offset)
{
    uint64_t bytes = slice_bytes(slices, rank);

    return offset < bytes ? least(bytes - offset, slices->piece) : 0;
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static struct slices make_slices(struct nigh_coll *coll, uint64_t each, uint64_t total)
{
    struct slices slices = {.coll = coll, .each = each, .total = total};

    slices.piece = round_up(least(PIECES / (unsigned)coll->size, PIECE_MAX));
    if (slices.piece < PIECE_MIN)
        slices.piece = PIECE_MIN;
    slices.piece = least(slices.piece, round_up(each));
    return slices;
}

/* Folds what has come from all into `out`; waits for each in its turn. */
static int fold_piece(struct nigh_coll *coll, const struct slices *slices, const uint8_t *own, uint64_t bytes,
                      uint8_t *out)
{
    const uint8_t *folded = NULL;

    for (int rank = 0; rank < coll->size; rank++) {
        const uint8_t *next = rank == coll->me ? own : coll->peers[rank].in;
        int rc = nigh_coll_await(coll, &coll->peers[rank].receiving, NULL);

        if (rc)
            return rc;
        /* Only the last step may write where this rank's own elements lie, in place. */
        if (rank > 0 && bytes) {
            uint8_t *to = rank == coll->size - 1 ? out : slices->room;

            nigh_combine(coll->op, coll->type, to, folded, next, bytes / coll->width);
            next = to;
        }
        folded = next;
    }
    if (coll->size == 1 && bytes && out != own)
        memcpy(out, own, bytes);
    return 0;
}

/* Sends everybody his slice and folds this rank's own, piece by piece, into `out`. */
static int fold_slices(struct nigh_coll *coll, const struct slices *slices, uint8_t *out)
{
    const uint8_t *from = mine(coll), *own = from + slice_begin(slices, coll->me);
    int rc = 0;

    for (uint64_t offset = 0; !rc && offset < slices->each; offset += slices->piece) {
        uint64_t bytes = piece_bytes(slices, coll->me, offset);

        for (int rank = 0; rank < coll->size; rank++) {
            struct nigh_coll_peer *peer = &coll->peers[rank];

            peer->out = from + slice_begin(slices, rank) + offset;
            peer->out_bytes = piece_bytes(slices, rank, offset);
            peer->in = slices->room + (unsigned)rank * slices->piece;
            peer->in_bytes = bytes;
        }
        rc = nigh_coll_swap(coll);
        if (!rc)
            rc = fold_piece(coll, slices, own + offset, bytes, out + offset);
        if (!rc)
            rc = nigh_coll_drain(coll);
    }
    return rc;
}

/* Room for the pieces and `more` bytes behind them; agrees. */
static int begin_slices(struct nigh_coll *coll, struct slices *slices, uint64_t more)
{
    slices->room = nigh_coll_room(coll, (unsigned)coll->size * slices->piece + more);
    if (slices->room)
        (void)nigh_coll_meet_peers(coll);
    return nigh_coll_agree(coll);
}

static int reduce_scatter(struct nigh_coll *coll)
{
    struct slices slices = make_slices(coll, coll->bytes, (unsigned)coll->size * coll->bytes);
    uint8_t *out = coll->recv;
    int rc;

    /* In place the result would lie over what is still to be sent to rank 0: it is kept until all is sent. */
    if (!coll->send && coll->me > 0) {
        rc = begin_slices(coll, &slices, coll->bytes);
        out = slices.room + (unsigned)coll->size * slices.piece;
    } else {
        rc = begin_slices(coll, &slices, 0);
    }
    if (!rc)
        rc = fold_slices(coll, &slices, out);
    if (!rc && out != coll->recv)
        memcpy(coll->recv, out, coll->bytes);
    return rc;
}

static struct slices slices_of_vector(struct nigh_coll *coll)
{
    uint64_t each = round_up((coll->bytes + (unsigned)coll->size - 1) / (unsigned)coll->size);

    return make_slices(coll, each, coll->bytes);
}

static int allreduce(struct nigh_coll *coll)
{
    struct slices slices = slices_of_vector(coll);
    uint8_t *recv = coll->recv;
    int rc = begin_slices(coll, &slices, 0);

    if (!rc)
        rc = fold_slices(coll, &slices, recv + slice_begin(&slices, coll->me));
    for (int rank = 0; !rc && rank < coll->size; rank++)
        coll->peers[rank] = (struct nigh_coll_peer){.out = recv + slice_begin(&slices, coll->me),
                                                    .out_bytes = slice_bytes(&slices, coll->me),
                                                    .in = recv + slice_begin(&slices, rank),
                                                    .in_bytes = slice_bytes(&slices, rank)};
    if (!rc)
        rc = nigh_coll_swap(coll);
    return rc ? rc : nigh_coll_drain(coll);
}

static int reduce(struct nigh_coll *coll)
{
    struct slices slices = slices_of_vector(coll);
    bool is_root = coll->me == coll->root;
    uint8_t *out;
    int rc = begin_slices(coll, &slices, is_root ? 0 : slice_bytes(&slices, coll->me));

    if (rc)
        return rc;
    out = is_root ? (uint8_t *)coll->recv + slice_begin(&slices, coll->me)
                  : slices.room + (unsigned)coll->size * slices.piece;
    rc = fold_slices(coll, &slices, out);
    for (int rank = 0; !rc && rank < coll->size; rank++) {
        struct nigh_coll_peer *peer = &coll->peers[rank];

        *peer = (struct nigh_coll_peer){.out = NULL};
        if (is_root) {
            peer->in = (uint8_t *)coll->recv + slice_begin(&slices, rank);
            peer->in_bytes = slice_bytes(&slices, rank);
        } else if (rank == coll->root) {
            peer->out = out;
            peer->out_bytes = slice_bytes(&slices, coll->me);
        }
    }
    if (!rc)
        rc = nigh_coll_swap(coll);
    return rc ? rc : nigh_coll_drain(coll);
}

/* ---- long: a chain, in which each rank passes on what it has folded ---- */

struct chain {
    int from, to; /* -1: nobody */
    uint8_t *comes[2], *goes;
};

static int expect(struct nigh_coll *coll, const struct chain *chain, uint64_t offset)
{
    if (chain->from < 0 || offset >= coll->bytes)
        return 0;
    return nigh_coll_irecv(coll, chain->from, chain->comes[offset / SEGMENT % 2],
                           least(coll->bytes - offset, SEGMENT), &coll->peers[chain->from].receiving);
}

/* What was folded up to here including this rank's own elements goes on; what is the result stays. */
static int pass_on(struct nigh_coll *coll, const struct chain *chain, uint64_t offset)
{
    uint64_t bytes = least(coll->bytes - offset, SEGMENT);
    const uint8_t *own = mine(coll) + offset, *comes = chain->comes[offset / SEGMENT % 2];
    bool inclusive = coll->what == NIGH_SCAN;
    uint8_t *result =
        coll->recv ? (uint8_t *)coll->recv + offset : NULL; /* rank 0 of an exscan may have none */
    uint8_t *goes = inclusive ? result : chain->goes;

    if (chain->from >= 0 && (inclusive || chain->to >= 0))
        nigh_combine(coll->op, coll->type, goes, comes, own, bytes / coll->width);
    else if (goes != own && (inclusive || chain->to >= 0))
        memcpy(goes, own, bytes);
    if (!inclusive && chain->from >= 0)
        memcpy(result, comes, bytes);
    if (chain->to < 0)
        return 0;
    return nigh_coll_isend(coll, chain->to, goes, bytes, 0, &coll->peers[chain->to].sending);
}

static int scan(struct nigh_coll *coll)
{
    struct chain chain = {.from = coll->me - 1, .to = coll->me + 1 < coll->size ? coll->me + 1 : -1};
    uint8_t *room = nigh_coll_room(coll, 3 * SEGMENT);
    int rc;

    if (room) {
        chain.comes[0] = room;
        chain.comes[1] = room + SEGMENT;
        chain.goes = room + 2 * SEGMENT;
        (void)nigh_coll_meet_peers(coll);
    }
    rc = nigh_coll_agree(coll);
    if (!rc)
        rc = expect(coll, &chain, 0);
    for (uint64_t offset = 0; !rc && offset < coll->bytes; offset += SEGMENT) {
        if (chain.from >= 0)
            rc = nigh_coll_await(coll, &coll->peers[chain.from].receiving, NULL);
        if (!rc)
            rc = expect(coll, &chain, offset + SEGMENT);
        if (!rc && chain.to >= 0)
            rc = nigh_coll_await(coll, &coll->peers[chain.to].sending, NULL);
        if (!rc)
            rc = pass_on(coll, &chain, offset);
    }
    return rc ? rc : nigh_coll_drain(coll);
}

int nigh_coll_run_reducing(struct nigh_coll *coll)
{
    bool parts = coll->what == NIGH_REDUCE_SCATTER;
    uint64_t block = parts ? (unsigned)coll->size * coll->bytes : coll->bytes;

    if ((unsigned)coll->size * block <= (parts ? NIGH_COLL_SMALL_PARTS : NIGH_COLL_SMALL))
        return fold_short(coll, block);
    switch (coll->what) {
    case NIGH_REDUCE_SCATTER:
        return reduce_scatter(coll);
    case NIGH_ALLREDUCE:
        return allreduce(coll);
    case NIGH_REDUCE:
        return reduce(coll);
    default:
        return scan(coll);
    }
}

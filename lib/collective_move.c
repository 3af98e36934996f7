/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/collective_move.c - collectives that move elements and compute nothing. */
#include "lib/collective.h"

#include <string.h>

/* Long broadcasts go in segments, so that a rank passes one on while the next one comes. They fit the caches, and are
 * longer than what is sent before it is asked for (NIGH_EAGER): nobody runs far ahead. */
#define SEGMENT (UINT64_C(256) << 10)

static uint8_t *at(const void *buffer, uint64_t offset)
{
    return (uint8_t *)(uintptr_t)buffer + offset;
}

/* Unless it is there already. */
static void copy(void *to, const void *from, uint64_t bytes)
{
    if (to != from && bytes)
        memcpy(to, from, bytes);
}

/* Peers' places, all alike: `step` bytes from one rank's to the next. NULL: nothing goes there. */
static void plan(struct nigh_coll *coll, const void *out, uint64_t out_step, void *in, uint64_t in_step)
{
    for (int i = 0; i < coll->size; i++) {
        if (i == coll->me)
            continue;
        if (out) {
            coll->peers[i].out = at(out, (unsigned)i * out_step);
            coll->peers[i].out_bytes = coll->bytes;
        }
        if (in) {
            coll->peers[i].in = at(in, (unsigned)i * in_step);
            coll->peers[i].in_bytes = coll->bytes;
        }
    }
}

static void plan_one(struct nigh_coll *coll, int rank, const void *out, void *in)
{
    coll->peers[rank] = (struct nigh_coll_peer){
        .out = out, .in = in, .out_bytes = out ? coll->bytes : 0, .in_bytes = in ? coll->bytes : 0};
}

static int begin_long(struct nigh_coll *coll)
{
    (void)nigh_coll_meet_peers(coll);
    return nigh_coll_agree(coll);
}

/* ---- broadcast ---- */

static int log2_up(int value)
{
    int log = 0;

    while (1 << log < value)
        log++;
    return log;
}

/* A tree over the ranks from the root on, `v` being the distance: a chain, in which every rank sends each segment once,
 * or a binomial tree, in which a segment is everywhere after log2(n) sends. */
struct tree {
    bool chain;
    int parent; /* rank; -1: this is the root */
    int v, low; /* children: v + 1, or v + each power of two below `low` */
};

static struct tree tree_of(const struct nigh_coll *coll, uint64_t segments)
{
    int v = (coll->me - coll->root + coll->size) % coll->size, low = 1;
    bool chain = segments + (uint64_t)coll->size < segments * (uint64_t)log2_up(coll->size) + 2;

    if (chain)
        return (struct tree){true, v ? (coll->me + coll->size - 1) % coll->size : -1, v, 2};
    while (low < coll->size && (v & low) == 0)
        low *= 2;
    return (struct tree){false, v ? ((v & (v - 1)) + coll->root) % coll->size : -1, v, low};
}

static int pass_on(struct nigh_coll *coll, const struct tree *tree, const void *segment, uint64_t bytes)
{
    int rc = 0;

    for (int step = tree->low / 2; !rc && step > 0; step /= 2) {
        int child = (tree->v + step + coll->root) % coll->size;

        if (tree->v + step >= coll->size)
            continue;
        rc = nigh_coll_await(coll, &coll->peers[child].sending, NULL);
        if (!rc)
            rc = nigh_coll_isend(coll, child, segment, bytes, 0, &coll->peers[child].sending);
    }
    return rc;
}

static int expect(struct nigh_coll *coll, const struct tree *tree, uint64_t offset)
{
    uint64_t left = coll->bytes - offset;

    return nigh_coll_irecv(coll, tree->parent, at(coll->recv, offset), left < SEGMENT ? left : SEGMENT,
                           &coll->peers[tree->parent].receiving);
}

static int flow_down(struct nigh_coll *coll)
{
    struct tree tree = tree_of(coll, (coll->bytes + SEGMENT - 1) / SEGMENT);
    int rc = tree.parent >= 0 ? expect(coll, &tree, 0) : 0;

    for (uint64_t offset = 0; !rc && offset < coll->bytes; offset += SEGMENT) {
        uint64_t left = coll->bytes - offset;

        if (tree.parent >= 0)
            rc = nigh_coll_await(coll, &coll->peers[tree.parent].receiving, NULL);
        if (!rc && tree.parent >= 0 && left > SEGMENT)
            rc = expect(coll, &tree, offset + SEGMENT);
        if (!rc)
            rc = pass_on(coll, &tree, at(coll->recv, offset), left < SEGMENT ? left : SEGMENT);
    }
    return rc ? rc : nigh_coll_drain(coll);
}

static int bcast(struct nigh_coll *coll)
{
    const uint8_t *all;
    int rc;

    if (coll->bytes <= NIGH_COLL_SMALL) {
        rc = nigh_coll_cast(coll, coll->recv, coll->bytes, &all);
        if (!rc)
            copy(coll->recv, all, coll->bytes);
        return rc;
    }
    rc = begin_long(coll);
    return rc ? rc : flow_down(coll);
}

/* ---- one to all, all to one, all to all ---- */

/* What was planned is known to fit: all have agreed. */
static int swap(struct nigh_coll *coll)
{
    int rc = nigh_coll_swap(coll);

    return rc ? rc : nigh_coll_drain(coll);
}

static bool is_small(const struct nigh_coll *coll, uint64_t bytes_of_each)
{
    return (unsigned)coll->size * bytes_of_each <= NIGH_COLL_SMALL;
}

static int scatter(struct nigh_coll *coll)
{
    const uint8_t *from = coll->send ? coll->send : coll->recv, *all = from;
    bool is_root = coll->me == coll->root;
    int rc;

    if (is_small(coll, coll->bytes)) {
        rc = nigh_coll_cast(coll, from, (unsigned)coll->size * coll->bytes, &all);
        if (!rc && !is_root)
            copy(coll->recv, at(all, (unsigned)coll->me * coll->bytes), coll->bytes);
    } else {
        rc = begin_long(coll);
        if (!rc && is_root)
            plan(coll, from, coll->bytes, NULL, 0);
        if (!rc && !is_root)
            plan_one(coll, coll->root, NULL, coll->recv);
        if (!rc)
            rc = swap(coll);
    }
    if (!rc && is_root && coll->send)
        copy(coll->recv, at(from, (unsigned)coll->me * coll->bytes), coll->bytes);
    return rc;
}

/* This rank's part of a gather: in place it lies where it belongs. */
static const void *own_part(const struct nigh_coll *coll)
{
    return coll->send ? coll->send : at(coll->recv, (unsigned)coll->me * coll->bytes);
}

/* Of what nigh_coll_share() gives: those from this rank on come first. */
static void put_in_order(const struct nigh_coll *coll, const uint8_t *all)
{
    uint64_t before = (unsigned)coll->me * coll->bytes, behind = (unsigned)coll->size * coll->bytes - before;

    copy(at(coll->recv, before), all, behind);
    copy(coll->recv, all + behind, before);
}

static int gather(struct nigh_coll *coll)
{
    const void *mine = own_part(coll);
    bool is_root = coll->me == coll->root;
    const uint8_t *all;
    int rc;

    if (is_small(coll, coll->bytes)) {
        rc = nigh_coll_share(coll, mine, coll->bytes, &all);
        if (!rc && is_root)
            put_in_order(coll, all);
        return rc;
    }
    rc = begin_long(coll);
    if (rc)
        return rc;
    if (is_root) {
        plan(coll, NULL, 0, coll->recv, coll->bytes);
        copy(at(coll->recv, (unsigned)coll->me * coll->bytes), mine, coll->bytes);
    } else {
        plan_one(coll, coll->root, mine, NULL);
    }
    return swap(coll);
}

static int allgather(struct nigh_coll *coll)
{
    const void *mine = own_part(coll);
    const uint8_t *all;
    int rc;

    if (is_small(coll, coll->bytes)) {
        rc = nigh_coll_share(coll, mine, coll->bytes, &all);
        if (!rc)
            put_in_order(coll, all);
        return rc;
    }
    rc = begin_long(coll);
    if (rc)
        return rc;
    /* Straight from each to each: in shared memory no way is shorter than another, and nobody waits for a neighbour. */
    plan(coll, mine, 0, coll->recv, coll->bytes);
    copy(at(coll->recv, (unsigned)coll->me * coll->bytes), mine, coll->bytes);
    return swap(coll);
}

static int alltoall_long(struct nigh_coll *coll, uint64_t total)
{
    const uint8_t *from = coll->send;
    uint64_t mine = (unsigned)coll->me * coll->bytes;
    int rc;

    if (!from)
        from = nigh_coll_room(coll, total);
    rc = begin_long(coll);
    if (rc)
        return rc;
    if (!coll->send)
        memcpy(at(from, 0), coll->recv, total);
    plan(coll, from, coll->bytes, coll->recv, coll->bytes);
    copy(at(coll->recv, mine), from + mine, coll->bytes);
    return swap(coll);
}

static int alltoall(struct nigh_coll *coll)
{
    uint64_t total = (unsigned)coll->size * coll->bytes, mine = (unsigned)coll->me * coll->bytes;
    const uint8_t *all;
    int rc;

    if ((unsigned)coll->size * total > NIGH_COLL_SMALL_PARTS)
        return alltoall_long(coll, total);
    rc = nigh_coll_share(coll, coll->send ? coll->send : coll->recv, total, &all);
    for (int i = 0; !rc && i < coll->size; i++)
        copy(at(coll->recv, (unsigned)i * coll->bytes), all + nigh_coll_place(coll, i) * total + mine,
             coll->bytes);
    return rc;
}

int nigh_coll_run_moving(struct nigh_coll *coll)
{
    switch (coll->what) {
    case NIGH_BROADCAST:
        return bcast(coll);
    case NIGH_GATHER:
        return gather(coll);
    case NIGH_SCATTER:
        return scatter(coll);
    case NIGH_ALLGATHER:
        return allgather(coll);
    default:
        return alltoall(coll);
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tree.h - the members of a group by where they run: domains, each with a representative. Members of a domain exchange
 * with their representative, the representatives with each other. Pure functions of what each member has said of its place,
 * so that all members come to the same. docs/rationale/collectives.md, "Domains".
 */
#ifndef NIGH_COLL_TREE_H
#define NIGH_COLL_TREE_H

#include "nigh/transport.h"
#include "shm/where.h"

/* Groups of fewer have one domain, unless the host wants others. */
#define NIGH_TREE_LEAST 16u

struct nigh_tree {
    enum nigh_level level; /* FLAT: one domain */
    uint32_t members, domains;
    uint32_t print;                   /* of all below */
    uint32_t flat_ns, ns;             /* what the model says of a small allreduce, without and with domains */
    uint8_t domain[NIGH_GROUP_MAX];   /* of each member */
    uint8_t position[NIGH_GROUP_MAX]; /* of each member in its domain */
    uint8_t order[NIGH_GROUP_MAX];    /* all members, domain by domain */
    uint16_t start[NIGH_GROUP_MAX + 1]; /* of each domain in `order`: its first member is the lowest */
};

/* A member's word about itself: where it runs, and the level that its host wants. */
uint64_t nigh_tree_word(const struct nigh_where *where, enum nigh_level level);
/* Can it be such a word? */
bool nigh_tree_is_word(uint64_t word);

/* From the words of all members, each of which can be one. Unless all know the place at that level, and there are two domains
 * and more: FLAT. */
void nigh_tree_make(const uint64_t *words, uint32_t members, struct nigh_tree *out);

static inline uint32_t nigh_tree_size(const struct nigh_tree *tree, uint32_t domain)
{
    return (uint32_t)tree->start[domain + 1] - tree->start[domain];
}

/* The lowest member of a domain: in that of `root`, the root. NIGH_TREE_NO_ROOT: there is none. */
#define NIGH_TREE_NO_ROOT UINT32_MAX
static inline uint32_t nigh_tree_representative(const struct nigh_tree *tree, uint32_t domain, uint32_t root)
{
    if (root != NIGH_TREE_NO_ROOT && tree->domain[root] == domain)
        return root;
    return tree->order[tree->start[domain]];
}

/* What one member does in a small call, one step behind the other. */
enum nigh_tree_step {
    NIGH_TREE_COLLECT,   /* takes the input of its domain */
    NIGH_TREE_SHOW_UP,   /* shows it to the other representatives, or the root */
    NIGH_TREE_EXCHANGE,  /* takes what the other representatives have collected */
    NIGH_TREE_FINISH,    /* makes the result */
    NIGH_TREE_FROM_ROOT, /* takes the root's input: the result */
    NIGH_TREE_SHOW_DOWN, /* shows the result to its domain */
    NIGH_TREE_FROM_REPRESENTATIVE,
    NIGH_TREE_DONE,
};

/* The step behind `before`; the first one behind DONE. `op` is BARRIER, BROADCAST, REDUCE or ALLREDUCE. */
enum nigh_tree_step nigh_tree_next(const struct nigh_tree *tree, uint32_t op, uint32_t root, uint32_t me,
                                   enum nigh_tree_step before);

/* How representatives show what they have collected. */
enum nigh_tree_kind {
    NIGH_TREE_NOT = 0, /* the call is made without domains */
    NIGH_TREE_VECTORS, /* all of it: it is reduced in the order of the members */
    NIGH_TREE_PARTIAL, /* reduced: any order gives the same bits */
    NIGH_TREE_RELAY,   /* a long broadcast or allgather: unit by unit, as it comes (nigh_shape_relay()) */
};
static inline bool nigh_tree_is_small(enum nigh_tree_kind kind)
{
    return kind == NIGH_TREE_VECTORS || kind == NIGH_TREE_PARTIAL;
}

/* `vector`: bytes of what is reduced, or broadcast; of all blocks that are gathered. */
enum nigh_tree_kind nigh_tree_kind_of(const struct nigh_tree *tree, const struct nigh_collective *call,
                                      uint64_t vector);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/tree.c - see tree.h. */
#include "coll/tree.h"

#include <string.h>

/* ---- words --------------------------------------------------------------------------------------------- */

#define LEVEL_SHIFT 48

uint64_t nigh_tree_word(const struct nigh_where *where, enum nigh_level level)
{
    return (uint64_t)where->l3 | (uint64_t)where->node << 16 | (uint64_t)where->package << 32 |
           (uint64_t)level << LEVEL_SHIFT;
}

bool nigh_tree_is_word(uint64_t word)
{
    return word >> LEVEL_SHIFT <= NIGH_LEVEL_PACKAGE;
}

static enum nigh_level level_of(uint64_t word)
{
    return (enum nigh_level)(word >> LEVEL_SHIFT);
}

/* 0: not known. */
static uint32_t place_at(uint64_t word, enum nigh_level level)
{
    return (uint32_t)(word >> (16 * (level - NIGH_LEVEL_L3)) & 0xffff);
}

/* The level that all members want. A member that wants no domains decides for all, as does the widest of several levels. */
static enum nigh_level wanted(const uint64_t *words, uint32_t members)
{
    enum nigh_level most = NIGH_LEVEL_AUTO;

    for (uint32_t i = 0; i < members; i++) {
        enum nigh_level level = level_of(words[i]);

        if (level == NIGH_LEVEL_FLAT)
            return level;
        most = level > most ? level : most;
    }
    return most;
}

/* ---- the model ----------------------------------------------------------------------------------------- */

/* Nanoseconds of a cache line from one CPU to another. Their ratios decide, and differ little from machine to machine. */
enum { SAME_L3_NS = 50, SAME_PACKAGE_NS = 150, OTHER_PACKAGE_NS = 250 };
/* Loads that overlap; what each step beyond the first takes beside its loads. */
enum { OVERLAP = 8, STEP_NS = 50 };
/* Domains are taken where they save at least one part in so many: the model is no measurement. */
enum { SAVES = 5 };

static uint32_t handoff(uint64_t one, uint64_t other)
{
    uint32_t l3 = place_at(one, NIGH_LEVEL_L3), package = place_at(one, NIGH_LEVEL_PACKAGE);
    bool same_package = package == place_at(other, NIGH_LEVEL_PACKAGE);

    if (l3 != place_at(other, NIGH_LEVEL_L3))
        return same_package ? SAME_PACKAGE_NS : OTHER_PACKAGE_NS;
    /* Without an L3 in the lists a package is taken to share one. */
    return l3 || same_package ? SAME_L3_NS : OTHER_PACKAGE_NS;
}

/* One member loads a line of each of `others`. */
static uint32_t gather_ns(const uint64_t *words, uint32_t me, const uint8_t *others, uint32_t count)
{
    uint32_t most = 0, sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t ns = others[i] == me ? 0 : handoff(words[me], words[others[i]]);

        sum += ns;
        most = ns > most ? ns : most;
    }
    return most + (sum - most) / OVERLAP;
}

/* The slowest of them, each of which loads a line of each other one. */
static uint32_t exchange_ns(const uint64_t *words, const uint8_t *members, uint32_t count)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t ns = gather_ns(words, members[i], members, count);

        most = ns > most ? ns : most;
    }
    return most;
}

static uint32_t tree_ns(const uint64_t *words, const struct nigh_tree *tree)
{
    uint8_t representatives[NIGH_GROUP_MAX];
    uint32_t within = 0;

    for (uint32_t i = 0; i < tree->domains; i++) {
        const uint8_t *members = tree->order + tree->start[i];
        uint32_t ns = gather_ns(words, members[0], members, nigh_tree_size(tree, i));

        within = ns > within ? ns : within;
        representatives[i] = members[0];
    }
    return 2 * (within + STEP_NS) + exchange_ns(words, representatives, tree->domains);
}

/* ---- domains ------------------------------------------------------------------------------------------- */

static void one_domain(uint32_t members, struct nigh_tree *out)
{
    memset(out, 0, sizeof(*out));
    out->level = NIGH_LEVEL_FLAT;
    out->members = members;
    out->domains = 1;
    out->start[1] = (uint16_t)members;
    for (uint32_t i = 0; i < members; i++)
        out->order[i] = out->position[i] = (uint8_t)i;
}

/* Numbered by their lowest members. False: the place of one is not known. */
static bool number_domains(const uint64_t *words, enum nigh_level level, struct nigh_tree *out)
{
    uint32_t seen[NIGH_GROUP_MAX];

    out->domains = 0;
    for (uint32_t i = 0; i < out->members; i++) {
        uint32_t place = place_at(words[i], level), at = 0;

        if (!place)
            return false;
        while (at < out->domains && seen[at] != place)
            at++;
        if (at == out->domains)
            seen[out->domains++] = place;
        out->domain[i] = (uint8_t)at;
    }
    return true;
}

static bool by_level(const uint64_t *words, uint32_t members, enum nigh_level level, struct nigh_tree *out)
{
    uint32_t next = 0;

    one_domain(members, out);
    if (!number_domains(words, level, out) || out->domains < 2)
        return false;
    for (uint32_t domain = 0; domain < out->domains; domain++) {
        out->start[domain] = (uint16_t)next;
        for (uint32_t i = 0; i < members; i++) {
            if (out->domain[i] != domain)
                continue;
            out->position[i] = (uint8_t)(next - out->start[domain]);
            out->order[next++] = (uint8_t)i;
        }
    }
    out->start[out->domains] = (uint16_t)next;
    out->level = level;
    return true;
}

static uint32_t print_of(const struct nigh_tree *tree)
{
    uint64_t hash = tree->level;

    for (uint32_t i = 0; i < tree->members; i++) {
        hash = (hash ^ tree->domain[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return (uint32_t)(hash ^ hash >> 32);
}

/* Keeps the fastest of all levels in *out, which is FLAT. */
static void choose(const uint64_t *words, uint32_t members, struct nigh_tree *out)
{
    uint32_t flat = out->flat_ns, best = flat - flat / SAVES;
    struct nigh_tree tree;

    for (enum nigh_level level = NIGH_LEVEL_L3; level <= NIGH_LEVEL_PACKAGE; level++) {
        if (!by_level(words, members, level, &tree))
            continue;
        tree.flat_ns = flat;
        tree.ns = tree_ns(words, &tree);
        if (tree.ns >= best)
            continue;
        best = tree.ns;
        *out = tree;
    }
}

void nigh_tree_make(const uint64_t *words, uint32_t members, struct nigh_tree *out)
{
    enum nigh_level level = wanted(words, members);
    struct nigh_tree tree;

    one_domain(members, out);
    out->flat_ns = out->ns = exchange_ns(words, out->order, members);
    if (level >= NIGH_LEVEL_L3 && by_level(words, members, level, &tree)) {
        tree.flat_ns = out->flat_ns;
        tree.ns = tree_ns(words, &tree);
        *out = tree;
    }
    if (level == NIGH_LEVEL_AUTO && members >= NIGH_TREE_LEAST)
        choose(words, members, out);
    out->print = print_of(out);
}

/* ---- small calls --------------------------------------------------------------------------------------- */

/* In the order of enum nigh_tree_step. */
static bool makes_step(const struct nigh_tree *tree, uint32_t op, uint32_t root, uint32_t me,
                       enum nigh_tree_step step)
{
    uint32_t home = tree->domain[me], representative = nigh_tree_representative(tree, home, root);
    bool represents = representative == me, collects = represents && op != NIGH_BROADCAST;
    bool all = op == NIGH_BARRIER || op == NIGH_ALLREDUCE, alone = nigh_tree_size(tree, home) == 1;

    switch (step) {
    case NIGH_TREE_COLLECT:
        return collects;
    case NIGH_TREE_SHOW_UP:
        return collects && me != root;
    case NIGH_TREE_EXCHANGE:
    case NIGH_TREE_FINISH:
        return collects && (all || me == root);
    case NIGH_TREE_FROM_ROOT:
        return op == NIGH_BROADCAST && me != root && (represents || representative == root);
    case NIGH_TREE_SHOW_DOWN:
        return represents && me != root && !alone && op != NIGH_REDUCE;
    case NIGH_TREE_FROM_REPRESENTATIVE:
        return !represents && op != NIGH_REDUCE && representative != root;
    default:
        return true;
    }
}

enum nigh_tree_step nigh_tree_next(const struct nigh_tree *tree, uint32_t op, uint32_t root, uint32_t me,
                                   enum nigh_tree_step before)
{
    int step = before == NIGH_TREE_DONE ? NIGH_TREE_COLLECT : (int)before + 1;

    while (!makes_step(tree, op, root, me, (enum nigh_tree_step)step))
        step++;
    return (enum nigh_tree_step)step;
}

/* Of one member; of what a representative reads of all others. */
#define VECTOR_MOST  4096u
#define VECTORS_MOST 32768u
/* Up to so many bytes a root copies its input, and need not wait for the members that take it. */
#define BROADCAST_MOST 8192u
/* Allgathers relay from so many bytes of each member on, on average. */
#define BLOCK_LEAST 8192u

/* Whatever is reduced first, the bits are the same. */
static bool is_exact(const struct nigh_collective *call)
{
    bool whole = call->type <= NIGH_U64 || call->type == NIGH_BOOL;

    return whole &&
           (call->reduction <= NIGH_BXOR || call->reduction == NIGH_AVG || call->reduction == NIGH_PREMUL);
}

enum nigh_tree_kind nigh_tree_kind_of(const struct nigh_tree *tree, const struct nigh_collective *call,
                                      uint64_t vector)
{
    if (tree->level == NIGH_LEVEL_FLAT)
        return NIGH_TREE_NOT;
    if (call->op == NIGH_ALLGATHER)
        return vector > (uint64_t)tree->members * BLOCK_LEAST ? NIGH_TREE_RELAY : NIGH_TREE_NOT;
    if (call->op == NIGH_BROADCAST)
        return vector <= BROADCAST_MOST ? NIGH_TREE_VECTORS : NIGH_TREE_RELAY;
    if (vector > VECTOR_MOST)
        return NIGH_TREE_NOT;
    if (call->op == NIGH_BARRIER)
        return NIGH_TREE_VECTORS;
    if (call->op != NIGH_REDUCE && call->op != NIGH_ALLREDUCE)
        return NIGH_TREE_NOT;
    if (is_exact(call))
        return NIGH_TREE_PARTIAL;
    return vector * tree->members <= VECTORS_MOST ? NIGH_TREE_VECTORS : NIGH_TREE_NOT;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/match_walk.c - what looks at all receives or messages: the death of a peer, disconnect, cancel,
 * diagnosis. Rare, and apart from match.c so that what is hot stays small. */
#include "plugin/match_alone.h"

struct visitor {
    void (*posted)(struct nigh_posted *posted, void *data);
    void *data;
};

static void visit_node(struct nigh_match_node *node, void *data)
{
    const struct visitor *visitor = data;

    visitor->posted(nigh_match_posted_of(node), visitor->data);
}

static void visit_ring(const struct nigh_match_node *end, const struct visitor *visitor)
{
    for (struct nigh_match_node *node = end->next; node != end; node = node->next)
        visitor->posted(nigh_match_posted_of(node), visitor->data);
}

void nigh_match_each_posted(const struct nigh_matcher *matcher,
                            void (*visit)(struct nigh_posted *posted, void *data), void *data)
{
    struct visitor visitor = {visit, data};

    for (uint64_t left = matcher->alone; left; left &= left - 1)
        visit(matcher->lone[__builtin_ctzll(left)], data);
    nigh_match_table_each(&matcher->posted, visit_node, &visitor);
    for (uint32_t i = 0; i < NIGH_TCLASSES; i++) {
        visit_ring(&matcher->listed[i], &visitor);
        visit_ring(&matcher->standing[i], &visitor);
    }
}

void nigh_match_each_arrived(const struct nigh_matcher *matcher,
                             void (*visit)(struct nigh_arrived *arrived, void *data), void *data)
{
    for (uint32_t i = 0; i < NIGH_TCLASSES; i++) {
        const struct nigh_match_link *end = &matcher->arrived_order[i];

        for (struct nigh_match_link *link = end->next; link != end; link = link->next)
            visit((struct nigh_arrived *)(void *)((char *)link - offsetof(struct nigh_arrived, order)), data);
    }
}

/* ---- the oldest ---- */

struct search {
    bool (*accept)(const struct nigh_posted *posted, void *data);
    void *data;
    struct nigh_posted *best;
};

static void compare(struct nigh_posted *posted, void *data)
{
    struct search *search = data;

    if ((search->best == NULL || posted->sequence < search->best->sequence) &&
        search->accept(posted, search->data))
        search->best = posted;
}

struct nigh_posted *nigh_match_oldest(const struct nigh_matcher *matcher,
                                      bool (*accept)(const struct nigh_posted *posted, void *data),
                                      void *data)
{
    struct search search = {accept, data, NULL};

    if (nigh_match_posted(matcher) != 0)
        nigh_match_each_posted(matcher, compare, &search);
    return search.best;
}

static bool is_from_anyone(const struct nigh_posted *posted, void *data)
{
    (void)data;
    return posted->source == NIGH_ANY;
}

struct nigh_posted *nigh_match_oldest_from_anyone(const struct nigh_matcher *matcher)
{
    return nigh_match_oldest(matcher, is_from_anyone, NULL);
}

/* ---- taking out all of a source ---- */

/* Runs in posting order, merged as a binary counter adds: runs[i] is NULL or made of 2^i runs. */
struct harvest {
    struct nigh_matcher *matcher;
    uint32_t source;
    struct nigh_match_node *runs[32];
};

static struct nigh_match_node *merge(struct nigh_match_node *a, struct nigh_match_node *b)
{
    struct nigh_match_node *first = NULL, **end = &first;

    while (a != NULL && b != NULL) {
        struct nigh_match_node **older =
            nigh_match_posted_of(a)->sequence < nigh_match_posted_of(b)->sequence ? &a : &b;

        *end = *older;
        end = &(*older)->next;
        *older = *end;
    }
    *end = a != NULL ? a : b;
    return first;
}

static void add_run(struct harvest *harvest, struct nigh_match_node *run)
{
    uint32_t i = 0;

    for (; harvest->runs[i] != NULL && i < 31; i++) {
        run = merge(harvest->runs[i], run);
        harvest->runs[i] = NULL;
    }
    harvest->runs[i] = merge(harvest->runs[i], run);
}

static bool names_source(uint64_t key, void *data)
{
    const struct harvest *harvest = data;

    return (uint32_t)key == harvest->source;
}

static void take_queue(struct nigh_match_node *first, void *data)
{
    struct harvest *harvest = data;

    for (struct nigh_match_node *node = first; node != NULL; node = node->next)
        nigh_match_forget(harvest->matcher, nigh_match_posted_of(node));
    add_run(harvest, first);
}

static void take_ring(struct harvest *harvest, struct nigh_match_node *end)
{
    struct nigh_match_node *first = NULL, **last = &first, *next;

    for (struct nigh_match_node *node = end->next; node != end; node = next) {
        next = node->next;
        if (nigh_match_posted_of(node)->source != harvest->source)
            continue;
        node->prev->next = next;
        next->prev = node->prev;
        *last = node;
        last = &node->next;
    }
    *last = NULL;
    if (first != NULL)
        take_queue(first, harvest);
}

struct nigh_posted *nigh_match_take_posted(struct nigh_matcher *matcher, uint32_t source)
{
    struct harvest harvest = {.matcher = matcher, .source = source};
    struct nigh_match_node *all = NULL;

    if (nigh_match_posted(matcher) == 0)
        return NULL;
    if (nigh_match_has_lone(matcher, source)) {
        struct nigh_posted *lone = matcher->lone[source];

        nigh_match_take_alone(matcher, lone);
        lone->node.next = NULL;
        add_run(&harvest, &lone->node);
    }
    nigh_match_table_take(&matcher->posted, names_source, take_queue, &harvest);
    for (uint32_t i = 0; i < NIGH_TCLASSES; i++) {
        take_ring(&harvest, &matcher->listed[i]);
        take_ring(&harvest, &matcher->standing[i]);
    }
    for (uint32_t i = 0; i < 32; i++)
        all = merge(all, harvest.runs[i]);
    return nigh_match_posted_of(all);
}

struct nigh_arrived *nigh_match_take_arrived(struct nigh_matcher *matcher, uint32_t source)
{
    struct nigh_arrived *first = NULL, *found;
    struct nigh_match_link *none = NULL, **last = &none;

    for (uint32_t i = 0; i < NIGH_TCLASSES; i++) {
        while ((found = nigh_match_find(matcher, source, i, 0, NIGH_IGNORE_ALL, true)) != NULL) {
            if (first == NULL)
                first = found;
            *last = &found->order;
            last = &found->order.next;
        }
    }
    *last = NULL;
    return first;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/match.c - tag matching beyond exact receives: wildcards, masks, messages that came first. */
#include "plugin/match.h"

#include <assert.h>

static_assert(NIGH_TCLASSES <= 1 << 16, "a class has 16 bits of a key");
static_assert(offsetof(struct nigh_posted, node) == 0, "a node of the table of receives is the receive");

#define OF_NODE(node, member) \
    ((struct nigh_arrived *)(void *)((char *)(node)-offsetof(struct nigh_arrived, member)))

static struct nigh_posted *posted_of(struct nigh_match_node *node)
{
    return (struct nigh_posted *)(void *)node;
}

int nigh_match_init(struct nigh_matcher *matcher)
{
    int rc;

    *matcher = (struct nigh_matcher){0};
    rc = nigh_match_table_create(&matcher->posted);
    if (rc != 0)
        return rc;
    rc = nigh_match_table_create(&matcher->arrived);
    if (rc != 0) {
        nigh_match_table_destroy(&matcher->posted);
        return rc;
    }
    for (uint32_t i = 0; i < NIGH_TCLASSES; i++) {
        struct nigh_match_node *masked = &matcher->masked[i];
        struct nigh_match_link *order = &matcher->arrived_order[i];

        masked->next = masked->prev = masked;
        order->next = order->prev = order;
    }
    return 0;
}

void nigh_match_destroy(struct nigh_matcher *matcher)
{
    nigh_match_table_destroy(&matcher->arrived);
    nigh_match_table_destroy(&matcher->posted);
}

/* ---- receives ---- */

static enum nigh_match_kind kind_of(const struct nigh_posted *posted)
{
    if (posted->source == NIGH_ANY)
        return posted->ignore == 0 ? NIGH_MATCH_ANY_SOURCE : NIGH_MATCH_MASKED;
    if (posted->ignore == 0)
        return NIGH_MATCH_EXACT;
    return posted->ignore == NIGH_IGNORE_ALL ? NIGH_MATCH_ANY_TAG : NIGH_MATCH_MASKED;
}

void nigh_match_post_wild(struct nigh_matcher *matcher, struct nigh_posted *posted)
{
    enum nigh_match_kind kind = kind_of(posted);

    posted->kind = (uint8_t)kind;
    posted->node.key = nigh_match_key(kind, posted->source, posted->tclass);
    posted->node.tag = kind == NIGH_MATCH_ANY_TAG ? 0 : posted->tag;
    matcher->wild_count++;
    matcher->kinds[kind]++;
    if (kind == NIGH_MATCH_MASKED) {
        struct nigh_match_node *end = &matcher->masked[posted->tclass];

        posted->node.next = end;
        posted->node.prev = end->prev;
        end->prev->next = &posted->node;
        end->prev = &posted->node;
    } else {
        nigh_match_append(&matcher->posted, &posted->node);
    }
}

static void forget(struct nigh_matcher *matcher, const struct nigh_posted *posted)
{
    matcher->posted_count--;
    if (posted->kind != NIGH_MATCH_EXACT) {
        matcher->wild_count--;
        matcher->kinds[posted->kind]--;
    }
}

static void unlink_masked(struct nigh_posted *posted)
{
    posted->node.prev->next = posted->node.next;
    posted->node.next->prev = posted->node.prev;
}

void nigh_match_withdraw(struct nigh_matcher *matcher, struct nigh_posted *posted)
{
    if (posted->kind == NIGH_MATCH_MASKED)
        unlink_masked(posted);
    else
        nigh_match_remove(&matcher->posted, &posted->node);
    forget(matcher, posted);
}

/* The older one of `best` and the head of a queue, and where that head hangs. */
static void consider(const struct nigh_matcher *matcher, uint64_t key, uint64_t tag,
                     struct nigh_posted **best, struct nigh_match_node ***best_at)
{
    struct nigh_match_node **at = nigh_match_seek(&matcher->posted, key, tag);
    struct nigh_posted *posted = posted_of(*at);

    if (posted != NULL && (*best == NULL || posted->sequence < (*best)->sequence)) {
        *best = posted;
        *best_at = at;
    }
}

/* The first masked receive that matches and is older than `best`, else `best`. */
static struct nigh_posted *consider_masked(const struct nigh_matcher *matcher, uint32_t source,
                                           uint32_t tclass, uint64_t tag, struct nigh_posted *best)
{
    const struct nigh_match_node *end = &matcher->masked[tclass];
    uint64_t until = best == NULL ? UINT64_MAX : best->sequence;

    for (struct nigh_match_node *node = end->next; node != end; node = node->next) {
        struct nigh_posted *posted = posted_of(node);

        if (posted->sequence > until)
            break;
        if (((posted->tag ^ tag) & ~posted->ignore) == 0 &&
            (posted->source == source || posted->source == NIGH_ANY))
            return posted;
    }
    return best;
}

struct nigh_posted *nigh_match_arrive_wild(struct nigh_matcher *matcher, uint32_t source, uint32_t tclass,
                                           uint64_t tag)
{
    struct nigh_match_node **at = NULL;
    struct nigh_posted *best = NULL;

    if (matcher->posted_count != matcher->wild_count)
        consider(matcher, nigh_match_key(NIGH_MATCH_EXACT, source, tclass), tag, &best, &at);
    if (matcher->kinds[NIGH_MATCH_ANY_SOURCE] != 0)
        consider(matcher, nigh_match_key(NIGH_MATCH_ANY_SOURCE, NIGH_ANY, tclass), tag, &best, &at);
    if (matcher->kinds[NIGH_MATCH_ANY_TAG] != 0)
        consider(matcher, nigh_match_key(NIGH_MATCH_ANY_TAG, source, tclass), 0, &best, &at);
    if (matcher->kinds[NIGH_MATCH_MASKED] != 0)
        best = consider_masked(matcher, source, tclass, tag, best);
    if (best == NULL || best->keep)
        return best;
    if (best->kind == NIGH_MATCH_MASKED)
        unlink_masked(best);
    else
        nigh_match_shift(&matcher->posted, at);
    forget(matcher, best);
    return best;
}

/* ---- messages that came first ---- */

static void file(struct nigh_matcher *matcher, struct nigh_match_node *node, enum nigh_match_kind kind,
                 uint32_t source, uint32_t tclass, uint64_t tag)
{
    node->key = nigh_match_key(kind, source, tclass);
    node->tag = tag;
    nigh_match_append(&matcher->arrived, node);
}

void nigh_match_keep(struct nigh_matcher *matcher, struct nigh_arrived *arrived)
{
    uint32_t source = arrived->source, tclass = arrived->tclass;
    struct nigh_match_link *end = &matcher->arrived_order[tclass];

    file(matcher, &arrived->exact, NIGH_MATCH_EXACT, source, tclass, arrived->tag);
    file(matcher, &arrived->any_source, NIGH_MATCH_ANY_SOURCE, NIGH_ANY, tclass, arrived->tag);
    file(matcher, &arrived->any_tag, NIGH_MATCH_ANY_TAG, source, tclass, 0);
    arrived->order.next = end;
    arrived->order.prev = end->prev;
    end->prev->next = &arrived->order;
    end->prev = &arrived->order;
    matcher->arrived_count++;
}

void nigh_match_drop(struct nigh_matcher *matcher, struct nigh_arrived *arrived)
{
    nigh_match_remove(&matcher->arrived, &arrived->exact);
    nigh_match_remove(&matcher->arrived, &arrived->any_source);
    nigh_match_remove(&matcher->arrived, &arrived->any_tag);
    arrived->order.prev->next = arrived->order.next;
    arrived->order.next->prev = arrived->order.prev;
    matcher->arrived_count--;
}

static struct nigh_match_node *head_of(const struct nigh_matcher *matcher, enum nigh_match_kind kind,
                                       uint32_t source, uint32_t tclass, uint64_t tag)
{
    return *nigh_match_seek(&matcher->arrived, nigh_match_key(kind, source, tclass), tag);
}

static bool same_tag(const struct nigh_arrived *arrived, uint64_t tag, uint64_t ignore)
{
    return ((arrived->tag ^ tag) & ~ignore) == 0;
}

static struct nigh_arrived *find_of_source(const struct nigh_matcher *matcher, uint32_t source,
                                           uint32_t tclass, uint64_t tag, uint64_t ignore)
{
    struct nigh_match_node *head, *node;

    if (ignore == 0) {
        head = head_of(matcher, NIGH_MATCH_EXACT, source, tclass, tag);
        return head == NULL ? NULL : OF_NODE(head, exact);
    }
    head = node = head_of(matcher, NIGH_MATCH_ANY_TAG, source, tclass, 0);
    if (head == NULL)
        return NULL;
    do {
        struct nigh_arrived *arrived = OF_NODE(node, any_tag);

        if (same_tag(arrived, tag, ignore))
            return arrived;
        node = node->next;
    } while (node != head);
    return NULL;
}

static struct nigh_arrived *find_of_anyone(const struct nigh_matcher *matcher, uint32_t tclass, uint64_t tag,
                                           uint64_t ignore)
{
    const struct nigh_match_link *end = &matcher->arrived_order[tclass];

    if (ignore == 0) {
        struct nigh_match_node *head = head_of(matcher, NIGH_MATCH_ANY_SOURCE, NIGH_ANY, tclass, tag);

        return head == NULL ? NULL : OF_NODE(head, any_source);
    }
    for (struct nigh_match_link *link = end->next; link != end; link = link->next) {
        struct nigh_arrived *arrived = OF_NODE(link, order);

        if (same_tag(arrived, tag, ignore))
            return arrived;
    }
    return NULL;
}

struct nigh_arrived *nigh_match_find_any(struct nigh_matcher *matcher, uint32_t source, uint32_t tclass,
                                         uint64_t tag, uint64_t ignore, bool take)
{
    struct nigh_arrived *found = source == NIGH_ANY ? find_of_anyone(matcher, tclass, tag, ignore)
                                                    : find_of_source(matcher, source, tclass, tag, ignore);

    if (found != NULL && take)
        nigh_match_drop(matcher, found);
    return found;
}

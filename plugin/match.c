/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/match.c - tag matching beyond exact receives: wildcards and masks. */
#include "plugin/match_alone.h"

#include <assert.h>

static_assert(NIGH_TCLASSES <= 1 << 16, "a class has 16 bits of a key");
static_assert(NIGH_MATCH_SHAPES <= 32, "a shape has a bit of matcher.active");

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
        struct nigh_match_node *listed = &matcher->listed[i], *standing = &matcher->standing[i];
        struct nigh_match_link *order = &matcher->arrived_order[i];

        listed->next = listed->prev = listed;
        standing->next = standing->prev = standing;
        order->next = order->prev = order;
    }
    matcher->active = 1u << NIGH_MATCH_EXACT;
    matcher->shapes[NIGH_MATCH_ANY_SOURCE].any = NIGH_ANY;
    matcher->shapes[NIGH_MATCH_ANY_TAG].ignore = NIGH_IGNORE_ALL;
    matcher->shapes[NIGH_MATCH_ANYTHING].any = NIGH_ANY;
    matcher->shapes[NIGH_MATCH_ANYTHING].ignore = NIGH_IGNORE_ALL;
    return 0;
}

void nigh_match_destroy(struct nigh_matcher *matcher)
{
    nigh_match_table_destroy(&matcher->arrived);
    nigh_match_table_destroy(&matcher->posted);
}

static uint32_t hot(const struct nigh_matcher *matcher)
{
    return (uint32_t)(matcher->hot_key >> 48);
}

/* From now on receives of shape `number` are the ones that are counted by posted_count alone. */
static void make_hot(struct nigh_matcher *matcher, uint32_t number)
{
    const struct nigh_match_shape *shape = &matcher->shapes[number];

    matcher->shapes[hot(matcher)].count = matcher->posted_count - matcher->others;
    matcher->others = matcher->posted_count - shape->count;
    matcher->hot_key = nigh_match_key(number, shape->any, 0);
    matcher->hot_ignore = shape->ignore;
    matcher->active |= 1u << number;
}

/* Makes the shape of a receive hot: the one that has its mask, else one without receives. false: there is none. */
static bool choose_shape(struct nigh_matcher *matcher, const struct nigh_posted *posted)
{
    uint32_t any = posted->source == NIGH_ANY ? NIGH_ANY : 0, unused = NIGH_MATCH_LISTED;

    matcher->shapes[hot(matcher)].count = matcher->posted_count - matcher->others;
    for (uint32_t i = 0; i < NIGH_MATCH_SHAPES; i++) {
        const struct nigh_match_shape *shape = &matcher->shapes[i];

        if (shape->ignore == posted->ignore && shape->any == any) {
            make_hot(matcher, i);
            return true;
        }
        if (i >= NIGH_MATCH_FREE && shape->count == 0 && unused == NIGH_MATCH_LISTED)
            unused = i;
    }
    if (unused == NIGH_MATCH_LISTED)
        return false;
    matcher->shapes[unused] = (struct nigh_match_shape){.ignore = posted->ignore, .any = any};
    make_hot(matcher, unused);
    return true;
}

/* Behind all others of a ring. */
static void append_to(struct nigh_match_node *end, struct nigh_posted *posted)
{
    posted->node.next = end;
    posted->node.prev = end->prev;
    end->prev->next = &posted->node;
    end->prev = &posted->node;
}

static void list(struct nigh_matcher *matcher, struct nigh_posted *posted)
{
    matcher->posted_count++;
    matcher->others++;
    posted->shape = NIGH_MATCH_LISTED;
    append_to(&matcher->listed[posted->tclass], posted);
}

static void stand(struct nigh_matcher *matcher, struct nigh_posted *posted)
{
    matcher->standing_count++;
    matcher->stands |= 1u << posted->tclass;
    posted->shape = NIGH_MATCH_STANDING;
    append_to(&matcher->standing[posted->tclass], posted);
}

/* Those that wait alone go where others are. They keep their age; in which order they are filed is no matter, as no
 * message may go to two of them. */
static __attribute__((noinline)) void file_alone(struct nigh_matcher *matcher)
{
    uint64_t left = matcher->alone;

    matcher->posted_count = matcher->others = 0;
    matcher->alone = 0;
    for (; left; left &= left - 1) {
        struct nigh_posted *posted = matcher->lone[__builtin_ctzll(left)];
        uint64_t age = posted->sequence;

        nigh_match_post(matcher, posted);
        posted->sequence = age;
    }
}

void nigh_match_post(struct nigh_matcher *matcher, struct nigh_posted *posted)
{
    if (posted->keep) {
        posted->sequence = matcher->sequence++;
        stand(matcher, posted);
        return;
    }
    if (matcher->alone)
        file_alone(matcher);
    if (nigh_match_is_hot(matcher, posted->source, posted->ignore) || choose_shape(matcher, posted)) {
        nigh_match_post_hot(matcher, posted);
        return;
    }
    posted->sequence = matcher->sequence++;
    list(matcher, posted);
}

static void unlist(struct nigh_posted *posted)
{
    posted->node.prev->next = posted->node.next;
    posted->node.next->prev = posted->node.prev;
}

static void forget_standing(struct nigh_matcher *matcher, uint32_t tclass)
{
    const struct nigh_match_node *end = &matcher->standing[tclass];

    matcher->standing_count--;
    if (end->next == end)
        matcher->stands &= ~(1u << tclass);
}

void nigh_match_forget(struct nigh_matcher *matcher, const struct nigh_posted *posted)
{
    if (posted->shape == NIGH_MATCH_STANDING) {
        forget_standing(matcher, posted->tclass);
        return;
    }
    matcher->posted_count--;
    if (matcher->recent == &posted->node)
        matcher->recent = NULL;
    if (posted->shape == hot(matcher))
        return;
    matcher->others--;
    if (posted->shape != NIGH_MATCH_LISTED)
        matcher->shapes[posted->shape].count--;
}

void nigh_match_withdraw(struct nigh_matcher *matcher, struct nigh_posted *posted)
{
    if (posted->shape == NIGH_MATCH_ALONE) {
        nigh_match_take_alone(matcher, posted);
        return;
    }
    if (posted->shape == NIGH_MATCH_LISTED || posted->shape == NIGH_MATCH_STANDING)
        unlist(posted);
    else
        nigh_match_remove(&matcher->posted, &posted->node);
    nigh_match_forget(matcher, posted);
}

/* The older one of `best` and the head of a queue, and where that head hangs. */
static inline void consider(const struct nigh_matcher *matcher, uint64_t key, uint64_t tag,
                            struct nigh_posted **best, struct nigh_match_node ***best_at)
{
    struct nigh_match_node **at = nigh_match_seek(&matcher->posted, key, tag);
    struct nigh_posted *posted = nigh_match_posted_of(*at);

    if (posted != NULL && (*best == NULL || posted->sequence < (*best)->sequence)) {
        *best = posted;
        *best_at = at;
    }
}

/* The first receive of a ring that matches and is older than `best`, else `best`. */
static struct nigh_posted *consider_ring(const struct nigh_match_node *end, uint32_t source, uint64_t tag,
                                         struct nigh_posted *best)
{
    uint64_t until = best == NULL ? UINT64_MAX : best->sequence;

    for (struct nigh_match_node *node = end->next; node != end; node = node->next) {
        struct nigh_posted *posted = nigh_match_posted_of(node);

        if (posted->sequence > until)
            break;
        if (((posted->tag ^ tag) & ~posted->ignore) == 0 &&
            (posted->source == source || posted->source == NIGH_ANY))
            return posted;
    }
    return best;
}

/* The oldest receive by shape or in the list, and where it hangs if by shape. */
static struct nigh_posted *consider_filed(struct nigh_matcher *matcher, uint32_t source, uint32_t tclass,
                                          uint64_t tag, struct nigh_match_node ***at)
{
    struct nigh_posted *best = NULL;

    for (uint32_t left = matcher->active; left != 0; left &= left - 1) {
        uint32_t number = (uint32_t)__builtin_ctz(left);
        const struct nigh_match_shape *shape = &matcher->shapes[number];

        if (shape->count != 0 || number == hot(matcher))
            consider(matcher, nigh_match_key(number, source | shape->any, tclass), tag & ~shape->ignore,
                     &best, at);
        else
            matcher->active &=
                ~(1u << number); /* not as soon as the last one goes: the next often comes soon */
    }
    return consider_ring(&matcher->listed[tclass], source, tag, best);
}

struct nigh_posted *nigh_match_arrive_mixed(struct nigh_matcher *matcher, uint32_t source, uint32_t tclass,
                                            uint64_t tag)
{
    struct nigh_match_node **at = NULL;
    struct nigh_posted *best = NULL;

    if (matcher->alone)
        best = nigh_match_alone(matcher, source, tclass, tag);
    else if (matcher->posted_count)
        best = consider_filed(matcher, source, tclass, tag, &at);
    best = consider_ring(&matcher->standing[tclass], source, tag, best);
    if (best == NULL || best->keep)
        return best;
    if (best->shape == NIGH_MATCH_ALONE) {
        nigh_match_take_alone(matcher, best);
        return best;
    }
    if (best->shape == NIGH_MATCH_LISTED)
        unlist(best);
    else
        nigh_match_shift(&matcher->posted, at);
    nigh_match_forget(matcher, best);
    return best;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/match_arrived.c - messages that came before their receive. */
#include "plugin/match.h"

#define OF_NODE(node, member) \
    ((struct nigh_arrived *)(void *)((char *)(node)-offsetof(struct nigh_arrived, member)))

static void file(struct nigh_matcher *matcher, struct nigh_match_node *node, uint64_t key, uint64_t tag)
{
    node->key = key;
    node->tag = tag;
    nigh_match_append(&matcher->arrived, node);
}

static void file_by_tag(struct nigh_matcher *matcher, struct nigh_arrived *arrived)
{
    uint64_t tag = arrived->tag & ~matcher->filed_ignore;

    file(matcher, &arrived->exact, nigh_match_key(NIGH_MATCH_EXACT, arrived->source, arrived->tclass), tag);
    file(matcher, &arrived->any_source, nigh_match_key(NIGH_MATCH_ANY_SOURCE, NIGH_ANY, arrived->tclass),
         tag);
}

void nigh_match_keep(struct nigh_matcher *matcher, struct nigh_arrived *arrived)
{
    struct nigh_match_link *end = &matcher->arrived_order[arrived->tclass];

    file_by_tag(matcher, arrived);
    file(matcher, &arrived->any_tag, nigh_match_key(NIGH_MATCH_ANY_TAG, arrived->source, arrived->tclass), 0);
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

/* Files all messages anew, under tags without the bits of `ignore`. Each is appended behind those that came before it,
 * so the order of every queue is that of arrival when the last one is through. */
static void file_all_without(struct nigh_matcher *matcher, uint64_t ignore)
{
    matcher->filed_ignore = ignore;
    matcher->walked = 0;
    for (uint32_t i = 0; i < NIGH_TCLASSES; i++) {
        const struct nigh_match_link *end = &matcher->arrived_order[i];

        for (struct nigh_match_link *link = end->next; link != end; link = link->next) {
            struct nigh_arrived *arrived = OF_NODE(link, order);

            nigh_match_remove(&matcher->arrived, &arrived->exact);
            nigh_match_remove(&matcher->arrived, &arrived->any_source);
            file_by_tag(matcher, arrived);
        }
    }
}

/* Filing anew costs as much as looking at each message about four times; when so many have been looked at in vain it is
 * paid for, whichever masks come next. */
static void learn(struct nigh_matcher *matcher, uint64_t ignore, uint64_t steps)
{
    matcher->walked += steps;
    if (__builtin_expect(matcher->walked > 256 + 4 * (uint64_t)matcher->arrived_count, 0))
        file_all_without(matcher, ignore);
}

static bool same_tag(const struct nigh_arrived *arrived, uint64_t tag, uint64_t ignore)
{
    return ((arrived->tag ^ tag) & ~ignore) == 0;
}

/* Walk one kind of queue each, for the first message whose tag fits; *steps is how many did not. */
#define WALK_QUEUE(name, member)                                                                  \
    static struct nigh_arrived *name(struct nigh_match_node *head, uint64_t tag, uint64_t ignore, \
                                     uint64_t *steps)                                             \
    {                                                                                             \
        struct nigh_match_node *node = head;                                                      \
                                                                                                  \
        if (head == NULL)                                                                         \
            return NULL;                                                                          \
        do {                                                                                      \
            if (same_tag(OF_NODE(node, member), tag, ignore))                                     \
                return OF_NODE(node, member);                                                     \
            ++*steps;                                                                             \
            node = node->next;                                                                    \
        } while (node != head);                                                                   \
        return NULL;                                                                              \
    }
WALK_QUEUE(walk_exact, exact)
WALK_QUEUE(walk_any_source, any_source)
WALK_QUEUE(walk_any_tag, any_tag)

static struct nigh_arrived *walk_class(const struct nigh_match_link *end, uint64_t tag, uint64_t ignore,
                                       uint64_t *steps)
{
    for (struct nigh_match_link *link = end->next; link != end; link = link->next) {
        if (same_tag(OF_NODE(link, order), tag, ignore))
            return OF_NODE(link, order);
        ++*steps;
    }
    return NULL;
}

static struct nigh_match_node *head_of(const struct nigh_matcher *matcher, uint32_t shape, uint32_t source,
                                       uint32_t tclass, uint64_t tag)
{
    return *nigh_match_seek(&matcher->arrived, nigh_match_key(shape, source, tclass), tag);
}

/* Where the tag is filed without more bits than are ignored, its own queue is all that can match. */
static struct nigh_arrived *find(const struct nigh_matcher *matcher, uint32_t source, uint32_t tclass,
                                 uint64_t tag, uint64_t ignore, uint64_t *steps)
{
    uint64_t filed = tag & ~matcher->filed_ignore;
    bool by_tag = (ignore & ~matcher->filed_ignore) == 0;

    if (source == NIGH_ANY)
        return by_tag ? walk_any_source(head_of(matcher, NIGH_MATCH_ANY_SOURCE, NIGH_ANY, tclass, filed), tag,
                                        ignore, steps)
                      : walk_class(&matcher->arrived_order[tclass], tag, ignore, steps);
    return by_tag ? walk_exact(head_of(matcher, NIGH_MATCH_EXACT, source, tclass, filed), tag, ignore, steps)
                  : walk_any_tag(head_of(matcher, NIGH_MATCH_ANY_TAG, source, tclass, 0), tag, ignore, steps);
}

struct nigh_arrived *nigh_match_find_any(struct nigh_matcher *matcher, uint32_t source, uint32_t tclass,
                                         uint64_t tag, uint64_t ignore, bool take)
{
    uint64_t steps = 0;
    struct nigh_arrived *found = find(matcher, source, tclass, tag, ignore, &steps);

    if (__builtin_expect(steps != 0, 0))
        learn(matcher, ignore, steps);
    if (found != NULL && take)
        nigh_match_drop(matcher, found);
    return found;
}

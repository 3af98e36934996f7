/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/match_alone.h - receives that wait alone: one from each source, and no others. They are neither hashed nor
 * chained, and their nodes are not touched. Ranks that share CPUs post so most of the time, and find what filing writes
 * gone from their caches at each turn. The first receive that is unlike that has all of them filed (nigh_match_post).
 * Figures: docs/rationale/crowd-small-messages.md.
 */
#ifndef NIGH_PLUGIN_MATCH_ALONE_H
#define NIGH_PLUGIN_MATCH_ALONE_H

#include "plugin/match.h"

/* Are all receives that are posted of this kind, but for those that stand? */
static inline bool nigh_match_all_alone(const struct nigh_matcher *matcher)
{
    return matcher->alone || !matcher->posted_count;
}

static inline bool nigh_match_has_lone(const struct nigh_matcher *matcher, uint32_t source)
{
    return source < NIGH_MATCH_LONE_MAX && matcher->alone >> source & 1;
}

/* May another one, from `source`? */
static inline bool nigh_match_may_wait_alone(const struct nigh_matcher *matcher, uint32_t source)
{
    return nigh_match_all_alone(matcher) && source < NIGH_MATCH_LONE_MAX && !(matcher->alone >> source & 1);
}

/* nigh_match_post() of one that may; its `keep` is not set. */
static inline void nigh_match_post_alone(struct nigh_matcher *matcher, struct nigh_posted *posted)
{
    posted->sequence = matcher->sequence++;
    posted->shape = NIGH_MATCH_ALONE;
    matcher->posted_count++;
    matcher->others++;
    matcher->alone |= UINT64_C(1) << posted->source;
    matcher->lone[posted->source] = posted;
}

/* The one that a message from `source` matches; it stays. NULL: none, and where all are alone no other can, unless it
 * stands. */
static inline struct nigh_posted *nigh_match_alone(const struct nigh_matcher *matcher, uint32_t source,
                                                   uint32_t tclass, uint64_t tag)
{
    struct nigh_posted *posted;

    if (!nigh_match_has_lone(matcher, source))
        return NULL;
    posted = matcher->lone[source];
    return posted->tclass == tclass && ((posted->tag ^ tag) & ~posted->ignore) == 0 ? posted : NULL;
}

/* Takes one out. */
static inline void nigh_match_take_alone(struct nigh_matcher *matcher, const struct nigh_posted *posted)
{
    matcher->posted_count--;
    matcher->others--;
    matcher->alone &= ~(UINT64_C(1) << posted->source);
}

/* Is what a message of this class is for found by looking at those that wait alone, or at those of the hot shape? */
static inline bool nigh_match_is_easy(const struct nigh_matcher *matcher, uint32_t tclass)
{
    return (!matcher->others || matcher->alone) && !nigh_match_stands(matcher, tclass);
}

/* Might a receive, of whichever kind, take this message? For sure where it says no, and where all are alone. */
static inline bool nigh_match_may_take(const struct nigh_matcher *matcher, uint32_t source, uint32_t tclass,
                                       uint64_t tag)
{
    if (nigh_match_stands(matcher, tclass))
        return true;
    if (nigh_match_all_alone(matcher))
        return nigh_match_alone(matcher, source, tclass, tag) != NULL;
    return matcher->others || *nigh_match_waiting(matcher, source, tclass, tag) != NULL;
}

#endif

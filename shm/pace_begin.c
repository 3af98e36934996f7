/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/pace_begin.c - what a pair begins with: the strategies that it has, which of them a size class may take, and
 * which is right on the caches that the pair lies on, for all sizes of which nothing has been measured. */
#include "shm/pace_begin.h"

#include <errno.h>
#include <string.h>

/* The way back begins lower: a handoff close to far_ns must not have the pair change all the time. */
static const float back = 0.8F;

enum {
    AGAIN_FIRST = 128, /* see nigh_pace_begin_anew() */
    AGAIN_MOST = 4096,
    HOME = 512, /* more than a sweep takes, from which a class may go away again */
};

static void begin_all(struct nigh_pace *pace)
{
    memset(pace->in, 0, sizeof(pace->in));
    for (unsigned i = 0; i < NIGH_PACE_CLASSES; i++) {
        pace->in[i].trial = NIGH_PACE_NONE;
        pace->in[i].patience = NIGH_PACE_PATIENCE;
        pace->in[i].current = pace->in[i].turn = pace->here;
    }
}

int nigh_pace_open(struct nigh_pace *pace, const struct nigh_strategy *list, unsigned count, unsigned near,
                   unsigned far, unsigned far_ns)
{
    if (count == 0 || count > NIGH_PACE_STRATEGIES || near >= count || far >= count || list[near].from != 0 ||
        list[far].from != 0)
        return -EINVAL;
    for (unsigned i = 0; i < count; i++) {
        if (nigh_strategy_check(&list[i], NULL) != 0)
            return -EINVAL;
    }
    memset(pace, 0, sizeof(*pace));
    memcpy(pace->strategy, list, count * sizeof(*list));
    pace->count = (uint8_t)count;
    pace->near = pace->here = (uint8_t)near;
    pace->far = (uint8_t)far;
    pace->far_ns = (float)far_ns;
    begin_all(pace);
    return 0;
}

/* Is every message of a class as long as that? */
static bool are_from(uint32_t bytes, unsigned index)
{
    return bytes <= (size_t)1 << (NIGH_PACE_SMALLEST + index);
}

/* Is a class one of the long messages that a strategy is for? */
static bool is_for(const struct nigh_pace *pace, unsigned strategy, unsigned index)
{
    return pace->strategy[strategy].from && are_from(pace->strategy[strategy].from, index);
}

/* Whether a strategy may take every message of a class. */
static bool may_take(const struct nigh_pace *pace, unsigned strategy, unsigned index)
{
    const struct nigh_strategy *s = &pace->strategy[strategy];

    return are_from(s->tried ? s->tried : s->from, index);
}

/* In quarters or in order, both write through the cache, and which state of the machine that is
 * right for is the same. */
static unsigned way_of(const struct nigh_pace *pace, unsigned strategy)
{
    unsigned sender = pace->strategy[strategy].sender;

    return sender == NIGH_COPY_QUARTERS ? NIGH_COPY_PLAIN : sender;
}

bool nigh_pace_are_kin(const struct nigh_pace *pace, unsigned a, unsigned b)
{
    return way_of(pace, a) == way_of(pace, b);
}

/*
 * And whether it is to: of those that write alike, one that is for long messages stands in for the one that is for all.
 * The list has it because it is better there (docs/rationale/choosing.md); trials behind it flatter the other, which
 * finds in the L3 what this one has left room for.
 */
bool nigh_pace_fits(const struct nigh_pace *pace, unsigned strategy, unsigned index)
{
    for (unsigned i = 0; i < pace->count; i++) {
        if (pace->strategy[i].from > pace->strategy[strategy].from && nigh_pace_are_kin(pace, i, strategy) &&
            is_for(pace, i, index))
            return false;
    }
    return may_take(pace, strategy, index);
}

/* True, and the class begins with it, when another class has found a strategy that fits this one. */
static bool begin_like(struct nigh_pace *pace, unsigned index, unsigned other)
{
    if (other >= NIGH_PACE_CLASSES || !pace->in[other].changed ||
        !nigh_pace_fits(pace, pace->in[other].current, index))
        return false;
    pace->in[index].current = pace->in[other].current;
    return true;
}

/* What to begin with where nothing is known: what is right here, or what stands in for it. */
static unsigned beginning(const struct nigh_pace *pace, unsigned index)
{
    for (unsigned i = 0; i < pace->count; i++) {
        if (is_for(pace, i, index) && nigh_pace_fits(pace, i, index) &&
            nigh_pace_are_kin(pace, i, pace->here))
            return i;
    }
    return pace->here;
}

/* A size that is new begins with what the nearest size has found: the state of the machine is the same for both. */
void nigh_pace_begin(struct nigh_pace *pace, unsigned index)
{
    struct nigh_pace_class *in = &pace->in[index];

    in->begun = 1;
    in->current = (uint8_t)beginning(pace, index);
    for (unsigned step = 1; step < NIGH_PACE_CLASSES; step++) {
        /* index - step may wrap, and is then no class either */
        if (begin_like(pace, index, index - step) || begin_like(pace, index, index + step))
            break;
    }
    in->turn = in->current;
}

/* What has stayed here since was not for nothing: the next bad moment is not to last longer for it. */
static void stays(struct nigh_pace_class *in)
{
    if (in->again && ++in->home >= HOME)
        in->again = in->away = in->home = 0;
}

/*
 * Figures win over the handoff where they are clear, as on a machine that the list was not made for. But a moment in
 * which copies through the cache were slow is enough for that, and there is no way back: in a stream, which turns its
 * chunks over by what is current, any other strategy is tried on chunks that this one has left, and plain copies then
 * look two to three times as slow as they are. So now and then what is right here gets all chunks to itself before
 * anything is compared. Seldom where it was for nothing.
 */
bool nigh_pace_begin_anew(struct nigh_pace *pace, unsigned index)
{
    struct nigh_pace_class *in = &pace->in[index];
    uint16_t again = in->again ? in->again : AGAIN_FIRST;

    if (pace->handoff <= 0 || pace->crossed)
        return false;
    if (nigh_pace_are_kin(pace, in->current, pace->here)) {
        stays(in);
        return false;
    }
    if (++in->away < again)
        return false;
    *in = (struct nigh_pace_class){
        .current = (uint8_t)beginning(pace, index),
        .trial = NIGH_PACE_NONE,
        .patience = NIGH_PACE_PATIENCE,
        .begun = 1,
        .stream = in->stream,
        .anew = 1,
        .again = again < AGAIN_MOST ? (uint16_t)(again * 2) : AGAIN_MOST,
    };
    in->turn = in->current;
    pace->changes++;
    return true;
}

void nigh_pace_handoff(struct nigh_pace *pace, float ns)
{
    bool was_far = pace->handoff > 0 && pace->here == pace->far, was_crossed;
    bool is_far = ns > pace->far_ns || (was_far && ns > pace->far_ns * back);

    if (ns <= 0)
        return;
    /* What was found by figures before that was found with the wrong beginning. */
    if (pace->handoff <= 0 && pace->changes > 0)
        begin_all(pace);
    pace->handoff = ns;
    was_crossed = pace->crossed;
    pace->crossed = pace->here != (is_far ? pace->far : pace->near);
    if (!pace->crossed || !was_crossed)
        return;
    pace->crossed = false;
    pace->here = is_far ? pace->far : pace->near;
    pace->changes++;
    begin_all(pace);
}

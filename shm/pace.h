/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/pace.h - which copy strategy the next large message to one peer takes. The machine decides what is fast and
 * changes its mind while a program runs. The handoff of a line says on which caches the pair lies, and that is all
 * that short messages go by; for long ones each pair times what it does anyway, tries the alternatives on a few per
 * cent of the bytes, and changes with hysteresis. Private memory of the sender; nothing here is shared.
 */
#ifndef NIGH_SHM_PACE_H
#define NIGH_SHM_PACE_H

#include "shm/strategy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NIGH_PACE_STRATEGIES = 6, /* a list holds at most so many: each costs trials */
    NIGH_PACE_CLASSES = 10,   /* powers of two: 64 to 128 KiB, ... 16 to 32 MiB, 32 MiB and above */
    /* Bytes. Messages below go by the handoff alone: two looks at the clock, and stores that are still under way when
     * it is read, are as long as their copies (docs/rationale/choosing.md). */
    NIGH_PACE_MEASURED = 65536,
    NIGH_PACE_SMALLEST = 16, /* log2 of it: where class 0 begins */
    NIGH_PACE_REASON = 160,  /* bytes of a reason, its end included */
};

/* What one size class knows. A figure is nanoseconds per KiB, 0 while there is none. */
struct nigh_pace_class {
    float figure[NIGH_PACE_STRATEGIES];
    float settled;   /* figure of the current strategy when the alternatives were last looked at */
    float sample[3]; /* the counted messages of the trial */
    float stray;     /* the least of the strays in a row */
    float credit;    /* bytes that trials may still cost */
    uint32_t
        heard; /* messages learned from since the current strategy was chosen, or the last trial; may wrap */
    uint32_t since;    /* messages since the last sweep of all alternatives */
    uint16_t patience; /* messages that must pass between sweeps; doubles when a sweep was for nothing */
    uint16_t waited;   /* messages chosen since the trial was sent out */
    uint8_t current;
    uint8_t trial; /* NIGH_PACE_STRATEGIES: none */
    uint8_t to_send, to_hear, counted;
    uint8_t sweep;   /* alternatives that are still to be tried without asking the credit */
    uint8_t kin;     /* 1: they are those with the sender of what is right here */
    uint8_t turn;    /* the alternative tried last */
    uint8_t wins;    /* trials in a row that the same alternative has won */
    uint8_t begun;   /* 1 after the first message of this class */
    uint8_t strays;  /* messages in a row that were far off the figure */
    uint8_t changed; /* 1: the current strategy was chosen by measurement */
    uint8_t untimed; /* messages that need not be timed: counts, and wraps */
    uint8_t stream;  /* 1: the last message followed others without a pause */
    uint8_t anew;    /* 1: begun anew, and not settled yet */
    /* Messages learned from: `away`, of a strategy that the handoff rules out, behind `again` of which the class begins
     * anew (0: at first), and `home`, of one that is right here, since it did. */
    uint16_t again, away, home;
};

struct nigh_pace {
    struct nigh_strategy strategy[NIGH_PACE_STRATEGIES];
    uint8_t count;
    uint8_t near, far; /* what to begin with where a handoff costs less, or more, than far_ns */
    uint8_t here;      /* of the two, that of the last handoff */
    float far_ns;
    float handoff; /* ns, the last that nigh_pace_handoff was told; 0: none yet */
    bool crossed;  /* it was on the other side of far_ns than what is here */
    uint64_t changes;
    struct nigh_pace_class in[NIGH_PACE_CLASSES];
};

/* The class of a message. */
static inline unsigned nigh_pace_class_of(size_t bytes)
{
    unsigned log = bytes ? 63U - (unsigned)__builtin_clzll(bytes) : 0;

    if (log < NIGH_PACE_SMALLEST)
        return 0;
    return log - NIGH_PACE_SMALLEST < NIGH_PACE_CLASSES ? log - NIGH_PACE_SMALLEST : NIGH_PACE_CLASSES - 1;
}

/* The list is copied. Begins with strategy `near`, as nothing is known of the pair yet. 0, or -EINVAL and *pace
 * untouched: count is 0 or above NIGH_PACE_STRATEGIES, near or far is not below count or is not for every size (from),
 * or a strategy is not valid (nigh_strategy_check). */
int nigh_pace_open(struct nigh_pace *pace, const struct nigh_strategy *list, unsigned count, unsigned near,
                   unsigned far, unsigned far_ns);

/* The index of the strategy that the next message of `bytes` takes. One thread at a time for a pace; no clock is
 * read, nothing is allocated, a few ns. */
unsigned nigh_pace_choose(struct nigh_pace *pace, size_t bytes);

/* The same without a trial, for what is not timed; it changes nothing. */
static inline unsigned nigh_pace_current(const struct nigh_pace *pace, size_t bytes)
{
    const struct nigh_pace_class *in = &pace->in[nigh_pace_class_of(bytes)];

    return bytes < NIGH_PACE_MEASURED || !in->begun ? pace->here : in->current;
}

/* The same for messages below NIGH_PACE_MEASURED, which nothing is learned from. */
static inline unsigned nigh_pace_short(const struct nigh_pace *pace)
{
    return pace->here;
}

/* Whether a message for which nigh_pace_choose gave `strategy` should be timed and told of: some of a trial, all while
 * little is known and of a `stream` of 256 KiB and more, of shorter streams one in four, of the others one in eight.
 * Behind that call, once for each message; threads and cost as above. */
bool nigh_pace_asks(struct nigh_pace *pace, unsigned strategy, size_t bytes, bool stream);

/* Tells how long a message took, from the first byte copied to the receiver's word that it has all, with the
 * strategy that nigh_pace_choose gave for it. Messages may be told in any order and some never. */
void nigh_pace_learn(struct nigh_pace *pace, unsigned strategy, size_t bytes, uint64_t ns);

/* Tells what a handoff of one line costs now. When it crosses far_ns, twice in a row, the pair's CPUs have come
 * to lie on other caches: every size begins anew with what is right there, and looks at once at the
 * alternatives that have its sender. */
void nigh_pace_handoff(struct nigh_pace *pace, float ns);

/* The piece that a message of `bytes` is cut into: an eighth, so that both sides work most of the time, a quarter
 * below NIGH_PACE_MEASURED, where what each piece costs counts as much, or half of one that is short and
 * written past the cache; between 4 KiB and the strategy's own. In a stream the other side has the message
 * before to work at: the strategy's own. */
size_t nigh_pace_piece(const struct nigh_strategy *strategy, size_t bytes, bool stream);

/* What a message of `bytes` takes now and why, one line, always terminated. Returns `text`. */
const char *nigh_pace_reason(const struct nigh_pace *pace, size_t bytes, char text[NIGH_PACE_REASON]);

#endif

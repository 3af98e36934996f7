/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/pace.h - which copy strategy the next large message to one peer takes. The machine decides what is fast and
 * changes its mind while a program runs, so each pair times what it does anyway, tries the alternatives on a few
 * per cent of the bytes, and changes with hysteresis. Private memory of the sender; nothing here is shared.
 */
#ifndef NIGH_SHM_PACE_H
#define NIGH_SHM_PACE_H

#include "shm/copy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NIGH_PACE_STRATEGIES = 6, /* a list holds at most so many: each costs trials */
    NIGH_PACE_CLASSES = 13,   /* powers of two: below 8 KiB, 8 to 16 KiB, ... 16 MiB and above */
    NIGH_PACE_REASON = 160,   /* bytes of a reason, its end included */
};

/* How a large message is copied: into a chunk by `sender`, out of it by `receiver`. */
struct nigh_strategy {
    uint8_t sender, receiver; /* enum nigh_copy_kernel */
    uint8_t reserved[2];
    uint32_t span;  /* bytes of chunks in rotation */
    uint32_t piece; /* the largest piece; a multiple of 4 KiB */
    /* Only for messages of at least so many bytes: a reader that writes past its cache wins every timing, but its
     * program then finds the data in memory. */
    uint32_t from;
};

/* What one size class knows. A figure is nanoseconds per KiB, 0 while there is none. */
struct nigh_pace_class {
    float figure[NIGH_PACE_STRATEGIES];
    float settled;     /* figure of the current strategy when the alternatives were last looked at */
    float sample[3];   /* the counted messages of the trial */
    float stray;       /* the least of the strays in a row */
    float credit;      /* bytes that trials may still cost */
    uint32_t heard;    /* messages learned from since the current strategy was chosen; may wrap */
    uint32_t since;    /* messages since the last sweep of all alternatives */
    uint16_t patience; /* messages that must pass between sweeps; doubles when a sweep was for nothing */
    uint16_t waited;   /* messages chosen since the trial was sent out */
    uint8_t current;
    uint8_t trial; /* NIGH_PACE_STRATEGIES: none */
    uint8_t to_send, to_hear, counted;
    uint8_t sweep;   /* alternatives that are still to be tried without asking the credit */
    uint8_t turn;    /* the alternative tried last */
    uint8_t wins;    /* trials in a row that the same alternative has won */
    uint8_t begun;   /* 1 after the first message of this class */
    uint8_t strays;  /* messages in a row that were far off the figure */
    uint8_t changed; /* 1: the current strategy was chosen by measurement */
};

struct nigh_pace {
    struct nigh_strategy strategy[NIGH_PACE_STRATEGIES];
    uint8_t count;
    uint8_t first;  /* the default */
    uint8_t forced; /* NIGH_PACE_STRATEGIES: none */
    float handoff;  /* ns, the last that nigh_pace_handoff was told and believed; 0: none yet */
    uint64_t bytes, trial_bytes, changes;
    struct nigh_pace_class in[NIGH_PACE_CLASSES];
};

/* Begins with strategy `first` of `count`; the list is copied. 0, or -EINVAL and *pace untouched: count is 0 or
 * above NIGH_PACE_STRATEGIES, first is not below count or is not for every size (from), or a strategy is not valid
 * (nigh_strategy_check). */
int nigh_pace_open(struct nigh_pace *pace, const struct nigh_strategy *list, unsigned count, unsigned first);

/* 0; -EINVAL when a kernel is none of the enum, when a piece is 0, no multiple of 4 KiB or more than half of the
 * span; -ENOTSUP when this CPU lacks a kernel. *why (may be NULL) then says which, in static storage. */
int nigh_strategy_check(const struct nigh_strategy *strategy, const char **why);

/* The index of the strategy that the next message of `bytes` takes. One thread at a time for a pace; no clock is
 * read, nothing is allocated, a few ns. */
unsigned nigh_pace_choose(struct nigh_pace *pace, size_t bytes);

/* True, and *strategy, when messages of `bytes` simply go on as they do: no trial is due or out, nothing needs timing. */
bool nigh_pace_is_settled(const struct nigh_pace *pace, size_t bytes, unsigned *strategy);

/* Is the time of this message wanted more than others': is it part of a trial, or does its class know little yet, or do
 * its figures look as if the machine had changed? For callers that time only some messages. */
bool nigh_pace_is_curious(const struct nigh_pace *pace, unsigned strategy, size_t bytes);

/* Tells how long a message took, from the first byte copied to the receiver's word that it has all, with the
 * strategy that nigh_pace_choose gave for it. Messages may be told in any order and some never. `stalled`: the
 * peer or this side was busy with something else meanwhile, so the time says nothing; it is not learned. */
void nigh_pace_learn(struct nigh_pace *pace, unsigned strategy, size_t bytes, uint64_t ns, bool stalled);

/* Tells what a handoff of one line costs now. When it has doubled or halved, the pair's CPUs are on other caches
 * than before: every class looks at its alternatives at once. */
void nigh_pace_handoff(struct nigh_pace *pace, float ns);

/* Every message takes `strategy` from now on, nothing is tried; NIGH_PACE_STRATEGIES ends it. 0, or -EINVAL when
 * there is no such strategy. */
int nigh_pace_force(struct nigh_pace *pace, unsigned strategy);

/* The piece that a message of `bytes` is cut into: an eighth, so that both sides work most of the time, between
 * 4 KiB and the strategy's own. */
size_t nigh_pace_piece(const struct nigh_strategy *strategy, size_t bytes);

/* What a message of `bytes` takes now and why, one line, always terminated. Returns `text`. */
const char *nigh_pace_reason(const struct nigh_pace *pace, size_t bytes, char text[NIGH_PACE_REASON]);

#endif

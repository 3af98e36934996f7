/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/pace.c - the chooser of copy strategies: one small state machine for each size class of a pair. Time is what
 * callers tell it, so tests drive it with synthetic figures. */
#include "shm/pace_begin.h"

enum {
    PAGE = 4096,
    /* Stores past the cache must have drained before each piece is told of, so those pieces are larger. */
    DRAINED = 32768,

    /* The messages of a trial that count. Before them the span has to be rotated through once (see rotation()). */
    TRIAL_COUNTED = 3,
    ROTATION_MOST = 64,
    /* A trial whose messages were cancelled is given up after so many others. */
    TRIAL_PATIENCE = 256,
    /* Messages of the current strategy, behind a rotation, before anything is compared with it. */
    WARM = 4,
    /* Of lone messages of the current strategy one in so many is timed: reading the clock around each
     * piece, on both sides, took a fifth of a lone 64 KiB. In a long stream it costs nothing, and the
     * pair learns eight times as fast. */
    TIMED_EACH = 8,
    /* Of a stream of messages shorter than this, of which half or all is one timed piece: 128 KiB
     * 0.84 -> 0.91 of the floor. */
    TIMED_SHORT = 4,
    TIMED_FROM = 256 * 1024,
    /* So many messages that are all off by more than `clip` are a change of state and no accident. */
    STRAYS = 3,
    SWEEP_PATIENCE_MAX = 1024,
    /* A sudden change waits for a quarter of the patience only, but it waits: CPUs that move all the time, or that
     * are shared with others, would have the pair do nothing but compare. */
    SUDDEN = 4,
};

/* Share of the bytes that may go to trials. A message of an alternative that is known to be n times slower counts
 * n times, so the share holds for time as well. */
static const float trial_share = 0.01F;
/* An alternative must be this much better, twice in a row; clearly better ones change at once. */
static const float better = 1.10F;
static const float clearly_better = 1.5F;
/* A trial is given up when its first counted message is this much slower; when it is so twice over, with the first
 * message of all. */
static const float hopeless = 2.0F;
/* The current strategy has become so much slower than where it was settled that all alternatives are looked at,
 * whatever that costs. Less is no reason: figures across L3s wander by a factor of two, and a sweep every 64
 * messages took a third of a stream's time. */
static const float moved = 3.0F;
static const float weight = 1.0F / 8;
/* A message that is off by more than this is a stray: interrupted, or the first of a new state. */
static const float clip = 2.0F;

/*
 * Messages until every chunk has been used once: a chunk still lies where the strategy before left it, in a cache or in
 * memory, and the first to use it pays for that. Trials of four messages found plain copies in one L3 to take 120 ns
 * a KiB behind non-temporal ones, instead of 40, and pairs stayed with the latter. In a stream the chunks in flight
 * are turned over by the current strategy anyhow, and long trials were the trap: with them 64 and 128 KiB went at 15
 * GB/s instead of 30 in every third run.
 */
static unsigned rotation(const struct nigh_pace *pace, unsigned index)
{
    unsigned messages = pace->strategy[pace->near].span >> (NIGH_PACE_SMALLEST + index);

    if (pace->in[index].stream && !pace->in[index].anew)
        return 1;
    return messages < 1 ? 1 : messages < ROTATION_MOST ? messages : ROTATION_MOST;
}

static unsigned trial_length(const struct nigh_pace *pace, unsigned index)
{
    return rotation(pace, index) + TRIAL_COUNTED;
}

/* Of a trial the last messages are timed, which count, and a few before them, so that a hopeless one ends early. */
static bool asks_of_trial(unsigned left)
{
    return left < TRIAL_COUNTED || left % TIMED_EACH == 0;
}

static unsigned asked_of_trial(unsigned length)
{
    unsigned asked = 0;

    for (unsigned left = 0; left < length; left++)
        asked += asks_of_trial(left);
    return asked;
}

static void send_out(struct nigh_pace *pace, unsigned index, unsigned strategy)
{
    struct nigh_pace_class *in = &pace->in[index];

    in->trial = (uint8_t)strategy;
    in->turn = (uint8_t)strategy;
    in->to_send = (uint8_t)trial_length(pace, index);
    in->to_hear = (uint8_t)asked_of_trial(in->to_send);
    in->counted = 0;
    in->waited = 0;
}

/* Whether a class tries a strategy in place of its own: in a sweep of `kin` only what is written
 * like what is right here. */
static bool is_alternative(const struct nigh_pace *pace, unsigned index, unsigned strategy)
{
    const struct nigh_pace_class *in = &pace->in[index];

    if (strategy == in->current || !nigh_pace_fits(pace, strategy, index))
        return false;
    return !in->sweep || !in->kin || nigh_pace_are_kin(pace, strategy, pace->here);
}

/* The next one in turn, NIGH_PACE_NONE when there is no other. */
static unsigned next_alternative(const struct nigh_pace *pace, unsigned index)
{
    for (unsigned step = 1; step <= pace->count; step++) {
        unsigned next = (pace->in[index].turn + step) % pace->count;

        if (is_alternative(pace, index, next))
            return next;
    }
    return NIGH_PACE_NONE;
}

static void consider_trial(struct nigh_pace *pace, unsigned index, size_t bytes)
{
    struct nigh_pace_class *in = &pace->in[index];
    unsigned next;

    /* The credit may go below zero: what a trial costs is known only behind it, as the figure that an alternative
     * had in another state of the machine says nothing. The next trial waits until it is paid off. */
    if (!in->sweep && in->credit < (float)trial_length(pace, index) * (float)bytes)
        return;
    next = next_alternative(pace, index);
    if (in->sweep)
        in->sweep--;
    if (next != NIGH_PACE_NONE)
        send_out(pace, index, next);
}

/* Whether the current strategy has been heard of often enough. */
static bool is_warm(const struct nigh_pace *pace, unsigned index)
{
    return pace->in[index].heard >= rotation(pace, index) + WARM;
}

static unsigned choose_slow(struct nigh_pace *pace, unsigned index, size_t bytes)
{
    struct nigh_pace_class *in = &pace->in[index];

    if (in->trial == NIGH_PACE_NONE && is_warm(pace, index))
        consider_trial(pace, index, bytes);
    if (in->trial == NIGH_PACE_NONE)
        return in->current;
    if (in->to_send > 0) {
        in->to_send--;
        return in->trial;
    }
    if (++in->waited > TRIAL_PATIENCE)
        in->trial = NIGH_PACE_NONE;
    return in->current;
}

unsigned nigh_pace_choose(struct nigh_pace *pace, size_t bytes)
{
    unsigned index = nigh_pace_class_of(bytes);
    struct nigh_pace_class *in = &pace->in[index];

    if (bytes < NIGH_PACE_MEASURED)
        return pace->here;
    if (!in->begun)
        nigh_pace_begin(pace, index);
    /* The common case: no trial is out and none can be paid for. */
    if (in->trial == NIGH_PACE_NONE && in->sweep == 0 && in->credit < (float)TRIAL_COUNTED * (float)bytes)
        return in->current;
    return choose_slow(pace, index, bytes);
}

bool nigh_pace_asks(struct nigh_pace *pace, unsigned strategy, size_t bytes, bool stream)
{
    unsigned index = nigh_pace_class_of(bytes);
    struct nigh_pace_class *in = &pace->in[index];

    if (bytes < NIGH_PACE_MEASURED || pace->count < 2)
        return false;
    in->stream = stream;
    if (strategy == in->trial)
        return asks_of_trial(in->to_send);
    in->credit += (float)bytes * trial_share;
    if (!is_warm(pace, index))
        return true;
    return ++in->untimed % (!stream ? TIMED_EACH : bytes < TIMED_FROM ? TIMED_SHORT : 1) == 0;
}

/*
 * All alternatives are looked at, or the `kin` of what is right here alone: the first time of all, where the handoff is
 * known and the class has not begun anew, the others are wrong by a factor of two to four, and a stream of long
 * messages lost a tenth to them whenever its CPUs had moved. They wait for credit.
 */
static void start_sweep(struct nigh_pace *pace, unsigned index, bool kin)
{
    struct nigh_pace_class *in = &pace->in[index];
    unsigned alternatives = 0;

    in->kin = kin;
    in->sweep = 1;
    for (unsigned i = 0; i < pace->count; i++)
        alternatives += is_alternative(pace, index, i);
    in->sweep = (uint8_t)alternatives;
    in->turn = in->current;
    in->since = 0;
    in->settled = in->figure[in->current];
    in->patience = in->patience < SWEEP_PATIENCE_MAX ? (uint16_t)(in->patience * 2) : SWEEP_PATIENCE_MAX;
}

static void change_to(struct nigh_pace *pace, struct nigh_pace_class *in, unsigned strategy)
{
    in->current = (uint8_t)strategy;
    in->changed = 1;
    in->heard = 0;
    in->wins = 0;
    in->patience = NIGH_PACE_PATIENCE;
    in->settled = in->figure[strategy];
    pace->changes++;
}

/* One of three messages may have been interrupted. */
static float median(const float v[TRIAL_COUNTED])
{
    float low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];

    return v[2] < low ? low : v[2] < high ? v[2] : high;
}

static void conclude(struct nigh_pace *pace, unsigned index)
{
    struct nigh_pace_class *in = &pace->in[index];
    unsigned tried = in->trial;
    float now = in->figure[in->current];

    in->trial = NIGH_PACE_NONE;
    in->heard = 0;
    if (in->counted == 0)
        return;
    in->figure[tried] = in->counted < TRIAL_COUNTED ? in->sample[0] : median(in->sample);
    if (in->counted < TRIAL_COUNTED || in->figure[tried] * better > now) {
        in->wins = 0;
        return;
    }
    if (++in->wins >= 2 || in->figure[tried] * clearly_better <= now)
        change_to(pace, in, tried);
    else
        send_out(pace, index, tried);
}

static void learn_trial(struct nigh_pace *pace, unsigned index, float figure)
{
    struct nigh_pace_class *in = &pace->in[index];
    bool first = in->to_hear > TRIAL_COUNTED;
    float limit = in->figure[in->current] * hopeless;

    in->to_hear--;
    if (!first || figure > limit * hopeless) {
        in->sample[in->counted++] = figure;
        if (in->counted == 1 && figure > limit)
            in->to_hear = in->to_send = 0;
    }
    if (in->to_hear == 0)
        conclude(pace, index);
}

/* True once figures are so far off, so often in a row, that the old one means nothing any more. The new one is the
 * least of them, in->stray. */
static bool is_new_state(struct nigh_pace_class *in, float figure)
{
    float before = in->figure[in->current];

    if (in->strays == 0 || figure < in->stray)
        in->stray = figure;
    if (figure <= before * clip && figure * clip >= before) {
        in->strays = 0;
        return false;
    }
    if (++in->strays < STRAYS)
        return false;
    in->strays = 0;
    return true;
}

static void learn_current(struct nigh_pace *pace, unsigned index, float figure)
{
    struct nigh_pace_class *in = &pace->in[index];
    float *now = &in->figure[in->current];
    unsigned apart = in->patience;
    float early;

    if (nigh_pace_begin_anew(pace, index))
        return;
    in->since++;
    in->heard++;
    if (in->heard <= rotation(pace, index)) {
        /* The first figures of all stand until there are better ones. */
        if (in->settled <= 0)
            *now = figure;
    } else if (is_new_state(in, figure)) {
        *now = in->stray;
        apart /= SUDDEN;
    } else if (in->strays == 0) {
        /* At first a mean of all: with this weight the first one, through cold chunks, was still half of it when
         * trials were compared with it. */
        early = in->settled <= 0 ? 1.0F / (float)(in->heard - rotation(pace, index)) : 0;
        *now += (figure - *now) * (early > weight ? early : weight);
    }
    if (pace->count < 2 || !is_warm(pace, index))
        return;
    if (in->settled <= 0) {
        start_sweep(pace, index, pace->handoff > 0 && !in->anew);
        in->anew = 0;
        in->patience = NIGH_PACE_PATIENCE;
    } else if (in->since >= apart && *now > in->settled * moved) {
        start_sweep(pace, index, false);
    }
}

/* What a message of a trial has cost, and those of it that nobody asks for. */
static void charge(struct nigh_pace *pace, unsigned index, size_t bytes, float figure)
{
    struct nigh_pace_class *in = &pace->in[index];
    float now = in->figure[in->current], length = (float)trial_length(pace, index);
    float slower = now > 0 && figure > now ? figure / now : 1;

    in->credit -= (float)bytes * slower * length / (float)asked_of_trial(trial_length(pace, index));
}

void nigh_pace_learn(struct nigh_pace *pace, unsigned strategy, size_t bytes, uint64_t ns)
{
    unsigned index = nigh_pace_class_of(bytes);
    struct nigh_pace_class *in = &pace->in[index];

    if (strategy >= pace->count || bytes < NIGH_PACE_MEASURED || !in->begun)
        return;

    float figure = (float)ns * 1024.0F / (float)bytes;

    if (strategy != in->current)
        charge(pace, index, bytes, figure);
    if (strategy == in->trial && in->to_hear > 0) {
        learn_trial(pace, index, figure);
    } else if (strategy == in->current) {
        learn_current(pace, index, figure);
    }
}

size_t nigh_pace_piece(const struct nigh_strategy *strategy, size_t bytes, bool stream)
{
    size_t piece = bytes / (bytes < NIGH_PACE_MEASURED ? 4 : 8);

    if (stream)
        return strategy->piece;
    if (strategy->sender == NIGH_COPY_NT && piece < DRAINED)
        piece = bytes / 2 < DRAINED ? bytes / 2 : DRAINED;
    piece = piece / PAGE * PAGE;
    if (piece < PAGE)
        piece = PAGE;
    return piece < strategy->piece ? piece : strategy->piece;
}

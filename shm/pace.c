/* SPDX-License-Identifier: BSD-3-Clause */
/* The chooser of copy strategies: one small state machine for each size class of a pair. Time is what callers
 * tell it, so tests drive it with synthetic figures. */
#include "shm/pace.h"

#include <errno.h>
#include <stdio.h>

enum {
    NONE = NIGH_PACE_STRATEGIES,
    SMALLEST_CLASS = 16, /* class 0 begins with 2^16 bytes, NIGH_PACE_MEASURED */
    PAGE = 4096,
    /* Stores past the cache must have drained before each piece is told of, so those pieces are larger. */
    DRAINED = 32768,

    /* A trial is four messages, the first not counted: its chunks still lie where the strategy before it left
     * them, and that is what is being measured. */
    TRIAL = 4,
    TRIAL_COUNTED = 3,
    /* A trial whose messages were cancelled is given up after so many others. */
    TRIAL_PATIENCE = 256,
    /* Messages of the current strategy before anything is compared with it. */
    WARM = 4,
    /* So many messages that are all off by more than `clip` are a change of state and no accident. */
    STRAYS = 3,
    SWEEP_PATIENCE = 64,
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
/* The current strategy has become so much slower than where it was settled that all alternatives are looked at, whatever
 * that costs. Less is no reason: figures across L3s wander by a factor of two, and a sweep every 64 messages took a third
 * of a stream's time. */
static const float moved = 3.0F;
static const float weight = 1.0F / 8;
/* The way back begins lower: a handoff close to far_ns must not have the pair change all the time. */
static const float back = 0.8F;
/* A message that is off by more than this is a stray: interrupted, or the first of a new state. */
static const float clip = 2.0F;

int nigh_strategy_check(const struct nigh_strategy *strategy, const char **why)
{
    const char *said = NULL;
    int error = -EINVAL;

    if (strategy->sender >= NIGH_COPY_KERNELS || strategy->receiver >= NIGH_COPY_KERNELS) {
        said = "no such copy kernel";
    } else if (strategy->piece == 0 || strategy->piece % PAGE != 0) {
        said = "the piece must be a multiple of 4096 bytes and not 0";
    } else if (strategy->piece > strategy->span / 2) {
        said = "the piece must be at most half of the span";
    } else if (!nigh_copy_select((enum nigh_copy_kernel)strategy->sender) ||
               !nigh_copy_select((enum nigh_copy_kernel)strategy->receiver)) {
        said = "this CPU lacks the copy kernel";
        error = -ENOTSUP;
    }
    if (why)
        *why = said;
    return said ? error : 0;
}

static void begin_all(struct nigh_pace *pace)
{
    memset(pace->in, 0, sizeof(pace->in));
    for (unsigned i = 0; i < NIGH_PACE_CLASSES; i++) {
        pace->in[i].trial = NONE;
        pace->in[i].patience = SWEEP_PATIENCE;
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

static unsigned class_of(size_t bytes)
{
    unsigned log = bytes ? 63U - (unsigned)__builtin_clzll(bytes) : 0;

    if (log < SMALLEST_CLASS)
        return 0;
    return log - SMALLEST_CLASS < NIGH_PACE_CLASSES ? log - SMALLEST_CLASS : NIGH_PACE_CLASSES - 1;
}

/* Whether a strategy may take every message of a class. */
static bool fits(const struct nigh_pace *pace, unsigned strategy, unsigned index)
{
    size_t least = (size_t)1 << (SMALLEST_CLASS + index);

    return pace->strategy[strategy].from <= least;
}

/* True, and the class begins with it, when another class has found a strategy that fits this one. */
static bool begin_like(struct nigh_pace *pace, unsigned index, unsigned other)
{
    if (other >= NIGH_PACE_CLASSES || !pace->in[other].changed || !fits(pace, pace->in[other].current, index))
        return false;
    pace->in[index].current = pace->in[other].current;
    return true;
}

/* A size that is new begins with what the nearest size has found: the state of the machine is the same for both. */
static void begin(struct nigh_pace *pace, unsigned index)
{
    struct nigh_pace_class *in = &pace->in[index];

    in->begun = 1;
    in->current = pace->here;
    for (unsigned step = 1; step < NIGH_PACE_CLASSES; step++) {
        /* index - step may wrap, and is then no class either */
        if (begin_like(pace, index, index - step) || begin_like(pace, index, index + step))
            break;
    }
    in->turn = in->current;
}

static void send_out(struct nigh_pace_class *in, unsigned strategy)
{
    in->trial = (uint8_t)strategy;
    in->turn = (uint8_t)strategy;
    in->to_send = in->to_hear = TRIAL;
    in->counted = 0;
    in->waited = 0;
}

/* The next one in turn that fits, NONE when there is no other. */
static unsigned next_alternative(const struct nigh_pace *pace, unsigned index)
{
    const struct nigh_pace_class *in = &pace->in[index];

    for (unsigned step = 1; step <= pace->count; step++) {
        unsigned next = (in->turn + step) % pace->count;

        if (next != in->current && fits(pace, next, index))
            return next;
    }
    return NONE;
}

static void consider_trial(struct nigh_pace *pace, unsigned index, size_t bytes)
{
    struct nigh_pace_class *in = &pace->in[index];
    unsigned next;

    /* The credit may go below zero: what a trial costs is known only behind it, as the figure that an alternative
     * had in another state of the machine says nothing. The next trial waits until it is paid off. */
    if (in->sweep > 0)
        in->sweep--;
    else if (in->credit < (float)TRIAL * (float)bytes)
        return;
    next = next_alternative(pace, index);
    if (next != NONE)
        send_out(in, next);
}

static unsigned choose_slow(struct nigh_pace *pace, unsigned index, size_t bytes)
{
    struct nigh_pace_class *in = &pace->in[index];

    if (in->trial == NONE && in->heard >= WARM)
        consider_trial(pace, index, bytes);
    if (in->trial == NONE)
        return in->current;
    if (in->to_send > 0) {
        in->to_send--;
        return in->trial;
    }
    if (++in->waited > TRIAL_PATIENCE)
        in->trial = NONE;
    return in->current;
}

unsigned nigh_pace_choose(struct nigh_pace *pace, size_t bytes)
{
    unsigned index = class_of(bytes);
    struct nigh_pace_class *in = &pace->in[index];

    if (bytes < NIGH_PACE_MEASURED)
        return pace->here;
    if (!in->begun)
        begin(pace, index);
    /* The common case: no trial is out and none can be paid for. */
    if (in->trial == NONE && in->sweep == 0 && in->credit < (float)TRIAL * (float)bytes)
        return in->current;
    return choose_slow(pace, index, bytes);
}

static void start_sweep(const struct nigh_pace *pace, struct nigh_pace_class *in)
{
    in->sweep = (uint8_t)(pace->count - 1);
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
    in->patience = SWEEP_PATIENCE;
    in->settled = in->figure[strategy];
    pace->changes++;
}

/* One of three messages may have been interrupted. */
static float median(const float v[TRIAL_COUNTED])
{
    float low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];

    return v[2] < low ? low : v[2] < high ? v[2] : high;
}

static void conclude(struct nigh_pace *pace, struct nigh_pace_class *in)
{
    unsigned tried = in->trial;
    float now = in->figure[in->current];

    in->trial = NONE;
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
        send_out(in, tried);
}

static void learn_trial(struct nigh_pace *pace, struct nigh_pace_class *in, float figure, bool stalled)
{
    bool first = in->to_hear == TRIAL;
    float limit = in->figure[in->current] * hopeless;

    in->to_hear--;
    if (!stalled && (!first || figure > limit * hopeless)) {
        in->sample[in->counted++] = figure;
        if (in->counted == 1 && figure > limit)
            in->to_hear = in->to_send = 0;
    }
    if (in->to_hear == 0)
        conclude(pace, in);
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

static void learn_current(struct nigh_pace *pace, struct nigh_pace_class *in, float figure)
{
    float *now = &in->figure[in->current];
    unsigned apart = in->patience;

    in->since++;
    in->heard++;
    if (*now <= 0) {
        *now = figure;
    } else if (is_new_state(in, figure)) {
        *now = in->stray;
        apart /= SUDDEN;
    } else if (in->strays == 0) {
        *now += (figure - *now) * weight;
    }
    if (pace->count < 2 || in->heard < WARM)
        return;
    if (in->settled <= 0) {
        start_sweep(pace, in);
        in->patience = SWEEP_PATIENCE;
    } else if (in->since >= apart && *now > in->settled * moved) {
        start_sweep(pace, in);
    }
}

void nigh_pace_learn(struct nigh_pace *pace, unsigned strategy, size_t bytes, uint64_t ns, bool stalled)
{
    struct nigh_pace_class *in = &pace->in[class_of(bytes)];

    pace->bytes += bytes;
    if (strategy >= pace->count || bytes < NIGH_PACE_MEASURED || !in->begun)
        return;

    float figure = (float)ns * 1024.0F / (float)bytes;

    if (strategy != in->current) {
        pace->trial_bytes += bytes;
        in->credit -= (float)bytes * (figure > in->figure[in->current] && in->figure[in->current] > 0
                                          ? figure / in->figure[in->current]
                                          : 1);
    }
    if (strategy == in->trial && in->to_hear > 0) {
        learn_trial(pace, in, figure, stalled);
    } else if (strategy == in->current && !stalled) {
        in->credit += (float)bytes * trial_share;
        learn_current(pace, in, figure);
    }
}

void nigh_pace_handoff(struct nigh_pace *pace, float ns)
{
    bool was_far = pace->handoff > 0 && pace->here == pace->far, was_crossed;
    bool is_far = ns > pace->far_ns || (was_far && ns > pace->far_ns * back);

    if (ns <= 0)
        return;
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

size_t nigh_pace_piece(const struct nigh_strategy *strategy, size_t bytes, bool stream)
{
    size_t piece = bytes / 8;

    if (stream)
        return strategy->piece;
    if (strategy->sender == NIGH_COPY_NT && piece < DRAINED)
        piece = bytes / 2 < DRAINED ? bytes / 2 : DRAINED;
    piece = piece / PAGE * PAGE;
    if (piece < PAGE)
        piece = PAGE;
    return piece < strategy->piece ? piece : strategy->piece;
}

static unsigned best_other(const struct nigh_pace *pace, const struct nigh_pace_class *in)
{
    unsigned best = NONE;

    for (unsigned i = 0; i < pace->count; i++) {
        if (i != in->current && in->figure[i] > 0 && (best == NONE || in->figure[i] < in->figure[best]))
            best = i;
    }
    return best;
}

static const char *sender_of(const struct nigh_pace *pace, unsigned i)
{
    return nigh_copy_name((enum nigh_copy_kernel)pace->strategy[i].sender);
}

static const char *receiver_of(const struct nigh_pace *pace, unsigned i)
{
    return nigh_copy_name((enum nigh_copy_kernel)pace->strategy[i].receiver);
}

static void say_measured(const struct nigh_pace *pace, const struct nigh_pace_class *in, char *text,
                         size_t bytes)
{
    unsigned other = best_other(pace, in);

    if (in->figure[in->current] <= 0)
        snprintf(text, bytes, "default, nothing measured yet");
    else if (other == NONE)
        snprintf(text, bytes, "%.1f ns/KiB, nothing else measured", (double)in->figure[in->current]);
    else
        snprintf(text, bytes, "measured %.1f ns/KiB, next best %s>%s %.1f", (double)in->figure[in->current],
                 sender_of(pace, other), receiver_of(pace, other), (double)in->figure[other]);
}

static void say_handoff(const struct nigh_pace *pace, char *text, size_t bytes)
{
    if (pace->handoff > 0)
        snprintf(text, bytes, "a line takes %.0f ns from core to core", (double)pace->handoff);
    else
        snprintf(text, bytes, "default, nothing measured yet");
}

const char *nigh_pace_reason(const struct nigh_pace *pace, size_t bytes, char text[NIGH_PACE_REASON])
{
    const struct nigh_pace_class *in = &pace->in[class_of(bytes)];
    unsigned current = bytes < NIGH_PACE_MEASURED ? pace->here : in->current;
    int at = snprintf(text, NIGH_PACE_REASON, "%s>%s span %uK: ", sender_of(pace, current),
                      receiver_of(pace, current), pace->strategy[current].span / 1024);

    if (bytes < NIGH_PACE_MEASURED)
        say_handoff(pace, text + at, (size_t)(NIGH_PACE_REASON - at));
    else
        say_measured(pace, in, text + at, (size_t)(NIGH_PACE_REASON - at));
    return text;
}

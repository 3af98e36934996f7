/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/pace_reason.c - what the chooser of copy strategies says of its choice. Apart from the choosing, which it only
 * looks at. */
#include "shm/pace.h"

#include <stdio.h>

static unsigned best_other(const struct nigh_pace *pace, const struct nigh_pace_class *in)
{
    unsigned best = NIGH_PACE_STRATEGIES;

    for (unsigned i = 0; i < pace->count; i++) {
        if (i != in->current && in->figure[i] > 0 &&
            (best == NIGH_PACE_STRATEGIES || in->figure[i] < in->figure[best]))
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
    else if (other == NIGH_PACE_STRATEGIES)
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
    const struct nigh_pace_class *in = &pace->in[nigh_pace_class_of(bytes)];
    unsigned current = bytes < NIGH_PACE_MEASURED ? pace->here : in->current;
    uint32_t span = pace->strategy[current].span / 1024;
    bool whole = span >= 1024 && span % 1024 == 0;
    int at = snprintf(text, NIGH_PACE_REASON, "%s>%s span %u %s: ", sender_of(pace, current),
                      receiver_of(pace, current), whole ? span / 1024 : span, whole ? "MiB" : "KiB");

    if (bytes < NIGH_PACE_MEASURED)
        say_handoff(pace, text + at, (size_t)(NIGH_PACE_REASON - at));
    else
        say_measured(pace, in, text + at, (size_t)(NIGH_PACE_REASON - at));
    return text;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/poll.c - what the host is given, and the passes that are made for it. */
#include "plugin/poll.h"
#include "plugin/context.h"
#include "plugin/progress.h"
#include "plugin/pull.h"
#include "plugin/refuse.h"
#include <errno.h>

/* Polls in a row that make no pass. */
#define UNLOOKED_MAX 16u

/* A host that is given what its post has found posts the next most often: no pass, but now and then, and then also
 * where its array is full of that, or who polls for one at a time would never make one. */
static inline bool needs_pass(struct nigh_context *context, bool full)
{
    bool found = context->at_once && !context->matcher.posted_count;

    context->at_once = false;
    if ((found || full) && context->unlooked++ < UNLOOKED_MAX)
        return false;
    context->unlooked = 0;
    return true;
}

/* In a poll that has something for its host already, which is not blocked then, whatever its note still says. */
static __attribute__((noinline)) void pass_beside(struct nigh_context *context)
{
    context->hands = true;
    nigh_progress(context);
    context->hands = false;
}

/* There are some that wait. Who has room for none asks for progress alone. */
static __attribute__((noinline)) int poll_waiting(struct nigh_context *context, struct nigh_completion *out,
                                                  uint32_t count)
{
    uint32_t popped = nigh_cq_pop(&context->cq, out, count);

    if (popped && !needs_pass(context, popped == count))
        return (int)popped;
    if (popped == count) {
        pass_beside(context);
        return (int)popped;
    }
    nigh_cq_direct(&context->cq, out, popped, count);
    pass_beside(context);
    return (int)nigh_cq_undirect(&context->cq);
}

int nigh_poll(struct nigh_context *context, struct nigh_completion *out, uint32_t count)
{
    if (__builtin_expect(count > INT32_MAX, 0))
        return nigh_refuse(context, -EINVAL, "poll_completions: room for %u: at most %d", count, INT32_MAX);
    if (!nigh_cq_is_empty(&context->cq))
        return poll_waiting(context, out, count);
    nigh_cq_direct(&context->cq, out, 0, count);
    nigh_progress(context);
    return (int)nigh_cq_undirect(&context->cq);
}

/* Large messages are copied behind the pass, when nothing is half done: others come in meanwhile. */
int nigh_poll_shared(struct nigh_context *context, struct nigh_completion *out, uint32_t count)
{
    int polled;

    context->apart = true;
    polled = nigh_poll(context, out, count);
    context->apart = false;
    if (polled < 0 || (polled > 0 && (uint32_t)polled == count) || !(context->pulls || context->copying))
        return polled;
    nigh_pull_apart(context);
    return polled + (int)nigh_cq_pop(&context->cq, out + polled, count - (uint32_t)polled);
}

static __attribute__((noinline)) int take_some(struct nigh_context *context, struct nigh_taken *out,
                                               uint32_t count)
{
    return (int)nigh_cq_show(&context->cq, out, count);
}

static __attribute__((noinline)) int take_behind_pass(struct nigh_context *context, struct nigh_taken *out,
                                                      uint32_t count)
{
    pass_beside(context);
    return take_some(context, out, count);
}

/* There are some that wait. */
static __attribute__((noinline)) int take_waiting(struct nigh_context *context, struct nigh_taken *out,
                                                  uint32_t count)
{
    uint64_t waiting = nigh_cq_count(&context->cq);

    if (needs_pass(context, waiting >= count) || __builtin_expect(!count, 0))
        return take_behind_pass(context, out, count);
    if (__builtin_expect(!nigh_cq_show_all(&context->cq, out, count), 0))
        return take_some(context, out, count);
    return (int)waiting;
}

/* What the pass has found lies ahead of the ring, as in a host's array. */
static __attribute__((noinline)) int take_new(struct nigh_context *context, struct nigh_taken *out,
                                              uint32_t count)
{
    struct nigh_cq *cq = &context->cq;

    nigh_cq_direct(cq, cq->first->line, 0, count < NIGH_CQ_LINE_MAX ? count : NIGH_CQ_LINE_MAX);
    nigh_progress(context);
    out->done = cq->first->line;
    out->sent = NULL;
    out->sent_count = 0;
    out->done_count = nigh_cq_undirect(cq);
    return (int)out->done_count;
}

static inline int take(struct nigh_context *context, struct nigh_taken *out, uint32_t count)
{
    return nigh_cq_is_empty(&context->cq) ? take_new(context, out, count) : take_waiting(context, out, count);
}

static __attribute__((noinline)) int take_oddly(struct nigh_context *context, struct nigh_taken *out,
                                                uint32_t count)
{
    if (nigh_check_struct(context, "take_completions", out, out->size, sizeof(*out)))
        return -EINVAL;
    if (count > INT32_MAX)
        return nigh_refuse(context, -EINVAL, "take_completions: %u of them: at most %d", count, INT32_MAX);
    return take(context, out, count);
}

/* Ends in a call whichever way it goes, so that nothing is saved on the stack. */
int nigh_take(struct nigh_context *context, struct nigh_taken *out, uint32_t count)
{
    if (__builtin_expect(out->size != sizeof(*out) || count > INT32_MAX, 0))
        return take_oddly(context, out, count);
    return take(context, out, count);
}

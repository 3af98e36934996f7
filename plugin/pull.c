/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/pull.c - messages that lie with the sender: the receiver copies them straight from the sender's heap, or from
 * its process, and then tells it. The sender has no part in the copy, so it computes meanwhile; one that only waits may
 * help (help.c). With threads several copy one message together, outside of the context's lock. Also direct gets.
 */
#include "plugin/pull.h"
#include "plugin/answer.h"
#include "plugin/beside.h"
#include "plugin/context.h"
#include "plugin/fetch.h"
#include "plugin/guard.h"
#include "plugin/here.h"
#include "plugin/progress.h"
#include "plugin/pulls.h"
#include "plugin/receive.h"
#include "plugin/run.h"
#include "plugin/send.h"
#include "plugin/shown.h"
#include "plugin/slice.h"
#include "shm/clock.h"
#include <errno.h>
#include <limits.h>
#include <sched.h>

/* Slices of others that are copied before a message whose sender has begun to help, or looks behind them whether it has:
 * it may have been stopped, or compute. */
#define PASSED_MAX 32u
/* Passes in which nothing is copied while senders on other CPUs do: those on ours need it for their messages, and run
 * while the host yields. Two, four and eight are as good. */
#define WAYS_MAX 4u
/* A slice takes 40 us; who takes longer was stopped in it, or lies, and close() is not to wait for ever. */
#define DRAIN_NS UINT64_C(5000000000)

/* ---- which next ---- */

/* In a crowd, which first, the least: what nobody else can copy, what its sender may, what it does. Who has been
 * passed often is not passed any more. */
static unsigned order_of(const struct nigh_message *message, uint32_t cpu)
{
    if (message->passed >= PASSED_MAX || nigh_help_cannot(message, cpu))
        return 0;
    return nigh_help_has_begun(message) ? 2 : 1;
}

/* Nobody is overtaken, but, where ranks share CPUs, for a while those that their senders are at, or may be. */
static struct nigh_message *oldest(const struct nigh_context *context)
{
    struct nigh_message *best = NULL;
    unsigned least = UINT_MAX;
    uint32_t cpu;

    if (!context->pulls || !context->pulls->next || !context->crowd.full)
        return context->pulls;
    cpu = nigh_here_cpu();
    for (struct nigh_message *message = context->pulls; message; message = message->next) {
        unsigned order = order_of(message, cpu);

        if (order >= least)
            continue;
        best = message;
        least = order;
    }
    if (best != context->pulls)
        context->pulls->passed++;
    return best;
}

/* ---- the end ---- */

/* What FINISH says. A sender whose message was cancelled here has sent it as any other. */
static uint64_t told_status(const struct nigh_message *message, int status)
{
    return message->cancelled ? 0 : (uint64_t)(int64_t)status;
}

static void done(struct nigh_message *message, int status, struct nigh_finish *finish)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    bool told = nigh_help_was_senders(message);

    nigh_help_end(message);
    nigh_progress_unpin(endpoint);
    if (message->get) {
        struct nigh_send_op *op = message->get;

        nigh_send_complete(endpoint, op, status, op->bytes);
        nigh_message_free(message);
        return;
    }
    if (told)
        status = 0;
    else if (!status)
        nigh_finish_add(finish, endpoint, message->id);
    else
        nigh_link_answer(endpoint, NIGH_K_FINISH, 0, message->id, told_status(message, status), NULL, 0);
    nigh_recv_finish(message, message->status ? message->status : status);
}

/* To look is a system call, too much for each message of 32 KiB. */
bool nigh_pull_lives(struct nigh_endpoint *endpoint)
{
    uint64_t now = nigh_clock_ns();

    /* Without it the memory was its own until now: a process that begins another program is marked first. */
    if (nigh_endpoint_marked(endpoint))
        return false;
    if (now - endpoint->lived < NIGH_NUMBER_KEPT_NS)
        return true;
    if (!nigh_endpoint_lives(endpoint))
        return false;
    endpoint->lived = now;
    return true;
}

/* Behind LEAVE_HEAR. A peer that has left may use its heap for something else, so what was copied may not be the
 * message. The shared memory of a dead one changes no more, but its number, by which private memory
 * is read, may be another process' by now. */
static int still_there(const struct nigh_message *message)
{
    struct nigh_endpoint *endpoint = message->endpoint;

    if (message->refer == NIGH_REFER_COPY)
        return 0;
    if (nigh_endpoint_let_go(endpoint))
        return -ECONNRESET;
    if (message->refer == NIGH_REFER_CMA && !endpoint->self && !nigh_pull_lives(endpoint))
        return -ECONNRESET;
    /* Nothing keeps the owner from deregistering it meanwhile: it knows nothing of us. */
    if (message->get && !nigh_shown_still(&endpoint->view, message->key))
        return -EACCES;
    return 0;
}

/* Was it its process' end that made reading fail? A peer whose first thread alone has ended cannot be read either, but
 * lives. */
static bool has_gone(const struct nigh_endpoint *endpoint, int32_t failed)
{
    if (endpoint->self)
        return false;
    return endpoint->state != NIGH_READY || nigh_endpoint_marked(endpoint) ||
           (failed == -ESRCH && !nigh_endpoint_lives(endpoint));
}

/* What has become of a message that nobody copies any more. */
static int outcome(const struct nigh_message *message)
{
    int32_t failed = nigh_load_relaxed(&message->failed);

    if (message->ended)
        return message->ended;
    if (!failed)
        return message->got ? still_there(message) : 0;
    if (message->refer != NIGH_REFER_CMA)
        return failed;
    return failed == -ECONNRESET || has_gone(message->endpoint, failed) ? -ECONNRESET : -EIO;
}

/*
 * Reading was allowed when the two met, but a sandbox was closed since, the peer has changed its user or wants nobody
 * to read it (PR_SET_DUMPABLE); or this memory is of a kind that only its owner can read, a device's. So the sender
 * copies it: from here on it is a message in pieces. False: it cannot be asked.
 */
static bool may_ask_for_pieces(struct nigh_message *message)
{
    struct nigh_endpoint *endpoint = message->endpoint;

    if (endpoint->state != NIGH_READY || endpoint->gone || nigh_ids_fit(&endpoint->in, message->id))
        return false;
    if (!nigh_ids_get(&endpoint->in, message->id))
        return true;
    nigh_endpoint_suspect(endpoint, "it gave two messages one number");
    return false;
}

static void ask_for_pieces(struct nigh_message *message)
{
    struct nigh_endpoint *endpoint = message->endpoint;

    endpoint->in.at[message->id] = message;
    message->kind = NIGH_MSG_PIECES;
    message->got = 0;
    nigh_link_answer(endpoint, NIGH_K_GRANT, 0, message->id,
                     (message->late ? NIGH_GRANT_WAITED : 0) | (message->again ? NIGH_GRANT_AGAIN : 0), NULL,
                     0);
}

bool nigh_pull_divert(struct nigh_message *message)
{
    if (!may_ask_for_pieces(message))
        return false;
    nigh_fetch_forget(message);
    ask_for_pieces(message);
    return true;
}

static void end(struct nigh_message *message, struct nigh_finish *finish)
{
    int status = outcome(message);

    if (status == -EIO && message->refer == NIGH_REFER_CMA && !message->ended &&
        may_ask_for_pieces(message)) {
        nigh_plan_unread(message->endpoint, nigh_load_relaxed(&message->failed));
        nigh_help_end(message);
        nigh_progress_unpin(message->endpoint);
        ask_for_pieces(message);
        return;
    }
    done(message, status, finish);
}

/* Nobody writes to it, but something is left: the sender has put a slice back, or has gone with some. */
static bool is_to_go_on(struct nigh_message *message)
{
    if (!message->offer || message->ended || nigh_load_relaxed(&message->failed) ||
        nigh_help_is_whole(message))
        return false;
    if (message->endpoint->state == NIGH_READY && !nigh_endpoint_left(message->endpoint))
        return true;
    nigh_store_relaxed(&message->failed, -ECONNRESET);
    return false;
}

static void go_on(struct nigh_message *message)
{
    if (nigh_help_lies(message))
        nigh_endpoint_suspect(message->endpoint, "it claims more of a message than there is");
    else
        nigh_pulls_go_on(message);
}

/* What it has not come to yet stays its until we have nothing else, but not for ever: it may compute, while others send on
 * and on. */
static bool leave_to_sender(struct nigh_message *message)
{
    return message->endpoint->context->pulls && nigh_help_is_unanswered(message) &&
           message->passed++ < PASSED_MAX;
}

static bool end_copied(struct nigh_context *context)
{
    bool ended = false, fenced = false;
    struct nigh_finish finish = {.count = 0};

    for (struct nigh_message *message = context->copying, *next; message; message = next) {
        next = message->next;
        if (!nigh_slice_all_done(message))
            continue;
        if (is_to_go_on(message)) {
            if (!leave_to_sender(message))
                go_on(message);
            continue;
        }
        /* Between the copies and the look whether the peer has left: one for all of them, unless another thread has
         * copied some of this one only now. */
        if (!fenced)
            nigh_fence_full(LEAVE_HEAR);
        fenced = !(context->guard & NIGH_GUARD_THREADS);
        nigh_pulls_leave(message);
        end(message, &finish);
        ended = true;
    }
    nigh_finish_tell(&finish);
    return ended;
}

void nigh_pull_fail(struct nigh_message *message, int status)
{
    nigh_help_withdraw(message);
    if (!nigh_slice_all_done(message)) {
        /* Its buffer is being written to: who is done last ends it, with what has come first. */
        if (!message->ended)
            message->ended = status;
        nigh_pulls_taken(message);
        return;
    }
    nigh_pulls_leave(message);
    done(message, status, NULL);
}

void nigh_pull_cancel(struct nigh_message *message)
{
    message->cancelled = true;
    nigh_pull_fail(message, -ECANCELED);
}

/* ---- turns ---- */

/* A slice, or false: there is none, and the message is among those that are being copied. */
static bool take(struct nigh_message *message, uint64_t most, struct nigh_slice *slice)
{
    bool taken = nigh_slice_take(message, most, slice);

    if (message->got == message->wanted || !taken)
        nigh_pulls_taken(message);
    return taken;
}

/* All that is here others are asked to copy, and more is to come: from ranks that have our CPU when we do not, if it is
 * none of theirs. */
static bool gives_way(struct nigh_context *context)
{
    uint32_t cpu;

    if (!context->pulls || !context->crowd.full || context->gave_way == WAYS_MAX ||
        !context->matcher.posted_count)
        return false;
    cpu = nigh_here_cpu();
    for (const struct nigh_message *message = context->pulls; message; message = message->next)
        if (!message->offer || nigh_help_cannot(message, cpu))
            return false;
    context->gave_way++;
    return true;
}

/* A sender that copies, too, is to have the next ones, and to hear of those that are done. */
static void feed(struct nigh_context *context)
{
    end_copied(context);
    nigh_help_offer(context);
}

/* Some of the oldest: its bytes. 0: there is nothing to copy now. With `apart` other threads are let in meanwhile. */
static uint64_t copy_some(struct nigh_context *context, bool apart)
{
    struct nigh_message *message;
    struct nigh_slice slice;
    uint64_t run = nigh_run_read(context);

    if (run)
        return run;
    while ((message = oldest(context)) && nigh_slice_is_ours(message)) {
        if (!take(message, nigh_slice_most(message), &slice)) {
            if (message->offer)
                continue;
            break;
        }
        if (apart)
            nigh_guard_open(context);
        nigh_slice_copy(&slice);
        if (apart)
            nigh_guard_enter(context);
        nigh_slice_learn(context, &slice);
        return slice.bytes;
    }
    return 0;
}

/* Of short messages more may lie in the ring than are known of: with them both sides have whole runs to copy. */
static bool wants_more(const struct nigh_context *context)
{
    return context->pulls_count < NIGH_RUN_MESSAGES &&
           (!context->pulls || nigh_help_is_short(context->pulls));
}

/* A turn. */
static bool advance(struct nigh_context *context, bool apart)
{
    bool beside = nigh_beside_is_on(context), moved = false;
    uint64_t turn = (1 + (beside ? 0 : (uint64_t)context->begun)) * NIGH_TURN_BYTES;
    uint64_t some;

    context->gave_way = context->begun ? 0 : context->gave_way;
    context->begun = 0;
    if (beside)
        feed(context);
    else
        nigh_help_offer(context);
    /* Something was done: who is about to sleep is to look again. */
    if (gives_way(context)) {
        end_copied(context);
        return true;
    }
    for (uint64_t bytes = 0; bytes < turn && (some = copy_some(context, apart)) != 0; bytes += some) {
        moved = true;
        if (!beside)
            continue;
        feed(context);
        if (wants_more(context))
            break;
    }
    return end_copied(context) || moved;
}

void nigh_pull_begin(struct nigh_message *message)
{
    struct nigh_context *context = message->endpoint->context;
    struct nigh_slice slice;

    message->got = 0;
    message->wanted = !message->to ? 0 : message->total < message->room ? message->total : message->room;
    /* A claimed message may outlive its endpoint's last disconnect. */
    message->endpoint->pins++;
    nigh_pulls_add(message);
    /* With threads there may be one that does it all, while the one whose post has found the message computes. If it is
     * another one that has found it, that one begins: the poster is not there. */
    if (context->guard & NIGH_GUARD_THREADS && message->wanted > NIGH_SLICE_BYTES) {
        nigh_store_relaxed(&message->touched, nigh_slice_is_anothers(message) ? 0 : nigh_clock_ns());
        return;
    }
    /* Behind the pass it is seen what else has come. */
    if (nigh_help_may(message)) {
        context->begun++;
        return;
    }
    if (take(message, nigh_slice_most(message), &slice)) {
        nigh_slice_copy(&slice);
        nigh_slice_learn(context, &slice);
    }
    end_copied(context);
}

void nigh_pull_drain(struct nigh_context *context)
{
    uint64_t until = nigh_clock_ns() + DRAIN_NS;

    if (!context->copying)
        return;
    /* Who was stopped before it looks for this in our memory writes nothing when it goes on. */
    nigh_store_relaxed(&context->incarnation, 0);
    while (context->copying && nigh_clock_ns() < until)
        if (!end_copied(context))
            sched_yield();
    if (context->copying)
        nigh_log(NIGH_LOG_WARN,
                 "rank %u: closed while rank %d (process %d) says that it is writing to a receive's buffer, "
                 "for %u s: "
                 "was it stopped? End it before that memory is used for something else",
                 context->config.rank, (int)context->copying->endpoint->rank, context->copying->endpoint->pid,
                 (unsigned)(DRAIN_NS / 1000000000));
}

bool nigh_pull_progress(struct nigh_context *context)
{
    return advance(context, false);
}

bool nigh_pull_apart(struct nigh_context *context)
{
    return advance(context, true);
}

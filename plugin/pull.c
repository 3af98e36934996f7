/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/pull.c - messages that lie with the sender: the receiver copies them straight from the sender's heap, or from its
 * process, and then tells it. The sender has no part in the copy, so it computes meanwhile. Also direct gets.
 */
#include "plugin/context.h"
#include "plugin/shown.h"
#include "shm/clock.h"
#include "shm/cma.h"
#include "shm/copy.h"
#include <errno.h>

/* Copied in one go when it is matched (without threads), and then in each pass: long enough to make the pass not count, short enough that
 * other peers are heard every 50 us or so. */
#define SLICE_BYTES (512u * 1024)

static void list_remove(struct nigh_message *message)
{
    struct nigh_message **link = &message->endpoint->context->pulls;

    while (*link != message)
        link = &(*link)->next;
    *link = message->next;
}

static void done(struct nigh_message *message, int status)
{
    struct nigh_endpoint *endpoint = message->endpoint;

    endpoint->pins--;
    if (message->get) {
        struct nigh_send_op *op = message->get;

        nigh_send_complete(endpoint, op, status, op->bytes);
        nigh_message_free(message);
        return;
    }
    nigh_link_answer(endpoint, NIGH_K_FINISH, 0, message->id, (uint64_t)(int64_t)status, NULL, 0);
    nigh_recv_finish(message, message->status ? message->status : status);
}

/*
 * Another thread than the one that has posted the receive runs on another CPU, mostly, and writes a buffer that the poster's
 * cache has. On the same L3 that is as well as any way, and leaves the bytes near; across two the lines are taken away one by one,
 * and to write past the cache takes two thirds of the time (docs/rationale.md, "The thread of NIGH_PROGRESS=thread"). Which it
 * is changes while programs run, so both ways are timed.
 */
static bool is_anothers(const struct nigh_message *message)
{
    const struct nigh_context *context = message->endpoint->context;

    return context->guard & NIGH_GUARD_THREADS && message->total > SLICE_BYTES && message->recv &&
           message->recv->poster != context->inside;
}

static void copy_for_another(struct nigh_context *context, uint8_t *to, const void *from, uint64_t bytes)
{
    nigh_copy_fn kernels[2] = {nigh_copy_select(NIGH_COPY_PLAIN), nigh_copy_select(NIGH_COPY_NT)};
    bool full = bytes == SLICE_BYTES; /* others teach nothing, so a trial must not fall on one */
    bool past = full && kernels[1] && nigh_far_choose(&context->far);
    uint64_t start = nigh_clock_ns();

    kernels[past](to, from, bytes);
    if (full)
        nigh_far_learn(&context->far, past, nigh_clock_ns() - start);
}

static int copy_slice(struct nigh_message *message, uint64_t bytes)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    uint64_t from = message->where + message->got;
    const void *at;
    int rc;

    if (message->refer == NIGH_REFER_CMA) {
        if (endpoint->state >= NIGH_PEER_CLOSED)
            return -ECONNRESET;
        rc = nigh_cma_read(endpoint->pid, message->to + message->got, from, bytes);
        /* It was allowed when the two met: a sandbox was closed since. What comes next goes another way. */
        if (rc == -EPERM || rc == -ENOSYS)
            nigh_plan_reading(endpoint, rc);
        return rc == -ESRCH ? -ECONNRESET : rc ? -EIO : 0;
    }
    at = nigh_view_at(&endpoint->view, from, bytes);
    if (!at)
        return -EIO;
    if (is_anothers(message))
        copy_for_another(endpoint->context, message->to + message->got, at, bytes);
    else
        nigh_copy_select(NIGH_COPY_PLAIN)(message->to + message->got, at, bytes);
    return 0;
}

/* A peer that has left may use its heap for something else, so what was copied may not be the message. The shared memory of
 * a dead one changes no more, but its number, by which private memory is read, may be another process' by now. */
static int still_there(const struct nigh_message *message)
{
    struct nigh_endpoint *endpoint = message->endpoint;

    nigh_fence_full(LEAVE_HEAR);
    if (nigh_endpoint_left(endpoint))
        return -ECONNRESET;
    if (message->refer == NIGH_REFER_CMA && !endpoint->self &&
        !nigh_rendezvous_lives(endpoint->context->rendezvous, endpoint))
        return -ECONNRESET;
    /* Nothing keeps the owner from deregistering it meanwhile: it knows nothing of us. */
    if (message->get && !nigh_shown_still(&endpoint->view, message->key))
        return -EACCES;
    return 0;
}

/* One slice; true when the message is complete, and gone. */
static bool advance(struct nigh_message *message)
{
    uint64_t wanted = message->total < message->room ? message->total : message->room;
    uint64_t left = message->to ? wanted - message->got : 0;
    uint64_t bytes = left < SLICE_BYTES ? left : SLICE_BYTES;
    int status = bytes ? copy_slice(message, bytes) : 0;

    message->got += bytes;
    if (!status && left > bytes)
        return false;
    if (bytes && !status)
        status = still_there(message);
    list_remove(message);
    done(message, status);
    return true;
}

void nigh_pull_begin(struct nigh_message *message)
{
    struct nigh_context *context = message->endpoint->context;

    message->got = 0;
    /* A claimed message may outlive its endpoint's last disconnect. */
    message->endpoint->pins++;
    message->next = context->pulls;
    context->pulls = message;
    /* With threads there may be one that does it all, while the one whose post has found the message computes. */
    if (!(context->guard & NIGH_GUARD_THREADS) || message->total <= SLICE_BYTES)
        advance(message);
}

bool nigh_pull_progress(struct nigh_context *context)
{
    /* The oldest is the last of the list: nobody is overtaken. */
    struct nigh_message *message = context->pulls;

    if (!message)
        return false;
    while (message->next)
        message = message->next;
    advance(message);
    return true;
}

void nigh_pull_fail(struct nigh_message *message, int status)
{
    list_remove(message);
    done(message, status);
}

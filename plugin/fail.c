/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/fail.c - the end of an endpoint. Everything that names it completes; what the peer had sent whole can still be
 * received; everything else goes on. The places that hold a reference to an endpoint's operations:
 *
 *   queue, flow, out    our sends              completed with the error, also what was published before the peer
 *                                              attached and may be read yet; those in `waiting` are in `out`, too. Copies
 *                                              that were complete, of an endpoint that we leave or whose peer is
 *                                              dying: stay until the peer looks no longer
 *   in                  messages in pieces     their receives fail; unmatched ones can never become whole: dropped,
 *                                              as those whose receives were cancelled
 *   matcher, posted     receives naming it     fail
 *   matcher, arrived    whole messages         stay
 *   matcher, arrived    references             into the heap of a dead peer, or to a copy of the peer's: stay; else
 *                                              dropped: the memory may be in other use by now
 *   claimed             messages               incomplete ones are marked lost, their claim fails; references to a copy
 *                                              of a peer that we leave: taken to private memory
 *   pulls, copying      copies under way       out of the heap of a dead peer, or of a copy of a peer's that we do not
 *                                              leave: go on, the mapping stays; else fail, when nobody writes to the
 *                                              buffer any more, but what the sender has written whole
 *   device_receives     messages that have come    go on by passes; of an endpoint that we leave: fail
 *   lents               what the host holds    stays valid: the mapping stays until it is released
 */
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/device_receive.h"
#include "plugin/large.h"
#include "plugin/pieces.h"
#include "plugin/progress.h"
#include "plugin/pull.h"
#include "plugin/receive.h"
#include "plugin/send.h"
#include "shm/rendezvous.h"
#include <errno.h>
#include <string.h>

/* With `reads` the peer may be reading what was complete when it was posted. */
static void fail_sends(struct nigh_endpoint *endpoint, int error, bool reads)
{
    struct nigh_send_queue *queues[] = {&endpoint->queue, &endpoint->flow};

    for (uint32_t i = 0; i < 2; i++) {
        struct nigh_send_op *op = queues[i]->head, *next;

        nigh_queue_clear(queues[i]);
        for (; op; op = next) {
            next = op->next;
            nigh_send_complete(endpoint, op, error, 0);
        }
    }
    nigh_queue_clear(&endpoint->waiting);
    for (uint32_t id = 0; id < endpoint->out.size; id++) {
        struct nigh_send_op *op = endpoint->out.at[id];

        /* Answered gets come with their reply, which fails below. */
        if (!op || (op->kind == NIGH_SEND_GET && op->granted) || (reads && nigh_share_outlives(op)))
            continue;
        nigh_send_complete(endpoint, op, error, 0);
    }
}

static void fail_message(struct nigh_message *message, int error)
{
    struct nigh_context *context = message->endpoint->context;

    if (message->kind == NIGH_MSG_REPLY) {
        nigh_device_receive_close(message);
        nigh_send_complete(message->endpoint, message->get, error, 0);
        nigh_message_free(message);
    } else if (message->kind == NIGH_MSG_PUT) {
        if (message->notify)
            nigh_cq_unreserve(&context->cq, 1);
        nigh_message_free(message);
    } else if (message->kind == NIGH_MSG_DROPPED) {
        nigh_message_free(message);
    } else if (message->recv) {
        nigh_recv_finish(message, error);
    } else if (message->claimed) {
        message->lost = true;
    } else {
        nigh_match_drop(&context->matcher, &message->arrived);
        nigh_message_free(message);
    }
}

static void fail_incoming(struct nigh_endpoint *endpoint, int error)
{
    endpoint->filling.message = NULL; /* it is one of these */
    endpoint->fills = false;
    nigh_endpoint_settle(endpoint);
    for (uint32_t id = 0; id < endpoint->in.size; id++) {
        struct nigh_message *message = endpoint->in.at[id];

        endpoint->in.at[id] = NULL;
        if (message)
            fail_message(message, error);
    }
}

static void fail_receives(struct nigh_endpoint *endpoint, int error)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_posted *posted = nigh_match_take_posted(&context->matcher, endpoint->index), *next;

    for (; posted; posted = next) {
        next = nigh_posted_next(posted);
        nigh_recv_cancel(context, nigh_recv_op_of(posted), error, endpoint);
    }
}

/* Can a message still be read? The heap of a dead peer stays as it was. */
static bool is_readable(const struct nigh_message *message, enum nigh_state state)
{
    if (message->kind != NIGH_MSG_REFER || message->refer == NIGH_REFER_COPY)
        return true;
    return message->refer != NIGH_REFER_CMA && !nigh_refer_is_device(message->refer) &&
           state == NIGH_PEER_DEAD;
}

/* What waits in a shuttle is copied out of it, so that nothing of the pair has to stay for it; what stays with the peer
 * pins its memory until it is received. */
static void keep(struct nigh_message *message)
{
    const uint8_t *lies = message->lies;

    if (lies && nigh_message_early(message, message->got) == 0) {
        nigh_arrive_copy(message->buffer, lies, message->got, message->shuttle);
        message->lies = lies = NULL;
    }
    if (lies || message->kind == NIGH_MSG_REFER) {
        message->pins = NIGH_PINS_PEER;
        message->endpoint->pins++;
    }
    nigh_match_keep(&message->endpoint->context->matcher, &message->arrived);
}

/* Drops unmatched messages: with `all`, every one; else those that cannot be read any more. */
static void drop_arrived(struct nigh_endpoint *endpoint, bool all)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_arrived *arrived = nigh_match_take_arrived(&context->matcher, endpoint->index), *next;

    for (; arrived; arrived = next) {
        struct nigh_message *message = (struct nigh_message *)(void *)arrived;

        next = nigh_arrived_next(arrived);
        if (all || !is_readable(message, endpoint->state))
            nigh_message_free(message);
        else
            keep(message);
    }
}

/* Of the receives from anyone the oldest is told of a death, so that the host hears of it once. */
static void tell_death(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_posted *posted = nigh_match_oldest_from_anyone(&context->matcher);

    if (!posted) {
        context->deaths_untold++;
        return;
    }
    nigh_match_withdraw(&context->matcher, posted);
    nigh_recv_cancel(context, nigh_recv_op_of(posted), -ECONNRESET, endpoint);
}

static void fail_pulls_of(struct nigh_message *message, struct nigh_endpoint *endpoint, int error, bool all)
{
    for (struct nigh_message *next; message; message = next) {
        next = message->next;
        if (message->endpoint == endpoint && (all || message->refer != NIGH_REFER_COPY))
            nigh_pull_fail(message, error);
    }
}

/* Those that are copied first: of the others some come to them now. */
static void fail_pulls(struct nigh_endpoint *endpoint, int error, bool all)
{
    fail_pulls_of(endpoint->context->copying, endpoint, error, all);
    fail_pulls_of(endpoint->context->pulls, endpoint, error, all);
}

/* Behind our goodbye the peer uses the place for something else. Where there is no memory the claim fails. */
static void keep_claimed(const struct nigh_endpoint *endpoint)
{
    for (struct nigh_message *message = endpoint->context->claimed; message; message = message->next) {
        if (message->endpoint != endpoint || message->kind != NIGH_MSG_REFER ||
            message->refer != NIGH_REFER_COPY)
            continue;
        if (nigh_message_early(message, message->total))
            continue;
        memcpy(message->buffer, nigh_view_at(&endpoint->view, message->where, message->total),
               message->total);
        message->kind = NIGH_MSG_BODY;
        message->got = message->total;
        message->id = NIGH_NO_ID;
    }
}

/* Where nothing was kept that says more. */
static void keep_reason(struct nigh_endpoint *endpoint, enum nigh_state state, int error, const char *why)
{
    struct nigh_end end = {.reason = state == NIGH_PEER_DEAD ? NIGH_REASON_DIED
                                     : state == NIGH_BROKEN  ? NIGH_REASON_BROKEN
                                                             : NIGH_REASON_LEFT,
                           .error = error,
                           .there = true,
                           .pid = endpoint->pid,
                           .why = why};

    nigh_end_set(endpoint, &end);
}

static void note(const struct nigh_endpoint *endpoint, enum nigh_state state, const char *why)
{
    struct nigh_context *context = endpoint->context;

    nigh_log_use(&context->log);
    if (state == NIGH_BROKEN) {
        nigh_count(&context->counters->broken, 1);
        nigh_log(NIGH_LOG_ERROR,
                 "rank %u: peer rank %d (process %d) broke the protocol: %s; its operations fail with "
                 "EPROTO, all others go on; is it of another build, or was its memory overwritten?",
                 context->config.rank, (int)endpoint->rank, endpoint->pid, why);
    } else if (state == NIGH_PEER_DEAD) {
        nigh_count(&context->counters->lost, 1);
        nigh_log(NIGH_LOG_INFO, "rank %u: peer rank %d (process %d) has died", context->config.rank,
                 (int)endpoint->rank, endpoint->pid);
    }
}

void nigh_endpoint_suspect(struct nigh_endpoint *endpoint, const char *why)
{
    endpoint->suspect = why;
    endpoint->context->suspects = true;
    nigh_progress_busy(endpoint);
}

/* What is offered is the sender's to write until it is withdrawn, whether its process is ending or not. */
static void withdraw_offers(struct nigh_endpoint *endpoint)
{
    for (uint32_t i = 0; i < NIGH_OFFERS; i++)
        if (endpoint->offered[i])
            nigh_help_withdraw(endpoint->offered[i]);
}

/* A peer that is alive, or may be for a moment, sees by this word that what it is reading may be in other use. */
static void say_ended(struct nigh_endpoint *endpoint)
{
    nigh_store_relaxed(&endpoint->pair->ended, 1);
    nigh_fence_full(LEAVE_SAY);
}

void nigh_endpoint_reclaim(struct nigh_endpoint *endpoint)
{
    nigh_large_reclaim(endpoint, true);
    nigh_share_reclaim(endpoint);
}

void nigh_endpoint_fail(struct nigh_endpoint *endpoint, enum nigh_state state, int error, const char *why)
{
    bool dying = state == NIGH_PEER_DEAD && !endpoint->dead;

    if (endpoint->state >= NIGH_PEER_CLOSED)
        return;
    keep_reason(endpoint, state, error, why);
    note(endpoint, state, why);
    endpoint->state = state;
    endpoint->can_post = endpoint->meets = false;
    endpoint->timed_count = 0;
    say_ended(endpoint);
    withdraw_offers(endpoint);
    fail_sends(endpoint, error, dying);
    fail_incoming(endpoint, error);
    fail_receives(endpoint, error);
    drop_arrived(endpoint, false);
    if (state != NIGH_PEER_DEAD)
        fail_pulls(endpoint, error, false);
    if (!dying)
        nigh_large_reclaim(endpoint, true);
    nigh_coll_lost(&endpoint->context->coll, endpoint);
    nigh_progress_forget(endpoint);
    if (endpoint->attached)
        nigh_lookouts_forget(endpoint->context->lookouts, endpoint->peer_life);
    /* A dial under way would attach a peer to what has ended. It hears no goodbye from here, by which it would take back what of
     * its memory we still look at. */
    nigh_rendezvous_undial(endpoint->context->rendezvous, endpoint);
    if (state == NIGH_PEER_DEAD && !endpoint->gone)
        tell_death(endpoint);
    /* Not here: whoever has found the end may still be looking at the peer's memory. */
    if (!endpoint->gone)
        nigh_progress_busy(endpoint);
}

void nigh_endpoint_abandon(struct nigh_endpoint *endpoint)
{
    endpoint->can_post = false;
    fail_sends(endpoint, -ECANCELED, true);
    fail_incoming(endpoint, -ECANCELED);
    fail_receives(endpoint, -ECANCELED);
    fail_pulls(endpoint, -ECANCELED, true);
    nigh_device_receive_abandon(endpoint);
    keep_claimed(endpoint);
    drop_arrived(endpoint, true);
    endpoint->timed_count = 0;
    endpoint->meets = false;
    /* Chunks stay with it: the peer may be reading them. */
    nigh_progress_forget(endpoint);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/cancel.c - requests in flight are taken back, and their buffers are the host's again: closeSend, closeRecv, deregMr. */
#include "hosts/nccl/comm.h"
#include "hosts/nccl/log.h"
#include "hosts/nccl/request.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#define SECOND_NS      UINT64_C(1000000000)
#define CANCEL_SECONDS 5u

/* The receiver has to drop what it has begun to get, and so often it is asked. A peer that nobody polls does not: none of its
 * connections moves for so long. */
#define AGAIN_NS (SECOND_NS / 100)
#define QUIET_NS (2 * SECOND_NS)
/* One that was quiet while others were asked, as all of a communicator are that is given up, is asked for so long. */
#define ASK_NS (SECOND_NS / 20)
/* Nobody has looked for so long: what was quiet then may have moved. */
#define LOOK_NS SECOND_NS

static bool is_of(const struct nigh_nccl_request *request, const void *memory)
{
    return request->state == NIGH_NCCL_PENDING && (!memory || request->memory == memory);
}

static bool any(const struct nigh_nccl_comm *comm, const void *memory)
{
    for (int i = 0; comm->pending && i < NCCL_REQUESTS_MAX; i++)
        if (is_of(&comm->requests[i], memory))
            return true;
    return false;
}

/* Disconnecting takes a send back whose beginning the peer has, and all else that goes to this peer. */
static void sever(const struct nigh_nccl_comm *comm)
{
    for (struct nigh_nccl_comm *at = comm->context->comms; at; at = at->next)
        if (at->peer == comm->peer && !at->failure) {
            at->failure = -ECONNRESET;
            at->limit = at->moved;
        }
    nigh_nccl_peer_sever(comm->peer);
}

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND_NS + (uint64_t)time.tv_nsec;
}

/* Lets others have the lock for a moment, and polls. */
static void let_go(struct nigh_nccl_context *context)
{
    pthread_mutex_unlock(&context->lock);
    sched_yield();
    pthread_mutex_lock(&context->lock);
    nigh_nccl_context_poll(context);
}

/* What has moved between this context and the peer. */
static uint64_t moved_with(const struct nigh_nccl_peer *peer, const struct nigh_nccl_comm *comms)
{
    uint64_t moved = 0;

    for (; comms; comms = comms->next)
        moved += comms->peer == peer ? comms->moved : 0;
    return moved;
}

/* Since when each peer has been quiet. */
static void look(struct nigh_nccl_context *context, uint64_t time)
{
    bool anew = time - context->looked_ns > LOOK_NS;

    for (struct nigh_nccl_peer *peer = context->peers; peer; peer = peer->next) {
        uint64_t moved = moved_with(peer, context->comms);

        if (anew || !peer->quiet_ns || moved != peer->moved)
            peer->quiet_ns = time;
        peer->moved = moved;
    }
    context->looked_ns = time;
}

/* A send whose beginning the peer has cannot be cancelled. A peer that polls takes it off our hands, so that its other connections
 * go on. */
static void ask(struct nigh_nccl_comm *comm, const void *memory)
{
    struct nigh_nccl_context *context = comm->context;
    uint64_t begun = now(), again = 0, time = begun;

    for (; any(comm, memory) && comm->sends && !comm->peer->severed; time = now()) {
        look(context, time);
        if ((time - comm->peer->quiet_ns > QUIET_NS && time - begun > ASK_NS) ||
            time - begun > CANCEL_SECONDS * SECOND_NS)
            return;
        if (time >= again) {
            (void)nigh_nccl_control_send(context, comm->peer->endpoint, NIGH_NCCL_SENDER_ABORTS, 0, comm->id,
                                         comm->moved);
            again = time + AGAIN_NS;
        }
        let_go(context);
    }
}

bool nigh_nccl_requests_cancel(struct nigh_nccl_comm *comm, const void *memory)
{
    struct nigh_nccl_context *context = comm->context;
    uint64_t end;

    if (!any(comm, memory))
        return true;
    if (!comm->failure) {
        comm->failure = -ECANCELED;
        comm->limit = comm->moved;
    }
    for (int i = 0; i < NCCL_REQUESTS_MAX; i++)
        if (is_of(&comm->requests[i], memory))
            (void)nigh_nccl_nigh()->cancel(context->nigh, (uintptr_t)&comm->requests[i]);
    nigh_nccl_context_poll(context);
    ask(comm, memory);
    if (any(comm, memory))
        sever(comm);
    end = now() + CANCEL_SECONDS * SECOND_NS;
    while (any(comm, memory) && now() <= end)
        let_go(context);
    if (any(comm, memory)) {
        nigh_nccl_warn(
            "%s has been in the middle of a copy for %u s: it may still touch a buffer that is given up "
            "here",
            comm->peer->name, CANCEL_SECONDS);
        return false;
    }
    return true;
}

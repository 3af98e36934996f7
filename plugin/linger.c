/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/linger.c - close gives what its host takes for done the time to go: silent messages to a peer that has been dialled
 * and has not looked yet, or whose ring is full. Ranks of MPICH close without waiting for each other: of jobs with 7 ranks on 4
 * CPUs that did nothing but MPI_Init and MPI_Finalize two of three failed, as the last message of a rank went with it.
 */
#include "plugin/context.h"
#include "plugin/send.h"
#include "shm/clock.h"
#include "shm/rendezvous.h"
#include <sched.h>

/* A peer that computes for longer than that loses them. */
#define LINGER_NS UINT64_C(5000000000)

/* Is there something for it that will be read if we wait? Whom no dial has reached has no ring of ours. */
static bool owes(const struct nigh_endpoint *endpoint)
{
    if (endpoint->gone || endpoint->self || endpoint->suspect ||
        (endpoint->attached && nigh_endpoint_left(endpoint)) ||
        (endpoint->state != NIGH_READY &&
         !(endpoint->state == NIGH_CONNECTING &&
           nigh_rendezvous_greeted(endpoint->context->rendezvous, endpoint))))
        return false;
    for (const struct nigh_send_op *op = endpoint->queue.head; op; op = op->next)
        if (op->silent && op->kind == NIGH_SEND_BODY)
            return true;
    return false;
}

static struct nigh_endpoint *debtor(struct nigh_context *context)
{
    for (struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all)
        if (owes(endpoint))
            return endpoint;
    return NULL;
}

void nigh_context_linger(struct nigh_context *context)
{
    struct nigh_endpoint *endpoint = debtor(context);
    uint64_t until;

    if (!endpoint)
        return;
    until = nigh_clock_ns() + LINGER_NS;
    while ((endpoint = debtor(context)) != NULL && nigh_clock_ns() < until) {
        nigh_rendezvous_progress(context->rendezvous);
        for (endpoint = context->all; endpoint; endpoint = endpoint->next_all)
            if (owes(endpoint))
                nigh_send_progress(endpoint);
        sched_yield();
    }
    if (endpoint)
        nigh_log(NIGH_LOG_WARN,
                 "rank %u: closed with messages that rank %d (process %d) has not looked for in %u s: they "
                 "are lost; let it poll, or this rank wait for an answer, before this one closes",
                 context->config.rank, (int)endpoint->rank,
                 endpoint->pid ? endpoint->pid : (int)nigh_rendezvous_reached(context->rendezvous, endpoint),
                 (unsigned)(LINGER_NS / 1000000000));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/fetch.c - see fetch.h. */
#include "plugin/fetch.h"
#include "plugin/context.h"
#include "plugin/crammed.h"
#include "plugin/receive.h"
#include "shm/clock.h"
#include "shm/cma.h"
#include <errno.h>
#include <string.h>

/* Of one peer's, whatever NIGH_EAGER is here: what its sender may be waiting for was decided by its own. */
#define KEPT_MIN (UINT64_C(4) << 20)
/* In one pass. */
#define PASS_BYTES (512u * 1024)

void nigh_fetch_later(struct nigh_message *message)
{
    struct nigh_context *context = message->endpoint->context;

    if (message->total > NIGH_FETCH_MAX)
        return;
    message->touched = nigh_clock_ns();
    message->fetched_later = true;
    message->fetch_next = NULL;
    message->fetch_before = context->fetches_last;
    if (message->fetch_before)
        message->fetch_before->fetch_next = message;
    else
        context->fetches = message;
    context->fetches_last = message;
}

void nigh_fetch_forget(struct nigh_message *message)
{
    struct nigh_context *context = message->endpoint->context;

    if (!message->fetched_later)
        return;
    message->fetched_later = false;
    if (message->fetch_before)
        message->fetch_before->fetch_next = message->fetch_next;
    else
        context->fetches = message->fetch_next;
    if (message->fetch_next)
        message->fetch_next->fetch_before = message->fetch_before;
    else
        context->fetches_last = message->fetch_before;
}

/* Its receive has come, or nobody may read it any more. */
static bool is_over(const struct nigh_message *message)
{
    return message->recv || message->kind != NIGH_MSG_REFER || message->endpoint->state != NIGH_READY ||
           message->endpoint->gone;
}

/* Into memory of ours, if its owner has not left meanwhile. */
static int read_whole(const struct nigh_message *message)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    const void *at = nigh_program_at(&endpoint->program, message->where, message->total);
    int rc = 0;

    if (at)
        memcpy(message->buffer, at, message->total);
    else
        rc = nigh_cma_read(endpoint->pid, message->buffer, message->where, message->total);
    if (rc)
        return rc;
    nigh_fence_full(LEAVE_HEAR);
    return nigh_endpoint_let_go(endpoint) || nigh_endpoint_marked(endpoint) || !nigh_endpoint_lives(endpoint)
               ? -ECONNRESET
               : 0;
}

/* With FINISH its sender's operation is over. Where anything is amiss, or its sender has been told to wait, the message
 * stays where it lies, and its receive finds that. */
static bool fetch(struct nigh_message *message)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    uint64_t most = nigh_crammed_from(endpoint);
    int rc;

    if (endpoint->early > (most < KEPT_MIN ? KEPT_MIN : most) || nigh_message_early(message, message->total))
        return false;
    rc = read_whole(message);
    if (rc) {
        nigh_message_unkeep(message);
        nigh_plan_unread(endpoint, rc);
        return false;
    }
    nigh_link_answer(endpoint, NIGH_K_FINISH, 0, message->id, 0, NULL, 0);
    message->kind = NIGH_MSG_BODY;
    message->got = message->total;
    message->id = NIGH_NO_ID;
    return true;
}

bool nigh_fetch_progress(struct nigh_context *context)
{
    struct nigh_message *message;
    uint64_t now = nigh_clock_ns(), bytes = 0;
    bool moved = false;

    while ((message = context->fetches) && bytes < PASS_BYTES) {
        if (!is_over(message)) {
            if (now - message->touched < context->config.fetch_ns)
                break;
            bytes += message->total;
            moved |= fetch(message);
        }
        nigh_fetch_forget(message);
    }
    return moved || context->fetches;
}

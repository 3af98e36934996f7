/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/answer.c - see answer.h. */
#include "plugin/answer.h"
#include "plugin/arrive.h"
#include "plugin/beside.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/device_peer.h"
#include "plugin/device_send.h"
#include "plugin/large.h"
#include "plugin/remote.h"
#include "plugin/rma.h"
#include "plugin/send.h"
#include <errno.h>

/* ---- the receiver's ---- */

void nigh_finish_tell(struct nigh_finish *finish)
{
    if (finish->count)
        nigh_link_answer(finish->endpoint, NIGH_K_FINISH, 0, finish->ids[0], 0, finish->ids + 1,
                         (finish->count - 1) * (uint32_t)sizeof(finish->ids[0]));
    finish->count = 0;
}

void nigh_finish_add(struct nigh_finish *finish, struct nigh_endpoint *endpoint, uint32_t id)
{
    if (finish->endpoint != endpoint || finish->count == 1 + NIGH_FINISH_MORE)
        nigh_finish_tell(finish);
    finish->endpoint = endpoint;
    finish->ids[finish->count++] = id;
}

/* ---- the sender's ---- */

static enum nigh_verdict arrive_grant(struct nigh_endpoint *endpoint, uint64_t id, uint64_t late)
{
    struct nigh_send_op *op = nigh_ids_get(&endpoint->out, id);

    /* The peer cannot read it. Chosen while it is none in chunks yet: so it is not timed, and goes in no shuttle. */
    if (op && op->kind == NIGH_SEND_REFER && op->refer == NIGH_REFER_CMA) {
        nigh_help_forget(endpoint, op);
        nigh_plan_choose(endpoint, op);
        op->kind = NIGH_SEND_CHUNKED;
        nigh_count_redirected(endpoint->context, NIGH_PATH_CMA, NIGH_PATH_CHUNKED, op->bytes);
    }
    if (late & NIGH_GRANT_BRING) {
        if (!op || op->kind != NIGH_SEND_REFER || !op->device || op->op != NIGH_OP_LEND)
            return NIGH_BAD;
        nigh_device_send_bring(endpoint, op);
        return NIGH_GO;
    }
    if (op && op->kind == NIGH_SEND_REFER && op->device) {
        nigh_device_send_asked(endpoint, op, late & NIGH_GRANT_AGAIN);
        nigh_plan_choose(endpoint, op);
    }
    if (op && nigh_remote_is_copied(op)) {
        nigh_remote_asked(endpoint, op, late & NIGH_GRANT_AGAIN);
        return NIGH_GO;
    }
    if (!op || op->kind != NIGH_SEND_CHUNKED || op->granted)
        return NIGH_BAD;
    nigh_large_granted(endpoint, op, late & NIGH_GRANT_WAITED);
    return NIGH_GO;
}

static enum nigh_verdict arrive_help(struct nigh_endpoint *endpoint, uint64_t head, uint64_t id,
                                     uint64_t offer)
{
    struct nigh_send_op *op = nigh_ids_get(&endpoint->out, id);
    struct nigh_wire_help help;

    nigh_arrive_payload(endpoint, &help, sizeof(help));
    if (!op || op->kind != NIGH_SEND_REFER || op->refer != NIGH_REFER_CMA || !help.bytes ||
        help.bytes > op->bytes || help.to > UINTPTR_MAX - help.bytes || !offer || offer > UINT32_MAX)
        return NIGH_BAD;
    if (op->early)
        nigh_beside_early_asked(endpoint, op);
    return nigh_help_asked(endpoint, op, (uint32_t)offer, help.to, help.bytes,
                           nigh_head_flags(head) & NIGH_F_ONE)
               ? NIGH_GO
               : NIGH_BAD;
}

int nigh_answer_status(uint64_t imm)
{
    int status = (int)(int64_t)imm;

    return status == 0 || status == -EACCES || status == -ERANGE || status == -EOPNOTSUPP ||
                   status == -ECANCELED
               ? status
               : -EIO;
}

static bool finish(struct nigh_endpoint *endpoint, uint64_t id, int status)
{
    struct nigh_send_op *op = nigh_ids_get(&endpoint->out, id);

    if (op && op->kind == NIGH_SEND_REPLY && nigh_remote_is_copied(op)) {
        nigh_rma_answered(endpoint, op, status);
        return true;
    }
    if (!op || op->flowing || (op->kind != NIGH_SEND_REFER && op->kind != NIGH_SEND_PUT) ||
        (op->kind == NIGH_SEND_PUT && op->sent < op->bytes))
        return false;
    /* The peer has left in the middle of the copy, and says so before it says goodbye. */
    if (status == -ECANCELED)
        status = -ECONNRESET;
    if (op->device)
        nigh_device_send_over(endpoint, op->device);
    nigh_send_complete(endpoint, op, op->failed ? op->failed : status, op->bytes);
    return true;
}

static enum nigh_verdict arrive_finish(struct nigh_endpoint *endpoint, uint64_t head, uint64_t id,
                                       uint64_t imm)
{
    const struct nigh_send_op *first = nigh_ids_get(&endpoint->out, id);
    uint32_t bytes = nigh_head_bytes(head);
    int status = nigh_answer_status(imm);
    struct nigh_wire_finish more;

    if (first && first->early)
        nigh_beside_early_over(endpoint, first);
    if (bytes % sizeof(more.ids[0]) || bytes > sizeof(more) || !finish(endpoint, id, status))
        return NIGH_BAD;
    if (!bytes)
        return NIGH_GO;
    nigh_arrive_payload(endpoint, &more, sizeof(more));
    for (uint32_t i = 0; i < bytes / sizeof(more.ids[0]); i++)
        if (!finish(endpoint, more.ids[i], status))
            return NIGH_BAD;
    return NIGH_GO;
}

enum nigh_verdict nigh_answer_arrive(struct nigh_endpoint *endpoint, uint64_t head, uint64_t id, uint64_t imm)
{
    endpoint->answered_us++;
    switch (nigh_head_kind(head)) {
    case NIGH_K_DROP:
        nigh_device_peer_drop(endpoint, id);
        return NIGH_GO;
    case NIGH_K_DROPPED:
        nigh_device_peer_dropped(endpoint, id);
        return NIGH_GO;
    case NIGH_K_GRANT:
        return arrive_grant(endpoint, id, imm);
    case NIGH_K_HELP:
        return arrive_help(endpoint, head, id, imm);
    default:
        return arrive_finish(endpoint, head, id, imm);
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/complete.c - completions that are more than source, tag and bytes: errors, deaths, receives in
 * place, operations that nobody waits for. */
#include "lib/complete.h"
#include "lib/comm.h"
#include "lib/error.h"
#include "lib/foreign.h"
#include "lib/held.h"
#include "lib/peer.h"
#include "lib/post.h"
#include "lib/progress.h"
#include "lib/young.h"

#include <errno.h>

static bool from_anyone(const struct nigh_operation *operation)
{
    return operation->peer == NIGH_ANY_SOURCE && operation->phase == NIGH_PHASE_ACTIVE &&
           (operation->kind == NIGH_KIND_RECV || operation->kind == NIGH_KIND_RECV_IN_PLACE);
}

/* Each communicator with news and a receive from anyone: that is taken back and fails instead. One per communicator,
 * and of these the one that was posted first, as far as slots tell. */
static void pass_on(void)
{
    for (uint32_t i = 0; i < nigh_core.operations_used; i++) {
        struct nigh_operation *operation = &nigh_core.operations[i];

        if (!from_anyone(operation) || operation->comm->deaths_untold == 0 || operation->flags & NIGH_OP_TOLD)
            continue;
        /* One that has met its message is to bring that. */
        if (nigh_core.ops->cancel_unmatched(nigh_core.context, (uintptr_t)operation) == 0) {
            operation->comm->deaths_untold--;
            operation->flags |= NIGH_OP_TOLD | NIGH_OP_RARE;
        }
    }
}

/* The plugin told this receive of a death. True: it is not its communicator's, the receive stands again. */
static bool stands_again(struct nigh_operation *operation, uint64_t source)
{
    bool mine;

    nigh_peer_died(source);
    mine = operation->comm->deaths_untold != 0;
    if (mine)
        operation->comm->deaths_untold--;
    else if (nigh_operation_repost(operation) != 0)
        mine = true;
    pass_on();
    return !mine;
}

static void end(struct nigh_operation *operation)
{
    operation->phase = NIGH_PHASE_DONE;
    if (operation->flags & NIGH_OP_DETACHED) {
        if (operation->error)
            nigh_say(NIGH_LOG_WARN, "a %s that nobody waits for ended with error %d",
                     nigh_operation_text(operation).text, operation->error);
        nigh_operation_give(operation);
    }
}

void nigh_complete_rarely(const struct nigh_completion *completion)
{
    struct nigh_operation *operation = (struct nigh_operation *)(uintptr_t)completion->context;
    int error = completion->status;

    if (nigh_progress_is_wake(completion->context))
        return;
    if (!nigh_is_operation(operation)) {
        /* Of this library's classes only silent sends have no operation: to a rank that has gone. */
        if (NIGH_DONE_CLASS(completion->flags) < NIGH_CLASS_USER)
            nigh_foreign_add(completion);
        return;
    }
    if (error == -ECONNRESET && from_anyone(operation) && stands_again(operation, completion->source))
        return;
    if (error == -ECANCELED && operation->flags & NIGH_OP_TOLD)
        error = -ECONNRESET;
    operation->flags &= (uint16_t)~NIGH_OP_TOLD;
    operation->error = error;
    operation->data = completion->data;
    if (completion->op == NIGH_OP_RECV) {
        operation->imm = completion->imm;
        operation->source = nigh_comm_rank_of(operation->comm, completion->source);
        operation->done_tag = error && error != -EMSGSIZE ? operation->tag : (int32_t)completion->tag;
        operation->done_bytes = error && error != -EMSGSIZE ? 0 : completion->bytes;
        if (error && error != -EMSGSIZE && operation->source == NIGH_ANY_SOURCE)
            operation->source = operation->peer;
        if (completion->flags & NIGH_DONE_LENT)
            nigh_held_add(operation);
        nigh_young_came(operation, completion->imm);
    }
    if (operation->flags & NIGH_OP_HOOK)
        operation->ended(operation, completion);
    else
        end(operation);
}

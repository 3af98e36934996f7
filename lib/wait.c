/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/wait.c - the slow part of waiting, the end of a request, and the calls for one request. */
#include "lib/wait.h"
#include "lib/collective.h"
#include "lib/debug.h"
#include "lib/error.h"
#include "lib/line.h"
#include "lib/near.h"
#include "lib/post.h"

#include <errno.h>
#include <string.h>

/* A first sleep in the plugin, which spins and yields there by the load of the machine: only then a call blocks. */
#define FIRST_NS UINT64_C(20000)

#define TEXT_NS \
    UINT64_C(50000000) /* programs poll with shorter nigh_wait_for(): no search for who is missing, then */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What is waited for may be many messages, one close behind the other: as long as they come, sleeping between two of
 * them costs more than they do. `came`: completions that the last sleep has ended with. */
static bool is_over(struct nigh_block *block, int came)
{
    for (int i = came > 0 ? 0 : NIGH_SPINS; i < NIGH_SPINS; i++) {
        if (block->over(block))
            return true;
        if (nigh_poll() > 0)
            i = 0;
    }
    return block->over(block);
}

static int sleep_blocked(struct nigh_block *block)
{
    uint64_t now = nigh_now_ns(),
             deadline = block->timeout_ns ? block->since_ns + block->timeout_ns : UINT64_MAX;
    int rc;

    /* After each sleep and each look it is asked whether all is over, and never again when it was. */
    if (block->over(block))
        return 0;
    for (;;) {
        uint64_t until = least(deadline, block->look_ns);
        bool nudged;
        int came;

        if (now >= deadline)
            return -ETIMEDOUT;
        /* The moment to look may have passed: whoever had no CPU since, or was asked to look at once. */
        came = nigh_progress_sleep(
            least(until > now ? until - now : 0, block->nap_ns ? block->nap_ns : UINT64_MAX));
        nudged = came == -EINTR;
        if (is_over(block, came))
            return 0;
        now = nigh_now_ns();
        nigh_line_refresh(block);
        if (!nudged && now < block->look_ns)
            continue;
        rc = nudged ? nigh_block_nudged(block) : nigh_block_look(block, now);
        if (block->over(block))
            return 0;
        if (rc)
            return rc;
        nigh_line_refresh(block);
        now = nigh_now_ns();
    }
}

int nigh_block_until(struct nigh_block *block)
{
    int rc = 0, came;

    nigh_core.waiters++;
    block->since_ns = nigh_now_ns();
    came = nigh_progress_sleep(block->timeout_ns ? least(block->timeout_ns, FIRST_NS) : FIRST_NS);
    if (!is_over(block, came) && (rc = nigh_block_alone(block->call)) == 0) {
        nigh_block_begin(block);
        rc = sleep_blocked(block);
        nigh_block_end(block);
    }
    nigh_core.waiters--;
    return rc;
}

static bool has_ended(struct nigh_block *block)
{
    return block->operation->phase == NIGH_PHASE_DONE;
}

int nigh_wait_slowly(struct nigh_call call, struct nigh_operation *operation, uint64_t timeout_ns)
{
    struct nigh_block block = {
        .call = call,
        .kind = NIGH_BLOCK_ONE,
        .operation = operation,
        .comm = operation->comm,
        .over = has_ended,
        .timeout_ns = timeout_ns,
    };

    return nigh_block_until(&block);
}

struct nigh_sentence nigh_operation_missing(const struct nigh_operation *operation)
{
    return operation->kind == NIGH_KIND_COLLECTIVE ? nigh_coll_missing_text(operation)
                                                   : nigh_missing_text(operation->comm, operation->peer);
}

void nigh_status_of(const struct nigh_operation *operation, struct nigh_status *status)
{
    if (!status)
        return;
    if (operation->flags & NIGH_OP_NOBODY)
        nigh_status_nobody(status);
    else if (operation->kind == NIGH_KIND_RECV || operation->kind == NIGH_KIND_RECV_IN_PLACE)
        nigh_status_set(status, operation->source, operation->done_tag, operation->error,
                        operation->done_bytes,
                        operation->kind == NIGH_KIND_RECV_IN_PLACE ? operation->data : NULL);
    else
        nigh_status_set(status, NIGH_ANY_SOURCE, NIGH_ANY_TAG, operation->error,
                        operation->error ? 0 : operation->bytes, NULL);
}

int nigh_operation_failed(struct nigh_call call, const struct nigh_operation *operation)
{
    int error = operation->error;
    int lost;

    if (operation->kind == NIGH_KIND_COLLECTIVE)
        return nigh_coll_failed(call, operation);
    lost = operation->source >= 0 && operation->kind >= NIGH_KIND_RECV ? operation->source : operation->peer;

    if (error == -ECANCELED)
        return nigh_fail_quietly(call, error, "taken back by nigh_cancel: %s",
                                 nigh_operation_text(operation).text);
    if (error == -EMSGSIZE)
        return nigh_fail(
            call, error,
            "the message from rank %d, tag %d, has %llu bytes, which is longer than the buffer of its "
            "%s; the buffer has its beginning",
            operation->source, operation->done_tag, (unsigned long long)operation->done_bytes,
            nigh_operation_text(operation).text);
    if ((error == -ECONNRESET || error == -EPROTO) && lost >= 0)
        return nigh_fail(call, error, "%s: %s will never end%s", nigh_loss_text(operation->comm, lost).text,
                         nigh_operation_text(operation).text, nigh_near_operation(operation).text);
    if (error == -ECONNRESET)
        return nigh_fail(call, error,
                         "a rank of %s was killed or has exited without nigh_finalize, during: %s",
                         nigh_comm_text(operation->comm).text, nigh_operation_text(operation).text);
    return nigh_fail(call, error, "%s: %s", strerror(-error), nigh_operation_text(operation).text);
}

int nigh_operation_late(struct nigh_call call, const struct nigh_operation *operation, int error)
{
    if (error != -ETIMEDOUT)
        return error; /* whoever found the deadlock has said it */
    return nigh_fail(call, error, "timed out: %s has not ended; %s%s", nigh_operation_text(operation).text,
                     nigh_operation_missing(operation).text, nigh_near_operation(operation).text);
}

int nigh_request_retire(struct nigh_call call, struct nigh_operation *operation, nigh_request *request,
                        struct nigh_status *status, bool say)
{
    int error = operation->error;

    nigh_debug_end(call, operation);
    nigh_status_of(operation, status);
    if (nigh_unlikely(error != 0) && say)
        nigh_operation_failed(call, operation);
    if (operation->flags & NIGH_OP_PERSISTENT) {
        operation->phase = NIGH_PHASE_INACTIVE;
    } else {
        if (operation->kind == NIGH_KIND_COLLECTIVE)
            nigh_coll_release(operation);
        nigh_operation_end(operation);
        *request = NIGH_REQUEST_NULL;
    }
    return error;
}

int nigh_operation_finish(struct nigh_call call, struct nigh_operation *operation, int rc,
                          struct nigh_status *status, bool say)
{
    nigh_request unused;

    if (rc == 0 || nigh_operation_recall(operation))
        return nigh_request_retire(call, operation, &unused, status, say);
    if (say)
        nigh_operation_late(call, operation, rc);
    nigh_operation_abandon(operation);
    return rc;
}

/* Has it nothing to wait for? */
static bool is_idle(const struct nigh_operation *operation)
{
    return !operation || operation->phase == NIGH_PHASE_INACTIVE;
}

static int wait_one(struct nigh_call call, nigh_request *request, uint64_t timeout_ns, bool chosen,
                    struct nigh_status *status)
{
    struct nigh_operation *operation = NULL;
    int rc = nigh_request_find(call, request, &operation);

    if (rc)
        return rc;
    if (is_idle(operation)) {
        nigh_status_empty(status);
        return 0;
    }
    rc = nigh_wait_one(call, operation, chosen ? timeout_ns : operation->comm->timeout_ns);
    if (rc == -ETIMEDOUT && chosen && timeout_ns < TEXT_NS)
        return nigh_fail_quietly(call, rc, "not ended after %.3f s: %s", (double)timeout_ns / 1e9,
                                 nigh_operation_text(operation).text);
    if (rc == -ETIMEDOUT && chosen)
        return nigh_fail_quietly(call, rc, "not ended after %.3f s: %s; %s%s", (double)timeout_ns / 1e9,
                                 nigh_operation_text(operation).text, nigh_operation_missing(operation).text,
                                 nigh_near_operation(operation).text);
    if (rc)
        return nigh_operation_late(call, operation, rc);
    return nigh_request_retire(call, operation, request, status, true);
}

NIGH_PUBLIC int nigh_wait(nigh_request *request, struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_wait");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = wait_one(call, request, 0, false, status);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_wait_for(nigh_request *request, double seconds, struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_wait_for");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    if (!(seconds >= 0))
        rc = nigh_fail(call, -EINVAL, "%g is no number of seconds", seconds);
    else
        /* Of no time at all one nanosecond is left: 0 is "for ever" further down, as of a communicator. */
        rc = wait_one(call, request, seconds < 1e9 ? (uint64_t)(seconds * 1e9) + 1 : 0, true, status);
    nigh_leave();
    return rc;
}

static int test_one(struct nigh_call call, nigh_request *request, int *flag, struct nigh_status *status)
{
    struct nigh_operation *operation = NULL;
    int rc = flag ? nigh_request_find(call, request, &operation) : nigh_fail(call, -EINVAL, "flag is NULL");

    if (rc)
        return rc;
    if (is_idle(operation)) {
        *flag = 1;
        nigh_status_empty(status);
        return 0;
    }
    if (operation->phase != NIGH_PHASE_DONE)
        (void)nigh_poll();
    *flag = operation->phase == NIGH_PHASE_DONE;
    return *flag ? nigh_request_retire(call, operation, request, status, true) : 0;
}

NIGH_PUBLIC int nigh_test(nigh_request *request, int *flag, struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_test");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = test_one(call, request, flag, status);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_request_get_status(nigh_request request, int *flag, struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_request_get_status");
    struct nigh_operation *operation = NULL;
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = flag ? nigh_request_check(call, request, &operation) : nigh_fail(call, -EINVAL, "flag is NULL");
    if (!rc && !is_idle(operation) && operation->phase != NIGH_PHASE_DONE)
        (void)nigh_poll();
    if (!rc) {
        *flag = is_idle(operation) || operation->phase == NIGH_PHASE_DONE;
        if (is_idle(operation))
            nigh_status_empty(status);
        else if (*flag)
            nigh_status_of(operation, status);
    }
    nigh_leave();
    return rc;
}

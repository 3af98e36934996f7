/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/probe.c - what message is there, and taking it out for a receive of its own. */
#include "lib/error.h"
#include "lib/line.h"
#include "lib/near.h"
#include "lib/peer.h"
#include "lib/post.h"
#include "lib/wait.h"

#include <errno.h>

/* A message that nobody posted a receive for ends ops->wait() if the status line says that this rank probes. With
 * threads it never does, so that the probe looks by itself. */
#define NAP_NS         UINT64_C(50000000)
#define NAP_THREADS_NS UINT64_C(1000000)
/* How often it looks whether somebody died, where no receive from anyone is there to be told. */
#define DEATHS_EVERY 4
#define TRIES_EVERY  1024 /* all ranks are asked: nothing for each of many calls */

struct look {
    struct nigh_call call;
    struct nigh_comm *comm;
    struct nigh_endpoint *endpoint; /* NULL: from anyone */
    int source, tag;
    struct nigh_message **message; /* NULL: look only */
    struct nigh_completion found;
    int rc; /* -ENOMSG: nothing yet */
    uint32_t looks;
};

/* Of nigh_iprobe, across calls: a program that looks again and again is to hear of it, too. */
static uint32_t tries;

static void look(struct look *look)
{
    uint64_t tag = nigh_comm_tag(look->comm, look->tag == NIGH_ANY_TAG ? 0 : look->tag);

    look->rc = nigh_core.ops->probe(nigh_core.context, look->endpoint, tag,
                                    look->tag == NIGH_ANY_TAG ? UINT32_MAX : 0, NIGH_CLASS_USER, &look->found,
                                    look->message);
    if (look->rc != -ENOMSG || look->endpoint)
        return;
    if (look->comm->deaths_untold == 0 && (++look->looks % DEATHS_EVERY == 0 || ++tries % TRIES_EVERY == 0))
        nigh_peer_died(NIGH_SOURCE_NONE);
    if (look->comm->deaths_untold != 0) {
        look->comm->deaths_untold--;
        look->rc = -ECONNRESET;
    }
}

static bool over(struct nigh_block *block)
{
    look(block->data);
    return ((struct look *)block->data)->rc != -ENOMSG;
}

static int begin(struct look *look)
{
    struct nigh_call call = look->call;
    /* A buffer that is there: only the other arguments are checked. */
    int rc = nigh_check_recv(call, look->comm, look->source, look->tag, "", 0);

    if (!rc && look->source >= 0)
        rc = nigh_comm_endpoint(call, look->comm, look->source, &look->endpoint);
    return rc;
}

static void tell(const struct look *look, struct nigh_status *status)
{
    nigh_status_set(status, nigh_comm_rank_of(look->comm, look->found.source), (int)look->found.tag, 0,
                    look->found.bytes, NULL);
}

static int fail(const struct look *look, int rc)
{
    struct nigh_call call = look->call;
    struct nigh_operation like = {
        .kind = NIGH_KIND_RECV, .comm = look->comm, .peer = look->source, .tag = look->tag, .error = rc};

    if (rc == -ETIMEDOUT)
        return nigh_fail(call, rc,
                         "timed out: no message from rank %d (-1: any), tag %d (-1: any), in %s came; %s%s",
                         look->source, look->tag, nigh_comm_text(look->comm).text,
                         nigh_missing_text(look->comm, look->source).text,
                         nigh_near_receive(look->comm, look->source, look->tag).text);
    if (rc == -ECONNRESET && look->source < 0)
        return nigh_fail(call, rc, "a rank of %s was killed or has exited without nigh_finalize",
                         nigh_comm_text(look->comm).text);
    return nigh_post_refused(call, &like, rc);
}

/* Until something is there. */
static int wait_for(struct look *look)
{
    struct nigh_block block = {
        .call = look->call,
        .kind = NIGH_BLOCK_PROBE,
        .comm = look->comm,
        .peer = look->source,
        .tag = look->tag,
        .over = over,
        .data = look,
        .timeout_ns = look->comm->timeout_ns,
        .nap_ns = nigh_core.guard & NIGH_GUARD_THREADS ? NAP_THREADS_NS : NAP_NS,
    };

    for (int i = 0; i < NIGH_SPINS; i++)
        if (over(&block))
            return 0;
    return nigh_block_until(&block);
}

static int probe(struct look *look, int *flag, struct nigh_status *status)
{
    int rc = begin(look);

    if (rc)
        return rc;
    if (look->source == NIGH_PROC_NULL) {
        nigh_status_nobody(status);
        if (flag)
            *flag = 1;
        return 0;
    }
    if (flag) {
        nigh_poll();
        (void)over(&(struct nigh_block){.data = look});
        *flag = look->rc == 0;
        if (look->rc == -ENOMSG)
            return 0;
    } else {
        rc = wait_for(look);
        if (rc)
            return rc == -ETIMEDOUT ? fail(look, rc) : rc; /* whoever found another reason has said it */
    }
    if (look->rc)
        return fail(look, look->rc);
    tell(look, status);
    return 0;
}

NIGH_PUBLIC int nigh_probe(int source, int tag, struct nigh_comm *comm, struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_probe");
    struct look look = {.call = call, .comm = comm, .source = source, .tag = tag};
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = probe(&look, NULL, status);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_iprobe(int source, int tag, struct nigh_comm *comm, int *flag,
                            struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_iprobe");
    struct look look = {.call = call, .comm = comm, .source = source, .tag = tag};
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = flag ? probe(&look, flag, status) : nigh_fail(call, -EINVAL, "flag is NULL");
    nigh_leave();
    return rc;
}

/* A matched probe: the message gets a slot among the operations, so that its handle is checked like a request's. */
static int take(struct look *look, int *flag, nigh_matched *out, struct nigh_status *status)
{
    struct nigh_call call = look->call;
    struct nigh_message *message = NULL;
    struct nigh_operation *operation;
    struct nigh_status found;
    int rc;

    if (!out)
        return nigh_fail(call, -EINVAL, "the message is NULL");
    rc = nigh_comm_check(call, look->comm);
    if (rc)
        return rc;
    operation = nigh_operation_new(call, NIGH_KIND_MATCHED, look->comm, look->source, look->tag, NULL, 0, 0);
    if (!operation)
        return -ENOMEM;
    look->message = &message;
    rc = probe(look, flag, &found);
    if (rc || (flag && !*flag)) {
        nigh_operation_give(operation);
        return rc;
    }
    operation->message = message;
    operation->peer = found.source;
    operation->tag = found.tag;
    operation->bytes = found.bytes;
    if (status)
        *status = found;
    out->id = nigh_operation_handle(operation);
    return 0;
}

NIGH_PUBLIC int nigh_mprobe(int source, int tag, struct nigh_comm *comm, nigh_matched *message,
                            struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_mprobe");
    struct look look = {.call = call, .comm = comm, .source = source, .tag = tag};
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = take(&look, NULL, message, status);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_improbe(int source, int tag, struct nigh_comm *comm, int *flag, nigh_matched *message,
                             struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_improbe");
    struct look look = {.call = call, .comm = comm, .source = source, .tag = tag};
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = flag ? take(&look, flag, message, status) : nigh_fail(call, -EINVAL, "flag is NULL");
    nigh_leave();
    return rc;
}

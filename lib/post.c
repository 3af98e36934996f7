/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/post.c - operations become posts of the plugin; arguments that cannot are refused with a sentence. */
#include "lib/post.h"
#include "lib/block.h"
#include "lib/debug.h"
#include "lib/error.h"
#include "lib/line.h"
#include "lib/peer.h"
#include "lib/plugin.h"
#include "lib/thread.h"
#include "lib/young.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LARGE_BYTES 65536u           /* takes as long as a wake-up does, or a few times as long */
#define ROOM_NAP_NS UINT64_C(100000) /* no completion tells of room in a peer's queue */

int nigh_refuse_message(struct nigh_call call, const struct nigh_comm *comm, int peer, int tag,
                        const void *buffer, uint64_t bytes, bool receives)
{
    int rc = nigh_comm_check(call, comm);

    if (rc)
        return rc;
    if (peer != NIGH_PROC_NULL && (uint32_t)peer >= comm->size && !(receives && peer == NIGH_ANY_SOURCE))
        return nigh_fail(call, -ERANGE, "there is no rank %d%s in %s: its ranks are 0 to %u", peer,
                         peer == NIGH_ANY_SOURCE ? " (NIGH_ANY_SOURCE is for receives and probes)" : "",
                         nigh_comm_text(comm).text, comm->size - 1);
    if (tag < 0 && !(receives && tag == NIGH_ANY_TAG))
        return nigh_fail(call, -ERANGE, "tag %d is not valid: tags are 0 to %d%s", tag, NIGH_TAG_MAX,
                         receives ? ", or NIGH_ANY_TAG" : " (NIGH_ANY_TAG is for receives and probes)");
    if (!buffer && bytes != 0)
        return nigh_fail(call, -EFAULT, "the buffer is NULL, but %llu bytes are to be %s",
                         (unsigned long long)bytes, receives ? "received" : "sent");
    return 0;
}

struct nigh_operation *nigh_operation_new(struct nigh_call call, enum nigh_kind kind, struct nigh_comm *comm,
                                          int peer, int tag, const void *buffer, uint64_t bytes,
                                          uint32_t flags)
{
    struct nigh_operation *operation = nigh_operation_take();

    if (!operation) {
        nigh_fail(call, -ENOMEM, "no memory for another request; %u may be active at one time",
                  NIGH_OPERATION_MAX);
        return NULL;
    }
    *operation = (struct nigh_operation){
        .generation = operation->generation,
        .phase = NIGH_PHASE_INACTIVE,
        .kind = (uint8_t)kind,
        .flags = (uint16_t)flags,
        .comm = comm,
        .peer = peer,
        .tag = tag,
        .bytes = bytes,
        .site = call.site,
        .buffer = (void *)(uintptr_t)buffer,
    };
    return operation;
}

static uint32_t class_of(const struct nigh_operation *operation)
{
    return operation->flags & NIGH_OP_INTERNAL ? NIGH_CLASS_CONTROL
           : operation->flags & NIGH_OP_WINDOW ? NIGH_CLASS_WINDOW
                                               : NIGH_CLASS_USER;
}

static int send_it(struct nigh_endpoint *endpoint, struct nigh_operation *operation)
{
    struct nigh_send send = {
        .size = sizeof(send),
        .buffer = operation->buffer,
        .bytes = operation->bytes,
        .tag = nigh_comm_tag(operation->comm, operation->tag),
        .imm = operation->imm,
        .context = (uintptr_t)operation,
        .tclass = class_of(operation),
    };
    bool user = send.tclass == NIGH_CLASS_USER;
    int rc;

    if (operation->kind == NIGH_KIND_SSEND || (user && nigh_core.strict))
        send.flags = NIGH_SYNC;
    else if (operation->bytes <= NIGH_INJECT_BYTES)
        send.flags = NIGH_INJECT | NIGH_SILENT, send.context = 0;
    rc = nigh_core.ops->post_send(endpoint, &send);
    if (!rc && send.flags & NIGH_SILENT)
        operation->phase = NIGH_PHASE_DONE;
    return rc;
}

static int lend_it(struct nigh_endpoint *endpoint, struct nigh_operation *operation)
{
    struct nigh_lend lend = {
        .size = sizeof(lend),
        .buffer = operation->buffer,
        .bytes = operation->bytes,
        .tag = nigh_comm_tag(operation->comm, operation->tag),
        .context = (uintptr_t)operation,
        .tclass = NIGH_CLASS_USER,
    };

    return NIGH_EXPLAINED(post_lend, endpoint, &lend);
}

static int receive_it(struct nigh_endpoint *endpoint, struct nigh_operation *operation)
{
    struct nigh_recv recv = {
        .size = sizeof(recv),
        .flags = operation->kind == NIGH_KIND_RECV_IN_PLACE ? NIGH_IN_PLACE : 0,
        .buffer = operation->buffer,
        .bytes = operation->bytes,
        .tag = nigh_comm_tag(operation->comm, operation->tag == NIGH_ANY_TAG ? 0 : operation->tag),
        .ignore = operation->tag == NIGH_ANY_TAG ? UINT32_MAX : 0,
        .context = (uintptr_t)operation,
        .tclass = class_of(operation),
    };

    if (operation->message)
        return nigh_core.ops->claim(nigh_core.context, operation->message, &recv);
    return nigh_core.ops->post_recv(nigh_core.context, endpoint, &recv);
}

static int try_post(struct nigh_operation *operation, struct nigh_endpoint *endpoint)
{
    /* Before the post: it may complete inside of it. */
    enum nigh_phase before = operation->phase;
    int rc;

    operation->phase = NIGH_PHASE_ACTIVE;
    operation->error = 0;
    if (operation->kind == NIGH_KIND_LEND)
        rc = lend_it(endpoint, operation);
    else if (operation->kind == NIGH_KIND_SEND || operation->kind == NIGH_KIND_SSEND)
        rc = send_it(endpoint, operation);
    else
        rc = receive_it(endpoint, operation);
    if (rc)
        operation->phase = (uint8_t)before;
    return rc;
}

struct attempt {
    struct nigh_operation *operation;
    struct nigh_endpoint *endpoint;
    int rc;
};

static int post_again(void *data)
{
    struct attempt *attempt = data;

    return attempt->rc = try_post(attempt->operation, attempt->endpoint);
}

static bool try_again(struct nigh_block *block)
{
    return nigh_block_try(block, post_again);
}

static int wait_for_room(struct nigh_call call, struct nigh_operation *operation,
                         struct nigh_endpoint *endpoint)
{
    struct attempt attempt = {.operation = operation, .endpoint = endpoint};
    struct nigh_block block = {
        .call = call,
        .kind = NIGH_BLOCK_ROOM,
        .operation = operation,
        .comm = operation->comm,
        .peer = operation->peer,
        .tag = operation->tag,
        .bytes = operation->bytes,
        .over = try_again,
        .data = &attempt,
        .timeout_ns = operation->comm->timeout_ns,
        .nap_ns = ROOM_NAP_NS,
    };
    int rc = nigh_block_until(&block);

    if (rc && rc != -ETIMEDOUT)
        return rc; /* whoever found out has said it */
    if (rc)
        return nigh_fail(call, rc,
                         "rank %d takes none of the messages that were sent to it, and no more can be queued",
                         operation->peer);
    return attempt.rc ? nigh_post_refused(call, operation, attempt.rc) : 0;
}

/* A receive from anyone when members have died that it was not told of: only a message that is there already counts. */
static bool must_be_told(const struct nigh_operation *operation)
{
    struct nigh_completion found;

    if (nigh_likely(operation->peer != NIGH_ANY_SOURCE || operation->comm->deaths_untold == 0))
        return false;
    return nigh_core.ops->probe(
               nigh_core.context, NULL,
               nigh_comm_tag(operation->comm, operation->tag == NIGH_ANY_TAG ? 0 : operation->tag),
               operation->tag == NIGH_ANY_TAG ? UINT32_MAX : 0, class_of(operation), &found, NULL) != 0;
}

int nigh_operation_post(struct nigh_call call, struct nigh_operation *operation)
{
    struct nigh_endpoint *endpoint = NULL;
    int rc = 0;

    if (operation->peer == NIGH_PROC_NULL) {
        operation->phase = NIGH_PHASE_DONE;
        operation->flags |= NIGH_OP_NOBODY;
        operation->error = 0;
        return 0;
    }
    if (operation->kind == NIGH_KIND_RECV_IN_PLACE)
        operation->flags |= NIGH_OP_RARE;
    if (operation->peer >= 0)
        rc = nigh_comm_endpoint(call, operation->comm, operation->peer, &endpoint);
    if (rc)
        return rc;
    if (nigh_unlikely(must_be_told(operation))) {
        operation->comm->deaths_untold--;
        operation->phase = NIGH_PHASE_DONE;
        operation->error = -ECONNRESET;
        operation->source = NIGH_ANY_SOURCE;
        operation->done_tag = operation->tag;
        operation->done_bytes = 0;
        return 0;
    }
    nigh_debug_begin(operation);
    nigh_young_post(operation);
    rc = try_post(operation, endpoint);
    if (nigh_core.spare && operation->bytes >= LARGE_BYTES && operation->phase == NIGH_PHASE_ACTIVE)
        nigh_thread_expect();
    if (nigh_unlikely(rc == -EAGAIN))
        rc = wait_for_room(call, operation, endpoint);
    else if (rc)
        rc = nigh_post_refused(call, operation, rc);
    if (rc)
        nigh_debug_forget(operation);
    return rc;
}

int nigh_start_general(struct nigh_call call, enum nigh_kind kind, const void *buffer, uint64_t bytes,
                       int peer, int tag, struct nigh_comm *comm, nigh_request *request)
{
    struct nigh_operation *operation;
    int rc = kind < NIGH_KIND_RECV ? nigh_check_send(call, comm, peer, tag, buffer, bytes)
                                   : nigh_check_recv(call, comm, peer, tag, buffer, bytes);

    if (!rc && !request)
        rc = nigh_fail(call, -EINVAL, "the request is NULL");
    if (rc)
        return rc;
    operation = nigh_operation_new(call, kind, comm, peer, tag, buffer, bytes, 0);
    if (!operation)
        return -ENOMEM;
    rc = nigh_operation_post(call, operation);
    request->id = rc ? 0 : nigh_operation_handle(operation);
    if (rc)
        nigh_operation_give(operation);
    return rc;
}

/* The short ways of lib/recv.c leave `buffer` and `message` of an earlier user in a slot; what comes here never went
 * one: they take no wildcards, and hooks belong to the library itself. */
int nigh_operation_repost(struct nigh_operation *operation)
{
    return try_post(operation, operation->peer >= 0 ? operation->comm->endpoints[operation->peer] : NULL);
}

uint32_t nigh_loss_state(const struct nigh_comm *comm, int rank)
{
    int world = nigh_comm_to_world(comm, rank);
    uint32_t state = nigh_peer_state(world);
    struct nigh_query_end end;

    if (nigh_peer_refused(world, &end))
        return NIGH_LOSS_REFUSED;
    if (nigh_line_has_left(world))
        return NIGH_PEER_CLOSED;
    /* Its memory could not be read any more, before the kernel has told that it has ended. */
    return state == NIGH_READY ? NIGH_PEER_DEAD : state;
}

struct nigh_sentence nigh_loss_text(const struct nigh_comm *comm, int rank)
{
    int world = nigh_comm_to_world(comm, rank);
    struct nigh_query_end end;
    struct nigh_sentence text;

    if (!nigh_peer_refused(world, &end))
        return nigh_loss_words(rank, nigh_loss_state(comm, rank), nigh_peer_pid(world));
    snprintf(text.text, sizeof(text.text), "rank %d cannot be reached: %s", rank, end.text);
    return text;
}

struct nigh_sentence nigh_loss_words(int rank, uint32_t state, int32_t pid)
{
    struct nigh_sentence text;
    char process[32] = "";

    if (pid > 0)
        snprintf(process, sizeof(process), " (process %d)", pid);
    snprintf(text.text, sizeof(text.text), "rank %d%s %s", rank, process,
             state == NIGH_PEER_DEAD ? "was killed or has exited without nigh_finalize"
             : state == NIGH_BROKEN  ? "has broken the protocol, its shared memory cannot be trusted any more"
             : state == NIGH_LOSS_REFUSED ? "and another rank cannot reach each other, as that one has said"
                                          : "has left the job");
    return text;
}

int nigh_post_refused(struct nigh_call call, const struct nigh_operation *operation, int error)
{
    if ((error == -ECONNRESET || error == -EPROTO) && operation->peer >= 0)
        return nigh_fail(call, error, "%s: no %s", nigh_loss_text(operation->comm, operation->peer).text,
                         nigh_operation_text(operation).text);
    if (operation->kind == NIGH_KIND_LEND && error == -EINVAL)
        return nigh_fail(
            call, error,
            "only memory from nigh_alloc_mem can be lent: %p to %p does not lie within one such block",
            operation->buffer, (void *)((char *)operation->buffer + operation->bytes));
    return nigh_fail(call, error, "%s: %s", strerror(-error), nigh_operation_text(operation).text);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/collective_link.c - messages of a collective with their marks, and what happens when one does not come. */
#include "lib/collective.h"
#include "lib/error.h"
#include "lib/line.h"
#include "lib/peer.h"
#include "lib/post.h"
#include "lib/wait.h"

#include <errno.h>
#include <string.h>

/*
 * The immediate of an abort. Marks have other kinds.
 *
 *   63   60 59    48 47   44 43       24 23      0
 *   | kind |  errno  | state | culprit  | process |
 *
 * state and process are what the sender knows of the culprit: others may not be connected to him.
 */
#define ABORT_KIND   UINT64_C(15)
#define ABORT_NOBODY 0xfffffu

bool nigh_coll_is_abort(uint64_t told)
{
    return told >> 60 == ABORT_KIND;
}

static uint64_t abort_of(const struct nigh_comm *comm, int error, int culprit)
{
    uint64_t told = ABORT_KIND << 60 | (uint64_t)(-error & 0xfff) << 48, state, pid;

    if (culprit < 0)
        return told | (uint64_t)ABORT_NOBODY << 24;
    state = nigh_loss_state(comm, culprit) & 0xf;
    pid = (uint32_t)nigh_peer_pid(nigh_comm_to_world(comm, culprit)) & 0xffffff;
    return told | state << 44 | (uint64_t)culprit << 24 | pid;
}

/* What an abort says, taken apart. */
struct abort {
    int error, culprit; /* culprit: ABORT_NOBODY */
    struct nigh_sentence loss;
    bool is_loss;
};

static struct abort read_abort(uint64_t told)
{
    struct abort it = {.error = -(int)(told >> 48 & 0xfff), .culprit = (int)(told >> 24 & ABORT_NOBODY)};

    it.is_loss = it.error == -ECONNRESET || it.error == -EPROTO;
    it.loss = nigh_loss_words(it.culprit, told >> 44 & 0xf, (int32_t)(told & 0xffffff));
    return it;
}

/* Says what an abort from `rank` tells; returns the error. */
static int say_abort(const struct nigh_coll *coll, int rank, uint64_t told)
{
    struct abort it = read_abort(told);

    if (it.is_loss)
        return nigh_fail(coll->call, it.error, "%s, says rank %d", it.loss.text, rank);
    if (it.culprit == coll->me)
        return nigh_fail(coll->call, it.error, "rank %d has given up waiting for this one: %s", rank,
                         strerror(-it.error));
    if (it.culprit != (int)ABORT_NOBODY)
        return nigh_fail(coll->call, it.error, "rank %d was waited for in vain, says rank %d: %s", it.culprit,
                         rank, strerror(-it.error));
    return nigh_fail(coll->call, it.error, "rank %d has given up: %s", rank, strerror(-it.error));
}

/* It is small and copied out at once; a rank whose queue is full for so long does not listen anyway. */
static void send_abort(struct nigh_coll *coll, int rank, uint64_t told)
{
    struct nigh_send send = {
        .size = sizeof(send),
        .flags = NIGH_INJECT | NIGH_SILENT,
        .tag = nigh_comm_tag(coll->comm, coll->tag),
        .imm = told,
        .tclass = NIGH_CLASS_CONTROL,
    };
    struct nigh_endpoint *endpoint;

    if (nigh_comm_endpoint(coll->call, coll->comm, rank, &endpoint))
        return;
    for (int i = 0; i < 1000 && nigh_core.ops->post_send(endpoint, &send) == -EAGAIN; i++)
        (void)nigh_poll();
}

static int fail(struct nigh_coll *coll, int error, uint64_t told)
{
    if (coll->failed)
        return coll->failed;
    coll->failed = error;
    if (read_abort(told).is_loss)
        coll->comm->lost = told;
    for (int i = 1; i < coll->size; i++)
        send_abort(coll, (coll->me + i) % coll->size, told);
    return error;
}

int nigh_coll_fail(struct nigh_coll *coll, int error, int culprit)
{
    return fail(coll, error, abort_of(coll->comm, error, culprit));
}

int nigh_coll_fail_again(struct nigh_coll *coll)
{
    struct abort it = read_abort(coll->comm->lost);

    return fail(coll,
                nigh_fail(coll->call, it.error,
                          "%s: go on without it in another communicator (nigh_comm_create)", it.loss.text),
                coll->comm->lost);
}

/* Posts it; what the post has said of a failure is enough. The plugin's short ways ask for a
 * buffer, also for no bytes. */
static int post(struct nigh_coll *coll, enum nigh_kind kind, int rank, const void *buffer, uint64_t bytes,
                uint64_t tell, struct nigh_operation **out)
{
    struct nigh_operation *operation =
        nigh_operation_new(coll->call, kind, coll->comm, rank, coll->tag, buffer ? buffer : "", bytes,
                           NIGH_OP_INTERNAL | NIGH_OP_RARE);
    int rc;

    if (!operation)
        return nigh_coll_fail(coll, -ENOMEM, -1);
    operation->imm = tell;
    coll->posted = true;
    rc = nigh_operation_post(coll->call, operation);
    if (rc) {
        nigh_operation_give(operation);
        return nigh_coll_fail(coll, rc, rank);
    }
    *out = operation;
    return 0;
}

int nigh_coll_isend(struct nigh_coll *coll, int to, const void *buffer, uint64_t bytes, uint64_t tell,
                    struct nigh_operation **out)
{
    return post(coll, NIGH_KIND_SEND, to, buffer, bytes, tell, out);
}

int nigh_coll_irecv(struct nigh_coll *coll, int from, void *buffer, uint64_t bytes,
                    struct nigh_operation **out)
{
    return post(coll, NIGH_KIND_RECV, from, buffer, bytes, 0, out);
}

static uint64_t time_left(const struct nigh_coll *coll)
{
    uint64_t now;

    if (nigh_likely(coll->deadline_ns == 0))
        return 0;
    now = nigh_now_ns();
    return now < coll->deadline_ns ? coll->deadline_ns - now : 1;
}

static int say_late(const struct nigh_coll *coll, int error, int rank)
{
    if (error != -ETIMEDOUT)
        return error; /* whoever found the deadlock has said it */
    return nigh_fail(coll->call, error, "timed out after %.3g s in %s: rank %d has not come; %s%s",
                     (double)coll->comm->timeout_ns / 1e9, nigh_comm_text(coll->comm).text, rank,
                     nigh_missing_text(coll->comm, rank).text, nigh_unmet_text(coll->comm, rank).text);
}

int nigh_coll_await(struct nigh_coll *coll, struct nigh_operation **operation, uint64_t *told)
{
    struct nigh_operation *it = *operation;
    int rc, peer;

    if (!it)
        return 0;
    peer = it->peer;
    rc = nigh_wait_one(coll->call, it, time_left(coll));
    if (nigh_unlikely(rc != 0))
        return nigh_coll_fail(coll, say_late(coll, rc, peer), peer);
    /* A message longer than expected is of another call: its mark tells. */
    if (nigh_unlikely(it->error != 0 && it->error != -EMSGSIZE))
        return nigh_coll_fail(
            coll, nigh_fail(coll->call, it->error, "%s", nigh_loss_text(coll->comm, peer).text), peer);
    *operation = NULL;
    if (told)
        *told = it->imm;
    if (nigh_unlikely(it->kind == NIGH_KIND_RECV && nigh_coll_is_abort(it->imm))) {
        rc = say_abort(coll, peer, it->imm);
        coll->told_by = peer;
        rc = fail(coll, rc, it->imm);
    }
    nigh_operation_give(it);
    return rc;
}

int nigh_coll_swap(struct nigh_coll *coll)
{
    int rc = 0;

    /* Each begins with another one, so that nobody is everybody's first. */
    for (int i = 1; !rc && i < coll->size; i++) {
        int from = (coll->me + coll->size - i) % coll->size;
        struct nigh_coll_peer *peer = &coll->peers[from];

        if (peer->in_bytes)
            rc = nigh_coll_irecv(coll, from, peer->in, peer->in_bytes, &peer->receiving);
    }
    for (int i = 1; !rc && i < coll->size; i++) {
        int to = (coll->me + i) % coll->size;
        struct nigh_coll_peer *peer = &coll->peers[to];

        if (peer->out_bytes)
            rc = nigh_coll_isend(coll, to, peer->out, peer->out_bytes, 0, &peer->sending);
    }
    return rc;
}

int nigh_coll_drain(struct nigh_coll *coll)
{
    int rc = 0;

    for (int i = 0; !rc && i < coll->size; i++)
        rc = nigh_coll_await(coll, &coll->peers[i].receiving, NULL);
    for (int i = 0; !rc && i < coll->size; i++)
        rc = nigh_coll_await(coll, &coll->peers[i].sending, NULL);
    return rc;
}

/* Nobody sends anything more with this tag, so it can only be an abort. */
int nigh_coll_look_back(struct nigh_coll *coll)
{
    struct nigh_operation *operation = NULL;
    struct nigh_completion found;
    int rank = NIGH_ANY_SOURCE, rc;

    if (nigh_core.ops->probe(nigh_core.context, NULL, nigh_comm_tag(coll->comm, coll->tag), 0,
                             NIGH_CLASS_CONTROL, &found, NULL) == 0)
        rank = nigh_comm_rank_of(coll->comm, found.source);
    if (nigh_likely(rank < 0))
        return 0;
    rc = nigh_coll_irecv(coll, rank, NULL, 0, &operation);
    if (!rc)
        rc = nigh_coll_await(coll, &operation, NULL);
    nigh_control_drop(operation);
    return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/control.c - the library's own messages: operations like the program's, in a class of their own. */
#include "lib/control.h"
#include "lib/error.h"
#include "lib/line.h"
#include "lib/post.h"
#include "lib/wait.h"

#include <errno.h>
#include <stdlib.h>

struct memory {
    struct memory *next;
    uint8_t bytes[];
};

static struct memory *given_up;

void *nigh_control_memory(uint64_t bytes)
{
    struct memory *memory = malloc(sizeof(*memory) + bytes);

    return memory ? memory->bytes : NULL;
}

void nigh_control_given_back(void *bytes, int rc)
{
    struct memory *memory = (struct memory *)(void *)((uint8_t *)bytes - offsetof(struct memory, bytes));

    if (!rc) {
        free(memory);
        return;
    }
    memory->next = given_up;
    given_up = memory;
}

void nigh_control_close(void)
{
    for (struct memory *next; given_up; given_up = next) {
        next = given_up->next;
        free(given_up);
    }
}

static int start(struct nigh_call call, enum nigh_kind kind, struct nigh_comm *comm, int rank, int tag,
                 const void *buffer, uint64_t bytes, struct nigh_operation **out)
{
    struct nigh_operation *operation =
        nigh_operation_new(call, kind, comm, rank, tag, buffer, bytes, NIGH_OP_INTERNAL);
    int rc = operation ? nigh_operation_post(call, operation) : -ENOMEM;

    if (!rc)
        *out = operation;
    else if (operation)
        nigh_operation_give(operation);
    return rc;
}

int nigh_control_isend(struct nigh_call call, struct nigh_comm *comm, int rank, int tag, const void *buffer,
                       uint64_t bytes, struct nigh_operation **out)
{
    return start(call, NIGH_KIND_SEND, comm, rank, tag, buffer, bytes, out);
}

int nigh_control_issend(struct nigh_call call, struct nigh_comm *comm, int rank, int tag, const void *buffer,
                        uint64_t bytes, struct nigh_operation **out)
{
    return start(call, NIGH_KIND_SSEND, comm, rank, tag, buffer, bytes, out);
}

int nigh_control_irecv(struct nigh_call call, struct nigh_comm *comm, int rank, int tag, void *buffer,
                       uint64_t bytes, struct nigh_operation **out)
{
    return start(call, NIGH_KIND_RECV, comm, rank, tag, buffer, bytes, out);
}

void nigh_control_drop(struct nigh_operation *operation)
{
    if (operation)
        nigh_operation_take_back(operation);
}

int nigh_control_wait(struct nigh_call call, struct nigh_operation *operation, uint64_t *got)
{
    int rc;

    if (!operation)
        return 0;
    rc = nigh_wait_one(call, operation, operation->comm->timeout_ns);
    if (rc == -ETIMEDOUT) {
        nigh_fail(call, rc, "timed out in %s: rank %d has not come; %s%s",
                  nigh_comm_text(operation->comm).text, operation->peer,
                  nigh_missing_text(operation->comm, operation->peer).text,
                  nigh_unmet_text(operation->comm, operation->peer).text);
    } else if (!rc && operation->error) {
        rc = operation->error;
        if (rc == -ECONNRESET || rc == -EPROTO)
            nigh_fail(call, rc, "in %s: %s", nigh_comm_text(operation->comm).text,
                      nigh_loss_text(operation->comm, operation->peer).text);
        else
            nigh_fail(call, rc, "in %s: rank %d sends %llu bytes where %llu were expected",
                      nigh_comm_text(operation->comm).text, operation->peer,
                      (unsigned long long)operation->done_bytes, (unsigned long long)operation->bytes);
    }
    if (got && !rc)
        *got = operation->kind == NIGH_KIND_RECV ? operation->done_bytes : operation->bytes;
    nigh_control_drop(operation);
    return rc;
}

int nigh_control_swap(struct nigh_call call, struct nigh_comm *comm, int to, const void *send, int from,
                      void *recv, uint64_t bytes, int tag)
{
    struct nigh_operation *in, *out;
    uint64_t got;
    int rc = nigh_control_irecv(call, comm, from, tag, recv, bytes, &in), sent;

    if (rc)
        return rc;
    rc = nigh_control_isend(call, comm, to, tag, send, bytes, &out);
    if (rc) {
        nigh_control_drop(in);
        return rc;
    }
    rc = nigh_control_wait(call, in, &got);
    if (!rc && got != bytes)
        rc = nigh_fail(call, -EPROTO,
                       "rank %d of %s sent %llu bytes where %llu were expected: it is in another call", from,
                       nigh_comm_text(comm).text, (unsigned long long)got, (unsigned long long)bytes);
    sent = nigh_control_wait(call, out, NULL);
    return rc ? rc : sent;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/collective_run.c - a collective that is waited for, one that is a request, and one that is started again and again. */
#include "lib/collective.h"
#include "lib/error.h"
#include "lib/post.h"
#include "lib/wait.h"

#include <errno.h>
#include <stdlib.h>

/* Whoever has found a deadlock has said it. One that comes to its end together with a time-out has ended. */
static int give_up(struct nigh_call call, struct nigh_operation *operation, int error)
{
    struct nigh_sentence missing = nigh_coll_missing_text(operation);
    char ranks[64];

    (void)nigh_coll_waited_for(operation, ranks, sizeof(ranks));
    nigh_coll_give_up(operation, error);
    if (!operation->error)
        return 0;
    if (error != -ETIMEDOUT)
        return error;
    return nigh_fail(call, error, "timed out after %.3g s in %s: %s %s not come; %s",
                     (double)operation->comm->timeout_ns / 1e9, nigh_comm_text(operation->comm).text, ranks,
                     ranks[4] == ' ' ? "has" : "have", missing.text);
}

static int finish(struct nigh_call call, struct nigh_operation *operation)
{
    int rc = nigh_wait_one(call, operation, operation->comm->timeout_ns);

    if (nigh_unlikely(rc != 0))
        return give_up(call, operation, rc);
    return nigh_likely(!operation->error) ? 0 : nigh_coll_failed(call, operation);
}

int nigh_coll_run(struct nigh_call call, struct nigh_comm *comm, const struct nigh_collective *what)
{
    struct nigh_coll_call it = {.what = *what, .name = call.name};
    struct nigh_operation *operation = nigh_coll_operation(call, comm, &it, NIGH_OP_INTERNAL);
    int rc;

    if (!operation)
        return -ENOMEM;
    rc = nigh_coll_start(call, &it);
    if (!rc)
        rc = finish(call, operation);
    nigh_operation_give(operation);
    return rc;
}

/* ---- requests ---- */

void nigh_coll_release(struct nigh_operation *operation)
{
    free(operation->owner);
    operation->owner = NULL;
}

int nigh_coll_restart(struct nigh_call call, struct nigh_operation *operation)
{
    return nigh_coll_start(call, operation->owner);
}

int nigh_coll_request(struct nigh_call call, struct nigh_comm *comm, const struct nigh_collective *what,
                      bool persistent, nigh_request *request)
{
    struct nigh_coll_call *it = calloc(1, sizeof(*it));
    struct nigh_operation *operation;
    int rc = 0;

    if (!it)
        return nigh_fail(call, -ENOMEM, "no memory for a request");
    it->what = *what;
    it->name = call.name;
    operation = nigh_coll_operation(call, comm, it, persistent ? NIGH_OP_PERSISTENT : 0);
    if (!operation) {
        free(it);
        return -ENOMEM;
    }
    if (!persistent)
        rc = nigh_coll_start(call, it);
    if (rc) {
        nigh_coll_release(operation);
        nigh_operation_give(operation);
        return rc;
    }
    request->id = nigh_operation_handle(operation);
    return 0;
}

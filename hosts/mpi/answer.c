/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/answer.c - see answer.h. Whether a call is answered is decided by facts that are the same in all ranks: its kind, its
 * communicator, and of reductions type and operation. What only one rank knows never decides: other types are packed. A call
 * with arguments that MPI refuses at that rank fails there in any case.
 */
#include "hosts/mpi/answer.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/operation.h"
#include "hosts/mpi/progress.h"
#include "hosts/mpi/request.h"
#include "hosts/mpi/wrong.h"

#include <errno.h>

int nigh_mpi_error_of(int rc)
{
    if (rc >= 0)
        return rc;
    switch (rc) {
    case -EMSGSIZE:
        return NIGH_MPI_ERR_TRUNCATE;
    case -EOVERFLOW:
        return NIGH_MPI_ERR_COUNT;
    case -EIO:
        return NIGH_MPI_ERR_INTERN;
    default:
        return NIGH_MPI_ERR_OTHER;
    }
}

int nigh_mpi_report(int rc, nigh_mpi_comm comm)
{
    if (rc < 0)
        nigh_mpi_calls()->Comm_call_errhandler(comm, nigh_mpi_error_of(rc));
    return nigh_mpi_error_of(rc);
}

static void count(const struct nigh_mpi_operation *operation)
{
    struct nigh_mpi_account *account = &nigh_mpi_session_account;

    account->calls[operation->facts - nigh_mpi_facts]++;
    account->requests += operation->is_request;
    account->packed += operation->memory != NULL;
}

static void count_bytes(const struct nigh_mpi_operation *operation)
{
    nigh_mpi_session_account.bytes +=
        operation->call.count * (operation->facts->reduces ? operation->reduction.width : 1);
}

/* With the lock, which is held again when it returns. */
static void wait_for(const struct nigh_mpi_operation *operation)
{
    uint32_t patience = nigh_mpi_session_patience, empty = 0;

    while (!operation->done) {
        if (nigh_mpi_session_poll() > 0) {
            empty = 0;
            continue;
        }
        if (++empty % patience)
            continue;
        nigh_mpi_session_unlock();
        nigh_mpi_session_idle(patience > 1 || empty % NIGH_MPI_EVERY == 0);
        nigh_mpi_session_lock();
    }
}

static int start(struct nigh_mpi_operation *operation, enum nigh_mpi_kind kind,
                 const struct nigh_mpi_arguments *arguments)
{
    int rc = nigh_mpi_operation_plan(operation, kind, arguments);

    nigh_mpi_session_lock();
    count(operation);
    if (rc) {
        nigh_mpi_operation_give_up(operation, rc);
        return rc;
    }
    count_bytes(operation);
    return nigh_mpi_operation_post(operation);
}

static int run(enum nigh_mpi_kind kind, const struct nigh_mpi_arguments *arguments,
               struct nigh_mpi_group *group, const struct nigh_mpi_reduction *reduction)
{
    uint64_t arrays[NIGH_MPI_ARRAYS * NIGH_GROUP_MAX];
    struct nigh_mpi_operation operation;
    int rc;

    nigh_mpi_operation_init(&operation, group, arguments->comm, arrays);
    if (reduction)
        operation.reduction = *reduction;
    rc = start(&operation, kind, arguments);
    if (!rc) {
        bool calls_mpi = operation.call.reduction == NIGH_FUNCTION;

        group->live++;
        nigh_mpi_session_functions += calls_mpi;
        wait_for(&operation);
        nigh_mpi_session_functions -= calls_mpi;
        nigh_mpi_group_unuse(group);
    }
    nigh_mpi_session_unlock();
    return nigh_mpi_report(nigh_mpi_operation_finish(&operation, rc), arguments->comm);
}

/* No request can be made. */
static int give_up(enum nigh_mpi_kind kind, struct nigh_mpi_group *group, nigh_mpi_comm comm)
{
    struct nigh_mpi_operation none;

    nigh_mpi_operation_init(&none, group, comm, NULL);
    none.facts = &nigh_mpi_facts[kind];
    nigh_mpi_session_lock();
    nigh_mpi_operation_give_up(&none, -ENOMEM);
    nigh_mpi_session_unlock();
    return nigh_mpi_report(-ENOMEM, comm);
}

static int begin(enum nigh_mpi_kind kind, const struct nigh_mpi_arguments *arguments,
                 struct nigh_mpi_group *group, const struct nigh_mpi_reduction *reduction,
                 nigh_mpi_request *request)
{
    struct nigh_mpi_operation *operation = nigh_mpi_request_take(group, arguments->comm);
    int rc;

    if (!operation)
        return give_up(kind, group, arguments->comm);
    if (reduction)
        operation->reduction = *reduction;
    *request = operation->request;
    rc = start(operation, kind, arguments);
    if (!rc)
        nigh_mpi_session_requests++;
    nigh_mpi_session_unlock();
    if (!rc) {
        (void)nigh_mpi_progress_begin();
        return NIGH_MPI_SUCCESS;
    }
    rc = nigh_mpi_report(nigh_mpi_operation_finish(operation, rc), arguments->comm);
    nigh_mpi_request_drop(operation);
    return rc;
}

/* Requests outlive what a program gives, so those of its own operations are the MPI's. */
static bool is_answered(const struct nigh_mpi_reduction *reduction, bool is_request)
{
    return reduction->width && (!is_request || (reduction->own && reduction->nigh_type));
}

bool nigh_mpi_answer(enum nigh_mpi_kind kind, const struct nigh_mpi_arguments *arguments,
                     nigh_mpi_request *request, int *result)
{
    bool reduces = nigh_mpi_facts[kind].reduces;
    struct nigh_mpi_reduction reduction;
    struct nigh_mpi_group *group;

    group = nigh_mpi_group_of(arguments->comm, !request);
    if (!group || nigh_mpi_leaves(kind) || (request && !group->requests))
        return false;
    if (reduces) {
        reduction = nigh_mpi_reduction_of(arguments->recv_type, arguments->op);
        if (!is_answered(&reduction, request != NULL))
            return false;
    }
    if (nigh_mpi_is_wrong(kind, arguments, group))
        return false;
    *result = request ? begin(kind, arguments, group, reduces ? &reduction : NULL, request)
                      : run(kind, arguments, group, reduces ? &reduction : NULL);
    return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/operation.c - see operation.h. */
#include "hosts/mpi/operation.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void nigh_mpi_operation_init(struct nigh_mpi_operation *operation, struct nigh_mpi_group *group,
                             nigh_mpi_comm comm, uint64_t *arrays)
{
    memset(operation, 0, sizeof(*operation));
    operation->group = group;
    operation->comm = comm;
    operation->arrays = arrays;
}

void nigh_mpi_operation_give_up(struct nigh_mpi_operation *operation, int rc)
{
    char text[NIGH_GROUP_TEXT_BYTES];

    snprintf(text, sizeof(text), "%s: rank %d gives up: %s", operation->facts->call, operation->group->me,
             rc < 0 ? strerror(-rc) : "an error of MPI's");
    nigh_mpi_group_give_up(operation->group, rc < 0 ? rc : -EIO, text);
}

/* What nigh says of the end of a group, or why it does not take the call. */
static void failed(struct nigh_mpi_operation *operation, int rc)
{
    struct nigh_query_group facts = {.size = sizeof(facts)};

    (void)nigh_mpi_session_nigh()->query_group(operation->group->nigh, &facts);
    nigh_mpi_log("%s: %s%s%s", operation->facts->call, strerror(-rc), facts.text[0] ? ": " : "", facts.text);
    nigh_mpi_operation_give_up(operation, rc);
}

int nigh_mpi_operation_post(struct nigh_mpi_operation *operation)
{
    int rc;

    if (operation->group->broken)
        return -ECONNRESET;
    operation->call.context = (uintptr_t)operation;
    rc = nigh_mpi_session_nigh()->post_collective(operation->group->nigh, &operation->call);
    if (rc)
        failed(operation, rc);
    return rc;
}

void nigh_mpi_operation_completed(struct nigh_mpi_operation *operation, int status)
{
    operation->status = status;
    if (status)
        failed(operation, status);
    operation->done = true;
}

int nigh_mpi_operation_finish(struct nigh_mpi_operation *operation, int rc)
{
    if (!rc)
        rc = operation->status;
    if (!rc)
        rc = operation->reduce_error;
    if (!rc && operation->unpacks)
        rc = nigh_mpi_vector_unpack(&operation->out, operation->call.recv, operation->except,
                                    operation->is_request ? NIGH_MPI_COMM_SELF : operation->comm);
    if (operation->holds_type)
        (void)nigh_mpi_calls()->Type_free(&operation->out.type);
    nigh_mpi_elements_free(&operation->elements);
    if (operation->memory)
        nigh_mpi_memory_release(operation->memory);
    return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/request.c - see request.h. MPI calls query(), when the program hears that a request is complete, and release(), when the
 * request goes: with locks of its own, so that neither waits for the session's. */
#include "hosts/mpi/request.h"
#include "hosts/mpi/answer.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/progress.h"

#include <pthread.h>
#include <stdlib.h>

static _Atomic(struct nigh_mpi_operation *) released;
static pthread_mutex_t released_lock = PTHREAD_MUTEX_INITIALIZER; /* whoever has it waits for nothing */

/* ---- what MPI calls ------------------------------------------------------------------------------------ */

static int query(void *state, void *status)
{
    struct nigh_mpi_operation *operation = state;

    if (!operation->finished) {
        int rc = nigh_mpi_operation_finish(operation, 0);

        operation->finished = true;
        /* Of a communicator that is freed nobody knows the handler. */
        operation->error =
            operation->group->freed ? nigh_mpi_error_of(rc) : nigh_mpi_report(rc, operation->comm);
    }
    nigh_mpi_calls()->Status_set_elements(status, NIGH_MPI_BYTE, 0);
    nigh_mpi_calls()->Status_set_cancelled(status, 0);
    return operation->error;
}

static int release(void *state)
{
    struct nigh_mpi_operation *operation = state;

    pthread_mutex_lock(&released_lock);
    operation->next = released;
    released = operation;
    pthread_mutex_unlock(&released_lock);
    return NIGH_MPI_SUCCESS;
}

/* What has begun ends: the other ranks have begun it, too. */
static int cancel(void *state, int complete)
{
    (void)state;
    (void)complete;
    return NIGH_MPI_SUCCESS;
}

bool nigh_mpi_request_complete(void *state)
{
    struct nigh_mpi_operation *operation = state;

    if (!operation->done)
        return false;
    if (operation->told++ == 0)
        nigh_mpi_calls()->Grequest_complete(operation->request);
    return true;
}

/* ---- operations ---------------------------------------------------------------------------------------- */

void nigh_mpi_request_clean(void)
{
    struct nigh_mpi_operation *operation, *next;

    if (!released)
        return;
    pthread_mutex_lock(&released_lock);
    operation = released;
    released = NULL;
    pthread_mutex_unlock(&released_lock);
    for (; operation; operation = next) {
        struct nigh_mpi_group *group = operation->group;

        next = operation->next;
        operation->next = group->spare;
        group->spare = operation;
        nigh_mpi_group_unuse(group);
    }
}

static struct nigh_mpi_operation *make(struct nigh_mpi_group *group)
{
    size_t arrays = NIGH_MPI_ARRAYS * (size_t)group->ranks * sizeof(uint64_t);
    struct nigh_mpi_operation *operation = malloc(sizeof(*operation) + arrays);

    if (operation)
        operation->arrays = (uint64_t *)(operation + 1);
    return operation;
}

static struct nigh_mpi_operation *take(struct nigh_mpi_group *group)
{
    struct nigh_mpi_operation *operation;

    nigh_mpi_session_lock();
    nigh_mpi_request_clean();
    operation = group->spare;
    if (operation)
        group->spare = operation->next;
    else
        operation = make(group);
    group->live += operation != NULL;
    nigh_mpi_session_unlock();
    return operation;
}

struct nigh_mpi_operation *nigh_mpi_request_take(struct nigh_mpi_group *group, nigh_mpi_comm comm)
{
    struct nigh_mpi_operation *operation;

    if (!nigh_mpi_progress_begin() || !(operation = take(group)))
        return NULL;
    nigh_mpi_operation_init(operation, group, comm, operation->arrays);
    operation->is_request = true;
    if (!nigh_mpi_progress_request(query, release, cancel, operation, &operation->request))
        return operation;
    (void)release(operation);
    return NULL;
}

void nigh_mpi_request_drop(struct nigh_mpi_operation *operation)
{
    nigh_mpi_request request = operation->request;

    operation->finished = true;
    operation->told = 1;
    nigh_mpi_calls()->Grequest_complete(request);
    nigh_mpi_calls()->Wait(&request, NIGH_MPI_STATUS_IGNORE);
}

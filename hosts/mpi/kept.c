/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/kept.c - see kept.h. */
#include "hosts/mpi/kept.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/progress.h"
#include "hosts/mpi/request.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct nigh_mpi_kept {
    struct nigh_mpi_operation operation; /* of the program's request; first, as it is that one's state */
    struct nigh_mpi_kept *next;
    nigh_mpi_request inner;
    int *memory;
};

/* Under way. Who has the lock tests them, and is not waited for: the MPI may call us while it is tested. */
static _Atomic(struct nigh_mpi_kept *) first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- what MPI calls ------------------------------------------------------------------------------------ */

static int query(void *state, void *status)
{
    const struct nigh_mpi_kept *kept = state;

    nigh_mpi_calls()->Status_set_elements(status, NIGH_MPI_BYTE, 0);
    nigh_mpi_calls()->Status_set_cancelled(status, 0);
    return kept->operation.error;
}

static int release(void *state)
{
    struct nigh_mpi_kept *kept = state;

    free(kept->memory);
    free(kept);
    return NIGH_MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state;
    (void)complete;
    return NIGH_MPI_SUCCESS;
}

/* ---- begin ----------------------------------------------------------------------------------------------- */

int nigh_mpi_kept_new(const char *call, int *memory, struct nigh_mpi_kept **out)
{
    struct nigh_mpi_kept *kept = calloc(1, sizeof(*kept));

    if (kept && nigh_mpi_progress_without_nigh() &&
        !nigh_mpi_progress_request(query, release, cancel, kept, &kept->operation.request)) {
        kept->memory = memory;
        *out = kept;
        return 0;
    }
    free(kept);
    nigh_mpi_log("%s: no request for a call with large counts, which this MPI has not", call);
    return -ENOMEM;
}

static void add(struct nigh_mpi_kept *kept)
{
    pthread_mutex_lock(&lock);
    kept->next = first;
    first = kept;
    pthread_mutex_unlock(&lock);
}

int nigh_mpi_kept_begin(struct nigh_mpi_kept *kept, int result, nigh_mpi_request inner,
                        nigh_mpi_request *request)
{
    if (result) {
        nigh_mpi_request_drop(&kept->operation);
        return result;
    }
    *request = kept->operation.request;
    kept->inner = inner;
    add(kept);
    return NIGH_MPI_SUCCESS;
}

/* ---- progress -------------------------------------------------------------------------------------------- */

/* The MPI looks at its array no more. An error was reported by the MPI's own handler. */
static bool is_over(struct nigh_mpi_kept *kept)
{
    int over = 0, error = nigh_mpi_calls()->Test(&kept->inner, &over, NIGH_MPI_STATUS_IGNORE);

    if (!over && !error)
        return false;
    kept->operation.error = error;
    return true;
}

/* Takes out of the list those that are over. */
static struct nigh_mpi_kept *take(void)
{
    struct nigh_mpi_kept *over = NULL, *left = NULL, *next;

    for (struct nigh_mpi_kept *kept = first; kept; kept = next) {
        struct nigh_mpi_kept **to = is_over(kept) ? &over : &left;

        next = kept->next;
        kept->next = *to;
        *to = kept;
    }
    first = left;
    return over;
}

bool nigh_mpi_kept_move(void)
{
    struct nigh_mpi_kept *over, *next;
    bool any;

    if (!first || pthread_mutex_trylock(&lock))
        return false;
    over = take();
    pthread_mutex_unlock(&lock);
    any = over != NULL;
    for (; over; over = next) {
        next = over->next;
        over->operation.done = true; /* it may be gone behind that */
        nigh_mpi_progress_complete(&over->operation);
    }
    return any;
}

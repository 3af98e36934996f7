/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/session.c - see session.h. */
#include "hosts/mpi/session.h"
#include "hosts/load.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/operation.h"
#include "hosts/mpi/progress.h"
#include "hosts/mpi/request.h"
#include "hosts/mpi/self.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BATCH     32u
#define PEERS_MAX 4096u

bool nigh_mpi_session_alone;
_Atomic(struct nigh_mpi_operation *) nigh_mpi_session_finished;
_Atomic int nigh_mpi_session_requests;
int nigh_mpi_session_functions;
_Atomic uint32_t nigh_mpi_session_patience = 256;
struct nigh_mpi_account nigh_mpi_session_account;

/* An endpoint to another process, or to this one: the same for all communicators. */
struct peer {
    struct peer *next;
    struct nigh_endpoint *endpoint;
};

static struct {
    pthread_mutex_t lock, testing;
    const struct nigh_ops *nigh;
    struct nigh_context *context;
    nigh_mpi_request never; /* a request that does not end: to test it is to let MPI go on */
    int rank;
    struct peer *peers;
} session = {.lock = PTHREAD_MUTEX_INITIALIZER, .testing = PTHREAD_MUTEX_INITIALIZER};

static int never_query(void *state, void *status)
{
    (void)state;
    (void)status;
    return NIGH_MPI_SUCCESS;
}

static int never_free(void *state)
{
    (void)state;
    return NIGH_MPI_SUCCESS;
}

static int never_cancel(void *state, int complete)
{
    (void)state;
    (void)complete;
    return NIGH_MPI_SUCCESS;
}

/* Tried once: a plugin that is missing stays so. */
static bool has_plugin(void)
{
    static bool tried;
    char why[PATH_MAX + 256];

    if (!session.nigh && !tried) {
        tried = true;
        session.nigh = nigh_host_load(why, sizeof(why));
        if (!session.nigh)
            nigh_mpi_log("collectives stay MPI's own: %s", why);
    }
    return session.nigh != NULL;
}

static int open_context(int rank, int ranks)
{
    struct nigh_open options = {.size = sizeof(options), .log = nigh_mpi_log_nigh};
    int rc;

    /* Peers connect by address, so the job is nobody else's. */
    while (!options.job)
        if (getrandom(&options.job, sizeof(options.job), 0) < 0)
            return -errno;
    session.rank = rank;
    options.rank = (uint32_t)rank;
    options.ranks = (uint32_t)ranks;
    options.peers_max = PEERS_MAX; /* of all communicators, of which this is the first */
    rc = session.nigh->open(&options, &session.context);
    if (rc)
        nigh_mpi_log("collectives stay MPI's own: nigh's open fails: %s", strerror(-rc));
    return rc;
}

static int open_all(int rank, int ranks)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    int rc = has_plugin() ? open_context(rank, ranks) : -ENOENT, level = NIGH_MPI_THREAD_MULTIPLE;

    if (rc)
        return rc;
    if (nigh_mpi_self_open())
        goto close;
    if (mpi->Grequest_start(never_query, never_free, never_cancel, NULL, &session.never))
        goto leave_self;
    (void)mpi->Query_thread(&level);
    nigh_mpi_session_alone = level != NIGH_MPI_THREAD_MULTIPLE;
    return 0;

leave_self:
    nigh_mpi_self_close();
close:
    session.nigh->close(session.context);
    session.context = NULL;
    nigh_mpi_log("collectives stay MPI's own: the MPI gives no communicator or request");
    return -EIO;
}

int nigh_mpi_session_open(int rank, int ranks)
{
    int rc = 0;

    pthread_mutex_lock(&session.lock);
    if (!session.context)
        rc = open_all(rank, ranks);
    pthread_mutex_unlock(&session.lock);
    return rc;
}

const struct nigh_ops *nigh_mpi_session_nigh(void)
{
    return session.nigh;
}

struct nigh_context *nigh_mpi_session_context(void)
{
    return session.context;
}

bool nigh_mpi_session_is_open(void)
{
    return session.context != NULL;
}

/* ---- the lock ------------------------------------------------------------------------------------------ */

void nigh_mpi_session_lock_always(void)
{
    pthread_mutex_lock(&session.lock);
}

bool nigh_mpi_session_try(void)
{
    return nigh_mpi_session_alone || pthread_mutex_trylock(&session.lock) == 0;
}

/* A request that is complete may be gone: another thread waits for it. */
void nigh_mpi_session_unlock_always(void)
{
    struct nigh_mpi_operation *finished = nigh_mpi_session_finished, *next;

    if (finished)
        nigh_mpi_session_finished = NULL;
    if (!nigh_mpi_session_alone)
        pthread_mutex_unlock(&session.lock);
    for (; finished; finished = next) {
        next = finished->next;
        (void)nigh_mpi_request_complete(finished);
    }
}

void nigh_mpi_session_share(void)
{
    nigh_mpi_session_alone = false;
}

/* ---- peers --------------------------------------------------------------------------------------------- */

static bool is_known(const struct nigh_endpoint *endpoint)
{
    const struct peer *peer = session.peers;

    while (peer && peer->endpoint != endpoint)
        peer = peer->next;
    return peer != NULL;
}

/* One that is known stays connected once. */
int nigh_mpi_session_connect(const struct nigh_address *address, struct nigh_endpoint **out)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = NIGH_RANK_NONE, .address = address};
    struct peer *peer;
    int rc;

    rc = session.nigh->connect(session.context, &to, out);
    if (rc)
        return rc;
    if (is_known(*out)) {
        (void)session.nigh->disconnect(*out);
        return 0;
    }
    peer = malloc(sizeof(*peer));
    if (!peer)
        return -ENOMEM;
    *peer = (struct peer){.next = session.peers, .endpoint = *out};
    session.peers = peer;
    return 0;
}

/* Contexts of calls are operations. */
static void file(const struct nigh_completion *done)
{
    struct nigh_mpi_operation *operation = (void *)(uintptr_t)done->context;

    if (done->op != NIGH_OP_COLLECTIVE)
        return;
    nigh_mpi_operation_completed(operation, done->status);
    if (!operation->is_request)
        return;
    nigh_mpi_session_requests--;
    nigh_mpi_progress_done(operation);
}

int nigh_mpi_session_poll(void)
{
    struct nigh_completion done[BATCH];
    int count = session.context ? session.nigh->poll_completions(session.context, done, BATCH) : 0;

    for (int i = 0; i < count; i++)
        file(&done[i]);
    nigh_mpi_group_clean();
    return count;
}

void nigh_mpi_session_idle(bool mpi)
{
    int flag;

    /* One request is tested by one thread at a time. */
    if (mpi && session.context && pthread_mutex_trylock(&session.testing) == 0) {
        nigh_mpi_calls()->Test(&session.never, &flag, NIGH_MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&session.testing);
    }
    sched_yield();
}

void nigh_mpi_session_close(void)
{
    if (!session.context)
        return;
    nigh_mpi_progress_end();
    nigh_mpi_account_write(&nigh_mpi_session_account, session.rank);
    session.nigh->close(session.context);
    session.context = NULL;
    nigh_mpi_calls()->Grequest_complete(session.never);
    nigh_mpi_calls()->Wait(&session.never, NIGH_MPI_STATUS_IGNORE);
    nigh_mpi_self_close();
}

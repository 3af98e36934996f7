/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/answer.c - see answer.h. */
#include "hosts/mpi/answer.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Open MPI's own longer ones were faster over nigh's messages. docs/rationale/crowd-collectives.md. */
#ifdef NIGH_MPI_OPENMPI
#define ALLTOALL_TO NIGH_MPI_SHORT_BYTES
#else
#define ALLTOALL_TO 65536
#endif

/* Other lengths are the MPI's yet. docs/rationale/crowd-collectives.md. */
struct nigh_mpi_limits nigh_mpi_limits = {.reduce_from = 32768,
                                          .bcast_from = 1572864,
                                          .gather_to = 65536,
                                          .allgather_from = 2048,
                                          .alltoall_to = ALLTOALL_TO};

static void read_limit(const char *variable, uint64_t *limit)
{
    const char *text = getenv(variable);
    uint64_t bytes;
    char *end;

    if (!text || !*text)
        return;
    errno = 0;
    bytes = strtoull(text, &end, 10);
    if (errno || *end || *text < '0' || *text > '9')
        nigh_mpi_log("%s=%s is no number of bytes, so it stays at %llu; 0 leaves all to MPI", variable, text,
                     (unsigned long long)*limit);
    else
        *limit = bytes;
}

/* Before the program has threads, and can change its environment. */
__attribute__((constructor)) static void read_limits(void)
{
    read_limit("NIGH_MPI_REDUCE_FROM", &nigh_mpi_limits.reduce_from);
    read_limit("NIGH_MPI_BCAST_FROM", &nigh_mpi_limits.bcast_from);
    read_limit("NIGH_MPI_GATHER_TO", &nigh_mpi_limits.gather_to);
    read_limit("NIGH_MPI_ALLGATHER_FROM", &nigh_mpi_limits.allgather_from);
    read_limit("NIGH_MPI_ALLTOALL_TO", &nigh_mpi_limits.alltoall_to);
}

int nigh_mpi_answer(int rc, nigh_mpi_comm comm)
{
    int error = rc == -EMSGSIZE ? NIGH_MPI_ERR_TRUNCATE
                : rc == -EIO    ? NIGH_MPI_ERR_INTERN
                                : NIGH_MPI_ERR_OTHER;

    if (!rc)
        return NIGH_MPI_SUCCESS;
    nigh_mpi_calls()->Comm_call_errhandler(comm, error);
    return error;
}

int nigh_mpi_answer_give_up(struct nigh_mpi_group *group, int rc)
{
    nigh_mpi_session_lock();
    nigh_mpi_group_give_up(group);
    nigh_mpi_session_unlock();
    return rc;
}

bool nigh_mpi_answer_packs(const struct nigh_mpi_vector *vector)
{
    bool packs;

    nigh_mpi_session_lock();
    packs = nigh_mpi_vector_needs_packing(vector);
    nigh_mpi_session_unlock();
    return packs;
}

void nigh_mpi_answer_count_packed(void)
{
    nigh_mpi_session_lock();
    nigh_mpi_session_account.packed++;
    nigh_mpi_session_unlock();
}

/*
 * The longest that was released is kept, up to so much: malloc() has the kernel map large memory for each call anew,
 * page by page, which takes longer than to pack. How long it is stands before it. With the session's lock.
 */
#define KEPT_MAX (32u << 20)
#define HEAD     64u
static char *kept;

static uint64_t length_of(const char *memory)
{
    uint64_t bytes = 0;

    if (memory)
        memcpy(&bytes, memory - HEAD, sizeof(bytes));
    return bytes;
}

static char *take_kept(uint64_t bytes)
{
    char *memory = NULL;

    nigh_mpi_session_lock();
    if (length_of(kept) >= bytes) {
        memory = kept;
        kept = NULL;
    }
    nigh_mpi_session_unlock();
    return memory;
}

static char *make(uint64_t bytes)
{
    char *memory = malloc(HEAD + bytes);

    if (!memory)
        return NULL;
    memcpy(memory, &bytes, sizeof(bytes));
    return memory + HEAD;
}

void *nigh_mpi_answer_memory(const char *what, uint64_t bytes)
{
    char *memory = take_kept(bytes);

    if (!memory)
        memory = make(bytes);
    if (!memory)
        nigh_mpi_log("%s: no memory for %llu bytes to pack", what, (unsigned long long)bytes);
    return memory;
}

void nigh_mpi_answer_release(void *memory)
{
    uint64_t bytes = length_of(memory);
    char *other = memory;

    nigh_mpi_session_lock();
    if (bytes <= KEPT_MAX && bytes > length_of(kept)) {
        other = kept;
        kept = memory;
    }
    nigh_mpi_session_unlock();
    if (other)
        free(other - HEAD);
}

/* What is reduced is moved as bytes: an operation of the program's own wants elements as they lie, not as they are sent. */
static int run_packed(struct nigh_mpi_run *run, const struct nigh_mpi_vector *vector, const void *in,
                      void *out, nigh_mpi_type type, nigh_mpi_comm comm)
{
    const struct nigh_mpi_vector bytes = {.count = vector->bytes, .bytes = vector->bytes, .width = 1};
    const struct nigh_mpi_vector *moved = run->call.reduction ? &bytes : vector;
    nigh_mpi_type as = run->call.reduction ? NIGH_MPI_BYTE : type;
    void *memory = nigh_mpi_answer_memory(run->what, vector->bytes);
    int rc = memory ? 0 : -ENOMEM;

    nigh_mpi_answer_count_packed();
    if (!rc && run->gives)
        rc = nigh_mpi_vector_pack(moved, in, as, memory, comm);
    run->call.send = run->call.recv = memory;
    if (run->gives)
        run->call.flags |= NIGH_COLLECTIVE_IN_PLACE;
    rc = rc ? nigh_mpi_answer_give_up(run->group, rc) : nigh_mpi_run(run);
    if (!rc && run->keeps)
        rc = nigh_mpi_vector_unpack(moved, memory, out, as, comm);
    nigh_mpi_answer_release(memory);
    return rc;
}

int nigh_mpi_answer_run(struct nigh_mpi_run *run, const struct nigh_mpi_vector *vector, const void *in,
                        void *out, nigh_mpi_type type, nigh_mpi_comm comm)
{
    if (nigh_mpi_answer_packs(vector))
        return nigh_mpi_answer(run_packed(run, vector, in, out, type, comm), comm);
    run->call.send = run->gives ? in : NULL;
    run->call.recv = run->keeps ? out : NULL;
    if (run->gives && run->keeps && in == out)
        run->call.flags |= NIGH_COLLECTIVE_IN_PLACE;
    return nigh_mpi_answer(nigh_mpi_run(run), comm);
}

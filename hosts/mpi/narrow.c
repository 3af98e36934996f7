/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/narrow.c - see narrow.h. What a call does not read at this rank may be anything. */
#include "hosts/mpi/narrow.h"
#include "hosts/mpi/answer.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/kept.h"
#include "hosts/mpi/log.h"
#include "nigh/transport.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* What a call reads at this rank. */
struct reads {
    bool send, recv; /* counts of what is sent; of what is kept, or reduced */
    int ranks;       /* of each array */
};

static void find_roles(const struct nigh_mpi_facts *facts, const struct nigh_mpi_arguments *arguments,
                       bool is_inter, int me, struct reads *reads)
{
    bool is_root = arguments->root == (is_inter ? NIGH_MPI_ROOT : me);
    bool is_idle = is_inter && facts->rooted && arguments->root < 0 && !is_root;

    reads->send =
        !is_idle && !facts->reduces && facts->op != NIGH_BROADCAST && arguments->send != NIGH_MPI_IN_PLACE;
    /* What the buffer is of a reduction's result, which only its root has, says nothing. */
    reads->recv = !is_idle && (facts->reduces || arguments->recv != NIGH_MPI_IN_PLACE);
    if (facts->op == NIGH_GATHER) {
        reads->send = reads->send && !(is_inter && is_root);
        reads->recv = reads->recv && is_root;
    }
    if (facts->op == NIGH_SCATTER) {
        reads->send = reads->send && is_root;
        reads->recv = reads->recv && !(is_inter && is_root);
    }
}

/* Of a communicator that the MPI does not know it reads nothing: the MPI says so. */
static struct reads find(const struct nigh_mpi_facts *facts, const struct nigh_mpi_arguments *arguments)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    struct reads reads = {.ranks = 0};
    int is_inter, me;

    if (arguments->comm == NIGH_MPI_COMM_NULL || mpi->Comm_test_inter(arguments->comm, &is_inter) ||
        mpi->Comm_rank(arguments->comm, &me) ||
        (is_inter && !facts->reduces ? mpi->Comm_remote_size(arguments->comm, &reads.ranks)
                                     : mpi->Comm_size(arguments->comm, &reads.ranks)))
        return reads;
    find_roles(facts, arguments, is_inter, me, &reads);
    return reads;
}

static int check(const struct nigh_mpi_facts *facts, int64_t count)
{
    if (count <= INT_MAX && count >= INT_MIN)
        return 0;
    nigh_mpi_log("%s_c with %lld: this MPI has no such call, and %s takes %d at most", facts->call,
                 (long long)count, facts->call, INT_MAX);
    return -EOVERFLOW;
}

/* The next array in `memory`. */
static int narrow_array(const struct nigh_mpi_facts *facts, struct nigh_mpi_array array, int ranks,
                        int **memory, const int **out)
{
    int *to = *memory, rc = 0;

    if (!array.at)
        return 0;
    for (int r = 0; r < ranks && !rc; r++) {
        int64_t value = nigh_mpi_nth(array, r);

        rc = check(facts, value);
        to[r] = (int)value;
    }
    *out = to;
    *memory = to + ranks;
    return rc;
}

static int narrow(const struct nigh_mpi_facts *facts, const struct nigh_mpi_arguments *arguments,
                  const struct reads *reads, struct nigh_mpi_narrow *out)
{
    int *at = out->memory, rc = 0;

    if (reads->send) {
        rc = check(facts, arguments->sends);
        if (!rc)
            rc = narrow_array(facts, arguments->send_counts, reads->ranks, &at, &out->send_counts);
        if (!rc)
            rc = narrow_array(facts, arguments->send_offsets, reads->ranks, &at, &out->send_offsets);
    }
    if (rc || !reads->recv)
        return rc;
    rc = check(facts, arguments->recvs);
    if (!rc)
        rc = narrow_array(facts, arguments->recv_counts, reads->ranks, &at, &out->recv_counts);
    return rc ? rc : narrow_array(facts, arguments->recv_offsets, reads->ranks, &at, &out->recv_offsets);
}

int nigh_mpi_narrow(enum nigh_mpi_kind kind, const struct nigh_mpi_arguments *arguments,
                    struct nigh_mpi_narrow *out)
{
    const struct nigh_mpi_facts *facts = &nigh_mpi_facts[kind];
    struct reads reads = find(facts, arguments);
    int rc = -ENOMEM;

    *out = (struct nigh_mpi_narrow){.memory = malloc((4 * (size_t)reads.ranks + 1) * sizeof(int))};
    if (out->memory)
        rc = narrow(facts, arguments, &reads, out);
    else
        nigh_mpi_log("%s_c: no memory for the counts of %d ranks", facts->call, reads.ranks);
    return rc ? nigh_mpi_report(rc, arguments->comm) : 0;
}

int nigh_mpi_narrow_request(enum nigh_mpi_kind kind, const struct nigh_mpi_arguments *arguments,
                            struct nigh_mpi_narrow *out)
{
    int rc = nigh_mpi_narrow(kind, arguments, out);

    if (rc)
        goto free_memory;
    if (!out->send_counts && !out->recv_counts)
        goto free_memory;
    rc = nigh_mpi_report(nigh_mpi_kept_new(nigh_mpi_facts[kind].call, out->memory, &out->kept),
                         arguments->comm);
    if (!rc)
        return 0;

free_memory:
    free(out->memory);
    return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/wrong.c - see wrong.h. */
#include "hosts/mpi/wrong.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/self.h"
#include "hosts/mpi/types.h"
#include "nigh/transport.h"

#include <stddef.h>

static bool are_wrong(struct nigh_mpi_array counts, struct nigh_mpi_array offsets, bool has_offsets,
                      int ranks)
{
    if (!counts.at || (has_offsets && !offsets.at))
        return true;
    for (int r = 0; r < ranks; r++)
        if (nigh_mpi_nth(counts, r) < 0)
            return true;
    return false;
}

/* A buffer of addresses has none, but no type of MPI's own. */
static bool is_missing(const void *buffer, int64_t count, nigh_mpi_type type)
{
    return !buffer && count > 0 && nigh_mpi_known_type(type);
}

static bool sends_wrong(const struct nigh_mpi_facts *facts, const struct nigh_mpi_arguments *arguments,
                        int ranks)
{
    if (arguments->send == NIGH_MPI_IN_PLACE)
        return false;
    if (arguments->send_type == NIGH_MPI_DATATYPE_NULL)
        return true;
    if (facts->sends_blocks && arguments->send_counts.at)
        return are_wrong(arguments->send_counts, arguments->send_offsets, true, ranks);
    return arguments->sends < 0 || is_missing(arguments->send, arguments->sends, arguments->send_type);
}

static bool keeps_wrong(const struct nigh_mpi_facts *facts, const struct nigh_mpi_arguments *arguments,
                        int ranks)
{
    if (arguments->recv == NIGH_MPI_IN_PLACE)
        return false;
    if (arguments->recv_type == NIGH_MPI_DATATYPE_NULL)
        return true;
    if (facts->keeps_blocks && arguments->recv_counts.at)
        return are_wrong(arguments->recv_counts, arguments->recv_offsets, true, ranks);
    return arguments->recvs < 0 || is_missing(arguments->recv, arguments->recvs, arguments->recv_type);
}

/* MPICH refuses one buffer for both, if it looks: else that works there, and the root alone would go to the MPI. Over Open MPI it
 * works, as here. */
static bool is_one_buffer(const struct nigh_mpi_arguments *arguments, int64_t count)
{
#ifdef NIGH_MPI_OPENMPI
    (void)arguments;
    (void)count;
    return false;
#else
    return nigh_mpi_self_checks && count > 0 && arguments->send == arguments->recv &&
           arguments->send != NIGH_MPI_IN_PLACE;
#endif
}

static bool is_reduction_wrong(const struct nigh_mpi_facts *facts, const struct nigh_mpi_arguments *arguments,
                               const struct nigh_mpi_group *group, bool is_root)
{
    bool in_place = arguments->send == NIGH_MPI_IN_PLACE, keeps = !facts->rooted || is_root;

    if (arguments->recv_type == NIGH_MPI_DATATYPE_NULL || (in_place && !keeps) ||
        (keeps && arguments->recv == NIGH_MPI_IN_PLACE))
        return true;
    if (facts == &nigh_mpi_facts[NIGH_MPI_REDUCE_SCATTER])
        return are_wrong(arguments->recv_counts, arguments->recv_offsets, false, group->ranks);
    if (arguments->recvs < 0 || (keeps && is_one_buffer(arguments, arguments->recvs)))
        return true;
    if (facts->op == NIGH_EXSCAN && group->me == 0 && !in_place)
        keeps = false;
    return (!in_place && is_missing(arguments->send, arguments->recvs, arguments->recv_type)) ||
           (keeps && is_missing(arguments->recv, arguments->recvs, arguments->recv_type));
}

static bool is_broadcast_wrong(const struct nigh_mpi_facts *facts, const struct nigh_mpi_arguments *arguments)
{
    return arguments->recv == NIGH_MPI_IN_PLACE || keeps_wrong(facts, arguments, 1);
}

/* Which of its arguments count, the root's rank says. */
static bool is_rooted_wrong(const struct nigh_mpi_facts *facts, const struct nigh_mpi_arguments *arguments,
                            int ranks, bool is_root)
{
    bool gathers = facts->op == NIGH_GATHER;

    if (gathers && (is_root ? arguments->recv == NIGH_MPI_IN_PLACE : arguments->send == NIGH_MPI_IN_PLACE))
        return true;
    if (!gathers && (is_root ? arguments->send == NIGH_MPI_IN_PLACE : arguments->recv == NIGH_MPI_IN_PLACE))
        return true;
    if ((gathers || is_root) && sends_wrong(facts, arguments, ranks))
        return true;
    return (!gathers || is_root) && keeps_wrong(facts, arguments, ranks);
}

bool nigh_mpi_is_wrong(enum nigh_mpi_kind kind, const struct nigh_mpi_arguments *arguments,
                       const struct nigh_mpi_group *group)
{
    const struct nigh_mpi_facts *facts = &nigh_mpi_facts[kind];
    bool is_root = facts->rooted && arguments->root == group->me;

    if (kind == NIGH_MPI_BARRIER)
        return false;
    if (facts->rooted && (arguments->root < 0 || arguments->root >= group->ranks))
        return true;
    if (facts->reduces)
        return is_reduction_wrong(facts, arguments, group, is_root);
    if (kind == NIGH_MPI_BCAST)
        return is_broadcast_wrong(facts, arguments);
    if (facts->rooted)
        return is_rooted_wrong(facts, arguments, group->ranks, is_root);
    return arguments->recv == NIGH_MPI_IN_PLACE || sends_wrong(facts, arguments, group->ranks) ||
           keeps_wrong(facts, arguments, group->ranks) ||
           (kind == NIGH_MPI_ALLTOALL && arguments->send_type == arguments->recv_type &&
            arguments->sends == arguments->recvs && is_one_buffer(arguments, arguments->recvs));
}

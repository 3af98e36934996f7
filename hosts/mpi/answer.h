/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/answer.h - what the calls that are answered here have in common: from and up to which lengths, whether MPI
 * packs, and what the program is told. */
#ifndef NIGH_MPI_ANSWER_H
#define NIGH_MPI_ANSWER_H

#include "hosts/mpi/run.h"
#include "hosts/mpi/vector.h"

/* In bytes; 0: never. The same in all ranks. */
struct nigh_mpi_limits {
    uint64_t reduce_from; /* long ones; 0: short ones neither */
    uint64_t bcast_from;
    uint64_t gather_to; /* of each rank, as the next */
    uint64_t allgather_from;
    uint64_t alltoall_to;
};
extern struct nigh_mpi_limits nigh_mpi_limits;

/* What a call returns to the program, when the communicator's error handler has been told: 0 is success, a negative
 * errno one of MPI's errors. */
int nigh_mpi_answer(int rc, nigh_mpi_comm comm);

/* The other ranks are told that this one cannot go on, because of `rc`, which is returned. */
int nigh_mpi_answer_give_up(struct nigh_mpi_group *group, int rc);

/* Must MPI pack what is sent, and unpack what has come? A call in which it does is counted once. */
bool nigh_mpi_answer_packs(const struct nigh_mpi_vector *vector);
void nigh_mpi_answer_count_packed(void);

/* Memory for what is packed, until it is released. NULL: there is none, which is logged. */
void *nigh_mpi_answer_memory(const char *what, uint64_t bytes);
void nigh_mpi_answer_release(void *memory);

/* Runs a call on vectors that all ranks describe alike: `in` is what this rank gives, `out` where its result goes, if it
 * gives and keeps; both may be one, or NULL with a type of addresses. As nigh_mpi_answer(). */
int nigh_mpi_answer_run(struct nigh_mpi_run *run, const struct nigh_mpi_vector *vector, const void *in,
                        void *out, nigh_mpi_type type, nigh_mpi_comm comm);

static inline bool nigh_mpi_has_root(const struct nigh_mpi_group *group, int root)
{
    return group && root >= 0 && root < group->ranks;
}

#endif

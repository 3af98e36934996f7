/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/abi.h against the header of an MPI: it compiles, or the object for that ABI would break its programs. */
#include <mpi.h>
#include <stddef.h>

#ifdef OPEN_MPI
#define NIGH_MPI_OPENMPI
#endif
#include "hosts/mpi/abi.h"

#define SAME(what, ours, theirs) _Static_assert((ours) == (theirs), what)
#define PROTOTYPE(name, arguments) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(PMPI_##name), int arguments), #name);

NIGH_MPI_ANSWERED(PROTOTYPE)
NIGH_MPI_ASKED(PROTOTYPE)
#if MPI_VERSION >= 4
NIGH_MPI_LARGE_CALLS(PROTOTYPE)
#endif

SAME("success", NIGH_MPI_SUCCESS, MPI_SUCCESS);
SAME("threads", NIGH_MPI_THREAD_MULTIPLE, MPI_THREAD_MULTIPLE);
SAME("truncated", NIGH_MPI_ERR_TRUNCATE, MPI_ERR_TRUNCATE);
SAME("other", NIGH_MPI_ERR_OTHER, MPI_ERR_OTHER);
SAME("internal", NIGH_MPI_ERR_INTERN, MPI_ERR_INTERN);

#ifndef OPEN_MPI
SAME("self", NIGH_MPI_COMM_SELF, MPI_COMM_SELF);
SAME("byte", NIGH_MPI_BYTE, MPI_BYTE);
SAME("int", NIGH_MPI_INT, MPI_INT);
SAME("long", NIGH_MPI_LONG, MPI_LONG);
SAME("long long", NIGH_MPI_LONG_LONG, MPI_LONG_LONG);
SAME("float", NIGH_MPI_FLOAT, MPI_FLOAT);
SAME("double", NIGH_MPI_DOUBLE, MPI_DOUBLE);
SAME("max", NIGH_MPI_MAX, MPI_MAX);
SAME("min", NIGH_MPI_MIN, MPI_MIN);
SAME("sum", NIGH_MPI_SUM, MPI_SUM);
SAME("product", NIGH_MPI_PROD, MPI_PROD);
#endif

/* Addresses are no constants for the compiler. */
int main(void)
{
    int wrong = MPI_IN_PLACE != NIGH_MPI_IN_PLACE;

    wrong += (void *)MPI_STATUS_IGNORE != (void *)NIGH_MPI_STATUS_IGNORE;
#ifdef OPEN_MPI
#define HANDLE(name) +1
    wrong += (0 NIGH_MPI_HANDLES(HANDLE)) != 11;
    wrong += MPI_COMM_SELF != (void *)&ompi_mpi_comm_self || MPI_BYTE != (void *)&ompi_mpi_byte;
    wrong += MPI_INT != (void *)&ompi_mpi_int || MPI_LONG != (void *)&ompi_mpi_long;
    wrong += MPI_LONG_LONG != (void *)&ompi_mpi_long_long_int || MPI_FLOAT != (void *)&ompi_mpi_float;
    wrong += MPI_DOUBLE != (void *)&ompi_mpi_double || MPI_MAX != (void *)&ompi_mpi_op_max;
    wrong += MPI_MIN != (void *)&ompi_mpi_op_min || MPI_SUM != (void *)&ompi_mpi_op_sum;
    wrong += MPI_PROD != (void *)&ompi_mpi_op_prod;
#endif
    return wrong;
}

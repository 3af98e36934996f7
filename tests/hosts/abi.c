/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/abi.h against the header of an MPI: it compiles, or the object for that ABI would break its programs. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>

#ifdef OPEN_MPI
#define NIGH_MPI_OPENMPI
#endif
#include "hosts/mpi/abi.h"

#define SAME(what, ours, theirs) _Static_assert((ours) == (theirs), what)
#define PROTOTYPE(name, arguments) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(PMPI_##name), int arguments), #name);

#define PROTOTYPES(name, lower, kind, takes) \
    NIGH_MPI_BLOCKING(PROTOTYPE, name, takes) NIGH_MPI_STARTING(PROTOTYPE, lower, takes)
NIGH_MPI_COLLECTIVES(PROTOTYPES)
NIGH_MPI_ASKED(PROTOTYPE)
#if MPI_VERSION >= 4
#define LARGE_PROTOTYPES(name, lower, kind, takes) NIGH_MPI_LARGE(PROTOTYPE, name, lower, takes)
NIGH_MPI_COUNTED(LARGE_PROTOTYPES)
#endif

SAME("success", NIGH_MPI_SUCCESS, MPI_SUCCESS);
SAME("threads", NIGH_MPI_THREAD_MULTIPLE, MPI_THREAD_MULTIPLE);
SAME("root", NIGH_MPI_ROOT, MPI_ROOT);
SAME("no rank", NIGH_MPI_UNDEFINED, MPI_UNDEFINED);
SAME("no process", NIGH_MPI_PROC_NULL, MPI_PROC_NULL);
SAME("count", NIGH_MPI_ERR_COUNT, MPI_ERR_COUNT);
SAME("truncated", NIGH_MPI_ERR_TRUNCATE, MPI_ERR_TRUNCATE);
SAME("other", NIGH_MPI_ERR_OTHER, MPI_ERR_OTHER);
SAME("internal", NIGH_MPI_ERR_INTERN, MPI_ERR_INTERN);

/* Of Open MPI addresses, which are no constants for the compiler. */
#ifdef OPEN_MPI
static struct {
#define SLOT(name)                   void *name;
#define TYPE_SLOT(name, symbol, ...) void *ompi_mpi_##symbol;
#define OP_SLOT(name, symbol, ...)   void *ompi_mpi_op_##symbol;
    NIGH_MPI_HANDLES(SLOT)
    NIGH_MPI_TYPES(TYPE_SLOT)
    NIGH_MPI_OPS(OP_SLOT)
} there;
#define nigh_mpi_calls() (&there)
#endif

#define SAME_HANDLE(name) wrong += (intptr_t)NIGH_MPI_##name != (intptr_t)MPI_##name;

int main(int argc, char **argv)
{
    int wrong = MPI_IN_PLACE != NIGH_MPI_IN_PLACE, size;
    MPI_Aint low, extent;

    MPI_Init(&argc, &argv);
    wrong += (void *)MPI_STATUS_IGNORE != (void *)NIGH_MPI_STATUS_IGNORE;
    wrong += (void *)MPI_STATUSES_IGNORE != (void *)NIGH_MPI_STATUSES_IGNORE;
    wrong += MPI_COMBINER_NAMED != NIGH_MPI_COMBINER_NAMED;
#ifdef OPEN_MPI
#define FOUND(name)                   there.name = (void *)&name;
#define FOUND_TYPE(name, symbol, ...) FOUND(ompi_mpi_##symbol)
#define FOUND_OP(name, symbol, ...)   FOUND(ompi_mpi_op_##symbol)
    NIGH_MPI_HANDLES(FOUND)
    NIGH_MPI_TYPES(FOUND_TYPE)
    NIGH_MPI_OPS(FOUND_OP)
#endif
    SAME_HANDLE(COMM_NULL)
    SAME_HANDLE(COMM_SELF)
    SAME_HANDLE(COMM_WORLD)
    SAME_HANDLE(DATATYPE_NULL)
    SAME_HANDLE(OP_NULL)
    SAME_HANDLE(ERRORS_RETURN)
    SAME_HANDLE(INT)
    SAME_HANDLE(BYTE)
    SAME_HANDLE(MIN)
    /* Types and operations, and how long their elements are. */
#define SAME_TYPE(name, symbol, code, nigh, width, bytes, of)                     \
    wrong += (intptr_t)NIGH_MPI_TYPE(name, symbol, code) != (intptr_t)MPI_##name; \
    MPI_Type_size(MPI_##name, &size);                                             \
    MPI_Type_get_extent(MPI_##name, &low, &extent);                               \
    wrong += low != 0 || extent != (width) || size != (bytes);
    NIGH_MPI_TYPES(SAME_TYPE)
#define SAME_OP(name, symbol, code, nigh) \
    wrong += (intptr_t)NIGH_MPI_OP(name, symbol, code) != (intptr_t)MPI_##name;
    NIGH_MPI_OPS(SAME_OP)
    if (wrong)
        printf("%d wrong\n", wrong);
    MPI_Finalize();
    return wrong;
}

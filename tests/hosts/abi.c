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

/* Of Open MPI addresses, which are no constants for the compiler. */
/* clang-format off */
#define OF_BOTH(HANDLE)                                                                                   \
    HANDLE(COMM_NULL)                                                                                     \
    HANDLE(COMM_SELF) HANDLE(DATATYPE_NULL) HANDLE(BYTE) HANDLE(CHAR) HANDLE(INT) HANDLE(LONG) HANDLE(LONG_LONG)       \
        HANDLE(UNSIGNED) HANDLE(UNSIGNED_LONG) HANDLE(UNSIGNED_LONG_LONG) HANDLE(INT32_T) HANDLE(INT64_T) \
            HANDLE(UINT32_T) HANDLE(UINT64_T) HANDLE(FLOAT) HANDLE(DOUBLE) HANDLE(OP_NULL) HANDLE(MAX)    \
                HANDLE(MIN) HANDLE(SUM) HANDLE(PROD)
/* clang-format on */
#ifndef OPEN_MPI
#define OF_ALL(HANDLE)  OF_BOTH(HANDLE) HANDLE(INTEGER) HANDLE(REAL) HANDLE(DOUBLE_PRECISION)
#define HANDLE_IS(name) wrong += NIGH_MPI_##name != MPI_##name;
#else
#define OF_ALL(HANDLE)   OF_BOTH(HANDLE)
#define HANDLE_IS(name)  wrong += (void *)NIGH_MPI_##name != (void *)MPI_##name;
static struct {
#define SLOT(name)       void *name;
    NIGH_MPI_HANDLES(SLOT)
} there;
#define nigh_mpi_calls() (&there)
#endif

int main(void)
{
    int wrong = MPI_IN_PLACE != NIGH_MPI_IN_PLACE;

    wrong += (void *)MPI_STATUS_IGNORE != (void *)NIGH_MPI_STATUS_IGNORE;
    wrong += MPI_COMBINER_NAMED != NIGH_MPI_COMBINER_NAMED;
#ifdef OPEN_MPI
#define FOUND(name) there.name = (void *)&name;
    NIGH_MPI_HANDLES(FOUND)
#endif
    OF_ALL(HANDLE_IS)
    return wrong;
}

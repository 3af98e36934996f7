/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/entry.c - the calls of MPI that this object answers in the MPI's place, where it lies before it in a
 * process. All others, and what it cannot judge, it hands on. What it decides by is the same in all ranks of a call, so
 * all do the same.
 */
#include "hosts/mpi/answer.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/log.h"

#include <errno.h>
#include <limits.h>

#define EXPORTED __attribute__((visibility("default")))

/*
 * Handles as they come: an int, or a pointer of the standard's own ABI (libmpi_abi), whose programs are given this
 * object, too, and go on to the MPI as they came. In registers and on the stack an int takes as much, with anything in
 * its upper half.
 */
#ifdef NIGH_MPI_OPENMPI
typedef nigh_mpi_comm comm_arg;
typedef nigh_mpi_type type_arg;
typedef nigh_mpi_op op_arg;
#else
typedef intptr_t comm_arg;
typedef intptr_t type_arg;
typedef intptr_t op_arg;
#endif

/* The MPI's function with handles as they came. */
#define ON(name, ...) (((int (*)(__VA_ARGS__))(void (*)(void))nigh_mpi_calls()->name))

/* What calls of a form pass on, with C for counts; and what they fill in of struct nigh_mpi_arguments. */
/* clang-format off */
#define GIVES_ALONE(C)         comm
#define GIVES_BUFFER(C)        recv, C(recvs), recv_type, root, comm
#define GIVES_REDUCED_TO(C)    send, recv, C(recvs), recv_type, op, root, comm
#define GIVES_REDUCED(C)       send, recv, C(recvs), recv_type, op, comm
#define GIVES_REDUCED_PARTS(C) send, recv, recv_counts, recv_type, op, comm
#define GIVES_ROOTED(C)        send, C(sends), send_type, recv, C(recvs), recv_type, root, comm
#define GIVES_UNROOTED(C)      send, C(sends), send_type, recv, C(recvs), recv_type, comm
#define GIVES_GATHERV(C)       send, sends, send_type, recv, recv_counts, recv_offsets, recv_type, root, comm
#define GIVES_SCATTERV(C)      send, send_counts, send_offsets, send_type, recv, recvs, recv_type, root, comm
#define GIVES_ALLGATHERV(C)    send, sends, send_type, recv, recv_counts, recv_offsets, recv_type, comm
#define GIVES_ALLTOALLV(C)     send, send_counts, send_offsets, send_type, recv, recv_counts, recv_offsets, recv_type, comm

#define TO         .comm = (nigh_mpi_comm)comm
#define ROOT       .root = root
#define SENT       .send = send, .sends = sends, .send_type = (nigh_mpi_type)send_type
#define SENT_PARTS .send = send, .send_counts = send_counts, .send_offsets = send_offsets, .send_type = (nigh_mpi_type)send_type
#define KEPT       .recv = recv, .recvs = recvs, .recv_type = (nigh_mpi_type)recv_type
#define KEPT_PARTS .recv = recv, .recv_counts = recv_counts, .recv_offsets = recv_offsets, .recv_type = (nigh_mpi_type)recv_type
#define OPERATION  .send = send, .op = (nigh_mpi_op)op
#define FILLS_ALONE         TO
#define FILLS_BUFFER        TO, ROOT, KEPT
#define FILLS_REDUCED_TO    TO, ROOT, OPERATION, KEPT
#define FILLS_REDUCED       TO, OPERATION, KEPT
#define FILLS_REDUCED_PARTS TO, OPERATION, .recv = recv, .recv_counts = recv_counts, .recv_type = (nigh_mpi_type)recv_type
#define FILLS_ROOTED        TO, ROOT, SENT, KEPT
#define FILLS_UNROOTED      TO, SENT, KEPT
#define FILLS_GATHERV       TO, ROOT, SENT, KEPT_PARTS
#define FILLS_SCATTERV      TO, ROOT, SENT_PARTS, KEPT
#define FILLS_ALLGATHERV    TO, SENT, KEPT_PARTS
#define FILLS_ALLTOALLV     TO, SENT_PARTS, KEPT_PARTS
/* clang-format on */

#define SAME(count)     count
#define SMALL(count)    (int)(count)
#define TAKES(takes, N) NIGH_MPI_TAKES_##takes(N, type_arg, op_arg, comm_arg)

#define CALLS(name, lower, kind, takes)                                                                \
    EXPORTED int MPI_##name(TAKES(takes, int));                                                        \
    EXPORTED int MPI_I##lower(TAKES(takes, int), nigh_mpi_request *request);                           \
    int MPI_##name(TAKES(takes, int))                                                                  \
    {                                                                                                  \
        const struct nigh_mpi_arguments arguments = {FILLS_##takes};                                   \
        int result;                                                                                    \
                                                                                                       \
        if (!nigh_mpi_calls()->foreign && nigh_mpi_answer(NIGH_MPI_##kind, &arguments, NULL, &result)) \
            return result;                                                                             \
        return ON(name, TAKES(takes, int))(GIVES_##takes(SAME));                                       \
    }                                                                                                  \
    int MPI_I##lower(TAKES(takes, int), nigh_mpi_request *request)                                     \
    {                                                                                                  \
        const struct nigh_mpi_arguments arguments = {FILLS_##takes};                                   \
        int result;                                                                                    \
                                                                                                       \
        if (!nigh_mpi_calls()->foreign && request &&                                                   \
            nigh_mpi_answer(NIGH_MPI_##kind, &arguments, request, &result))                            \
            return result;                                                                             \
        return ON(I##lower, TAKES(takes, int), nigh_mpi_request *)(GIVES_##takes(SAME), request);      \
    }

NIGH_MPI_COLLECTIVES(CALLS)

/* An MPI before 4 has no calls with large counts, but programs that look whether it has find ours. */
static bool is_too_large(const char *name, const struct nigh_mpi_arguments *arguments, int *result)
{
    int64_t most = arguments->recvs > arguments->sends ? arguments->recvs : arguments->sends;

    if (most <= INT_MAX)
        return false;
    nigh_mpi_log("MPI_%s_c of %lld elements: this MPI has no such call, and MPI_%s takes %d at most", name,
                 (long long)most, name, INT_MAX);
    *result = nigh_mpi_report(-EOVERFLOW, arguments->comm);
    return true;
}

#define LARGE_CALL(name, lower, kind, takes)                                                           \
    EXPORTED int MPI_##name##_c(TAKES(takes, nigh_mpi_count));                                         \
    int MPI_##name##_c(TAKES(takes, nigh_mpi_count))                                                   \
    {                                                                                                  \
        const struct nigh_mpi_arguments arguments = {FILLS_##takes};                                   \
        int result;                                                                                    \
                                                                                                       \
        if (!nigh_mpi_calls()->foreign && nigh_mpi_answer(NIGH_MPI_##kind, &arguments, NULL, &result)) \
            return result;                                                                             \
        if (nigh_mpi_calls()->name##_c)                                                                \
            return ON(name##_c, TAKES(takes, nigh_mpi_count))(GIVES_##takes(SAME));                    \
        if (is_too_large(#name, &arguments, &result))                                                  \
            return result;                                                                             \
        return ON(name, TAKES(takes, int))(GIVES_##takes(SMALL));                                      \
    }

NIGH_MPI_COUNTED(LARGE_CALL)

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/entry.c - the calls of MPI that this object answers in the MPI's place, where it lies before it in a
 * process. All others, and what it cannot judge, it hands on. What it decides by is the same in all ranks of a call, so
 * all do the same.
 */
#include "hosts/mpi/answer.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/group.h"
#include "hosts/mpi/kept.h"
#include "hosts/mpi/narrow.h"

#include <stdlib.h>

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

/* What calls of a form pass on, with C for counts and A for arrays; and what they fill in of struct nigh_mpi_arguments. L: counts are
 * large. */
/* clang-format off */
#define GIVES_ALONE(C, A)         comm
#define GIVES_BUFFER(C, A)        recv, C(recvs), recv_type, root, comm
#define GIVES_REDUCED_TO(C, A)    send, recv, C(recvs), recv_type, op, root, comm
#define GIVES_REDUCED(C, A)       send, recv, C(recvs), recv_type, op, comm
#define GIVES_REDUCED_PARTS(C, A) send, recv, A(recv_counts), recv_type, op, comm
#define GIVES_ROOTED(C, A)        send, C(sends), send_type, recv, C(recvs), recv_type, root, comm
#define GIVES_UNROOTED(C, A)      send, C(sends), send_type, recv, C(recvs), recv_type, comm
#define GIVES_GATHERV(C, A)       send, C(sends), send_type, recv, A(recv_counts), A(recv_offsets), recv_type, root, comm
#define GIVES_SCATTERV(C, A)      send, A(send_counts), A(send_offsets), send_type, recv, C(recvs), recv_type, root, comm
#define GIVES_ALLGATHERV(C, A)    send, C(sends), send_type, recv, A(recv_counts), A(recv_offsets), recv_type, comm
#define GIVES_ALLTOALLV(C, A) \
    send, A(send_counts), A(send_offsets), send_type, recv, A(recv_counts), A(recv_offsets), recv_type, comm

#define TO            .comm = (nigh_mpi_comm)comm
#define ROOT          .root = root
#define SENT          .send = send, .sends = sends, .send_type = (nigh_mpi_type)send_type
#define SENT_PARTS(L) .send = send, .send_counts = {send_counts, L}, .send_offsets = {send_offsets, L}, .send_type = (nigh_mpi_type)send_type
#define KEPT          .recv = recv, .recvs = recvs, .recv_type = (nigh_mpi_type)recv_type
#define KEPT_PARTS(L) .recv = recv, .recv_counts = {recv_counts, L}, .recv_offsets = {recv_offsets, L}, .recv_type = (nigh_mpi_type)recv_type
#define OPERATION     .send = send, .op = (nigh_mpi_op)op
#define FILLS_ALONE(L)         TO
#define FILLS_BUFFER(L)        TO, ROOT, KEPT
#define FILLS_REDUCED_TO(L)    TO, ROOT, OPERATION, KEPT
#define FILLS_REDUCED(L)       TO, OPERATION, KEPT
#define FILLS_REDUCED_PARTS(L) TO, OPERATION, .recv = recv, .recv_counts = {recv_counts, L}, .recv_type = (nigh_mpi_type)recv_type
#define FILLS_ROOTED(L)        TO, ROOT, SENT, KEPT
#define FILLS_UNROOTED(L)      TO, SENT, KEPT
#define FILLS_GATHERV(L)       TO, ROOT, SENT, KEPT_PARTS(L)
#define FILLS_SCATTERV(L)      TO, ROOT, SENT_PARTS(L), KEPT
#define FILLS_ALLGATHERV(L)    TO, SENT, KEPT_PARTS(L)
#define FILLS_ALLTOALLV(L)     TO, SENT_PARTS(L), KEPT_PARTS(L)
/* clang-format on */

#define SAME(argument)     argument
#define SMALL(count)       (int)(count)
#define NARROWED(array)    narrow.array
#define TAKES(takes)       NIGH_MPI_TAKES_##takes(int, int, type_arg, op_arg, comm_arg)
#define TAKES_LARGE(takes) NIGH_MPI_TAKES_##takes(nigh_mpi_count, nigh_mpi_aint, type_arg, op_arg, comm_arg)

#define CALLS(name, lower, kind, takes)                                                                \
    EXPORTED int MPI_##name(TAKES(takes));                                                             \
    EXPORTED int MPI_I##lower(TAKES(takes), nigh_mpi_request *request);                                \
    int MPI_##name(TAKES(takes))                                                                       \
    {                                                                                                  \
        const struct nigh_mpi_arguments arguments = {FILLS_##takes(false)};                            \
        int result;                                                                                    \
                                                                                                       \
        if (!nigh_mpi_calls()->foreign && nigh_mpi_answer(NIGH_MPI_##kind, &arguments, NULL, &result)) \
            return result;                                                                             \
        return ON(name, TAKES(takes))(GIVES_##takes(SAME, SAME));                                      \
    }                                                                                                  \
    int MPI_I##lower(TAKES(takes), nigh_mpi_request *request)                                          \
    {                                                                                                  \
        const struct nigh_mpi_arguments arguments = {FILLS_##takes(false)};                            \
        int result;                                                                                    \
                                                                                                       \
        if (!nigh_mpi_calls()->foreign && request &&                                                   \
            nigh_mpi_answer(NIGH_MPI_##kind, &arguments, request, &result))                            \
            return result;                                                                             \
        return ON(I##lower, TAKES(takes), nigh_mpi_request *)(GIVES_##takes(SAME, SAME), request);     \
    }

NIGH_MPI_COLLECTIVES(CALLS)

/* An MPI before 4 has no such calls, but programs that look whether it has find ours. */
#define LARGE_CALLS(name, lower, kind, takes)                                                          \
    EXPORTED int MPI_##name##_c(TAKES_LARGE(takes));                                                   \
    EXPORTED int MPI_I##lower##_c(TAKES_LARGE(takes), nigh_mpi_request *request);                      \
    int MPI_##name##_c(TAKES_LARGE(takes))                                                             \
    {                                                                                                  \
        const struct nigh_mpi_arguments arguments = {FILLS_##takes(true)};                             \
        struct nigh_mpi_narrow narrow;                                                                 \
        int result;                                                                                    \
                                                                                                       \
        if (!nigh_mpi_calls()->foreign && nigh_mpi_answer(NIGH_MPI_##kind, &arguments, NULL, &result)) \
            return result;                                                                             \
        if (nigh_mpi_calls()->name##_c)                                                                \
            return ON(name##_c, TAKES_LARGE(takes))(GIVES_##takes(SAME, SAME));                        \
        result = nigh_mpi_narrow(NIGH_MPI_##kind, &arguments, &narrow);                                \
        if (!result)                                                                                   \
            result = ON(name, TAKES(takes))(GIVES_##takes(SMALL, NARROWED));                           \
        free(narrow.memory);                                                                           \
        return result;                                                                                 \
    }                                                                                                  \
    int MPI_I##lower##_c(TAKES_LARGE(takes), nigh_mpi_request *request)                                \
    {                                                                                                  \
        const struct nigh_mpi_arguments arguments = {FILLS_##takes(true)};                             \
        struct nigh_mpi_narrow narrow;                                                                 \
        nigh_mpi_request inner;                                                                        \
        int result;                                                                                    \
                                                                                                       \
        if (!nigh_mpi_calls()->foreign && request &&                                                   \
            nigh_mpi_answer(NIGH_MPI_##kind, &arguments, request, &result))                            \
            return result;                                                                             \
        if (nigh_mpi_calls()->I##lower##_c)                                                            \
            return ON(I##lower##_c, TAKES_LARGE(takes), nigh_mpi_request *)(GIVES_##takes(SAME, SAME), \
                                                                            request);                  \
        result = nigh_mpi_narrow_request(NIGH_MPI_##kind, &arguments, &narrow);                        \
        if (result)                                                                                    \
            return result;                                                                             \
        result = ON(I##lower, TAKES(takes), nigh_mpi_request *)(GIVES_##takes(SMALL, NARROWED),        \
                                                                narrow.kept ? &inner : request);       \
        return narrow.kept ? nigh_mpi_kept_begin(narrow.kept, result, inner, request) : result;        \
    }

NIGH_MPI_COUNTED(LARGE_CALLS)

/* What the program calls from here on is the MPI's in all ranks. The MPI calls the program's functions for attributes of MPI_COMM_SELF in
 * the order in which this rank has set them: by that alone one rank would answer a call there, and another one not. */
EXPORTED int MPI_Finalize(void);
int MPI_Finalize(void)
{
    nigh_mpi_group_close();
    return nigh_mpi_calls()->Finalize();
}

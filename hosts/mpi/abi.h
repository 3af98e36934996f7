/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/abi.h - what this host needs of an MPI's binary interface, so that it is built without any MPI's headers
 * and serves all that share one: that of MPICH (MPICH, Intel MPI and others since 2014), or with
 * NIGH_MPI_OPENMPI that of Open MPI (4 and 5). tests/hosts/abi.c holds it against their own mpi.h.
 */
#ifndef NIGH_MPI_ABI_H
#define NIGH_MPI_ABI_H

#include <stdint.h>

/* clang-format off */
/*
 * MPI's own types: name, in Open MPI, in MPICH; nigh's type (0: none, it is reduced by the MPI's own function), bytes of it and
 * bytes that are sent of it, and what reduces it.
 */
#define NIGH_MPI_TYPES_OF_C(TYPE) \
    TYPE(CHAR, char, 0x4c000101, 0, 1, 1, MOVED) \
    TYPE(SIGNED_CHAR, signed_char, 0x4c000118, NIGH_I8, 1, 1, INTEGERS) \
    TYPE(UNSIGNED_CHAR, unsigned_char, 0x4c000102, NIGH_U8, 1, 1, INTEGERS) \
    TYPE(BYTE, byte, 0x4c00010d, NIGH_U8, 1, 1, BITS) \
    TYPE(PACKED, packed, 0x4c00010f, 0, 1, 1, MOVED) \
    TYPE(WCHAR, wchar, 0x4c00040e, 0, 4, 4, MOVED) \
    TYPE(SHORT, short, 0x4c000203, NIGH_I16, 2, 2, INTEGERS) \
    TYPE(UNSIGNED_SHORT, unsigned_short, 0x4c000204, NIGH_U16, 2, 2, INTEGERS) \
    TYPE(INT, int, 0x4c000405, NIGH_I32, 4, 4, INTEGERS) \
    TYPE(UNSIGNED, unsigned, 0x4c000406, NIGH_U32, 4, 4, INTEGERS) \
    TYPE(LONG, long, 0x4c000807, NIGH_I64, 8, 8, INTEGERS) \
    TYPE(UNSIGNED_LONG, unsigned_long, 0x4c000808, NIGH_U64, 8, 8, INTEGERS) \
    TYPE(LONG_LONG, long_long_int, 0x4c000809, NIGH_I64, 8, 8, INTEGERS) \
    TYPE(UNSIGNED_LONG_LONG, unsigned_long_long, 0x4c000819, NIGH_U64, 8, 8, INTEGERS) \
    TYPE(INT8_T, int8_t, 0x4c000137, NIGH_I8, 1, 1, INTEGERS) \
    TYPE(INT16_T, int16_t, 0x4c000238, NIGH_I16, 2, 2, INTEGERS) \
    TYPE(INT32_T, int32_t, 0x4c000439, NIGH_I32, 4, 4, INTEGERS) \
    TYPE(INT64_T, int64_t, 0x4c00083a, NIGH_I64, 8, 8, INTEGERS) \
    TYPE(UINT8_T, uint8_t, 0x4c00013b, NIGH_U8, 1, 1, INTEGERS) \
    TYPE(UINT16_T, uint16_t, 0x4c00023c, NIGH_U16, 2, 2, INTEGERS) \
    TYPE(UINT32_T, uint32_t, 0x4c00043d, NIGH_U32, 4, 4, INTEGERS) \
    TYPE(UINT64_T, uint64_t, 0x4c00083e, NIGH_U64, 8, 8, INTEGERS) \
    TYPE(AINT, aint, 0x4c000843, NIGH_I64, 8, 8, INTEGERS) \
    TYPE(OFFSET, offset, 0x4c000844, NIGH_I64, 8, 8, INTEGERS) \
    TYPE(COUNT, count, 0x4c000845, NIGH_I64, 8, 8, INTEGERS) \
    TYPE(FLOAT, float, 0x4c00040a, NIGH_F32, 4, 4, FLOATS) \
    TYPE(DOUBLE, double, 0x4c00080b, NIGH_F64, 8, 8, FLOATS) \
    TYPE(LONG_DOUBLE, long_double, 0x4c00100c, 0, 16, 16, FLOATS) \
    TYPE(C_BOOL, c_bool, 0x4c00013f, NIGH_BOOL, 1, 1, TRUTHS) \
    TYPE(C_FLOAT_COMPLEX, c_float_complex, 0x4c000840, NIGH_CF32, 8, 8, COMPLEX) \
    TYPE(C_DOUBLE_COMPLEX, c_double_complex, 0x4c001041, NIGH_CF64, 16, 16, COMPLEX) \
    TYPE(C_LONG_DOUBLE_COMPLEX, c_long_double_complex, 0x4c002042, 0, 32, 32, COMPLEX) \
    TYPE(SHORT_INT, short_int, 0x8c000003, NIGH_I16_I32, 8, 6, PAIRS) \
    TYPE(2INT, 2int, 0x4c000816, NIGH_I32_I32, 8, 8, PAIRS) \
    TYPE(LONG_INT, long_int, 0x8c000002, NIGH_I64_I32, 16, 12, PAIRS) \
    TYPE(FLOAT_INT, float_int, 0x8c000000, NIGH_F32_I32, 8, 8, PAIRS) \
    TYPE(DOUBLE_INT, double_int, 0x8c000001, NIGH_F64_I32, 16, 12, PAIRS)
#ifdef NIGH_MPI_OPENMPI /* whose Fortran programs do not come by here */
#define NIGH_MPI_TYPES(TYPE) NIGH_MPI_TYPES_OF_C(TYPE)
#else
#define NIGH_MPI_TYPES(TYPE) NIGH_MPI_TYPES_OF_C(TYPE) \
    TYPE(CHARACTER, character, 0x4c00011a, 0, 1, 1, MOVED) \
    TYPE(INTEGER, integer, 0x4c00041b, NIGH_I32, 4, 4, INTEGERS) \
    TYPE(REAL, real, 0x4c00041c, NIGH_F32, 4, 4, FLOATS) \
    TYPE(LOGICAL, logical, 0x4c00041d, 0, 4, 4, MOVED) \
    TYPE(DOUBLE_PRECISION, dblprec, 0x4c00081f, NIGH_F64, 8, 8, FLOATS) \
    TYPE(COMPLEX, cplex, 0x4c00081e, NIGH_CF32, 8, 8, COMPLEX) \
    TYPE(DOUBLE_COMPLEX, dblcplex, 0x4c001022, NIGH_CF64, 16, 16, COMPLEX) \
    TYPE(2INTEGER, 2integer, 0x4c000820, NIGH_I32_I32, 8, 8, PAIRS)
#endif

/* And operations; nigh's, 0: none. */
#define NIGH_MPI_OPS(OP) \
    OP(MAX, max, 0x58000001, NIGH_MAX) \
    OP(MIN, min, 0x58000002, NIGH_MIN) \
    OP(SUM, sum, 0x58000003, NIGH_SUM) \
    OP(PROD, prod, 0x58000004, NIGH_PROD) \
    OP(LAND, land, 0x58000005, NIGH_LAND) \
    OP(BAND, band, 0x58000006, NIGH_BAND) \
    OP(LOR, lor, 0x58000007, NIGH_LOR) \
    OP(BOR, bor, 0x58000008, NIGH_BOR) \
    OP(LXOR, lxor, 0x58000009, NIGH_LXOR) \
    OP(BXOR, bxor, 0x5800000a, NIGH_BXOR) \
    OP(MINLOC, minloc, 0x5800000b, NIGH_MINLOC) \
    OP(MAXLOC, maxloc, 0x5800000c, NIGH_MAXLOC) \
    OP(REPLACE, replace, 0x5800000d, 0) \
    OP(NO_OP, no_op, 0x5800000e, 0)

#ifdef NIGH_MPI_OPENMPI
typedef struct ompi_communicator_t *nigh_mpi_comm;
typedef struct ompi_datatype_t *nigh_mpi_type;
typedef struct ompi_op_t *nigh_mpi_op;
typedef struct ompi_request_t *nigh_mpi_request;
typedef struct ompi_group_t *nigh_mpi_ranks;
typedef struct ompi_errhandler_t *nigh_mpi_errors;
#define NIGH_MPI_IN_PLACE      ((void *)1)
#define NIGH_MPI_STATUS_IGNORE NULL
#define NIGH_MPI_STATUSES_IGNORE NULL
#define NIGH_MPI_ERR_TRUNCATE  15
#define NIGH_MPI_ERR_OTHER     16
#define NIGH_MPI_ERR_INTERN    17
/* Handles are addresses in its library, or in a program that names them. */
#define NIGH_MPI_TYPE(name, symbol, code) ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_##symbol)
#define NIGH_MPI_OP(name, symbol, code)   ((nigh_mpi_op)nigh_mpi_calls()->ompi_mpi_op_##symbol)
#define NIGH_MPI_COMM_NULL     ((nigh_mpi_comm)nigh_mpi_calls()->ompi_mpi_comm_null)
#define NIGH_MPI_COMM_SELF     ((nigh_mpi_comm)nigh_mpi_calls()->ompi_mpi_comm_self)
#define NIGH_MPI_COMM_WORLD    ((nigh_mpi_comm)nigh_mpi_calls()->ompi_mpi_comm_world)
#define NIGH_MPI_DATATYPE_NULL ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_datatype_null)
#define NIGH_MPI_OP_NULL       ((nigh_mpi_op)nigh_mpi_calls()->ompi_mpi_op_null)
#define NIGH_MPI_ERRORS_RETURN ((nigh_mpi_errors)nigh_mpi_calls()->ompi_mpi_errors_return)
#define NIGH_MPI_INT           NIGH_MPI_TYPE(INT, int, 0)
#define NIGH_MPI_BYTE          NIGH_MPI_TYPE(BYTE, byte, 0)
#define NIGH_MPI_MIN           NIGH_MPI_OP(MIN, min, 0)
#define NIGH_MPI_HANDLES(HANDLE) \
    HANDLE(ompi_mpi_op_null) HANDLE(ompi_mpi_comm_null) HANDLE(ompi_mpi_comm_self) HANDLE(ompi_mpi_comm_world) \
    HANDLE(ompi_mpi_datatype_null) HANDLE(ompi_mpi_errors_return)
#define NIGH_MPI_COMBINER_NAMED 0
#define NIGH_MPI_ROOT           (-4)
#define NIGH_MPI_PROC_NULL      (-2)
#else
typedef int nigh_mpi_comm;
typedef int nigh_mpi_type;
typedef int nigh_mpi_op;
typedef int nigh_mpi_request;
typedef int nigh_mpi_ranks;
typedef int nigh_mpi_errors;
#define NIGH_MPI_IN_PLACE      ((void *)-1)
#define NIGH_MPI_STATUS_IGNORE ((void *)1)
#define NIGH_MPI_STATUSES_IGNORE ((void *)1)
#define NIGH_MPI_ERR_TRUNCATE  14
#define NIGH_MPI_ERR_OTHER     15
#define NIGH_MPI_ERR_INTERN    16
#define NIGH_MPI_TYPE(name, symbol, code) ((nigh_mpi_type)(code))
#define NIGH_MPI_OP(name, symbol, code)   ((nigh_mpi_op)(code))
#define NIGH_MPI_COMM_NULL     ((nigh_mpi_comm)0x04000000)
#define NIGH_MPI_COMM_SELF     ((nigh_mpi_comm)0x44000001)
#define NIGH_MPI_COMM_WORLD    ((nigh_mpi_comm)0x44000000)
#define NIGH_MPI_DATATYPE_NULL ((nigh_mpi_type)0x0c000000)
#define NIGH_MPI_OP_NULL       ((nigh_mpi_op)0x18000000)
#define NIGH_MPI_ERRORS_RETURN ((nigh_mpi_errors)0x54000001)
#define NIGH_MPI_INT           ((nigh_mpi_type)0x4c000405)
#define NIGH_MPI_BYTE          ((nigh_mpi_type)0x4c00010d)
#define NIGH_MPI_MIN           ((nigh_mpi_op)0x58000002)
#define NIGH_MPI_COMBINER_NAMED 1
#define NIGH_MPI_ROOT           (-3)
#define NIGH_MPI_PROC_NULL      (-1)
#define NIGH_MPI_HANDLES(HANDLE)
#endif
/* clang-format on */

#define NIGH_MPI_SUCCESS         0
#define NIGH_MPI_ERR_COUNT       2
#define NIGH_MPI_THREAD_MULTIPLE 3
#define NIGH_MPI_UNDEFINED       (-32766)

typedef intptr_t nigh_mpi_aint;
typedef long long nigh_mpi_count;
typedef int (*nigh_mpi_copy_attr)(nigh_mpi_comm, int, void *, void *, void *, int *);
typedef int (*nigh_mpi_delete_attr)(nigh_mpi_comm, int, void *, void *);
/* Of generalized requests: their second argument, a status or a flag, is not looked at. */
typedef int (*nigh_mpi_request_query)(void *, void *);
typedef int (*nigh_mpi_request_free)(void *);
typedef int (*nigh_mpi_request_cancel)(void *, int);
/* Of MPICH's extended ones, too. */
typedef int (*nigh_mpi_request_poll)(void *, void *);
typedef int (*nigh_mpi_request_wait)(int, void **, double, void *);
typedef int (*nigh_mpi_request_start)(nigh_mpi_request_query, nigh_mpi_request_free, nigh_mpi_request_cancel,
                                      nigh_mpi_request_poll, nigh_mpi_request_wait, void *,
                                      nigh_mpi_request *);

/* clang-format off */
/* The calls that are answered here: name, that behind MPI_I, kind, and what they take: the arguments' types, their names, and those of counts. */
#define NIGH_MPI_COLLECTIVES(CALL) \
    CALL(Barrier, barrier, BARRIER, ALONE) \
    NIGH_MPI_COUNTED(CALL)
/* Of which there are calls with large counts, too: with _c behind their names. */
#define NIGH_MPI_COUNTED(CALL) \
    CALL(Bcast, bcast, BCAST, BUFFER) \
    CALL(Reduce, reduce, REDUCE, REDUCED_TO) \
    CALL(Allreduce, allreduce, ALLREDUCE, REDUCED) \
    CALL(Gather, gather, GATHER, ROOTED) \
    CALL(Gatherv, gatherv, GATHERV, GATHERV) \
    CALL(Scatter, scatter, SCATTER, ROOTED) \
    CALL(Scatterv, scatterv, SCATTERV, SCATTERV) \
    CALL(Allgather, allgather, ALLGATHER, UNROOTED) \
    CALL(Allgatherv, allgatherv, ALLGATHERV, ALLGATHERV) \
    CALL(Alltoall, alltoall, ALLTOALL, UNROOTED) \
    CALL(Alltoallv, alltoallv, ALLTOALLV, ALLTOALLV) \
    CALL(Reduce_scatter, reduce_scatter, REDUCE_SCATTER, REDUCED_PARTS) \
    CALL(Reduce_scatter_block, reduce_scatter_block, REDUCE_SCATTER_BLOCK, REDUCED) \
    CALL(Scan, scan, SCAN, REDUCED) \
    CALL(Exscan, exscan, EXSCAN, REDUCED)

/* N: a count, D: an offset in an array, T: a type, O: an operation, C: a communicator. */
#define NIGH_MPI_TAKES_ALONE(N, D, T, O, C)      C comm
#define NIGH_MPI_TAKES_BUFFER(N, D, T, O, C)     void *recv, N recvs, T recv_type, int root, C comm
#define NIGH_MPI_TAKES_REDUCED_TO(N, D, T, O, C) \
    const void *send, void *recv, N recvs, T recv_type, O op, int root, C comm
#define NIGH_MPI_TAKES_REDUCED(N, D, T, O, C)    const void *send, void *recv, N recvs, T recv_type, O op, C comm
#define NIGH_MPI_TAKES_REDUCED_PARTS(N, D, T, O, C) \
    const void *send, void *recv, const N *recv_counts, T recv_type, O op, C comm
#define NIGH_MPI_TAKES_ROOTED(N, D, T, O, C) \
    const void *send, N sends, T send_type, void *recv, N recvs, T recv_type, int root, C comm
#define NIGH_MPI_TAKES_UNROOTED(N, D, T, O, C) \
    const void *send, N sends, T send_type, void *recv, N recvs, T recv_type, C comm
#define NIGH_MPI_TAKES_GATHERV(N, D, T, O, C) \
    const void *send, N sends, T send_type, void *recv, const N *recv_counts, const D *recv_offsets, T recv_type, int root, C comm
#define NIGH_MPI_TAKES_SCATTERV(N, D, T, O, C) \
    const void *send, const N *send_counts, const D *send_offsets, T send_type, void *recv, N recvs, T recv_type, int root, C comm
#define NIGH_MPI_TAKES_ALLGATHERV(N, D, T, O, C) \
    const void *send, N sends, T send_type, void *recv, const N *recv_counts, const D *recv_offsets, T recv_type, C comm
#define NIGH_MPI_TAKES_ALLTOALLV(N, D, T, O, C) \
    const void *send, const N *send_counts, const D *send_offsets, T send_type, void *recv, const N *recv_counts, \
        const D *recv_offsets, T recv_type, C comm

#define NIGH_MPI_TAKES(takes, N, D) NIGH_MPI_TAKES_##takes(N, D, nigh_mpi_type, nigh_mpi_op, nigh_mpi_comm)
#define NIGH_MPI_BLOCKING(CALL, name, takes) CALL(name, (NIGH_MPI_TAKES(takes, int, int)))
#define NIGH_MPI_STARTING(CALL, lower, takes) CALL(I##lower, (NIGH_MPI_TAKES(takes, int, int), nigh_mpi_request *))
#define NIGH_MPI_LARGE(CALL, name, lower, takes) \
    CALL(name##_c, (NIGH_MPI_TAKES(takes, nigh_mpi_count, nigh_mpi_aint))) \
    CALL(I##lower##_c, (NIGH_MPI_TAKES(takes, nigh_mpi_count, nigh_mpi_aint), nigh_mpi_request *))

/* What is called of the MPI that the program is linked with. */
#define NIGH_MPI_ASKED(CALL) \
    CALL(Reduce_local, (const void *, void *, int, nigh_mpi_type, nigh_mpi_op)) \
    CALL(Type_size, (nigh_mpi_type, int *)) \
    CALL(Type_size_x, (nigh_mpi_type, nigh_mpi_count *)) \
    CALL(Type_contiguous, (int, nigh_mpi_type, nigh_mpi_type *)) \
    CALL(Type_create_struct, (int, const int *, const nigh_mpi_aint *, const nigh_mpi_type *, nigh_mpi_type *)) \
    CALL(Type_commit, (nigh_mpi_type *)) \
    CALL(Type_dup, (nigh_mpi_type, nigh_mpi_type *)) \
    CALL(Type_free, (nigh_mpi_type *)) \
    CALL(Type_get_extent, (nigh_mpi_type, nigh_mpi_aint *, nigh_mpi_aint *)) \
    CALL(Type_get_true_extent, (nigh_mpi_type, nigh_mpi_aint *, nigh_mpi_aint *)) \
    CALL(Type_get_envelope, (nigh_mpi_type, int *, int *, int *, int *)) \
    CALL(Pack, (const void *, int, nigh_mpi_type, void *, int, int *, nigh_mpi_comm)) \
    CALL(Unpack, (const void *, int, int *, void *, int, nigh_mpi_type, nigh_mpi_comm)) \
    CALL(Query_thread, (int *)) \
    CALL(Finalize, (void)) \
    CALL(Comm_rank, (nigh_mpi_comm, int *)) \
    CALL(Comm_size, (nigh_mpi_comm, int *)) \
    CALL(Comm_remote_size, (nigh_mpi_comm, int *)) \
    CALL(Comm_test_inter, (nigh_mpi_comm, int *)) \
    CALL(Comm_group, (nigh_mpi_comm, nigh_mpi_ranks *)) \
    CALL(Comm_create_group, (nigh_mpi_comm, nigh_mpi_ranks, int, nigh_mpi_comm *)) \
    CALL(Comm_free, (nigh_mpi_comm *)) \
    CALL(Comm_set_errhandler, (nigh_mpi_comm, nigh_mpi_errors)) \
    CALL(Send, (const void *, int, nigh_mpi_type, int, int, nigh_mpi_comm)) \
    CALL(Group_translate_ranks, (nigh_mpi_ranks, int, const int *, nigh_mpi_ranks, int *)) \
    CALL(Group_free, (nigh_mpi_ranks *)) \
    CALL(Comm_create_keyval, (nigh_mpi_copy_attr, nigh_mpi_delete_attr, int *, void *)) \
    CALL(Comm_set_attr, (nigh_mpi_comm, int, void *)) \
    CALL(Comm_get_attr, (nigh_mpi_comm, int, void *, int *)) \
    CALL(Comm_call_errhandler, (nigh_mpi_comm, int)) \
    CALL(Grequest_complete, (nigh_mpi_request))
/* With statuses, which are not looked at. */
#define NIGH_MPI_BLIND(CALL) \
    CALL(Grequest_start, (nigh_mpi_request_query, nigh_mpi_request_free, nigh_mpi_request_cancel, void *, \
                          nigh_mpi_request *)) \
    CALL(Status_set_elements, (void *, nigh_mpi_type, int)) \
    CALL(Status_set_cancelled, (void *, int)) \
    CALL(Sendrecv, (const void *, int, nigh_mpi_type, int, int, void *, int, nigh_mpi_type, int, int, nigh_mpi_comm, \
                    void *)) \
    CALL(Test, (nigh_mpi_request *, int *, void *)) \
    CALL(Wait, (nigh_mpi_request *, void *)) \
    CALL(Waitall, (int, nigh_mpi_request *, void *))
#define NIGH_MPI_CALLS(CALL) \
    NIGH_MPI_ASKED(CALL) \
    NIGH_MPI_BLIND(CALL)
/* clang-format on */

#endif

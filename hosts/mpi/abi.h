/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/abi.h - what this host needs of an MPI's binary interface, so that it is built without any MPI's headers
 * and serves all that share one: that of MPICH (MPICH, Intel MPI and others since 2014), or with
 * NIGH_MPI_OPENMPI that of Open MPI (4 and 5). tests/hosts/abi.c holds it against their own mpi.h.
 */
#ifndef NIGH_MPI_ABI_H
#define NIGH_MPI_ABI_H

#include <stdint.h>

#ifdef NIGH_MPI_OPENMPI
typedef struct ompi_communicator_t *nigh_mpi_comm;
typedef struct ompi_datatype_t *nigh_mpi_type;
typedef struct ompi_op_t *nigh_mpi_op;
typedef struct ompi_request_t *nigh_mpi_request;
#define NIGH_MPI_IN_PLACE      ((void *)1)
#define NIGH_MPI_STATUS_IGNORE NULL
#define NIGH_MPI_ERR_TRUNCATE  15
#define NIGH_MPI_ERR_OTHER     16
#define NIGH_MPI_ERR_INTERN    17
/* Handles are addresses in its library, or in a program that names them. */
#define NIGH_MPI_COMM_NULL          ((nigh_mpi_comm)nigh_mpi_calls()->ompi_mpi_comm_null)
#define NIGH_MPI_COMM_SELF          ((nigh_mpi_comm)nigh_mpi_calls()->ompi_mpi_comm_self)
#define NIGH_MPI_DATATYPE_NULL      ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_datatype_null)
#define NIGH_MPI_BYTE               ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_byte)
#define NIGH_MPI_CHAR               ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_char)
#define NIGH_MPI_INT                ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_int)
#define NIGH_MPI_LONG               ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_long)
#define NIGH_MPI_LONG_LONG          ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_long_long_int)
#define NIGH_MPI_UNSIGNED           ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_unsigned)
#define NIGH_MPI_UNSIGNED_LONG      ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_unsigned_long)
#define NIGH_MPI_UNSIGNED_LONG_LONG ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_unsigned_long_long)
#define NIGH_MPI_INT32_T            ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_int32_t)
#define NIGH_MPI_INT64_T            ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_int64_t)
#define NIGH_MPI_UINT32_T           ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_uint32_t)
#define NIGH_MPI_UINT64_T           ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_uint64_t)
#define NIGH_MPI_FLOAT              ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_float)
#define NIGH_MPI_DOUBLE             ((nigh_mpi_type)nigh_mpi_calls()->ompi_mpi_double)
#define NIGH_MPI_OP_NULL            ((nigh_mpi_op)nigh_mpi_calls()->ompi_mpi_op_null)
#define NIGH_MPI_MAX                ((nigh_mpi_op)nigh_mpi_calls()->ompi_mpi_op_max)
#define NIGH_MPI_MIN                ((nigh_mpi_op)nigh_mpi_calls()->ompi_mpi_op_min)
#define NIGH_MPI_SUM                ((nigh_mpi_op)nigh_mpi_calls()->ompi_mpi_op_sum)
#define NIGH_MPI_PROD               ((nigh_mpi_op)nigh_mpi_calls()->ompi_mpi_op_prod)
/* clang-format off */
#define NIGH_MPI_OWN_OPS(HANDLE) \
    HANDLE(ompi_mpi_op_max) HANDLE(ompi_mpi_op_min) HANDLE(ompi_mpi_op_sum) HANDLE(ompi_mpi_op_prod) \
    HANDLE(ompi_mpi_op_land) HANDLE(ompi_mpi_op_band) HANDLE(ompi_mpi_op_lor) HANDLE(ompi_mpi_op_bor) \
    HANDLE(ompi_mpi_op_lxor) HANDLE(ompi_mpi_op_bxor) HANDLE(ompi_mpi_op_maxloc) HANDLE(ompi_mpi_op_minloc) \
    HANDLE(ompi_mpi_op_replace) HANDLE(ompi_mpi_op_no_op)
#define NIGH_MPI_HANDLES(HANDLE) \
    NIGH_MPI_OWN_OPS(HANDLE) HANDLE(ompi_mpi_op_null) HANDLE(ompi_mpi_comm_null) HANDLE(ompi_mpi_comm_self) \
    HANDLE(ompi_mpi_datatype_null) HANDLE(ompi_mpi_byte) HANDLE(ompi_mpi_char) HANDLE(ompi_mpi_int) \
    HANDLE(ompi_mpi_long) HANDLE(ompi_mpi_long_long_int) HANDLE(ompi_mpi_unsigned) \
    HANDLE(ompi_mpi_unsigned_long) HANDLE(ompi_mpi_unsigned_long_long) HANDLE(ompi_mpi_int32_t) \
    HANDLE(ompi_mpi_int64_t) HANDLE(ompi_mpi_uint32_t) HANDLE(ompi_mpi_uint64_t) \
    HANDLE(ompi_mpi_float) HANDLE(ompi_mpi_double)
/* clang-format on */
#define NIGH_MPI_COMBINER_NAMED 0
#else
typedef int nigh_mpi_comm;
typedef int nigh_mpi_type;
typedef int nigh_mpi_op;
typedef int nigh_mpi_request;
#define NIGH_MPI_IN_PLACE           ((void *)-1)
#define NIGH_MPI_STATUS_IGNORE      ((void *)1)
#define NIGH_MPI_ERR_TRUNCATE       14
#define NIGH_MPI_ERR_OTHER          15
#define NIGH_MPI_ERR_INTERN         16
#define NIGH_MPI_COMM_NULL          ((nigh_mpi_comm)0x04000000)
#define NIGH_MPI_COMM_SELF          ((nigh_mpi_comm)0x44000001)
#define NIGH_MPI_DATATYPE_NULL      ((nigh_mpi_type)0x0c000000)
#define NIGH_MPI_BYTE               ((nigh_mpi_type)0x4c00010d)
#define NIGH_MPI_CHAR               ((nigh_mpi_type)0x4c000101)
#define NIGH_MPI_INT                ((nigh_mpi_type)0x4c000405)
#define NIGH_MPI_LONG               ((nigh_mpi_type)0x4c000807)
#define NIGH_MPI_LONG_LONG          ((nigh_mpi_type)0x4c000809)
#define NIGH_MPI_UNSIGNED           ((nigh_mpi_type)0x4c000406)
#define NIGH_MPI_UNSIGNED_LONG      ((nigh_mpi_type)0x4c000808)
#define NIGH_MPI_UNSIGNED_LONG_LONG ((nigh_mpi_type)0x4c000819)
#define NIGH_MPI_INT32_T            ((nigh_mpi_type)0x4c000439)
#define NIGH_MPI_INT64_T            ((nigh_mpi_type)0x4c00083a)
#define NIGH_MPI_UINT32_T           ((nigh_mpi_type)0x4c00043d)
#define NIGH_MPI_UINT64_T           ((nigh_mpi_type)0x4c00083e)
#define NIGH_MPI_FLOAT              ((nigh_mpi_type)0x4c00040a)
#define NIGH_MPI_DOUBLE             ((nigh_mpi_type)0x4c00080b)
#define NIGH_MPI_INTEGER            ((nigh_mpi_type)0x4c00041b)
#define NIGH_MPI_REAL               ((nigh_mpi_type)0x4c00041c)
#define NIGH_MPI_DOUBLE_PRECISION   ((nigh_mpi_type)0x4c00081f)
#define NIGH_MPI_OP_NULL            ((nigh_mpi_op)0x18000000)
#define NIGH_MPI_MAX                ((nigh_mpi_op)0x58000001)
#define NIGH_MPI_MIN                ((nigh_mpi_op)0x58000002)
#define NIGH_MPI_SUM                ((nigh_mpi_op)0x58000003)
#define NIGH_MPI_PROD               ((nigh_mpi_op)0x58000004)
#define NIGH_MPI_COMBINER_NAMED     1
#define NIGH_MPI_HANDLES(HANDLE)
#endif

#define NIGH_MPI_SUCCESS         0
#define NIGH_MPI_THREAD_MULTIPLE 3

typedef intptr_t nigh_mpi_aint;
typedef long long nigh_mpi_count;
typedef int (*nigh_mpi_copy_attr)(nigh_mpi_comm, int, void *, void *, void *, int *);
typedef int (*nigh_mpi_delete_attr)(nigh_mpi_comm, int, void *, void *);
/* Of generalized requests: their second argument, a status or a flag, is not looked at. */
typedef int (*nigh_mpi_request_query)(void *, void *);
typedef int (*nigh_mpi_request_free)(void *);
typedef int (*nigh_mpi_request_cancel)(void *, int);

/* clang-format off */
/* The calls that are answered here: name and arguments. */
#define NIGH_MPI_ANSWERED(CALL) \
    CALL(Reduce, (const void *, void *, int, nigh_mpi_type, nigh_mpi_op, int, nigh_mpi_comm)) \
    CALL(Allreduce, (const void *, void *, int, nigh_mpi_type, nigh_mpi_op, nigh_mpi_comm)) \
    CALL(Bcast, (void *, int, nigh_mpi_type, int, nigh_mpi_comm)) \
    CALL(Alltoall, (const void *, int, nigh_mpi_type, void *, int, nigh_mpi_type, nigh_mpi_comm)) \
    CALL(Allgather, (const void *, int, nigh_mpi_type, void *, int, nigh_mpi_type, nigh_mpi_comm)) \
    CALL(Gather, (const void *, int, nigh_mpi_type, void *, int, nigh_mpi_type, int, nigh_mpi_comm))
/* What is called of the MPI that the program is linked with. */
#define NIGH_MPI_ASKED(CALL) \
    CALL(Iallreduce, (const void *, void *, int, nigh_mpi_type, nigh_mpi_op, nigh_mpi_comm, nigh_mpi_request *)) \
    CALL(Reduce_local, (const void *, void *, int, nigh_mpi_type, nigh_mpi_op)) \
    CALL(Op_commutative, (nigh_mpi_op, int *)) \
    CALL(Type_size, (nigh_mpi_type, int *)) \
    CALL(Type_get_extent, (nigh_mpi_type, nigh_mpi_aint *, nigh_mpi_aint *)) \
    CALL(Type_get_true_extent, (nigh_mpi_type, nigh_mpi_aint *, nigh_mpi_aint *)) \
    CALL(Type_get_envelope, (nigh_mpi_type, int *, int *, int *, int *)) \
    CALL(Pack, (const void *, int, nigh_mpi_type, void *, int, int *, nigh_mpi_comm)) \
    CALL(Unpack, (const void *, int, int *, void *, int, nigh_mpi_type, nigh_mpi_comm)) \
    CALL(Query_thread, (int *)) \
    CALL(Comm_rank, (nigh_mpi_comm, int *)) \
    CALL(Comm_size, (nigh_mpi_comm, int *)) \
    CALL(Comm_test_inter, (nigh_mpi_comm, int *)) \
    CALL(Comm_create_keyval, (nigh_mpi_copy_attr, nigh_mpi_delete_attr, int *, void *)) \
    CALL(Comm_set_attr, (nigh_mpi_comm, int, void *)) \
    CALL(Comm_get_attr, (nigh_mpi_comm, int, void *, int *)) \
    CALL(Comm_call_errhandler, (nigh_mpi_comm, int)) \
    CALL(Grequest_complete, (nigh_mpi_request))
/* With statuses, which are not looked at. */
#define NIGH_MPI_BLIND(CALL) \
    CALL(Grequest_start, (nigh_mpi_request_query, nigh_mpi_request_free, nigh_mpi_request_cancel, void *, \
                          nigh_mpi_request *)) \
    CALL(Test, (nigh_mpi_request *, int *, void *)) \
    CALL(Wait, (nigh_mpi_request *, void *))
#define NIGH_MPI_CALLS(CALL) \
    NIGH_MPI_ANSWERED(CALL) \
    NIGH_MPI_ASKED(CALL) \
    NIGH_MPI_BLIND(CALL)
/* Of MPI 4 alone: a program that calls one of them is linked with it. */
#define NIGH_MPI_LARGE_CALLS(CALL) \
    CALL(Reduce_c, (const void *, void *, nigh_mpi_count, nigh_mpi_type, nigh_mpi_op, int, nigh_mpi_comm)) \
    CALL(Allreduce_c, (const void *, void *, nigh_mpi_count, nigh_mpi_type, nigh_mpi_op, nigh_mpi_comm)) \
    CALL(Bcast_c, (void *, nigh_mpi_count, nigh_mpi_type, int, nigh_mpi_comm)) \
    CALL(Alltoall_c, (const void *, nigh_mpi_count, nigh_mpi_type, void *, nigh_mpi_count, nigh_mpi_type, \
                      nigh_mpi_comm)) \
    CALL(Allgather_c, (const void *, nigh_mpi_count, nigh_mpi_type, void *, nigh_mpi_count, nigh_mpi_type, \
                       nigh_mpi_comm)) \
    CALL(Gather_c, (const void *, nigh_mpi_count, nigh_mpi_type, void *, nigh_mpi_count, nigh_mpi_type, int, \
                    nigh_mpi_comm))
/* clang-format on */

#endif

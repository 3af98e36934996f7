/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/add.c - see add.h. */
#include "hosts/mpi/add.h"
#include "hosts/mpi/calls.h"

/* A program's buffer may lie anywhere. */
#define ANYWHERE __attribute__((aligned(1), may_alias))

/* Element i depends on nothing but elements i, also where sum is one of the operands. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Integers are added and multiplied without signs: nothing overflows, all wraps. */
#define LOOP(name, type, wide, expression)                                           \
    static void name(void *sum, const void *a, const void *b, size_t count)          \
    {                                                                                \
        typedef type any ANYWHERE;                                                   \
                                                                                     \
        INDEPENDENT                                                                  \
        for (size_t i = 0; i < count; i++) {                                         \
            const wide x = (wide)((const any *)a)[i], y = (wide)((const any *)b)[i]; \
                                                                                     \
            ((any *)sum)[i] = (type)(expression);                                    \
        }                                                                            \
    }

#define LOOPS(name, type, wide)                 \
    LOOP(name##_sum, type, wide, x + y)         \
    LOOP(name##_product, type, wide, x *y)      \
    LOOP(name##_min, type, type, y < x ? y : x) \
    LOOP(name##_max, type, type, y > x ? y : x)

LOOPS(f32, float, float)
LOOPS(f64, double, double)
LOOPS(i32, int32_t, uint32_t)
LOOPS(i64, int64_t, uint64_t)

static nigh_mpi_add_fn pick(const nigh_mpi_add_fn *of_type, nigh_mpi_op op)
{
    if (op == NIGH_MPI_SUM)
        return of_type[0];
    if (op == NIGH_MPI_PROD)
        return of_type[1];
    if (op == NIGH_MPI_MIN)
        return of_type[2];
    return op == NIGH_MPI_MAX ? of_type[3] : NULL;
}

nigh_mpi_add_fn nigh_mpi_add(nigh_mpi_type type, nigh_mpi_op op)
{
    static const nigh_mpi_add_fn f32[] = {f32_sum, f32_product, f32_min, f32_max};
    static const nigh_mpi_add_fn f64[] = {f64_sum, f64_product, f64_min, f64_max};
    static const nigh_mpi_add_fn i32[] = {i32_sum, i32_product, i32_min, i32_max};
    static const nigh_mpi_add_fn i64[] = {i64_sum, i64_product, i64_min, i64_max};
    if (type == NIGH_MPI_FLOAT)
        return pick(f32, op);
    if (type == NIGH_MPI_DOUBLE)
        return pick(f64, op);
    if (type == NIGH_MPI_INT)
        return pick(i32, op);
    if (type == NIGH_MPI_LONG)
        return sizeof(long) == sizeof(int64_t) ? pick(i64, op) : pick(i32, op);
    return type == NIGH_MPI_LONG_LONG ? pick(i64, op) : NULL;
}

size_t nigh_mpi_width(nigh_mpi_type type)
{
    if (type == NIGH_MPI_LONG)
        return sizeof(long);
    return type == NIGH_MPI_DOUBLE || type == NIGH_MPI_LONG_LONG ? 8 : 4;
}

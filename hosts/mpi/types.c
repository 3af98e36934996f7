/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/types.c - see types.h. */
#include "hosts/mpi/types.h"
#include "hosts/mpi/calls.h"
#include "nigh/transport.h"

#include <pthread.h>
#include <stddef.h>

/* ---- types --------------------------------------------------------------------------------------------- */

/* A power of two, and four times as many as there are types, so that a look-up is one comparison or two. */
#define PLACES 256u
static struct nigh_mpi_known places[PLACES];
static bool filled[PLACES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t place_of(nigh_mpi_type type)
{
    return (uint32_t)((uint64_t)(uintptr_t)(intptr_t)type * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

static void add(struct nigh_mpi_known known)
{
    uint32_t at = place_of(known.type);

    while (filled[at] && places[at].type != known.type)
        at = (at + 1) % PLACES;
    places[at] = known;
    filled[at] = true;
}

static void fill(void)
{
#define ADD(name, symbol, code, nigh, width, size, of) \
    add((struct nigh_mpi_known){NIGH_MPI_TYPE(name, symbol, code), nigh, width, size, NIGH_MPI_##of});
    NIGH_MPI_TYPES(ADD)
}

const struct nigh_mpi_known *nigh_mpi_known_type(nigh_mpi_type type)
{
    uint32_t at = place_of(type);

    pthread_once(&once, fill);
    for (; filled[at]; at = (at + 1) % PLACES)
        if (places[at].type == type)
            return &places[at];
    return NULL;
}

/* ---- operations ---------------------------------------------------------------------------------------- */

#define SET(nigh)  (1u << (nigh))
#define ARITHMETIC (SET(NIGH_SUM) | SET(NIGH_PROD))
#define ORDER      (SET(NIGH_MIN) | SET(NIGH_MAX))
#define LOGICAL    (SET(NIGH_LAND) | SET(NIGH_LOR) | SET(NIGH_LXOR))
#define BITWISE    (SET(NIGH_BAND) | SET(NIGH_BOR) | SET(NIGH_BXOR))

static const uint32_t takes[] = {
    [NIGH_MPI_MOVED] = 0,
    [NIGH_MPI_BITS] = BITWISE,
    [NIGH_MPI_INTEGERS] = ARITHMETIC | ORDER | LOGICAL | BITWISE,
    [NIGH_MPI_FLOATS] = ARITHMETIC | ORDER,
    [NIGH_MPI_COMPLEX] = ARITHMETIC,
    [NIGH_MPI_TRUTHS] = LOGICAL,
    [NIGH_MPI_PAIRS] = SET(NIGH_MINLOC) | SET(NIGH_MAXLOC),
};

/* One of MPI's own, which it may refuse for a type, or none? `nigh`: enum nigh_atomic_op; 0: nigh has none. */
static bool is_own(nigh_mpi_op op, uint16_t *nigh)
{
#ifdef NIGH_MPI_OPENMPI
#define IS(name, symbol, code, of)               \
    if (op == NIGH_MPI_OP(name, symbol, code)) { \
        *nigh = of;                              \
        return true;                             \
    }
    NIGH_MPI_OPS(IS)
    *nigh = 0;
    return op == NIGH_MPI_OP_NULL;
#else
#define OF(name, symbol, code, of) [(code)&0xff] = (of),
    static const uint16_t ops[256] = {NIGH_MPI_OPS(OF)};
    bool own = (op & ~0xff) == (NIGH_MPI_MIN & ~0xff);

    *nigh = own ? ops[op & 0xff] : 0;
    return own || op == NIGH_MPI_OP_NULL;
#endif
}

/* A program's operation takes any type. Ranks may give types that lie in other ways; the bytes that are sent of an element are as many
 * for all of them. */
static uint64_t width_for_program(const struct nigh_mpi_known *known, nigh_mpi_type type)
{
    int size;

    if (known)
        return known->size;
    return type != NIGH_MPI_DATATYPE_NULL && !nigh_mpi_calls()->Type_size(type, &size) && size > 0
               ? (uint64_t)size
               : 0;
}

struct nigh_mpi_reduction nigh_mpi_reduction_of(nigh_mpi_type type, nigh_mpi_op op)
{
    const struct nigh_mpi_known *known = nigh_mpi_known_type(type);
    struct nigh_mpi_reduction reduction = {.type = type, .op = op};

    reduction.own = is_own(op, &reduction.nigh_op);
    if (!reduction.own) {
        reduction.width = width_for_program(known, type);
    } else if (known && reduction.nigh_op && takes[known->of] & SET(reduction.nigh_op)) {
        reduction.width = known->width;
        reduction.nigh_type = known->nigh;
    }
    return reduction;
}

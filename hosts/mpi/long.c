/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/long.c - see long.h. A message of any type may be received as MPI_PACKED, and sent as it. */
#include "hosts/mpi/long.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/self.h"

#include <errno.h>

/* Bytes of a type of which an int counts as many as there can be. */
#define PIECE  (1 << 30)
#define PACKED NIGH_MPI_TYPE(PACKED, packed, 0x4c00010f)
#define TAGS   32767u

/* So many bytes of MPI_PACKED. */
static int make_type(uint64_t bytes, nigh_mpi_type *out)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    int counts[2] = {(int)(bytes / PIECE), (int)(bytes % PIECE)};
    nigh_mpi_aint offsets[2] = {0, (nigh_mpi_aint)counts[0] * PIECE};
    nigh_mpi_type types[2] = {PACKED, PACKED};
    int rc = mpi->Type_contiguous(PIECE, PACKED, &types[0]);

    if (rc)
        return rc;
    rc = mpi->Type_create_struct(2, counts, offsets, types, out);
    (void)mpi->Type_free(&types[0]);
    if (rc)
        return rc;
    rc = mpi->Type_commit(out);
    if (rc)
        (void)mpi->Type_free(out);
    return rc;
}

/* By a tag of its own: threads do not take each other's. */
static int move(void *from, nigh_mpi_type from_type, void *to, nigh_mpi_type to_type)
{
    static _Atomic unsigned moves;
    int tag = (int)(moves++ % TAGS);

    return nigh_mpi_calls()->Sendrecv(from, 1, from_type, 0, tag, to, 1, to_type, 0, tag, nigh_mpi_self(),
                                      NIGH_MPI_STATUS_IGNORE);
}

int nigh_mpi_long_move(void *element, nigh_mpi_type type, void *packed, uint64_t bytes, bool packs)
{
    nigh_mpi_type whole;
    int rc = make_type(bytes, &whole);

    if (!rc) {
        rc = packs ? move(element, type, packed, whole) : move(packed, whole, element, type);
        (void)nigh_mpi_calls()->Type_free(&whole);
    }
    if (!rc)
        return 0;
    nigh_mpi_log("an element of %llu bytes cannot be %s: the MPI's error is %d", (unsigned long long)bytes,
                 packs ? "packed" : "unpacked", rc);
    return -EIO;
}

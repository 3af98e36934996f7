/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/self.c - see self.h. */
#include "hosts/mpi/self.h"
#include "hosts/mpi/calls.h"

bool nigh_mpi_self_checks = true;
static nigh_mpi_comm self;

/* An argument that is wrong in a call that does nothing. */
static bool refuses(void)
{
    int nothing = 0;

    return nigh_mpi_calls()->Send(&nothing, -1, NIGH_MPI_INT, NIGH_MPI_PROC_NULL, 0, self) != 0;
}

/* Not by MPI_Comm_dup(), which copies the program's attributes, nor by a collective, at which another thread of the program may be. */
int nigh_mpi_self_open(void)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    nigh_mpi_ranks ranks;
    int rc = mpi->Comm_group(NIGH_MPI_COMM_SELF, &ranks);

    if (rc)
        return rc;
    rc = mpi->Comm_create_group(NIGH_MPI_COMM_SELF, ranks, 0, &self);
    (void)mpi->Group_free(&ranks);
    if (rc)
        return rc;
    rc = mpi->Comm_set_errhandler(self, NIGH_MPI_ERRORS_RETURN);
    if (rc)
        nigh_mpi_self_close();
    else
        nigh_mpi_self_checks = refuses();
    return rc;
}

nigh_mpi_comm nigh_mpi_self(void)
{
    return self;
}

void nigh_mpi_self_close(void)
{
    (void)nigh_mpi_calls()->Comm_free(&self);
}

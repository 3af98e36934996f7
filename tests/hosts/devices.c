/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded under the name of a device's driver: an MPI that takes devices' memory, so that hosts/mpi has it pack. */
int MPIX_Query_cuda_support(void);
int MPIX_GPU_query_support(int kind, int *yes);

int MPIX_Query_cuda_support(void)
{
    return 1;
}

int MPIX_GPU_query_support(int kind, int *yes)
{
    *yes = kind == 0;
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/account.c - see account.h. */
#include "hosts/mpi/account.h"
#include "hosts/append.h"
#include "hosts/mpi/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void nigh_mpi_account_write(const struct nigh_mpi_account *account, int rank)
{
    const char *path = getenv("NIGH_MPI_ACCOUNT");
    char line[1024];
    int length, rc;

    if (!path || !*path)
        return;
    length = snprintf(line, sizeof(line), "{\"rank\": %d, \"pid\": %d", rank, (int)getpid());
    for (int i = 0; i < NIGH_MPI_KINDS; i++)
        length += snprintf(line + length, sizeof(line) - (size_t)length, ", \"%s\": %" PRIu64,
                           nigh_mpi_facts[i].name, account->calls[i]);
    length += snprintf(line + length, sizeof(line) - (size_t)length,
                       ", \"requests\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"packed\": %" PRIu64
                       ", \"failed\": %" PRIu64 "}\n",
                       account->requests, account->bytes, account->packed, account->failed);
    rc = nigh_host_append(path, line, (size_t)length);
    if (rc)
        nigh_mpi_log("NIGH_MPI_ACCOUNT is \"%s\": cannot be written: %s", path, strerror(rc));
}

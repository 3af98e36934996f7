/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/launcher.h - what the launchers of MPI jobs say about the job in the environment. */
#ifndef NIGH_LIBFABRIC_LAUNCHER_H
#define NIGH_LIBFABRIC_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

struct nigh_fi_job {
    const char *launcher; /* "none": started by hand */
    uint32_t rank, size;  /* of the job; 0 of 1 without a launcher */
    uint32_t local;       /* processes of it on this machine; 0: not told */
};

void nigh_fi_job_find(struct nigh_fi_job *out);

/* Whether NIGH_REMOTE_COMM, if it is set, says anything; *told becomes its value. */
bool nigh_fi_job_told(const char **told);

/* May this process promise to reach every process of its job? Only where the whole job is on this machine, or
 * NIGH_REMOTE_COMM=1 says so (0: never). *why becomes a reason for people. */
bool nigh_fi_job_is_local(const struct nigh_fi_job *job, const char **why);

#endif

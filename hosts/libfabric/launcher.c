/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/launcher.c - see launcher.h. Only what is needed here: nigh.so has a reader of its own, for jobs of
 * nigh; ranks of MPI find each other by libfabric's addresses. */
#include "hosts/libfabric/launcher.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* By which variables a launcher is known. Intel MPI's and MPICH's hydra say the same. */
static const struct {
    const char *name, *rank, *size, *local;
} launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", NULL},
    {"nigh-run", "NIGH_RANK", "NIGH_SIZE", "NIGH_SIZE"},
};

/* A number below 2^31, or false. */
static bool number(const char *name, uint32_t *out)
{
    const char *text = name ? getenv(name) : NULL;
    unsigned long value;
    char *end;

    if (!text || *text < '0' || *text > '9')
        return false;
    value = strtoul(text, &end, 10);
    if (*end || value > INT32_MAX)
        return false;
    *out = (uint32_t)value;
    return true;
}

void nigh_fi_job_find(struct nigh_fi_job *out)
{
    uint32_t nodes, rank, size;

    *out = (struct nigh_fi_job){.launcher = "none", .size = 1, .local = 1};
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        if (!number(launchers[i].rank, &rank) || !number(launchers[i].size, &size) || rank >= size)
            continue;
        *out = (struct nigh_fi_job){.launcher = launchers[i].name, .rank = rank, .size = size};
        if (!number(launchers[i].local, &out->local) && number("SLURM_NNODES", &nodes) && nodes == 1)
            out->local = size;
        return;
    }
}

bool nigh_fi_job_told(const char **told)
{
    *told = getenv("NIGH_REMOTE_COMM");
    return !*told || !**told || strcmp(*told, "0") == 0 || strcmp(*told, "1") == 0;
}

bool nigh_fi_job_is_local(const struct nigh_fi_job *job, const char **why)
{
    const char *told = getenv("NIGH_REMOTE_COMM");

    if (told && strcmp(told, "1") == 0) {
        *why = "NIGH_REMOTE_COMM=1 says so";
        return true;
    }
    if (told && strcmp(told, "0") == 0) {
        *why = "NIGH_REMOTE_COMM=0 says not to";
        return false;
    }
    *why = !job->local              ? "the launcher does not tell how many ranks are on this machine"
           : job->local < job->size ? "the job has ranks on other machines"
                                    : "the whole job is on this machine";
    return job->local >= job->size;
}

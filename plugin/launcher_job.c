/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/launcher_job.c - which variables tell two jobs on one machine apart, launcher by launcher, and the hash over
 * them. The choices were made by looking at what Open MPI 4.1 and 5.0, MPICH 4.0 and 5.0, Intel MPI 2021 and torchrun
 * really set.
 */
#include "plugin/launcher_job.h"
#include "include/common/descriptor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Deeper than any chain of shells and wrappers between a launcher and its rank; ends a walk over a forged or
 * circular /proc. */
#define PARENTS_MAX 64

static void add_bytes(struct nigh_launcher_job *job, const char *text)
{
    /* FNV-1a; the terminator goes in too, so that ("ab", "c") and ("a", "bc") differ */
    do {
        job->hash = (job->hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    } while (*text++ != '\0');
}

static void add(struct nigh_launcher_job *job, const char *name, const char *value)
{
    int length;

    add_bytes(job, name);
    add_bytes(job, value);
    length = snprintf(job->text + job->length, sizeof(job->text) - job->length, "%s%s=%s",
                      job->length > 0 ? " " : "", name, value);
    job->length += (size_t)length;
    if (job->length >= sizeof(job->text))
        job->length = sizeof(job->text) - 1;
}

void nigh_launcher_job_begin(struct nigh_launcher_job *job, const char *launcher)
{
    *job = (struct nigh_launcher_job){.hash = UINT64_C(0xcbf29ce484222325)};
    add_bytes(job, launcher);
}

uint64_t nigh_launcher_job_end(const struct nigh_launcher_job *job)
{
    uint64_t hash = job->hash;

    /* FNV leaves the high bits of short inputs alike; ids are also cut to 32 bits by those who print them */
    hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    hash ^= hash >> 33;
    return hash != 0 ? hash : 1;
}

/* Add the first of two variables (the second may be NULL) that is set. */
static int add_required(const struct nigh_launcher_source *source, struct nigh_launcher_job *job,
                        const char *name, const char *older, char *error)
{
    const char *value = source->get(source->data, name);

    if (value == NULL && older != NULL)
        value = source->get(source->data, older);
    if (value == NULL || *value == '\0')
        return nigh_launcher_fail(
            error,
            "%s is %s, though the launcher set a rank: expected the name that tells this "
            "job from others on this machine; set NIGH_JOB to give one",
            name, value == NULL ? "not set" : "empty");
    add(job, name, value); /* always under the newer name: ranks may see one or both */
    return 0;
}

static void add_optional(const struct nigh_launcher_source *source, struct nigh_launcher_job *job,
                         const char *name)
{
    const char *value = source->get(source->data, name);

    if (value != NULL)
        add(job, name, value);
}

/*
 * The namespace alone would do for 5.x ("prterun-HOST-PID@N"), but 4.x squeezes host and pid of mpirun into
 * 16 bits; the random key that it also hands to every rank makes up for that. The server's URI was rejected:
 * each machine's daemon has its own, and two daemons of one job may share a machine (containers).
 */
int nigh_launcher_job_openmpi(const struct nigh_launcher_source *source, struct nigh_launcher_job *job,
                              char *error)
{
    int rc = add_required(source, job, "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", error);

    if (rc == 0)
        add_optional(source, job, "OMPI_MCA_orte_precondition_transports");
    return rc;
}

/* Nearest first: an mpiexec inside another job's rank is this job's. */
static int find_hydra(const struct nigh_launcher_source *source, struct nigh_launcher_process *found)
{
    int32_t pid = 0;

    for (int depth = 0; depth < PARENTS_MAX; depth++) {
        int rc = source->process(source->data, pid, found);

        if (rc != 0)
            return rc;
        /* The calling process itself (depth 0) may be called anything. gforker's ranks are children of
         * "mpiexec.gforke", cut by the kernel. */
        if (depth > 0 &&
            (strncmp(found->name, "hydra_pmi_proxy", 15) == 0 || strncmp(found->name, "mpiexec", 7) == 0))
            return 0;
        if (found->parent <= 0)
            return -ENOENT;
        pid = found->parent;
    }
    return -ENOENT;
}

/*
 * MPICH's environment says nothing that is common to a job and not to others, so the proxy process that is
 * the parent of all its ranks on this machine stands for it. Intel's I_MPI_HYDRA_UUID comes second only,
 * since jobs that a job spawns inherit it.
 */
int nigh_launcher_job_hydra(const struct nigh_launcher_source *source, struct nigh_launcher_job *job,
                            char *error)
{
    const char *uuid = source->get(source->data, "I_MPI_HYDRA_UUID"), *rank;
    struct nigh_launcher_process proxy;
    char text[48];

    if (find_hydra(source, &proxy) == 0) {
        snprintf(text, sizeof(text), "%" PRId32 "@%" PRIu64, proxy.pid, proxy.started);
        add(job, "hydra", text);
        return 0;
    }
    if (uuid != NULL && *uuid != '\0') {
        add(job, "I_MPI_HYDRA_UUID", uuid);
        return 0;
    }
    rank = source->get(source->data, "PMI_RANK");
    return nigh_launcher_fail(
        error,
        "PMI_RANK is \"%.60s\" but nothing tells this job from others: expected a process "
        "hydra_pmi_proxy or mpiexec among the parents in /proc, or I_MPI_HYDRA_UUID; set NIGH_JOB",
        rank != NULL ? rank : "");
}

int nigh_launcher_job_srun(const struct nigh_launcher_source *source, struct nigh_launcher_job *job,
                           char *error)
{
    int rc = add_required(source, job, "SLURM_JOB_ID", "SLURM_JOBID", error);

    if (rc == 0)
        rc = add_required(source, job, "SLURM_STEP_ID", "SLURM_STEPID", error);
    if (rc == 0)
        add_optional(source, job,
                     "SLURM_CLUSTER_NAME"); /* ids count per cluster, and a machine may serve two */
    return rc;
}

/*
 * The run's name is "none" unless somebody gave one; the master's port can be held by one live job only. The
 * restart count was rejected: agents count for themselves, so two agents of one job may disagree, and a
 * restart begins after the old workers are gone.
 */
int nigh_launcher_job_torch(const struct nigh_launcher_source *source, struct nigh_launcher_job *job,
                            char *error)
{
    int rc = add_required(source, job, "MASTER_ADDR", NULL, error);

    if (rc == 0)
        rc = add_required(source, job, "MASTER_PORT", NULL, error);
    if (rc == 0)
        add_optional(source, job, "TORCHELASTIC_RUN_ID");
    return rc;
}

int nigh_launcher_read_process(void *data, int32_t pid, struct nigh_launcher_process *out)
{
    struct nigh_launcher_process process = {.pid = pid};
    char path[64] = "/proc/self/stat", line[1024], *name, *end;
    size_t bytes;
    FILE *file;

    (void)data;
    if (pid != 0) /* our own number may be another one in /proc: it may be of another PID namespace */
        snprintf(path, sizeof(path), "/proc/%" PRId32 "/stat", pid);
    file = nigh_fd_fopen(path);
    if (file == NULL)
        return -ENOENT;
    bytes = fread(line, 1, sizeof(line) - 1, file);
    fclose(file);
    line[bytes] = '\0';
    /* "pid (name) state parent ... start(22nd)"; the name may hold blanks and parentheses, so look from the
     * end */
    name = strchr(line, '(');
    end = strrchr(line, ')');
    if (name == NULL || end == NULL || end < name)
        return -ENOENT;
    *end = '\0';
    snprintf(process.name, sizeof(process.name), "%s", name + 1);
    process.pid = (int32_t)strtol(line, NULL, 10);
    if (sscanf(end + 1,
               " %*c %" SCNd32
               " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64,
               &process.parent, &process.started) != 2)
        return -ENOENT;
    *out = process;
    return 0;
}

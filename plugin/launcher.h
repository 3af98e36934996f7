/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/launcher.h - who started this process, and as which rank of which job: read from the environment that
 * launchers leave behind. Nothing here talks to a launcher, so a process that was started by any of them is known the
 * same way.
 */
#ifndef NIGH_PLUGIN_LAUNCHER_H
#define NIGH_PLUGIN_LAUNCHER_H

#include <stddef.h>
#include <stdint.h>

#define NIGH_LAUNCH_TEXT_BYTES  160
#define NIGH_LAUNCH_ERROR_BYTES 400

/* A process's place in its job. */
struct nigh_launch {
    const char *launcher; /* "nigh", "torchrun", "openmpi", "hydra", "srun" or "torch"; a static string */
    uint32_t rank, size;  /* rank < size */
    /* Among the job's processes on this machine. A launcher that does not tell is taken to have one machine:
     * local_rank = rank, local_size = size. */
    uint32_t local_rank, local_size;
    uint64_t job; /* never 0; equal in all processes of the job, on all machines of it
                     (hydra: on this machine) */
    char job_text[NIGH_LAUNCH_TEXT_BYTES]; /* what `job` was made from, for diagnosis; cut where too long */
    char error[NIGH_LAUNCH_ERROR_BYTES];   /* after -EINVAL: the variable, its value, what was expected */
};

/* What a process is, for the launchers (MPICH's) that leave no name of the job in the environment. */
struct nigh_launcher_process {
    int32_t pid, parent; /* parent 0: none, or not visible from here */
    uint64_t started;    /* in clock ticks since boot: together with pid unique until the next boot */
    char name[16];       /* as in /proc/PID/comm */
};

/* Where facts come from; the tests bring their own. Both calls may be made any number of times. */
struct nigh_launcher_source {
    /* NULL: not set; the string must live until the return. */
    const char *(*get)(void *data, const char *name);
    /* pid 0: the calling process. 0, or -ENOENT when there is no such process. */
    int (*process)(void *data, int32_t pid, struct nigh_launcher_process *out);
    void *data;
};

/*
 * Find this process's place from getenv() and /proc.
 *
 *     launcher  recognised by                                     job made from
 *     --------  ------------------------------------------------  -----------------------------------------
 *     nigh      NIGH_RANK, NIGH_SIZE (nigh-run, or by hand)       NIGH_JOB
 *     torchrun  TORCHELASTIC_RUN_ID                               that, MASTER_ADDR and MASTER_PORT
 *     openmpi   OMPI_COMM_WORLD_RANK or _SIZE                     PMIX_NAMESPACE (or OMPI_MCA_ess_base_jobid)
 *                                                                 and, where set (4.x), the random
 *                                                                 OMPI_MCA_orte_precondition_transports
 *     hydra     PMI_RANK, PMI_SIZE or PMI_ID (MPICH, Intel MPI)   pid and start time of hydra_pmi_proxy (or
 *                                                                 mpiexec) among the parents, else
 *                                                                 I_MPI_HYDRA_UUID
 *     srun      SLURM_STEP_ID of a step that srun started         SLURM_CLUSTER_NAME, SLURM_JOB_ID,
 *                                                                 SLURM_STEP_ID
 *     torch     RANK or WORLD_SIZE                                MASTER_ADDR and MASTER_PORT
 *               with MASTER_ADDR or MASTER_PORT
 *
 * The first of this order wins, because the upper ones are started inside the lower ones (mpirun within an
 * allocation, torchrun within srun). Open MPI and hydra that contradict each other are an error. NIGH_JOB,
 * where set, replaces the job of any launcher.
 *
 *     0        *out is filled (error is "")
 *     -ENOENT  no launcher's variables are set: the caller needs rank, size and job from somewhere else. *out
 *              is untouched
 *     -EINVAL  variables of a launcher are set partly or do not parse, or its job cannot be told from another's:
 *              out->error says which, all else in *out is untouched
 *
 * Any thread, as long as none changes the environment. Does not block (reads a few files of /proc at most).
 */
int nigh_launcher_detect(struct nigh_launch *out);

/* The same from a source of the caller's own. */
int nigh_launcher_detect_from(const struct nigh_launcher_source *source, struct nigh_launch *out);

/*
 * Read a job id as NIGH_JOB has it: 1 to 16 hexadecimal digits, "0x" in front allowed, not zero. 0, or
 * -EINVAL with *job untouched. Any thread, does not block.
 */
int nigh_launcher_parse_job(const char *text, uint64_t *job);

#endif

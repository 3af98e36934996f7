/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/launcher.c - recognises the launcher and reads rank and size: one row of a table per launcher, walked in the
 * order that launcher.h documents. What makes a job's id lives in launcher_job.c.
 */
#include "plugin/launcher.h"

#include "plugin/launcher_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a launcher calls its things. Of two names the first that is set counts. */
struct launcher {
    const char *name;
    bool (*started)(const struct nigh_launcher_source *source);
    const char *rank, *size[2];
    const char *local_rank, *local_size;
    int (*job)(const struct nigh_launcher_source *source, struct nigh_launcher_job *job, char *error);
};

static const char *get(const struct nigh_launcher_source *source, const char *name)
{
    return name == NULL ? NULL : source->get(source->data, name);
}

int nigh_launcher_fail(char *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error, NIGH_LAUNCH_ERROR_BYTES, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

/* ---- who ---- */

static bool started_nigh(const struct nigh_launcher_source *source)
{
    return get(source, "NIGH_RANK") != NULL || get(source, "NIGH_SIZE") != NULL;
}

static bool started_torchrun(const struct nigh_launcher_source *source)
{
    return get(source, "TORCHELASTIC_RUN_ID") != NULL;
}

static bool started_openmpi(const struct nigh_launcher_source *source)
{
    return get(source, "OMPI_COMM_WORLD_RANK") != NULL || get(source, "OMPI_COMM_WORLD_SIZE") != NULL;
}

/*
 * Slurm names two steps that srun did not start tasks in: the batch script's and the interactive shell's.
 * What runs there is one process, whatever SLURM_NTASKS says about the allocation.
 */
static bool started_srun(const struct nigh_launcher_source *source)
{
    const char *step = get(source, "SLURM_STEP_ID");

    if (step == NULL)
        return false;
    return strcmp(step, "4294967290") != 0 && strcmp(step, "4294967291") != 0;
}

/* srun's PMI plugins set PMI_RANK too, but never MPI_LOCALRANKID, which every hydra sets. */
static bool started_hydra(const struct nigh_launcher_source *source)
{
    if (get(source, "PMI_RANK") == NULL && get(source, "PMI_SIZE") == NULL && get(source, "PMI_ID") == NULL)
        return false;
    return get(source, "MPI_LOCALRANKID") != NULL || !started_srun(source);
}

/* RANK alone is a word that any script may use for itself; scripts also export WORLD_SIZE or MASTER_ADDR for
 * the tasks of an srun. Only together do they mean a launch by hand. */
static bool started_torch(const struct nigh_launcher_source *source)
{
    return (get(source, "RANK") != NULL || get(source, "WORLD_SIZE") != NULL) &&
           (get(source, "MASTER_ADDR") != NULL || get(source, "MASTER_PORT") != NULL);
}

static const struct launcher launchers[] = {
    {"nigh", started_nigh, "NIGH_RANK", {"NIGH_SIZE"}, "NIGH_LOCAL_RANK", "NIGH_LOCAL_SIZE", NULL},
    {"torchrun",
     started_torchrun,
     "RANK",
     {"WORLD_SIZE"},
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     nigh_launcher_job_torch},
    {"openmpi",
     started_openmpi,
     "OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE"},
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     nigh_launcher_job_openmpi},
    {"hydra",
     started_hydra,
     "PMI_RANK",
     {"PMI_SIZE"},
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     nigh_launcher_job_hydra},
    {"srun",
     started_srun,
     "SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     "SLURM_LOCALID",
     NULL,
     nigh_launcher_job_srun},
    {"torch",
     started_torch,
     "RANK",
     {"WORLD_SIZE"},
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     nigh_launcher_job_torch},
};

/* ---- as which rank ---- */

/* A whole number in [low, high] from `name`, which is set to `text`. */
static int parse_number(const char *name, const char *text, uint32_t low, uint32_t high, uint32_t *number,
                        char *error)
{
    uint64_t value = 0;
    const char *at;

    for (at = text; *at >= '0' && *at <= '9' && value <= UINT32_MAX; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (at == text || *at != '\0' || value < low || value > high)
        return nigh_launcher_fail(error,
                                  "%s is \"%.60s\": expected a whole number from %" PRIu32 " to %" PRIu32,
                                  name, text, low, high);
    *number = (uint32_t)value;
    return 0;
}

static int missing(const struct launcher *launcher, const char *name, char *error)
{
    return nigh_launcher_fail(error,
                              "%s is not set, though other variables of %s are: expected %s and %s together; "
                              "NIGH_RANK, NIGH_SIZE and NIGH_JOB override them",
                              name, launcher->name, launcher->rank, launcher->size[0]);
}

static int read_size(const struct nigh_launcher_source *source, const struct launcher *launcher,
                     struct nigh_launch *launch)
{
    for (size_t i = 0; i < 2; i++) {
        const char *text = get(source, launcher->size[i]);

        if (text != NULL) /* one less than can be counted: UINT32_MAX means "no rank" */
            return parse_number(launcher->size[i], text, 1, UINT32_MAX - 1, &launch->size, launch->error);
    }
    return missing(launcher, launcher->size[0], launch->error);
}

static int read_rank(const struct nigh_launcher_source *source, const struct launcher *launcher,
                     struct nigh_launch *launch)
{
    const char *text = get(source, launcher->rank);

    if (text == NULL)
        return missing(launcher, launcher->rank, launch->error);
    return parse_number(launcher->rank, text, 0, launch->size - 1, &launch->rank, launch->error);
}

/* Slurm counts the tasks of each machine as in "4(x2),3": the entry that holds machine `node`. */
static int tasks_on_node(const char *text, uint32_t node, uint32_t *tasks)
{
    while (*text != '\0') {
        char *end;
        unsigned long count = strtoul(text, &end, 10), times = 1;

        if (end == text || count == 0 || count >= UINT32_MAX)
            return -EINVAL;
        if (strncmp(end, "(x", 2) == 0) {
            const char *digits = end + 2;

            times = strtoul(digits, &end, 10);
            if (end == digits || times == 0 || *end++ != ')')
                return -EINVAL;
        }
        if (*end != '\0' && *end++ != ',')
            return -EINVAL;
        if (node < times) {
            *tasks = (uint32_t)count;
            return 0;
        }
        node -= (uint32_t)times;
        text = end;
    }
    return -EINVAL;
}

static int read_slurm_local_size(const struct nigh_launcher_source *source, struct nigh_launch *launch)
{
    const char *name = "SLURM_STEP_TASKS_PER_NODE", *text = get(source, name),
               *node = get(source, "SLURM_NODEID");
    uint32_t index = 0;
    int rc;

    if (text == NULL)
        text = get(source, name = "SLURM_TASKS_PER_NODE");
    if (text == NULL)
        return 0;
    if (node != NULL &&
        (rc = parse_number("SLURM_NODEID", node, 0, UINT32_MAX - 1, &index, launch->error)) != 0)
        return rc;
    if (tasks_on_node(text, index, &launch->local_size) != 0)
        return nigh_launcher_fail(
            launch->error,
            "%s is \"%.60s\": expected tasks of each machine, as in 4(x2),3, with an entry "
            "for SLURM_NODEID %" PRIu32,
            name, text, index);
    return 0;
}

static int read_local(const struct nigh_launcher_source *source, const struct launcher *launcher,
                      struct nigh_launch *launch)
{
    const char *size = get(source, launcher->local_size), *rank = get(source, launcher->local_rank);
    int rc = 0;

    launch->local_size = launch->size;
    if (strcmp(launcher->name, "srun") == 0)
        rc = read_slurm_local_size(source, launch);
    else if (size != NULL)
        rc = parse_number(launcher->local_size, size, 1, launch->size, &launch->local_size, launch->error);
    if (rc != 0)
        return rc;
    if (rank != NULL)
        return parse_number(launcher->local_rank, rank, 0, launch->local_size - 1, &launch->local_rank,
                            launch->error);
    if (launch->local_size != launch->size)
        return nigh_launcher_fail(launch->error,
                                  "%s is not set, though only %" PRIu32 " of %" PRIu32
                                  " ranks are on this machine: expected a whole number below %" PRIu32,
                                  launcher->local_rank, launch->local_size, launch->size, launch->local_size);
    launch->local_rank = launch->rank;
    return 0;
}

/* ---- of which job ---- */

int nigh_launcher_parse_job(const char *text, uint64_t *job)
{
    uint64_t value = 0;
    size_t digits = 0;

    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        text += 2;
    for (; *text != '\0'; text++, digits++) {
        static const char hex[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = strchr(hex, *text);

        if (digit == NULL || digits == 16)
            return -EINVAL;
        value = value << 4 | (uint64_t)((digit - hex) & 15);
    }
    if (value == 0)
        return -EINVAL;
    *job = value;
    return 0;
}

static int read_job(const struct nigh_launcher_source *source, const struct launcher *launcher,
                    struct nigh_launch *launch)
{
    const char *explicit = get(source, "NIGH_JOB");
    struct nigh_launcher_job job;
    int rc;

    if (explicit != NULL) {
        if (nigh_launcher_parse_job(explicit, &launch->job) != 0)
            return nigh_launcher_fail(
                launch->error, "NIGH_JOB is \"%.60s\": expected 1 to 16 hexadecimal digits, not all zero",
                explicit);
        snprintf(launch->job_text, sizeof(launch->job_text), "NIGH_JOB=%s", explicit);
        return 0;
    }
    if (launcher->job == NULL)
        return nigh_launcher_fail(
            launch->error, "NIGH_JOB is not set, though NIGH_RANK and NIGH_SIZE are: expected 1 to 16 "
                           "hexadecimal digits, the same in all processes of the job and in no other job");
    nigh_launcher_job_begin(&job, launcher->name);
    rc = launcher->job(source, &job, launch->error);
    if (rc != 0)
        return rc;
    launch->job = nigh_launcher_job_end(&job);
    memcpy(launch->job_text, job.text, sizeof(job.text));
    return 0;
}

/* One MPI's mpirun inside the other's leaves both sets behind, and nothing tells which is the inner one. */
static int check_one_mpi(const struct nigh_launcher_source *source, char *error)
{
    static const char *const pairs[][2] = {{"OMPI_COMM_WORLD_RANK", "PMI_RANK"},
                                           {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}};

    if (get(source, "MPI_LOCALRANKID") == NULL)
        return 0;
    for (size_t i = 0; i < 2; i++) {
        const char *openmpi = get(source, pairs[i][0]), *hydra = get(source, pairs[i][1]);

        if (openmpi != NULL && hydra != NULL && strcmp(openmpi, hydra) != 0)
            return nigh_launcher_fail(
                error,
                "%s is \"%.60s\" but %s is \"%.60s\": two launchers, one inside the other; "
                "set NIGH_RANK, NIGH_SIZE and NIGH_JOB, or unset one launcher's variables",
                pairs[i][0], openmpi, pairs[i][1], hydra);
    }
    return 0;
}

/* No launcher was recognised; say so where a few variables are there nevertheless. */
static int nobody(const struct nigh_launcher_source *source, char *error)
{
    const char *text;

    if ((text = get(source, "NIGH_JOB")) != NULL)
        return nigh_launcher_fail(
            error,
            "NIGH_JOB is \"%.60s\" but NIGH_RANK and NIGH_SIZE are not set: expected all "
            "three, or the variables of a launcher",
            text);
    if ((text = get(source, "PMIX_RANK")) != NULL)
        return nigh_launcher_fail(
            error,
            "PMIX_RANK is \"%.60s\" but no variable tells how many ranks there are: set "
            "NIGH_RANK, NIGH_SIZE and NIGH_JOB (prterun tells the size only through PMIx)",
            text);
    return -ENOENT;
}

int nigh_launcher_detect_from(const struct nigh_launcher_source *source, struct nigh_launch *out)
{
    const struct launcher *launcher = NULL;
    struct nigh_launch launch = {.error = ""};
    int rc;

    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]) && launcher == NULL; i++)
        if (launchers[i].started(source))
            launcher = &launchers[i];
    if (launcher == NULL)
        rc = nobody(source, launch.error);
    else if (strcmp(launcher->name, "openmpi") != 0 || (rc = check_one_mpi(source, launch.error)) == 0)
        if ((rc = read_size(source, launcher, &launch)) == 0 &&
            (rc = read_rank(source, launcher, &launch)) == 0 &&
            (rc = read_local(source, launcher, &launch)) == 0)
            rc = read_job(source, launcher, &launch);
    if (rc == -EINVAL)
        memcpy(out->error, launch.error, sizeof(out->error));
    if (rc != 0)
        return rc;
    launch.launcher = launcher->name;
    *out = launch;
    return 0;
}

static const char *get_environment(void *data, const char *name)
{
    (void)data;
    return getenv(name);
}

int nigh_launcher_detect(struct nigh_launch *out)
{
    static const struct nigh_launcher_source machine = {get_environment, nigh_launcher_read_process, NULL};

    return nigh_launcher_detect_from(&machine, out);
}

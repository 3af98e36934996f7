/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Environments as each launcher really leaves them (taken from runs of Open MPI 4.1.4 and 5.0, MPICH 4.0
 * and 5.0, Intel MPI 2021), and what a person or a script can make of them: known, unknown or refused with a
 * message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/launcher.h"

#define VARIABLES_MAX 12

/* A fed machine: "NAME=value" strings, and processes of which the first is the caller. */
struct machine {
    const char *const *environment;
    struct nigh_launcher_process processes[4];
};

static const char *machine_get(void *data, const char *name)
{
    const struct machine *machine = data;
    size_t length = strlen(name);

    for (const char *const *at = machine->environment; *at != NULL; at++)
        if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
            return *at + length + 1;
    return NULL;
}

static int machine_process(void *data, int32_t pid, struct nigh_launcher_process *out)
{
    const struct machine *machine = data;

    for (size_t i = 0; i < 4; i++) {
        if (machine->processes[i].pid != 0 && (pid == 0 || machine->processes[i].pid == pid)) {
            *out = machine->processes[i];
            return 0;
        }
    }
    return -ENOENT;
}

static int detect_on(struct machine *machine, struct nigh_launch *launch)
{
    struct nigh_launcher_source source = {machine_get, machine_process, machine};

    return nigh_launcher_detect_from(&source, launch);
}

/* The ranks of an mpiexec: a shell between rank and proxy, as in `mpiexec sh -c ...`. */
static struct machine hydra_machine(const char *const *environment, uint64_t proxy_started)
{
    struct machine machine = {
        .environment = environment,
        .processes = {{300, 200, 50, "mpiexec-like"},
                      {200, 100, 40, "sh"},
                      {100, 90, proxy_started, "hydra_pmi_proxy"},
                      {90, 0, 20, "mpiexec.hydra"}},
    };

    return machine;
}

static int detect(const char *const *environment, struct nigh_launch *launch)
{
    struct machine machine = hydra_machine(environment, 30);

    return detect_on(&machine, launch);
}

/* ---- known ---- */

struct known {
    const char *what;
    const char *environment[VARIABLES_MAX];
    const char *launcher;
    uint32_t rank, size, local_rank, local_size;
    const char *text; /* a part of job_text */
};

static const struct known knowns[] = {
    {"nigh-run",
     {"NIGH_RANK=3", "NIGH_SIZE=4", "NIGH_LOCAL_RANK=3", "NIGH_LOCAL_SIZE=4", "NIGH_JOB=0x00000000deadbeef"},
     "nigh",
     3,
     4,
     3,
     4,
     "NIGH_JOB=0x00000000deadbeef"},
    {"by hand", {"NIGH_RANK=0", "NIGH_SIZE=2", "NIGH_JOB=7"}, "nigh", 0, 2, 0, 2, "NIGH_JOB=7"},
    {"the largest job",
     {"NIGH_RANK=4294967293", "NIGH_SIZE=4294967294", "NIGH_JOB=FFFFFFFFFFFFFFFF"},
     "nigh",
     4294967293u,
     4294967294u,
     4294967293u,
     4294967294u,
     "FFFFFFFFFFFFFFFF"},
    {"nigh wins over a launcher",
     {"NIGH_RANK=1", "NIGH_SIZE=2", "NIGH_JOB=7", "OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8"},
     "nigh",
     1,
     2,
     1,
     2,
     "NIGH_JOB=7"},
    {"Open MPI 4.1",
     {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
      "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=2132672513", "PMIX_RANK=1",
      "OMPI_MCA_orte_precondition_transports=7654ae68b78678ed-c6eb4e49ce49afbd"},
     "openmpi",
     1,
     2,
     1,
     2,
     "PMIX_NAMESPACE=2132672513"},
    {"Open MPI 5.0",
     {"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
      "OMPI_COMM_WORLD_LOCAL_SIZE=4", "PMIX_NAMESPACE=prterun-vm-6803@1", "PMIX_RANK=5"},
     "openmpi",
     5,
     8,
     1,
     4,
     "PMIX_NAMESPACE=prterun-vm-6803@1"},
    {"Open MPI without PMIx",
     {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1", "OMPI_MCA_ess_base_jobid=2132672513"},
     "openmpi",
     0,
     1,
     0,
     1,
     "2132672513"},
    {"mpirun in an allocation",
     {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=n", "SLURM_PROCID=0",
      "SLURM_STEP_ID=0", "SLURM_NTASKS=1", "SLURM_JOB_ID=5"},
     "openmpi",
     1,
     2,
     1,
     2,
     "PMIX_NAMESPACE=n"},
    {"MPICH",
     {"PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=8", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "HYDI_CONTROL_FD=7"},
     "hydra",
     1,
     2,
     1,
     2,
     "hydra=100@30"},
    {"MPICH in an allocation",
     {"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "SLURM_PROCID=0",
      "SLURM_STEP_ID=0", "SLURM_NTASKS=1", "SLURM_JOB_ID=5"},
     "hydra",
     1,
     2,
     1,
     2,
     "hydra=100@30"},
    {"gforker", {"PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=8"}, "hydra", 1, 2, 1, 2, "hydra=100@30"},
    {"MPICH with a job given",
     {"PMI_RANK=1", "PMI_SIZE=2", "NIGH_JOB=abc"},
     "hydra",
     1,
     2,
     1,
     2,
     "NIGH_JOB=abc"},
    {"srun",
     {"SLURM_PROCID=5", "SLURM_NTASKS=7", "SLURM_STEP_NUM_TASKS=6", "SLURM_LOCALID=1", "SLURM_NODEID=1",
      "SLURM_STEP_TASKS_PER_NODE=4,2", "SLURM_JOB_ID=81", "SLURM_STEP_ID=3"},
     "srun",
     5,
     6,
     1,
     2,
     "SLURM_JOB_ID=81 SLURM_STEP_ID=3"},
    {"srun, repeated counts, old names",
     {"SLURM_PROCID=10", "SLURM_NTASKS=11", "SLURM_LOCALID=2", "SLURM_NODEID=2",
      "SLURM_TASKS_PER_NODE=4(x2),3", "SLURM_JOBID=81", "SLURM_STEP_ID=0", "SLURM_CLUSTER_NAME=c"},
     "srun",
     10,
     11,
     2,
     3,
     "SLURM_CLUSTER_NAME=c"},
    {"srun --mpi=pmi2",
     {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=1", "SLURM_JOB_ID=81", "SLURM_STEP_ID=0",
      "PMI_RANK=1", "PMI_SIZE=2", "PMI_JOBID=81.0"},
     "srun",
     1,
     2,
     1,
     2,
     "SLURM_JOB_ID=81"},
    {"srun --mpi=pmix",
     {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=1", "SLURM_JOB_ID=81", "SLURM_STEP_ID=0",
      "PMIX_RANK=1", "PMIX_NAMESPACE=slurm.pmix.81.0"},
     "srun",
     1,
     2,
     1,
     2,
     "SLURM_JOB_ID=81"},
    {"srun with a script's WORLD_SIZE",
     {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=1", "SLURM_JOB_ID=81", "SLURM_STEP_ID=0",
      "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=1"},
     "srun",
     1,
     2,
     1,
     2,
     "SLURM_JOB_ID=81"},
    {"torchrun",
     {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
      "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=0"},
     "torchrun",
     3,
     4,
     1,
     2,
     "MASTER_PORT=29500"},
    {"torchrun in an allocation",
     {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
      "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=none", "SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_NTASKS=1"},
     "torchrun",
     3,
     4,
     1,
     2,
     "TORCHELASTIC_RUN_ID=none"},
    {"torch by hand",
     {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=29500"},
     "torch",
     1,
     2,
     1,
     2,
     "MASTER_ADDR=localhost"},
};

static void test_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(knowns) / sizeof(knowns[0]); i++) {
        const struct known *known = &knowns[i];
        struct nigh_launch launch;
        int rc = detect(known->environment, &launch);

        if (rc != 0)
            fail_msg("%s: %d %s", known->what, rc, rc == -EINVAL ? launch.error : "");
        if (strcmp(launch.launcher, known->launcher) != 0 || launch.rank != known->rank ||
            launch.size != known->size || launch.local_rank != known->local_rank ||
            launch.local_size != known->local_size || launch.job == 0 ||
            strstr(launch.job_text, known->text) == NULL || launch.error[0] != '\0')
            fail_msg("%s: got %s rank %u of %u, local %u of %u, job %llx from \"%s\", error \"%s\"",
                     known->what, launch.launcher, launch.rank, launch.size, launch.local_rank,
                     launch.local_size, (unsigned long long)launch.job, launch.job_text, launch.error);
    }
}

/* ---- unknown ---- */

static const char *const unknowns[][VARIABLES_MAX] = {
    {"HOME=/root"},
    /* a batch script and the shell of an interactive allocation: one process, not rank 0 of 4 */
    {"SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=200505", "SLURM_NODEID=0"},
    {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=200505", "SLURM_STEP_ID=4294967291"},
    {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=200505", "SLURM_STEP_ID=4294967290"},
    {"RANK=general"},
    {"MASTER_ADDR=a", "MASTER_PORT=1"},
    {"NIGH_LOG=info"},
    {"OMPI_MCA_btl=self"},
};

static void test_unknown_leaves_the_output_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(unknowns) / sizeof(unknowns[0]); i++) {
        struct nigh_launch launch, before;
        int rc;

        memset(&launch, 0x5a, sizeof(launch));
        before = launch;
        rc = detect(unknowns[i], &launch);
        if (rc != -ENOENT || memcmp(&launch, &before, sizeof(launch)) != 0)
            fail_msg("%s ...: %d", unknowns[i][0], rc);
    }
}

/* ---- refused ---- */

struct refused {
    const char *environment[VARIABLES_MAX];
    const char *says[3]; /* the variable, its value, what was expected */
};

#define SRUN "SLURM_PROCID=1", "SLURM_JOB_ID=81", "SLURM_STEP_ID=0"

static const struct refused refuseds[] = {
    {{"NIGH_RANK=1"}, {"NIGH_SIZE is not set", "NIGH_RANK"}},
    {{"NIGH_SIZE=1"}, {"NIGH_RANK is not set", "NIGH_SIZE"}},
    {{"NIGH_JOB=1"}, {"NIGH_JOB is \"1\"", "NIGH_RANK and NIGH_SIZE are not set"}},
    {{"NIGH_RANK=0", "NIGH_SIZE=2"}, {"NIGH_JOB is not set", "hexadecimal"}},
    {{"NIGH_RANK=2", "NIGH_SIZE=2", "NIGH_JOB=1"}, {"NIGH_RANK is \"2\"", "from 0 to 1"}},
    {{"NIGH_RANK=", "NIGH_SIZE=2", "NIGH_JOB=1"}, {"NIGH_RANK is \"\"", "from 0 to 1"}},
    {{"NIGH_RANK=-1", "NIGH_SIZE=2", "NIGH_JOB=1"}, {"NIGH_RANK is \"-1\""}},
    {{"NIGH_RANK=+1", "NIGH_SIZE=2", "NIGH_JOB=1"}, {"NIGH_RANK is \"+1\""}},
    {{"NIGH_RANK= 1", "NIGH_SIZE=2", "NIGH_JOB=1"}, {"NIGH_RANK is \" 1\""}},
    {{"NIGH_RANK=1x", "NIGH_SIZE=2", "NIGH_JOB=1"}, {"NIGH_RANK is \"1x\""}},
    {{"NIGH_RANK=0", "NIGH_SIZE=0", "NIGH_JOB=1"}, {"NIGH_SIZE is \"0\"", "from 1 to 4294967294"}},
    {{"NIGH_RANK=0", "NIGH_SIZE=4294967295", "NIGH_JOB=1"}, {"NIGH_SIZE is \"4294967295\""}},
    {{"NIGH_RANK=0", "NIGH_SIZE=18446744073709551617", "NIGH_JOB=1"},
     {"NIGH_SIZE is \"18446744073709551617\""}},
    {{"NIGH_RANK=0", "NIGH_SIZE=2", "NIGH_JOB=0"}, {"NIGH_JOB is \"0\"", "not all zero"}},
    {{"NIGH_RANK=0", "NIGH_SIZE=2", "NIGH_JOB="}, {"NIGH_JOB is \"\""}},
    {{"NIGH_RANK=0", "NIGH_SIZE=2", "NIGH_JOB=0x"}, {"NIGH_JOB is \"0x\""}},
    {{"NIGH_RANK=0", "NIGH_SIZE=2", "NIGH_JOB=myjob"}, {"NIGH_JOB is \"myjob\"", "hexadecimal"}},
    {{"NIGH_RANK=0", "NIGH_SIZE=2", "NIGH_JOB=10000000000000000"}, {"NIGH_JOB is \"10000000000000000\""}},
    {{"NIGH_RANK=0", "NIGH_SIZE=2", "NIGH_JOB=1", "NIGH_LOCAL_RANK=2"}, {"NIGH_LOCAL_RANK is \"2\"", "to 1"}},
    {{"NIGH_RANK=0", "NIGH_SIZE=2", "NIGH_JOB=1", "NIGH_LOCAL_SIZE=3"}, {"NIGH_LOCAL_SIZE is \"3\"", "to 2"}},
    {{"NIGH_RANK=0", "NIGH_SIZE=2", "NIGH_JOB=1", "NIGH_LOCAL_SIZE=1"}, {"NIGH_LOCAL_RANK is not set"}},
    {{"OMPI_COMM_WORLD_RANK=1"}, {"OMPI_COMM_WORLD_SIZE is not set", "NIGH_RANK"}},
    {{"OMPI_COMM_WORLD_SIZE=1"}, {"OMPI_COMM_WORLD_RANK is not set"}},
    {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2"}, {"PMIX_NAMESPACE is not set", "NIGH_JOB"}},
    {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE="}, {"PMIX_NAMESPACE is empty"}},
    {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1", "PMIX_NAMESPACE=n", "PMI_RANK=1", "PMI_SIZE=4",
      "MPI_LOCALRANKID=1"},
     {"OMPI_COMM_WORLD_RANK is \"0\"", "PMI_RANK is \"1\"", "two launchers"}},
    {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1", "PMIX_NAMESPACE=n", "PMI_RANK=0", "PMI_SIZE=4",
      "MPI_LOCALRANKID=0"},
     {"OMPI_COMM_WORLD_SIZE is \"1\"", "PMI_SIZE is \"4\""}},
    {{"PMI_RANK=0"}, {"PMI_SIZE is not set"}},
    {{"PMI_SIZE=2"}, {"PMI_RANK is not set"}},
    {{"PMI_ID=0", "PMI_PORT=vm:5000"}, {"PMI_SIZE is not set"}},
    {{"PMI_RANK=zero", "PMI_SIZE=2"}, {"PMI_RANK is \"zero\""}},
    {{"SLURM_STEP_ID=0", "SLURM_JOB_ID=1", "SLURM_NTASKS=2"}, {"SLURM_PROCID is not set"}},
    {{SRUN}, {"SLURM_STEP_NUM_TASKS is not set"}},
    {{"SLURM_PROCID=1", "SLURM_STEP_ID=0", "SLURM_NTASKS=2"}, {"SLURM_JOB_ID is not set"}},
    {{SRUN, "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=2(x"}, {"SLURM_TASKS_PER_NODE is \"2(x\"", "4(x2),3"}},
    {{SRUN, "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=2(x0)"}, {"SLURM_TASKS_PER_NODE is \"2(x0)\""}},
    {{SRUN, "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=2;1"}, {"SLURM_TASKS_PER_NODE is \"2;1\""}},
    {{SRUN, "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE="}, {"SLURM_TASKS_PER_NODE is \"\""}},
    {{SRUN, "SLURM_NTASKS=4", "SLURM_TASKS_PER_NODE=2(x2)", "SLURM_NODEID=2"}, {"for SLURM_NODEID 2"}},
    {{SRUN, "SLURM_NTASKS=4", "SLURM_TASKS_PER_NODE=2(x2)", "SLURM_NODEID=x"}, {"SLURM_NODEID is \"x\""}},
    {{"TORCHELASTIC_RUN_ID=a", "RANK=0"}, {"WORLD_SIZE is not set"}},
    {{"TORCHELASTIC_RUN_ID=a", "RANK=0", "WORLD_SIZE=1"}, {"MASTER_ADDR is not set"}},
    {{"RANK=0", "MASTER_ADDR=a"}, {"WORLD_SIZE is not set"}},
    {{"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=a"}, {"MASTER_PORT is not set"}},
    {{"PMIX_RANK=3", "PMIX_NAMESPACE=prterun-vm-1@1"}, {"PMIX_RANK is \"3\"", "NIGH_SIZE"}},
};

static void test_refused_says_which_variable(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refuseds) / sizeof(refuseds[0]); i++) {
        const struct refused *refused = &refuseds[i];
        struct nigh_launch launch = {.rank = 77, .job = 78};
        int rc = detect(refused->environment, &launch);

        if (rc != -EINVAL || launch.rank != 77 || launch.job != 78)
            fail_msg("%s ...: %d, rank %u", refused->environment[0], rc, launch.rank);
        for (size_t j = 0; j < 3 && refused->says[j] != NULL; j++)
            if (strstr(launch.error, refused->says[j]) == NULL)
                fail_msg("%s ...: \"%s\" does not say: %s", refused->environment[0], launch.error,
                         refused->says[j]);
    }
}

static void test_long_values_are_cut_not_overrun(void **state)
{
    char value[5000] = "OMPI_COMM_WORLD_RANK=", name[5000] = "PMIX_NAMESPACE=";
    const char *bad[] = {value, "OMPI_COMM_WORLD_SIZE=2", NULL};
    const char *good[] = {"OMPI_COMM_WORLD_RANK=0",
                          "OMPI_COMM_WORLD_SIZE=2",
                          name,
                          "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                          "OMPI_MCA_orte_precondition_transports=x",
                          NULL};
    struct nigh_launch launch;

    (void)state;
    memset(value + strlen(value), '9', 4000);
    memset(name + strlen(name), 'n', 4000);
    assert_int_equal(detect(bad, &launch), -EINVAL);
    assert_true(strlen(launch.error) < NIGH_LAUNCH_ERROR_BYTES);
    assert_int_equal(detect(good, &launch), 0);
    assert_int_equal(strlen(launch.job_text), NIGH_LAUNCH_TEXT_BYTES - 1);
}

/* ---- jobs ---- */

static uint64_t job_of(const char *const *environment)
{
    struct nigh_launch launch;
    int rc = detect(environment, &launch);

    if (rc != 0)
        fail_msg("%s ...: %d %s", environment[0], rc, rc == -EINVAL ? launch.error : "");
    return launch.job;
}

/* Two ranks of one job, then a rank of another job on the same machine. */
static const char *const jobs[][3][VARIABLES_MAX] = {
    {{"NIGH_RANK=0", "NIGH_SIZE=2", "NIGH_JOB=0xabc"},
     {"NIGH_RANK=1", "NIGH_SIZE=2", "NIGH_JOB=0ABC"},
     {"NIGH_RANK=0", "NIGH_SIZE=2", "NIGH_JOB=abd"}},
    {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=prterun-vm-6803@1", "PMIX_RANK=0"},
     {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=prterun-vm-6803@1", "PMIX_RANK=1"},
     {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=prterun-vm-6803@2", "PMIX_RANK=0"}},
    /* two mpiruns of Open MPI 4 whose namespaces collide in their 16 bits */
    {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=7",
      "OMPI_MCA_orte_precondition_transports=a-b"},
     {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=7",
      "OMPI_MCA_orte_precondition_transports=a-b"},
     {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=7",
      "OMPI_MCA_orte_precondition_transports=a-c"}},
    {{"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=81", "SLURM_STEP_ID=1"},
     {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_ID=81", "SLURM_STEP_ID=1"},
     {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=8", "SLURM_STEP_ID=11"}},
    {{"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=81", "SLURM_STEP_ID=1", "SLURM_CLUSTER_NAME=a"},
     {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOBID=81", "SLURM_STEP_ID=1", "SLURM_CLUSTER_NAME=a"},
     {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=81", "SLURM_STEP_ID=1", "SLURM_CLUSTER_NAME=b"}},
    {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=1", "TORCHELASTIC_RUN_ID=none",
      "TORCHELASTIC_RESTART_COUNT=0"},
     {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=1", "TORCHELASTIC_RUN_ID=none",
      "TORCHELASTIC_RESTART_COUNT=1"},
     {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=2", "TORCHELASTIC_RUN_ID=none"}},
    {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=1", "TORCHELASTIC_RUN_ID=a"},
     {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=1", "TORCHELASTIC_RUN_ID=a"},
     {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=1", "TORCHELASTIC_RUN_ID=b"}},
};

static void test_jobs_differ_and_ranks_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        uint64_t first = job_of(jobs[i][0]), second = job_of(jobs[i][1]), other = job_of(jobs[i][2]);

        if (first != second || first == other)
            fail_msg("%s %s: %llx, %llx, other %llx", jobs[i][0][0], jobs[i][0][2], (unsigned long long)first,
                     (unsigned long long)second, (unsigned long long)other);
    }
}

static void test_nigh_job_is_taken_literally(void **state)
{
    static const char *const environment[] = {"NIGH_RANK=0", "NIGH_SIZE=1", "NIGH_JOB=0x0123456789abcdef",
                                              NULL};
    uint64_t job = 9;

    (void)state;
    assert_int_equal(job_of(environment), UINT64_C(0x0123456789abcdef));
    assert_int_equal(nigh_launcher_parse_job("0x10", &job), 0);
    assert_int_equal(job, 16);
    assert_int_equal(nigh_launcher_parse_job("10 ", &job), -EINVAL);
    assert_int_equal(job, 16);
}

/* MPICH names no job in the environment: the proxy's pid and start time stand for it. */
static void test_hydra_job_is_its_proxy(void **state)
{
    static const char *const environment[] = {"PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALRANKID=0", NULL};
    struct machine machine = hydra_machine(environment, 30), reused = hydra_machine(environment, 31);
    struct nigh_launch first, again, other;

    (void)state;
    assert_int_equal(detect_on(&machine, &first), 0);
    machine.processes[0].parent = 100; /* another rank, without the shell */
    machine.processes[0].pid = 301;
    assert_int_equal(detect_on(&machine, &again), 0);
    assert_int_equal(first.job, again.job);
    assert_int_equal(detect_on(&reused, &other), 0); /* the same pid, later */
    assert_true(first.job != other.job);
}

static void test_hydra_without_a_proxy_in_sight(void **state)
{
    static const char *const intel[] = {"PMI_RANK=0", "PMI_SIZE=2", "I_MPI_HYDRA_UUID=fd180000-a3d7", NULL};
    static const char *const mpich[] = {"PMI_RANK=0", "PMI_SIZE=2", NULL};
    struct machine machine = {.environment = intel, .processes = {{300, 1, 50, "prog"}, {1, 0, 1, "init"}}};
    struct nigh_launch launch;

    (void)state;
    assert_int_equal(detect_on(&machine, &launch), 0);
    assert_string_equal(launch.job_text, "I_MPI_HYDRA_UUID=fd180000-a3d7");
    machine.environment = mpich;
    assert_int_equal(detect_on(&machine, &launch), -EINVAL);
    assert_non_null(strstr(launch.error, "hydra_pmi_proxy"));
    assert_non_null(strstr(launch.error, "NIGH_JOB"));
    machine.processes[1].parent = 300; /* a circle ends */
    assert_int_equal(detect_on(&machine, &launch), -EINVAL);
}

/* ---- the real machine ---- */

static void test_real_environment_and_processes(void **state)
{
    struct nigh_launch launch;

    (void)state;
    assert_int_equal(setenv("NIGH_RANK", "1", 1), 0);
    assert_int_equal(setenv("NIGH_SIZE", "2", 1), 0);
    assert_int_equal(setenv("NIGH_JOB", "f00", 1), 0);
    assert_int_equal(nigh_launcher_detect(&launch), 0);
    assert_string_equal(launch.launcher, "nigh");
    assert_int_equal(launch.rank, 1);
    assert_int_equal(launch.job, 0xf00);
    unsetenv("NIGH_RANK");
    unsetenv("NIGH_SIZE");
    unsetenv("NIGH_JOB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_unknown_leaves_the_output_alone),
        cmocka_unit_test(test_refused_says_which_variable),
        cmocka_unit_test(test_long_values_are_cut_not_overrun),
        cmocka_unit_test(test_jobs_differ_and_ranks_agree),
        cmocka_unit_test(test_nigh_job_is_taken_literally),
        cmocka_unit_test(test_hydra_job_is_its_proxy),
        cmocka_unit_test(test_hydra_without_a_proxy_in_sight),
        cmocka_unit_test(test_real_environment_and_processes),
    };

    return cmocka_run_group_tests_name("launcher", tests, NULL, NULL);
}

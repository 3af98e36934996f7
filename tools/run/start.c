/* SPDX-License-Identifier: BSD-3-Clause */
/* From a command line to running ranks: places, the job's id, and one process after the other. */
#include "tools/run/start.h"
#include "include/common/proc.h"
#include "shm/clock.h"
#include "tools/mpi/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

static int start_rank(struct run_job *job, uint32_t number, const struct run_start *start)
{
    struct run_rank *rank = &job->ranks[number];
    struct run_start_error error;
    char cpus[256];
    int ends[2], rc = run_output_connect(&job->output, number, ends);

    if (rc != 0) {
        run_output_say(&job->output, "cannot make pipes for rank %" PRIu32 ": %s", number, strerror(-rc));
        return RUN_FAILED;
    }
    rc = run_rank_start(rank, number, start, ends, &error);
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    if (rc != 0) {
        run_output_say(&job->output, "cannot %s \"%s\" (rank %" PRIu32 "): %s", error.step,
                       rank->program->argv[0], number, strerror(error.number));
        if (strcmp(error.step, "execute") != 0)
            return RUN_FAILED;
        return error.number == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
    }
    job->running++;
    run_binding_text(start->binding, number, cpus, sizeof(cpus));
    if (job->options->verbose)
        run_output_say(&job->output, "rank %" PRIu32 ": pid %d, CPUs %s, %s", number, (int)rank->pid, cpus,
                       rank->program->argv[0]);
    return 0;
}

static int start_ranks(struct run_job *job, const struct run_start *start)
{
    uint32_t number = 0;

    for (uint32_t i = 0; i < job->options->program_count; i++) {
        for (uint32_t j = 0; j < job->options->programs[i].ranks; j++, number++) {
            int status;

            job->ranks[number].program = &job->options->programs[i];
            status = start_rank(job, number, start);
            if (status != 0)
                return status;
        }
    }
    return 0;
}

/* Lives as long as this process, and needs no descriptor in the ranks' programs: some close all. */
static void open_lives(struct run_job *job, struct run_start *start)
{
    static const char cost[] = "the programs of a rank cannot be told apart: start one program a rank, no "
                               "script of several";
    pid_t me = nigh_proc_self(); /* as the ranks will find it */
    char name[64];
    int fd;

    snprintf(name, sizeof(name), "nigh-lives-%016" PRIx64, start->job);
    fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)(start->ranks * sizeof(uint64_t))) != 0)
        run_output_say(&job->output, "no memory for counts (%s): %s", strerror(errno), cost);
    else if (me == 0)
        run_output_say(&job->output, "/proc is not mounted here, or shows other processes: %s, or mount it",
                       cost);
    else
        snprintf(start->lives, sizeof(start->lives), "/proc/%d/fd/%d", (int)me, fd);
}

static int look_at_machine(struct run_job *job, struct run_binding *binding)
{
    static const char *const names[] = {"core", "l3", "numa", "none"};
    const struct run_options *options = job->options;
    int rc = run_binding_open(binding, options->bind, options->ranks);

    if (rc == -ENODEV)
        run_output_say(&job->output, "--bind is \"%s\", but this machine shows none: use another, or none",
                       names[options->bind]);
    else if (rc != 0)
        run_output_say(&job->output, "cannot read the machine's topology: %s", strerror(-rc));
    else if (options->bind == RUN_BIND_CORE && run_binding_oversubscribed(binding))
        run_output_say(&job->output, "%" PRIu32 " ranks on %" PRIu32 " cores: none is bound to a core",
                       options->ranks, binding->cores);
    return rc;
}

static bool has_own(const struct run_program *program, const char *variable)
{
    size_t name = strcspn(variable, "=") + 1;

    for (uint32_t i = 0; i < program->variable_count; i++)
        if (strncmp(program->variables[i], variable, name) == 0)
            return true;
    return false;
}

/* Whose command line has the variable itself gets that. */
static void say_turns(struct run_job *job, const char *variable)
{
    uint32_t own = 0;

    for (uint32_t i = 0; i < job->options->program_count; i++)
        own += has_own(&job->options->programs[i], variable);
    if (own < job->options->program_count)
        run_output_say(&job->output, "%s: %s", own ? "ranks without a -x of it" : "all ranks", variable);
}

static void ease_turns(struct run_job *job, struct run_start *start)
{
    if (!run_binding_crowded(start->binding))
        return;
    start->turns = mpi_turns();
    if (start->turns && job->options->verbose)
        say_turns(job, start->turns);
}

/* Labels take two descriptors a rank; the soft limit is often 1024. Ranks are started with what it was. */
static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void release_stdin(void)
{
    /* whoever writes to a rank's stdin must see it end when that rank does */
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (nothing > 0) {
        dup2(nothing, STDIN_FILENO);
        close(nothing);
    }
}

int run_start(struct run_job *job, const struct run_keeper_start *from)
{
    struct run_start start = {.ranks = from->options->ranks,
                              .stdin_rank = from->options->stdin_rank,
                              .stdin_fd = from->stdin_fd,
                              .mask = from->mask,
                              .pipe = from->pipe,
                              .ttou = from->ttou};
    struct run_binding binding;
    int status = RUN_FAILED;

    getrlimit(RLIMIT_NOFILE, &start.descriptors);
    if (from->options->label)
        raise_descriptors();
    while (start.job == 0)
        if (getrandom(&start.job, sizeof(start.job), 0) != sizeof(start.job))
            start.job = 0;
    run_output_fold(&job->output, start.ranks, start.job);
    run_fold_variable(&job->output.fold, start.lines, sizeof(start.lines));
    open_lives(job, &start);
    job->started_ns = nigh_clock_ns();
    if (look_at_machine(job, &binding) == 0) {
        start.binding = &binding;
        ease_turns(job, &start);
        status = start_ranks(job, &start);
        run_binding_close(&binding);
        free(start.turns);
    }
    if (from->stdin_fd != STDIN_FILENO)
        close(from->stdin_fd);
    release_stdin();
    return status;
}

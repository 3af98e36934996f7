/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-top: what the ranks of a running job do and wait for, seen from outside. */
#include "tools/top/graph.h"
#include "tools/top/json.h"
#include "tools/top/print.h"
#include "tools/top/screen.h"

#include "config.h"
#include "tools/standard.h"

#include <argp.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) const char *argp_program_version = "nigh-top " PACKAGE_VERSION;

enum { KEY_JSON = 256, KEY_LIST, KEY_ONCE };

static const struct argp_option options[] = {
    {"interval", 'i', "SECONDS", 0, "Time between two readings (default 1; with --once and --json 0.2)", 0},
    {"job", 'j', "ID", 0, "This job, where there are several: its id as --list prints it", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object and end", 0},
    {"list", KEY_LIST, NULL, 0, "List the jobs and end", 0},
    {"once", KEY_ONCE, NULL, 0, "Print the view as text and end", 0},
    {0},
};

struct command {
    bool json, once, list, chosen;
    uint64_t job;
    double seconds;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct command *command = state->input;
    char *end;

    switch (key) {
    case 'i':
        command->seconds = strtod(argument, &end);
        if (end == argument || *end || !isfinite(command->seconds) || command->seconds < 0.01 ||
            command->seconds > 3600)
            argp_error(state, "--interval is \"%s\": expected seconds from 0.01 to 3600", argument);
        return 0;
    case 'j':
        command->job = strtoull(argument, &end, 16);
        command->chosen = true;
        if (*end || !*argument || strspn(argument, "0123456789abcdefABCDEF") != strlen(argument) ||
            strlen(argument) > 16)
            argp_error(state, "--job is \"%s\": expected 1 to 16 hexadecimal digits, as --list prints them",
                       argument);
        return 0;
    case KEY_JSON:
        command->json = true;
        return 0;
    case KEY_LIST:
        command->list = true;
        return 0;
    case KEY_ONCE:
        command->once = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "\"%s\" is too much: a job is chosen by --job", argument);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int written(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    perror("nigh-top: cannot write");
    return 1;
}

static int print_json(json_t *object)
{
    int failed = !object || json_dumpf(object, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);

    putchar('\n');
    json_decref(object);
    return written() || failed;
}

/* ---- which job ------------------------------------------------------------------------------------------- */

/* What may be the reason that there is less to see than somebody expects. */
static void explain(const struct top_crop *crop)
{
    if (crop->others)
        fprintf(stderr, "nigh-top: %u processes use another version of nigh: take its nigh-top\n",
                crop->others);
    if (crop->hidden)
        fprintf(
            stderr,
            "nigh-top: %u processes of yours may not be inspected (they have changed their user, or closed "
            "themselves to it): run as root\n",
            crop->hidden);
}

static int none(const struct command *command, const struct top_crop *crop)
{
    if (command->chosen)
        fprintf(stderr,
                "nigh-top: no rank of job %016" PRIx64 " runs here; --list names those that there are\n",
                command->job);
    else if (geteuid() == 0)
        fprintf(stderr, "nigh-top: no process here is in a job of nigh\n");
    else
        fprintf(stderr,
                "nigh-top: no process of yours here is in a job of nigh; root sees those of all users\n");
    explain(crop);
    return 1;
}

static int several(const struct command *command, const struct top_crop *crop)
{
    if (command->json)
        return print_json(top_json_jobs(crop));
    top_print_jobs(stdout, crop);
    if (!command->list)
        fprintf(stderr, "nigh-top: there are several jobs: choose one by --job\n");
    return written() || !command->list ? 2 : 0;
}

static bool has(const struct top_crop *crop, uint64_t job)
{
    for (size_t i = 0; i < crop->count; i++)
        if (crop->all[i].arena.job == job)
            return true;
    return false;
}

/* ---- views ----------------------------------------------------------------------------------------------- */

/* Looking for ranks costs a walk through all processes: at most once a second, and once in ten when all are here. */
void top_refresh(struct top_job *job)
{
    uint64_t old = top_now_ns() - job->looked_ns;
    struct top_crop crop;

    if (old > UINT64_C(10000000000) || (job->count < job->ranks && old > UINT64_C(1000000000))) {
        if (top_find(&crop) == 0) {
            (void)top_job_join(job, &crop); /* without memory it stays as it was */
            top_crop_free(&crop);
        }
    }
    top_job_read(job);
    top_graph_judge(job);
}

static int once(const struct command *command, struct top_job *job)
{
    double seconds = command->seconds > 0 ? command->seconds : 0.2;
    struct timespec pause = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(fmod(seconds, 1) * 1e9)};

    top_refresh(job);
    while (nanosleep(&pause, &pause) != 0)
        continue;
    top_refresh(job);
    if (command->json)
        return print_json(top_json(job));
    top_print(stdout, job);
    return written();
}

static int watch(const struct command *command, struct top_job *job)
{
#if HAVE_NCURSES
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
        fprintf(stderr, "nigh-top: the view needs a terminal; --once and --json do not\n");
        return 1;
    }
    return top_screen(job, command->seconds > 0 ? command->seconds : 1);
#else
    (void)command;
    (void)job;
    fprintf(stderr,
            "nigh-top: the view was left out of this build, which had no ncurses; --once and --json work\n");
    return 1;
#endif
}

static int run(const struct command *command, struct top_crop *crop)
{
    struct top_job job = {.id = command->job};
    int status;

    if (!command->chosen)
        job.id = crop->all[0].arena.job;
    if (top_job_join(&job, crop)) {
        fprintf(stderr, "nigh-top: no memory\n");
        status = 1;
    } else {
        status = command->json || command->once ? once(command, &job) : watch(command, &job);
    }
    top_job_free(&job);
    return status;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc =
            "Shows what each rank of a running job does, what it waits for and since when, how many messages "
            "it moves and which way they take, and who waits for whom in a circle.\v"
            "It reads memory that the ranks share and disturbs none of them. Exit status: 0; 1 there is no "
            "such "
            "job, or it cannot be shown; 2 there are several jobs and none was chosen; 64 wrong usage.",
    };
    struct command command = {0};
    struct top_crop crop;
    int status, rc;

    if (!tool_fill_standard())
        return 1; /* nobody would read why */
    argp_parse(&argp, argc, argv, 0, NULL, &command);
    rc = top_find(&crop);
    if (rc) {
        fprintf(stderr, "nigh-top: cannot look for jobs in /proc: %s%s\n", strerror(-rc),
                rc == -ENOENT ? "; it is not mounted here: mount it" : "");
        return 1;
    }
    if (command.list && crop.count)
        status = several(&command, &crop);
    else if (crop.count == 0 || (command.chosen && !has(&crop, command.job)))
        status = none(&command, &crop);
    else if (!command.chosen && crop.all[0].arena.job != crop.all[crop.count - 1].arena.job)
        status = several(&command, &crop);
    else
        status = run(&command, &crop);
    top_crop_free(&crop);
    return status;
}

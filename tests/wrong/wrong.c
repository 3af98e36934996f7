/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the corpus: every program, or those named. Prints for each its name, what it was told, and whether that is
 * right. The ranks are forked here; a few programs run at a time, because most of them wait.
 */
#include "tests/wrong/wrong.h"

#include <regex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { AT_A_TIME = 4, SECONDS = 200, SAID = 16384 };

static const struct wrong *const kinds[] = {
    wrong_collectives, wrong_deadlocks, wrong_matching, wrong_requests, wrong_memory,
    wrong_ends,        wrong_arguments, wrong_right,    wrong_premises,
};

/* Some of these programs end in the middle of things: what they leave is their own mistake. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

void wrong_told(int rc)
{
    if (rc)
        fprintf(stderr, "returned %s\n", strerrorname_np(-rc));
}

void wrong_nap(unsigned ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&nap, NULL);
}

static FILE *all_said[WRONG_RANKS];

void wrong_nap_until(int rank, const char *text)
{
    static char said[SAID];
    ssize_t bytes;

    do {
        wrong_nap(10);
        bytes = pread(fileno(all_said[rank]), said, sizeof(said) - 1, 0);
        said[bytes > 0 ? bytes : 0] = '\0';
    } while (!strstr(said, text));
}

/* ---- one program ----------------------------------------------------------------------------------------- */

static void set_environment(const char *list)
{
    char *copy = list ? strdup(list) : NULL;

    for (char *at = copy, *word; (word = strsep(&at, " "));)
        putenv(word);
}

static void live(const struct wrong *program, int rank, uint64_t job)
{
    char text[32];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(SECONDS);
    snprintf(text, sizeof(text), "%d", rank);
    setenv("NIGH_RANK", text, 1);
    snprintf(text, sizeof(text), "%d", program->ranks);
    setenv("NIGH_SIZE", text, 1);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)job);
    setenv("NIGH_JOB", text, 1);
    set_environment(program->environment);
    if (program->flags & WRONG_LOOSE) {
        program->body(rank, program->ranks);
    } else {
        if (nigh_init(NULL))
            _exit(1);
        program->body(rank, program->ranks);
        (void)nigh_finalize();
    }
    exit(0);
}

struct run {
    FILE *said[WRONG_RANKS];
    pid_t pid[WRONG_RANKS];
    int status[WRONG_RANKS];
};

static void start(struct run *run, const struct wrong *program)
{
    uint64_t job = (uint64_t)getpid() << 20 | 7;

    for (int rank = 0; rank < program->ranks; rank++)
        all_said[rank] = run->said[rank] = tmpfile();
    for (int rank = 0; rank < program->ranks; rank++) {
        fflush(NULL);
        run->pid[rank] = fork();
        if (run->pid[rank] == 0) {
            dup2(fileno(run->said[rank]), STDERR_FILENO);
            dup2(fileno(run->said[rank]), STDOUT_FILENO);
            live(program, rank, job);
        }
    }
    for (int rank = 0; rank < program->ranks; rank++)
        waitpid(run->pid[rank], &run->status[rank], 0);
}

static const char *expected_of(const struct wrong *program, int rank)
{
    int given = 0;

    for (int i = 0; i < WRONG_RANKS; i++)
        given = program->expect[i] ? i + 1 : given;
    return given == 1 ? program->expect[0] : program->expect[rank];
}

static bool matches(const char *said, const char *pattern, regmatch_t *where)
{
    regex_t regex;
    bool yes;

    if (!*pattern)
        return !*said;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NEWLINE) != 0) {
        printf("    the pattern cannot be read: %s\n", pattern);
        return false;
    }
    yes = regexec(&regex, said, 1, where, 0) == 0;
    regfree(&regex);
    return yes;
}

/* The line of `said` in which the match begins. */
static void print_line(int rank, const char *said, regoff_t at)
{
    const char *begin = said + at, *end;

    while (begin > said && begin[-1] != '\n')
        begin--;
    end = strchr(begin, '\n');
    printf("    rank %d: %.*s\n", rank, end ? (int)(end - begin) : (int)strlen(begin), begin);
}

static bool judge_rank(const struct wrong *program, struct run *run, int rank)
{
    const char *pattern = expected_of(program, rank);
    char said[SAID];
    ssize_t bytes = pread(fileno(run->said[rank]), said, sizeof(said) - 1, 0);
    bool ended = (WIFEXITED(run->status[rank]) && WEXITSTATUS(run->status[rank]) == 0) ||
                 program->flags & WRONG_KILLED;
    regmatch_t where = {0};
    bool good;

    said[bytes > 0 ? bytes : 0] = '\0';
    good = ended && pattern && matches(said, pattern, &where);
    if (good && *pattern && where.rm_eo > where.rm_so)
        print_line(rank, said, where.rm_so);
    if (!good)
        printf("    WRONG: rank %d (status 0x%x) should have been told: %s\n    It was told:\n%s", rank,
               run->status[rank], pattern ? pattern : "(no pattern)", said);
    return good;
}

static bool run_one(const struct wrong *program)
{
    struct run run = {0};
    bool good = true;

    start(&run, program);
    for (int rank = 0; rank < program->ranks; rank++)
        good &= judge_rank(program, &run, rank);
    return good;
}

/* ---- all of them ------------------------------------------------------------------------------------------ */

struct job {
    const struct wrong *program;
    FILE *out;
    pid_t pid;
};

static void begin(struct job *job, const struct wrong *program)
{
    *job = (struct job){.program = program, .out = tmpfile()};
    fflush(NULL);
    job->pid = fork();
    if (job->pid == 0) {
        dup2(fileno(job->out), STDOUT_FILENO);
        _exit((run_one(program) ? 0 : 1) | (fflush(stdout) ? 2 : 0));
    }
}

static bool tap; /* the tests' driver counts each program */
static int reported;

static void print_all(FILE *file)
{
    char text[SAID];
    ssize_t bytes;
    off_t at = 0;

    while ((bytes = pread(fileno(file), text, sizeof(text), at)) > 0) {
        fwrite(text, 1, (size_t)bytes, stdout);
        at += bytes;
    }
}

/* The tests' driver takes what stands before a verdict for its reason; people look for it below the name. */
static bool finish(struct job *job)
{
    int status;

    waitpid(job->pid, &status, 0);
    if (tap)
        print_all(job->out);
    if (tap)
        printf("%s %d - %s\n", status ? "not ok" : "ok", ++reported, job->program->name);
    else
        printf("%s  %s\n", status ? "wrong" : "right", job->program->name);
    if (!tap)
        print_all(job->out);
    fclose(job->out);
    return status == 0;
}

static bool is_named(const char *name, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

static int count_programs(int count, char **names)
{
    int found = 0;

    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
        for (const struct wrong *program = kinds[kind]; program->name; program++)
            found += is_named(program->name, count, names);
    return found;
}

int main(int argc, char **argv)
{
    struct job jobs[AT_A_TIME];
    int started = 0, finished = 0, right = 0;
    const char *output = getenv("CMOCKA_MESSAGE_OUTPUT");

    tap = output && strcmp(output, "TAP") == 0;
    if (tap)
        printf("1..%d\n", count_programs(argc - 1, argv + 1));
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
        for (const struct wrong *program = kinds[kind]; program->name; program++) {
            if (!is_named(program->name, argc - 1, argv + 1))
                continue;
            if (started - finished == AT_A_TIME)
                right += finish(&jobs[finished++ % AT_A_TIME]);
            begin(&jobs[started++ % AT_A_TIME], program);
        }
    while (finished < started)
        right += finish(&jobs[finished++ % AT_A_TIME]);
    if (!tap)
        printf("%d programs, %d right, %d wrong\n", started, right, started - right);
    return started == 0 || right != started;
}

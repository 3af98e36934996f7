/* SPDX-License-Identifier: BSD-3-Clause */
/* The watch over a job: one loop over exits, the front's signals, the clock and the ranks' output. */
#include "tools/run/keeper.h"
#include "shm/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/run/orphans.h"
#include "tools/run/output.h"
#include "tools/run/report.h"
#include "tools/run/start.h"

struct keeper {
    struct run_job job;
    struct pollfd *polls;
    int control_fd, child_fd;
    bool ending;      /* TERM is sent, or was by the front's user */
    bool interrupted; /* a signal that usually ends programs was passed on */
    bool front_gone;
    pid_t first_dead; /* the child that ended before all others since the last look; 0: not known */
    uint64_t timeout_at, kill_at; /* 0: not set */
    uint64_t stopped_at;          /* 0: not stopped */
};

/* ---- ending ---- */

static void signal_all(struct keeper *keeper, int number)
{
    for (uint32_t i = 0; i < keeper->job.options->ranks; i++)
        run_rank_signal(&keeper->job.ranks[i], number);
}

/* `term`: false when the ranks have just been sent such a signal by the user and may be busy obeying. */
static void end_job(struct keeper *keeper, bool term)
{
    keeper->timeout_at = 0;
    if (keeper->ending)
        return;
    keeper->ending = true;
    keeper->kill_at = nigh_clock_ns() + keeper->job.options->grace_ns;
    if (!term)
        return;
    signal_all(keeper, SIGTERM);
    signal_all(keeper, SIGCONT); /* a stopped rank would not see it */
}

static void kill_job(struct keeper *keeper)
{
    keeper->ending = true;
    keeper->kill_at = 0;
    signal_all(keeper, SIGKILL);
}

static void fail_job(struct keeper *keeper, int status)
{
    if (keeper->job.status == 0)
        keeper->job.status = status;
}

/* ---- exits ---- */

static void report_failure(struct keeper *keeper, uint32_t number, bool ends)
{
    const struct run_rank *rank = &keeper->job.ranks[number];
    const char *hint = "";
    char what[64], rest[96] = "";

    run_rank_text(rank, what, sizeof(what));
    if (ends && keeper->job.running > 0)
        snprintf(rest, sizeof(rest), "; ending the other %" PRIu32 " of %" PRIu32 " ranks",
                 keeper->job.running, keeper->job.options->ranks);
    if (run_rank_status(rank) == RUN_NOT_FOUND) /* the dynamic linker's status, too, and a shell's */
        hint = " (if a library is missing: ldconfig or LD_LIBRARY_PATH)";
    run_output_say(&keeper->job.output, "rank %" PRIu32 " (pid %d, %s) %s after %.3f s%s%s", number,
                   (int)rank->pid, rank->program->argv[0], what,
                   (double)(rank->ended_ns - keeper->job.started_ns) / 1e9, hint, rest);
}

/* Of ranks found dead at one look, the first is the cause: the others may be its victims. Where that is not known, one
 * that crashed is likelier than one that gave up. */
static bool is_better_cause(const struct keeper *keeper, const struct run_rank *rank,
                            const struct run_rank *than)
{
    if (than == NULL || rank->pid == keeper->first_dead)
        return true;
    return than->pid != keeper->first_dead && WIFSIGNALED(rank->wait_status) &&
           !WIFSIGNALED(than->wait_status);
}

static struct run_rank *find_rank(struct keeper *keeper, pid_t pid)
{
    for (uint32_t i = 0; i < keeper->job.options->ranks; i++)
        if (keeper->job.ranks[i].running && keeper->job.ranks[i].pid == pid)
            return &keeper->job.ranks[i];
    return NULL; /* an orphan of a rank */
}

static void note_failure(struct keeper *keeper, const struct run_rank *rank)
{
    bool first = keeper->job.status == 0, ends = !keeper->job.options->keep_going && !keeper->ending;

    fail_job(keeper, run_rank_status(rank));
    if (first || keeper->job.options->keep_going || keeper->job.options->verbose)
        report_failure(keeper, (uint32_t)(rank - keeper->job.ranks), ends && !keeper->interrupted);
    if (ends)
        end_job(keeper, !keeper->interrupted);
}

static void reap(struct keeper *keeper)
{
    struct run_rank *cause = NULL;
    uint64_t now = nigh_clock_ns();
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct run_rank *rank = find_rank(keeper, pid);

        if (rank == NULL)
            continue;
        rank->running = false;
        rank->wait_status = status;
        rank->ended_ns = now;
        keeper->job.running--;
        if (run_rank_failed(rank) && is_better_cause(keeper, rank, cause))
            cause = rank;
    }
    if (cause == NULL)
        return;
    note_failure(keeper, cause);
    if (keeper->job.options->keep_going || keeper->job.options->verbose)
        for (uint32_t i = 0; i < keeper->job.options->ranks; i++)
            if (keeper->job.ranks[i].ended_ns == now && run_rank_failed(&keeper->job.ranks[i]) &&
                &keeper->job.ranks[i] != cause)
                report_failure(keeper, i, false);
}

/* ---- the front's signals ---- */

static void pause_clock(struct keeper *keeper, bool pause)
{
    uint64_t now = nigh_clock_ns();

    if (pause && keeper->stopped_at == 0)
        keeper->stopped_at = now;
    if (pause || keeper->stopped_at == 0)
        return;
    if (keeper->timeout_at != 0)
        keeper->timeout_at += now - keeper->stopped_at;
    if (keeper->kill_at != 0)
        keeper->kill_at += now - keeper->stopped_at;
    keeper->stopped_at = 0;
}

/* The first is the ranks' own business; whoever sends a second one wants the job to end. */
static void interrupt(struct keeper *keeper, int number)
{
    bool insists = number == SIGINT || number == SIGTERM;

    if (insists && keeper->ending) {
        kill_job(keeper);
    } else if (insists && keeper->interrupted) {
        run_output_say(&keeper->job.output, "second SIG%s: ending the job", sigabbrev_np(number));
        fail_job(keeper, RUN_SIGNALLED + number);
        end_job(keeper, true);
    } else {
        keeper->interrupted = true;
        signal_all(keeper, number);
    }
}

static void obey(struct keeper *keeper, int number)
{
    switch (number) {
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
        interrupt(keeper, number);
        return;
    case SIGTSTP:
    case SIGCONT:
        pause_clock(keeper, number == SIGTSTP);
        break;
    }
    signal_all(keeper, number);
}

static void read_control(struct keeper *keeper)
{
    unsigned char numbers[64];
    ssize_t count = read(keeper->control_fd, numbers, sizeof(numbers));

    if (count == 0) {
        keeper->front_gone = true;
        fail_job(keeper, RUN_FAILED);
        kill_job(keeper);
    }
    for (ssize_t i = 0; i < count; i++)
        obey(keeper, numbers[i]);
}

/* ---- the clock ---- */

static void check_clock(struct keeper *keeper)
{
    uint64_t now = nigh_clock_ns();
    char ranks[512];

    if (keeper->stopped_at != 0)
        return;
    if (keeper->timeout_at != 0 && now >= keeper->timeout_at && keeper->job.running > 0) {
        run_report_ranks(keeper->job.ranks, keeper->job.options->ranks, ranks, sizeof(ranks));
        run_output_say(&keeper->job.output, "ended after %.3f s (--timeout); %s still ran",
                       (double)(now - keeper->job.started_ns) / 1e9, ranks);
        keeper->job.status = RUN_TIMED_OUT;
        end_job(keeper, true);
    }
    if (keeper->kill_at != 0 && now >= keeper->kill_at) {
        run_report_ranks(keeper->job.ranks, keeper->job.options->ranks, ranks, sizeof(ranks));
        if (keeper->job.options->verbose && keeper->job.running > 0)
            run_output_say(&keeper->job.output, "%s did not end within %.3f s: killing", ranks,
                           (double)keeper->job.options->grace_ns / 1e9);
        kill_job(keeper);
    }
}

static int clock_ms(const struct keeper *keeper)
{
    uint64_t at = keeper->kill_at != 0 ? keeper->kill_at : keeper->timeout_at, now;

    if (at == 0 || keeper->stopped_at != 0)
        return -1;
    now = nigh_clock_ns();
    if (at <= now)
        return 0;
    return at - now > UINT64_C(3600000000000) ? 3600000 : (int)((at - now + 999999) / 1000000);
}

static int poll_ms(const struct keeper *keeper)
{
    int clock = clock_ms(keeper), output = run_output_wait_ms(&keeper->job.output);

    return clock < 0 || (output >= 0 && output < clock) ? output : clock;
}

/* ---- the loop ---- */

/* Of a signal that is pending the kernel keeps what it was sent with first; waitpid goes by the order of birth. */
static void read_child(struct keeper *keeper)
{
    struct signalfd_siginfo info;
    ssize_t bytes = read(keeper->child_fd, &info, sizeof(info));

    if (bytes < 0 && errno != EAGAIN)
        abort();
    if (bytes == sizeof(info) && info.ssi_code != CLD_STOPPED && info.ssi_code != CLD_CONTINUED)
        keeper->first_dead = (pid_t)info.ssi_pid;
}

static void step(struct keeper *keeper)
{
    size_t count = 2;

    keeper->first_dead = 0;
    keeper->polls[0] = (struct pollfd){.fd = keeper->front_gone ? -1 : keeper->control_fd, .events = POLLIN};
    keeper->polls[1] = (struct pollfd){.fd = keeper->child_fd, .events = POLLIN};
    count += run_output_poll_fill(&keeper->job.output, keeper->polls + 2);
    if (poll(keeper->polls, count, poll_ms(keeper)) < 0)
        count = 2; /* nothing is said of any */
    else if (keeper->polls[0].revents != 0)
        read_control(keeper);
    run_output_handle(&keeper->job.output, keeper->polls + 2, count - 2);
    /* Also of what has died since the poll: output may have taken long. */
    read_child(keeper);
    reap(keeper);
    check_clock(keeper);
}

/* ---- begin and end ---- */

static int open_keeper(struct keeper *keeper, const struct run_keeper_start *start)
{
    const struct run_options *options = start->options;
    sigset_t child;

    *keeper = (struct keeper){.job.options = options, .control_fd = start->control_fd};
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    keeper->child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    keeper->job.ranks = calloc(options->ranks, sizeof(*keeper->job.ranks));
    if (keeper->child_fd < 0 || keeper->job.ranks == NULL ||
        run_output_open(&keeper->job.output, options->ranks, options->label) != 0)
        return -ENOMEM;
    keeper->polls = calloc(run_output_poll_max(&keeper->job.output) + 2, sizeof(*keeper->polls));
    return keeper->polls == NULL ? -ENOMEM : 0;
}

static void start_job(struct keeper *keeper, const struct run_keeper_start *start)
{
    int status = run_start(&keeper->job, start);

    if (status != 0) {
        fail_job(keeper, status);
        end_job(keeper, true);
    } else if (start->options->timeout_ns != 0) {
        keeper->timeout_at = keeper->job.started_ns + start->options->timeout_ns;
    }
}

/* What is left of the time between TERM and KILL. */
static uint64_t grace_left(const struct keeper *keeper)
{
    uint64_t now = nigh_clock_ns();

    if (!keeper->ending)
        return keeper->job.options->grace_ns;
    return keeper->kill_at > now ? keeper->kill_at - now : 0;
}

static void end_orphans(struct keeper *keeper)
{
    struct run_orphans orphans;

    run_orphans_end(grace_left(keeper), &orphans);
    if (orphans.ended > 0 && !keeper->ending)
        run_output_say(&keeper->job.output, "ended %" PRIu32 " process(es) that ranks had left behind",
                       orphans.ended);
    if (orphans.left > 0)
        run_output_say(&keeper->job.output, "%" PRIu32 " process(es) of ranks cannot be ended", orphans.left);
}

/* Whoever reads our output may take their time, unless somebody interrupts. */
static void flush(struct keeper *keeper)
{
    run_output_end(&keeper->job.output);
    keeper->interrupted = false;
    while (run_output_pending(&keeper->job.output) && !keeper->front_gone && !keeper->interrupted)
        step(keeper);
}

int run_keeper(const struct run_keeper_start *start)
{
    struct keeper keeper;

    prctl(PR_SET_NAME, "nigh-run-keeper");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (open_keeper(&keeper, start) != 0) {
        fprintf(stderr, "nigh-run: out of memory or descriptors\n");
        return RUN_FAILED;
    }
    start_job(&keeper, start);
    while (keeper.job.running > 0)
        step(&keeper);
    end_orphans(&keeper);
    if (keeper.job.options->verbose)
        run_output_say(&keeper.job.output, "job ended after %.3f s with status %d",
                       (double)(nigh_clock_ns() - keeper.job.started_ns) / 1e9, keeper.job.status);
    flush(&keeper);
    run_output_close(&keeper.job.output);
    free(keeper.job.ranks);
    free(keeper.polls);
    close(keeper.child_fd);
    return keeper.job.status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/main.c - nccl-host: runs the rules, each in two processes of its own, and says as TAP which are broken. */
#include "tests/hosts/nccl/bench.h"

#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct rule *const groups[] = {rules_set_up, rules_data, rules_device, rules_end, rules_careful};

enum { GROUPS = sizeof(groups) / sizeof(groups[0]), RANKS = 2 };

static struct settings {
    const char *path, *direct, *cuda;
    int versions[3], count;
    bool careful, bench, list, apart, json;
    double patience, death_ms, seconds;
    char **names; /* of rules; none: all */
    int named;
} settings = {.versions = {12, 11, 10}, .count = 3, .patience = 10, .seconds = 10};

/* One rule's run: what its ranks say, through pipes. */
struct run {
    pid_t pids[RANKS];
    int says[RANKS], status[RANKS];
    struct seen *seen; /* shared with the ranks */
    char why[RANKS][WHY_BYTES];
};

/* ---- a rank ----------------------------------------------------------------------------------------------------- */

static void be_rank(const struct rule *rule, int version, int number, int other, int say, struct seen *seen)
{
    static char why[WHY_BYTES];
    struct rank rank = {
        .number = number, .other = other, .patience = settings.patience, .seen = seen, .why = why};
    bool well;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    host_seen = seen;
    if (settings.apart)
        apart_enter(number);
    if (rule->boots)
        apart_boot(number);
    well = (!settings.cuda || device_load(settings.cuda, why)) &&
           net_load(&rank.net, settings.path, version, why) && rule->run(&rank);
    if (!well && write(say, why, strlen(why)) < 0)
        _exit(3);
    exit(well ? 0 : 1); /* sanitizers look for leaks */
}

static bool start(struct run *run, const struct rule *rule, int version)
{
    int ends[RANKS], says[RANKS][2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return false;
    fflush(NULL);
    for (int i = 0; i < RANKS; i++) {
        if (pipe(says[i]))
            return false;
        run->pids[i] = fork();
        if (run->pids[i] < 0)
            return false;
        if (run->pids[i] == 0) {
            close(ends[!i]);
            if (i == 1)
                close(run->says[0]);
            close(says[i][0]);
            be_rank(rule, version, i, ends[i], says[i][1], &run->seen[i]);
        }
        close(says[i][1]);
        run->says[i] = says[i][0];
    }
    close(ends[0]);
    close(ends[1]);
    return true;
}

/* ---- how it ended ----------------------------------------------------------------------------------------------- */

static const char no_namespaces[] = "the kernel gives no namespaces of one's own here";

static void describe(const struct run *run, int i, char *why)
{
    const char *call = run->seen[i].call;

    if (WIFSIGNALED(run->status[i]))
        snprintf(why, WHY_BYTES, "rank %d was ended by %s; its last call was %s()", i,
                 strsignal(WTERMSIG(run->status[i])), call ? call : "none");
    else
        snprintf(why, WHY_BYTES, "rank %d: %s", i, run->why[i][0] ? run->why[i] : "ended without a word");
}

static void hear(struct run *run, int i)
{
    size_t have = strlen(run->why[i]);
    ssize_t more = read(run->says[i], run->why[i] + have, WHY_BYTES - 1 - have);

    if (more > 0)
        run->why[i][have + (size_t)more] = '\0';
}

/* Waits for both, or ends them. Returns false when they had to be ended. */
static bool await(struct run *run)
{
    double end = host_now() + 3 * settings.patience;
    int open = RANKS;

    while (open && host_now() < end) {
        open = 0;
        for (int i = 0; i < RANKS; i++) {
            struct pollfd ready = {.fd = run->says[i], .events = POLLIN};

            if (run->pids[i] == 0)
                continue;
            if (poll(&ready, 1, 5) > 0 && (ready.revents & POLLIN))
                hear(run, i);
            if (waitpid(run->pids[i], &run->status[i], WNOHANG) == run->pids[i]) {
                run->pids[i] = 0;
                hear(run, i);
            } else {
                open++;
            }
        }
    }
    for (int i = 0; i < RANKS; i++) {
        if (run->pids[i]) {
            kill(run->pids[i], SIGKILL);
            waitpid(run->pids[i], &run->status[i], 0);
        }
        close(run->says[i]);
    }
    return open == 0;
}

/* The rank whose word counts, or -1: what the other one finds may be no more than its end. A signal that nobody here sent comes
 * first; then the rank that was the first to find the rule broken; then one that ended without a word. */
static int breaker(const struct rule *rule, const struct run *run, bool came_back)
{
    int from = rule->one ? 1 : 0, first = -1;

    for (int i = from; came_back && i < RANKS; i++)
        if (WIFSIGNALED(run->status[i]))
            return i;
    for (int i = from; i < RANKS; i++)
        if (run->why[i][0] && (first < 0 || run->seen[i].broken_ns < run->seen[first].broken_ns))
            first = i;
    for (int i = from; first < 0 && came_back && i < RANKS; i++)
        first = run->status[i] ? i : -1;
    return first;
}

static bool judge(const struct rule *rule, struct run *run, char *why)
{
    bool came_back = await(run);
    int first;

    for (int i = 0; i < RANKS; i++)
        if ((settings.apart || rule->boots) && WIFEXITED(run->status[i]) &&
            WEXITSTATUS(run->status[i]) == APART_NONE) {
            snprintf(why, WHY_BYTES, "%s", no_namespaces);
            return false;
        }

    first = breaker(rule, run, came_back);
    if (first >= 0) {
        describe(run, first, why);
        return false;
    }
    for (int i = 0; !came_back && i < RANKS; i++) {
        const char *call = run->seen[i].call;

        if (WIFSIGNALED(run->status[i]) && WTERMSIG(run->status[i]) == SIGKILL)
            snprintf(why, WHY_BYTES, "rank %d does not come back; its last call was %s()", i,
                     call ? call : "none");
    }
    return came_back;
}

static bool hold(const struct rule *rule, int version, char *why, double *death_ms)
{
    struct run run = {.seen = mmap(NULL, RANKS * sizeof(struct seen), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    bool well;

    if (!start(&run, rule, version)) {
        snprintf(why, WHY_BYTES, "no process, pipe or socket for the ranks");
        return false;
    }
    well = judge(rule, &run, why);
    *death_ms = (double)run.seen[1].death_ns * 1e-6;
    if (well && settings.death_ms > 0 && rule->one && *death_ms > settings.death_ms) {
        snprintf(why, WHY_BYTES, "the error came after %.1f ms: %.1f are allowed", *death_ms,
                 settings.death_ms);
        well = false;
    }
    munmap(run.seen, RANKS * sizeof(struct seen));
    return well;
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static bool wanted(const struct rule *rule)
{
    for (int i = 0; i < settings.named; i++)
        if (strcmp(settings.names[i], rule->name) == 0)
            return true;
    return settings.named == 0 && !rule->boots && (!rule->cuda || settings.cuda) &&
           (!rule->careful || settings.careful);
}

/* Calls `each` for what is wanted; returns how many there are. */
static int walk(int version, int (*each)(const struct rule *rule, int version), int *failed)
{
    int count = 0;

    for (int group = 0; group < GROUPS; group++)
        for (const struct rule *rule = groups[group]; rule->name; rule++)
            if (wanted(rule) && version >= rule->since) {
                count++;
                *failed += each ? each(rule, version) : 0;
            }
    return count;
}

static int run_one(const struct rule *rule, int version)
{
    static int number;
    char why[WHY_BYTES] = "";
    double death_ms = 0;
    bool well = hold(rule, version, why, &death_ms);

    if (strcmp(why, no_namespaces) == 0) {
        printf("ok %d # SKIP v%d %s: %s\n", ++number, version, rule->name, why);
        return 0;
    }
    printf("%s %d - v%d %s: %s\n", well ? "ok" : "not ok", ++number, version, rule->name, rule->sentence);
    if (!well)
        printf("# broken: %s\n", why);
    else if (rule->one && death_ms > 0)
        printf("# the error came %.2f ms after the other rank's end\n", death_ms);
    fflush(stdout);
    return !well;
}

static int usage(int status);

static int run_all(void)
{
    int count = 0, failed = 0;

    for (int i = 0; i < settings.count; i++)
        count += walk(settings.versions[i], NULL, &failed);
    if (count == 0)
        return usage(64);
    printf("1..%d\n", count);
    for (int i = 0; i < settings.count; i++)
        (void)walk(settings.versions[i], run_one, &failed);
    return failed ? 1 : 0;
}

static int usage(int status)
{
    fputs("usage: nccl-host [--table 12|11|10] [--careful] [--apart] [--patience SECONDS] [--death "
          "MILLISECONDS] [--cuda LIBCUDA] "
          "PLUGIN [RULE...]\n"
          "       nccl-host --bench [--table 12|11|10] [--direct NIGH.SO] [--seconds S] [--json] PLUGIN...\n"
          "       nccl-host --list\n",
          status ? stderr : stdout);
    return status;
}

static int list(void)
{
    for (int group = 0; group < GROUPS; group++)
        for (const struct rule *rule = groups[group]; rule->name; rule++)
            printf("%-14s %s%s\n", rule->name, rule->sentence,
                   rule->boots     ? " (by name alone)"
                   : rule->cuda    ? " (--cuda)"
                   : rule->careful ? " (--careful)"
                                   : "");
    return 0;
}

static bool parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"table", required_argument, NULL, 't'},    {"careful", no_argument, NULL, 'c'},
        {"patience", required_argument, NULL, 'p'}, {"death", required_argument, NULL, 'd'},
        {"bench", no_argument, NULL, 'b'},          {"direct", required_argument, NULL, 'n'},
        {"seconds", required_argument, NULL, 's'},  {"json", no_argument, NULL, 'j'},
        {"list", no_argument, NULL, 'l'},           {"apart", no_argument, NULL, 'a'},
        {"cuda", required_argument, NULL, 'g'},     {NULL, 0, NULL, 0}};
    int key;

    while ((key = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (key == 't') {
            settings.versions[0] = atoi(optarg);
            settings.count = 1;
        }
        settings.careful |= key == 'c';
        settings.bench |= key == 'b';
        settings.list |= key == 'l';
        settings.apart |= key == 'a';
        settings.json |= key == 'j';
        settings.seconds = key == 's' ? atof(optarg) : settings.seconds;
        settings.cuda = key == 'g' ? optarg : settings.cuda;
        settings.direct = key == 'n' ? optarg : settings.direct;
        settings.patience = key == 'p' ? atof(optarg) : settings.patience;
        settings.death_ms = key == 'd' ? atof(optarg) : settings.death_ms;
        if (key == '?')
            return false;
    }
    if (settings.list)
        return true;
    if (optind >= argc || settings.seconds <= 0 || (settings.bench && argc - optind > BENCH_PLUGINS) ||
        settings.versions[0] < 10 || settings.versions[0] > 12 || settings.patience <= 0)
        return false;
    settings.path = argv[optind];
    settings.names = argv + optind + 1;
    settings.named = argc - optind - 1;
    return true;
}

static int run_bench(void)
{
    const struct bench_options options = {.paths =
                                              settings.names - 1, /* the first plugin and those behind it */
                                          .count = settings.named + 1,
                                          .version = settings.versions[0],
                                          .direct = settings.direct,
                                          .seconds = settings.seconds,
                                          .json = settings.json};

    return bench(&options);
}

int main(int argc, char **argv)
{
    if (!parse(argc, argv))
        return usage(64);
    if (settings.list)
        return list();
    if (settings.bench)
        return run_bench();
    return run_all();
}

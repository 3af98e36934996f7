/* SPDX-License-Identifier: BSD-3-Clause */
/* The peers of nigh-perf: each that is installed does a round, sleeps between rounds, and leaves nothing running,
 * also when it is killed. No figure is judged, only that there is one. */
#include "tools/perf/peers.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FAMILY_MAX 256

struct member {
    pid_t pid, parent;
    unsigned long ticks; /* CPU time */
    bool ours;
};

static int cpus[2];

static bool read_member(pid_t pid, struct member *m)
{
    char path[64], text[1024];
    long parent;
    unsigned long user, system;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = 0;
    char *after = strrchr(text, ')');
    if (!after || sscanf(after + 1, " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &parent, &user,
                         &system) != 3)
        return false;
    *m = (struct member){.pid = pid, .parent = (pid_t)parent, .ticks = user + system};
    return true;
}

/* The descendants of this process, parents before children. */
static int family(struct member *out)
{
    static struct member all[65536];
    DIR *proc = opendir("/proc");
    int count = 0, found = 0;

    assert_non_null(proc);
    for (struct dirent *entry; (entry = readdir(proc)) && count < 65536;) {
        int pid = atoi(entry->d_name);
        count += pid > 0 && read_member(pid, &all[count]);
    }
    closedir(proc);
    for (int from = -1; from < found && found < FAMILY_MAX; from++) {
        pid_t parent = from < 0 ? getpid() : out[from].pid;
        for (int i = 0; i < count && found < FAMILY_MAX; i++) {
            if (all[i].parent == parent)
                out[found++] = all[i];
        }
    }
    return found;
}

static unsigned long family_ticks(void)
{
    struct member members[FAMILY_MAX];
    int count = family(members);
    unsigned long ticks = 0;

    for (int i = 0; i < count; i++)
        ticks += members[i].ticks;
    return ticks;
}

static void assert_alone(void)
{
    struct member members[FAMILY_MAX];
    int count = family(members);

    for (int i = 0; i < count; i++)
        print_error("left running: %d\n", members[i].pid);
    assert_int_equal(count, 0);
}

static struct perf_case latency(void)
{
    return (struct perf_case){
        .test = "latency", .bytes = 8, .ranks = 2, .seconds = 0.002, .cpus = cpus, .unit = "ns"};
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static struct perf_peer *open_or_skip(const char *name)
{
    char why[PERF_WHY_BYTES] = "";
    struct perf_case c = latency();
    struct perf_peer *peer = NULL;
    int rc = perf_peer_open(name, &c, &peer, why, sizeof why);

    if (rc == -ENOSYS) {
        print_message("skipped: %s: %s\n", name, why);
        skip();
    }
    if (rc)
        print_error("%s: %s\n", name, why);
    assert_int_equal(rc, 0);
    return peer;
}

static void one_round(struct perf_peer *peer, const char *test, uint64_t bytes, uint32_t window,
                      const char *unit)
{
    struct perf_case c = latency();
    struct perf_peer_round round = {0};

    c.test = test;
    c.bytes = bytes;
    c.window = window;
    c.unit = unit;
    int rc = perf_peer_round(peer, &c, &round);
    if (rc)
        print_error("%s of %llu bytes: %s\n", test, (unsigned long long)bytes, perf_peer_said(peer));
    assert_int_equal(rc, 0);
    print_message("  %-10s %8llu bytes %10.4g %s (p50 %.0f ns, p99 %.0f ns, L %.0f and %.0f ns)\n", test,
                  (unsigned long long)bytes, round.value, unit, round.p50, round.p99, round.handoff_before,
                  round.handoff_after);
    /* Sane on any machine: no message is faster than 1 ns, and none takes a minute. */
    assert_true(round.value > 0 && round.samples > 0);
    assert_true(round.p50 > 1 && round.p50 < 60e9);
    assert_true(round.best <= round.p50 && round.p50 <= round.p99);
    assert_true(round.handoff_before > 1 && round.handoff_after > 1);
}

static void assert_asleep(void)
{
    unsigned long before, after, least = ULONG_MAX;

    /* The best of three: right after a round its end may still be running. */
    for (int i = 0; i < 3; i++) {
        before = family_ticks();
        usleep(200000);
        after = family_ticks();
        least = after - before < least ? after - before : least;
    }
    print_message("  asleep: %lu ticks of CPU time in 200 ms\n", least);
    assert_true(least <= 1);
}

static void peer_works(void **state)
{
    const char *name = *state;
    struct perf_peer *peer = open_or_skip(name);
    struct perf_case overlap = latency();
    struct perf_peer_round round;

    print_message("%s: %s\n  %s\n", name, perf_peer_version(peer), perf_peer_command(peer));
    one_round(peer, "latency", 8, 1, "ns");
    one_round(peer, "latency", 8192, 1, "us");
    one_round(peer, "rate", 8, 64, "M/s");
    one_round(peer, "bandwidth", 262144, 8, "GB/s");
    one_round(peer, "sends", 65536, 8, "GB/s");
    if (strcmp(name, "ucx")) {
        one_round(peer, "barrier", 8, 1, "ns");
        one_round(peer, "allreduce", 8, 1, "ns");
        one_round(peer, "allreduce", 32768, 1, "us");
        one_round(peer, "bcast", 32768, 1, "us");
    }
    overlap.test = "overlap";
    assert_int_equal(perf_peer_round(peer, &overlap, &round), -EOPNOTSUPP);
    overlap = latency();
    overlap.bytes = 12;
    assert_int_equal(perf_peer_round(peer, &overlap, &round), -EINVAL);
    assert_asleep();
    one_round(peer, "latency", 8, 1, "ns");
    perf_peer_close(peer);
    assert_alone();
}

/* The last of the family is a rank: launchers come before what they start. */
static void rank_dies(void **state)
{
    const char *name = *state;
    struct perf_peer *peer = open_or_skip(name);
    struct perf_case c = latency();
    struct perf_peer_round round;
    struct member members[FAMILY_MAX];
    int count = family(members), rc;

    assert_true(count >= 3);
    assert_int_equal(kill(members[count - 1].pid, SIGKILL), 0);
    rc = perf_peer_round(peer, &c, &round);
    print_message("%s: a rank was killed: round says %s\n", name, strerror(-rc));
    assert_true(rc == -EIO || rc == -ETIMEDOUT);
    assert_int_equal(perf_peer_round(peer, &c, &round), -EIO);
    perf_peer_close(peer);
    assert_alone();
}

/* Runs rounds until it is killed. */
static void measure_for_ever(const char *name, int told)
{
    char why[PERF_WHY_BYTES];
    struct perf_case c = latency();
    struct perf_peer *peer = NULL;
    struct perf_peer_round round;

    if (perf_peer_open(name, &c, &peer, why, sizeof why))
        _exit(1);
    while (!perf_peer_round(peer, &c, &round)) {
        if (write(told, "r", 1) != 1)
            break;
    }
    _exit(1);
}

static bool directory_is_empty(const char *path)
{
    DIR *directory = opendir(path);
    bool empty = true;

    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        empty = empty && entry->d_name[0] == '.';
    closedir(directory);
    return empty;
}

/* The files in /dev/shm that the family maps; returns how many. */
static int shared_files(char paths[][PATH_MAX], int max)
{
    struct member members[FAMILY_MAX];
    char name[64], line[PATH_MAX + 128];
    int count = family(members), found = 0;

    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "/proc/%d/maps", members[i].pid);
        FILE *file = fopen(name, "re");
        while (file && fgets(line, sizeof line, file) && found < max) {
            char *path = strstr(line, "/dev/shm/");
            line[strcspn(line, "\n")] = 0;
            if (path && !strstr(path, "(deleted)"))
                snprintf(paths[found++], PATH_MAX, "%s", path);
        }
        if (file)
            fclose(file);
    }
    return found;
}

/* Orphans come to this process, so that none can hide; true when all have ended within a minute. */
static bool family_ends(void)
{
    struct member members[FAMILY_MAX];

    for (int i = 0; i < 3000; i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (family(members) == 0)
            return true;
        usleep(20000);
    }
    return false;
}

/* What has killed the launcher's ranks has also woken the launcher, which then tidies up: within a minute. */
static void assert_gone(char paths[][PATH_MAX], int files)
{
    for (int i = 0; i < files; i++) {
        for (int tries = 0; tries < 3000 && access(paths[i], F_OK) == 0; tries++)
            usleep(20000);
        if (access(paths[i], F_OK) == 0)
            fail_msg("%s is left", paths[i]);
    }
}

static void measurer_is_killed(void **state)
{
    static char paths[64][PATH_MAX];
    const char *name = *state, *base = getenv("TMPDIR");
    char why[PERF_WHY_BYTES], directory[PATH_MAX], was[PATH_MAX], byte;
    int told[2];

    if (perf_peer_installed(name, why, sizeof why)) {
        print_message("skipped: %s: %s\n", name, why);
        skip();
    }
    snprintf(was, sizeof was, "%s", base ? base : "/tmp");
    snprintf(directory, sizeof directory, "%.4000s/peers_test_XXXXXX", was);
    assert_non_null(mkdtemp(directory));
    setenv("TMPDIR", directory, 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0)
        measure_for_ever(name, told[1]);
    close(told[1]);
    assert_int_equal(read(told[0], &byte, 1), 1);
    int files = shared_files(paths, 64);
    assert_int_equal(kill(child, SIGKILL), 0);
    close(told[0]);
    bool ended = family_ends();
    print_message("%s: %d mappings of files in /dev/shm, none may be left\n", name, files);
    assert_true(ended);
    assert_gone(paths, files);
    assert_true(directory_is_empty(directory));
    rmdir(directory);
    if (base)
        setenv("TMPDIR", was, 1);
    else
        unsetenv("TMPDIR");
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static void rank_hangs(void **state)
{
    static char paths[64][PATH_MAX];
    const char *name = *state;
    struct perf_peer *peer = open_or_skip(name);
    struct perf_case c = latency();
    struct perf_peer_round round;
    struct member members[FAMILY_MAX];
    int count = family(members);

    int files = shared_files(paths, 64);

    assert_true(count >= 3);
    assert_int_equal(kill(members[count - 1].pid, SIGSTOP), 0);
    assert_int_equal(perf_peer_round(peer, &c, &round), -ETIMEDOUT);
    perf_peer_close(peer);
    assert_alone();
    assert_gone(paths, files);
}

/* nigh-perf forks its ranks after it has opened the peers. */
static void forked_child_measures(void **state)
{
    const char *name = *state;
    struct perf_peer *peer = open_or_skip(name);
    struct perf_case c = latency();
    struct perf_peer_round round;
    int status = -1;

    pid_t child = fork();
    if (child == 0)
        _exit(perf_peer_round(peer, &c, &round) ? 1 : 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    one_round(peer, "latency", 8, 1, "ns");
    perf_peer_close(peer);
    assert_alone();
}

static void crowded_ranks(void **state)
{
    char why[PERF_WHY_BYTES] = "";
    int many[4] = {cpus[0], cpus[1], cpus[0], cpus[1]};
    struct perf_case c = {
        .test = "barrier", .bytes = 8, .ranks = 4, .seconds = 0.002, .cpus = many, .unit = "us"};
    struct perf_peer_round round;
    struct perf_peer *peer;
    int rc = perf_peer_open(*state, &c, &peer, why, sizeof why);

    if (rc == -ENOSYS) {
        print_message("skipped: %s\n", why);
        skip();
    }
    assert_int_equal(rc, 0);
    assert_int_equal(perf_peer_round(peer, &c, &round), 0);
    print_message("%s: barrier of 4 ranks on 2 CPUs: %.3g us\n", (char *)*state, round.value);
    assert_true(round.value > 0);
    perf_peer_close(peer);
    assert_alone();
}

static void unknown_name(void **state)
{
    char why[PERF_WHY_BYTES];
    (void)state;

    assert_int_equal(perf_peer_installed("nonesuch", why, sizeof why), -ENOENT);
    assert_non_null(strstr(why, "nonesuch"));
}

static void missing_peer(void **state)
{
    char why[PERF_WHY_BYTES], was[PATH_MAX] = "";
    const char *home = getenv("NIGH_PEERS");
    (void)state;

    snprintf(was, sizeof was, "%s", home ? home : "");
    setenv("NIGH_PEERS", "/nonexistent", 1);
    assert_int_equal(perf_peer_installed("intel", why, sizeof why), -ENOSYS);
    assert_non_null(strstr(why, "not installed"));
    assert_non_null(strstr(why, "tests/peers.sh"));
    if (home)
        setenv("NIGH_PEERS", was, 1);
    else
        unsetenv("NIGH_PEERS");
}

static void missing_sources(void **state)
{
    char why[PERF_WHY_BYTES] = "", was[PATH_MAX];
    const char *names[16];
    struct perf_case c = latency();
    struct perf_peer *peer = NULL;
    size_t count = perf_peer_names(names, 16), i = 0;
    (void)state;

    while (i < count && perf_peer_installed(names[i], why, sizeof why))
        i++;
    if (i == count) {
        print_message("skipped: %s: %s\n", names[i - 1], why);
        skip();
    }
    snprintf(was, sizeof was, "%s", getenv("NIGH_PEER_SOURCES"));
    setenv("NIGH_PEER_SOURCES", "/nonexistent", 1);
    assert_int_equal(perf_peer_open(names[i], &c, &peer, why, sizeof why), -ENOENT);
    assert_non_null(strstr(why, "/nonexistent/tools/perf/peer_"));
    assert_null(peer);
    setenv("NIGH_PEER_SOURCES", was, 1);
}

/* Two CPUs of those that this process may use; the same one twice where there is one. */
static void choose_cpus(void)
{
    cpu_set_t set;
    int found = 0;

    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++) {
        if (CPU_ISSET(cpu, &set))
            cpus[found++] = cpu;
    }
    if (found == 1)
        cpus[1] = cpus[0];
}

int main(void)
{
    static char openmpi[] = "openmpi", mpich[] = "mpich";
    static struct CMUnitTest tests[32] = {
        {"unknown_name", unknown_name, NULL, NULL, NULL},
        {"missing_peer", missing_peer, NULL, NULL, NULL},
        {"missing_sources", missing_sources, NULL, NULL, NULL},
        {"forked_child_measures_openmpi", forked_child_measures, NULL, NULL, openmpi},
        {"rank_hangs_openmpi", rank_hangs, NULL, NULL, openmpi},
        {"rank_dies_openmpi", rank_dies, NULL, NULL, openmpi},
        {"rank_dies_mpich", rank_dies, NULL, NULL, mpich},
        {"crowded_ranks_openmpi", crowded_ranks, NULL, NULL, openmpi},
    };
    static char titles[32][40];
    const char *names[16], *source = getenv("NIGH_SRCDIR");
    size_t count = perf_peer_names(names, 16), first = 8;

    setenv("NIGH_PEER_SOURCES", source ? source : ".", 0);
    choose_cpus();
    /* A sanitized provider cannot be loaded into an MPI that is not; those over nigh are the last. */
    while (SANITIZED && count && strchr(names[count - 1], '+'))
        printf("# left out, as the provider is sanitized and the MPI is not: %s\n", names[--count]);
    for (size_t i = 0; i < 2 * count; i++) {
        const char *name = names[i / 2];
        snprintf(titles[i], sizeof titles[i], i % 2 ? "measurer_is_killed_%s" : "peer_works_%s", name);
        tests[first + i] = (struct CMUnitTest){titles[i], i % 2 ? measurer_is_killed : peer_works, NULL, NULL,
                                               (void *)(uintptr_t)name};
    }
    return _cmocka_run_group_tests("peers", tests, first + 2 * count, NULL, NULL);
}

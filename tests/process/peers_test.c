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
    if (i == count)
        skip();
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
        {"rank_dies_openmpi", rank_dies, NULL, NULL, openmpi},
        {"rank_dies_mpich", rank_dies, NULL, NULL, mpich},
        {"crowded_ranks_openmpi", crowded_ranks, NULL, NULL, openmpi},
    };
    static char titles[16][32];
    const char *names[16], *source = getenv("NIGH_SRCDIR");
    size_t count = perf_peer_names(names, 16), first = 6;

    setenv("NIGH_PEER_SOURCES", source ? source : ".", 0);
    choose_cpus();
    for (size_t i = 0; i < count; i++) {
        snprintf(titles[i], sizeof titles[i], "peer_works_%s", names[i]);
        tests[first + i] =
            (struct CMUnitTest){titles[i], peer_works, NULL, NULL, (void *)(uintptr_t)names[i]};
    }
    return _cmocka_run_group_tests("peers", tests, first + count, NULL, NULL);
}

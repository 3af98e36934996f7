/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a peer's rank that is the same for every peer; see peer_rank.h. */
#include "tools/perf/peer_rank.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define HANDOFF_GROUPS 8
#define HANDOFF_TRIPS  64
#define LINE_MAX_BYTES 1024

/* ---- command line ---- */

int peer_wrong(const char *what, const char *value)
{
    fprintf(stderr,
            "peer: %s '%s'; options: --control NAME | --cpus A,B --name NAME --tests T:BYTES,... --rounds N "
            "--ranks N --cuda SIDES --stale\n",
            what, value);
    return -1;
}

int peer_options_read(struct peer_options *options, int argc, char **argv)
{
    *options = (struct peer_options){.rounds = 31, .ranks = 2};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--stale")) {
            options->stale = 1;
            continue;
        }
        if (!value)
            return peer_wrong("unknown, or needs a value:", argv[i]);
        if (!strcmp(argv[i], "--control"))
            options->control = value;
        else if (!strcmp(argv[i], "--cpus"))
            options->cpus = value;
        else if (!strcmp(argv[i], "--name"))
            options->name = value;
        else if (!strcmp(argv[i], "--tests"))
            options->tests = value;
        else if (!strcmp(argv[i], "--cuda"))
            options->cuda = value;
        else if (!strcmp(argv[i], "--rounds"))
            options->rounds = atoi(value);
        else if (!strcmp(argv[i], "--ranks"))
            options->ranks = atoi(value);
        else
            return peer_wrong("unknown option", argv[i]);
        i++;
    }
    if (options->rounds < 1 || options->ranks < 2 || options->ranks > PEER_RANKS_MAX)
        return peer_wrong("rounds are at least 1, ranks 2 to 256, not", argv[argc - 1]);
    return 0;
}

int peer_pin(const struct peer_options *options, int rank)
{
    int cpus[1024], count = 0;
    cpu_set_t set;

    if (!options->cpus)
        return 0;
    for (const char *at = options->cpus; *at && count < 1024;) {
        char *end;
        long cpu = strtol(at, &end, 10);
        if (end == at || cpu < 0 || cpu >= CPU_SETSIZE || (*end && *end != ','))
            return peer_wrong("--cpus wants numbers separated by commas, not", options->cpus);
        cpus[count++] = (int)cpu;
        at = *end ? end + 1 : end;
    }
    if (!count)
        return peer_wrong("--cpus is empty:", options->cpus);
    CPU_ZERO(&set);
    CPU_SET(cpus[rank % count], &set);
    if (sched_setaffinity(0, sizeof set, &set)) {
        fprintf(stderr, "peer: rank %d cannot run on CPU %d: %s\n", rank, cpus[rank % count],
                strerror(errno));
        return -1;
    }
    return 0;
}

int peer_rank_from_environment(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return atoi(value);
    }
    return -1;
}

/* ---- shared pages and the clock ---- */

size_t peer_shared_size(int ranks)
{
    return sizeof(struct peer_shared) + (size_t)ranks * PEER_SAMPLES_MAX * sizeof(uint64_t);
}

int peer_shared_create(int ranks)
{
    int fd = memfd_create("nigh-peer", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)peer_shared_size(ranks))) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        perror("peer: memory that the ranks share");
    return fd;
}

struct peer_shared *peer_shared_map(int fd, int ranks)
{
    void *at = mmap(NULL, peer_shared_size(ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (at == MAP_FAILED) {
        perror("peer: memory that the ranks share");
        return NULL;
    }
    return at;
}

uint64_t peer_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static double measure_tick(void)
{
    uint64_t ns = peer_clock_ns(), ticks = peer_ticks();
    while (peer_clock_ns() - ns < 5000000)
        ;
    return (double)(peer_clock_ns() - ns) / (double)(peer_ticks() - ticks);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double peer_quantile(double *values, int count, double q)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[(int)(q * (count - 1) + 0.5)];
}

/* ---- the handoff of a cache line ---- */

static void until(_Atomic uint64_t *word, uint64_t value)
{
    /* Two ranks on one CPU would otherwise wait out each other's time slices. */
    for (unsigned spins = 1; atomic_load_explicit(word, memory_order_acquire) != value; spins++) {
        if (spins % 20000 == 0)
            sched_yield();
    }
}

void peer_meet(struct peer_rank *self)
{
    uint64_t n = ++self->handoffs;

    if (self->rank == 0) {
        atomic_store_explicit(&self->shared->ping, n, memory_order_release);
        until(&self->shared->pong, n);
    } else {
        until(&self->shared->ping, n);
        atomic_store_explicit(&self->shared->pong, n, memory_order_release);
    }
}

/* Ranks above 1 sleep meanwhile, so that nothing of the peer runs beside the measurement. */
static double handoff(struct peer_rank *self)
{
    struct peer_shared *s = self->shared;
    double groups[HANDOFF_GROUPS] = {0};
    struct timespec nap = {.tv_nsec = 20000};

    self->turns++;
    if (self->rank > 1) {
        /* Not "equal": rank 0 may be a turn further before a rank that slept looks again. */
        while ((int32_t)(atomic_load_explicit(&s->turn, memory_order_acquire) - (uint32_t)self->turns) < 0)
            nanosleep(&nap, NULL);
        return 0;
    }
    for (int g = -1; g < HANDOFF_GROUPS; g++) {
        uint64_t start = peer_ticks();
        for (int i = 0; i < HANDOFF_TRIPS; i++)
            peer_meet(self);
        if (g >= 0) /* the first group waits for the other rank to wake */
            groups[g] = (double)(peer_ticks() - start) * self->tick_ns / (2.0 * HANDOFF_TRIPS);
    }
    if (self->rank == 0)
        atomic_store_explicit(&s->turn, (uint32_t)self->turns, memory_order_release);
    return peer_quantile(groups, HANDOFF_GROUPS, 0.5);
}

/* ---- one round ---- */

int peer_round(struct peer_rank *self, const struct peer_case *c, struct peer_result *result)
{
    static double samples[PEER_SAMPLES_MAX];
    struct peer_case warm = *c;
    uint64_t start = peer_clock_ns();

    result->handoff_before = handoff(self);
    warm.iterations = c->warm;
    if (c->warm && self->run(self, &warm, NULL) < 0)
        return -1;
    int count = self->run(self, c, self->rank ? NULL : samples);
    if (count < 0)
        return -1;
    result->handoff_after = handoff(self);
    if (self->rank == 0) {
        result->samples = (uint64_t)count;
        result->p50 = peer_quantile(samples, count, 0.5);
        result->p99 = samples[(int)(0.99 * (count - 1) + 0.5)];
        result->best = samples[0];
    }
    result->took = peer_clock_ns() - start;
    return 0;
}

/* ---- obeying nigh-perf ---- */

static int control_connect(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0 || length + 1 > sizeof address.sun_path) {
        fprintf(stderr, "peer: control socket: %s\n", fd < 0 ? strerror(errno) : "its name is too long");
        return -1;
    }
    memcpy(address.sun_path + 1, name, length); /* abstract: leaves no file */
    if (connect(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length))) {
        fprintf(stderr, "peer: control socket '%s': %s\n", name, strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

/* That nobody listens any more is no failure of the peer: the next recv tells, and the rank ends in good order. */
static void control_say(int fd, const char *line)
{
    send(fd, line, strlen(line), MSG_NOSIGNAL);
}

static int control_round(struct peer_rank *self, int fd, const char *line)
{
    struct peer_case c = {0};
    struct peer_result r = {0};
    char answer[LINE_MAX_BYTES];
    unsigned long long bytes, iterations, first;
    unsigned limit;

    if (sscanf(line, "round %15s %llu %u %u %u %llu %llu %u", c.test, &bytes, &c.window, &c.how, &c.stale,
               &iterations, &first, &limit) != 8) {
        fprintf(stderr, "peer: not a command: '%s'\n", line);
        return -1;
    }
    c.bytes = bytes;
    c.iterations = iterations;
    c.warm = first;
    alarm(limit); /* a rank that hangs inside the peer ends, whoever else is still there */
    if (peer_round(self, &c, &r)) {
        control_say(fd, "failed");
        return -1;
    }
    alarm(0);
    snprintf(answer, sizeof answer, "done %.3f %.3f %.3f %.3f %.3f %llu %llu", r.p50, r.p99, r.best,
             r.handoff_before, r.handoff_after, (unsigned long long)r.samples, (unsigned long long)r.took);
    control_say(fd, answer);
    return 0;
}

/* Between rounds every rank sleeps in recv: a peer that polled would be measured along with nigh. */
static int obey(struct peer_rank *self, const char *name)
{
    char line[LINE_MAX_BYTES];
    int fd = control_connect(name), status = 0;

    if (fd < 0)
        return 1;
    snprintf(line, sizeof line, "hello %d %d %.900s", self->rank, self->ranks, self->version);
    control_say(fd, line);
    while (!status) {
        ssize_t got = recv(fd, line, sizeof line - 1, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        line[got] = 0;
        if (!strcmp(line, "quit"))
            break;
        status = control_round(self, fd, line);
    }
    close(fd);
    return status ? 1 : 0;
}

int peer_cannot(const struct peer_options *options, const char *why)
{
    char line[LINE_MAX_BYTES];
    int fd = options->control ? control_connect(options->control) : -1;

    if (fd < 0) {
        fprintf(stderr, "peer: %s\n", why);
        return 2;
    }
    snprintf(line, sizeof line, "cannot %.900s", why);
    control_say(fd, line);
    close(fd);
    return 2;
}

/* The version goes into JSON strings and into a one-line answer. */
static void plain_text(char *out, size_t size, const char *in)
{
    size_t n = 0;
    for (; *in && n + 1 < size; in++) {
        int space = (unsigned char)*in <= ' ' || *in == '"' || *in == '\\' || (unsigned char)*in > 126;
        if (!space)
            out[n++] = *in;
        else if (n && out[n - 1] != ' ')
            out[n++] = ' ';
    }
    out[n] = 0;
}

int peer_rank_main(struct peer_rank *self, const struct peer_options *options)
{
    static char version[256];

    plain_text(version, sizeof version, self->version);
    self->version = version;
    self->tick_ns = measure_tick();
    return options->control ? obey(self, options->control) : peer_by_hand(self, options);
}

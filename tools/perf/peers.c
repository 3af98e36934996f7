/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds with the processes of a peer, over one socket per rank. A peer that fails, hangs or dies costs its own
 * figures and nothing else: every wait here has an end. */
#include "tools/perf/peers.h"

#include "tools/perf/peer_build.h"
#include "tools/perf/peer_find.h"
#include "tools/perf/peer_process.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX   256
#define WINDOW_MAX  256
#define PACES       64
#define OPEN_MS     60000
#define END_MS      5000
#define SAMPLE_MAX  1000 /* rounds of one perf_peer_measure */
#define ANSWER_SIZE 1024

/* How many operations of one case make a round of the wanted length. */
struct pace {
    char test[16];
    uint64_t bytes, iterations;
    uint64_t last_ns; /* what the last round took; 0: none yet with so many operations */
    uint32_t window;
    bool stale;
};

struct perf_peer {
    struct perf_peer_place place;
    struct perf_process process; /* of the program's --launch, which ends all others */
    uint32_t ranks;
    bool broken; /* its processes have been told to end */
    int socket[RANKS_MAX];
    struct pace pace[PACES];
    uint32_t paces;
    char version[256];
    char command[2048];
    char said[PERF_WHY_BYTES / 2];
};

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int left_ms(uint64_t end)
{
    uint64_t now = now_ms();

    return now < end ? (int)(end - now) : 0;
}

size_t perf_peer_names(const char **names, size_t max)
{
    return perf_peer_all(names, max);
}

int perf_peer_installed(const char *name, char *why, size_t room)
{
    struct perf_peer_place place;

    return perf_peer_find(name, &place, why, room);
}

const char *perf_peer_version(const struct perf_peer *peer)
{
    return peer->version;
}

const char *perf_peer_command(const struct perf_peer *peer)
{
    return peer->command;
}

const char *perf_peer_said(struct perf_peer *peer)
{
    return perf_process_said(&peer->process, peer->said, sizeof peer->said);
}

/* Asks the launching process to end everything at once. Works in a forked child too, where it cannot be waited for. */
static void break_peer(struct perf_peer *peer)
{
    if (!peer->broken && peer->process.input >= 0)
        send(peer->process.input, "k", 1, MSG_NOSIGNAL);
    peer->broken = true;
}

/* ---- starting ---- */

/* A socket with an abstract name that nobody can guess: no file to remove. */
static int listen_anywhere(char *name, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint64_t secret[2];

    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return -EIO;
    snprintf(name, size, "nigh-perf-%016" PRIx64 "%016" PRIx64, secret[0], secret[1]);
    size_t length = strlen(name);
    memcpy(address.sun_path + 1, name, length);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) ||
        listen(fd, RANKS_MAX)) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

/* One packet as text; returns its length, 0 when the rank is gone, -EAGAIN when time is up. */
static int receive(int fd, char *text, size_t size, uint64_t end)
{
    struct pollfd on = {.fd = fd, .events = POLLIN};

    for (;;) {
        int ready = poll(&on, 1, left_ms(end));
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0)
            return -EAGAIN;
        ssize_t got = recv(fd, text, size - 1, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        text[got] = 0;
        return (int)got;
    }
}

/* Whoever calls is checked: the socket's name is secret, but the machine's other users can see sockets' names. */
static void welcome(struct perf_peer *peer, int fd, uint32_t *here, uint64_t end)
{
    char line[ANSWER_SIZE];
    struct ucred who;
    socklen_t size = sizeof who;
    unsigned rank, ranks;
    int used = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) || who.uid != geteuid() ||
        receive(fd, line, sizeof line, end) <= 0 ||
        sscanf(line, "hello %u %u %n", &rank, &ranks, &used) != 2 || !used || rank >= peer->ranks ||
        ranks != peer->ranks || peer->socket[rank] >= 0) {
        close(fd);
        return;
    }
    peer->socket[rank] = fd;
    (*here)++;
    if (rank == 0)
        snprintf(peer->version, sizeof peer->version, "%s", line + used);
}

static int gather_ranks(struct perf_peer *peer, int listener, char *why, size_t room)
{
    uint64_t end = now_ms() + OPEN_MS;
    struct pollfd on = {.fd = listener, .events = POLLIN};

    for (uint32_t here = 0; here < peer->ranks;) {
        /* Short waits: a launcher that ends says nothing on the socket. */
        if (poll(&on, 1, 50) > 0) {
            int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0)
                welcome(peer, fd, &here, end);
            continue;
        }
        int status = perf_process_wait(&peer->process, 0);
        if (status != -EAGAIN || !left_ms(end)) {
            snprintf(why, room, "%s (%s): %u of %u ranks came%s; it said:\n%s", peer->place.name,
                     peer->command, here, peer->ranks,
                     status == -EAGAIN ? " within 60 s" : " before it ended", perf_peer_said(peer));
            return status == -EAGAIN ? -ETIMEDOUT : -EIO;
        }
    }
    return 0;
}

static int start(struct perf_peer *peer, const char *binary, const int *cpus, char *why, size_t room)
{
    struct perf_words *words = malloc(2 * sizeof *words), *launch = words + 1;
    char name[64];
    int rc = words ? 0 : -ENOMEM, listener = -1;

    if (rc)
        return rc;
    listener = rc = listen_anywhere(name, sizeof name);
    if (rc < 0)
        goto done;
    perf_peer_start_words(&peer->place, binary, peer->ranks, cpus, name, words);
    perf_words_join(words, peer->command, sizeof peer->command);
    perf_words_init(launch);
    perf_words_add(launch, binary);
    perf_words_add(launch, "--launch");
    for (size_t i = 0; i < words->count; i++)
        perf_words_add(launch, words->word[i]);
    rc = words->overflow || launch->overflow ? -E2BIG : perf_process_start(launch->word, 1, &peer->process);
    if (!rc)
        rc = gather_ranks(peer, listener, why, room);
done:
    if (rc < 0 && !*why)
        snprintf(why, room, "%s: cannot start %s: %s", peer->place.name, binary, strerror(-rc));
    if (listener >= 0)
        close(listener);
    free(words);
    return rc;
}

int perf_peer_open(const char *name, const struct perf_case *c, struct perf_peer **out, char *why,
                   size_t room)
{
    char binary[2 * PERF_PATH_BYTES];
    struct perf_peer *peer = calloc(1, sizeof *peer);

    *why = 0;
    if (!peer)
        return -ENOMEM;
    peer->process = (struct perf_process){.pid = -1, .input = -1, .output = -1};
    for (uint32_t r = 0; r < RANKS_MAX; r++)
        peer->socket[r] = -1;
    peer->ranks = c->ranks;
    int rc = perf_peer_find(name, &peer->place, why, room);
    if (!rc && (c->ranks < 2 || c->ranks > RANKS_MAX)) {
        snprintf(why, room, "%s: %u ranks; 2 to %d can be compared", name, c->ranks, RANKS_MAX);
        rc = -EINVAL;
    }
    if (!rc)
        rc = perf_peer_build(&peer->place, binary, sizeof binary, why, room);
    if (!rc)
        rc = start(peer, binary, c->cpus, why, room);
    if (rc) {
        perf_peer_close(peer);
        return rc;
    }
    *out = peer;
    return 0;
}

/* ---- ending ---- */

void perf_peer_close(struct perf_peer *peer)
{
    if (!peer)
        return;
    for (uint32_t r = 0; r < peer->ranks && r < RANKS_MAX; r++) {
        if (peer->socket[r] >= 0 && !peer->broken)
            send(peer->socket[r], "quit", 4, MSG_NOSIGNAL);
    }
    for (uint32_t r = 0; r < RANKS_MAX; r++) {
        if (peer->socket[r] >= 0)
            close(peer->socket[r]);
    }
    if (peer->process.pid > 0 && (peer->broken || perf_process_wait(&peer->process, END_MS) == -EAGAIN)) {
        break_peer(peer);
        perf_process_wait(&peer->process, END_MS);
    }
    perf_process_close(&peer->process);
    free(peer);
}

/* ---- rounds ---- */

struct answer {
    double p50, p99, best, before, after;
    uint64_t samples, took_ns;
};

static int ask(struct perf_peer *peer, const struct pace *pace, double seconds, struct answer *answer)
{
    char line[ANSWER_SIZE];
    unsigned limit = 10 + (unsigned)(20 * seconds);
    uint64_t end = now_ms() + limit * 1000;
    unsigned long long samples, took;

    /* The ranks' own limit lies behind ours: it is for a nigh-perf that is gone. */
    int length = snprintf(line, sizeof line, "round %s %" PRIu64 " %u %u %" PRIu64 " %u", pace->test,
                          pace->bytes, pace->window, pace->stale, pace->iterations, limit + 5);
    for (uint32_t r = 0; r < peer->ranks; r++) {
        if (send(peer->socket[r], line, (size_t)length, MSG_NOSIGNAL) != length)
            return -EIO;
    }
    for (uint32_t r = 0; r < peer->ranks; r++) {
        int got = receive(peer->socket[r], line, sizeof line, end);
        if (got == -EAGAIN)
            return -ETIMEDOUT;
        if (got <= 0 || strncmp(line, "done ", 5))
            return -EIO;
        if (r == 0 && (sscanf(line, "done %lf %lf %lf %lf %lf %llu %llu", &answer->p50, &answer->p99,
                              &answer->best, &answer->before, &answer->after, &samples, &took) != 7 ||
                       !(answer->p50 > 0) || !samples))
            return -EIO;
    }
    answer->samples = samples;
    answer->took_ns = took;
    return 0;
}

/* Looks at the shorter of two rounds: one that was interrupted must not change the next ones. */
static void adapt(struct pace *pace, double seconds, uint64_t took_ns)
{
    double shorter = (double)(took_ns < pace->last_ns ? took_ns : pace->last_ns), target = seconds * 1e9;
    double factor = target / (shorter + 1);

    bool fits = factor > 0.4 && factor < 2.5;
    if (!pace->last_ns || fits) {
        pace->last_ns = took_ns;
        return;
    }
    double next = (double)pace->iterations * (factor > 10 ? 10 : factor);
    pace->iterations = next < 1 ? 1 : next > 1e9 ? 1000000000u : (uint64_t)next;
    pace->last_ns = 0;
}

/* The pace of a case; a new one is found by rounds that do not count. */
static int find_pace(struct perf_peer *peer, const struct perf_case *c, struct pace **out)
{
    uint32_t window = c->window ? c->window : 1;
    struct pace *pace;
    struct answer answer;

    for (uint32_t i = 0; i < peer->paces; i++) {
        pace = &peer->pace[i];
        if (!strcmp(pace->test, c->test) && pace->bytes == c->bytes && pace->window == window &&
            pace->stale == c->stale) {
            *out = pace;
            return 0;
        }
    }
    pace = &peer->pace[peer->paces < PACES ? peer->paces++ : PACES - 1];
    *pace = (struct pace){.bytes = c->bytes, .window = window, .stale = c->stale, .iterations = 1};
    memcpy(pace->test, c->test, strlen(c->test) + 1);
    /* Two rounds at each step, a factor of ten between steps, until two of them fit or one operation is too long. */
    for (int tries = 0; tries < 20; tries++) {
        uint64_t iterations = pace->iterations;
        bool second = pace->last_ns;
        int rc = ask(peer, pace, c->seconds, &answer);
        if (rc)
            return rc;
        adapt(pace, c->seconds, answer.took_ns);
        if (second && pace->iterations == iterations)
            break;
    }
    *out = pace;
    return 0;
}

static double in_unit(const struct perf_case *c, double ns)
{
    const char *unit = c->unit ? c->unit : "ns";
    double window = c->window ? c->window : 1;

    if (!strcmp(unit, "us"))
        return ns / 1000;
    if (!strcmp(unit, "GB/s"))
        return window * (double)c->bytes / ns;
    if (!strcmp(unit, "M/s"))
        return window * 1000 / ns;
    return ns;
}

static bool in_list(const char *word, const char *const *list)
{
    while (*list && strcmp(word, *list))
        list++;
    return *list;
}

/* 0, -EOPNOTSUPP, or -EINVAL. */
static int check_case(const struct perf_peer *peer, const struct perf_case *c)
{
    static const char *const pairs[] = {"latency", "rate", "bandwidth", NULL};
    static const char *const collectives[] = {"barrier", "allreduce", "bcast", NULL};
    static const char *const units[] = {"ns", "us", "GB/s", "M/s", NULL};

    if (c->ranks != peer->ranks || c->bytes % 8 || c->window > WINDOW_MAX || !(c->seconds > 0) ||
        c->seconds > 600 || (c->unit && !in_list(c->unit, units)))
        return -EINVAL;
    if (in_list(c->test, pairs) || (peer->place.collectives && in_list(c->test, collectives)))
        return 0;
    return -EOPNOTSUPP;
}

int perf_peer_round(struct perf_peer *peer, const struct perf_case *c, struct perf_peer_round *out)
{
    struct pace *pace;
    struct answer answer;
    int rc = peer->broken ? -EIO : check_case(peer, c);

    if (rc)
        return rc;
    rc = find_pace(peer, c, &pace);
    if (!rc)
        rc = ask(peer, pace, c->seconds, &answer);
    if (rc) {
        break_peer(peer);
        return rc;
    }
    adapt(pace, c->seconds, answer.took_ns);
    *out = (struct perf_peer_round){.value = in_unit(c, answer.p50),
                                    .p50 = answer.p50,
                                    .p99 = answer.p99,
                                    .best = answer.best,
                                    .handoff_before = answer.before,
                                    .handoff_after = answer.after,
                                    .samples = answer.samples};
    return 0;
}

/* ---- one figure ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int perf_peer_measure(const char *name, const struct perf_case *c, double *value)
{
    static double values[SAMPLE_MAX];
    char why[PERF_WHY_BYTES];
    struct perf_peer *peer;
    struct perf_case one = *c;
    uint64_t end;
    size_t count = 0;
    int rc = perf_peer_open(name, c, &peer, why, sizeof why);

    if (rc) {
        fprintf(stderr, "nigh-perf: %s\n", why);
        return rc;
    }
    one.seconds = c->seconds < 0.005 ? c->seconds : 0.005;
    end = now_ms() + (uint64_t)(c->seconds * 1000);
    do {
        struct perf_peer_round round;
        rc = perf_peer_round(peer, &one, &round);
        if (!rc)
            values[count++] = round.value;
    } while (!rc && count < SAMPLE_MAX && left_ms(end));
    if (rc) {
        fprintf(stderr, "nigh-perf: %s: %s of %" PRIu64 " bytes: %s\n%s\n", name, c->test, c->bytes,
                strerror(-rc), perf_peer_said(peer));
    } else {
        qsort(values, count, sizeof *values, by_value);
        *value = values[count / 2];
    }
    perf_peer_close(peer);
    return rc;
}

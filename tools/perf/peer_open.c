/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting and ending the processes of a peer; the control sockets. */
#include "tools/perf/peer_build.h"
#include "tools/perf/peer_session.h"

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

#define OPEN_MS 60000
#define END_MS  5000

uint64_t perf_peer_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int perf_peer_left(uint64_t end)
{
    uint64_t now = perf_peer_now();

    return now < end ? (int)(end - now) : 0;
}

const char *perf_peer_said(struct perf_peer *peer)
{
    return perf_process_said(&peer->process, peer->said, sizeof peer->said);
}

void perf_peer_break(struct perf_peer *peer)
{
    if (!peer->broken && peer->process.input >= 0)
        send(peer->process.input, "k", 1, MSG_NOSIGNAL);
    peer->broken = true;
}

int perf_peer_receive(int fd, char *text, size_t size, uint64_t end)
{
    struct pollfd on = {.fd = fd, .events = POLLIN};

    for (;;) {
        int ready = poll(&on, 1, perf_peer_left(end));
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
        listen(fd, PERF_PEER_RANKS)) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

/* Whoever calls is checked: the socket's name is secret, but the machine's other users can see sockets' names. 1: a rank
 * is here; -EOPNOTSUPP: it says why it cannot be; 0: it was none. */
static int welcome(struct perf_peer *peer, int fd, uint64_t end, char *why, size_t room)
{
    static const char cannot[] = "cannot ";
    char line[PERF_PEER_LINE];
    struct ucred who;
    socklen_t size = sizeof who;
    unsigned rank, ranks;
    int used = 0, rc = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) || who.uid != geteuid() ||
        perf_peer_receive(fd, line, sizeof line, end) <= 0)
        goto none;
    if (strncmp(line, cannot, sizeof cannot - 1) == 0) {
        snprintf(why, room, "%s", line + sizeof cannot - 1);
        rc = -EOPNOTSUPP;
        goto none;
    }
    if (sscanf(line, "hello %u %u %n", &rank, &ranks, &used) != 2 || !used || rank >= peer->ranks ||
        ranks != peer->ranks || peer->socket[rank] >= 0)
        goto none;
    peer->socket[rank] = fd;
    if (rank == 0)
        snprintf(peer->version, sizeof peer->version, "%s", line + used);
    return 1;

none:
    close(fd);
    return rc;
}

static int gather_ranks(struct perf_peer *peer, int listener, char *why, size_t room)
{
    uint64_t end = perf_peer_now() + OPEN_MS;
    struct pollfd on = {.fd = listener, .events = POLLIN};

    for (uint32_t here = 0; here < peer->ranks;) {
        /* Short waits: a launcher that ends says nothing on the socket. */
        if (poll(&on, 1, 50) > 0) {
            int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            int got = fd < 0 ? 0 : welcome(peer, fd, end, why, room);
            if (got < 0)
                return got;
            here += (uint32_t)got;
            continue;
        }
        int status = perf_process_wait(&peer->process, 0);
        if (status != -EAGAIN || !perf_peer_left(end)) {
            snprintf(why, room, "%s (%s): %u of %u ranks came%s; it said:\n%s", peer->place.name,
                     peer->command, here, peer->ranks,
                     status == -EAGAIN ? " within 60 s" : " before it ended", perf_peer_said(peer));
            return status == -EAGAIN ? -ETIMEDOUT : -EIO;
        }
    }
    return 0;
}

static int lacks_room(const struct perf_peer *peer, const struct mpi_words *words, char *why, size_t room)
{
    char lack[256];

    if (!words->overflow)
        return 0;
    mpi_words_lack(words, lack, sizeof lack);
    snprintf(why, room, "%s: %s", peer->place.name, lack);
    return -E2BIG;
}

static int start(struct perf_peer *peer, const char *binary, const struct perf_case *c, char *why,
                 size_t room)
{
    struct mpi_words *words = malloc(2 * sizeof *words), *launch = words + 1;
    char name[64];
    int rc = words ? 0 : -ENOMEM, listener = -1;

    if (rc)
        return rc;
    listener = rc = listen_anywhere(name, sizeof name);
    if (rc < 0)
        goto done;
    perf_peer_start_words(&peer->place, binary, c, name, words);
    mpi_words_join(words, peer->command, sizeof peer->command);
    mpi_words_init(launch);
    mpi_words_add(launch, binary);
    mpi_words_add(launch, "--launch");
    for (size_t i = 0; i < words->count; i++)
        mpi_words_add(launch, words->word[i]);
    rc = lacks_room(peer, words->overflow ? words : launch, why, room);
    if (!rc)
        rc = perf_process_start(launch->word, 1, &peer->process);
    if (!rc)
        rc = gather_ranks(peer, listener, why, room);
    if (!rc)
        send(peer->process.input, "r", 1, MSG_NOSIGNAL);
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
    char binary[2 * MPI_PATH_BYTES];
    struct perf_peer *peer = calloc(1, sizeof *peer);

    *why = 0;
    if (!peer)
        return -ENOMEM;
    peer->process = (struct perf_process){.pid = -1, .input = -1, .output = -1};
    for (uint32_t r = 0; r < PERF_PEER_RANKS; r++)
        peer->socket[r] = -1;
    peer->ranks = c->ranks;
    int rc = perf_peer_find(name, &peer->place, why, room);
    if (!rc && (c->ranks < 2 || c->ranks > PERF_PEER_RANKS)) {
        snprintf(why, room, "%s: %u ranks; 2 to %d can be compared", name, c->ranks, PERF_PEER_RANKS);
        rc = -EINVAL;
    }
    if (!rc)
        rc = perf_peer_build(&peer->place, binary, sizeof binary, why, room);
    if (!rc)
        rc = start(peer, binary, c, why, room);
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
    for (uint32_t r = 0; r < peer->ranks && r < PERF_PEER_RANKS; r++) {
        if (peer->socket[r] >= 0 && !peer->broken)
            send(peer->socket[r], "quit", 4, MSG_NOSIGNAL);
    }
    for (uint32_t r = 0; r < PERF_PEER_RANKS; r++) {
        if (peer->socket[r] >= 0)
            close(peer->socket[r]);
    }
    if (peer->process.pid > 0 && (peer->broken || perf_process_wait(&peer->process, END_MS) == -EAGAIN)) {
        perf_peer_break(peer);
        perf_process_wait(&peer->process, END_MS);
    }
    perf_process_close(&peer->process);
    free(peer);
}

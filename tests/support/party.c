/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/party.c - the callee: records by index, first attach kept, later ones dropped. */
#include "tests/support/party.h"
#include "shm/held.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

uint64_t party_late_ns;

static const char arena_mark[] = "arena", doorbell_mark[] = "doorbell", window_mark[] = "window";

struct mark {
    char what[16];
    uint64_t incarnation;
};

static int marked_file(const char *what, uint64_t incarnation)
{
    struct mark mark = {.incarnation = incarnation};
    int fd = memfd_create("party", MFD_CLOEXEC);

    strncpy(mark.what, what, sizeof(mark.what) - 1);
    if (fd < 0 || write(fd, &mark, sizeof(mark)) != sizeof(mark))
        abort();
    return fd;
}

static bool is_marked(int fd, const char *what, uint64_t incarnation)
{
    struct mark mark;

    return pread(fd, &mark, sizeof(mark), 0) == sizeof(mark) && strcmp(mark.what, what) == 0 &&
           mark.incarnation == incarnation;
}

static struct peer *new_peer(struct party *party, const struct nigh_identity *who)
{
    for (unsigned i = 0; i < PARTY_PEERS; i++) {
        struct peer *peer = &party->peers[i];

        if (peer->used)
            continue;
        *peer = (struct peer){.used = true, .who = *who, .fds = {-1, -1, -1}};
        return peer;
    }
    return NULL;
}

static struct peer *known_peer(struct party *party, const struct nigh_identity *who)
{
    for (unsigned i = 0; i < PARTY_PEERS; i++) {
        struct peer *peer = &party->peers[i];

        if (!peer->used || peer->who.job != who->job || peer->who.rank != who->rank)
            continue;
        if (peer->who.incarnation == who->incarnation || (peer->dialling && !peer->who.incarnation))
            return peer;
    }
    return NULL;
}

static int greeted(void *user, const struct nigh_hello *hello, uint32_t *index, int *window_fd, void **cookie)
{
    struct party *party = user;
    struct peer *peer;

    party->greetings++;
    if (party->refuse_greeting)
        return party->refuse_greeting;
    peer = known_peer(party, &hello->self);
    if (!peer)
        peer = new_peer(party, &hello->self);
    if (!peer)
        return -ENOSPC;
    *index = (uint32_t)(peer - party->peers);
    *window_fd = party->window_fd;
    *cookie = peer;
    return 0;
}

static void close_attach(const struct nigh_attach *attach)
{
    close(attach->arena_fd);
    close(attach->doorbell_fd);
    close(attach->window_fd);
}

static int attached(void *user, void *cookie, const struct nigh_attach *attach)
{
    struct party *party = user;
    struct peer *peer = cookie;
    uint64_t incarnation = attach->hello.self.incarnation;

    peer->attaches++;
    if (party->refuse_attach || party->forget_in_callback || peer->attached)
        close_attach(attach);
    if (party->forget_in_callback)
        nigh_rendezvous_forget(party->rendezvous, peer);
    if (party->refuse_attach || party->forget_in_callback || peer->attached)
        return party->refuse_attach;
    peer->attached = true;
    peer->who.incarnation = incarnation;
    peer->their_index = attach->hello.index;
    peer->pid = attach->pid;
    peer->fds[0] = attach->arena_fd;
    peer->fds[1] = attach->doorbell_fd;
    peer->fds[2] = attach->window_fd;
    peer->fds_are_right = is_marked(peer->fds[0], arena_mark, incarnation) &&
                          is_marked(peer->fds[1], doorbell_mark, incarnation) &&
                          is_marked(peer->fds[2], window_mark, incarnation);
    return 0;
}

static void close_peer(struct peer *peer)
{
    for (unsigned i = 0; i < 3; i++) {
        if (peer->fds[i] >= 0)
            close(peer->fds[i]);
        peer->fds[i] = -1;
    }
    peer->attached = false;
}

static void failed(void *user, void *cookie, const struct nigh_refusal *why)
{
    struct peer *peer = cookie;

    (void)user;
    peer->failures++;
    peer->error = why->error;
    peer->why = *why;
    close_peer(peer);
}

static void died(void *user, void *cookie)
{
    struct peer *peer = cookie;

    (void)user;
    peer->deaths++;
    close_peer(peer);
}

static const struct nigh_rendezvous_events events = {greeted, attached, failed, died, NULL};

int party_open(struct party *party, uint64_t job, uint32_t rank, const char *directory)
{
    static uint64_t count;
    uint64_t incarnation = ((uint64_t)getpid() << 32) + ++count;
    struct nigh_rendezvous_config *config = &party->config;
    int error;

    memset(party, 0, sizeof(*party));
    *config = (struct nigh_rendezvous_config){
        .self = {.job = job, .incarnation = incarnation, .rank = rank},
        .called = PARTY_CALLED,
        .peers_max = PARTY_PEERS,
        .ranks = 1024,
        .arena_fd = marked_file(arena_mark, incarnation),
        .doorbell_fd = marked_file(doorbell_mark, incarnation),
        .directory = directory,
        .late_ns = party_late_ns,
        .events = &events,
        .user = party,
    };
    party->window_fd = marked_file(window_mark, incarnation);
    error = nigh_rendezvous_open(config, &party->rendezvous);
    if (error) {
        party->rendezvous = NULL;
        party_close(party);
    }
    return error;
}

static void close_own(struct party *party)
{
    for (unsigned i = 0; i < PARTY_PEERS; i++) {
        if (party->peers[i].used)
            close_peer(&party->peers[i]);
    }
    close(party->config.arena_fd);
    close(party->config.doorbell_fd);
    close(party->window_fd);
}

void party_close(struct party *party)
{
    nigh_rendezvous_close(party->rendezvous);
    close_own(party);
}

void party_abandon(struct party *party)
{
    close_own(party);
    nigh_held_abandon();
}

struct peer *party_dial(struct party *party, uint32_t rank, uint64_t incarnation)
{
    struct nigh_identity to = {.job = party->config.self.job, .incarnation = incarnation, .rank = rank};
    struct peer *peer = new_peer(party, &to);

    if (!peer)
        abort();
    peer->dialling = true;
    if (nigh_rendezvous_dial(party->rendezvous, &to, (uint32_t)(peer - party->peers), party->window_fd,
                             peer) == 0)
        return peer;
    peer->used = false;
    return NULL;
}

struct peer *party_peer(struct party *party, uint32_t rank)
{
    for (unsigned i = 0; i < PARTY_PEERS; i++) {
        if (party->peers[i].used && party->peers[i].who.rank == rank)
            return &party->peers[i];
    }
    return NULL;
}

void party_forget(struct party *party, struct peer *peer)
{
    nigh_rendezvous_forget(party->rendezvous, peer);
    close_peer(peer);
    peer->used = false;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

enum { PASS_MS = 10 };

/* Sleeps on the descriptors, as the service thread does: so a test also sees that they become
 * readable. Whether one was. */
static bool pass(struct party *const *parties, unsigned count)
{
    struct pollfd fds[16];

    for (unsigned i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = nigh_rendezvous_fd(parties[i]->rendezvous), .events = POLLIN};
    if (poll(fds, count, PASS_MS) <= 0)
        return false;
    for (unsigned i = 0; i < count; i++) {
        if (fds[i].revents)
            nigh_rendezvous_progress(parties[i]->rendezvous);
    }
    return true;
}

/* A machine on which others are busy is given so many times the time. */
enum { PATIENCE = 30 };

bool party_until(struct party *const *parties, unsigned count, unsigned ms, bool (*done)(void *data),
                 void *data)
{
    uint64_t end = now_ms() + (uint64_t)ms * PATIENCE;

    while (!done(data)) {
        if (now_ms() >= end)
            return false;
        pass(parties, count);
    }
    return true;
}

/* A pass in which this process had no CPU counts as one, however long it was; and the last one finds
 * nothing, unless there is always something. */
void party_for(struct party *const *parties, unsigned count, unsigned ms)
{
    uint64_t seen = 0, now = now_ms();
    bool found = true;

    for (unsigned more = 0; seen < ms || (found && more < 100); more += seen >= ms) {
        uint64_t before = now;

        found = pass(parties, count);
        now = now_ms();
        seen += now - before < PASS_MS ? now - before : PASS_MS;
    }
}

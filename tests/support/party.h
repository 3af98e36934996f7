/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/party.h - a rendezvous with a callee that behaves as an endpoint layer does and remembers what
 * it was told, so that tests of attaching need no endpoints. */
#ifndef NIGH_TESTS_PARTY_H
#define NIGH_TESTS_PARTY_H

#include "shm/rendezvous.h"
#include <stdbool.h>

enum {
    PARTY_PEERS = 256,
    PARTY_CALLED = 0xca11ed, /* as which log lines know the job of a party */
};

/* What a party knows of a peer. Its number is the index, its address the cookie. */
struct peer {
    bool used, dialling;
    struct nigh_identity who; /* incarnation 0: not known yet */
    bool attached;
    uint32_t their_index;
    int pid;
    int fds[3];         /* arena, doorbell, window */
    bool fds_are_right; /* those that came are those of who says so */
    unsigned attaches, failures, deaths;
    int error; /* of the last failure */
    struct nigh_refusal why;
};

struct party {
    struct nigh_rendezvous *rendezvous;
    struct nigh_rendezvous_config config;
    struct peer peers[PARTY_PEERS];
    int window_fd;                      /* for whoever comes: an endpoint layer has one for each peer */
    int refuse_greeting, refuse_attach; /* what the callbacks return instead of 0 */
    bool forget_in_callback;
    unsigned greetings;
};

/* Of those opened next: when peers that they have not met are told. 0: as ever. */
extern uint64_t party_late_ns;

/* Opens under (job, rank) with an arena and a doorbell in which a test can see whose they are. The error of nigh_rendezvous_open(), nothing remains then. */
int party_open(struct party *party, uint64_t job, uint32_t rank, const char *directory);
/* Also closes what came from peers. */
void party_close(struct party *party);
/* In a forked child. */
void party_abandon(struct party *party);

/* A new record of a peer of the same job, dialled; incarnation 0: whoever it is. */
struct peer *party_dial(struct party *party, uint32_t rank, uint64_t incarnation);
/* The record of a rank, NULL if there is none. */
struct peer *party_peer(struct party *party, uint32_t rank);
void party_forget(struct party *party, struct peer *peer);

/* Polls all parties until done(data), or a multiple of `ms`, which a quiet machine needs at most, has
 * passed. Returns whether it was done. */
bool party_until(struct party *const *parties, unsigned count, unsigned ms, bool (*done)(void *data),
                 void *data);
/* Polls them for `ms` in which this process has a CPU, whatever happens, and until nothing is left to do. */
void party_for(struct party *const *parties, unsigned count, unsigned ms);

#endif

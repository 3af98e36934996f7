/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/wakeup.h - the provider's own descriptors, by which threads that sleep are woken. Programs close descriptors
 * that are not theirs (closefrom(3) in a daemon) and open others under the same numbers, so each is known again before it is
 * used: nothing is read from, written to or closed that is the program's. docs/architecture.md, "Descriptors".
 */
#ifndef NIGH_LIBFABRIC_WAKEUP_H
#define NIGH_LIBFABRIC_WAKEUP_H

#include "include/common/descriptor.h"

#include <pthread.h>
#include <stdbool.h>

/* Two sockets that are connected: each end is readable once it was woken, until that is taken. An eventfd has no inode by
 * which it could be known again. */
struct nigh_fi_pair {
    int fd[2]; /* -1: none */
    struct nigh_file_id id[2];
};

/* 0; negative errno, both are -1. */
int nigh_fi_pair_open(struct nigh_fi_pair *out);
/* Closes what is still the provider's. */
void nigh_fi_pair_close(struct nigh_fi_pair *pair);
/* -FI_EBADF: one of them is lost, which is said on stderr, once in a process. */
int nigh_fi_pair_check(const struct nigh_fi_pair *pair);
/* -FI_EBADF as well. Any thread. */
int nigh_fi_pair_wake(const struct nigh_fi_pair *pair, int end);
void nigh_fi_pair_take(const struct nigh_fi_pair *pair, int end);

/* The ends of a waiter's pair. */
enum { NIGH_FI_NEWS /* of what another thread has put there */, NIGH_FI_SIGNAL /* of fi_cq_signal() */ };

/* What a queue or counter sleeps on: a set of its pair, of the endpoints' descriptors, and of a clock. The set and the clock
 * have no inode: the set is known by the pair that is in it, the clock by its place in the set. */
struct nigh_fi_wakeup {
    int epoll_fd;  /* -1: none, and no pair */
    int repeat_fd; /* readable each second; -1: nobody has needed it */
    struct nigh_fi_pair pair;
    pthread_mutex_t lock; /* of fi_cq_signal(), which is called beside a sleep */
    bool signalled;       /* and its end readable */
};

#define NIGH_FI_NO_WAKEUP     \
    ((struct nigh_fi_wakeup){ \
        .epoll_fd = -1, .repeat_fd = -1, .pair.fd = {-1, -1}, .lock = PTHREAD_MUTEX_INITIALIZER})

/* 0; negative errno, and it is NIGH_FI_NO_WAKEUP. */
int nigh_fi_wakeup_open(struct nigh_fi_wakeup *out);
void nigh_fi_wakeup_close(struct nigh_fi_wakeup *wakeup);
/* As nigh_fi_pair_check(), of all of it. */
int nigh_fi_wakeup_check(const struct nigh_fi_wakeup *wakeup);

/* A member of the set, which the caller has checked. Negative errno. */
int nigh_fi_wakeup_add(const struct nigh_fi_wakeup *wakeup, int fd);
void nigh_fi_wakeup_drop(const struct nigh_fi_wakeup *wakeup, int fd);

/* From here on the set is readable again each second. Returns whether it is. */
bool nigh_fi_wakeup_repeat(struct nigh_fi_wakeup *wakeup);
void nigh_fi_wakeup_take_repeat(const struct nigh_fi_wakeup *wakeup);

/* Any thread. 0; -FI_EBADF. */
int nigh_fi_wakeup_signal(struct nigh_fi_wakeup *wakeup);
/* Was there a signal? One is taken once. */
bool nigh_fi_wakeup_take_signal(struct nigh_fi_wakeup *wakeup);

/* Sleeps until the set is readable, or lost. 0; -FI_EINTR. */
int nigh_fi_wakeup_sleep(const struct nigh_fi_wakeup *wakeup, int timeout_ms);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/wait.h - sleeping for completions, by the descriptors of nigh's contexts. */
#ifndef NIGH_LIBFABRIC_WAIT_H
#define NIGH_LIBFABRIC_WAIT_H

#include "hosts/libfabric/provider.h"

/* -FI_ENOSYS: a wait object that there is not; -FI_EMFILE, -FI_ENOMEM. */
int nigh_fi_waiter_open(struct nigh_fi_domain *domain, enum fi_wait_obj object,
                        struct nigh_fi_waiter *waiter);
void nigh_fi_waiter_close(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter);
/* An endpoint completes here from now on, or does no longer. -FI_ENOMEM. The lock is held. */
int nigh_fi_waiter_add(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter, struct nigh_fi_ep *ep);
void nigh_fi_waiter_drop(struct nigh_fi_waiter *waiter, const struct nigh_fi_ep *ep);
/* FI_GETWAIT and FI_GETWAITOBJ. */
int nigh_fi_waiter_control(struct nigh_fi_domain *domain, const struct nigh_fi_waiter *waiter, int command,
                           void *arg);

/* A time at which to give up, of a time-out in milliseconds; below 0: never. */
uint64_t nigh_fi_deadline(int timeout_ms);
/* What is left until then, as poll() takes it, and at most a second: no sleep is longer. 0: nothing. */
int nigh_fi_left_ms(uint64_t deadline);

/* Wakes those who sleep there. The lock is held. */
void nigh_fi_ring(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter);

/*
 * Something was put there. Only those who sleep for it are woken: a ring for all of the domain made two threads in
 * sread wake each other without end. The lock is held.
 */
static inline void nigh_fi_news(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter)
{
    waiter->stamp++;
    if (NIGH_FI_UNLIKELY(waiter->sleepers || waiter->watched))
        nigh_fi_ring(domain, waiter);
}

/*
 * Sleeps until there may be something to read, at most until `deadline`. `stamp` is the waiter's of
 * when nothing was there. 0: look again; -FI_EAGAIN: it is past the deadline, or somebody has
 * signalled; -FI_EINTR; -FI_EBADF: the program has closed what one sleeps on. The lock is not held.
 */
int nigh_fi_sleep(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter, uint64_t stamp,
                  uint64_t deadline);

/* Where it returns 0 a thread may sleep on the descriptors: whatever any other thread does then that
 * completes something makes them readable. -FI_EBADF: the program has closed one. */
int nigh_fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

#endif

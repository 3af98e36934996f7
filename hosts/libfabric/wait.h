/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/wait.h - sleeping for completions, by the descriptors of nigh's contexts. */
#ifndef NIGH_LIBFABRIC_WAIT_H
#define NIGH_LIBFABRIC_WAIT_H

#include "hosts/libfabric/provider.h"

/* -FI_ENOSYS: a wait object that there is not; -FI_EMFILE, -FI_ENOMEM. */
int nigh_fi_waiter_open(struct nigh_fi_domain *domain, enum fi_wait_obj object,
                        struct nigh_fi_waiter *waiter);
void nigh_fi_waiter_close(struct nigh_fi_waiter *waiter);
/* FI_GETWAIT and FI_GETWAITOBJ. */
int nigh_fi_waiter_control(const struct nigh_fi_waiter *waiter, int command, void *arg);

/* A time at which to give up, of a time-out in milliseconds; below 0: never. */
uint64_t nigh_fi_deadline(int timeout_ms);

/*
 * Sleeps until one of `eps` may have something to read, at most until `deadline`. 0: look again; -FI_EAGAIN: it is past
 * the deadline, or somebody has signalled. The lock is not held.
 */
int nigh_fi_sleep(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter, struct nigh_fi_ep **eps,
                  uint32_t count, uint64_t deadline);

int nigh_fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

#endif

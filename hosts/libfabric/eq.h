/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/eq.h - the event queue, as the objects that report to it see it. */
#ifndef NIGH_LIBFABRIC_EQ_H
#define NIGH_LIBFABRIC_EQ_H

#include "hosts/libfabric/provider.h"

/* Queues an event or an error. Without memory it is lost, which is logged. Any thread. */
void nigh_fi_eq_event(struct nigh_fi_eq *eq, uint32_t event, struct fid *fid, void *context, uint64_t data);
void nigh_fi_eq_error(struct nigh_fi_eq *eq, struct fid *fid, void *context, uint64_t data, int err);

/* One more, or one less, that is bound to it. */
void nigh_fi_eq_hold(struct nigh_fi_eq *eq, int by);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/refuse.h - slots for what this provider does not have. libfabric's inline calls use most slots
 * without a look, so none may be empty.
 */
#ifndef NIGH_LIBFABRIC_REFUSE_H
#define NIGH_LIBFABRIC_REFUSE_H

#include "hosts/libfabric/provider.h"

int nigh_fi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int nigh_fi_no_control(struct fid *fid, int command, void *arg);
int nigh_fi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int nigh_fi_no_tostr(const struct fid *fid, char *buf, size_t len);
int nigh_fi_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);

/* A table that can be closed, bound and controlled. */
#define NIGH_FI_OPS(do_close, do_bind, do_control)                                                      \
    {                                                                                                   \
        .size = sizeof(struct fi_ops), .close = (do_close), .bind = (do_bind), .control = (do_control), \
        .ops_open = nigh_fi_no_ops_open, .tostr = nigh_fi_no_tostr, .ops_set = nigh_fi_no_ops_set,      \
    }

extern struct fi_ops_cm nigh_fi_cm;
extern struct fi_ops_msg nigh_fi_message;
extern struct fi_ops_tagged nigh_fi_tagged;
extern struct fi_ops_rma nigh_fi_rma;
extern struct fi_ops_atomic nigh_fi_atomic;
extern struct fi_ops_mr nigh_fi_mr_ops;
extern struct fi_ops_collective nigh_fi_no_collective;

#endif

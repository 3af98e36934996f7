/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/refuse.c - see refuse.h. */
#include "hosts/libfabric/refuse.h"

#include <rdma/fi_collective.h>

int nigh_fi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    (void)fid, (void)bfid, (void)flags;
    return -FI_ENOSYS;
}

int nigh_fi_no_control(struct fid *fid, int command, void *arg)
{
    (void)fid, (void)command, (void)arg;
    return -FI_ENOSYS;
}

int nigh_fi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    (void)fid, (void)name, (void)flags, (void)ops, (void)context;
    return -FI_ENOSYS;
}

int nigh_fi_no_tostr(const struct fid *fid, char *buf, size_t len)
{
    (void)fid, (void)buf, (void)len;
    return -FI_ENOSYS;
}

int nigh_fi_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
    (void)fid, (void)name, (void)flags, (void)ops, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_barrier(struct fid_ep *ep, fi_addr_t addr, void *context)
{
    (void)ep, (void)addr, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc, fi_addr_t addr,
                            fi_addr_t root, enum fi_datatype type, uint64_t flags, void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)addr, (void)root, (void)type, (void)flags,
        (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_alltoall(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
                           void *result_desc, fi_addr_t addr, enum fi_datatype type, uint64_t flags,
                           void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)addr, (void)type;
    (void)flags, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
                            void *result_desc, fi_addr_t addr, enum fi_datatype type, enum fi_op op,
                            uint64_t flags, void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)addr, (void)type,
        (void)op;
    (void)flags, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
                         void *result_desc, fi_addr_t addr, fi_addr_t root, enum fi_datatype type,
                         enum fi_op op, uint64_t flags, void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)addr, (void)root;
    (void)type, (void)op, (void)flags, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_scatter(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
                          void *result_desc, fi_addr_t addr, fi_addr_t root, enum fi_datatype type,
                          uint64_t flags, void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)addr, (void)root;
    (void)type, (void)flags, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_msg(struct fid_ep *ep, const struct fi_msg_collective *msg, struct fi_ioc *resultv,
                      void **result_desc, size_t result_count, uint64_t flags)
{
    (void)ep, (void)msg, (void)resultv, (void)result_desc, (void)result_count, (void)flags;
    return -FI_ENOSYS;
}

static ssize_t no_barrier2(struct fid_ep *ep, fi_addr_t addr, uint64_t flags, void *context)
{
    (void)ep, (void)addr, (void)flags, (void)context;
    return -FI_ENOSYS;
}

struct fi_ops_collective nigh_fi_no_collective = {
    .size = sizeof(struct fi_ops_collective),
    .barrier = no_barrier,
    .broadcast = no_broadcast,
    .alltoall = no_alltoall,
    .allreduce = no_allreduce,
    .allgather = no_alltoall,
    .reduce_scatter = no_allreduce,
    .reduce = no_reduce,
    .scatter = no_scatter,
    .gather = no_scatter,
    .msg = no_msg,
    .barrier2 = no_barrier2,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/atomic.c - atomics: which of libfabric's types and operations nigh has, and their calls. */
#include "hosts/libfabric/op.h"
#include "hosts/libfabric/peer.h"
#include "hosts/libfabric/refuse.h"
#include "hosts/libfabric/stage.h"

static const struct {
    uint16_t type; /* enum nigh_type */
    uint16_t width;
} types[] = {
    [FI_INT8] = {NIGH_I8, 1},    [FI_UINT8] = {NIGH_U8, 1},   [FI_INT16] = {NIGH_I16, 2},
    [FI_UINT16] = {NIGH_U16, 2}, [FI_INT32] = {NIGH_I32, 4},  [FI_UINT32] = {NIGH_U32, 4},
    [FI_INT64] = {NIGH_I64, 8},  [FI_UINT64] = {NIGH_U64, 8}, [FI_FLOAT] = {NIGH_F32, 4},
    [FI_DOUBLE] = {NIGH_F64, 8},
};

static const uint16_t operations[] = {
    [FI_MIN] = NIGH_MIN,     [FI_MAX] = NIGH_MAX,          [FI_SUM] = NIGH_SUM,
    [FI_PROD] = NIGH_PROD,   [FI_LOR] = NIGH_LOR,          [FI_LAND] = NIGH_LAND,
    [FI_BOR] = NIGH_BOR,     [FI_BAND] = NIGH_BAND,        [FI_LXOR] = NIGH_LXOR,
    [FI_BXOR] = NIGH_BXOR,   [FI_ATOMIC_READ] = NIGH_READ, [FI_ATOMIC_WRITE] = NIGH_WRITE,
    [FI_CSWAP] = NIGH_CSWAP,
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum way { WRITE, FETCH, COMPARE };

static bool is_logical(enum fi_op op)
{
    return op >= FI_LOR && op <= FI_BXOR;
}

/* 0 or -FI_EOPNOTSUPP. */
static int check(enum fi_datatype type, enum fi_op op, enum way way)
{
    if ((unsigned)type >= COUNT(types) || !types[type].type || (unsigned)op >= COUNT(operations) ||
        !operations[op])
        return -FI_EOPNOTSUPP;
    if (is_logical(op) && (type == FI_FLOAT || type == FI_DOUBLE))
        return -FI_EOPNOTSUPP;
    if ((op == FI_CSWAP) != (way == COMPARE) || (op == FI_ATOMIC_READ && way != FETCH))
        return -FI_EOPNOTSUPP;
    return 0;
}

static int valid(enum fi_datatype type, enum fi_op op, enum way way, size_t *count)
{
    int rc = check(type, op, way);

    if (!rc && count)
        *count = NIGH_ATOMIC_BYTES / types[type].width;
    return rc;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

/* One operation, however it was called. */
struct call {
    const struct fi_ioc *from, *compare, *result;
    void *const *from_desc, *const *compare_desc, *const *result_desc;
    size_t from_count, compare_count, result_count;
    fi_addr_t peer;
    uint64_t offset, key;
    enum fi_datatype type;
    enum fi_op op;
    void *context;
    uint64_t flags; /* libfabric's */
    enum way way;
    bool bare; /* fi_inject_atomic(): nobody hears of it */
};

/* More than any operation may have stays more. */
static size_t elements(const struct fi_ioc *ioc, size_t count)
{
    size_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += ioc[i].count <= NIGH_ATOMIC_BYTES ? ioc[i].count : NIGH_ATOMIC_BYTES + 1;
    return sum;
}

/* The elements as parts in bytes, which lie in `iov`. */
static void find_parts(struct nigh_fi_ep *ep, const struct fi_ioc *ioc, void *const *desc, size_t count,
                       size_t width, struct iovec *iov, struct nigh_fi_parts *out)
{
    for (size_t i = 0; i < count; i++)
        iov[i] = (struct iovec){ioc[i].addr, ioc[i].count * width};
    nigh_fi_parts_find(ep, iov, desc, count, out);
}

static int gather(struct nigh_fi_ep *ep, void *to, const struct fi_ioc *ioc, void *const *desc, size_t count,
                  size_t width)
{
    struct iovec iov[NIGH_FI_IOV];
    struct nigh_fi_parts parts;

    find_parts(ep, ioc, desc, count, width, iov, &parts);
    return nigh_fi_gather(ep, to, &parts);
}

/* Operands are copied by nigh when they are posted; results of a vector, or for a device, need a place until they are
 * complete. */
static int place_result(struct nigh_fi_ep *ep, struct nigh_fi_op *op, const struct call *call, size_t width,
                        struct nigh_atomic *atomic)
{
    struct iovec iov[NIGH_FI_IOV];
    struct nigh_fi_parts parts;
    int rc;

    if (call->way == WRITE)
        return 0;
    find_parts(ep, call->result, call->result_desc, call->result_count, width, iov, &parts);
    if (call->result_count == 1 && !parts.devices) {
        atomic->result = call->result->addr;
        return 0;
    }
    rc = nigh_fi_copy_room(op, NIGH_ATOMIC_BYTES);
    nigh_fi_copy_for(op, &parts);
    atomic->result = op->copy;
    return rc;
}

static int post(struct nigh_fi_ep *ep, const struct call *call, struct nigh_fi_op *op, size_t count,
                bool silent)
{
    size_t width = types[call->type].width;
    char operand[NIGH_ATOMIC_BYTES], compare[NIGH_ATOMIC_BYTES];
    struct nigh_atomic atomic = {
        .size = sizeof(atomic),
        .flags = silent ? NIGH_SILENT : 0,
        .op = operations[call->op],
        .type = types[call->type].type,
        .count = (uint32_t)count,
        .operand = call->op == FI_ATOMIC_READ ? NULL : operand,
        .compare = call->way == COMPARE ? compare : NULL,
        .offset = call->offset,
        .key = call->key | NIGH_KEY_CHOSEN,
        .context = op ? (uintptr_t)op : (uintptr_t)call->context,
    };
    struct nigh_endpoint *peer;
    int rc = place_result(ep, op, call, width, &atomic);

    if (!rc && atomic.operand)
        rc = gather(ep, operand, call->from, call->from_desc, call->from_count, width);
    if (!rc && atomic.compare)
        rc = gather(ep, compare, call->compare, call->compare_desc, call->compare_count, width);
    if (rc)
        return rc;
    peer = nigh_fi_peer_or(ep, call->peer, &rc);
    return peer ? ep->nigh->post_atomic(peer, &atomic) : rc;
}

static int issue(struct nigh_fi_ep *ep, const struct call *call, size_t count)
{
    bool hidden = call->bare || !ep->tx_cq || (ep->tx_selective && !(call->flags & FI_COMPLETION));
    bool fetch = call->way != WRITE, counted = ep->cntr[fetch ? NIGH_FI_READS : NIGH_FI_WRITES] != NULL;
    bool recorded = fetch || (hidden && counted);
    struct nigh_fi_op *op = recorded ? nigh_fi_op_take(&ep->domain->ops, ep, call->context) : NULL;
    int rc;

    if (recorded && !op)
        return -FI_EAGAIN;
    if (op) {
        op->hidden = hidden;
        op->flags = FI_ATOMIC | (fetch ? FI_READ : FI_WRITE);
    }
    rc = post(ep, call, op, count, hidden && !recorded);
    if (rc && op)
        nigh_fi_op_give(&ep->domain->ops, op);
    return rc;
}

static ssize_t run(struct fid_ep *fid, const struct call *call)
{
    struct nigh_fi_ep *ep = NIGH_FI_EP(fid);
    int rc = check(call->type, call->op, call->way);
    size_t count;

    if (rc)
        return rc;
    if (call->from_count > NIGH_FI_IOV || call->compare_count > NIGH_FI_IOV ||
        call->result_count > NIGH_FI_IOV)
        return -FI_EINVAL;
    count = call->op == FI_ATOMIC_READ ? elements(call->result, call->result_count)
                                       : elements(call->from, call->from_count);
    if (!count || count * types[call->type].width > NIGH_ATOMIC_BYTES ||
        (call->way != WRITE && elements(call->result, call->result_count) != count) ||
        (call->way == COMPARE && elements(call->compare, call->compare_count) != count))
        return -FI_EINVAL;
    nigh_fi_lock(ep->domain);
    rc = issue(ep, call, count);
    nigh_fi_unlock(ep->domain);
    return rc;
}

#define IOC(buf, n) (&(struct fi_ioc){(void *)(uintptr_t)(buf), (n)})
#define FLAGS(ep)   (NIGH_FI_EP(ep)->tx_op_flags)

static ssize_t writev_(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t dest,
                       uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    return run(ep, &(struct call){.from = iov,
                                  .from_desc = desc,
                                  .from_count = count,
                                  .peer = dest,
                                  .offset = addr,
                                  .key = key,
                                  .type = type,
                                  .op = op,
                                  .context = context,
                                  .flags = FLAGS(ep),
                                  .way = WRITE});
}

static ssize_t write_(struct fid_ep *ep, const void *buf, size_t count, void *desc, fi_addr_t dest,
                      uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    return writev_(ep, IOC(buf, count), &desc, 1, dest, addr, key, type, op, context);
}

static ssize_t writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    if (msg->rma_iov_count != 1)
        return -FI_EINVAL;
    return run(ep, &(struct call){.from = msg->msg_iov,
                                  .from_desc = msg->desc,
                                  .from_count = msg->iov_count,
                                  .peer = msg->addr,
                                  .offset = msg->rma_iov->addr,
                                  .key = msg->rma_iov->key,
                                  .type = msg->datatype,
                                  .op = msg->op,
                                  .context = msg->context,
                                  .flags = flags,
                                  .way = WRITE});
}

static ssize_t inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest, uint64_t addr,
                      uint64_t key, enum fi_datatype type, enum fi_op op)
{
    return run(ep, &(struct call){.from = IOC(buf, count),
                                  .from_count = 1,
                                  .peer = dest,
                                  .offset = addr,
                                  .key = key,
                                  .type = type,
                                  .op = op,
                                  .way = WRITE,
                                  .bare = true});
}

static ssize_t readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                          struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest,
                          uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    return run(ep, &(struct call){.from = iov,
                                  .from_desc = desc,
                                  .from_count = count,
                                  .result = resultv,
                                  .result_desc = result_desc,
                                  .result_count = result_count,
                                  .peer = dest,
                                  .offset = addr,
                                  .key = key,
                                  .type = type,
                                  .op = op,
                                  .context = context,
                                  .flags = FLAGS(ep),
                                  .way = FETCH});
}

static ssize_t readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
                         void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
                         enum fi_datatype type, enum fi_op op, void *context)
{
    return readwritev(ep, IOC(buf, count), &desc, 1, IOC(result, count), &result_desc, 1, dest, addr, key,
                      type, op, context);
}

static ssize_t readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
                            void **result_desc, size_t result_count, uint64_t flags)
{
    if (msg->rma_iov_count != 1)
        return -FI_EINVAL;
    return run(ep, &(struct call){.from = msg->msg_iov,
                                  .from_desc = msg->desc,
                                  .from_count = msg->iov_count,
                                  .result = resultv,
                                  .result_desc = result_desc,
                                  .result_count = result_count,
                                  .peer = msg->addr,
                                  .offset = msg->rma_iov->addr,
                                  .key = msg->rma_iov->key,
                                  .type = msg->datatype,
                                  .op = msg->op,
                                  .context = msg->context,
                                  .flags = flags,
                                  .way = FETCH});
}

static ssize_t compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                          const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
                          struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest,
                          uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    return run(ep, &(struct call){.from = iov,
                                  .from_desc = desc,
                                  .from_count = count,
                                  .compare = comparev,
                                  .compare_desc = compare_desc,
                                  .compare_count = compare_count,
                                  .result = resultv,
                                  .result_desc = result_desc,
                                  .result_count = result_count,
                                  .peer = dest,
                                  .offset = addr,
                                  .key = key,
                                  .type = type,
                                  .op = op,
                                  .context = context,
                                  .flags = FLAGS(ep),
                                  .way = COMPARE});
}

static ssize_t compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, const void *compare,
                         void *compare_desc, void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
                         uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    return compwritev(ep, IOC(buf, count), &desc, 1, IOC(compare, count), &compare_desc, 1,
                      IOC(result, count), &result_desc, 1, dest, addr, key, type, op, context);
}

static ssize_t compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, const struct fi_ioc *comparev,
                            void **compare_desc, size_t compare_count, struct fi_ioc *resultv,
                            void **result_desc, size_t result_count, uint64_t flags)
{
    if (msg->rma_iov_count != 1)
        return -FI_EINVAL;
    return run(ep, &(struct call){.from = msg->msg_iov,
                                  .from_desc = msg->desc,
                                  .from_count = msg->iov_count,
                                  .compare = comparev,
                                  .compare_desc = compare_desc,
                                  .compare_count = compare_count,
                                  .result = resultv,
                                  .result_desc = result_desc,
                                  .result_count = result_count,
                                  .peer = msg->addr,
                                  .offset = msg->rma_iov->addr,
                                  .key = msg->rma_iov->key,
                                  .type = msg->datatype,
                                  .op = msg->op,
                                  .context = msg->context,
                                  .flags = flags,
                                  .way = COMPARE});
}

/* ---- what there is ------------------------------------------------------------------------------------- */

static int writevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
    (void)ep;
    return valid(type, op, WRITE, count);
}

static int readwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
    (void)ep;
    return valid(type, op, FETCH, count);
}

static int compwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
    (void)ep;
    return valid(type, op, COMPARE, count);
}

int nigh_fi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
                         struct fi_atomic_attr *attr, uint64_t flags)
{
    enum way way = flags & FI_COMPARE_ATOMIC ? COMPARE : flags & FI_FETCH_ATOMIC ? FETCH : WRITE;
    int rc;

    (void)domain;
    if (!attr || flags & ~(FI_COMPARE_ATOMIC | FI_FETCH_ATOMIC))
        return -FI_EOPNOTSUPP;
    rc = valid(type, op, way, &attr->count);
    if (!rc)
        attr->size = types[type].width;
    return rc;
}

struct fi_ops_atomic nigh_fi_atomic = {
    .size = sizeof(struct fi_ops_atomic),
    .write = write_,
    .writev = writev_,
    .writemsg = writemsg,
    .inject = inject,
    .readwrite = readwrite,
    .readwritev = readwritev,
    .readwritemsg = readwritemsg,
    .compwrite = compwrite,
    .compwritev = compwritev,
    .compwritemsg = compwritemsg,
    .writevalid = writevalid,
    .readwritevalid = readwritevalid,
    .compwritevalid = compwritevalid,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/rma.c - reads and writes of registered memory. Nigh's operations end when the other side is done,
 * which is more than any completion level asks. */
#include "hosts/libfabric/op.h"
#include "hosts/libfabric/peer.h"
#include "hosts/libfabric/refuse.h"
#include "hosts/libfabric/stage.h"

/* One operation, however it was called. */
struct call {
    const struct iovec *iov;
    void *const *desc;
    size_t count;
    fi_addr_t peer;
    uint64_t offset, key;
    uint64_t data;
    void *context;
    uint64_t flags; /* libfabric's */
    bool read;
    bool bare; /* fi_inject_write() and its kin: nobody hears of it */
};

static int post(struct nigh_fi_ep *ep, const struct call *call, const struct nigh_rma *rma)
{
    int rc;
    struct nigh_endpoint *peer = nigh_fi_peer_or(ep, call->peer, &rc);

    if (!peer)
        return rc;
    return call->read ? ep->nigh->post_get(peer, rma) : ep->nigh->post_put(peer, rma);
}

/* Memory of our own that stands for the host's: of vectors, and where the host may reuse its own at once. */
static int use_copy(struct nigh_fi_ep *ep, struct nigh_fi_op *op, const struct call *call,
                    const struct nigh_fi_parts *parts, struct nigh_rma *rma)
{
    int rc = nigh_fi_copy_room(op, rma->bytes);

    rma->buffer = op->copy;
    if (rc)
        return rc;
    if (!call->read)
        return nigh_fi_gather(ep, op->copy, parts);
    nigh_fi_copy_for(op, parts);
    return 0;
}

static int issue(struct nigh_fi_ep *ep, const struct call *call, const struct nigh_fi_parts *parts)
{
    bool copied = call->count > 1 || call->flags & FI_INJECT, device = !copied && parts->devices;
    bool hidden = call->bare || !ep->tx_cq || (ep->tx_selective && !(call->flags & FI_COMPLETION));
    bool counted = ep->cntr[call->read ? NIGH_FI_READS : NIGH_FI_WRITES] != NULL;
    bool recorded = copied || (hidden && counted), noted = call->flags & FI_REMOTE_CQ_DATA;
    struct nigh_fi_op *op = recorded ? nigh_fi_op_take(&ep->domain->ops, ep, call->context) : NULL;
    struct nigh_rma rma = {
        .size = sizeof(rma),
        .flags =
            (hidden && !recorded ? NIGH_SILENT : 0) | (noted ? NIGH_NOTIFY : 0) | (device ? NIGH_DEVICE : 0),
        .buffer = call->count ? call->iov->iov_base : NULL,
        .bytes = nigh_fi_iov_bytes(call->iov, call->count),
        .offset = call->offset,
        .key = call->key | NIGH_KEY_CHOSEN,
        .imm = noted ? (call->data & NIGH_FI_DATA) | NIGH_FI_WITH_DATA : 0,
        .context = op ? (uintptr_t)op : (uintptr_t)call->context,
        .region = device ? parts->region : NULL,
    };
    int rc = recorded && !op ? -FI_EAGAIN : 0;

    if (op)
        op->hidden = hidden;
    if (!rc && copied)
        rc = use_copy(ep, op, call, parts, &rma);
    if (!rc)
        rc = post(ep, call, &rma);
    if (rc && op)
        nigh_fi_op_give(&ep->domain->ops, op);
    return rc;
}

static ssize_t run(struct fid_ep *fid, const struct call *call)
{
    struct nigh_fi_ep *ep = NIGH_FI_EP(fid);
    struct nigh_fi_parts parts;
    int rc;

    if (call->count > NIGH_FI_IOV)
        return -FI_EINVAL;
    if (call->flags & FI_INJECT && nigh_fi_iov_bytes(call->iov, call->count) > NIGH_INJECT_BYTES)
        return -FI_EMSGSIZE;
    nigh_fi_lock(ep->domain);
    nigh_fi_parts_find(ep, call->iov, call->desc, call->count, &parts);
    rc = issue(ep, call, &parts);
    nigh_fi_unlock(ep->domain);
    return nigh_fi_refusal(rc);
}

#define ONE(buf, len) (&(struct iovec){(void *)(uintptr_t)(buf), (len)})

static ssize_t readv_(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src,
                      uint64_t addr, uint64_t key, void *context)
{
    return run(ep, &(struct call){iov, desc, count, src, addr, key, 0, context,
                                  NIGH_FI_EP(ep)->tx_op_flags & ~FI_INJECT, true, false});
}

static ssize_t read_(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t addr,
                     uint64_t key, void *context)
{
    return readv_(ep, ONE(buf, len), &desc, 1, src, addr, key, context);
}

static ssize_t readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    if (msg->rma_iov_count != 1)
        return -FI_EINVAL;
    return run(ep, &(struct call){msg->msg_iov, msg->desc, msg->iov_count, msg->addr, msg->rma_iov->addr,
                                  msg->rma_iov->key, 0, msg->context,
                                  flags & ~(FI_INJECT | FI_REMOTE_CQ_DATA), true, false});
}

static ssize_t writev_(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest,
                       uint64_t addr, uint64_t key, void *context)
{
    return run(ep, &(struct call){iov, desc, count, dest, addr, key, 0, context, NIGH_FI_EP(ep)->tx_op_flags,
                                  false, false});
}

static ssize_t write_(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                      uint64_t addr, uint64_t key, void *context)
{
    return writev_(ep, ONE(buf, len), &desc, 1, dest, addr, key, context);
}

static ssize_t writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    if (msg->rma_iov_count != 1)
        return -FI_EINVAL;
    return run(ep, &(struct call){msg->msg_iov, msg->desc, msg->iov_count, msg->addr, msg->rma_iov->addr,
                                  msg->rma_iov->key, msg->data, msg->context, flags, false, false});
}

static ssize_t inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest, uint64_t addr,
                      uint64_t key)
{
    return run(ep, &(struct call){ONE(buf, len), NULL, 1, dest, addr, key, 0, NULL, FI_INJECT, false, true});
}

static ssize_t writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
                         fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    return run(ep, &(struct call){ONE(buf, len), &desc, 1, dest, addr, key, data, context,
                                  NIGH_FI_EP(ep)->tx_op_flags | FI_REMOTE_CQ_DATA, false, false});
}

static ssize_t injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest,
                          uint64_t addr, uint64_t key)
{
    return run(fid, &(struct call){ONE(buf, len), NULL, 1, dest, addr, key, data, NULL,
                                   FI_INJECT | FI_REMOTE_CQ_DATA, false, true});
}

struct fi_ops_rma nigh_fi_rma = {
    .size = sizeof(struct fi_ops_rma),
    .read = read_,
    .readv = readv_,
    .readmsg = readmsg,
    .write = write_,
    .writev = writev_,
    .writemsg = writemsg,
    .inject = inject,
    .writedata = writedata,
    .injectdata = injectdata,
};

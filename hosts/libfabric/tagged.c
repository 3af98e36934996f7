/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/tagged.c - the tagged interface. */
#include "hosts/libfabric/post.h"
#include "hosts/libfabric/refuse.h"

#define WHAT(...) (&(struct nigh_fi_what){.tclass = NIGH_FI_TAGGED, __VA_ARGS__})

static ssize_t recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t tag,
                    uint64_t ignore, void *context)
{
    return nigh_fi_recv_one(ep, buf, len, desc, src, tag, ignore, context, NIGH_FI_TAGGED);
}

static ssize_t recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src,
                     uint64_t tag, uint64_t ignore, void *context)
{
    return nigh_fi_recv_any(NIGH_FI_EP(ep),
                            WHAT(.peer = src, .tag = tag, .ignore = ignore, .context = context, .desc = desc),
                            iov, count, NIGH_FI_EP(ep)->rx_op_flags);
}

static ssize_t recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    const struct nigh_fi_what *what = WHAT(.peer = msg->addr, .tag = msg->tag, .ignore = msg->ignore,
                                           .context = msg->context, .desc = msg->desc);

    if (flags & FI_PEEK)
        return nigh_fi_peek(NIGH_FI_EP(ep), what, flags);
    if (flags & FI_CLAIM)
        return nigh_fi_claim(NIGH_FI_EP(ep), what, msg->msg_iov, msg->iov_count, flags);
    return nigh_fi_recv_any(NIGH_FI_EP(ep), what, msg->msg_iov, msg->iov_count, flags);
}

static ssize_t send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t tag,
                    void *context)
{
    return nigh_fi_send_one(ep, buf, len, desc, dest, tag, 0, context, NIGH_FI_TAGGED);
}

static ssize_t sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest,
                     uint64_t tag, void *context)
{
    return nigh_fi_send_any(NIGH_FI_EP(ep), WHAT(.peer = dest, .tag = tag, .context = context, .desc = desc),
                            iov, count, NIGH_FI_EP(ep)->tx_op_flags);
}

static ssize_t sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    uint64_t imm = flags & FI_REMOTE_CQ_DATA ? nigh_fi_imm(msg->data) : 0;

    return nigh_fi_send_any(
        NIGH_FI_EP(ep),
        WHAT(.peer = msg->addr, .tag = msg->tag, .imm = imm, .context = msg->context, .desc = msg->desc),
        msg->msg_iov, msg->iov_count, flags);
}

static ssize_t inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest, uint64_t tag)
{
    return nigh_fi_inject_one(ep, buf, len, dest, tag, 0, NIGH_FI_TAGGED);
}

static ssize_t senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
                        fi_addr_t dest, uint64_t tag, void *context)
{
    return nigh_fi_send_one(ep, buf, len, desc, dest, tag, nigh_fi_imm(data), context, NIGH_FI_TAGGED);
}

static ssize_t injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest,
                          uint64_t tag)
{
    return nigh_fi_inject_one(ep, buf, len, dest, tag, nigh_fi_imm(data), NIGH_FI_TAGGED);
}

struct fi_ops_tagged nigh_fi_tagged = {
    .size = sizeof(struct fi_ops_tagged),
    .recv = recv,
    .recvv = recvv,
    .recvmsg = recvmsg,
    .send = send,
    .sendv = sendv,
    .sendmsg = sendmsg,
    .inject = inject,
    .senddata = senddata,
    .injectdata = injectdata,
};

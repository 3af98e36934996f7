/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/message.c - the untagged interface. */
#include "hosts/libfabric/post.h"
#include "hosts/libfabric/refuse.h"

#define WHAT(...) (&(struct nigh_fi_what){.tclass = NIGH_FI_MSG, __VA_ARGS__})

static ssize_t recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, void *context)
{
    if (NIGH_FI_UNLIKELY(NIGH_FI_EP(ep)->rx_op_flags & FI_MULTI_RECV))
        return nigh_fi_recv_any(NIGH_FI_EP(ep), WHAT(.peer = src, .context = context, .desc = &desc),
                                &(struct iovec){buf, len}, 1, NIGH_FI_EP(ep)->rx_op_flags);
    return nigh_fi_recv_one(ep, buf, len, desc, src, 0, 0, context, NIGH_FI_MSG);
}

static ssize_t recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src,
                     void *context)
{
    return nigh_fi_recv_any(NIGH_FI_EP(ep), WHAT(.peer = src, .context = context, .desc = desc), iov, count,
                            NIGH_FI_EP(ep)->rx_op_flags);
}

static ssize_t recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    const struct nigh_fi_what *what = WHAT(.peer = msg->addr, .context = msg->context, .desc = msg->desc);

    if (flags & FI_PEEK)
        return nigh_fi_peek(NIGH_FI_EP(ep), what, flags);
    if (flags & FI_CLAIM)
        return nigh_fi_claim(NIGH_FI_EP(ep), what, msg->msg_iov, msg->iov_count, flags);
    return nigh_fi_recv_any(NIGH_FI_EP(ep), what, msg->msg_iov, msg->iov_count, flags);
}

static ssize_t send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest, void *context)
{
    return nigh_fi_send_one(ep, buf, len, desc, dest, 0, 0, context, NIGH_FI_MSG);
}

static ssize_t sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest,
                     void *context)
{
    return nigh_fi_send_any(NIGH_FI_EP(ep), WHAT(.peer = dest, .context = context, .desc = desc), iov, count,
                            NIGH_FI_EP(ep)->tx_op_flags);
}

static ssize_t sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    uint64_t imm = flags & FI_REMOTE_CQ_DATA ? nigh_fi_imm(msg->data) : 0;

    return nigh_fi_send_any(NIGH_FI_EP(ep),
                            WHAT(.peer = msg->addr, .imm = imm, .context = msg->context, .desc = msg->desc),
                            msg->msg_iov, msg->iov_count, flags);
}

static ssize_t inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest)
{
    return nigh_fi_inject_one(ep, buf, len, dest, 0, 0, NIGH_FI_MSG);
}

static ssize_t senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
                        fi_addr_t dest, void *context)
{
    return nigh_fi_send_one(ep, buf, len, desc, dest, 0, nigh_fi_imm(data), context, NIGH_FI_MSG);
}

static ssize_t injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest)
{
    return nigh_fi_inject_one(ep, buf, len, dest, 0, nigh_fi_imm(data), NIGH_FI_MSG);
}

struct fi_ops_msg nigh_fi_message = {
    .size = sizeof(struct fi_ops_msg),
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

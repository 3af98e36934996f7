/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/stage.c - see stage.h. */
#include "hosts/libfabric/stage.h"
#include "hosts/libfabric/cuda.h"
#include "hosts/libfabric/mr.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static_assert(NIGH_FI_IOV <= 8, "a bit for each part");

void nigh_fi_parts_find(struct nigh_fi_ep *ep, const struct iovec *iov, void *const *desc, size_t count,
                        struct nigh_fi_parts *out)
{
    *out = (struct nigh_fi_parts){.iov = iov, .count = count};
    for (size_t i = 0; ep->hmem && i < count; i++) {
        const struct nigh_fi_mr *mr = desc ? desc[i] : NULL;

        if (!(mr ? mr->device : ep->domain->detects))
            continue;
        out->devices |= (uint8_t)(1u << i);
        if (mr && count == 1)
            out->region = nigh_fi_mr_region(mr, ep);
    }
}

/* Between a part and memory of the host's, `way` as copy_device(): nigh finds out where it lies. */
static int copy_part(struct nigh_fi_ep *ep, const struct iovec *part, void *host, size_t bytes, uint32_t way)
{
    int rc = ep->context ? ep->nigh->copy_device(ep->context, NULL, part->iov_base, host, bytes, way)
                         : -FI_EOPBADSTATE;

    return nigh_fi_refusal(rc);
}

int nigh_fi_gather(struct nigh_fi_ep *ep, void *to, const struct nigh_fi_parts *parts)
{
    char *at = to;
    int rc = 0;

    for (size_t i = 0; i < parts->count && !rc; i++) {
        const struct iovec *part = &parts->iov[i];

        if (parts->devices & 1u << i)
            rc = copy_part(ep, part, at, part->iov_len, NIGH_COPY_OUT);
        else if (part->iov_len)
            memcpy(at, part->iov_base, part->iov_len);
        at += part->iov_len;
    }
    return rc;
}

int nigh_fi_scatter(struct nigh_fi_ep *ep, const struct nigh_fi_op *op, const void *from, size_t bytes)
{
    char *at = (char *)(uintptr_t)from;
    int rc = 0;

    for (size_t i = 0; i < op->count && bytes && !rc; i++) {
        size_t take = op->iov[i].iov_len < bytes ? op->iov[i].iov_len : bytes;

        if (op->devices & 1u << i)
            rc = copy_part(ep, &op->iov[i], at, take, NIGH_COPY_IN);
        else if (take)
            memcpy(op->iov[i].iov_base, at, take);
        at += take;
        bytes -= take;
    }
    return rc;
}

int nigh_fi_copy_room(struct nigh_fi_op *op, size_t bytes)
{
    op->copy = malloc(bytes ? bytes : 1);
    return op->copy ? 0 : -FI_EAGAIN;
}

void nigh_fi_copy_for(struct nigh_fi_op *op, const struct nigh_fi_parts *parts)
{
    op->scatter = true;
    op->devices = parts->devices;
    op->count = (uint8_t)parts->count;
    for (size_t i = 0; i < parts->count; i++)
        op->iov[i] = parts->iov[i];
}

/* Buffers for many messages are asked about: those of the host's need no copy. */
int nigh_fi_recv_is_copied(struct nigh_fi_ep *ep, const struct nigh_fi_parts *parts, bool multi, bool *copied)
{
    int ordinal = -1, rc = 0;

    if (multi && parts->devices)
        rc = nigh_fi_cuda_find(ep->domain->cuda, parts->iov->iov_base, &ordinal);
    *copied = parts->count > 1 || ordinal >= 0;
    return rc;
}

int nigh_fi_recv_place(struct nigh_fi_op *op, const struct nigh_fi_parts *parts, bool copied,
                       struct nigh_recv *recv)
{
    bool multi = recv->flags & NIGH_MULTI;
    int rc;

    recv->bytes = nigh_fi_iov_bytes(parts->iov, parts->count);
    recv->buffer = parts->count ? parts->iov->iov_base : NULL;
    if (!copied && parts->devices && !multi) {
        recv->flags |= NIGH_DEVICE;
        recv->region = parts->region;
    }
    if (!copied)
        return 0;
    nigh_fi_copy_for(op, parts);
    op->multi = multi;
    rc = nigh_fi_copy_room(op, recv->bytes);
    recv->buffer = op->copy;
    return rc;
}

int nigh_fi_refusal(int rc)
{
    /* Outside of its registration, and on several devices. */
    return rc == -ERANGE || rc == -EXDEV ? -FI_EINVAL : rc;
}

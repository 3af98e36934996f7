/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/hints.c - whether a host's hints can be had, and what it gets. Every refusal says which hint it was,
 * what was asked and what there is: without that nobody finds out why an MPI passes this provider over.
 */
#include "hosts/libfabric/info.h"
#include "hosts/libfabric/log.h"

#include <string.h>
#include <strings.h>

#define PRIMARY                                                                                              \
    (FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_MULTICAST | FI_COLLECTIVE | FI_DIRECTED_RECV |             \
     FI_NAMED_RX_CTX | FI_VARIABLE_MSG | FI_HMEM | FI_READ | FI_WRITE | FI_RECV | FI_SEND | FI_REMOTE_READ | \
     FI_REMOTE_WRITE)
/* Secondary, and yet not had for nothing. */
#define ASKED          (PRIMARY | FI_RMA_EVENT)
#define MSG_DIRECTIONS (FI_SEND | FI_RECV)
#define RMA_DIRECTIONS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static int refuse(const char *what, uint64_t asked, uint64_t have)
{
    nigh_fi_log(NIGH_FI_INFO, "%s: asked for %#llx, this provider has %#llx", what, (unsigned long long)asked,
                (unsigned long long)have);
    return -FI_ENODATA;
}

static int bits(const char *what, uint64_t asked, uint64_t have)
{
    return asked & ~have ? refuse(what, asked, have) : 0;
}

static int at_most(const char *what, uint64_t asked, uint64_t have)
{
    return asked > have ? refuse(what, asked, have) : 0;
}

/* 0 asks for nothing. */
static int equal(const char *what, uint64_t asked, uint64_t have)
{
    return asked && asked != have ? refuse(what, asked, have) : 0;
}

static int check_name(const char *what, const char *asked)
{
    if (!asked || strcmp(asked, NIGH_FI_NAME) == 0)
        return 0;
    nigh_fi_log(NIGH_FI_INFO, "%s: asked for %s, this provider's is " NIGH_FI_NAME, what, asked);
    return -FI_ENODATA;
}

static int check_fabric(const struct fi_fabric_attr *asked)
{
    int rc = check_name("fabric name", asked->name);

    /* Utility providers put themselves in front: "nigh;ofi_x". */
    if (!rc && asked->prov_name && !strcasestr(asked->prov_name, NIGH_FI_NAME))
        rc = check_name("provider name", asked->prov_name);
    return rc ? rc : at_most("provider version", asked->prov_version, NIGH_FI_VERSION);
}

static int check_registration(const struct fi_info *hints, uint32_t version)
{
    int mode = hints->domain_attr->mr_mode;

    /* Keys are the host's and addresses are offsets: what was once called scalable. */
    if (version < FI_VERSION(1, 5))
        return mode && mode != FI_MR_SCALABLE ? refuse("mr_mode", (uint64_t)mode, FI_MR_SCALABLE) : 0;
    if (mode & FI_MR_BASIC || (mode & FI_MR_SCALABLE && mode != FI_MR_SCALABLE))
        return refuse("mr_mode", (uint64_t)mode, FI_MR_SCALABLE);
    return 0;
}

static int check_progress(const char *what, enum fi_progress asked)
{
    return asked == FI_PROGRESS_AUTO ? refuse(what, asked, FI_PROGRESS_MANUAL) : 0;
}

static int check_domain(const struct fi_info *hints, const struct fi_domain_attr *have, uint32_t version)
{
    const struct fi_domain_attr *asked = hints->domain_attr;
    int rc = check_name("domain name", asked->name);

    if (!rc)
        rc = check_progress("control_progress", asked->control_progress);
    if (!rc)
        rc = check_progress("data_progress", asked->data_progress);
    if (!rc)
        rc = at_most("threading", asked->threading, FI_THREAD_ENDPOINT);
    if (!rc)
        rc = at_most("av_type", asked->av_type, FI_AV_TABLE);
    if (!rc)
        rc = at_most("cq_data_size", asked->cq_data_size, have->cq_data_size);
    if (!rc)
        rc = check_registration(hints, version);
    if (rc || version < FI_VERSION(1, 5))
        return rc;
    rc = at_most("cntr_cnt", asked->cntr_cnt, have->cntr_cnt);
    if (!rc)
        rc = at_most("mr_iov_limit", asked->mr_iov_limit, have->mr_iov_limit);
    if (!rc)
        rc = bits("domain caps", asked->caps, have->caps);
    if (!rc)
        rc = at_most("max_err_data", asked->max_err_data, have->max_err_data);
    return rc ? rc : at_most("mr_cnt", asked->mr_cnt, have->mr_cnt);
}

/* The highest tag that a format has room for. */
static uint64_t highest(uint64_t format)
{
    uint64_t value = 0;

    for (; format; format >>= 1)
        value = value << 1 | 1;
    return value;
}

static int check_ep(const struct fi_info *hints, const struct fi_info *full)
{
    const struct fi_ep_attr *asked = hints->ep_attr, *have = full->ep_attr;
    int rc = equal("endpoint type", asked->type, have->type);

    if (!rc)
        rc = equal("protocol", asked->protocol, have->protocol);
    if (!rc)
        rc = at_most("protocol_version", asked->protocol_version, have->protocol_version);
    if (!rc)
        rc = at_most("max_msg_size", asked->max_msg_size, have->max_msg_size);
    if (!rc)
        rc = at_most("tx_ctx_cnt", asked->tx_ctx_cnt, full->domain_attr->max_ep_tx_ctx);
    if (!rc)
        rc = at_most("rx_ctx_cnt", asked->rx_ctx_cnt, full->domain_attr->max_ep_rx_ctx);
    if (!rc)
        rc = equal("auth_key_size", asked->auth_key_size, have->auth_key_size);
    if (!rc && hints->caps & FI_TAGGED)
        rc = at_most("mem_tag_format", highest(asked->mem_tag_format), highest(have->mem_tag_format));
    if (rc || !(hints->caps & (FI_RMA | FI_ATOMIC)))
        return rc;
    rc = at_most("max_order_raw_size", asked->max_order_raw_size, have->max_order_raw_size);
    if (!rc)
        rc = at_most("max_order_war_size", asked->max_order_war_size, have->max_order_war_size);
    return rc ? rc : at_most("max_order_waw_size", asked->max_order_waw_size, have->max_order_waw_size);
}

static int check_tx(const struct fi_tx_attr *asked, const struct fi_tx_attr *have)
{
    int rc = bits("tx caps", asked->caps & ~(NIGH_FI_RX_CAPS | NIGH_FI_DOMAIN_CAPS), have->caps);

    if (!rc)
        rc = bits("tx op_flags", asked->op_flags, have->op_flags);
    if (!rc)
        rc = bits("tx msg_order", asked->msg_order, have->msg_order);
    if (!rc)
        rc = bits("tx comp_order", asked->comp_order, have->comp_order);
    if (!rc)
        rc = at_most("inject_size", asked->inject_size, have->inject_size);
    if (!rc)
        rc = at_most("tx size", asked->size, have->size);
    if (!rc)
        rc = at_most("tx iov_limit", asked->iov_limit, have->iov_limit);
    return rc ? rc : at_most("rma_iov_limit", asked->rma_iov_limit, have->rma_iov_limit);
}

static int check_rx(const struct fi_rx_attr *asked, const struct fi_rx_attr *have)
{
    int rc = bits("rx caps", asked->caps & ~(NIGH_FI_TX_CAPS | NIGH_FI_DOMAIN_CAPS), have->caps);

    if (!rc)
        rc = bits("rx op_flags", asked->op_flags, have->op_flags);
    if (!rc)
        rc = bits("rx msg_order", asked->msg_order, have->msg_order);
    if (!rc)
        rc = bits("rx comp_order", asked->comp_order, have->comp_order);
    if (!rc)
        rc = at_most("total_buffered_recv", asked->total_buffered_recv, have->total_buffered_recv);
    if (!rc)
        rc = at_most("rx size", asked->size, have->size);
    return rc ? rc : at_most("rx iov_limit", asked->iov_limit, have->iov_limit);
}

int nigh_fi_hints_check(const struct fi_info *hints, const struct fi_info *full, uint32_t version)
{
    int rc;

    if (!hints)
        return 0;
    rc = bits("caps", hints->caps, full->caps);
    if (!rc)
        rc = equal("addr_format", hints->addr_format, full->addr_format);
    if (!rc && hints->fabric_attr)
        rc = check_fabric(hints->fabric_attr);
    if (!rc && hints->domain_attr)
        rc = check_domain(hints, full->domain_attr, version);
    if (!rc && hints->ep_attr)
        rc = check_ep(hints, full);
    if (!rc && hints->tx_attr)
        rc = check_tx(hints->tx_attr, full->tx_attr);
    if (!rc && hints->rx_attr)
        rc = check_rx(hints->rx_attr, full->rx_attr);
    return rc;
}

/* ---- what they get ------------------------------------------------------------------------------------- */

/* Of `have`: the primary ones that were asked for, in the directions asked for or in all, and
 * whatever costs nothing. */
static uint64_t narrow(uint64_t asked, uint64_t have)
{
    uint64_t caps = asked & ASKED;

    if (!asked)
        return have;
    if (caps & (FI_MSG | FI_TAGGED) && !(caps & MSG_DIRECTIONS))
        caps |= MSG_DIRECTIONS;
    if (caps & (FI_RMA | FI_ATOMIC) && !(caps & RMA_DIRECTIONS))
        caps |= RMA_DIRECTIONS;
    return (caps | ~(uint64_t)ASKED) & have;
}

static void apply_domain(const struct fi_domain_attr *asked, struct fi_domain_attr *domain, uint32_t version,
                         bool hmem)
{
    if (asked->threading)
        domain->threading = asked->threading;
    if (asked->av_type)
        domain->av_type = asked->av_type;
    if (asked->resource_mgmt)
        domain->resource_mgmt = asked->resource_mgmt;
    domain->mr_mode = asked->mr_mode & FI_MR_SCALABLE || version < FI_VERSION(1, 5) ? FI_MR_SCALABLE : 0;
    /* Who gives a descriptor with all device memory saves the driver a question for each of the host's. */
    if (hmem)
        domain->mr_mode |= asked->mr_mode & FI_MR_HMEM;
}

void nigh_fi_hints_apply(const struct fi_info *hints, struct fi_info *info, uint32_t version)
{
    if (version < FI_VERSION(1, 5))
        info->domain_attr->mr_mode = FI_MR_SCALABLE;
    info->tx_attr->op_flags = info->rx_attr->op_flags = 0;
    if (!hints)
        return;
    info->caps = narrow(hints->caps, info->caps);
    info->tx_attr->caps &= narrow(hints->tx_attr ? hints->tx_attr->caps : 0, info->caps);
    info->rx_attr->caps &= narrow(hints->rx_attr ? hints->rx_attr->caps : 0, info->caps);
    if (hints->domain_attr)
        apply_domain(hints->domain_attr, info->domain_attr, version, info->caps & FI_HMEM);
    if (hints->tx_attr) {
        info->tx_attr->op_flags = hints->tx_attr->op_flags;
        if (hints->tx_attr->size)
            info->tx_attr->size = hints->tx_attr->size;
    }
    if (hints->rx_attr) {
        info->rx_attr->op_flags = hints->rx_attr->op_flags;
        if (hints->rx_attr->size)
            info->rx_attr->size = hints->rx_attr->size;
    }
    info->handle = hints->handle;
}

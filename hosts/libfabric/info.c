/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/info.c - fi_getinfo: what the provider can do in this process, narrowed to what is asked for. */
#include "hosts/libfabric/info.h"
#include "hosts/libfabric/cuda.h"
#include "hosts/libfabric/intel.h"
#include "hosts/libfabric/launcher.h"
#include "hosts/libfabric/log.h"
#include "hosts/libfabric/name.h"
#include "hosts/libfabric/plugin.h"

#include <stdlib.h>
#include <string.h>

/* libfabric copies what we return by the sizes that its own version knows: later versions append
 * fields, which must read as zero. */
#define ROOM 512

/* Messages of a class stay in order, and so do atomics on a peer, which applies them one by one as they come. */
#define ORDER \
    (FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)

static const struct fi_tx_attr tx_full = {
    .caps = NIGH_FI_TX_CAPS,
    .op_flags = NIGH_FI_TX_FLAGS,
    .msg_order = ORDER,
    .inject_size = NIGH_INJECT_BYTES,
    .size = 16384, /* what nigh queues for one peer */
    .iov_limit = NIGH_FI_IOV,
    .rma_iov_limit = 1,
};

static const struct fi_rx_attr rx_full = {
    .caps = NIGH_FI_RX_CAPS,
    .op_flags = NIGH_FI_RX_FLAGS,
    .msg_order = ORDER,
    .total_buffered_recv = SIZE_MAX,
    .size = 65536,
    .iov_limit = NIGH_FI_IOV,
};

static const struct fi_ep_attr ep_full = {
    .type = FI_EP_RDM,
    .protocol = FI_PROV_SPECIFIC | 0x6e69,
    .protocol_version = 1,
    .max_msg_size = SIZE_MAX,
    .max_order_raw_size = NIGH_ATOMIC_BYTES,
    .max_order_war_size = NIGH_ATOMIC_BYTES,
    .max_order_waw_size = NIGH_ATOMIC_BYTES,
    .mem_tag_format = UINT64_MAX,
    .tx_ctx_cnt = 1,
    .rx_ctx_cnt = 1,
};

static const struct fi_domain_attr domain_full = {
    .threading = FI_THREAD_SAFE,
    .control_progress = FI_PROGRESS_MANUAL,
    .data_progress = FI_PROGRESS_MANUAL,
    .resource_mgmt = FI_RM_ENABLED,
    .av_type = FI_AV_UNSPEC,
    .mr_key_size = sizeof(uint64_t),
    .cq_data_size = sizeof(uint32_t),
    .cq_cnt = 1024,
    .ep_cnt = 256,
    .tx_ctx_cnt = 256,
    .rx_ctx_cnt = 256,
    .max_ep_tx_ctx = 1,
    .max_ep_rx_ctx = 1,
    .cntr_cnt = 1024,
    .max_err_data = NIGH_END_BYTES,
    .mr_iov_limit = 1,
    .mr_cnt = 65536,
    .caps = NIGH_FI_DOMAIN_CAPS,
};

void nigh_fi_info_free(struct fi_info *info)
{
    if (!info)
        return;
    free(info->src_addr);
    free(info->dest_addr);
    free(info->tx_attr);
    free(info->rx_attr);
    free(info->ep_attr);
    if (info->domain_attr)
        free(info->domain_attr->name);
    free(info->domain_attr);
    if (info->fabric_attr) {
        free(info->fabric_attr->name);
        free(info->fabric_attr->prov_name);
    }
    free(info->fabric_attr);
    free(info);
}

static struct fi_info *allocate(void)
{
    struct fi_info *info = calloc(1, ROOM);

    if (!info)
        return NULL;
    info->tx_attr = calloc(1, ROOM);
    info->rx_attr = calloc(1, ROOM);
    info->ep_attr = calloc(1, ROOM);
    info->domain_attr = calloc(1, ROOM);
    info->fabric_attr = calloc(1, ROOM);
    if (info->domain_attr)
        info->domain_attr->name = strdup(NIGH_FI_NAME);
    if (info->fabric_attr)
        info->fabric_attr->name = strdup(NIGH_FI_NAME);
    if (info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->domain_attr->name &&
        info->fabric_attr && info->fabric_attr->name)
        return info;
    nigh_fi_info_free(info);
    return NULL;
}

struct fi_info *nigh_fi_info_full(void)
{
    struct fi_info *info = allocate();
    struct nigh_fi_job job;
    const char *why;
    char *name;

    if (!info)
        return NULL;
    *info->tx_attr = tx_full;
    *info->rx_attr = rx_full;
    *info->ep_attr = ep_full;
    name = info->domain_attr->name;
    *info->domain_attr = domain_full;
    info->domain_attr->name = name;
    info->fabric_attr->prov_version = NIGH_FI_VERSION;
    info->addr_format = NIGH_FI_FORMAT;
    nigh_fi_job_find(&job);
    if (!nigh_fi_job_is_local(&job, &why)) {
        info->domain_attr->caps &= ~(uint64_t)FI_REMOTE_COMM;
        nigh_fi_log(NIGH_FI_INFO, "FI_REMOTE_COMM is not offered: %s", why);
    }
    info->caps = info->tx_attr->caps | info->rx_attr->caps | info->domain_attr->caps;
    return info;
}

/* ---- addresses ----------------------------------------------------------------------------------------- */

static int set_address(void **address, size_t *bytes, const void *from)
{
    free(*address);
    *bytes = 0;
    *address = malloc(NIGH_ADDRESS_BYTES);
    if (!*address)
        return -FI_ENOMEM;
    memcpy(*address, from, NIGH_ADDRESS_BYTES);
    *bytes = NIGH_ADDRESS_BYTES;
    return 0;
}

static bool is_ours(const struct fi_info *hints, const void *address, size_t bytes)
{
    return hints->addr_format == NIGH_FI_FORMAT && address && bytes == NIGH_ADDRESS_BYTES;
}

static int set_addresses(const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                         struct fi_info *info)
{
    uint8_t name[NIGH_ADDRESS_BYTES];
    bool asked = node || service, source = flags & FI_SOURCE;
    int rc = nigh_fi_name_make(source ? node : NULL, source ? service : NULL, name);

    if (!rc)
        rc = set_address(&info->src_addr, &info->src_addrlen, name);
    if (!rc && asked && !source)
        rc = nigh_fi_name_make(node, service, name);
    if (!rc && asked && !source)
        rc = set_address(&info->dest_addr, &info->dest_addrlen, name);
    if (rc || !hints)
        return rc;
    if (!(asked && source) && is_ours(hints, hints->src_addr, hints->src_addrlen))
        rc = set_address(&info->src_addr, &info->src_addrlen, hints->src_addr);
    if (!rc && (!asked || source) && is_ours(hints, hints->dest_addr, hints->dest_addrlen))
        rc = set_address(&info->dest_addr, &info->dest_addrlen, hints->dest_addr);
    return rc;
}

/* Only where it is asked for: the driver is not to be started in processes that do not want it. */
static void offer_devices(struct fi_info *info)
{
    const char *why;

    if (!nigh_fi_cuda_open(&why)) {
        nigh_fi_log(NIGH_FI_INFO, "FI_HMEM is not offered: %s", why);
        return;
    }
    info->caps |= FI_HMEM;
    info->tx_attr->caps |= FI_HMEM;
    info->rx_attr->caps |= FI_HMEM;
}

/* Intel MPI (2021.18) uses a provider's remote memory for windows of MPI_Win_allocate_shared, too, but never registers
 * their memory, and calls dynamic windows -1 bytes long. Where there is no remote memory it sends messages. */
static void withhold_memory(struct fi_info *info)
{
    static const uint64_t memory =
        FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT;

    info->caps &= ~memory;
    info->tx_attr->caps &= ~memory;
    info->rx_attr->caps &= ~memory;
    nigh_fi_log(
        NIGH_FI_INFO,
        "FI_RMA and FI_ATOMIC are not offered to Intel MPI, which uses them wrongly; " NIGH_FI_INTEL_ASKS
        "=1 has them offered");
}

int nigh_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                    const struct fi_info *hints, struct fi_info **out)
{
    struct fi_info *info;
    const char *told;
    int rc;

    if (!nigh_fi_plugin())
        return -FI_ENODATA;
    if (!nigh_fi_job_told(&told)) {
        nigh_fi_log(NIGH_FI_WARN,
                    "NIGH_REMOTE_COMM=\"%s\" is not valid: expected 0 or 1; nigh is not offered", told);
        return -FI_EINVAL;
    }
    info = nigh_fi_info_full();
    if (!info)
        return -FI_ENOMEM;
    info->fabric_attr->api_version = version;
    if ((!hints || !hints->caps) && nigh_fi_intel_mpi() && !nigh_fi_intel_asks())
        withhold_memory(info);
    if (hints && hints->caps & FI_HMEM)
        offer_devices(info);
    rc = nigh_fi_hints_check(hints, info, version);
    if (!rc) {
        nigh_fi_hints_apply(hints, info, version);
        rc = set_addresses(node, service, flags, hints, info);
    }
    if (rc) {
        nigh_fi_info_free(info);
        return rc;
    }
    *out = info;
    return 0;
}

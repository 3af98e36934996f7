/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/info.h - what the provider can do, and whether that is what a host asks for. */
#ifndef NIGH_LIBFABRIC_INFO_H
#define NIGH_LIBFABRIC_INFO_H

#include "hosts/libfabric/provider.h"

#define NIGH_FI_TX_CAPS (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE)
#define NIGH_FI_RX_CAPS                                                                     \
    (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | \
     FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE | FI_RMA_EVENT)
#define NIGH_FI_DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define NIGH_FI_TX_FLAGS                                                                            \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | \
     FI_MATCH_COMPLETE)
#define NIGH_FI_RX_FLAGS (FI_COMPLETION | FI_MULTI_RECV)

/* A whole fi_info, all of it allocated by malloc as fi_freeinfo() expects, that says all that the provider can do for
 * this process. NULL: no memory. */
struct fi_info *nigh_fi_info_full(void);
void nigh_fi_info_free(struct fi_info *info);

/* 0: `hints` can be had; -FI_ENODATA: not, and why was logged as information. */
int nigh_fi_hints_check(const struct fi_info *hints, const struct fi_info *full, uint32_t version);

/* Narrows `info` to what was asked for. */
void nigh_fi_hints_apply(const struct fi_info *hints, struct fi_info *info, uint32_t version);

#endif

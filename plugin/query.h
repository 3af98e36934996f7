/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/query.h - facts for the host: query.c, the lists of query_list.c, devices of query_device.c. */
#ifndef NIGH_PLUGIN_QUERY_H
#define NIGH_PLUGIN_QUERY_H

#include "plugin/endpoint.h"

int nigh_query(struct nigh_context *context, struct nigh_endpoint *endpoint, uint32_t what, void *out,
               uint64_t *bytes);
/* Hands an answer over: cut to the caller's room, or followed by zeros. */
int nigh_query_answer(const void *from, uint64_t known, void *out, uint64_t *bytes);
/* query_list.c: NIGH_QUERY_UNEXPECTED and NIGH_QUERY_POSTED. */
int nigh_query_unexpected(const struct nigh_context *context, const struct nigh_endpoint *only, void *out,
                          uint64_t *bytes);
int nigh_query_posted(const struct nigh_context *context, const struct nigh_endpoint *only, void *out,
                      uint64_t *bytes);
/* query_device.c: NIGH_QUERY_DEVICES and NIGH_QUERY_DEVICE_PATHS. */
int nigh_query_devices(struct nigh_context *context, void *out, uint64_t *bytes);
int nigh_query_device_paths(struct nigh_endpoint *endpoint, void *out, uint64_t *bytes);

#endif

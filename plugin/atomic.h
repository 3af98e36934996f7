/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/atomic.h - remote atomics: requests that the target applies to its own memory, one after another. */
#ifndef NIGH_PLUGIN_ATOMIC_H
#define NIGH_PLUGIN_ATOMIC_H

#include "plugin/endpoint.h"

/* Applies `op` to `count` elements at `at`: old values to `before` (NULL: not wanted). -EOPNOTSUPP. */
int nigh_atomic_apply(uint32_t op, uint32_t type, void *at, const void *operand, const void *compare,
                      void *before, uint32_t count);

int nigh_atomic_post(struct nigh_endpoint *endpoint, const struct nigh_atomic *atomic);

/* The target's and the initiator's side of the wire. */
enum nigh_verdict nigh_atomic_arrive(struct nigh_endpoint *endpoint, uint64_t head, uint64_t key,
                                     uint64_t offset);
enum nigh_verdict nigh_atomic_result(struct nigh_endpoint *endpoint, uint64_t head, uint64_t id,
                                     uint64_t imm);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/counted.h - messages in a shuttle of which one slot tells, and then a count. */
#ifndef NIGH_PLUGIN_COUNTED_H
#define NIGH_PLUGIN_COUNTED_H

#include "plugin/endpoint.h"

/* Should a message of `bytes` go so? */
bool nigh_counted_is_for(uint64_t bytes);
/* Sends it. The shuttle and `id` are the message's, there is room for a slot, and the flags name the shuttle. */
void nigh_counted_send(struct nigh_endpoint *endpoint, const struct nigh_send *send, uint8_t *shuttle,
                       uint32_t flags, uint32_t id);
/* Can one begin like this? */
bool nigh_counted_is_sound(const struct nigh_wire_first *first, uint32_t flags);
/* Its first step has been taken: the rest is looked for now, and in each poll of the endpoint.
 * NIGH_BAD: the count cannot be. */
enum nigh_verdict nigh_counted_begin(struct nigh_message *message, uint32_t flags);
/* Takes what the count of the endpoint's message, which there is, says is there. `behind`: a slot behind it is, so all
 * of it must be; else, and where the count cannot be, the endpoint breaks. Returns whether anything moved. */
bool nigh_counted_fill(struct nigh_endpoint *endpoint, bool behind);

#endif

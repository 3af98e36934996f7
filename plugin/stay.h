/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/stay.h - short messages, and those whole in a shuttle, that come before their receives: they stay in their
 * ring for a while. */
#ifndef NIGH_PLUGIN_STAY_H
#define NIGH_PLUGIN_STAY_H

#include "plugin/context.h"

/* May this one stay in its ring for now? */
bool nigh_stay_may(struct nigh_endpoint *endpoint, uint32_t bytes);
/* The same in a crowd, where it may, of one that is no longer than half of the ring with what is owed: unless its
 * sender was held up, and nothing that was kept of it has found its receive since. */
static inline bool nigh_stay_may_in_crowd(struct nigh_endpoint *endpoint)
{
    if (__builtin_expect(endpoint->hurried, 0))
        return false;
    endpoint->stays = (uint32_t)endpoint->context->matcher.sequence + 1;
    endpoint->context->stays = true;
    return true;
}
/* Word 0 of a message that may stay in its ring: one that lies there, or whole in a shuttle, which is the reader's until
 * it has read that. What lies in chunks is kept: its sender is short of those before its ring is full. */
static inline bool nigh_stay_is_message(uint64_t head)
{
    return (nigh_head_kind(head) == NIGH_K_MESSAGE && nigh_head_bytes(head) <= NIGH_BODY_MAX) ||
           (nigh_head_kind(head) == NIGH_K_WHOLE && nigh_head_bytes(head) <= NIGH_SLOT_PAYLOAD &&
            nigh_head_flags(head) & NIGH_F_SHUTTLE);
}
/* In a pass that leaves some: the oldest one was found to stay, and no receive was posted since. */
static inline bool nigh_stay_goes_on(const struct nigh_endpoint *endpoint)
{
    return endpoint->stays && endpoint->stays == (uint32_t)endpoint->context->matcher.sequence + 1;
}
/* A receive from the peer was posted: takes the oldest such message, if there is one. In a crowd, where that is there
 * before its receive most often, and a pass over all rings costs more. */
void nigh_stay_seek(struct nigh_endpoint *endpoint);
/* Behind a pass in a crowd, in which something has `moved` or not, where a message may stay. When it is time it looks
 * behind those, and takes or keeps them where what lies there is no message, or a receive may wait for it, or their
 * sender is held up. True: something moved. */
bool nigh_stay_pass(struct nigh_context *context, bool moved);

#endif

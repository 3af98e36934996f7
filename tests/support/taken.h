/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/taken.h - take_completions() for who would poll: the same completions, in the same
 * order, in an array. */
#ifndef NIGH_TESTS_TAKEN_H
#define NIGH_TESTS_TAKEN_H

#include "nigh/transport.h"

#include <string.h>

/* Returns how many, or what take_completions() does: -ENOTSUP of a context for several threads. */
static inline int taken_poll(const struct nigh_ops *nigh, struct nigh_context *context,
                             struct nigh_completion *out, uint32_t count)
{
    struct nigh_taken taken = {.size = sizeof(taken)};
    int got = nigh->take_completions(context, &taken, count);

    for (uint32_t i = 0; got > 0 && i < taken.sent_count; i++)
        *out++ = (struct nigh_completion){.context = taken.sent[i].context,
                                          .op = NIGH_OP_SEND,
                                          .flags = (uint16_t)(taken.sent[i].tclass << 8),
                                          .bytes = taken.sent[i].bytes,
                                          .source = taken.sent[i].source,
                                          .endpoint = taken.sent[i].endpoint};
    if (got > 0 && taken.done_count)
        memcpy(out, taken.done, taken.done_count * sizeof(*out));
    return got > 0 && taken.sent_count + taken.done_count != (uint32_t)got ? -1000 : got;
}

#endif

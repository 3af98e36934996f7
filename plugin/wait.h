/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/wait.h - sleeping until there is something to poll. */
#ifndef NIGH_PLUGIN_WAIT_H
#define NIGH_PLUGIN_WAIT_H

#include "plugin/context.h"

int nigh_wait(struct nigh_context *context, uint64_t timeout_ns);
int nigh_wait_fd(struct nigh_context *context, int *fd);

/* Is there something that a sleeping thread must wake for and that nobody else will wake it for? */
static inline bool nigh_is_restless(const struct nigh_context *context)
{
    return nigh_cq_count(&context->cq) != 0 || context->pulls || context->suspects || context->nudged ||
           context->devices.copies || context->devices.scarce;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/collective.h - groups and their calls, as hosts see them: endpoints become members, and calls completions. */
#ifndef NIGH_PLUGIN_COLLECTIVE_H
#define NIGH_PLUGIN_COLLECTIVE_H

#include "coll/coll.h"
#include "plugin/context.h"

/* Of a context that is being opened. */
void nigh_collectives_open(struct nigh_context *context);

int nigh_collective_group(struct nigh_context *context, const struct nigh_group_options *options,
                          struct nigh_group **out);
int nigh_collective_leave(struct nigh_group *group);
int nigh_collective_post(struct nigh_group *group, const struct nigh_collective *call);

static inline struct nigh_context *nigh_collective_context(const struct nigh_group *group)
{
    return nigh_group_coll(group)->user;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/collective.h - groups and their calls, as hosts see them: endpoints become members, and calls completions. */
#ifndef NIGH_PLUGIN_COLLECTIVE_H
#define NIGH_PLUGIN_COLLECTIVE_H

#include "coll/coll.h"
#include "plugin/context.h"

/* Of a context that is being opened. */
void nigh_collectives_open(struct nigh_context *context);

/* Slots of the table. */
int nigh_entry_post_collective(struct nigh_group *group, const struct nigh_collective *collective);
int nigh_entry_group_create(struct nigh_context *context, const struct nigh_group_options *options,
                            struct nigh_group **out);
int nigh_entry_group_free(struct nigh_group *group);
int nigh_entry_query_group(struct nigh_group *group, struct nigh_query_group *out);
int nigh_entry_group_end(struct nigh_group *group, int error, const char *text);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/collective.h - groups and their calls, as hosts see them: endpoints become members, and calls completions. */
#ifndef NIGH_PLUGIN_COLLECTIVE_H
#define NIGH_PLUGIN_COLLECTIVE_H

#include "coll/coll.h"
#include "plugin/context.h"

/* How input goes that the others have not mapped: `path` is NIGH_PATH's, or -1; `once`: the CPU is better off with one copy than with
 * two (nigh_plan_prefers_once()). */
struct nigh_collective_ways {
    bool copies_only; /* by the member's copies alone */
    bool streams;     /* by them where the kernel could read it, too */
};
struct nigh_collective_ways nigh_collective_ways(int path, bool once);

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

/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/plugin.h - finding the transport and opening this process's context in it. */
#ifndef NIGH_LIB_PLUGIN_H
#define NIGH_LIB_PLUGIN_H

#include "lib/core.h"

/* Load it and set nigh_core.ops. -ENOENT (said, with where it was looked for), -EPROTO another version. */
int nigh_plugin_load(struct nigh_call call, const struct nigh_config *config);

/* Open a context: sets nigh_core.context, rank, ranks, job. Errors: those of open() in nigh/transport.h (said). */
int nigh_plugin_open(struct nigh_call call, const struct nigh_config *config);

/* While a slot is called that this library explains itself if it is refused, the plugin's line of that, which begins
 * with "SLOT:", is not shown. Others are: of what else the call met. */
extern __thread const char *nigh_plugin_hushed __attribute__((tls_model("initial-exec")));
#define NIGH_EXPLAINED(slot, ...)               \
    ({                                          \
        int rc_;                                \
                                                \
        nigh_plugin_hushed = #slot ":";         \
        rc_ = nigh_core.ops->slot(__VA_ARGS__); \
        nigh_plugin_hushed = NULL;              \
        rc_;                                    \
    })

#endif

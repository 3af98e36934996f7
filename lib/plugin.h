/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/plugin.h - finding the transport and opening this process's context in it. */
#ifndef NIGH_LIB_PLUGIN_H
#define NIGH_LIB_PLUGIN_H

#include "lib/core.h"

/* Load it and set nigh_core.ops. -ENOENT (said, with where it was looked for), -EPROTO another version. */
int nigh_plugin_load(struct nigh_call call, const struct nigh_config *config);

/* Open a context: sets nigh_core.context, rank, ranks, job. Errors: those of open() in nigh/transport.h (said). */
int nigh_plugin_open(struct nigh_call call, const struct nigh_config *config);

/* While a call is made that this library explains itself if it is refused, the plugin's line of that is not shown. */
extern __thread bool nigh_plugin_hushed __attribute__((tls_model("initial-exec")));
#define NIGH_EXPLAINED(call)        \
    ({                              \
        int rc_;                    \
                                    \
        nigh_plugin_hushed = true;  \
        rc_ = (call);               \
        nigh_plugin_hushed = false; \
        rc_;                        \
    })

#endif

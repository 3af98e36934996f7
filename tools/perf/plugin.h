/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding and loading the transport, as any host does: through dlopen and its one symbol. */
#ifndef NIGH_PERF_PLUGIN_H
#define NIGH_PERF_PLUGIN_H

#include "nigh/transport.h"

#include <limits.h>

struct perf_plugin {
    char file[PATH_MAX];
    const struct nigh_ops *ops;
};

/*
 * Loads $NIGH_PLUGIN where it is set; else plugin/.libs/nigh.so of the build tree that this program lies in; else
 * nigh.so in the installation's folder. Once per process, before the ranks are forked; stays loaded. Errors (said on
 * stderr): -ENOENT there is none; -EINVAL it does not load; -EPROTO it is none of nigh's or of another major.
 */
int perf_plugin_load(struct perf_plugin *plugin);

#endif

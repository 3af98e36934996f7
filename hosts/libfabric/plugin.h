/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/plugin.h - finds and loads nigh.so. */
#ifndef NIGH_LIBFABRIC_PLUGIN_H
#define NIGH_LIBFABRIC_PLUGIN_H

#include "nigh/transport.h"

/* The transport, loaded on the first call: from NIGH_PLUGIN, else from beside this provider, else from where it was
 * installed. NULL: it cannot be loaded; why was logged, once. Any thread. The object is never unloaded. */
const struct nigh_ops *nigh_fi_plugin(void);

#endif

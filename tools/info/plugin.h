/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/plugin.h - loads the module as any host does. */
#ifndef NIGH_INFO_PLUGIN_H
#define NIGH_INFO_PLUGIN_H

#include <nigh/transport.h>

struct info_plugin {
    const char *file;
    const struct nigh_ops *ops;
};

/* Loads `file`; NULL: what NIGH_PLUGIN names, else the installed module. It stays loaded. 0, or -1 after a line on
 * stderr that says what failed. */
int info_plugin_load(const char *file, struct info_plugin *out);

#endif

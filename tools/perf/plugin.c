/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading the transport. */
#include "tools/perf/plugin.h"
#include "tools/home.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static int find(char *file, size_t size)
{
    tool_plugin(file, size);
    if (access(file, R_OK) == 0)
        return 0;
    fprintf(stderr,
            "nigh-perf: there is no %s that can be read: install nigh, or name its nigh.so by NIGH_PLUGIN\n",
            file);
    return -ENOENT;
}

int perf_plugin_load(struct perf_plugin *plugin)
{
    nigh_transport_fn entry;
    void *object;
    int rc = find(plugin->file, sizeof(plugin->file));

    if (rc != 0)
        return rc;
    object = dlopen(plugin->file, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        fprintf(stderr, "nigh-perf: %s\n", dlerror());
        return -EINVAL;
    }
    *(void **)&entry = dlsym(object, NIGH_SYMBOL);
    plugin->ops = entry ? entry(NIGH_ABI) : NULL;
    if (plugin->ops)
        return 0;
    fprintf(stderr, "nigh-perf: %s %s\n", plugin->file,
            entry ? "has another major version of the ABI" : "has no " NIGH_SYMBOL "()");
    return -EPROTO;
}

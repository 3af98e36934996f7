/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/plugin.c - dlopen, the one symbol, the version. */
#include "tools/info/plugin.h"
#include "tools/home.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

int info_plugin_load(const char *file, struct info_plugin *out)
{
    static char found[PATH_MAX]; /* `out` refers to it */
    nigh_transport_fn entry = NULL;
    void *object;

    if (file == NULL) {
        tool_plugin(found, sizeof(found));
        file = found;
    }
    object = dlopen(file, RTLD_NOW);
    if (object == NULL) {
        fprintf(stderr, "nigh-info: cannot load the module: %s; name another by --plugin or NIGH_PLUGIN\n",
                dlerror());
        return -1;
    }
    *(void **)&entry = dlsym(object, NIGH_SYMBOL);
    if (entry == NULL) {
        fprintf(stderr, "nigh-info: %s is no nigh module: it has no %s()\n", file, NIGH_SYMBOL);
        return -1;
    }
    out->ops = entry(NIGH_ABI);
    if (out->ops == NULL) {
        fprintf(stderr, "nigh-info: %s refuses ABI %u.%u, which this nigh-info was built for\n", file,
                NIGH_ABI_MAJOR, NIGH_ABI_MINOR);
        return -1;
    }
    out->file = file;
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading the transport. */
#include "tools/perf/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the module lies seen from tools/nigh-perf and from libtool's tools/.libs/nigh-perf. */
static const char *const beside[] = {"/../plugin/.libs/nigh.so", "/../../plugin/.libs/nigh.so"};

static int in_build_tree(char *file, size_t size)
{
    char here[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);
    char *slash;

    if (n <= 0)
        return 0;
    here[n] = '\0';
    slash = strrchr(here, '/');
    if (!slash)
        return 0;
    *slash = '\0';
    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++)
        if (snprintf(file, size, "%s%s", here, beside[i]) < (int)size && access(file, R_OK) == 0)
            return 1;
    return 0;
}

static int find(char *file, size_t size)
{
    const char *named = getenv("NIGH_PLUGIN");

    if (named && *named) {
        snprintf(file, size, "%s", named);
        return 0;
    }
    if (in_build_tree(file, size))
        return 0;
    snprintf(file, size, "%s/nigh.so", NIGH_PKGLIBDIR);
    if (access(file, R_OK) == 0)
        return 0;
    fprintf(stderr, "nigh-perf: there is no %s, and NIGH_PLUGIN does not name another one\n", file);
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

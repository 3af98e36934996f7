/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/plugin.c - see plugin.h. */
#include "hosts/libfabric/plugin.h"
#include "hosts/libfabric/log.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct nigh_ops *loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* "DIR/nigh.so" of the directory that this object lies in. False: there is none. */
static bool beside(char *path, size_t room)
{
    const char *slash;
    Dl_info self;

    if (!dladdr((void *)&once, &self) || !self.dli_fname || !(slash = strrchr(self.dli_fname, '/')))
        return false;
    if (snprintf(path, room, "%.*s/nigh.so", (int)(slash - self.dli_fname), self.dli_fname) >= (int)room)
        return false;
    return access(path, R_OK) == 0;
}

static void load(void)
{
    char path[PATH_MAX];
    const char *name = getenv("NIGH_PLUGIN");
    nigh_transport_fn entry = NULL;
    void *object;

    if (!name || !*name)
        name = beside(path, sizeof(path)) ? path : NIGH_PKGLIBDIR "/nigh.so";
    object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (object)
        *(void **)&entry = dlsym(object, NIGH_SYMBOL);
    if (!entry) {
        nigh_fi_log(NIGH_FI_WARN, "cannot load nigh (%s): set NIGH_PLUGIN to nigh.so", dlerror());
        return;
    }
    loaded = entry(NIGH_ABI);
    if (loaded && !NIGH_HAS(loaded, take_completions)) /* the last of those that it uses, so all */
        loaded = NULL;
    if (!loaded)
        nigh_fi_log(NIGH_FI_WARN,
                    "%s refuses ABI %u.%u, or lacks slots of it: this provider needs the nigh.so of its own "
                    "release; set NIGH_PLUGIN",
                    name, NIGH_ABI_MAJOR, NIGH_ABI_MINOR);
}

const struct nigh_ops *nigh_fi_plugin(void)
{
    pthread_once(&once, load);
    return loaded;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/load.c - see load.h. */
#include "hosts/load.h"
#include "include/common/descriptor.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "DIR/nigh.so" of the directory that this object lies in. False: there is none. */
static bool beside(char *path, size_t room)
{
    static const char here;
    const char *slash;
    Dl_info self;

    if (!dladdr(&here, &self) || !self.dli_fname || !(slash = strrchr(self.dli_fname, '/')))
        return false;
    if (snprintf(path, room, "%.*s/nigh.so", (int)(slash - self.dli_fname), self.dli_fname) >= (int)room)
        return false;
    return access(path, R_OK) == 0;
}

const struct nigh_ops *nigh_host_load(char *why, size_t room)
{
    char path[PATH_MAX];
    const char *name = getenv("NIGH_PLUGIN");
    const struct nigh_ops *loaded;
    nigh_transport_fn entry = NULL;
    void *object;

    if (!name || !*name)
        name = beside(path, sizeof(path)) ? path : NIGH_PKGLIBDIR "/nigh.so";
    object = NIGH_FD_DURING(dlopen(name, RTLD_NOW | RTLD_LOCAL));
    if (object)
        *(void **)&entry = dlsym(object, NIGH_SYMBOL);
    if (!entry) {
        snprintf(why, room, "cannot load nigh (%s): set NIGH_PLUGIN to nigh.so", dlerror());
        return NULL;
    }
    loaded = entry(NIGH_ABI);
    if (loaded && NIGH_HAS(loaded, cancel_unmatched)) /* the last slot that any host uses, so all */
        return loaded;
    snprintf(
        why, room,
        "%s refuses ABI %u.%u, or lacks slots of it: this host needs the nigh.so of its own release; set "
        "NIGH_PLUGIN",
        name, NIGH_ABI_MAJOR, NIGH_ABI_MINOR);
    return NULL;
}

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

/* Seen from the folder of this object: as installed, and from its libtool folder in a build folder. */
static const char *const places[] = {"nigh.so", "../../../plugin/.libs/nigh.so"};

/* The nigh.so that lies where this object does. False: there is none. */
static bool beside(char *path, size_t room)
{
    static const char here;
    const char *slash;
    Dl_info self;
    int folder;

    if (!dladdr(&here, &self) || !self.dli_fname || !(slash = strrchr(self.dli_fname, '/')))
        return false;
    folder = (int)(slash - self.dli_fname);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (snprintf(path, room, "%.*s/%s", folder, self.dli_fname, places[i]) < (int)room &&
            access(path, R_OK) == 0)
            return true;
    return false;
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
    if (loaded && NIGH_HAS(loaded, copy_device)) /* the last slot that any host uses, so all */
        return loaded;
    snprintf(
        why, room,
        "%s refuses ABI %u.%u, or lacks slots of it: this host needs the nigh.so of its own release; set "
        "NIGH_PLUGIN",
        name, NIGH_ABI_MAJOR, NIGH_ABI_MINOR);
    return NULL;
}

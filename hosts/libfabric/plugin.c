/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/plugin.c - see plugin.h. */
#include "hosts/libfabric/plugin.h"
#include "hosts/libfabric/log.h"
#include "hosts/load.h"

#include <limits.h>
#include <pthread.h>

static const struct nigh_ops *loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    char why[PATH_MAX + 256];

    loaded = nigh_host_load(why, sizeof(why));
    if (!loaded)
        nigh_fi_log(NIGH_FI_WARN, "%s", why);
}

const struct nigh_ops *nigh_fi_plugin(void)
{
    pthread_once(&once, load);
    return loaded;
}

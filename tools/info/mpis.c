/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/mpis.c - the MPIs of this machine, and whether each can send its messages over nigh. */
#include "tools/info/facts.h"
#include "tools/mpi/able.h"
#include "tools/mpi/over.h"

#include <stdlib.h>

enum { WHY_BYTES = 2048 };

static json_t *one(const char *name, const char *providers)
{
    static struct mpi_place place;
    char why[WHY_BYTES];
    bool able;

    if (mpi_find(name, &place, why, sizeof(why)) != 0)
        return json_pack("{ss sn sb ss}", "name", name, "launcher", "able", 0, "reason", why);
    able = mpi_able(&place, providers, why, sizeof(why));
    return json_pack("{ss ss sb ss}", "name", name, "launcher", place.launcher, "able", able, "reason", why);
}

json_t *info_mpis(const struct info_plugin *plugin)
{
    const char *names[MPI_PLACES];
    size_t count = mpi_names(names, MPI_PLACES);
    char providers[MPI_PATH_BYTES], why[WHY_BYTES];
    json_t *list;

    if (mpi_providers(providers, sizeof(providers), why, sizeof(why)) != 0)
        return json_pack("{sn ss}", "providers", "reason", why);
    setenv("NIGH_PLUGIN", plugin->file, 1); /* the provider is to load the module that is looked at */
    list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, one(names[i], providers));
    return json_pack("{ss so}", "providers", providers, "mpis", list);
}

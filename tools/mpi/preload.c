/* SPDX-License-Identifier: BSD-3-Clause */
/* See preload.h. */
#include "tools/mpi/preload.h"
#include "tools/mpi/chosen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The object that answers some collectives in an MPI's place, to be freed: beside the provider when both are installed,
 * in a folder beside the provider's before. NULL: it was not built. */
static char *collectives_object(const struct mpi_place *place, const char *providers)
{
    static const char *const folders[] = {"", "/../../mpi/.libs"};
    const char *abi = place->family == MPI_OPENMPI ? "openmpi" : "mpich";
    char path[2 * MPI_PATH_BYTES], *found = NULL;

    for (size_t i = 0; i < sizeof folders / sizeof *folders && !found; i++)
        if ((size_t)snprintf(path, sizeof path, "%s%s/libnigh-%s.so", providers, folders[i], abi) <
            sizeof path)
            found = realpath(path, NULL);
    return found;
}

/* Has the user said how this MPI makes reductions, broadcasts or gathers? That stands. */
static bool reductions_chosen(const struct mpi_place *place)
{
    if (place->family == MPI_OPENMPI)
        return mpi_chosen_any("OMPI_MCA_coll");
    if (place->family == MPI_MPICH)
        return mpi_chosen_any("MPIR_CVAR_REDUCE_INT") || mpi_chosen_any("MPIR_CVAR_ALLREDUCE_INT");
    return mpi_chosen_table() || mpi_chosen("I_MPI_ADJUST_REDUCE") || mpi_chosen("I_MPI_ADJUST_ALLREDUCE");
}

static bool broadcasts_chosen(const struct mpi_place *place)
{
    if (place->family == MPI_OPENMPI)
        return mpi_chosen_any("OMPI_MCA_coll");
    if (place->family == MPI_MPICH)
        return mpi_chosen_any("MPIR_CVAR_BCAST_INT");
    return mpi_chosen_table() || mpi_chosen("I_MPI_ADJUST_BCAST");
}

static bool gathers_chosen(const struct mpi_place *place)
{
    if (place->family == MPI_OPENMPI)
        return mpi_chosen_any("OMPI_MCA_coll");
    if (place->family == MPI_MPICH)
        return mpi_chosen_any("MPIR_CVAR_GATHER_INT");
    return mpi_chosen_table() || mpi_chosen("I_MPI_ADJUST_GATHER");
}

/* "NAME=what the environment has, and one word more". */
static void add_behind(const char *name, const char *word, struct mpi_words *settings)
{
    const char *others = getenv(name);
    bool more = others && *others;
    char *text;

    if (asprintf(&text, "%s=%s%s%s", name, more ? others : "", more ? ":" : "", word) < 0)
        return;
    mpi_words_add(settings, text);
    free(text);
}

/*
 * Where ranks share CPUs no algorithm of messages comes up to one in which each rank adds its own to what the one
 * before it on that CPU has just left in the cache (docs/rationale/crowd-collectives.md), so such calls do not reach
 * the MPI. Behind what the user preloads: a tool that counts calls is to see them.
 */
void mpi_preload(const struct mpi_place *place, const char *providers, uint32_t programs,
                 struct mpi_words *settings)
{
    bool reduces = !reductions_chosen(place), spreads = !broadcasts_chosen(place),
         gathers = !gathers_chosen(place);
    bool all = place->family != MPI_OPENMPI || programs == 1; /* its Fortran calls cannot be answered */
    char *object = all && (reduces || spreads || gathers) ? collectives_object(place, providers) : NULL;

    if (!object)
        return;
    if (strpbrk(object, " :")) {
        fprintf(stderr,
                "%s: no preloading from a path with a blank or a colon: reductions, gathers and long "
                "broadcasts stay MPI's own\n",
                object);
    } else {
        add_behind("LD_PRELOAD", object, settings);
        /* A program with gcc's address sanitizer refuses to start otherwise; it still comes before the C library. */
        add_behind("ASAN_OPTIONS", "verify_asan_link_order=0", settings);
        if (!reduces)
            mpi_words_add(settings, "NIGH_MPI_REDUCE_FROM=0");
        if (!spreads)
            mpi_words_add(settings, "NIGH_MPI_BCAST_FROM=0");
        if (!gathers)
            mpi_words_add(settings, "NIGH_MPI_GATHER_TO=0");
    }
    free(object);
}

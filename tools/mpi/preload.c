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

/* What is answered, and how it is left to the MPI. */
static const struct kind {
    const char *calls[2], *left;
} kinds[] = {
    {{"REDUCE", "ALLREDUCE"}, "NIGH_MPI_REDUCE_FROM=0"},
    {{"BCAST"}, "NIGH_MPI_BCAST_FROM=0"},
    {{"GATHER"}, "NIGH_MPI_GATHER_TO=0"},
    {{"ALLGATHER"}, "NIGH_MPI_ALLGATHER_FROM=0"},
    {{"ALLTOALL"}, "NIGH_MPI_ALLTOALL_TO=0"},
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* Has the user said how this MPI makes such calls? That stands. */
static bool is_chosen(const struct mpi_place *place, const struct kind *kind)
{
    bool chosen = place->family == MPI_OPENMPI ? mpi_chosen_any("OMPI_MCA_coll")
                                               : place->family != MPI_MPICH && mpi_chosen_table();

    for (size_t i = 0; i < 2 && kind->calls[i] && !chosen; i++) {
        char name[64];

        snprintf(name, sizeof name, place->family == MPI_MPICH ? "MPIR_CVAR_%s_INT" : "I_MPI_ADJUST_%s",
                 kind->calls[i]);
        chosen = place->family == MPI_MPICH ? mpi_chosen_any(name)
                                            : place->family != MPI_OPENMPI && mpi_chosen(name);
    }
    return chosen;
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
    bool all = place->family != MPI_OPENMPI || programs == 1; /* its Fortran calls cannot be answered */
    size_t chosen = 0;
    char *object;

    for (size_t i = 0; i < KINDS; i++)
        chosen += is_chosen(place, &kinds[i]);
    object = all && chosen < KINDS ? collectives_object(place, providers) : NULL;
    if (!object)
        return;
    if (strpbrk(object, " :")) {
        fprintf(stderr, "%s: no preloading from a path with a blank or a colon: collectives stay MPI's own\n",
                object);
    } else {
        add_behind("LD_PRELOAD", object, settings);
        /* A program with gcc's address sanitizer refuses to start otherwise; it still comes before the C library. */
        add_behind("ASAN_OPTIONS", "verify_asan_link_order=0", settings);
        for (size_t i = 0; i < KINDS; i++)
            if (is_chosen(place, &kinds[i]))
                mpi_words_add(settings, kinds[i].left);
    }
    free(object);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* See preload.h. */
#include "tools/mpi/preload.h"
#include "tools/mpi/chosen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An object to preload, to be freed: beside the provider when both are installed, in a folder beside the provider's
 * before. NULL: it was not built. */
static char *object_of(const char *providers, const char *folder, const char *name)
{
    char path[2 * MPI_PATH_BYTES], *found = NULL;

    if ((size_t)snprintf(path, sizeof path, "%s/%s", providers, name) < sizeof path)
        found = realpath(path, NULL);
    if (!found &&
        (size_t)snprintf(path, sizeof path, "%s/../../%s/.libs/%s", providers, folder, name) < sizeof path)
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

/* Objects with colons between them. */
struct objects {
    char paths[2 * MPI_PATH_BYTES];
    size_t used;
};

/* False: it was not built, or it cannot be preloaded, which is said with what is so instead. */
static bool add_object(char *object, const char *instead, struct objects *out)
{
    bool can = object && !strpbrk(object, " :") && out->used + strlen(object) + 2 <= sizeof out->paths;

    if (can)
        out->used += (size_t)sprintf(out->paths + out->used, "%s%s", out->used ? ":" : "", object);
    else if (object)
        fprintf(stderr, "%s: no preloading from a path with a blank or a colon: %s\n", object, instead);
    free(object);
    return can;
}

/*
 * Where ranks share CPUs no algorithm of messages comes up to the plugin's collectives, in which ranks read each other's
 * vectors in place, so such calls do not reach the MPI. docs/rationale/crowd-collectives.md.
 */
static void add_collectives(const struct mpi_place *place, const char *providers, uint32_t programs,
                            struct objects *objects, struct mpi_words *settings)
{
    bool all = place->family != MPI_OPENMPI || programs == 1; /* its Fortran calls cannot be answered */
    const char *name = place->family == MPI_OPENMPI ? "libnigh-openmpi.so" : "libnigh-mpich.so";
    size_t chosen = 0;

    for (size_t i = 0; i < KINDS; i++)
        chosen += is_chosen(place, &kinds[i]);
    if (!all || chosen == KINDS ||
        !add_object(object_of(providers, "mpi", name), "collectives stay MPI's own", objects))
        return;
    for (size_t i = 0; i < KINDS; i++)
        if (is_chosen(place, &kinds[i]))
            mpi_words_add(settings, kinds[i].left);
}

/* Behind what the user preloads: a tool that counts calls is to see them, and an allocator of his own to stay in use. */
bool mpi_preload(const struct mpi_place *place, const char *providers, bool crowded, uint32_t programs,
                 struct mpi_words *settings)
{
    const char *off = getenv("NIGH_MALLOC");
    struct objects objects = {.used = 0};
    bool shared = false;

    if (!off || strcmp(off, "0") != 0)
        shared = add_object(object_of(providers, "malloc", "libnigh-malloc.so"),
                            "messages are read by the kernel", &objects);
    if (crowded)
        add_collectives(place, providers, programs, &objects, settings);
    if (!objects.used)
        return false;
    add_behind("LD_PRELOAD", objects.paths, settings);
    /* A program with gcc's address sanitizer refuses to start otherwise; it still comes before the C library. */
    add_behind("ASAN_OPTIONS", "verify_asan_link_order=0", settings);
    return shared;
}

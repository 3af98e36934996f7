/* SPDX-License-Identifier: BSD-3-Clause */
/* See preload.h. */
#include "tools/mpi/preload.h"
#include "tools/mpi/chosen.h"

#include <ctype.h>
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

/* What is answered, as NIGH_MPI_LEAVE names it. */
static const char *const kinds[] = {
    "barrier",   "bcast",      "reduce",         "allreduce",
    "gather",    "gatherv",    "scatter",        "scatterv",
    "allgather", "allgatherv", "alltoall",       "alltoallv",
    "scan",      "exscan",     "reduce_scatter", "reduce_scatter_block",
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* Has the user said how this MPI makes such calls? That stands. */
static bool is_chosen(const struct mpi_place *place, const char *kind)
{
    char name[64];
    size_t head;

    if (place->family == MPI_OPENMPI)
        return mpi_chosen_any("OMPI_MCA_coll");
    if (place->family != MPI_MPICH && mpi_chosen_table())
        return true;
    head = (size_t)snprintf(name, sizeof name, place->family == MPI_MPICH ? "MPIR_CVAR_" : "I_MPI_ADJUST_");
    for (size_t i = 0; kind[i]; i++)
        name[head++] = (char)toupper((unsigned char)kind[i]);
    snprintf(name + head, sizeof name - head, "%s", place->family == MPI_MPICH ? "_INT" : "");
    return place->family == MPI_MPICH ? mpi_chosen_any(name) : mpi_chosen(name);
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

/* "NIGH_MPI_LEAVE=" what the environment has, and what the user has chosen an algorithm for. */
static void leave(const struct mpi_place *place, struct mpi_words *settings)
{
    const char *others = getenv("NIGH_MPI_LEAVE");
    char text[512];
    size_t used = (size_t)snprintf(text, sizeof text, "NIGH_MPI_LEAVE=%.200s", others ? others : "");
    bool any = false;

    for (size_t i = 0; i < KINDS; i++) {
        if (!is_chosen(place, kinds[i]))
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", text[used - 1] == '=' ? "" : ",",
                                 kinds[i]);
        any = true;
    }
    if (any)
        mpi_words_add(settings, text);
}

/*
 * No algorithm of messages comes up to the plugin's collectives, in which ranks read each other's vectors in place, so such calls
 * do not reach the MPI. docs/rationale/collectives.md.
 */
static void add_collectives(const struct mpi_place *place, const char *providers, uint32_t programs,
                            struct objects *objects, struct mpi_words *settings)
{
    bool all = place->family != MPI_OPENMPI || programs == 1; /* its Fortran calls cannot be answered */
    const char *name = place->family == MPI_OPENMPI ? "libnigh-openmpi.so" : "libnigh-mpich.so";
    size_t chosen = 0;

    for (size_t i = 0; i < KINDS; i++)
        chosen += is_chosen(place, kinds[i]);
    if (all && chosen < KINDS &&
        add_object(object_of(providers, "mpi", name), "collectives stay MPI's own", objects))
        leave(place, settings);
}

/* Behind what the user preloads: a tool that counts calls is to see them, and an allocator of his own to stay in use. */
void mpi_preload(const struct mpi_place *place, const char *providers, uint32_t programs,
                 struct mpi_words *settings)
{
    const char *off = getenv("NIGH_MALLOC");
    struct objects objects = {.used = 0};

    if (!off || strcmp(off, "0") != 0)
        (void)add_object(object_of(providers, "malloc", "libnigh-malloc.so"),
                         "messages are read by the kernel", &objects);
    add_collectives(place, providers, programs, &objects, settings);
    if (!objects.used)
        return;
    add_behind("LD_PRELOAD", objects.paths, settings);
    /* A program with gcc's address sanitizer refuses to start otherwise; it still comes before the C library. */
    add_behind("ASAN_OPTIONS", "verify_asan_link_order=0", settings);
}

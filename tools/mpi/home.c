/* SPDX-License-Identifier: BSD-3-Clause */
/* See home.h. */
#include "tools/mpi/home.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE "LD_LIBRARY_PATH"

/* Two levels above the launcher, which may be a link, or relative to here. */
static bool root_of(const struct mpi_place *place, char *root, size_t size)
{
    char *file = realpath(place->launcher, NULL), *end;
    bool fits;

    if (!file)
        return false;
    for (int i = 0; i < 2; i++) {
        end = strrchr(file, '/');
        if (end)
            *end = '\0';
    }
    fits = (size_t)snprintf(root, size, "%s", *file ? file : "/") < size;
    free(file);
    return fits;
}

bool mpi_intel_root(const struct mpi_place *place, char *root, size_t size)
{
    const char *set = getenv("I_MPI_ROOT");

    if (set)
        return (size_t)snprintf(root, size, "%s", set) < size;
    return root_of(place, root, size);
}

static void add_root(const struct mpi_place *place, struct mpi_words *settings)
{
    char root[MPI_PATH_BYTES], text[MPI_PATH_BYTES + 16];

    if (place->family != MPI_INTEL || getenv("I_MPI_ROOT") || !mpi_intel_root(place, root, sizeof root))
        return;
    snprintf(text, sizeof text, "I_MPI_ROOT=%s", root);
    mpi_words_add(settings, text);
}

static bool is_system(const char *root)
{
    return strcmp(root, "/usr") == 0 || strcmp(root, "/") == 0;
}

/* The directory below `root` that has the library. */
static bool find_named(const char *root, const char *name, char *path, size_t size)
{
    static const char *const folders[] = {"lib/release", "lib", "lib64"};
    char file[2 * MPI_PATH_BYTES];

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(file, sizeof file, "%s/%s/%s", root, folders[i], name);
        if (access(file, R_OK) == 0)
            return (size_t)snprintf(path, size, "%s/%s", root, folders[i]) < size;
    }
    return false;
}

/* The directory of libmpi below the launcher's root. What lies below /usr the dynamic linker finds by itself. */
static bool find_library(const struct mpi_place *place, char *path, size_t size)
{
    static const char *const names[] = {"libmpi.so.12", "libmpi.so.40", "libmpi.so"};
    char root[MPI_PATH_BYTES];

    if (!root_of(place, root, sizeof root) || is_system(root))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (find_named(root, names[i], path, size))
            return true;
    return false;
}

bool mpi_has_library(const struct mpi_place *place, const char *name)
{
    char root[MPI_PATH_BYTES], path[MPI_PATH_BYTES];

    return root_of(place, root, sizeof root) &&
           (is_system(root) || find_named(root, name, path, sizeof path));
}

/* Is it one of the directories with colons between them? */
static bool names_it(const char *paths, const char *path)
{
    size_t length = strlen(path), part;

    for (const char *at = paths; at; at = at[part] ? at + part + 1 : NULL) {
        part = strcspn(at, ":");
        if (part == length && strncmp(at, path, length) == 0)
            return true;
    }
    return false;
}

static void add_library(const struct mpi_place *place, struct mpi_words *settings)
{
    const char *others = getenv(VARIABLE);
    bool more = others && *others;
    char path[MPI_PATH_BYTES], *text;

    if (!find_library(place, path, sizeof path) || (more && names_it(others, path)))
        return;
    if (asprintf(&text, VARIABLE "=%s%s%s", path, more ? ":" : "", more ? others : "") < 0)
        return;
    mpi_words_add(settings, text);
    free(text);
}

void mpi_at_home(const struct mpi_place *place, struct mpi_words *settings)
{
    add_root(place, settings);
    add_library(place, settings);
}

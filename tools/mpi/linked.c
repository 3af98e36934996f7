/* SPDX-License-Identifier: BSD-3-Clause */
/* See linked.h. */
#include "tools/mpi/linked.h"

#include <elf.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/mpi/elf.h"
#include "tools/mpi/home.h"

enum abi { ABI_OPENMPI, ABI_MPICH, ABI_DEBIAN };

/* An MPI's libraries for C, and those for Fortran and C++: a linker that drops unused ones keeps these alone. */
static const struct kind {
    const char *pattern; /* the first that fits */
    enum abi abi;
} kinds[] = {
    {"libmpi.so.40", ABI_OPENMPI}, {"libmpi_*.so.40", ABI_OPENMPI}, {"libmpich*.so.12", ABI_DEBIAN},
    {"libmpi.so.12", ABI_MPICH},   {"libmpifort.so.12", ABI_MPICH}, {"libmpicxx.so.12", ABI_MPICH},
};

static const char *const owners[] = {"Open MPI", "MPICH or Intel MPI", "Debian's MPICH"};
static const char *const families[] = {"Open MPI", "MPICH", "Intel MPI"};

static const struct kind *kind_of(const char *library)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (fnmatch(kinds[i].pattern, library, 0) == 0)
            return &kinds[i];
    return NULL;
}

struct search {
    const struct mpi_place *place;
    enum abi abi;
    char library[MPI_ELF_NAME]; /* the first that does not fit */
};

/* Does the MPI at `place` have libraries of this ABI? Debian's MPICH is one that can use nigh where it was built so. */
static bool fits(const struct mpi_place *place, const char *library, enum abi abi)
{
    if (place->family == MPI_OPENMPI || abi == ABI_OPENMPI)
        return place->family == MPI_OPENMPI && abi == ABI_OPENMPI;
    return abi == ABI_MPICH || mpi_has_library(place, library);
}

static bool is_of_place(const char *name, void *context)
{
    const struct search *search = context;
    const struct kind *kind = kind_of(name);

    return kind && fits(search->place, name, kind->abi);
}

/* MPICH and Intel MPI keep one ABI, so users put the library of one in the place of another's, by a link. */
static bool stands_in(struct search *search, const char *library)
{
    const char *at = getenv("LD_LIBRARY_PATH");
    char file[2 * MPI_PATH_BYTES];

    while (at && *at) {
        int length = (int)strcspn(at, ":");

        if ((size_t)snprintf(file, sizeof file, "%.*s/%s", length, at, library) < sizeof file &&
            access(file, R_OK) == 0)
            return mpi_elf_any(file, DT_SONAME, is_of_place, search); /* the loader takes the first */
        at += length + (at[length] == ':');
    }
    return false;
}

static bool is_foreign(const char *name, void *context)
{
    struct search *search = context;
    const struct kind *kind = kind_of(name);

    if (!kind || fits(search->place, name, kind->abi) || stands_in(search, name))
        return false;
    search->abi = kind->abi;
    snprintf(search->library, sizeof search->library, "%s", name);
    return true;
}

/* ---- what to do about it ------------------------------------------------------------------------------- */

static bool beside(const struct mpi_place *place, const char *name, char *path, size_t size)
{
    const char *slash = strrchr(place->launcher, '/');

    return slash &&
           (size_t)snprintf(path, size, "%.*s/%s", (int)(slash - place->launcher), place->launcher, name) <
               size &&
           access(path, X_OK) == 0;
}

/* The compiler of this MPI: beside its launcher, else of another MPI with the same ABI. */
static const char *compiler_of(const struct mpi_place *place, char *path, size_t size)
{
    static struct mpi_place other;
    bool openmpi = place->family == MPI_OPENMPI;
    const char *names[] = {openmpi ? "mpicc.openmpi" : "mpicc.mpich", "mpicc"};
    char why[256];

    for (size_t i = 0; i < 2; i++)
        if (beside(place, names[i], path, size))
            return path;
    if (place->family != MPI_INTEL && *place->compiler) /* Intel's wheel has cc */
        return place->compiler;
    if (mpi_find(openmpi ? "openmpi" : "mpich5", &other, why, sizeof why) == 0 && *other.compiler)
        return other.compiler;
    return openmpi ? "Open MPI's mpicc"
                   : "the mpicc of MPICH's wheel, or Intel's (tests/peers.sh installs the wheel)";
}

bool mpi_linked(const struct mpi_place *place, const char *file, char *why, size_t room)
{
    struct search search = {.place = place};
    char path[MPI_PATH_BYTES];
    const char *compiler;

    if (!mpi_elf_any(file, DT_NEEDED, is_foreign, &search))
        return true;
    compiler = compiler_of(place, path, sizeof path);
    if (search.abi == ABI_DEBIAN)
        snprintf(why, room, "needs %s, of %s, which cannot use nigh: compile it with %s", search.library,
                 owners[search.abi], compiler);
    else
        snprintf(why, room,
                 "needs %s, of %s, but --mpi %s is %s (%s), under which each rank would be alone: use --mpi "
                 "%s, or "
                 "compile it with %s",
                 search.library, owners[search.abi], place->name, families[place->family], place->launcher,
                 search.abi == ABI_OPENMPI ? "openmpi" : "mpich or intel", compiler);
    return false;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/calls.c - see calls.h. */
#include "hosts/mpi/calls.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is looked for, and where it may be. */
struct table {
    struct nigh_mpi_calls calls;
    void *library;       /* of an MPI whose names are not everybody's */
    const char *missing; /* the first that is needed and was not found */
};

const struct nigh_mpi_calls *nigh_mpi_calls_early;
static struct table early, late;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *find(const struct table *table, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (!found)
        found = dlsym(RTLD_DEFAULT, name);
    return found || !table->library ? found : dlsym(table->library, name);
}

#ifdef NIGH_MPI_OPENMPI
/* From the front: a program that names a handle has it in itself, and the library uses that one, too. */
static void *find_handle(const struct table *table, const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    return found || !table->library ? found : dlsym(table->library, name);
}

#endif

static void *noted(struct table *table, void *found, const char *name)
{
    if (!found && !table->missing)
        table->missing = name;
    return found;
}

static void fill(struct table *table)
{
#define NIGH_MPI_NEED(name, arguments) \
    *(void **)&table->calls.name = noted(table, find(table, "PMPI_" #name), "PMPI_" #name);
#define NIGH_MPI_FIND(name, arguments) *(void **)&table->calls.name = find(table, "PMPI_" #name);
#define NIGH_MPI_HANDLE(name)          table->calls.name = noted(table, find_handle(table, #name), #name);
    NIGH_MPI_CALLS(NIGH_MPI_NEED)
    NIGH_MPI_LARGE_CALLS(NIGH_MPI_FIND)
    NIGH_MPI_HANDLES(NIGH_MPI_HANDLE)
}

/* Loaders call it before the program has threads. */
__attribute__((constructor)) static void load_early(void)
{
    fill(&early);
    if (!early.missing)
        nigh_mpi_calls_early = &early.calls;
}

static int look_for_library(struct dl_phdr_info *object, size_t size, void *data)
{
    struct table *table = data;
    const char *slash = strrchr(object->dlpi_name, '/'), *name = slash ? slash + 1 : object->dlpi_name;

    (void)size;
    if (strncmp(name, "libmpi", strlen("libmpi")) != 0)
        return 0;
    table->library = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (table->library && dlsym(table->library, "PMPI_Reduce"))
        return 1;
    table->library = NULL;
    return 0;
}

static void load_late(void)
{
    dl_iterate_phdr(look_for_library, &late);
    fill(&late);
    if (!late.missing)
        return;
    fprintf(stderr,
            "nigh: MPI: there is no %s in this process: start the program without %s in LD_PRELOAD, or with "
            "the one of "
            "its MPI's ABI\n",
            late.missing, NIGH_MPI_OBJECT);
    abort();
}

const struct nigh_mpi_calls *nigh_mpi_calls_late(void)
{
    pthread_once(&once, load_late);
    return &late.calls;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/calls.c - see calls.h. */
#include "hosts/mpi/calls.h"
#include "hosts/mpi/log.h"
#include "include/common/descriptor.h"

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

/* The file's own name, without its folder. */
static bool starts(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    return strncmp(slash ? slash + 1 : path, name, strlen(name)) == 0;
}

static bool is_foreign(const struct table *table)
{
    Dl_info where;

    return dladdr(*(void *const *)&table->calls.Reduce, &where) && where.dli_fname &&
           starts(where.dli_fname, "libmpi_abi");
}

static void fill(struct table *table)
{
#define NIGH_MPI_FIND(name) *(void **)&table->calls.name = find(table, "PMPI_" #name);
#define NIGH_MPI_NEED(name, ...) \
    *(void **)&table->calls.name = noted(table, find(table, "PMPI_" #name), "PMPI_" #name);
#define NIGH_MPI_NEED_BOTH(name, lower, kind, takes)  NIGH_MPI_NEED(name) NIGH_MPI_NEED(I##lower)
#define NIGH_MPI_FIND_LARGE(name, lower, kind, takes) NIGH_MPI_FIND(name##_c) NIGH_MPI_FIND(I##lower##_c)
    NIGH_MPI_COLLECTIVES(NIGH_MPI_NEED_BOTH)
    NIGH_MPI_COUNTED(NIGH_MPI_FIND_LARGE)
    NIGH_MPI_CALLS(NIGH_MPI_NEED)
#ifdef NIGH_MPI_OPENMPI
#define NIGH_MPI_HANDLE(name)                   table->calls.name = noted(table, find_handle(table, #name), #name);
#define NIGH_MPI_TYPE_HANDLE(name, symbol, ...) NIGH_MPI_HANDLE(ompi_mpi_##symbol)
#define NIGH_MPI_OP_HANDLE(name, symbol, ...)   NIGH_MPI_HANDLE(ompi_mpi_op_##symbol)
    NIGH_MPI_HANDLES(NIGH_MPI_HANDLE)
    NIGH_MPI_TYPES(NIGH_MPI_TYPE_HANDLE)
    NIGH_MPI_OPS(NIGH_MPI_OP_HANDLE)
#endif
    table->calls.foreign = is_foreign(table);
}

/* Loaders call it before the program has threads. */
__attribute__((constructor)) static void load_early(void)
{
    fill(&early);
    if (!early.missing)
        nigh_mpi_calls_early = &early.calls;
}

struct search {
    char names[16][512];
    int count;
};

static int look_for_libraries(struct dl_phdr_info *object, size_t size, void *data)
{
    struct search *search = data;

    (void)size;
    if (starts(object->dlpi_name, "libmpi") && strlen(object->dlpi_name) < sizeof(*search->names))
        strcpy(search->names[search->count++], object->dlpi_name);
    return search->count == (int)(sizeof(search->names) / sizeof(*search->names));
}

/* Opened behind the search, as both take locks of the loader's. */
static void *find_library(void)
{
    struct search search = {.count = 0};

    dl_iterate_phdr(look_for_libraries, &search);
    for (int i = 0; i < search.count; i++) {
        void *library = NIGH_FD_DURING(dlopen(search.names[i], RTLD_LAZY | RTLD_NOLOAD));

        if (library && dlsym(library, "PMPI_Reduce"))
            return library;
    }
    return NULL;
}

static void load_late(void)
{
    late.library = find_library();
    fill(&late);
    if (!late.missing)
        return;
    nigh_mpi_log(
        "there is no %s in this process: start the program without %s in LD_PRELOAD, or with the one of its "
        "MPI's ABI",
        late.missing, NIGH_MPI_OBJECT);
    abort();
}

const struct nigh_mpi_calls *nigh_mpi_calls_late(void)
{
    pthread_once(&once, load_late);
    return &late.calls;
}

void *nigh_mpi_find(const char *name)
{
    return find(nigh_mpi_calls() == &early.calls ? &early : &late, name);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/device.c - see device.h. */
#include "hosts/mpi/device.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

struct search {
    unsigned long long before; /* objects that had been loaded when it was last searched */
    unsigned long long now;
    bool found;
};

/* ---- what the MPI says --------------------------------------------------------------------------------- */

#ifdef NIGH_MPI_OPENMPI
static bool mpi_takes_them(void)
{
    static const char *const names[] = {"MPIX_Query_cuda_support", "MPIX_Query_rocm_support"};
    int (*supports)(void);

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        *(void **)&supports = dlsym(RTLD_DEFAULT, names[i]);
        if (i == 0 ? !supports || supports() : supports && supports())
            return true;
    }
    return false;
}
#else
#define KINDS 3 /* CUDA, Level Zero, HIP */

static bool mpi_takes_them(void)
{
    int (*supports)(int, int *), yes = 1;

    *(void **)&supports = dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support");
    for (int kind = 0; supports && kind < KINDS; kind++)
        if (supports(kind, &yes) || yes)
            return true;
    return yes;
}
#endif

/* ---- what is loaded ------------------------------------------------------------------------------------ */

static bool is_driver(const char *path)
{
    static const char *const names[] = {"libcuda.so", "libamdhip64.so", "libze_loader.so"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static int look(struct dl_phdr_info *object, size_t size, void *data)
{
    struct search *search = data;

    (void)size;
    search->now = object->dlpi_adds;
    if (search->now == search->before)
        return 1;
    search->found |= is_driver(object->dlpi_name);
    return search->found;
}

bool nigh_mpi_device_possible(void)
{
    static _Atomic bool asked, taken, found;
    static _Atomic unsigned long long searched;
    struct search search = {.before = searched};

    if (!asked) {
        taken = mpi_takes_them();
        asked = true;
    }
    if (!taken || found)
        return taken;
    dl_iterate_phdr(look, &search);
    found = search.found;
    searched = search.now;
    return found;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* See over.h. */
#include "tools/mpi/over.h"
#include "tools/home.h"
#include "tools/mpi/chosen.h"
#include "tools/mpi/home.h"
#include "tools/mpi/preload.h"
#include "tools/mpi/turns.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Open MPI: messages by the matching layer of libfabric (Debian's configuration file switches it off). osc/ucx would go
 * round nigh. osc/sm stays: windows that MPI itself allocates are shared memory, which no message beats.
 * Other one-sided operations go by messages in 4, because osc/rdma of 4.1.4 crashes in
 * MPI_Compare_and_swap on one's own rank, over shared memory as well; without it btl/ofi is only a second
 * queue that each look for a message looks at, too.
 */
static const char *const openmpi4[] = {
    "OMPI_MCA_pml=cm",
    "OMPI_MCA_mtl=ofi",
    "OMPI_MCA_mtl_ofi_provider_include=nigh",
    "OMPI_MCA_opal_common_ofi_provider_include=nigh",
    "OMPI_MCA_btl=self",
    "OMPI_MCA_osc=^ucx,rdma",
    NULL,
};
static const char *const openmpi5[] = {
    "OMPI_MCA_pml=cm",
    "OMPI_MCA_mtl=ofi",
    "OMPI_MCA_mtl_ofi_provider_include=nigh",
    "OMPI_MCA_opal_common_ofi_provider_include=nigh",
    "OMPI_MCA_btl=ofi,self",
    "OMPI_MCA_osc=^ucx",
    NULL,
};

/* Both keep messages between processes of one machine to themselves unless told not to. */
static const char *const mpich[] = {"MPIR_CVAR_CH4_NETMOD=ofi", "MPIR_CVAR_NOLOCAL=1", NULL};
static const char *const intel[] = {"I_MPI_FABRICS=ofi", "I_MPI_OFI_PROVIDER=nigh", NULL};

static const char *const *settings_of(const struct mpi_place *place)
{
    switch (place->family) {
    case MPI_OPENMPI:
        return mpi_version(place) == 4 ? openmpi4 : openmpi5;
    case MPI_MPICH:
        return mpich;
    default:
        return intel;
    }
}

int mpi_providers(char *path, size_t size, char *why, size_t room)
{
    const char *chosen = getenv("NIGH_PROVIDERS");
    char built[MPI_PATH_BYTES], file[MPI_PATH_BYTES + 16];

    if (!chosen || !*chosen)
        chosen = tool_in_build("hosts/libfabric/.libs", built, sizeof built) ? built : NIGH_PKGLIBDIR;
    snprintf(file, sizeof file, "%s/libnigh-fi.so", chosen);
    if (strlen(chosen) < size && access(file, R_OK) == 0) {
        memcpy(path, chosen, strlen(chosen) + 1);
        return 0;
    }
    snprintf(why, room,
             "there is no %s: this nigh was built without libfabric's headers (package libfabric-dev), or "
             "NIGH_PROVIDERS names the wrong directory",
             file);
    return -ENOENT;
}

static bool intel_cpu(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

/*
 * Intel MPI takes its collectives' algorithms from a table for the fabric, over libfabric one for networks:
 * 4 ranks on 4 CPUs then take 1.59 of what a broadcast of 256 KiB takes over its own shared memory, 0.83
 * with the table that it has there. That one is named, on CPUs of makers other than Intel; for Intel's it
 * has a table for each model.
 */
static void intel_table(const struct mpi_place *place, struct mpi_words *settings)
{
    static const char *const places[] = {"opt/mpi/etc", "etc"};
    char root[MPI_PATH_BYTES], text[2 * MPI_PATH_BYTES];
    static const char name[] = "I_MPI_TUNING_BIN=";

    if (place->family != MPI_INTEL || mpi_chosen_table() || intel_cpu() ||
        !mpi_intel_root(place, root, sizeof root))
        return;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(text, sizeof text, "%s%s/%s/tuning_generic_shm.dat", name, root, places[i]);
        if (access(text + sizeof name - 1, R_OK) == 0) {
            mpi_words_add(settings, text);
            return;
        }
    }
}

static void cheap_turns(struct mpi_words *settings)
{
    char *text = mpi_turns();

    if (text)
        mpi_words_add(settings, text);
    free(text);
}

static void intel_rule(const char *name, const char *value, struct mpi_words *settings)
{
    char text[256];

    if (mpi_chosen(name))
        return;
    snprintf(text, sizeof text, "%s=%s", name, value);
    mpi_words_add(settings, text);
}

/*
 * Never by a k-nomial (5), which Intel MPI's table names for some lengths over any provider, and which hands over
 * garbage, or crashes, where a buffer is another number of elements of another type than the one it goes to (2021.18;
 * 30 integers sent, kept as 10 triples): the usual, doubling and from 32 KiB on a ring (3).
 */
static void intel_allgathers(struct mpi_words *settings)
{
    if (!mpi_chosen_table())
        intel_rule("I_MPI_ADJUST_ALLGATHER", "1:0-32767;3:32768-2147483647", settings);
}

/*
 * Intel MPI's ranks give their CPU away only if they see fewer CPUs than ranks; of a machine with more, on which they
 * may use some, they see all, and spin for whole time slices: 8 ranks on 2 of 16 CPUs reduce 4 KiB in 26 ms, over its
 * own shared memory as over nigh, and in 79 us when told to yield (2).
 */
static void intel_yields(uint32_t ranks, struct mpi_words *settings)
{
    if (sysconf(_SC_NPROCESSORS_ONLN) >= (long)ranks)
        intel_rule("I_MPI_THREAD_YIELD", "2", settings);
}

void mpi_over_nigh(const struct mpi_place *place, const char *providers, uint32_t crowd, uint32_t programs,
                   struct mpi_words *settings)
{
    const char *others = getenv("FI_PROVIDER_PATH");
    bool more = others && *others && strcmp(others, providers) != 0;
    char text[4 * MPI_PATH_BYTES];

    snprintf(text, sizeof text, "FI_PROVIDER_PATH=%s%s%s", providers, more ? ":" : "", more ? others : "");
    mpi_words_add(settings, text);
    mpi_words_add(settings, "FI_PROVIDER=nigh");
    for (const char *const *one = settings_of(place); *one; one++)
        mpi_words_add(settings, *one);
    if (place->family == MPI_INTEL)
        intel_allgathers(settings);
    intel_table(place, settings);
    mpi_preload(place, providers, programs, settings);
    if (!crowd)
        return;
    if (place->family == MPI_INTEL)
        intel_yields(crowd, settings);
    cheap_turns(settings);
}

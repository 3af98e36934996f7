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
static bool intel_table(const struct mpi_place *place, struct mpi_words *settings)
{
    static const char *const places[] = {"opt/mpi/etc", "etc"};
    char root[MPI_PATH_BYTES], text[2 * MPI_PATH_BYTES];
    static const char name[] = "I_MPI_TUNING_BIN=";

    if (place->family != MPI_INTEL || mpi_chosen_table() || intel_cpu() ||
        !mpi_intel_root(place, root, sizeof root))
        return false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(text, sizeof text, "%s%s/%s/tuning_generic_shm.dat", name, root, places[i]);
        if (access(text + sizeof name - 1, R_OK) == 0) {
            mpi_words_add(settings, text);
            return true;
        }
    }
    return false;
}

/*
 * Open MPI chooses its collectives' algorithms as if each rank had a CPU. Where 8 ranks share 2, each step is a change
 * of the process, and linear ones have the fewest steps: a barrier takes 0.6 to 0.7 of the time. On Intel's CPUs
 * doubling is better for large allgathers of 8 ranks, and Rabenseifner's algorithm for allreduces above 1 MiB of 8 and
 * 16.
 */
static void openmpi_rules(const struct mpi_place *place, const char *providers, struct mpi_words *settings)
{
    static const char name[] = "OMPI_MCA_coll_tuned_dynamic_rules_filename=";
    char text[2 * MPI_PATH_BYTES];

    if (place->family != MPI_OPENMPI || mpi_chosen_any("OMPI_MCA_coll"))
        return;
    snprintf(text, sizeof text, "%s%s/openmpi-crowded-intel.rules", name, providers);
    if (!intel_cpu() || access(text + sizeof name - 1, R_OK) != 0)
        snprintf(text, sizeof text, "%s%s/openmpi-crowded.rules", name, providers);
    if (access(text + sizeof name - 1, R_OK) != 0)
        return;
    mpi_words_add(settings, "OMPI_MCA_coll_tuned_use_dynamic_rules=1");
    mpi_words_add(settings, text);
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
 * Broadcasts in Intel MPI's own shared memory (9 to 11) that are longer than the threshold, and so have parts, hand over
 * what other collectives left there (2021.18; over its own fabrics, too, with 3 ranks and more). hosts/mpi answers those,
 * and what it does not answer, or what lies within an allreduce, goes as messages.
 */
static void intel_broadcasts(const char *from, struct mpi_words *settings)
{
    char text[64];

    if (mpi_chosen("I_MPI_ADJUST_BCAST") || getenv("NIGH_MPI_BCAST_FROM"))
        return;
    snprintf(text, sizeof text, "NIGH_MPI_BCAST_FROM=%s", from);
    mpi_words_add(settings, text);
}

/*
 * That table, too, is for ranks with a CPU each, and a good deal of it is for shared memory without messages. Where
 * ranks run in turns (docs/rationale/crowd-intel-algorithms.md): as messages what the root need not wait for, a
 * binomial tree (1) for short broadcasts and (2) for short reductions; in shared memory of Intel MPI's own all else,
 * which nobody's messages come up to with more than one copy or a step for each rank: broadcasts (11 and 10),
 * reductions (9), allreduces (18, 10, 12). What is longer than the threshold goes there in parts of it, which seem to
 * stay in the cache: reductions of 256 KiB to 4 MiB take 0.55 to 0.7 of what they take whole. Allreduces have no parts,
 * so above it they are such a reduction and a broadcast (3), of 8 ranks with 384 to 768 KiB Rabenseifner's (2), as
 * messages. Ranges of bytes, all sizes: outside of them it is not the table that decides, but what it has where there
 * is no table. Broadcasts in parts are wrong (intel_broadcasts).
 */
static void intel_trees(uint32_t ranks, struct mpi_words *settings)
{
    bool few = ranks <= 8;

    intel_rule("I_MPI_COLL_SHM_THRESHOLD", "196608", settings);
    intel_rule("I_MPI_ADJUST_REDUCE", "2:0-1023;9:1024-2147483647", settings);
    intel_rule("I_MPI_ADJUST_BCAST",
               few ? "1:0-8191;11:8192-196608;8:196609-2147483647"
                   : "1:0-4095;10:4096-196608;8:196609-2147483647",
               settings);
    intel_broadcasts("196609", settings);
    intel_rule("I_MPI_ADJUST_ALLREDUCE",
               ranks < 8 ? "18:0-1023;10:1024-196608;3:196609-2147483647"
               : few     ? "18:0-1023;12:1024-196608;3:196609-393215;2:393216-786431;3:786432-2147483647"
                         : "12:0-196608;3:196609-2147483647",
               settings);
}

/*
 * By what ranks tell each other in that shared memory that they have come and may go: k-ary trees (2) in which all of
 * up to 8 ranks are children of the root, where Intel MPI's own have more levels, and so turns of the scheduler.
 * Broadcast with barrier of 32 KiB 1.02 of its own in place of 1.20. Its type 0, called flat, takes what it takes
 * without. Barriers need the preset (9) besides.
 */
static void intel_flags(struct mpi_words *settings)
{
    static const char *const flags[][2] = {
        {"I_MPI_ADJUST_BARRIER", "NODE_SHMGR"},
        {"I_MPI_ADJUST_BCAST", "NODE_SHMGR"},
        {"I_MPI_ADJUST_REDUCE", "NODE_GATHER_RELEASE_SHM"},
        {"I_MPI_ADJUST_ALLREDUCE", "NODE_SHM"},
    };
    static const char *const rest[] = {"GATHER_TYPE=2", "GATHER_RADIX=7", "RELEASE_TYPE=2",
                                       "RELEASE_RADIX=7"};
    char text[128];

    for (size_t i = 0; i < 4 * sizeof flags / sizeof *flags; i++) {
        if (mpi_chosen(flags[i / 4][0]))
            continue;
        snprintf(text, sizeof text, "%s_%s_%s", flags[i / 4][0], flags[i / 4][1], rest[i % 4]);
        mpi_words_add(settings, text);
    }
    intel_rule("I_MPI_ADJUST_BARRIER", "9", settings);
}

/*
 * Never by a k-nomial (5), which Intel MPI's table names for some lengths over any provider, and which hands over
 * garbage, or crashes, where a buffer is another number of elements of another type than the one it goes to (2021.18;
 * 30 integers sent, kept as 10 triples). For ranks that run in turns by gathering and a broadcast (4), in few steps
 * (docs/rationale/crowd-intel-algorithms.md); from where hosts/mpi has it anyway, once it has begun, 8 ranks double
 * (1). Else by the usual, doubling and from 32 KiB on a ring (3), which is the best of few ranks at all lengths.
 */
static void intel_allgathers(uint32_t crowd, struct mpi_words *settings)
{
    const char *rule = "1:0-32767;3:32768-2147483647";

    if (mpi_chosen_table())
        return;
    if (crowd > 32)
        rule = "4:0-131071;1:131072-2147483647";
    else if (crowd >= 6)
        rule = "4:0-767;1:768-2147483647";
    else if (crowd)
        rule = "3";
    intel_rule("I_MPI_ADJUST_ALLGATHER", rule, settings);
}

/* A step of a ring or of a doubling lets no rank go on that its neighbours have not served, a change of the process for
 * each. So alltoall all at once. */
static void intel_alltoalls(struct mpi_words *settings)
{
    intel_rule("I_MPI_ADJUST_ALLTOALL", "14", settings);
}

static void intel_rules(uint32_t ranks, struct mpi_words *settings)
{
    if (ranks < 6)
        return;
    intel_trees(ranks, settings);
    if (ranks <= 8)
        intel_flags(settings);
    /* Those of up to 512 bytes take 0.63 to 0.88 of its own with 3, by the table 0.92 to 1.14; longer ones the same. */
    intel_rule("I_MPI_ADJUST_GATHER", "3", settings);
    intel_alltoalls(settings);
}

/*
 * Those below 2 KiB, above 8 ranks below 8 KiB (16 ranks, 4 KiB 0.94, and 1.16 in shared memory), as messages, a
 * k-nomial (7) of one step, and whole, as each of its own segments would be a message. From there on in shared memory
 * of Intel MPI's own (10), in parts of the threshold, by a binary tree, so that ranks on both CPUs add: 256 KiB take
 * 1.2 of its own in place of 1.8 as messages, 1 MiB 1.3 in place of 1.75. With all ranks under the root, which is
 * better up to 64 KiB (0.8 and 0.95), 1 MiB takes 1.5, and one radix holds for all sizes.
 */
static void intel_reduce_on_intel(uint32_t ranks, struct mpi_words *settings)
{
    static const char *const tree[] = {"GATHER_TYPE=2", "GATHER_RADIX=2", "RELEASE_TYPE=2",
                                       "RELEASE_RADIX=7"};
    char text[128];

    if (mpi_chosen("I_MPI_ADJUST_REDUCE"))
        return;
    mpi_words_add(settings, ranks <= 8 ? "I_MPI_ADJUST_REDUCE=7:0-2047;10:2048-2147483647"
                                       : "I_MPI_ADJUST_REDUCE=7:0-8191;10:8192-2147483647");
    mpi_words_add(settings, ranks <= 8 ? "I_MPI_ADJUST_REDUCE_NETWORK_KNOMIAL_RADIX=8"
                                       : "I_MPI_ADJUST_REDUCE_NETWORK_KNOMIAL_RADIX=16");
    mpi_words_add(settings, "I_MPI_ADJUST_REDUCE_NETWORK_KNOMIAL_SEGSIZE=2147483647");
    for (size_t i = 0; i < sizeof tree / sizeof *tree; i++) {
        snprintf(text, sizeof text, "I_MPI_ADJUST_REDUCE_NODE_GATHER_RELEASE_SHM_%s", tree[i]);
        mpi_words_add(settings, text);
    }
}

/*
 * On Intel's CPUs, beside the table that Intel MPI has for the model and networks. Unless the tuning mode "none" is named it
 * makes all reductions as messages. Allreduces up to the threshold are such a reduction and a broadcast (3); longer ones are
 * Rabenseifner's (2), as their broadcast would go in parts. docs/rationale/crowd-intel-algorithms.md, "On Intel's CPUs".
 */
static void intel_rules_on_intel(uint32_t ranks, bool shared, struct mpi_words *settings)
{
    if (ranks < 6 || mpi_chosen_table() || getenv("I_MPI_TUNING_MODE"))
        return;
    mpi_words_add(settings, "I_MPI_TUNING_MODE=none");
    intel_rule("I_MPI_COLL_SHM_THRESHOLD", "262144", settings);
    intel_rule("I_MPI_ADJUST_ALLREDUCE",
               mpi_chosen("I_MPI_ADJUST_REDUCE") ? "23" : "23:0-8191;3:8192-262144;2:262145-2147483647",
               settings);
    intel_reduce_on_intel(ranks, settings);
    intel_alltoalls(settings);
    intel_broadcasts("262145", settings);
    /* hosts/mpi copies twice what receivers that have mapped it copy once: of 32 and 64 KiB 0.92 and 1.08 of its own, as
     * messages 0.82 and 0.81; 16 KiB are the same. */
    if (shared && !mpi_chosen("I_MPI_ADJUST_ALLTOALL") && !getenv("NIGH_MPI_ALLTOALL_TO"))
        mpi_words_add(settings, "NIGH_MPI_ALLTOALL_TO=16383");
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
    bool more = others && *others && strcmp(others, providers) != 0, shared;
    char text[4 * MPI_PATH_BYTES];

    snprintf(text, sizeof text, "FI_PROVIDER_PATH=%s%s%s", providers, more ? ":" : "", more ? others : "");
    mpi_words_add(settings, text);
    mpi_words_add(settings, "FI_PROVIDER=nigh");
    for (const char *const *one = settings_of(place); *one; one++)
        mpi_words_add(settings, *one);
    if (place->family == MPI_INTEL)
        intel_allgathers(crowd, settings);
    if (intel_table(place, settings) && crowd)
        intel_rules(crowd, settings);
    shared = mpi_preload(place, providers, crowd, programs, settings);
    if (!crowd)
        return;
    if (place->family == MPI_INTEL) {
        intel_yields(crowd, settings);
        if (intel_cpu())
            intel_rules_on_intel(crowd, shared, settings);
    }
    openmpi_rules(place, providers, settings);
    cheap_turns(settings);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the peers are and how each wants to be called. */
#include "tools/perf/peer_find.h"

#include "tools/mpi/home.h"
#include "tools/mpi/over.h"
#include "tools/perf/peers.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* UCX is none of the MPIs: it has no launcher, and its program starts its own ranks. */
#define UCX "ucx"

/* The suffix of an MPI that runs over nigh. */
#define OVER "+nigh"

/* Those whose own shared memory is worth comparing with what nigh makes of them. */
static const char *const over_nigh[] = {"openmpi+nigh", "openmpi5+nigh", "mpich5+nigh", "intel+nigh"};

#define OVERS (sizeof over_nigh / sizeof *over_nigh)

size_t perf_peer_all(const char **names, size_t max)
{
    size_t count = mpi_names(names, max);

    if (count < max)
        names[count] = UCX;
    count++;
    for (size_t i = 0; i < OVERS; i++, count++)
        if (count < max)
            names[count] = over_nigh[i];
    return count;
}

static int find_ucx(struct perf_peer_place *place, char *why, size_t room)
{
    static const char *const headers[] = {"/usr/include/ucp/api/ucp.h", "/usr/local/include/ucp/api/ucp.h"};

    place->program = "peer_ucx.c";
    place->name = UCX;
    if ((access(headers[0], R_OK) == 0 || access(headers[1], R_OK) == 0) &&
        mpi_in_path("cc", place->mpi.compiler, sizeof place->mpi.compiler))
        return 0;
    snprintf(why, room, "not installed: UCX (package libucx-dev); tests/peers.sh installs it");
    return -ENOSYS;
}

static int find_mpi(const char *name, struct perf_peer_place *place, char *why, size_t room)
{
    int rc = mpi_find(name, &place->mpi, why, room);

    if (rc)
        return rc;
    place->program = "peer_mpi.c";
    place->collectives = true;
    if (!*place->mpi.compiler) {
        snprintf(why, room, "no compiler for %s: %s; tests/peers.sh installs what is missing", name,
                 place->mpi.family == MPI_INTEL ? "it takes an MPICH for its headers, and cc"
                                                : "its mpicc is not there");
        return -ENOSYS;
    }
    return 0;
}

static int find_over(const char *name, struct perf_peer_place *place, char *why, size_t room)
{
    char mpi[16];
    int rc;

    for (size_t i = 0; i < OVERS; i++) {
        if (strcmp(over_nigh[i], name))
            continue;
        place->name = over_nigh[i];
        snprintf(mpi, sizeof mpi, "%.*s", (int)strcspn(name, "+"), name);
        rc = find_mpi(mpi, place, why, room);
        if (rc == 0 && mpi_providers(place->providers, sizeof place->providers, why, room) != 0)
            rc = -ENOSYS;
        return rc;
    }
    snprintf(why, room, "no peer is called '%s'", name);
    return -ENOENT;
}

/* The name of a variable at the beginning of the text, with a '=' behind it. */
static bool begins_setting(const char *text)
{
    static const char *const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    size_t length = strspn(text, letters);

    return length && !isdigit((unsigned char)*text) && text[length] == '=';
}

const char *perf_peer_variant(const char *name)
{
    const char *variant = strchr(name, ':');

    if (!variant || strcmp(++variant, "again") == 0)
        return variant;
    for (const char *one = variant; one; one = strchr(one, ':'), one += one != NULL)
        if (!begins_setting(one))
            return NULL;
    return variant;
}

static int find_named(const char *name, struct perf_peer_place *place, char *why, size_t room)
{
    int rc;

    if (!strcmp(name, UCX))
        return find_ucx(place, why, room);
    if (strstr(name, OVER))
        return find_over(name, place, why, room);
    rc = find_mpi(name, place, why, room);
    if (rc == -ENOENT)
        snprintf(why, room, "no peer is called '%s'", name);
    place->name = place->mpi.name;
    return rc;
}

int perf_peer_find(const char *name, struct perf_peer_place *place, char *why, size_t room)
{
    const char *variant = perf_peer_variant(name);
    char first[32];

    *place = (struct perf_peer_place){.variant = variant};
    if (!variant)
        return find_named(name, place, why, room);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(name, ":"), name);
    return find_named(first, place, why, room);
}

void perf_peer_compile_words(const struct perf_peer_place *place, const char *sources, const char *output,
                             struct mpi_words *words)
{
    const char *files[] = {place->program,  "peer_rank.c", "peer_hand.c", "peer_launch.c",
                           "peer_device.c", "cuda.c",      "cuda_sides.c"};
    char text[2 * MPI_PATH_BYTES];

    mpi_words_init(words);
    mpi_words_add(words, place->mpi.compiler);
    mpi_words_add(words, "-O2");
    mpi_words_add(words, "-std=gnu11");
    mpi_words_add(words, "-D_GNU_SOURCE");
    mpi_words_add(words, "-w"); /* the MPIs' headers make warnings of their own */
    mpi_words_add(words, "-o");
    mpi_words_add(words, output);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(text, sizeof text, "%s/tools/perf/%s", sources, files[i]);
        mpi_words_add(words, text);
    }
    snprintf(text, sizeof text, "-I%s", sources); /* include lines are written from the root of the tree */
    mpi_words_add(words, text);
    if (*place->mpi.include) {
        snprintf(text, sizeof text, "-I%s", place->mpi.include);
        mpi_words_add(words, text);
    }
    if (*place->mpi.library) {
        snprintf(text, sizeof text, "-L%s", place->mpi.library);
        mpi_words_add(words, text);
        snprintf(text, sizeof text, "-Wl,-rpath,%s", place->mpi.library);
        mpi_words_add(words, text);
        mpi_words_add(words, "-lmpi");
    }
    if (!*place->mpi.launcher) {
        mpi_words_add(words, "-lucp");
        mpi_words_add(words, "-lucs");
    }
    mpi_words_add(words, "-ldl"); /* glibc before 2.34 */
}

/* More ranks than CPUs: then Open MPI is told to yield, which is its best case. Intel's yields by itself, and of its
 * settings the default is the best; MPICH has none that helps. */
static bool crowded(uint32_t ranks, const int *cpus)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    for (uint32_t i = 0; cpus && i < ranks; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (cpus[i] == cpus[j])
                return true;
        }
    }
    return ranks > online;
}

static void openmpi_words(const struct perf_peer_place *place, bool yields, struct mpi_words *words)
{
    mpi_words_add(words, place->mpi.launcher);
    if (geteuid() == 0)
        mpi_words_add(words, "--allow-run-as-root");
    mpi_words_add(words, "--oversubscribe");
    mpi_words_add(words, "--bind-to");
    mpi_words_add(words, "none"); /* the ranks pin themselves where nigh's ranks are */
    mpi_words_add(words, "--mca");
    mpi_words_add(words, "mpi_yield_when_idle");
    mpi_words_add(words, yields ? "1" : "0");
}

/* The variables of a job that differs from the first one by them. */
static void variant_words(const char *variant, struct mpi_words *words)
{
    char setting[2 * MPI_PATH_BYTES];

    for (size_t length; variant && strchr(variant, '='); variant += length + (variant[length] == ':')) {
        length = strcspn(variant, ":");
        snprintf(setting, sizeof setting, "%.*s", (int)length, variant);
        mpi_words_add(words, setting);
    }
}

/* Variables stand in front of the launcher, so that the command can be copied as it is. */
static void setting_words(const struct perf_peer_place *place, uint32_t crowd, struct mpi_words *words)
{
    mpi_words_add(words, "env");
    mpi_at_home(&place->mpi, words);
    if (*place->providers)
        mpi_over_nigh(&place->mpi, place->providers, crowd, 1, words);
    else if (place->mpi.family == MPI_INTEL)
        mpi_words_add(words, "I_MPI_FABRICS=shm");
    if (place->mpi.family == MPI_INTEL)
        mpi_words_add(words, "I_MPI_PIN=0");
    variant_words(place->variant, words);
}

static void launcher_words(const struct perf_peer_place *place, uint32_t crowd, bool devices,
                           struct mpi_words *words)
{
    if (!*place->mpi.launcher) {
        mpi_words_add(words, "env");
        mpi_words_add(words, devices ? "UCX_TLS=sm,self,cuda" : "UCX_TLS=sm,self");
        variant_words(place->variant, words);
        return;
    }
    setting_words(place, crowd, words);
    if (place->mpi.family == MPI_OPENMPI)
        openmpi_words(place, crowd > 0, words);
    else
        mpi_words_add(words, place->mpi.launcher);
    if (place->mpi.family == MPI_MPICH) {
        mpi_words_add(words, "-bind-to");
        mpi_words_add(words, "none");
    }
}

static void cpu_list(char *text, size_t size, const int *cpus, uint32_t ranks)
{
    size_t used = 0;

    text[0] = 0;
    for (uint32_t r = 0; r < ranks && used < size; r++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", r ? "," : "", cpus[r]);
}

void perf_peer_start_words(const struct perf_peer_place *place, const char *binary, const struct perf_case *c,
                           const char *control, struct mpi_words *words)
{
    char count[16], list[4096];

    mpi_words_init(words);
    launcher_words(place, crowded(c->ranks, c->cpus) ? c->ranks : 0, c->cuda, words);
    snprintf(count, sizeof count, "%u", c->ranks);
    if (*place->mpi.launcher) {
        mpi_words_add(words, "-n");
        mpi_words_add(words, count);
        mpi_words_add(words, binary);
    } else {
        mpi_words_add(words, binary);
        mpi_words_add(words, "--ranks");
        mpi_words_add(words, count);
    }
    mpi_words_add(words, "--name");
    mpi_words_add(words, place->name);
    mpi_words_add(words, "--control");
    mpi_words_add(words, control);
    if (c->cpus) {
        cpu_list(list, sizeof list, c->cpus, c->ranks);
        mpi_words_add(words, "--cpus");
        mpi_words_add(words, list);
    }
    if (c->cuda) {
        mpi_words_add(words, "--cuda");
        mpi_words_add(words, c->cuda);
    }
}

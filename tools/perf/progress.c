/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress line. */
#include "tools/perf/progress.h"

#include "tools/perf/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static int shown;

void perf_progress(const char *format, ...)
{
    static uint64_t last;
    uint64_t now = perf_clock_system();
    va_list args;

    if (!isatty(STDERR_FILENO) || (last && now - last < 100000000))
        return;
    last = now;
    shown = 1;
    fputs("\r\033[Knigh-perf: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

void perf_progress_clear(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of ranks as people write them: ranges, and an end where a line would get too long. */
#include "tools/run/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The last rank of the range that begins at `first`. */
static uint32_t range_end(const struct run_rank *ranks, uint32_t count, uint32_t first)
{
    while (first + 1 < count && ranks[first + 1].running)
        first++;
    return first;
}

void run_report_ranks(const struct run_rank *ranks, uint32_t count, char *text, size_t bytes)
{
    size_t length;
    uint32_t running = 0;

    for (uint32_t i = 0; i < count; i++)
        running += ranks[i].running;
    length = (size_t)snprintf(text, bytes, "%s",
                              running == 0   ? "no rank"
                              : running == 1 ? "rank "
                                             : "ranks ");
    for (uint32_t first = 0; first < count; first++) {
        const char *comma = text[length - 1] == ' ' ? "" : ",";
        uint32_t last;

        if (!ranks[first].running)
            continue;
        if (bytes - length < 32) {
            snprintf(text + length, bytes - length, ",...");
            return;
        }
        last = range_end(ranks, count, first);
        if (last == first)
            length += (size_t)snprintf(text + length, bytes - length, "%s%" PRIu32, comma, first);
        else
            length +=
                (size_t)snprintf(text + length, bytes - length, "%s%" PRIu32 "-%" PRIu32, comma, first, last);
        first = last;
    }
}

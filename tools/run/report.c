/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of ranks as people write them: ranges, and an end where a line would get too long. */
#include "tools/run/report.h"

#include <inttypes.h>
#include <stdio.h>

struct set {
    bool (*in)(const void *set, uint32_t rank);
    const void *data;
    uint32_t count;
};

/* The last rank of the range that begins at `first`. */
static uint32_t range_end(const struct set *set, uint32_t first)
{
    while (first + 1 < set->count && set->in(set->data, first + 1))
        first++;
    return first;
}

/* How the words begin, by how many there are. */
static const char *beginning(const struct set *set)
{
    uint32_t some = 0;

    for (uint32_t i = 0; i < set->count && some < 2; i++)
        some += set->in(set->data, i);
    return some == 0 ? "no rank" : some == 1 ? "rank " : "ranks ";
}

void run_report_set(bool (*in)(const void *set, uint32_t rank), const void *data, uint32_t count, char *text,
                    size_t bytes)
{
    const struct set set = {in, data, count};
    size_t length = (size_t)snprintf(text, bytes, "%s", beginning(&set));

    for (uint32_t first = 0; first < count; first++) {
        const char *comma = text[length - 1] == ' ' ? "" : ",";
        uint32_t last;

        if (!in(data, first))
            continue;
        if (bytes - length < 32) {
            snprintf(text + length, bytes - length, ",...");
            return;
        }
        last = range_end(&set, first);
        if (last == first)
            length += (size_t)snprintf(text + length, bytes - length, "%s%" PRIu32, comma, first);
        else
            length +=
                (size_t)snprintf(text + length, bytes - length, "%s%" PRIu32 "-%" PRIu32, comma, first, last);
        first = last;
    }
}

static bool runs(const void *ranks, uint32_t rank)
{
    return ((const struct run_rank *)ranks)[rank].running;
}

void run_report_ranks(const struct run_rank *ranks, uint32_t count, char *text, size_t bytes)
{
    run_report_set(runs, ranks, count, text, bytes);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The empty row: one place decides that an absent figure is NAN. */
#include "tools/perf/result.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void perf_result_init(struct perf_result *row, const char *test, const char *path, const char *unit)
{
    memset(row, 0, sizeof(*row));
    snprintf(row->test, sizeof(row->test), "%s", test);
    snprintf(row->path, sizeof(row->path), "%s", path);
    snprintf(row->unit, sizeof(row->unit), "%s", unit);
    row->more_is_better = strcmp(unit, "GB/s") == 0 || strcmp(unit, "M/s") == 0;
    row->value = row->low = row->high = row->p99 = NAN;
    row->floor = row->ratio = row->handoff_ns = NAN;
    for (size_t i = 0; i < PERF_PEERS; i++)
        row->peers[i].value = row->peers[i].ratio = NAN;
}

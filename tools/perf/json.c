/* SPDX-License-Identifier: BSD-3-Clause */
/* A row as a JSON object. */
#include "tools/perf/json.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>

static int set_real(json_t *object, const char *key, double value)
{
    return json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

static int set_text(json_t *object, const char *key, const char *text)
{
    return json_object_set_new(object, key, *text ? json_string(text) : json_null());
}

static int set_count(json_t *object, const char *key, uint64_t count)
{
    return json_object_set_new(object, key, json_integer((json_int_t)count));
}

static int set_names(json_t *object, const struct perf_result *row)
{
    return set_text(object, "test", row->test) | set_count(object, "bytes", row->bytes) |
           set_count(object, "ranks", row->ranks) | set_text(object, "path", row->path) |
           set_text(object, "unit", row->unit) | set_text(object, "note", row->note);
}

static int set_figures(json_t *object, const struct perf_result *row)
{
    return set_real(object, "value", row->value) | set_real(object, "low", row->low) |
           set_real(object, "high", row->high) | set_real(object, "p99", row->p99) |
           set_real(object, "floor", row->floor) | set_real(object, "ratio", row->ratio) |
           set_real(object, "handoff_ns", row->handoff_ns) | set_count(object, "rounds", row->rounds) |
           set_count(object, "dropped", row->dropped);
}

static int set_peers(json_t *object, const struct perf_result *row)
{
    json_t *peers = json_object(), *ratios = json_object();
    int rc = 0;

    for (uint32_t i = 0; i < row->peer_count; i++)
        rc |= set_real(peers, row->peers[i].name, row->peers[i].value) |
              set_real(ratios, row->peers[i].name, row->peers[i].ratio);
    return rc | json_object_set_new(object, "peers", peers) | json_object_set_new(object, "ratios", ratios);
}

int perf_json_write(FILE *out, const struct perf_result *row, bool compare)
{
    json_t *object = json_object();
    int rc = set_names(object, row) | set_figures(object, row);

    if (compare)
        rc |= set_peers(object, row);
    if (rc != 0)
        rc = -ENOMEM;
    else if (json_dumpf(object, out, JSON_COMPACT | JSON_REAL_PRECISION(6)) != 0 || putc('\n', out) == EOF ||
             fflush(out) != 0)
        rc = -EIO;
    json_decref(object);
    return rc;
}

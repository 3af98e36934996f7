/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/paths.c - how messages travel from this process, by size, to itself and to another one. */
#include "tools/info/facts.h"
#include "tools/info/pair.h"

#include <string.h>

enum { ROWS = 64 };

static json_t *rows_of(struct info_pair *pair, struct nigh_endpoint *endpoint)
{
    static struct nigh_query_path rows[ROWS];
    uint64_t bytes = sizeof(rows);
    json_t *list = json_array();

    memset(rows, 0, sizeof(rows));
    rows[0].size = sizeof(rows[0]);
    if (pair->ops->query(pair->context, endpoint, NIGH_QUERY_PATHS, rows, &bytes) != 0)
        bytes = 0;
    for (size_t i = 0; i < bytes / sizeof(rows[0]); i++)
        json_array_append_new(list, json_pack("{sI ss ss}", "bytes_from", (json_int_t)rows[i].bytes_from,
                                              "path", rows[i].path, "reason", rows[i].reason));
    return list;
}

json_t *info_paths(const struct info_plugin *plugin)
{
    struct info_pair pair;
    json_t *paths;

    if (!NIGH_HAS(plugin->ops, query))
        return json_pack("{ss}", "error", "the module does not answer questions");
    if (info_pair_open(plugin, &pair) != 0)
        return json_pack("{ss}", "error", pair.problem);
    if (info_pair_exercise(&pair, pair.self) != 0 || info_pair_exercise(&pair, pair.other) != 0)
        paths = json_pack("{ss}", "error", pair.problem);
    else
        paths = json_pack("{so so}", "itself", rows_of(&pair, pair.self), "other_process",
                          rows_of(&pair, pair.other));
    info_pair_close(&pair);
    return paths;
}

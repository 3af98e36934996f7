/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/machine.c - the module and the machine, as the module sees it. */
#include "tools/info/facts.h"

#include <glob.h>
#include <string.h>

json_t *info_module(const struct info_plugin *plugin)
{
    char abi[32];

    snprintf(abi, sizeof(abi), "%u.%u", plugin->ops->abi >> 16, plugin->ops->abi & 0xffff);
    return json_pack("{ss ss ss ss ss}", "file", plugin->file, "name", plugin->ops->name, "version",
                     plugin->ops->version, "abi", abi, "description", plugin->ops->description);
}

/* This version moves host memory only, so that all there is to say of a GPU is that it is there. */
static json_int_t count_gpus(void)
{
    glob_t found;
    json_int_t count = 0;

    if (glob("/dev/nvidia[0-9]*", 0, NULL, &found) != 0)
        return 0;
    count = (json_int_t)found.gl_pathc;
    globfree(&found);
    return count;
}

static json_t *ability(uint32_t usable, const char *reason)
{
    return json_pack("{sb ss}", "usable", usable != 0, "reason", reason);
}

static json_t *limit(uint64_t value)
{
    return value == 0 ? json_null() : json_integer((json_int_t)value);
}

json_t *info_machine(const struct info_plugin *plugin)
{
    struct nigh_query_machine facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);
    int rc = NIGH_HAS(plugin->ops, query) ? plugin->ops->query(NULL, NULL, NIGH_QUERY_MACHINE, &facts, &bytes)
                                          : -1;

    if (rc != 0)
        return json_pack("{ss}", "error", "the module does not answer the question for the machine");
    return json_pack("{si si so si si si ss sI so si so so sI}", "cpus", (int)facts.cpus, "cpus_runnable",
                     (int)facts.cpus_runnable, "cpu_quota_milli", limit(facts.cpu_quota), "l3_domains",
                     (int)facts.l3_domains, "numa_nodes", (int)facts.numa_nodes, "packages",
                     (int)facts.packages, "topology_reason", facts.topology_reason, "memory_bytes",
                     (json_int_t)facts.memory_bytes, "memory_limit", limit(facts.memory_limit), "page_bytes",
                     (int)facts.page_bytes, "huge_pages", ability(facts.huge_shared, facts.huge_reason),
                     "cma", ability(facts.cma, facts.cma_reason), "gpus", count_gpus());
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/variables.c - the environment variables that the module names in its help, and their values here. */
#include "tools/info/facts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Appends {name, value} for every NIGH_ name in [text, end); value is null where it is not set. */
static void add_names(json_t *list, const char *text, const char *end)
{
    while (text < end) {
        size_t length = 0;
        char name[64];
        const char *value;

        while (text + length < end && (isupper((unsigned char)text[length]) || text[length] == '_'))
            length++;
        if (length > 5 && length < sizeof(name) && strncmp(text, "NIGH_", 5) == 0) {
            memcpy(name, text, length);
            name[length] = 0;
            value = getenv(name);
            json_array_append_new(list, json_pack("{ss ss?}", "name", name, "value", value));
        }
        if (text[length] == '=')
            return; /* behind it stand values */
        text += length + 1;
    }
}

/* A line is "NAME[, NAME...][=VALUES]", two or more blanks, and what it means. */
static json_t *variable(const char *line, size_t length)
{
    const char *end = line + length, *gap = memmem(line, length, "  ", 2), *meaning = gap;
    json_t *names = json_array();

    if (gap == NULL)
        gap = meaning = end;
    while (meaning < end && *meaning == ' ')
        meaning++;
    add_names(names, line, gap);
    return json_pack("{so ss# ss#}", "variables", names, "syntax", line, (int)(gap - line), "meaning",
                     meaning, (int)(end - meaning));
}

json_t *info_environment(const struct info_plugin *plugin)
{
    json_t *list = json_array();
    const char *line = plugin->ops->config_help;

    while (line != NULL && *line != 0) {
        size_t length = strcspn(line, "\n");

        json_array_append_new(list, variable(line, length));
        line += length + (line[length] == '\n');
    }
    return list;
}

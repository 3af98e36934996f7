/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing and printing of sizes and CPU lists. */
#include "tools/perf/sizes.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The length of a suffix and its shift; -EINVAL when `text` is none. */
static int suffix(const char *text, unsigned *shift)
{
    static const char letters[] = "KMG";
    const char *at = *text ? strchr(letters, toupper((unsigned char)*text)) : NULL;

    *shift = 0;
    if (at) {
        *shift = 10 * (unsigned)(at - letters + 1);
        text++;
        if (strcmp(text, "iB") == 0)
            return 0;
    }
    return *text == '\0' || strcmp(text, "B") == 0 ? 0 : -EINVAL;
}

int perf_size_parse(const char *text, uint64_t *bytes)
{
    unsigned long long number;
    unsigned shift;
    char *end;

    if (!isdigit((unsigned char)*text))
        return -EINVAL;
    errno = 0;
    number = strtoull(text, &end, 10);
    if (suffix(end, &shift) != 0)
        return -EINVAL;
    if (errno == ERANGE || number > (PERF_BYTES_MOST >> shift))
        return -ERANGE;
    *bytes = (uint64_t)number << shift;
    return 0;
}

static int append(struct perf_sizes *list, uint64_t bytes)
{
    if (list->count == PERF_SIZES)
        return -E2BIG;
    list->bytes[list->count++] = bytes;
    return 0;
}

static int append_range(struct perf_sizes *list, uint64_t from, uint64_t to)
{
    uint64_t bytes = from;
    int rc = 0;

    if (from > to)
        return -ERANGE;
    while (rc == 0 && bytes < to) {
        rc = append(list, bytes);
        bytes = bytes ? bytes * 2 : 1;
    }
    return rc ? rc : append(list, to);
}

static int append_item(struct perf_sizes *list, char *item)
{
    char *dash = strchr(item, '-');
    uint64_t from, to;
    int rc;

    if (dash)
        *dash = '\0';
    rc = perf_size_parse(item, &from);
    if (rc != 0 || !dash)
        return rc ? rc : append(list, from);
    rc = perf_size_parse(dash + 1, &to);
    return rc ? rc : append_range(list, from, to);
}

int perf_sizes_parse(const char *text, struct perf_sizes *out)
{
    struct perf_sizes list = {0};
    char *copy = strdup(text), *rest = copy, *item;
    int rc = copy ? 0 : -ENOMEM;

    while (rc == 0 && (item = strsep(&rest, ",")))
        rc = append_item(&list, item);
    free(copy);
    if (rc == 0)
        *out = list;
    return rc;
}

const char *perf_size_text(uint64_t bytes, char *room, size_t size)
{
    static const char letters[] = {'\0', 'K', 'M', 'G'};
    unsigned step = 0;

    while (step < 3 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        step++;
    }
    snprintf(room, size, "%" PRIu64 "%.1s", bytes, &letters[step]);
    return room;
}

static int cpu_number(const char **text)
{
    unsigned long number;
    char *end;

    if (!isdigit((unsigned char)**text))
        return -EINVAL;
    number = strtoul(*text, &end, 10);
    *text = end;
    return number > 65535 ? -EINVAL : (int)number;
}

int perf_cpus_parse(const char *text, int *cpus, size_t max)
{
    size_t n = 0;

    for (;;) {
        int from = cpu_number(&text), to = from;

        if (from >= 0 && *text == '-') {
            text++;
            to = cpu_number(&text);
        }
        if (from < 0 || to < from)
            return -EINVAL;
        for (int cpu = from; cpu <= to; cpu++) {
            if (n == max)
                return -E2BIG;
            cpus[n++] = cpu;
        }
        if (*text == '\0')
            return (int)n;
        if (*text++ != ',')
            return -EINVAL;
    }
}

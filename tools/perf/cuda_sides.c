/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and writing the argument of --cuda. */
#include "tools/perf/cuda_sides.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { DEVICES_MAX = 1024 };

static const char *const names[PERF_CUDA_KINDS] = {"host", "plain", "vmm", "pool", "managed"};

const char *perf_cuda_kind_name(enum perf_cuda_kind kind)
{
    return names[kind];
}

/* Digits alone, without a sign; -1: not a number of a device. */
static int parse_device(const char *text, size_t length)
{
    int device = 0;

    if (length == 0)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || device >= DEVICES_MAX)
            return -1;
        device = 10 * device + text[i] - '0';
    }
    return device < DEVICES_MAX ? device : -1;
}

static int parse_side(const char *text, size_t length, struct perf_cuda_side *side)
{
    const char *colon = memchr(text, ':', length);
    size_t name = colon ? (size_t)(colon - text) : length;

    *side = (struct perf_cuda_side){PERF_CUDA_KINDS, 0};
    for (int i = 0; i < PERF_CUDA_KINDS; i++)
        if (strlen(names[i]) == name && memcmp(names[i], text, name) == 0)
            side->kind = (enum perf_cuda_kind)i;
    if (colon)
        side->device = parse_device(colon + 1, length - name - 1);
    if (side->kind == PERF_CUDA_KINDS || side->device < 0 || (side->kind == PERF_CUDA_HOST && colon))
        return -EINVAL;
    return 0;
}

int perf_cuda_sides_parse(const char *text, struct perf_cuda_sides *sides)
{
    struct perf_cuda_sides read = {.asked = true};
    const char *comma;
    int rc;

    text = text ? text : names[PERF_CUDA_PLAIN];
    comma = strchr(text, ',');
    rc = parse_side(text, comma ? (size_t)(comma - text) : strlen(text), &read.from);
    if (rc == 0 && comma)
        rc = parse_side(comma + 1, strlen(comma + 1), &read.to);
    else
        read.to = read.from;
    if (rc != 0)
        return rc;
    if (read.from.kind == PERF_CUDA_HOST && read.to.kind == PERF_CUDA_HOST)
        return -ENODEV;
    *sides = read;
    return 0;
}

static size_t write_side(const struct perf_cuda_side *side, char *room, size_t size)
{
    int n = side->device ? snprintf(room, size, "%s:%d", names[side->kind], side->device)
                         : snprintf(room, size, "%s", names[side->kind]);

    return (size_t)n;
}

const char *perf_cuda_sides_text(const struct perf_cuda_sides *sides, char room[PERF_CUDA_SIDES_BYTES])
{
    size_t used = write_side(&sides->from, room, PERF_CUDA_SIDES_BYTES);

    room[used++] = ',';
    write_side(&sides->to, room + used, PERF_CUDA_SIDES_BYTES - used);
    return room;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/completion.c - what is rare about the completion queue: create, grow, destroy. */
#include "plugin/completion.h"

#include "shm/os.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { SLOTS_MIN = 64 };

static_assert(sizeof(struct nigh_cq_first) % 64 == 0, "lines of their own");
static_assert(sizeof(struct nigh_completion) == 64, "a completion is one cache line");
static_assert(offsetof(struct nigh_completion, status) == 8 && offsetof(struct nigh_completion, op) == 12 &&
                  offsetof(struct nigh_completion, flags) == 14 &&
                  offsetof(struct nigh_completion, bytes) == 16,
              "nigh_cq_copy joins the fields in this order");

static void *make_lines(uint64_t bytes, void **lines)
{
    void *memory = nigh_os.calloc(bytes / 64 + 1, 64);

    *lines = (void *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    return memory;
}

static uint64_t round_up(uint64_t slots)
{
    uint64_t rounded = SLOTS_MIN;

    while (rounded < slots)
        rounded *= 2;
    return rounded;
}

int nigh_cq_create(struct nigh_cq *cq, uint32_t slots)
{
    uint64_t rounded = round_up(slots);
    void *ring, *memory = make_lines(rounded * sizeof(*cq->ring), &ring), *first,
                *first_memory = make_lines(sizeof(*cq->first), &first);

    if (memory == NULL || first_memory == NULL) {
        free(memory);
        free(first_memory);
        return -ENOMEM;
    }
    *cq = (struct nigh_cq){
        .first = first, .first_memory = first_memory, .ring = ring, .memory = memory, .mask = rounded - 1};
    nigh_cq_begin_anew(cq);
    return 0;
}

void nigh_cq_destroy(struct nigh_cq *cq)
{
    free(cq->first_memory);
    free(cq->memory);
    *cq = (struct nigh_cq){0};
}

int nigh_cq_grow(struct nigh_cq *cq, uint64_t count)
{
    uint64_t slots = round_up(cq->promised - cq->head + count);
    void *lines, *memory = make_lines(slots * sizeof(*cq->ring), &lines);
    struct nigh_completion *ring = lines;

    if (memory == NULL)
        return -ENOMEM;
    for (uint64_t i = cq->head; i != cq->tail; i++)
        ring[i & (slots - 1)] = cq->ring[i & cq->mask];
    free(cq->memory);
    cq->ring = ring;
    cq->memory = memory;
    cq->mask = slots - 1;
    cq->promised += count;
    return 0;
}

void nigh_cq_gather(struct nigh_cq *cq)
{
    struct nigh_completion *line = cq->first->line;
    uint32_t left = (uint32_t)(cq->direct - cq->direct_from);

    memmove(line, cq->direct_from, left * sizeof(*line));
    for (; left < NIGH_CQ_LINE_MAX && cq->head != cq->tail; left++, cq->head++, cq->promised++)
        line[left] = cq->ring[cq->head & cq->mask];
    cq->direct_from = line;
    cq->direct = line + left;
    cq->direct_left = cq->head == cq->tail ? NIGH_CQ_LINE_MAX - left : 0;
}

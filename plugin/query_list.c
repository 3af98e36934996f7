/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/query_list.c - what waits to be matched, listed: for reports about programs that are stuck. Costs time and
 * memory in proportion to what waits, when it is asked for. */
#include "plugin/context.h"
#include "plugin/query.h"
#include <errno.h>
#include <stdlib.h>

/* The rows are made in memory of our own: the caller's room may end in the middle of one. */
struct list {
    const struct nigh_endpoint *only; /* NULL: all */
    const struct nigh_context *context;
    struct nigh_query_message *rows;
    uint64_t count, room;
};

/* No more rows than there are, or than can be seen. */
static int begin(struct list *list, uint64_t waiting, uint64_t bytes)
{
    uint64_t seen = (bytes + sizeof(*list->rows) - 1) / sizeof(*list->rows);

    list->room = waiting < seen ? waiting : seen;
    list->rows = calloc(list->room ? list->room : 1, sizeof(*list->rows));
    return list->rows ? 0 : -ENOMEM;
}

static int end(struct list *list, void *out, uint64_t *bytes)
{
    int rc = nigh_query_answer(list->rows, list->count * sizeof(*list->rows), out, bytes);

    free(list->rows);
    return rc;
}

static void add_message(struct nigh_arrived *arrived, void *data)
{
    const struct nigh_message *message = (const struct nigh_message *)(const void *)arrived;
    struct list *list = data;

    if (list->count == list->room || (list->only && message->endpoint != list->only))
        return;
    list->rows[list->count++] = (struct nigh_query_message){
        .size = sizeof(*list->rows),
        .tclass = arrived->tclass,
        .source = message->endpoint->source,
        .tag = message->tag,
        .imm = message->imm,
        .bytes = message->total,
    };
}

int nigh_query_unexpected(const struct nigh_context *context, const struct nigh_endpoint *only, void *out,
                          uint64_t *bytes)
{
    struct list list = {.only = only, .context = context};
    int rc = begin(&list, context->matcher.arrived_count, *bytes);

    if (rc)
        return rc;
    nigh_match_each_arrived(&context->matcher, add_message, &list);
    return end(&list, out, bytes);
}

/* ---- posted receives: the matcher visits them in no order ------------------------------------------------ */

struct posted_list {
    const struct nigh_posted **all;
    uint64_t count;
};

static void note_posted(struct nigh_posted *posted, void *data)
{
    struct posted_list *list = data;

    list->all[list->count++] = posted;
}

static int by_age(const void *a, const void *b)
{
    uint64_t first = (*(const struct nigh_posted *const *)a)->sequence;
    uint64_t second = (*(const struct nigh_posted *const *)b)->sequence;

    return first < second ? -1 : first > second;
}

static void add_receive(struct list *list, const struct nigh_posted *posted)
{
    const struct nigh_recv_op *op = nigh_recv_op_of(posted);
    bool any = posted->source == NIGH_ANY;

    if (list->count == list->room || (list->only && posted->source != list->only->index))
        return;
    list->rows[list->count++] = (struct nigh_query_message){
        .size = sizeof(*list->rows),
        .tclass = posted->tclass,
        .source = any ? NIGH_SOURCE_NONE : list->context->by_index[posted->source]->source,
        .tag = posted->tag,
        .ignore = posted->ignore,
        .bytes = op->flags & NIGH_MULTI ? op->bytes - op->used : op->bytes,
        .context = op->context,
    };
}

int nigh_query_posted(const struct nigh_context *context, const struct nigh_endpoint *only, void *out,
                      uint64_t *bytes)
{
    struct list list = {.only = only, .context = context};
    struct posted_list posted = {
        .all = calloc((size_t)nigh_match_posted(&context->matcher) + 1, sizeof(*posted.all))};
    int rc = posted.all ? begin(&list, nigh_match_posted(&context->matcher), *bytes) : -ENOMEM;

    if (rc) {
        free(posted.all);
        return rc;
    }
    nigh_match_each_posted(&context->matcher, note_posted, &posted);
    qsort(posted.all, posted.count, sizeof(*posted.all), by_age);
    for (uint64_t i = 0; i < posted.count; i++)
        add_receive(&list, posted.all[i]);
    free(posted.all);
    return end(&list, out, bytes);
}

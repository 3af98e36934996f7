/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/match_table.c - what is rare about the hash table under tag matching: create, grow, walk, destroy. */
#include "plugin/match_table.h"

#include "shm/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_LOG2 = 6 };

static struct nigh_match_node **make_buckets(uint32_t log2)
{
    return nigh_os.calloc((size_t)1 << log2, sizeof(struct nigh_match_node *));
}

int nigh_match_table_create(struct nigh_match_table *out)
{
    struct nigh_match_node **buckets = make_buckets(FIRST_LOG2);

    if (buckets == NULL)
        return -ENOMEM;
    out->buckets = buckets;
    out->shift = 64 - FIRST_LOG2;
    out->queues = 0;
    out->grow_at = 1u << FIRST_LOG2;
    return 0;
}

void nigh_match_table_destroy(struct nigh_match_table *table)
{
    free(table->buckets);
    memset(table, 0, sizeof(*table));
}

/* All at once: a step costs as much as its share of a doubling, and a table that moves piece by piece would
 * make each look-up ask in two places. */
void nigh_match_table_grow(struct nigh_match_table *table)
{
    uint32_t log2 = 64 - table->shift;
    struct nigh_match_node **old = table->buckets, **buckets = log2 < 30 ? make_buckets(log2 + 1) : NULL;

    if (buckets == NULL) {
        table->grow_at = table->grow_at > UINT32_MAX / 2 ? UINT32_MAX : table->grow_at * 2;
        return;
    }
    table->buckets = buckets;
    table->shift--;
    table->grow_at = 2u << log2;
    for (size_t i = 0; i < (size_t)1 << log2; i++) {
        struct nigh_match_node *head = old[i];

        while (head != NULL) {
            struct nigh_match_node *chain = head->chain;
            struct nigh_match_node **bucket = nigh_match_bucket(table, head->key, head->tag);

            head->chain = *bucket;
            *bucket = head;
            head = chain;
        }
    }
    free(old);
}

void nigh_match_table_each(const struct nigh_match_table *table,
                           void (*visit)(struct nigh_match_node *node, void *data), void *data)
{
    for (size_t i = 0; i < (size_t)1 << (64 - table->shift); i++) {
        for (struct nigh_match_node *head = table->buckets[i]; head != NULL; head = head->chain) {
            struct nigh_match_node *node = head;

            do {
                visit(node, data);
                node = node->next;
            } while (node != head);
        }
    }
}

void nigh_match_table_take(struct nigh_match_table *table, bool (*accept)(uint64_t key, void *data),
                           void (*take)(struct nigh_match_node *first, void *data), void *data)
{
    for (size_t i = 0; i < (size_t)1 << (64 - table->shift); i++) {
        struct nigh_match_node **at = &table->buckets[i];

        while (*at != NULL) {
            struct nigh_match_node *head = *at;

            if (!accept(head->key, data)) {
                at = &head->chain;
                continue;
            }
            *at = head->chain;
            table->queues--;
            head->prev->next = NULL;
            take(head, data);
        }
    }
}

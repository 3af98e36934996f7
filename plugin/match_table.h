/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/match_table.h - the hash table under tag matching: queues of entries with equal keys. It lives alone
 * because receives and messages are kept in the same way and only plugin/match.h knows what a key means.
 */
#ifndef NIGH_PLUGIN_MATCH_TABLE_H
#define NIGH_PLUGIN_MATCH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Entries with equal (key, tag) form a queue, oldest first: a ring of `next` and `prev` whose first entry, the
 * head, alone stands in the bucket. So thousands of entries under one key cost the keys that share its bucket
 * nothing, which a bucket that lists all its entries would not give.
 *
 *   bucket -> head --chain--> head of another key --chain--> NULL
 *              |  ^
 *         next v  | next         (an entry that is not a head has chain == itself)
 *             entry -> entry
 */
struct nigh_match_node {
    struct nigh_match_node *chain, *next, *prev;
    uint64_t key, tag;
};

struct nigh_match_table {
    struct nigh_match_node **buckets;
    uint32_t shift;   /* 64 - log2(number of buckets) */
    uint32_t queues;  /* heads in the table */
    uint32_t grow_at; /* more heads than this: try a table of twice the size */
};

/* An empty table. -ENOMEM. */
int nigh_match_table_create(struct nigh_match_table *out);

/* Frees the table; the entries are the caller's. */
void nigh_match_table_destroy(struct nigh_match_table *table);

/* Twice as many buckets; where memory is short the table stays as it is and tries again at twice the load. */
void nigh_match_table_grow(struct nigh_match_table *table);

/* Calls `visit` for every entry in no order. It may not change the table. */
void nigh_match_table_each(const struct nigh_match_table *table,
                           void (*visit)(struct nigh_match_node *node, void *data), void *data);

/* Takes out every queue whose key `accept` takes and gives each to `take`: its entries in order, linked by
 * `next`, NULL behind the last. `take` owns them and may not change the table. */
void nigh_match_table_take(struct nigh_match_table *table, bool (*accept)(uint64_t key, void *data),
                           void (*take)(struct nigh_match_node *first, void *data), void *data);

/* Neither a sum nor an exclusive-or of key and tag may cancel: hosts put the source into the tag as well. The
 * fold lets the tag's upper half, where hosts count communicators, reach all bits of the product. */
static inline uint64_t nigh_match_hash(uint64_t key, uint64_t tag)
{
    uint64_t x = tag + key * UINT64_C(0x9fb21c651e98df25);

    x ^= x >> 32;
    return x * UINT64_C(0x9e3779b97f4a7c15);
}

static inline struct nigh_match_node **nigh_match_bucket(const struct nigh_match_table *table, uint64_t key,
                                                         uint64_t tag)
{
    return &table->buckets[nigh_match_hash(key, tag) >> table->shift];
}

/* Where the head of the queue (key, tag) hangs; *result is NULL when there is none. */
static inline struct nigh_match_node **nigh_match_seek(const struct nigh_match_table *table, uint64_t key,
                                                       uint64_t tag)
{
    struct nigh_match_node **at = nigh_match_bucket(table, key, tag);

    while (*at != NULL && ((*at)->key != key || (*at)->tag != tag))
        at = &(*at)->chain;
    return at;
}

/* Appends `node` to the queue that `last` ends. */
static inline void nigh_match_append_behind(struct nigh_match_node *last, struct nigh_match_node *node)
{
    struct nigh_match_node *head = last->next;

    node->chain = node;
    node->next = head;
    node->prev = last;
    last->next = node;
    head->prev = node;
}

/* Appends `node`, whose key and tag are set, to its queue. Cannot fail. */
static inline void nigh_match_append(struct nigh_match_table *table, struct nigh_match_node *node)
{
    struct nigh_match_node **bucket = nigh_match_bucket(table, node->key, node->tag);
    struct nigh_match_node *head = *bucket;

    while (head != NULL && (head->key != node->key || head->tag != node->tag))
        head = head->chain;
    if (head != NULL) {
        nigh_match_append_behind(head->prev, node);
        return;
    }
    node->chain = *bucket;
    node->next = node;
    node->prev = node;
    *bucket = node;
    if (__builtin_expect(++table->queues > table->grow_at, 0))
        nigh_match_table_grow(table);
}

/* Takes the head that hangs at `at` (from nigh_match_seek) out; the next of its queue follows it. */
static inline void nigh_match_shift(struct nigh_match_table *table, struct nigh_match_node **at)
{
    struct nigh_match_node *head = *at, *next = head->next;

    if (__builtin_expect(next == head, 1)) {
        *at = head->chain;
        table->queues--;
        return;
    }
    next->prev = head->prev;
    head->prev->next = next;
    next->chain = head->chain;
    *at = next;
}

/* Takes any entry of the table out. */
static inline void nigh_match_remove(struct nigh_match_table *table, struct nigh_match_node *node)
{
    struct nigh_match_node **at;

    if (node->chain == node) {
        node->prev->next = node->next;
        node->next->prev = node->prev;
        return;
    }
    at = nigh_match_bucket(table, node->key, node->tag);
    while (*at != node)
        at = &(*at)->chain;
    nigh_match_shift(table, at);
}

#endif

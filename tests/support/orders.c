/* SPDX-License-Identifier: BSD-3-Clause */
/* The accesses of shared memory that order others, each in a function of its own, for tests/abi/orders_test to look at
 * their instructions. Nothing calls them. */
#include "shm/ring.h"
#include "shm/shared.h"

void orders_publish(struct nigh_ring_tx *tx, struct nigh_slot *slot, uint64_t word);
void orders_publish_many(struct nigh_ring_tx *tx, uint64_t head, uint32_t count);
uint64_t orders_peek(const struct nigh_ring_rx *rx);
void orders_return_credit(struct nigh_ring_rx *rx);
uint64_t orders_take_credit(const struct nigh_ring_tx *tx);
void orders_set_count(uint64_t *count, uint64_t bytes);
uint64_t orders_get_count(const uint64_t *count);
void orders_fence(void);
uint64_t orders_exchange(uint64_t *word);
uint64_t orders_or(uint64_t *word);
uint32_t orders_add(uint32_t *word);

void orders_publish(struct nigh_ring_tx *tx, struct nigh_slot *slot, uint64_t word)
{
    nigh_ring_commit_one(tx, slot, word, 8);
}

void orders_publish_many(struct nigh_ring_tx *tx, uint64_t head, uint32_t count)
{
    nigh_ring_commit(tx, head, count);
}

uint64_t orders_peek(const struct nigh_ring_rx *rx)
{
    return nigh_ring_peek(rx);
}

void orders_return_credit(struct nigh_ring_rx *rx)
{
    nigh_ring_return(rx);
}

uint64_t orders_take_credit(const struct nigh_ring_tx *tx)
{
    return nigh_ring_consumed(tx);
}

void orders_set_count(uint64_t *count, uint64_t bytes)
{
    nigh_store_release(count, bytes, COUNT_SET);
}

uint64_t orders_get_count(const uint64_t *count)
{
    return nigh_load_acquire(count, COUNT_GET);
}

void orders_fence(void)
{
    nigh_fence_full(SLEEP_ENTER);
}

uint64_t orders_exchange(uint64_t *word)
{
    return nigh_exchange_acquire(word, 0, HINT_TAKE);
}

uint64_t orders_or(uint64_t *word)
{
    return nigh_fetch_or_release(word, 1, HINT_SET);
}

uint32_t orders_add(uint32_t *word)
{
    return nigh_fetch_add_release(word, 1, BELL_RING);
}

int main(void)
{
    return 0;
}

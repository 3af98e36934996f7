/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/ring.c - the parts of a ring that do not run for every message: bodies over several slots, new rings. */
#include "shm/ring.h"
#include "shm/copy.h"
#include <errno.h>
#include <stdlib.h>

static void mark_body(struct nigh_ring_tx *tx, uint64_t first, uint32_t count)
{
    for (uint64_t seq = first; seq < first + count; seq++) {
        uint64_t at = (seq - tx->base) & tx->mask;
        uint64_t bit = UINT64_C(1) << (at & 63);

        tx->armed += !(tx->was_body[at >> 6] & bit);
        tx->was_body[at >> 6] |= bit;
    }
}

/* The bytes of a body that lie before the ring's end: the rest goes on at its beginning. */
static uint32_t before_wrap(uint64_t at, uint32_t mask, uint32_t bytes)
{
    uint64_t room = (mask + 1 - at) * NIGH_LINE;

    return room < bytes ? (uint32_t)room : bytes;
}

void nigh_ring_write_body(struct nigh_ring_tx *tx, const void *payload, uint32_t bytes)
{
    const uint8_t *from = payload;
    uint32_t rest, first;
    uint64_t at;

    if (bytes <= NIGH_SLOT_PAYLOAD) {
        nigh_copy_small(nigh_ring_slot(tx, tx->next)->payload, from, bytes);
        return;
    }
    rest = bytes - NIGH_SLOT_PAYLOAD;
    at = (tx->next + 1 - tx->base) & tx->mask;
    first = before_wrap(at, tx->mask, rest);
    nigh_copy_small(nigh_ring_slot(tx, tx->next)->payload, from, NIGH_SLOT_PAYLOAD);
    nigh_copy_small(&tx->slots[at], from + NIGH_SLOT_PAYLOAD, first);
    nigh_copy_small(tx->slots, from + NIGH_SLOT_PAYLOAD + first, rest - first);
    mark_body(tx, tx->next + 1, nigh_slots_for(bytes) - 1);
}

void nigh_ring_read_body(const struct nigh_ring_rx *rx, void *out, uint32_t bytes)
{
    uint8_t *to = out;
    uint32_t rest, first;
    uint64_t at;

    if (bytes <= NIGH_SLOT_PAYLOAD) {
        nigh_copy_small(to, rx->at->payload, bytes);
        return;
    }
    rest = bytes - NIGH_SLOT_PAYLOAD;
    at = (rx->next + 1 - rx->base) & rx->mask;
    first = before_wrap(at, rx->mask, rest);
    nigh_copy_small(to, rx->at->payload, NIGH_SLOT_PAYLOAD);
    nigh_copy_small(to + NIGH_SLOT_PAYLOAD, &rx->slots[at], first);
    nigh_copy_small(to + NIGH_SLOT_PAYLOAD + first, rx->slots, rest - first);
}

static uint32_t log2_of(uint32_t slots)
{
    return 31 - (uint32_t)__builtin_clz(slots);
}

int nigh_ring_tx_use(struct nigh_ring_tx *tx, void *memory, uint32_t slots, uint32_t spare)
{
    uint64_t *was_body = calloc((slots + 63) / 64, sizeof(*was_body));

    if (!was_body)
        return -ENOMEM;
    free(tx->was_body);
    tx->was_body = was_body;
    tx->slots = memory;
    tx->base = tx->next;
    tx->spare = spare;
    tx->limit = tx->next + slots - spare;
    tx->mask = slots - 1;
    tx->shift = log2_of(slots);
    tx->armed = 0;
    return 0;
}

void nigh_ring_tx_destroy(struct nigh_ring_tx *tx)
{
    free(tx->was_body);
    memset(tx, 0, sizeof(*tx));
}

void nigh_ring_rx_use(struct nigh_ring_rx *rx, const void *memory, uint32_t slots)
{
    rx->slots = memory;
    rx->base = rx->next;
    rx->mask = slots - 1;
    rx->shift = log2_of(slots);
    nigh_ring_advance(rx, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/ring.c - the parts of a ring that do not run for every message: bodies over several slots, new rings. */
#include "shm/ring.h"
#include "shm/copy.h"
#include <errno.h>
#include <stdlib.h>

static void mark_body(struct nigh_ring_tx *tx, uint64_t first, uint32_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        uint64_t at = i & tx->mask, bit = UINT64_C(1) << (at & 63);

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
    uint64_t body;

    if (bytes <= NIGH_SLOT_PAYLOAD) {
        nigh_copy_small(tx->at->payload, from, bytes);
        return;
    }
    rest = bytes - NIGH_SLOT_PAYLOAD;
    body = (uint64_t)(tx->at - tx->slots + 1) & tx->mask;
    first = before_wrap(body, tx->mask, rest);
    nigh_copy_small(tx->at->payload, from, NIGH_SLOT_PAYLOAD);
    nigh_copy_small(&tx->slots[body], from + NIGH_SLOT_PAYLOAD, first);
    nigh_copy_small(tx->slots, from + NIGH_SLOT_PAYLOAD + first, rest - first);
    mark_body(tx, body, nigh_slots_for(bytes) - 1);
}

void nigh_ring_read_body(const struct nigh_ring_rx *rx, void *out, uint32_t bytes)
{
    uint8_t *to = out;
    uint32_t rest, first;
    uint64_t body;

    if (bytes <= NIGH_SLOT_PAYLOAD) {
        nigh_copy_small(to, rx->at->payload, bytes);
        return;
    }
    rest = bytes - NIGH_SLOT_PAYLOAD;
    body = (uint64_t)(rx->at - rx->slots + 1) & rx->mask;
    first = before_wrap(body, rx->mask, rest);
    nigh_copy_small(to, rx->at->payload, NIGH_SLOT_PAYLOAD);
    nigh_copy_small(to + NIGH_SLOT_PAYLOAD, &rx->slots[body], first);
    nigh_copy_small(to + NIGH_SLOT_PAYLOAD + first, rx->slots, rest - first);
}

int nigh_ring_tx_use(struct nigh_ring_tx *tx, void *memory, uint32_t slots, uint32_t spare)
{
    uint64_t *was_body = calloc((slots + 63) / 64, sizeof(*was_body));

    if (!was_body)
        return -ENOMEM;
    free(tx->was_body);
    tx->was_body = was_body;
    tx->slots = tx->at = memory;
    tx->lap = NIGH_LAP_ONE;
    tx->base = tx->next;
    tx->spare = spare;
    tx->limit = tx->next + slots - spare;
    tx->mask = slots - 1;
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
    rx->slots = rx->at = memory;
    rx->lap = NIGH_LAP_ONE;
    rx->mask = slots - 1;
}

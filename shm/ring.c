/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/ring.c - the parts of a ring that do not run for every message: bodies over several slots, new rings. */
#include "shm/ring.h"
#include "shm/copy.h"
#include <errno.h>
#include <stdlib.h>

/* From a few lines on one wide store a line: the store queue holds 64 stores, and each waits for its line. */
static void copy_body(void *to, const void *from, uint32_t bytes)
{
    if (bytes < 2 * NIGH_LINE)
        nigh_copy_small(to, from, bytes);
    else
        nigh_copy_select(NIGH_COPY_PLAIN)(to, from, bytes);
}

/* Where the payload behind that of a header slot lies: `first` bytes from slot `low`, the rest from slot `high`. */
struct body {
    uint64_t low, high;
    uint32_t first;
};

/* `header` is the index of the header slot, `rest` is not 0. */
static struct body body_of(uint64_t header, uint32_t mask, uint32_t rest)
{
    uint64_t count = (rest + NIGH_LINE - 1) / NIGH_LINE;

    if (count <= header)
        return (struct body){.low = header - count, .first = rest};
    return (struct body){.high = mask + 1 - (count - header), .first = (uint32_t)header * NIGH_LINE};
}

void nigh_ring_write_body(struct nigh_ring_tx *tx, const void *payload, uint32_t bytes)
{
    struct nigh_slot *header = nigh_ring_at(tx);
    const uint8_t *from = payload;
    struct body body;
    uint32_t rest;

    if (bytes <= NIGH_SLOT_PAYLOAD) {
        nigh_copy_small(header->payload, from, bytes);
        return;
    }
    rest = bytes - NIGH_SLOT_PAYLOAD;
    body = body_of((uint64_t)(header - tx->slots), tx->mask, rest);
    nigh_copy_small(header->payload, from, NIGH_SLOT_PAYLOAD);
    copy_body(&tx->slots[body.low], from + NIGH_SLOT_PAYLOAD, body.first);
    copy_body(&tx->slots[body.high], from + NIGH_SLOT_PAYLOAD + body.first, rest - body.first);
    nigh_ring_mark(tx, tx->next + 1, nigh_slots_for(bytes) - 1);
}

void nigh_ring_read_body(const struct nigh_ring_rx *rx, void *out, uint32_t bytes)
{
    struct body body;
    uint8_t *to = out;
    uint32_t rest;

    if (bytes <= NIGH_SLOT_PAYLOAD) {
        nigh_copy_small(to, rx->at->payload, bytes);
        return;
    }
    rest = bytes - NIGH_SLOT_PAYLOAD;
    body = body_of((uint64_t)(rx->at - rx->slots), rx->mask, rest);
    nigh_copy_small(to, rx->at->payload, NIGH_SLOT_PAYLOAD);
    copy_body(to + NIGH_SLOT_PAYLOAD, &rx->slots[body.low], body.first);
    copy_body(to + NIGH_SLOT_PAYLOAD + body.first, &rx->slots[body.high], rest - body.first);
}

int nigh_ring_tx_use(struct nigh_ring_tx *tx, void *memory, uint32_t slots, uint32_t spare)
{
    uint64_t *was_body = calloc((slots + 63) / 64, sizeof(*was_body));

    if (!was_body)
        return -ENOMEM;
    free(tx->was_body);
    tx->was_body = was_body;
    tx->slots = memory;
    tx->shift = (uint32_t)__builtin_ctz(slots);
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
    rx->slots = memory;
    rx->base = rx->next;
    rx->mask = slots - 1;
    rx->shift = (uint32_t)__builtin_ctz(slots);
    nigh_ring_advance(rx, 0);
}

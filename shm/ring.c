/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/ring.c - the parts of a ring that do not run for every message: bodies over several slots, new rings. */
#include "shm/ring.h"

/* From a few lines on one wide store a line: the store queue holds 64 stores, and each waits for its line. */
static void copy_body(nigh_copy_fn wide, void *to, const void *from, uint32_t bytes)
{
    if (bytes < 2 * NIGH_LINE)
        nigh_copy_small(to, from, bytes);
    else
        wide(to, from, bytes);
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
    copy_body(tx->copy, &tx->slots[body.low], from + NIGH_SLOT_PAYLOAD, body.first);
    if (rest > body.first)
        copy_body(tx->copy, &tx->slots[body.high], from + NIGH_SLOT_PAYLOAD + body.first, rest - body.first);
    /* The header's line last and at once: its reader looks at it all the time and would take it
     * away between two stores. */
    nigh_copy_small(header->payload, from, NIGH_SLOT_PAYLOAD);
}

void nigh_ring_own(struct nigh_ring_tx *tx, uint32_t count)
{
    if (!nigh_ring_room(tx, count))
        return;
    /* Relaxed: never word 0, and whatever the slot comes to hold, this word of it is written again or not read. */
    for (uint32_t i = 1; i <= count; i++)
        nigh_store_relaxed((uint64_t *)(void *)&nigh_ring_slot(tx, tx->next + i)->payload[32], 0);
}

void nigh_ring_read_body(const struct nigh_ring_rx *rx, void *out, uint32_t bytes, uint32_t wanted)
{
    struct body body;
    uint8_t *to = out;

    if (wanted <= NIGH_SLOT_PAYLOAD) {
        nigh_copy_small(to, rx->at->payload, wanted);
        return;
    }
    /* Where the body lies goes by the whole of it, whatever is wanted. */
    body = body_of((uint64_t)(rx->at - rx->slots), rx->mask, bytes - NIGH_SLOT_PAYLOAD);
    nigh_copy_small(to, rx->at->payload, NIGH_SLOT_PAYLOAD);
    to += NIGH_SLOT_PAYLOAD;
    wanted -= NIGH_SLOT_PAYLOAD;
    if (wanted <= body.first) {
        copy_body(rx->copy, to, &rx->slots[body.low], wanted);
        return;
    }
    copy_body(rx->copy, to, &rx->slots[body.low], body.first);
    copy_body(rx->copy, to + body.first, &rx->slots[body.high], wanted - body.first);
}

void nigh_ring_tx_use(struct nigh_ring_tx *tx, void *memory, uint32_t slots, uint32_t spare)
{
    tx->slots = memory;
    tx->shift = (uint32_t)__builtin_ctz(slots);
    tx->base = tx->next;
    tx->spare = spare;
    tx->limit = tx->next + slots - spare;
    tx->mask = slots - 1;
    tx->armed = 0;
    tx->copy = nigh_copy_select(NIGH_COPY_PLAIN);
}

void nigh_ring_rx_use(struct nigh_ring_rx *rx, const void *memory, uint32_t slots)
{
    rx->slots = memory;
    rx->base = (uint32_t)rx->next;
    rx->mask = slots - 1;
    rx->shift = (uint8_t)__builtin_ctz(slots);
    rx->copy = nigh_copy_select(NIGH_COPY_PLAIN);
    nigh_ring_advance(rx, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/shuttle.h - memory that goes to and fro between two contexts: a message lies in it, and then the
 * answer. Reading a message brings its lines into the reader's cache, where the next to write them is the
 * reader itself, which so takes nothing away from anybody (docs/rationale/shuttles.md has the figures). Each
 * window has one, so that both sides may begin.
 */
#ifndef NIGH_PLUGIN_SHUTTLE_H
#define NIGH_PLUGIN_SHUTTLE_H

#include "plugin/endpoint.h"

/* Bytes of memory of a context's own, for all its peers together: as much as its pool rotates over. In a job with many
 * ranks those that talk first have one. */
#define NIGH_SHUTTLES_BYTES (2u << 20)

/* When the windows are mapped: we hold our own. */
void nigh_shuttle_open(struct nigh_endpoint *endpoint);
/* Before the window goes. */
void nigh_shuttle_close(struct nigh_endpoint *endpoint);

/* Do we hold one at all? Most often not, where one side sends alone. */
static inline bool nigh_shuttle_is_held(const struct nigh_endpoint *endpoint)
{
    return endpoint->shuttle[0].held | endpoint->shuttle[1].held;
}

/* Where the next message, of `bytes`, may be written, and what its slots must have in their flags; from then on the
 * peer holds it. NULL: it goes another way, as it is too long, we hold none, or there is no memory for one. */
uint8_t *nigh_shuttle_take(struct nigh_endpoint *endpoint, uint64_t bytes, uint32_t *flags);

/* Would it take one? What it asks for is memory that the message needs anyway. */
bool nigh_shuttle_takes(struct nigh_endpoint *endpoint, uint64_t bytes);

/* What a piece of a message in a shuttle should be, of `bytes`. */
uint32_t nigh_shuttle_piece(uint64_t bytes);

/* The place that a peer's slot with NIGH_F_SHUTTLE names; NULL: it is none. */
const uint8_t *nigh_shuttle_at(struct nigh_endpoint *endpoint, uint32_t flags, uint32_t line, uint32_t bytes);
/* The last byte of a message in it has been read: it is ours to write. */
void nigh_shuttle_received(struct nigh_endpoint *endpoint, uint32_t flags);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/counted.c - a lone message of middle length: the sender copies it into a shuttle in small steps. The first is
 * published by a slot, as tag and place need one, each other by a store to one word, which costs less
 * than a slot, and the receiver copies all that is there. The sender does all of it in one go, so
 * whatever it says later lies behind the message.
 */
#include "plugin/counted.h"
#include "plugin/context.h"
#include "plugin/pieces.h"
#include "plugin/shuttle.h"
#include "shm/copy.h"
#include <errno.h>

/* What gains: across two L3s up to 32 KiB 10 to 12 %, 48 KiB 2; in one 64 KiB loses 1 to 5
 * (docs/rationale/shuttles.md). */
#define COUNTED_MAX 32768u
/* Steps: of a twelfth, a sixth is as good; from a quarter on both sides work too little at once. */
#define STEPS      12u
#define STEP_LEAST 1024u
/* Looks for the next step, of which most find a line that is here. A step takes 100 ns, a pass 20
 * to 50 and the host's part. */
#define LOOKS 100u

static_assert(COUNTED_MAX <= NIGH_SHUTTLE_COUNT, "a message ends before its count");

bool nigh_counted_is_for(uint64_t bytes)
{
    return bytes <= COUNTED_MAX && bytes > STEP_LEAST;
}

/* ---- the sender's -------------------------------------------------------------------------------------- */

static uint32_t step_of(uint32_t bytes)
{
    uint32_t step = bytes / STEPS / NIGH_LINE * NIGH_LINE;

    return step > STEP_LEAST ? step : STEP_LEAST;
}

void nigh_counted_send(struct nigh_endpoint *endpoint, const struct nigh_send *send, uint8_t *shuttle,
                       uint32_t flags, uint32_t id)
{
    uint32_t bytes = (uint32_t)send->bytes, step = step_of(bytes);
    uint64_t *count = (uint64_t *)(void *)(shuttle + NIGH_SHUTTLE_COUNT);
    struct nigh_wire_first first = {.total = bytes, .eager = bytes, .id = id, .bytes = step};
    nigh_copy_fn copy = nigh_copy_select(NIGH_COPY_PLAIN);
    const uint8_t *from = send->buffer;

    copy(shuttle, from, step);
    /* Relaxed: the slot is published behind it. */
    nigh_store_relaxed(count, step);
    nigh_link_send(endpoint, nigh_head_make(NIGH_K_FIRST, 0, send->tclass, flags | NIGH_F_COUNTED), send->tag,
                   send->imm, &first, sizeof(first));
    for (uint32_t sent = step, next; sent < bytes; sent = next) {
        next = bytes - sent > step ? sent + step : bytes;
        nigh_prefetch_to_write(count);
        copy(shuttle + sent, from + sent, next - sent);
        nigh_store_release(count, next, COUNT_SET);
    }
    nigh_link_published(endpoint);
    nigh_ids_give(&endpoint->out, id);
    endpoint->in_a_row++;
}

/* ---- the receiver's ------------------------------------------------------------------------------------ */

bool nigh_counted_is_sound(const struct nigh_wire_first *first, uint32_t flags)
{
    return flags & NIGH_F_SHUTTLE && first->line == 0 && first->bytes && first->bytes % NIGH_LINE == 0 &&
           first->bytes < first->total && first->eager == first->total && first->total <= NIGH_SHUTTLE_COUNT;
}

/* As far as `upto`, which is more than there was. */
static void take(struct nigh_filling *filling, uint64_t upto)
{
    struct nigh_message *message = filling->message;
    uint32_t got = (uint32_t)message->got;

    if (upto == message->total) {
        filling->message = NULL; /* it is gone then */
        message->endpoint->fills = false;
        nigh_endpoint_settle(message->endpoint);
    }
    /* All of a counted message lies in what has memory since its first step, and so has its buffer:
     * nothing can be refused. */
    (void)nigh_arrive_more(message, got / NIGH_LINE, (uint32_t)upto - got, filling->flags);
}

static bool can_be(const struct nigh_message *message, uint64_t upto)
{
    return upto == message->total || (upto >= message->got && upto < message->total && upto % NIGH_LINE == 0);
}

/* A short look for more: what is under way takes less than a pass. */
static enum nigh_verdict fill(struct nigh_filling *filling, bool behind, bool *moved)
{
    for (uint32_t looks = 0; filling->message && looks <= LOOKS; looks++) {
        uint64_t upto = nigh_load_acquire(filling->count, COUNT_GET);

        if (!can_be(filling->message, upto) || (behind && upto != filling->message->total))
            return NIGH_BAD;
        if (upto == filling->message->got)
            continue;
        take(filling, upto);
        *moved = true;
        looks = 0;
    }
    return NIGH_GO;
}

enum nigh_verdict nigh_counted_begin(struct nigh_message *message, uint32_t flags)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    const uint8_t *count = nigh_shuttle_at(endpoint, flags, NIGH_SHUTTLE_COUNT / NIGH_LINE, NIGH_LINE);
    bool moved;

    endpoint->fills = true;
    nigh_endpoint_settle(endpoint);
    endpoint->filling = (struct nigh_filling){
        .message = message, .count = (const uint64_t *)(const void *)count, .flags = flags};
    return fill(&endpoint->filling, false, &moved);
}

bool nigh_counted_fill(struct nigh_endpoint *endpoint, bool behind)
{
    bool moved = false;

    if (fill(&endpoint->filling, behind, &moved) == NIGH_BAD) {
        nigh_endpoint_fail(endpoint, NIGH_BROKEN, -EPROTO, "the count of a message says what cannot be");
        return true;
    }
    return moved;
}

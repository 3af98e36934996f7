/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/shuttle.c - who of the two may write which shuttle, and where in it a message lies. What a peer says of it is
 * only ever a place: it is checked against what is mapped, and whoever lies about holding one
 * spoils its own messages. */
#include "plugin/shuttle.h"
#include "plugin/context.h"
#include "shm/os.h"

enum { OURS = 0, THEIRS = 1, NONE = 2 };

#define STEP 65536u /* bytes that get memory at once */
static_assert(NIGH_SHUTTLE_COUNT < STEP, "where there is memory for a message there is for its count");
/* Pieces: a quarter, so that both sides work most of the time; of this size where there are more than four; from
 * sixteen on longer. Bare, in one L3, pieces of 4, 8, 16 and 32 KiB: 64 KiB 2.28, 2.16, 1.98, 2.25 us, 128 KiB 4.29,
 * 4.06, 3.49, 3.70. Across two it does not matter. */
#define PIECE_FEW 16384u

void nigh_shuttle_open(struct nigh_endpoint *endpoint)
{
    endpoint->shuttle[OURS] =
        (struct nigh_shuttle){.base = nigh_window_shuttle(&endpoint->window), .held = true};
    endpoint->shuttle[THEIRS] = (struct nigh_shuttle){.base = nigh_window_shuttle(&endpoint->theirs)};
}

void nigh_shuttle_close(struct nigh_endpoint *endpoint)
{
    endpoint->context->shuttles -= endpoint->shuttle[OURS].bytes;
    memset(endpoint->shuttle, 0, sizeof(endpoint->shuttle));
}

static uint32_t steps(uint64_t bytes)
{
    return (uint32_t)((bytes + STEP - 1) / STEP * STEP);
}

/* Memory for the beginning of our own. */
static bool extend_ours(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_shuttle *ours = &endpoint->shuttle[OURS];
    uint32_t wanted = steps(bytes);

    if (context->shuttles - ours->bytes + wanted > NIGH_SHUTTLES_BYTES)
        return false;
    if (nigh_window_back_shuttle(&endpoint->window, &context->arena, wanted)) {
        ours->held = false; /* not to be asked for again with each message */
        return false;
    }
    context->shuttles += wanted - ours->bytes;
    ours->bytes = wanted;
    return true;
}

static bool takes(struct nigh_endpoint *endpoint, unsigned which, uint64_t bytes)
{
    const struct nigh_shuttle *shuttle = &endpoint->shuttle[which];

    if (!shuttle->held)
        return false;
    return bytes <= shuttle->bytes || (which == OURS && extend_ours(endpoint, bytes));
}

/* Which one the next message takes; NONE. That which came last is the one whose lines are here. */
static unsigned taken_by(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    unsigned last = endpoint->shuttle_last;

    if (bytes > NIGH_SHUTTLE_BYTES)
        return NONE;
    return takes(endpoint, last, bytes) ? last : takes(endpoint, last ^ 1, bytes) ? last ^ 1 : NONE;
}

bool nigh_shuttle_takes(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    return taken_by(endpoint, bytes) != NONE;
}

uint8_t *nigh_shuttle_take(struct nigh_endpoint *endpoint, uint64_t bytes, uint32_t *flags)
{
    /* Who forces a path wants that one. */
    unsigned which = endpoint->context->config.path >= 0 ? NONE : taken_by(endpoint, bytes);

    if (which == NONE)
        return NULL;
    endpoint->shuttle[which].held = false;
    *flags = NIGH_F_SHUTTLE | (which == THEIRS ? NIGH_F_RETURNS : 0);
    return endpoint->shuttle[which].base;
}

uint32_t nigh_shuttle_piece(uint64_t bytes)
{
    uint64_t piece = bytes < 4 * PIECE_FEW ? bytes / 4 : bytes < 16 * PIECE_FEW ? PIECE_FEW : bytes / 16;

    piece = piece / NIGH_PAGE * NIGH_PAGE;
    return piece ? (uint32_t)piece : NIGH_PAGE;
}

/* What the peer has memory for grows by whole steps, too. */
static void meet(struct nigh_shuttle *theirs, uint64_t end)
{
    uint32_t known = steps(end);

    (void)nigh_os.madvise(theirs->base + theirs->bytes, known - theirs->bytes, NIGH_MADV_POPULATE_WRITE);
    theirs->bytes = known;
}

const uint8_t *nigh_shuttle_at(struct nigh_endpoint *endpoint, uint32_t flags, uint32_t line, uint32_t bytes)
{
    struct nigh_shuttle *shuttle = &endpoint->shuttle[flags & NIGH_F_RETURNS ? OURS : THEIRS];
    uint64_t offset = (uint64_t)line * NIGH_LINE, end = offset + bytes;

    if (!shuttle->base || end > NIGH_SHUTTLE_BYTES)
        return NULL;
    if (end > shuttle->bytes) {
        if (flags & NIGH_F_RETURNS)
            return NULL;
        meet(shuttle, end);
    }
    return shuttle->base + offset;
}

void nigh_shuttle_received(struct nigh_endpoint *endpoint, uint32_t flags)
{
    unsigned which = flags & NIGH_F_RETURNS ? OURS : THEIRS;

    if (which == OURS && !endpoint->shuttle[OURS].bytes)
        return; /* it never left: there is no memory for it, and this was a message of 0 bytes */
    endpoint->shuttle[which].held = true;
    endpoint->shuttle_last = (uint8_t)which;
}

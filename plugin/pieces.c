/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/pieces.c - what arrives and does not lie whole in the ring: messages whose bytes are in chunks of the sender's
 * pool, and references to memory that stays with it. Nothing of it is believed: places are checked against the areas of
 * the sender's arena, numbers against what is under way.
 */
#include "plugin/pieces.h"
#include "plugin/arrive.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/counted.h"
#include "plugin/device_receive.h"
#include "plugin/fetch.h"
#include "plugin/large.h"
#include "plugin/match_alone.h"
#include "plugin/receive.h"
#include "plugin/rma.h"
#include "plugin/shuttle.h"
#include "plugin/stay.h"
#include "shm/clock.h"
#include "shm/copy.h"
#include "shm/os.h"
#include <errno.h>
#include <unistd.h>

/* Lines of a piece that are asked for before anything else is done. */
#define AHEAD_BYTES 512u
/* Those that name a shuttle, and how it is read. */
#define SHUTTLE_FLAGS \
    ((uint32_t)(NIGH_F_SHUTTLE | NIGH_F_RETURNS | NIGH_F_KERNEL_MASK << NIGH_F_KERNEL_SHIFT))
/* ---- pieces -------------------------------------------------------------------------------------------- */

/* The first look at a chunk brings all its page table entries at once: see populate() in shm/pool.c. */
static void meet(const struct nigh_endpoint *endpoint, uint64_t chunk)
{
    const struct nigh_view *view = &endpoint->view;
    uint64_t bit = UINT64_C(1) << (chunk & 63), offset = view->layout.pool_off + chunk * NIGH_CHUNK;

    if (!endpoint->met || endpoint->met[chunk >> 6] & bit)
        return;
    endpoint->met[chunk >> 6] |= bit;
    (void)nigh_os.madvise((void *)(uintptr_t)(view->base + offset), NIGH_CHUNK, NIGH_MADV_POPULATE_READ);
}

/* They are on their way while the message is matched. */
static const uint8_t *ahead(const uint8_t *from, uint32_t bytes)
{
    for (uint32_t at = 0; from && at < bytes && at < AHEAD_BYTES; at += NIGH_LINE)
        __builtin_prefetch(from + at);
    return from;
}

/* The pool's, or the shuttle's, bytes. NULL: they lie nowhere. */
static const void *piece_at(struct nigh_endpoint *endpoint, uint32_t line, uint32_t bytes, uint32_t flags)
{
    const struct nigh_arena_header *layout = &endpoint->view.layout;
    uint64_t offset = (uint64_t)line * NIGH_LINE;
    const uint8_t *from;

    if (flags & NIGH_F_SHUTTLE)
        return ahead(nigh_shuttle_at(endpoint, flags, line, bytes), bytes);
    if (offset < layout->pool_off || offset - layout->pool_off > layout->pool_bytes ||
        bytes > layout->pool_bytes - (offset - layout->pool_off))
        return NULL;
    if (bytes)
        meet(endpoint, (offset - layout->pool_off) / NIGH_CHUNK);
    from = nigh_view_at(&endpoint->view, offset, bytes);
    return ahead(from, bytes);
}

void nigh_arrive_copy(void *to, const void *from, uint64_t bytes, uint32_t flags)
{
    nigh_copy_fn copy =
        nigh_copy_select((enum nigh_copy_kernel)(flags >> NIGH_F_KERNEL_SHIFT & NIGH_F_KERNEL_MASK));

    if (!copy)
        copy = nigh_copy_select(NIGH_COPY_PLAIN);
    copy(to, from, bytes);
}

void nigh_arrive_done(struct nigh_message *message, int status)
{
    message->status = status;
    if (message->kind == NIGH_MSG_PUT)
        nigh_rma_put_done(message);
    else if (message->kind == NIGH_MSG_REPLY)
        nigh_rma_reply_done(message);
    else if (message->recv)
        nigh_recv_finish(message, status);
    else if (message->kind == NIGH_MSG_DROPPED)
        nigh_message_free(message);
}

/* The message has all its bytes. */
static void message_done(struct nigh_message *message)
{
    if (message->id != NIGH_NO_ID)
        message->endpoint->in.at[message->id] = NULL;
    nigh_arrive_done(message, message->status);
}

/* Its sender cannot read the rest. One without a receive says so to whoever takes it. */
static enum nigh_verdict failed(struct nigh_message *message)
{
    if (message->lies)
        return NIGH_BAD;
    if (!message->status)
        message->status = -EIO;
    message->lost = message->kind == NIGH_MSG_PIECES && !message->recv;
    message_done(message);
    return NIGH_GO;
}

/*
 * A place for the next bytes of a message that nobody has taken, not before they come. What comes in a shuttle stays there:
 * it is ours until we answer, and copying it away would be a third copy. Of 8 ranks on 2 CPUs that allgather, nearly
 * half of all messages come before their receive, as those that others run before are not there yet.
 */
static bool ready(struct nigh_message *message, uint32_t flags, uint32_t bytes)
{
    if (message->recv || message->lies)
        return true;
    if (message->staged && message->got + bytes > message->room)
        nigh_message_stage(message, message->got + bytes);
    if (message->kind != NIGH_MSG_PIECES || message->got + bytes <= message->kept)
        return true;
    if (flags & NIGH_F_SHUTTLE && !message->buffer) {
        message->lies = nigh_shuttle_at(message->endpoint, flags, 0, 0);
        message->shuttle = flags & SHUTTLE_FLAGS;
        return true;
    }
    return nigh_message_grow(message, message->got + bytes) == 0;
}

/* One more piece of what stays in its shuttle: right behind the last. */
static enum nigh_verdict leave(struct nigh_message *message, uint32_t line, uint32_t bytes, uint32_t flags)
{
    if ((flags & SHUTTLE_FLAGS) != message->shuttle || (uint64_t)line * NIGH_LINE != message->got)
        return NIGH_BAD;
    message->got += bytes;
    if (message->got == message->total)
        message_done(message);
    return NIGH_GO;
}

enum nigh_verdict nigh_arrive_more(struct nigh_message *message, uint32_t line, uint32_t bytes,
                                   uint32_t flags)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    const void *from = piece_at(endpoint, line, bytes, flags);
    /* What nobody has taken yet may come as far as was announced. */
    uint64_t most = message->kind == NIGH_MSG_PIECES && !message->recv ? message->eager : message->total;
    uint64_t fits;

    if (!from || bytes > most - message->got)
        return NIGH_BAD;
    if (!ready(message, flags, bytes))
        return NIGH_STAY;
    if (message->lies)
        return leave(message, line, bytes, flags);
    if (message->device) {
        if (bytes > NIGH_DEVICE_SLOT_BYTES)
            return NIGH_BAD;
        if (!nigh_device_receive_has_room(message, bytes))
            return NIGH_STAY;
        nigh_device_receive_add(message, from, bytes, flags);
    } else if (message->to && message->got < message->room) {
        fits = message->room - message->got;
        if (flags & NIGH_F_TIMED) {
            uint64_t started = nigh_clock_ns();

            nigh_arrive_copy(message->to + message->got, from, fits < bytes ? fits : bytes, flags);
            nigh_plan_read(endpoint, started, fits < bytes ? fits : bytes, flags);
        } else {
            nigh_arrive_copy(message->to + message->got, from, fits < bytes ? fits : bytes, flags);
        }
    }
    message->got += bytes;
    if (!(flags & NIGH_F_SHUTTLE))
        endpoint->rx_bytes += bytes;
    else if (message->got == message->total)
        nigh_shuttle_received(endpoint, flags);
    if (message->got == message->total)
        message_done(message);
    return NIGH_GO;
}

bool nigh_arrive_first_is_sound(struct nigh_endpoint *endpoint, const struct nigh_wire_first *first,
                                uint32_t flags)
{
    /* It may begin without a piece: it is empty, or the sender's pool was used up. */
    return first->id < NIGH_IDS_MAX && !nigh_ids_get(&endpoint->in, first->id) &&
           first->bytes <= first->total && (!(flags & NIGH_F_SHUTTLE) || !first->line) &&
           (!first->bytes || piece_at(endpoint, first->line, first->bytes, flags));
}

enum nigh_verdict nigh_arrive_first_piece(struct nigh_message *message, uint32_t line, uint32_t bytes,
                                          uint32_t flags)
{
    if (message->total == 0) {
        message_done(message);
        return NIGH_GO;
    }
    message->endpoint->in.at[message->id] = message;
    return bytes ? nigh_arrive_more(message, line, bytes, flags) : NIGH_GO;
}

enum nigh_verdict nigh_arrive_piece(struct nigh_endpoint *endpoint, uint64_t head, uint64_t id)
{
    struct nigh_wire_piece piece;
    struct nigh_message *message;

    nigh_arrive_payload(endpoint, &piece, sizeof(piece));
    message = nigh_ids_get(&endpoint->in, id);
    if (message && !piece.bytes && nigh_head_flags(head) & NIGH_F_FAILED)
        return failed(message);
    if (!message || !piece.bytes)
        return NIGH_BAD;
    return nigh_arrive_more(message, piece.line, piece.bytes, nigh_head_flags(head));
}

/* The receive that takes a message which does not lie whole in the ring. False: one is there, but its completion has no
 * room now; it is of the kind that stays in the matcher, so nothing has to be undone. */
static bool match_message(const struct nigh_message *message, struct nigh_posted **posted)
{
    struct nigh_context *context = message->endpoint->context;

    *posted = nigh_match_arrive(&context->matcher, message->endpoint->index, message->tclass, message->tag);
    return !*posted || nigh_recv_can_complete(context, *posted);
}

static void accept_or_keep(struct nigh_message *message, struct nigh_posted *posted)
{
    struct nigh_context *context = message->endpoint->context;

    if (posted) {
        nigh_recv_accept(message, nigh_recv_op_of(posted));
        return;
    }
    nigh_count(&context->counters->unexpected, 1);
    message->late = true;
    nigh_match_keep(&context->matcher, &message->arrived);
}

static struct nigh_message *message_of(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                       uint64_t imm, uint64_t total, uint32_t id)
{
    struct nigh_message *message = nigh_message_create(endpoint);

    if (!message)
        return NULL;
    message->tag = message->arrived.tag = tag;
    message->imm = imm;
    message->tclass = (uint8_t)nigh_head_tclass(head);
    message->arrived.tclass = message->tclass;
    message->total = total;
    message->id = id;
    return message;
}

enum nigh_verdict nigh_arrive_first(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm)
{
    uint32_t flags = nigh_head_flags(head);
    struct nigh_wire_first first;
    struct nigh_message *message;
    struct nigh_posted *posted;
    enum nigh_verdict verdict;

    nigh_arrive_payload(endpoint, &first, sizeof(first));
    if (!nigh_arrive_first_is_sound(endpoint, &first, flags) || nigh_head_tclass(head) >= NIGH_TCLASSES ||
        first.bytes > first.eager || first.eager > first.total ||
        (flags & NIGH_F_SHUTTLE && first.eager < first.total) || /* all that comes there comes unasked */
        (flags & NIGH_F_COUNTED && !nigh_counted_is_sound(&first, flags)))
        return NIGH_BAD;
    message = message_of(endpoint, head, tag, imm, first.total, first.id);
    if (!message)
        return NIGH_STAY;
    message->kind = NIGH_MSG_PIECES;
    message->eager = first.eager;
    message->sync = flags & NIGH_F_SYNC;
    if (nigh_ids_fit(&endpoint->in, first.id) || !match_message(message, &posted))
        goto stay;
    if (!posted && first.bytes && !ready(message, flags, first.bytes))
        goto stay;
    if (first.total)
        endpoint->in.at[first.id] = message;
    accept_or_keep(message, posted);
    verdict = first.bytes ? nigh_arrive_more(message, first.line, first.bytes, flags) : NIGH_GO;
    if (verdict == NIGH_GO && flags & NIGH_F_COUNTED)
        verdict = nigh_counted_begin(message, flags);
    return verdict;

stay:
    nigh_message_free(message);
    return NIGH_STAY;
}

/* A whole message in one piece: for a plain receive it is copied and done. */
enum nigh_verdict nigh_arrive_whole(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm)
{
    struct nigh_context *context = endpoint->context;
    uint32_t flags = nigh_head_flags(head), tclass = nigh_head_tclass(head);
    struct nigh_wire_piece piece;
    struct nigh_message *message;
    struct nigh_posted *posted;
    const void *from;

    if (tclass >= NIGH_TCLASSES)
        return NIGH_BAD;
    /* With a CPU each it costs one that waits nothing to keep it. */
    if (context->crowd.full && nigh_stay_is_message(head) &&
        !nigh_match_may_take(&context->matcher, endpoint->index, tclass, tag) && nigh_stay_may(endpoint, 0))
        return NIGH_STAY;
    nigh_arrive_payload(endpoint, &piece, sizeof(piece));
    from = piece_at(endpoint, piece.line, piece.bytes, flags);
    if (!from || !piece.bytes || piece.bytes > NIGH_WHOLE_MAX || (flags & NIGH_F_SHUTTLE && piece.line))
        return NIGH_BAD;
    /* What may be needed is had before anything is taken out of the matcher. */
    if (nigh_slab_reserve(&context->messages, 1))
        return NIGH_STAY;
    posted = nigh_match_arrive(&context->matcher, endpoint->index, tclass, tag);
    if (posted && !nigh_recv_can_complete(context, posted))
        return NIGH_STAY;
    if (posted && !nigh_recv_op_of(posted)->flags) {
        nigh_recv_deliver_piece(endpoint, nigh_recv_op_of(posted), from, piece.bytes, tag, imm, flags);
        if (flags & NIGH_F_SHUTTLE)
            nigh_shuttle_received(endpoint, flags);
        else
            endpoint->rx_bytes += piece.bytes;
        return NIGH_GO;
    }
    message = message_of(endpoint, head, tag, imm, piece.bytes, NIGH_NO_ID);
    message->kind = NIGH_MSG_PIECES;
    message->eager = piece.bytes;
    if (!posted && !(flags & NIGH_F_SHUTTLE)) {
        if (nigh_message_early(message, piece.bytes)) {
            nigh_message_free(message);
            return NIGH_STAY;
        }
        message->to = message->buffer;
        message->room = piece.bytes;
    }
    accept_or_keep(message, posted);
    return nigh_arrive_more(message, piece.line, piece.bytes, flags & ~NIGH_F_TIMED);
}

/* ---- references ---------------------------------------------------------------------------------------- */

bool nigh_arrive_refer_is_sound(const struct nigh_endpoint *endpoint, const struct nigh_wire_refer *refer)
{
    const struct nigh_arena_header *layout = &endpoint->view.layout;

    if (refer->id >= NIGH_IDS_MAX)
        return false;
    if (refer->refer == NIGH_REFER_CMA)
        return endpoint->pid > 0;
    if (refer->refer == NIGH_REFER_POINTER)
        return refer->total && endpoint->pid == getpid();
    if (refer->refer == NIGH_REFER_DEVICE)
        return refer->total && refer->number && !endpoint->self;
    return (refer->refer == NIGH_REFER_HEAP || refer->refer == NIGH_REFER_LEND ||
            refer->refer == NIGH_REFER_COPY) &&
           refer->where >= layout->heap_off && nigh_view_at(&endpoint->view, refer->where, refer->total);
}

enum nigh_verdict nigh_arrive_refer(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm)
{
    struct nigh_context *context = endpoint->context;
    uint32_t tclass = nigh_head_tclass(head);
    struct nigh_wire_refer refer;
    struct nigh_message *message;
    struct nigh_posted *posted;

    nigh_arrive_payload(endpoint, &refer, sizeof(refer));
    if (!nigh_arrive_refer_is_sound(endpoint, &refer) || tclass >= NIGH_TCLASSES)
        return NIGH_BAD;
    /* What may be needed is had before anything is taken out of the matcher. */
    if (nigh_slab_reserve(&context->messages, 1))
        return NIGH_STAY;
    posted = nigh_match_arrive(&context->matcher, endpoint->index, tclass, tag);
    if (posted && !nigh_recv_can_complete(context, posted))
        return NIGH_STAY;
    if (refer.refer == NIGH_REFER_LEND && posted && nigh_recv_takes_lend(posted, refer.total)) {
        nigh_recv_lend(endpoint, nigh_recv_op_of(posted), &refer, tag, imm);
        return NIGH_GO;
    }
    message = message_of(endpoint, head, tag, imm, refer.total, refer.id);
    message->kind = NIGH_MSG_REFER;
    message->refer = (uint8_t)refer.refer;
    message->where = refer.where;
    if (nigh_refer_is_device(refer.refer)) {
        message->key = refer.number;
        message->lent = nigh_head_flags(head) & NIGH_F_LENT;
    } else {
        message->cpu = refer.cpu;
    }
    accept_or_keep(message, posted);
    if (!posted && nigh_head_flags(head) & NIGH_F_EARLY && refer.refer == NIGH_REFER_CMA)
        nigh_fetch_later(message);
    return NIGH_GO;
}

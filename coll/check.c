/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/check.c - see check.h. */
#include "coll/check.h"
#include "coll/fold.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static const char *const names[] = {
    [NIGH_BARRIER] = "barrier",     [NIGH_BROADCAST] = "broadcast", [NIGH_REDUCE] = "reduce",
    [NIGH_ALLREDUCE] = "allreduce", [NIGH_GATHER] = "gather",       [NIGH_SCATTER] = "scatter",
    [NIGH_ALLGATHER] = "allgather", [NIGH_ALLTOALL] = "alltoall",   [NIGH_REDUCE_SCATTER] = "reduce_scatter",
    [NIGH_SCAN] = "scan",           [NIGH_EXSCAN] = "exscan",
};

static const char *name_of(uint64_t op)
{
    return op >= NIGH_BARRIER && op <= NIGH_EXSCAN ? names[op] : "unknown collective";
}

static bool is_rooted(uint32_t op)
{
    return op == NIGH_BROADCAST || op == NIGH_REDUCE || op == NIGH_GATHER || op == NIGH_SCATTER;
}

static bool is_reduction(uint32_t op)
{
    return op == NIGH_REDUCE || op == NIGH_ALLREDUCE || op >= NIGH_REDUCE_SCATTER;
}

__attribute__((format(printf, 3, 4))) static int wrong(char why[NIGH_WHY_BYTES], int error,
                                                       const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, NIGH_WHY_BYTES, format, arguments);
    va_end(arguments);
    return error;
}

static uint64_t width_of(const struct nigh_collective *call)
{
    return call->type == NIGH_OPAQUE ? call->width : nigh_type_bytes(call->type);
}

static int check_type(const struct nigh_collective *call, char *why)
{
    if (call->op == NIGH_BARRIER)
        return call->type || call->width ? wrong(why, -EINVAL, "barrier with a type") : 0;
    if (call->type != NIGH_OPAQUE && call->width)
        return wrong(why, -EINVAL, "width %" PRIu32 " with type %s: only of NIGH_OPAQUE", call->width,
                     nigh_type_name(call->type));
    if (!width_of(call))
        return wrong(why, -EINVAL, "type %u: unknown, or NIGH_OPAQUE without a width", call->type);
    return 0;
}

static int check_reduction(const struct nigh_collective *call, char *why)
{
    if (!is_reduction(call->op))
        return call->reduction ? wrong(why, -EINVAL, "reduction %u: nothing is reduced", call->reduction) : 0;
    if (call->reduction == NIGH_FUNCTION)
        return call->function ? 0 : wrong(why, -EFAULT, "no function for NIGH_FUNCTION");
    if (!nigh_fold_select(call->type, call->reduction))
        return wrong(why, -EOPNOTSUPP, "reduction %u (%s) is not defined for type %s", call->reduction,
                     nigh_reduction_name(call->reduction), nigh_type_name(call->type));
    if (call->reduction == NIGH_PREMUL && !call->factor)
        return wrong(why, -EFAULT, "no factor for NIGH_PREMUL");
    return 0;
}

/* Is counts' sum, and with offsets each block's end, in range? Says how long all of it is. */
static int check_blocks(uint64_t count, const uint64_t *counts, const uint64_t *offsets, uint32_t members,
                        uint64_t width, uint64_t *length, char *why)
{
    uint64_t most = NIGH_CALL_BYTES_MAX / width, sum = 0, end = 0;

    if (!counts) {
        if (count > most / members)
            return wrong(why, -ERANGE, "%" PRIu64 " elements of %" PRIu64 " bytes for each of %" PRIu32,
                         count, width, members);
        *length = count * members * width;
        return 0;
    }
    for (uint32_t i = 0; i < members; i++) {
        uint64_t offset = offsets ? offsets[i] : sum;

        if (counts[i] > most || offset > most - counts[i] || sum > most - counts[i])
            return wrong(why, -ERANGE,
                         "%" PRIu64 " elements of %" PRIu64 " bytes at %" PRIu64 " of member %" PRIu32,
                         counts[i], width, offset, i);
        sum += counts[i];
        if (counts[i] && offset + counts[i] > end)
            end = offset + counts[i];
    }
    *length = end * width;
    return 0;
}

/* Which arrays a call takes. */
static int check_arrays(const struct nigh_collective *call, bool is_root, char *why)
{
    bool in_place = call->flags & NIGH_COLLECTIVE_IN_PLACE;
    bool sends = (call->op == NIGH_SCATTER && is_root) || (call->op == NIGH_ALLTOALL && !in_place);
    bool receives =
        (call->op == NIGH_GATHER && is_root) || call->op == NIGH_ALLGATHER || call->op == NIGH_ALLTOALL;

    if ((call->send_counts || call->send_offsets) && !sends)
        return wrong(why, -EINVAL, "counts or offsets to send by");
    if (call->recv_counts && !receives && call->op != NIGH_REDUCE_SCATTER)
        return wrong(why, -EINVAL, "counts to receive by");
    if (call->recv_offsets && !receives)
        return wrong(why, -EINVAL, "offsets to receive by");
    if ((call->send_offsets && !call->send_counts) || (call->recv_offsets && !call->recv_counts))
        return wrong(why, -EINVAL, "offsets without counts");
    return 0;
}

static bool overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return a_bytes && b_bytes && (x < y ? y - x < a_bytes : x - y < b_bytes);
}

struct lengths {
    uint64_t send, recv;
};

/* Of some calls all blocks are described by counts. */
static bool takes_count(const struct nigh_collective *call)
{
    bool in_place = call->flags & NIGH_COLLECTIVE_IN_PLACE;

    if (call->op == NIGH_ALLTOALL)
        return !call->recv_counts || !(call->send_counts || in_place);
    return call->op != NIGH_REDUCE_SCATTER || !call->recv_counts;
}

static int check_lengths(const struct nigh_collective *call, uint32_t members, uint32_t me,
                         struct lengths *out, char *why)
{
    uint64_t width = width_of(call), whole;
    bool is_root = me == call->root;
    int rc;

    if (takes_count(call) && call->count > NIGH_CALL_BYTES_MAX / width)
        return wrong(why, -ERANGE, "%" PRIu64 " elements of %" PRIu64 " bytes", call->count, width);
    *out = (struct lengths){.send = call->count * width, .recv = call->count * width};
    switch (call->op) {
    case NIGH_GATHER:
        out->recv = 0;
        return is_root ? check_blocks(call->count, call->recv_counts, call->recv_offsets, members, width,
                                      &out->recv, why)
                       : 0;
    case NIGH_SCATTER:
        out->send = 0;
        return is_root ? check_blocks(call->count, call->send_counts, call->send_offsets, members, width,
                                      &out->send, why)
                       : 0;
    case NIGH_ALLTOALL:
        rc = call->flags & NIGH_COLLECTIVE_IN_PLACE
                 ? 0
                 : check_blocks(call->count, call->send_counts, call->send_offsets, members, width,
                                &out->send, why);
        if (rc)
            return rc;
        return check_blocks(call->count, call->recv_counts, call->recv_offsets, members, width, &out->recv,
                            why);
    case NIGH_ALLGATHER:
        return check_blocks(call->count, call->recv_counts, call->recv_offsets, members, width, &out->recv,
                            why);
    case NIGH_REDUCE_SCATTER:
        rc = check_blocks(call->count, call->recv_counts, NULL, members, width, &whole, why);
        if (rc)
            return rc;
        out->send = whole;
        if (call->flags & NIGH_COLLECTIVE_IN_PLACE)
            out->recv = whole;
        else if (call->recv_counts)
            out->recv = call->recv_counts[me] * width;
        return 0;
    case NIGH_BROADCAST:
        if (is_root)
            out->recv = call->recv ? out->recv : 0;
        else
            out->send = 0;
        return 0;
    case NIGH_REDUCE:
        if (!is_root)
            out->recv = 0;
        return 0;
    default:
        return 0;
    }
}

/* What it sends itself is copied to what it keeps of itself. */
static int check_own_exchange(const struct nigh_collective *call, uint32_t me, char *why)
{
    uint64_t sent = call->send_counts ? call->send_counts[me] : call->count;
    uint64_t kept = call->recv_counts ? call->recv_counts[me] : call->count;

    if (sent == kept)
        return 0;
    return wrong(why, -EINVAL, "the member sends itself %" PRIu64 " elements, and keeps %" PRIu64, sent,
                 kept);
}

static int check_own_block(const struct nigh_collective *call, uint32_t me, bool is_root, char *why)
{
    uint64_t block = call->count;

    if (call->recv_counts && (call->op == NIGH_ALLGATHER || (call->op == NIGH_GATHER && is_root)))
        block = call->recv_counts[me];
    if (call->send_counts && call->op == NIGH_SCATTER)
        block = call->send_counts[me];
    if (call->op == NIGH_ALLTOALL && !(call->flags & NIGH_COLLECTIVE_IN_PLACE))
        return check_own_exchange(call, me, why);
    if (block == call->count)
        return 0;
    return wrong(why, -EINVAL, "count is %" PRIu64 ", and the counts say %" PRIu64 " of the member itself",
                 call->count, block);
}

/* A send buffer is needed, or not looked at. */
static bool needs_send(const struct nigh_collective *call, bool is_root)
{
    if (!(call->flags & NIGH_COLLECTIVE_IN_PLACE))
        return true;
    if (call->op == NIGH_SCATTER)
        return is_root;
    return (call->op == NIGH_REDUCE || call->op == NIGH_GATHER) && !is_root;
}

static int check_buffers(const struct nigh_collective *call, uint32_t members, uint32_t me, char *why)
{
    bool is_root = me == call->root, sends = needs_send(call, is_root);
    bool keeps = !(call->op == NIGH_SCATTER && is_root && call->flags & NIGH_COLLECTIVE_IN_PLACE) &&
                 !(call->op == NIGH_EXSCAN && me == 0 && !(call->flags & NIGH_COLLECTIVE_IN_PLACE));
    struct lengths lengths;
    int rc = check_lengths(call, members, me, &lengths, why);

    if (rc)
        return rc;
    rc = check_own_block(call, me, is_root, why);
    if (rc)
        return rc;
    if (!sends)
        lengths.send = 0;
    if (call->op == NIGH_BROADCAST && !sends && is_root)
        lengths.recv = call->count * width_of(call);
    if (!keeps)
        lengths.recv = 0;
    if (lengths.send && !call->send)
        return wrong(why, -EFAULT, "send is NULL, for %" PRIu64 " bytes", lengths.send);
    if (lengths.recv && !call->recv)
        return wrong(why, -EFAULT, "recv is NULL, for %" PRIu64 " bytes", lengths.recv);
    if (overlap(call->send, lengths.send, call->recv, lengths.recv))
        return wrong(why, -EINVAL, "send and recv overlap (NIGH_COLLECTIVE_IN_PLACE is for one buffer)");
    return 0;
}

int nigh_call_check(const struct nigh_collective *call, uint32_t members, uint32_t me,
                    char why[NIGH_WHY_BYTES])
{
    int rc;

    if (call->op < NIGH_BARRIER || call->op > NIGH_EXSCAN)
        return wrong(why, -EINVAL, "op %u: none of enum nigh_collective_op", call->op);
    if (call->flags & ~NIGH_COLLECTIVE_IN_PLACE)
        return wrong(why, -EINVAL, "flags 0x%x: known is 0x%x", call->flags, NIGH_COLLECTIVE_IN_PLACE);
    if (call->root >= (is_rooted(call->op) ? members : 1))
        return wrong(why, -EINVAL, "root %" PRIu32 ": %s", call->root,
                     is_rooted(call->op) ? "not in the group" : "the call has none");
    rc = check_type(call, why);
    if (!rc)
        rc = check_reduction(call, why);
    if (rc || call->op == NIGH_BARRIER)
        return rc;
    rc = check_arrays(call, me == call->root, why);
    return rc ? rc : check_buffers(call, members, me, why);
}

/* Blocks that have a length of their own at each member cannot be in it: whoever takes one sees whether it is as expected. */
uint64_t nigh_call_agreed(const struct nigh_collective *call, const struct nigh_shape *shape)
{
    uint64_t hash = nigh_print_mix(nigh_print_mix(0, call->op), call->root);

    if (call->op == NIGH_BROADCAST)
        hash = nigh_print_mix(hash, call->count * shape->width);
    if (is_reduction(call->op)) {
        hash = nigh_print_mix(hash, call->type | (uint64_t)call->reduction << 16);
        hash = nigh_print_mix(nigh_print_mix(hash, shape->width), shape->vector);
    }
    for (uint32_t i = 0; call->op == NIGH_REDUCE_SCATTER && i < shape->members; i++)
        hash = nigh_print_mix(hash, call->recv_counts ? call->recv_counts[i] : call->count);
    return hash;
}

void nigh_call_text(uint64_t word, uint64_t count, char out[NIGH_CALL_TEXT])
{
    uint32_t op = word & 0xff, type = word >> 8 & 0xff, reduction = word >> 16 & 0xff,
             root = (uint32_t)(word >> 32);
    char tail[32] = "";

    if (op == NIGH_BARRIER) {
        snprintf(out, NIGH_CALL_TEXT, "barrier");
        return;
    }
    if (is_rooted(op))
        snprintf(tail, sizeof(tail), ", root %" PRIu32, root);
    if (is_reduction(op))
        snprintf(out, NIGH_CALL_TEXT, "%s of %" PRIu64 " %s (%s%s)", name_of(op), count, nigh_type_name(type),
                 nigh_reduction_name(reduction), tail);
    else
        snprintf(out, NIGH_CALL_TEXT, "%s of %" PRIu64 " %s%s", name_of(op), count, nigh_type_name(type),
                 tail);
}

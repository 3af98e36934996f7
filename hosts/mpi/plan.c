/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/plan.c - what MPI's arguments are as a call of nigh. What only moves is described in bytes, as types may differ
 * between ranks; what does not lie as it is sent, or may be a device's, is packed in memory of ours.
 */
#include "hosts/mpi/calls.h"
#include "hosts/mpi/device.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/memory.h"
#include "hosts/mpi/operation.h"

#include <errno.h>

/* What this rank sends and keeps, and whether nigh does that from and to MPI's buffers. */
struct sides {
    struct nigh_mpi_vector in, out;
    bool sends, keeps;
    bool in_place; /* what it sends lies where it keeps; SCATTER: what it keeps, where it sends */
    bool packs_in, packs_out;
    bool is_root;
};

/* ---- which buffers ------------------------------------------------------------------------------------- */

static bool is_scatter(const struct nigh_mpi_operation *operation)
{
    return operation->call.op == NIGH_SCATTER;
}

/* Elements for MPI's own operations are described as bytes: nobody packs them but by a copy. */
static int describe_elements(struct nigh_mpi_operation *operation, struct nigh_mpi_vector *out)
{
    int rc;

    *out = (struct nigh_mpi_vector){
        .type = NIGH_MPI_BYTE, .blocks = 1, .size = 1, .extent = 1, .close = true, .dense = true};
    if (operation->reduction.own)
        return 0;
    out->type = operation->reduction.type;
    out->buffer = out; /* is looked at by vectors that have none */
    rc = nigh_mpi_vector_measure(out);
    if (rc)
        return rc;
    nigh_mpi_vector_look(out, operation->comm);
    return out->dense ? 0 : nigh_mpi_elements_make(&operation->elements, out->type);
}

static int too_long(const struct nigh_mpi_operation *operation)
{
    nigh_mpi_log("%s: counts and types make more than %lld bytes", operation->facts->call,
                 (long long)NIGH_MPI_BYTES_MAX);
    return -EOVERFLOW;
}

/* Fills in what the vector's type and buffer say. */
static int measure(const struct nigh_mpi_operation *operation, struct nigh_mpi_vector *vector)
{
    int rc = nigh_mpi_vector_measure(vector);

    if (rc)
        return rc;
    if (!nigh_mpi_vector_fits(vector))
        return too_long(operation);
    nigh_mpi_vector_look(vector, operation->comm);
    return 0;
}

static int describe_reduced(struct nigh_mpi_operation *operation, const struct nigh_mpi_arguments *arguments,
                            struct sides *sides)
{
    int ranks = operation->group->ranks, me = operation->group->me, rc;
    int64_t all = arguments->recvs, own = arguments->recvs;
    int64_t width = operation->reduction.own ? (int64_t)operation->reduction.width : 1;
    bool over = false;

    if (arguments->recv_counts.at) {
        all = 0;
        own = nigh_mpi_nth(arguments->recv_counts, me);
        for (int r = 0; r < ranks; r++)
            over |= __builtin_add_overflow(all, nigh_mpi_nth(arguments->recv_counts, r), &all);
    } else if (operation->call.op == NIGH_REDUCE_SCATTER) {
        over = __builtin_mul_overflow(all, ranks, &all);
    }
    rc = describe_elements(operation, &sides->in);
    if (rc)
        return rc;
    sides->out = sides->in;
    sides->in.buffer = sides->in_place ? arguments->recv : arguments->send;
    over |= __builtin_mul_overflow(all, width, &sides->in.count);
    if (over || !nigh_mpi_vector_fits(&sides->in))
        return too_long(operation);
    sides->out.buffer = arguments->recv;
    sides->out.count = own * width; /* no more than all */
    return 0;
}

static int describe_moved(const struct nigh_mpi_operation *operation,
                          const struct nigh_mpi_arguments *arguments, struct sides *sides)
{
    const struct nigh_mpi_facts *facts = operation->facts;
    int ranks = operation->group->ranks, rc = 0;
    bool one = operation->call.op == NIGH_BROADCAST;

    sides->out = (struct nigh_mpi_vector){.buffer = arguments->recv,
                                          .type = arguments->recv_type,
                                          .blocks = facts->keeps_blocks ? ranks : 1,
                                          .count = arguments->recvs,
                                          .counts = arguments->recv_counts,
                                          .offsets = arguments->recv_offsets};
    sides->in = (struct nigh_mpi_vector){.buffer = arguments->send,
                                         .type = arguments->send_type,
                                         .blocks = facts->sends_blocks ? ranks : 1,
                                         .count = arguments->sends,
                                         .counts = arguments->send_counts,
                                         .offsets = arguments->send_offsets};
    if (sides->keeps || (sides->in_place && !is_scatter(operation)) || (one && sides->sends))
        rc = measure(operation, &sides->out);
    if (one)
        sides->in = sides->out;
    if (rc || !sides->sends || one)
        return rc;
    return measure(operation, &sides->in);
}

/* Who sends and keeps. */
static void set_roles(const struct nigh_mpi_operation *operation, const struct nigh_mpi_arguments *arguments,
                      struct sides *sides)
{
    const struct nigh_mpi_facts *facts = operation->facts;
    int me = operation->group->me;

    sides->is_root = facts->rooted && arguments->root == me;
    sides->sends = sides->keeps = facts->op != NIGH_BARRIER;
    if (facts->op == NIGH_BROADCAST || facts->op == NIGH_SCATTER)
        sides->sends = sides->is_root;
    if (facts->op == NIGH_BROADCAST)
        sides->keeps = !sides->is_root;
    if (facts->op == NIGH_REDUCE || facts->op == NIGH_GATHER)
        sides->keeps = sides->is_root;
    if (facts->op == NIGH_BROADCAST || facts->op == NIGH_BARRIER)
        return;
    if (facts->op == NIGH_SCATTER) {
        sides->in_place = sides->is_root && arguments->recv == NIGH_MPI_IN_PLACE;
        sides->keeps = !sides->in_place;
    } else {
        sides->in_place = arguments->send == NIGH_MPI_IN_PLACE && sides->keeps;
        sides->sends = !sides->in_place;
    }
    if (facts->op == NIGH_EXSCAN && me == 0 && !sides->in_place)
        sides->keeps = false;
}

/* ---- what is packed ------------------------------------------------------------------------------------ */

/* A program that gives buffers that overlap is wrong, but some MPIs serve it: what is sent is copied first. */
static bool overlap(const struct sides *sides)
{
    nigh_mpi_aint in, in_end, out, out_end;
    intptr_t from = (intptr_t)sides->in.buffer, to = (intptr_t)sides->out.buffer;

    return sides->sends && sides->keeps && nigh_mpi_vector_span(&sides->in, &in, &in_end) &&
           nigh_mpi_vector_span(&sides->out, &out, &out_end) && from + in < to + out_end &&
           to + out < from + in_end;
}

/* Where a reduction is in place, more may come from there than goes there. */
static const struct nigh_mpi_vector *kept_whole(const struct nigh_mpi_operation *operation,
                                                const struct sides *sides)
{
    return sides->in_place && operation->facts->reduces ? &sides->in : &sides->out;
}

/* What is in place is packed where it comes to lie, if others need it or it is to stay. */
static int pack_in_place(const struct nigh_mpi_operation *operation, const struct sides *sides, char *memory)
{
    int me = operation->group->me;

    if (operation->facts->reduces)
        return nigh_mpi_vector_pack(&sides->in, memory, operation->comm);
    if (operation->call.op == NIGH_ALLTOALL)
        return nigh_mpi_vector_pack(&sides->out, memory, operation->comm);
    if (operation->call.op != NIGH_ALLGATHER)
        return 0;
    for (int r = 0; r < me; r++)
        memory += nigh_mpi_vector_bytes(&sides->out, r);
    return nigh_mpi_vector_pack_block(&sides->out, me, memory, operation->comm);
}

static int pack(struct nigh_mpi_operation *operation, struct sides *sides)
{
    uint64_t in = sides->packs_in ? nigh_mpi_vector_all_bytes(&sides->in) : 0;
    uint64_t out = sides->packs_out ? nigh_mpi_vector_all_bytes(kept_whole(operation, sides)) : 0;
    int rc = 0;

    operation->memory = nigh_mpi_memory(operation->facts->call, in + out);
    if (!operation->memory)
        return -ENOMEM;
    if (sides->packs_in) {
        rc = nigh_mpi_vector_pack(&sides->in, operation->memory, operation->comm);
        operation->call.send = operation->memory;
    }
    if (!sides->packs_out)
        return rc;
    operation->call.recv = operation->memory + in;
    operation->unpacks = true;
    operation->out = sides->out;
    operation->except = sides->in_place && !operation->facts->reduces && operation->call.op != NIGH_ALLTOALL
                            ? operation->group->me
                            : -1;
    return rc || !sides->in_place ? rc : pack_in_place(operation, sides, operation->call.recv);
}

/* A request outlives the program's type. */
static int hold_type(struct nigh_mpi_operation *operation)
{
    int rc;

    if (!operation->unpacks || !operation->is_request || nigh_mpi_known_type(operation->out.type))
        return 0;
    rc = nigh_mpi_calls()->Type_dup(operation->out.type, &operation->out.type);
    operation->holds_type = !rc;
    return rc;
}

/* ---- how it lies --------------------------------------------------------------------------------------- */

/* Blocks of a v-form, as nigh has them: in bytes, from the first byte on. */
static void describe_blocks(const struct nigh_mpi_vector *vector, bool packed, uint64_t *counts,
                            uint64_t *offsets, const void **buffer)
{
    nigh_mpi_aint first, end;

    for (int i = 0; i < vector->blocks; i++)
        counts[i] = nigh_mpi_vector_bytes(vector, i);
    if (packed)
        return;
    (void)nigh_mpi_vector_span(vector, &first, &end);
    for (int i = 0; i < vector->blocks; i++)
        offsets[i] = counts[i] ? (uint64_t)(nigh_mpi_vector_offset(vector, i) - first) : 0;
    *buffer = (const char *)*buffer + first;
}

static void describe_parts(struct nigh_mpi_operation *operation, const struct sides *sides)
{
    struct nigh_collective *call = &operation->call;
    uint64_t *arrays = operation->arrays, ranks = (uint64_t)operation->group->ranks;
    const void *recv = call->recv;

    if (sides->in.counts.at && sides->sends) {
        describe_blocks(&sides->in, sides->packs_in, arrays, arrays + ranks, &call->send);
        call->send_counts = arrays;
        call->send_offsets = sides->packs_in ? NULL : arrays + ranks;
    }
    if (sides->out.counts.at && (sides->keeps || sides->in_place)) {
        describe_blocks(&sides->out, sides->packs_out, arrays + 2 * ranks, arrays + 3 * ranks, &recv);
        call->recv_counts = arrays + 2 * ranks;
        call->recv_offsets = sides->packs_out ? NULL : arrays + 3 * ranks;
        call->recv = (void *)(intptr_t)recv;
    }
}

/* What this rank sends itself must be as long as what it keeps. MPI is not asked any more: the others do not. */
static int set_count(struct nigh_mpi_operation *operation, const struct sides *sides)
{
    const struct nigh_mpi_vector *in = &sides->in, *out = &sides->out;
    int me = operation->group->me;
    uint64_t sent = sides->sends ? nigh_mpi_vector_bytes(in, in->blocks > 1 ? me : 0) : 0;
    bool keeps = sides->keeps || (sides->in_place && !is_scatter(operation));
    uint64_t kept = keeps ? nigh_mpi_vector_bytes(out, out->blocks > 1 ? me : 0) : 0;

    operation->call.count = sides->sends ? sent : kept;
    if (sides->sends && keeps && sent != kept) {
        nigh_mpi_log("%s: this rank sends itself %llu bytes, and keeps %llu", operation->facts->call,
                     (unsigned long long)sent, (unsigned long long)kept);
        return -EMSGSIZE;
    }
    return 0;
}

static void reduce_by_mpi(void *arg, const void *in, void *inout, uint64_t count)
{
    struct nigh_mpi_operation *operation = arg;
    const struct nigh_mpi_reduction *reduction = &operation->reduction;
    int rc = operation->elements.memory
                 ? nigh_mpi_elements_reduce(&operation->elements, reduction->op, in, inout, count)
                 : nigh_mpi_calls()->Reduce_local(in, inout, (int)count, reduction->type, reduction->op);

    operation->reduce_error = operation->reduce_error ? operation->reduce_error : rc;
}

static void set_reduction(struct nigh_mpi_operation *operation, const struct nigh_mpi_arguments *arguments)
{
    struct nigh_mpi_reduction *reduction = &operation->reduction;
    struct nigh_collective *call = &operation->call;

    call->count = (uint64_t)arguments->recvs;
    for (int r = 0; arguments->recv_counts.at && r < operation->group->ranks; r++) {
        operation->arrays[r] = (uint64_t)nigh_mpi_nth(arguments->recv_counts, r);
        call->recv_counts = operation->arrays;
    }
    if (reduction->own && reduction->nigh_type) {
        call->type = reduction->nigh_type;
        call->reduction = reduction->nigh_op;
        return;
    }
    call->type = NIGH_OPAQUE;
    call->width = (uint32_t)reduction->width;
    call->reduction = NIGH_FUNCTION;
    call->function = reduce_by_mpi;
    call->function_arg = operation;
}

/* ---- the call ------------------------------------------------------------------------------------------ */

static int describe(struct nigh_mpi_operation *operation, const struct nigh_mpi_arguments *arguments,
                    struct sides *sides)
{
    bool device = nigh_mpi_device_possible();
    int rc;

    rc = operation->facts->reduces ? describe_reduced(operation, arguments, sides)
                                   : describe_moved(operation, arguments, sides);
    if (rc)
        return rc;
    sides->packs_in = sides->sends && (!sides->in.dense || device || overlap(sides)) &&
                      nigh_mpi_vector_all_bytes(&sides->in);
    sides->packs_out = (sides->keeps || (sides->in_place && !is_scatter(operation))) &&
                       (!sides->out.dense || device) &&
                       nigh_mpi_vector_all_bytes(kept_whole(operation, sides));
    return 0;
}

int nigh_mpi_operation_plan(struct nigh_mpi_operation *operation, enum nigh_mpi_kind kind,
                            const struct nigh_mpi_arguments *arguments)
{
    struct nigh_collective *call = &operation->call;
    struct sides sides = {.sends = false};
    int rc;

    operation->facts = &nigh_mpi_facts[kind];
    *call = (struct nigh_collective){.size = sizeof(*call), .op = (uint16_t)operation->facts->op};
    if (call->op == NIGH_BARRIER)
        return 0;
    call->type = NIGH_U8;
    if (operation->facts->rooted)
        call->root = (uint32_t)arguments->root;
    set_roles(operation, arguments, &sides);
    rc = describe(operation, arguments, &sides);
    if (rc)
        return rc;
    call->send = sides.sends ? sides.in.buffer : NULL;
    call->recv = sides.keeps || (sides.in_place && !is_scatter(operation)) ? arguments->recv : NULL;
    call->flags = sides.in_place ? NIGH_COLLECTIVE_IN_PLACE : 0;
    if (operation->facts->reduces)
        set_reduction(operation, arguments);
    else
        rc = set_count(operation, &sides);
    if (!rc && (sides.packs_in || sides.packs_out))
        rc = pack(operation, &sides);
    if (!rc && !operation->facts->reduces)
        describe_parts(operation, &sides);
    return rc ? rc : hold_type(operation);
}

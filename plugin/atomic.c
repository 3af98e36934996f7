/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/atomic.c - post_atomic and its target. */
#include "plugin/atomic.h"
#include "plugin/answer.h"
#include "plugin/arrive.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/device_way.h"
#include "plugin/refuse.h"
#include "plugin/rma.h"
#include "plugin/send.h"
#include <errno.h>
#include <stdlib.h>

/* Bytes of an element; 0: atomics do not take the type, which may be one of collectives. */
static uint32_t width_of(uint32_t type)
{
    static const uint8_t bytes[] = {
        [NIGH_I8] = 1,  [NIGH_U8] = 1,  [NIGH_I16] = 2, [NIGH_U16] = 2, [NIGH_I32] = 4,
        [NIGH_U32] = 4, [NIGH_I64] = 8, [NIGH_U64] = 8, [NIGH_F32] = 4, [NIGH_F64] = 8};

    return type < sizeof(bytes) ? bytes[type] : 0;
}

/* One element of each type. Memory is read and written through memcpy: a region may have any alignment. Signed sums
 * wrap, as remote counters do everywhere: they are made in the unsigned type of the same width. */
#define APPLY_ORDER(op, a, b) \
    case NIGH_MIN:            \
        a = b < a ? b : a;    \
        break;                \
    case NIGH_MAX:            \
        a = b > a ? b : a;    \
        break;                \
    case NIGH_READ:           \
        break;                \
    case NIGH_WRITE:          \
        a = b;                \
        break;                \
    case NIGH_CSWAP:          \
        a = a == c ? b : a;   \
        break;

#define DEFINE_INTEGER(name, type, utype)                                                     \
    static int name(uint32_t op, uint8_t *at, const uint8_t *operand, const uint8_t *compare) \
    {                                                                                         \
        type a, b = 0, c = 0;                                                                 \
                                                                                              \
        memcpy(&a, at, sizeof(a));                                                            \
        if (operand)                                                                          \
            memcpy(&b, operand, sizeof(b));                                                   \
        if (compare)                                                                          \
            memcpy(&c, compare, sizeof(c));                                                   \
        switch (op) {                                                                         \
            APPLY_ORDER(op, a, b)                                                             \
        case NIGH_SUM:                                                                        \
            a = (type)((utype)a + (utype)b);                                                  \
            break;                                                                            \
        case NIGH_PROD:                                                                       \
            a = (type)(utype)((uint64_t)(utype)a * (uint64_t)(utype)b);                       \
            break;                                                                            \
        case NIGH_LAND:                                                                       \
            a = a && b;                                                                       \
            break;                                                                            \
        case NIGH_LOR:                                                                        \
            a = a || b;                                                                       \
            break;                                                                            \
        case NIGH_LXOR:                                                                       \
            a = !a != !b;                                                                     \
            break;                                                                            \
        case NIGH_BAND:                                                                       \
            a = (type)(a & b);                                                                \
            break;                                                                            \
        case NIGH_BOR:                                                                        \
            a = (type)(a | b);                                                                \
            break;                                                                            \
        case NIGH_BXOR:                                                                       \
            a = (type)(a ^ b);                                                                \
            break;                                                                            \
        default:                                                                              \
            return -EOPNOTSUPP;                                                               \
        }                                                                                     \
        memcpy(at, &a, sizeof(a));                                                            \
        return 0;                                                                             \
    }

#define DEFINE_FLOAT(name, type)                                                              \
    static int name(uint32_t op, uint8_t *at, const uint8_t *operand, const uint8_t *compare) \
    {                                                                                         \
        type a, b = 0, c = 0;                                                                 \
                                                                                              \
        memcpy(&a, at, sizeof(a));                                                            \
        if (operand)                                                                          \
            memcpy(&b, operand, sizeof(b));                                                   \
        if (compare)                                                                          \
            memcpy(&c, compare, sizeof(c));                                                   \
        switch (op) {                                                                         \
            APPLY_ORDER(op, a, b)                                                             \
        case NIGH_SUM:                                                                        \
            a = a + b;                                                                        \
            break;                                                                            \
        case NIGH_PROD:                                                                       \
            a = a * b;                                                                        \
            break;                                                                            \
        default:                                                                              \
            return -EOPNOTSUPP;                                                               \
        }                                                                                     \
        memcpy(at, &a, sizeof(a));                                                            \
        return 0;                                                                             \
    }

DEFINE_INTEGER(apply_i8, int8_t, uint8_t)
DEFINE_INTEGER(apply_u8, uint8_t, uint8_t)
DEFINE_INTEGER(apply_i16, int16_t, uint16_t)
DEFINE_INTEGER(apply_u16, uint16_t, uint16_t)
DEFINE_INTEGER(apply_i32, int32_t, uint32_t)
DEFINE_INTEGER(apply_u32, uint32_t, uint32_t)
DEFINE_INTEGER(apply_i64, int64_t, uint64_t)
DEFINE_INTEGER(apply_u64, uint64_t, uint64_t)
DEFINE_FLOAT(apply_f32, float)
DEFINE_FLOAT(apply_f64, double)

typedef int (*apply_fn)(uint32_t op, uint8_t *at, const uint8_t *operand, const uint8_t *compare);

static apply_fn apply_of(uint32_t type)
{
    static const apply_fn table[] = {
        [NIGH_I8] = apply_i8,   [NIGH_U8] = apply_u8,   [NIGH_I16] = apply_i16, [NIGH_U16] = apply_u16,
        [NIGH_I32] = apply_i32, [NIGH_U32] = apply_u32, [NIGH_I64] = apply_i64, [NIGH_U64] = apply_u64,
        [NIGH_F32] = apply_f32, [NIGH_F64] = apply_f64};

    return type < sizeof(table) / sizeof(table[0]) ? table[type] : NULL;
}

int nigh_atomic_apply(uint32_t op, uint32_t type, void *at, const void *operand, const void *compare,
                      void *before, uint32_t count)
{
    uint32_t width = width_of(type);
    apply_fn apply = apply_of(type);

    if (!apply)
        return -EOPNOTSUPP;
    if (before)
        memcpy(before, at, (size_t)count * width);
    for (uint32_t i = 0; i < count; i++) {
        size_t o = (size_t)i * width;
        int rc = apply(op, (uint8_t *)at + o, operand ? (const uint8_t *)operand + o : NULL,
                       compare ? (const uint8_t *)compare + o : NULL);

        if (rc)
            return rc;
    }
    return 0;
}

/* Is the operation defined for the type? Asked before anything is sent: a dry run on one element tells. */
static bool defined(uint32_t op, uint32_t type)
{
    uint8_t zero[8] = {0}, other[8] = {0};
    apply_fn apply = apply_of(type);

    return apply && apply(op, zero, other, other) == 0;
}

static int check_struct(struct nigh_context *context, const struct nigh_atomic *atomic)
{
    int rc = nigh_check_struct(context, "post_atomic", atomic, atomic->size, sizeof(*atomic));

    if (rc)
        return rc;
    if (atomic->reserved)
        return nigh_refuse_reserved(context, "post_atomic");
    if (atomic->flags & ~NIGH_SILENT)
        return nigh_refuse_flags(context, "post_atomic", atomic->flags, NIGH_SILENT);
    return 0;
}

static int check(const struct nigh_endpoint *endpoint, const struct nigh_atomic *atomic)
{
    struct nigh_context *context = endpoint->context;
    int rc = check_struct(context, atomic);
    uint32_t width;

    if (rc)
        return rc;
    width = width_of(atomic->type);
    if (!width || !defined(atomic->op, atomic->type))
        return nigh_refuse(context, -EOPNOTSUPP, "post_atomic: operation %u is not defined for type %u",
                           atomic->op, atomic->type);
    if (!atomic->count || atomic->offset % width)
        return nigh_refuse(context, -EINVAL,
                           "post_atomic: %u elements at offset %llu: at least one, at a multiple of %u",
                           atomic->count, (unsigned long long)atomic->offset, width);
    if (atomic->count > NIGH_ATOMIC_BYTES / width)
        return nigh_refuse(context, -EMSGSIZE, "post_atomic: %u elements of %u bytes: at most %u bytes",
                           atomic->count, width, NIGH_ATOMIC_BYTES);
    if ((atomic->op != NIGH_READ && !atomic->operand) || (atomic->op == NIGH_CSWAP && !atomic->compare))
        return nigh_refuse(context, -EFAULT, "post_atomic: operation %u needs %s, which is NULL", atomic->op,
                           atomic->operand ? "`compare`" : "`operand`");
    return nigh_send_check(endpoint);
}

/* The request as it goes over the wire, in memory of the operation; its size in op->imm. -ENOMEM. */
static int make_request(struct nigh_send_op *op, const struct nigh_atomic *atomic)
{
    size_t bytes = (size_t)atomic->count * width_of(atomic->type);
    struct nigh_wire_atomic request = {
        .op = atomic->op, .type = atomic->type, .count = atomic->count, .fetches = atomic->result != NULL};
    size_t total =
        sizeof(request) + (atomic->op == NIGH_READ ? 0 : bytes) + (atomic->op == NIGH_CSWAP ? bytes : 0);
    uint8_t *at;

    op->owned = malloc(total);
    if (!op->owned)
        return -ENOMEM;
    memcpy(op->owned, &request, sizeof(request));
    at = op->owned + sizeof(request);
    if (atomic->op != NIGH_READ)
        memcpy(at, atomic->operand, bytes);
    if (atomic->op == NIGH_CSWAP)
        memcpy(at + bytes, atomic->compare, bytes);
    op->bytes = bytes;
    op->imm = total;
    return 0;
}

int nigh_atomic_post(struct nigh_endpoint *endpoint, const struct nigh_atomic *atomic)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_send_op *op;
    int rc = check(endpoint, atomic);

    if (rc)
        return rc;
    op = nigh_send_create(context, NIGH_SEND_ATOMIC, NIGH_OP_ATOMIC);
    if (!op)
        return -ENOMEM;
    if (make_request(op, atomic)) {
        nigh_slab_give(&context->send_ops, op);
        nigh_cq_unreserve(&context->cq, 1);
        return -ENOMEM;
    }
    op->key = atomic->key;
    op->offset = atomic->offset;
    op->result = atomic->result;
    op->context = atomic->context;
    op->silent = atomic->flags & NIGH_SILENT;
    nigh_count(&context->counters->atomic, 1);
    nigh_send_begin(endpoint, op);
    return 0;
}

/* ---- the target ---------------------------------------------------------------------------------------- */

/* To a region that the host copies: on a copy, which goes back. Reading alone writes nothing. */
static int apply_copied(const struct nigh_region *region, const struct nigh_wire_atomic *request,
                        const uint8_t *values, size_t bytes, uint64_t offset, uint8_t *before)
{
    uint8_t copy[NIGH_ATOMIC_BYTES];
    int rc = nigh_region_read(region, copy, offset, bytes);

    if (!rc)
        rc = nigh_atomic_apply(request->op, request->type, copy, request->op == NIGH_READ ? NULL : values,
                               request->op == NIGH_CSWAP ? values + bytes : NULL, before, request->count);
    return rc || request->op == NIGH_READ ? rc : nigh_region_write(region, copy, offset, bytes);
}

/* Applies a request that has been copied out of the ring; the values before go to `before`. */
static int apply_request(struct nigh_endpoint *endpoint, const struct nigh_wire_atomic *request,
                         const uint8_t *values, size_t values_bytes, uint64_t key, uint64_t offset,
                         uint8_t *before)
{
    uint32_t width = width_of(request->type);
    size_t bytes = (size_t)request->count * width;
    size_t expected = request->op == NIGH_READ ? 0 : request->op == NIGH_CSWAP ? 2 * bytes : bytes;
    struct nigh_context *context = endpoint->context;
    const struct nigh_region *region;
    uint8_t *at;
    int rc;

    if (!width || !request->count || request->count > NIGH_ATOMIC_BYTES / width || values_bytes != expected ||
        !defined(request->op, request->type))
        return -EPROTO;
    rc = nigh_region_at(&context->regions, key, offset, bytes, NIGH_REMOTE_WRITE, &at);
    if (!rc && context->regions.copied)
        rc = nigh_device_may_stage(endpoint, key);
    if (rc)
        return rc;
    region = nigh_region_copied(&context->regions, key);
    if (region)
        return apply_copied(region, request, values, bytes, offset, before);
    return nigh_atomic_apply(request->op, request->type, at, expected ? values : NULL,
                             request->op == NIGH_CSWAP ? values + bytes : NULL, before, request->count);
}

enum nigh_verdict nigh_atomic_arrive(struct nigh_endpoint *endpoint, uint64_t head, uint64_t key,
                                     uint64_t offset)
{
    uint8_t body[NIGH_BODY_MAX], before[NIGH_ATOMIC_BYTES];
    uint32_t bytes = nigh_head_bytes(head);
    struct nigh_cq *cq = &endpoint->context->cq;
    struct nigh_wire_atomic request;
    uint64_t told;
    bool tells = nigh_region_tells(&endpoint->context->regions, key, &told);
    int status;

    if (bytes < sizeof(request))
        return NIGH_BAD;
    if (tells && nigh_cq_reserve(cq, 1))
        return NIGH_STAY;
    nigh_ring_read_body(&endpoint->rx, body, bytes, bytes);
    memcpy(&request, body, sizeof(request));
    status = apply_request(endpoint, &request, body + sizeof(request), bytes - sizeof(request), key, offset,
                           before);
    if (tells && status)
        nigh_cq_unreserve(cq, 1);
    else if (tells)
        nigh_rma_tell(endpoint, request.fetches ? NIGH_OP_REMOTE_GET : NIGH_OP_REMOTE_PUT, key,
                      request.count * width_of(request.type), 0);
    if (status == -EPROTO)
        return NIGH_BAD;
    nigh_link_answer(endpoint, NIGH_K_RESULT, 0, request.id, (uint64_t)(int64_t)status, before,
                     status ? 0 : request.count * width_of(request.type));
    return NIGH_GO;
}

enum nigh_verdict nigh_atomic_result(struct nigh_endpoint *endpoint, uint64_t head, uint64_t id, uint64_t imm)
{
    struct nigh_send_op *op = nigh_ids_get(&endpoint->out, id);
    int status = nigh_answer_status(imm);

    if (!op || op->kind != NIGH_SEND_ATOMIC || nigh_head_bytes(head) != (status ? 0 : op->bytes))
        return NIGH_BAD;
    if (!status && op->result)
        nigh_ring_read_body(&endpoint->rx, op->result, (uint32_t)op->bytes, (uint32_t)op->bytes);
    nigh_send_complete(endpoint, op, status, op->bytes);
    return NIGH_GO;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/request.h - operations: what a request names. They lie in one array that is reserved once and grows in
 * place, so a handle is an index with the generation of its slot, a stale copy is found out by one
 * comparison, and a message allocates nothing.
 */
#ifndef NIGH_LIB_REQUEST_H
#define NIGH_LIB_REQUEST_H

#include "lib/light.h"

#define NIGH_NO_OPERATION  UINT32_MAX
#define NIGH_OPERATION_MAX (1u << 20) /* at one time */

enum nigh_kind {
    NIGH_KIND_SEND = 1,
    NIGH_KIND_SSEND,
    NIGH_KIND_LEND,
    NIGH_KIND_RECV,
    NIGH_KIND_RECV_IN_PLACE,
    NIGH_KIND_MATCHED, /* what nigh_mprobe took out of the queue: waits for nigh_mrecv */
    NIGH_KIND_COLLECTIVE,
    NIGH_KIND_OTHER, /* one-sided and what else has an `ended` of its own */
};

enum nigh_phase {
    NIGH_PHASE_FREE = 0,
    NIGH_PHASE_INACTIVE, /* persistent, not started */
    NIGH_PHASE_ACTIVE,   /* the plugin has it */
    NIGH_PHASE_DONE,     /* ended, not waited for yet */
};

/* flags of an operation */
#define NIGH_OP_PERSISTENT 1u   /* survives its wait */
#define NIGH_OP_DETACHED   2u   /* nigh_request_free: frees itself when it ends */
#define NIGH_OP_INTERNAL   4u   /* traffic class NIGH_CLASS_CONTROL; never a leftover of the program's */
#define NIGH_OP_NOBODY     8u   /* NIGH_PROC_NULL */
#define NIGH_OP_WINDOW     16u  /* traffic class NIGH_CLASS_WINDOW; otherwise as INTERNAL */
#define NIGH_OP_RARE       32u  /* its completion is more than source, tag and bytes: lib/complete.c */
#define NIGH_OP_TOLD       64u  /* being taken back because a member of its communicator has died */
#define NIGH_OP_BLOCKING   512u /* of nigh_send or nigh_recv: lib/young.c */
#define NIGH_OP_HOOK       128u /* `ended` is called instead of the usual end; with NIGH_OP_RARE */
#define NIGH_OP_LIGHT      256u /* stands for one of lib/light.h, until the next look for one */

/*
 * The first line is all that a plain message touches. Who reads it besides the call that made it: wait and test, what
 * looks for deadlocks, and the list of leftovers.
 */
struct nigh_operation {
    uint32_t generation; /* upper half of its handle; changes when the slot is freed */
    union {
        struct {
            uint8_t phase;  /* enum nigh_phase */
            uint8_t kind;   /* enum nigh_kind */
            uint16_t flags; /* NIGH_OP_* */
        };
        uint32_t state; /* all of it */
    };
    struct nigh_comm *comm;
    int32_t peer, tag; /* as the call gave them: NIGH_ANY_SOURCE, NIGH_ANY_TAG, NIGH_PROC_NULL are possible */
    uint64_t bytes;    /* as the call gave it */
    const char *site;  /* of the call that posted it */
    /* How it ended: NIGH_PHASE_DONE. */
    int32_t source, done_tag;
    union {
        uint64_t done_bytes;
        nigh_request *request; /* of nigh_irecv, until it is posted */
    };
    int32_t error;
    uint32_t next_free; /* of a free slot */

    /* From here on the short ways of lib/send.c and lib/recv.c store nothing: what is there is of an earlier user. */
    void *buffer;
    void *data;                   /* in place: where the bytes lie */
    struct nigh_message *message; /* NIGH_KIND_MATCHED, and the receive of one until it is posted */
    /* NIGH_OP_HOOK: called with source, bytes and error already set; the phase is its own to change. */
    void (*ended)(struct nigh_operation *operation, const struct nigh_completion *completion);
    void *owner; /* of `ended` */
    void *debug; /* lib/debug.c */
    union {
        uint64_t imm;   /* sent along; of a receive with NIGH_OP_RARE: what came */
        uint64_t light; /* NIGH_OP_LIGHT: the handle */
    };
    uint32_t light_comm; /* and its communicator's identifier */
    uint32_t spare;
};

_Static_assert(sizeof(struct nigh_operation) == 128, "two lines, and a shift to index");

/* `state` of a receive of the usual kind, active. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NIGH_STATE_PLAIN_RECV ((uint32_t)NIGH_KIND_RECV << 8 | NIGH_PHASE_ACTIVE)
#else
#define NIGH_STATE_PLAIN_RECV ((uint32_t)NIGH_PHASE_ACTIVE << 24 | (uint32_t)NIGH_KIND_RECV << 16)
#endif

/* Reserve the array, and give it back. -ENOMEM. */
int nigh_operations_open(void);
void nigh_operations_close(void);

/* A free slot beyond those that were used before: NULL when there is no memory or NIGH_OPERATION_MAX are in use. */
struct nigh_operation *nigh_operation_more(void);

/* A slot whose first line the caller fills. NULL: as above. */
static inline struct nigh_operation *nigh_operation_take(void)
{
    uint32_t index = nigh_core.operations_free;
    struct nigh_operation *operation;

    if (nigh_unlikely(index == NIGH_NO_OPERATION))
        return nigh_operation_more();
    operation = &nigh_core.operations[index];
    nigh_core.operations_free = operation->next_free;
    return operation;
}

static inline void nigh_operation_give(struct nigh_operation *operation)
{
    operation->phase = NIGH_PHASE_FREE;
    operation->generation =
        operation->generation == INT32_MAX ? 1 : operation->generation + 1; /* 0 and above: no handle */
    operation->next_free = nigh_core.operations_free;
    nigh_core.operations_free = (uint32_t)(operation - nigh_core.operations);
}

/*
 * The first line of a plain operation that is, or is about to be, posted; all
 * that is not stored here is stored by the completion or belongs to operations with NIGH_OP_RARE, NIGH_GUARD_DEBUG.
 */
static inline void nigh_operation_start(struct nigh_operation *operation, enum nigh_kind kind,
                                        enum nigh_phase phase, struct nigh_comm *comm, int peer, int tag,
                                        uint64_t bytes, const char *site)
{
    operation->phase = (uint8_t)phase;
    operation->kind = (uint8_t)kind;
    operation->flags = 0;
    operation->comm = comm;
    operation->peer = peer;
    operation->tag = tag;
    operation->bytes = bytes;
    operation->site = site;
    operation->error = 0;
}

/* Does a completion's context mean one? What the program has posted by itself has others. */
static inline bool nigh_is_operation(const struct nigh_operation *operation)
{
    return (uintptr_t)operation - (uintptr_t)nigh_core.operations < nigh_core.operations_bytes;
}

static inline uint64_t nigh_operation_handle(const struct nigh_operation *operation)
{
    return (uint64_t)operation->generation << 32 | (uint32_t)(operation - nigh_core.operations);
}

/* An operation that has ended, standing for the request of lib/light.h that `id` names; NULL if there is none such. */
struct nigh_operation *nigh_operation_of_light(uint64_t id);

/* Frees an operation that has ended, or what it stands for. */
static inline void nigh_operation_end(struct nigh_operation *operation)
{
    if (nigh_unlikely(operation->flags & NIGH_OP_LIGHT))
        nigh_light_end(operation->light);
    else
        nigh_operation_give(operation);
}

/* What handle `id` (not 0) names, NULL if that has ended or never was. */
static inline struct nigh_operation *nigh_operation_find(uint64_t id)
{
    struct nigh_operation *operation = &nigh_core.operations[(uint32_t)id];

    if (nigh_unlikely(id & NIGH_LIGHT))
        return nigh_operation_of_light(id);
    if (nigh_unlikely((uint32_t)id >= nigh_core.operations_used || operation->generation != id >> 32 ||
                      operation->phase == NIGH_PHASE_FREE))
        return NULL;
    return operation;
}

/*
 * The operation of a request that a program has handed in: NULL for NIGH_REQUEST_NULL. -EINVAL (said) for one that has
 * ended, was freed, or is no request.
 */
int nigh_request_check(struct nigh_call call, nigh_request request, struct nigh_operation **out);
/* The same of a pointer, which may be NULL: -EINVAL, said. */
int nigh_request_find(struct nigh_call call, const nigh_request *request, struct nigh_operation **out);

/* "nigh_irecv of 64 bytes from rank 2, tag 7, in world (ring.c:12)": what an operation is, for messages. */
struct nigh_sentence {
    char text[448];
};
struct nigh_sentence nigh_operation_text(const struct nigh_operation *operation);

#endif

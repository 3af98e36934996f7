/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/request.c - the array of operations: address space is reserved once, pages become usable as they are needed. */
#include "lib/request.h"
#include "lib/collective.h"
#include "lib/comm.h"
#include "lib/error.h"
#include "lib/post.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { STEP = 1024 }; /* slots made usable at a time: 128 KiB */

static uint32_t usable;

int nigh_operations_open(void)
{
    /* PROT_NONE is not charged to anybody, so that the limit costs nothing until it is needed. */
    void *memory = mmap(NULL, (size_t)NIGH_OPERATION_MAX * sizeof(struct nigh_operation), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return -ENOMEM;
    nigh_core.operations = memory;
    nigh_core.operations_used = 0;
    nigh_core.operations_bytes = 0;
    nigh_core.operations_free = NIGH_NO_OPERATION;
    nigh_lights_open();
    nigh_alike_forget(&nigh_last_recv);
    usable = 0;
    return 0;
}

void nigh_operations_close(void)
{
    if (nigh_core.operations)
        munmap(nigh_core.operations, (size_t)NIGH_OPERATION_MAX * sizeof(struct nigh_operation));
    nigh_core.operations = NULL;
    nigh_core.operations_used = 0;
    nigh_core.operations_bytes = 0;
    nigh_core.operations_free = NIGH_NO_OPERATION;
}

struct nigh_operation *nigh_operation_more(void)
{
    struct nigh_operation *operation = &nigh_core.operations[nigh_core.operations_used];

    if (nigh_core.operations_used == usable) {
        if (usable == NIGH_OPERATION_MAX ||
            mprotect(operation, STEP * sizeof(*operation), PROT_READ | PROT_WRITE) != 0)
            return NULL;
        usable += STEP;
        nigh_core.operations_bytes = (uint64_t)usable * sizeof(*operation);
    }
    nigh_core.operations_used++;
    operation->generation = 1;
    return operation;
}

struct nigh_operation *nigh_operation_of_light(uint64_t id)
{
    static struct nigh_operation stand_in;
    struct nigh_run run;

    if (!nigh_light_know(id, &run))
        return NULL;
    stand_in = (struct nigh_operation){
        .phase = NIGH_PHASE_DONE,
        .kind = NIGH_KIND_SEND,
        .flags = NIGH_OP_LIGHT,
        .comm = nigh_core.world, /* of none that may have been freed; nigh_operation_text() looks it up */
        .peer = nigh_who_rank(run.who),
        .tag = (int32_t)(uint32_t)run.tag,
        .bytes = run.bytes,
        .site = nigh_who_site(run.who),
        .light = id,
        .light_comm = (uint32_t)(run.tag >> 32),
    };
    return &stand_in;
}

static bool was_one(uint64_t id)
{
    uint64_t above = id >> 32;

    if (id & NIGH_LIGHT)
        return nigh_light_serial(id) < nigh_lights.next;
    return (uint32_t)id < nigh_core.operations_used && above != 0 &&
           above <= nigh_core.operations[(uint32_t)id].generation;
}

int nigh_request_check(struct nigh_call call, nigh_request request, struct nigh_operation **out)
{
    struct nigh_operation *operation = NULL;

    if (request.id != 0) {
        operation = nigh_operation_find(request.id);
        if (!operation && was_one(request.id))
            return nigh_fail(call, -EINVAL,
                             "this request has ended: it was waited for, tested successfully or freed before "
                             "(was a copy of it kept, or is it listed twice?)");
        if (!operation || operation->flags & (NIGH_OP_INTERNAL | NIGH_OP_WINDOW | NIGH_OP_DETACHED))
            return nigh_fail(call, -EINVAL,
                             "0x%llx is no request: it was never started, or its memory was not initialized "
                             "(use NIGH_REQUEST_NULL)",
                             (unsigned long long)request.id);
        if (operation->kind == NIGH_KIND_MATCHED)
            return nigh_fail(call, -EINVAL,
                             "this is a message taken by a matched probe, not a request: receive it with "
                             "nigh_mrecv or nigh_imrecv");
    }
    *out = operation;
    return 0;
}

int nigh_request_find(struct nigh_call call, const nigh_request *request, struct nigh_operation **out)
{
    return request ? nigh_request_check(call, *request, out)
                   : nigh_fail(call, -EINVAL, "the request is NULL");
}

static const char *verb(const struct nigh_operation *operation)
{
    switch ((enum nigh_kind)operation->kind) {
    case NIGH_KIND_SEND:
        return "send";
    case NIGH_KIND_SSEND:
        return "synchronous send";
    case NIGH_KIND_LEND:
        return "lend";
    case NIGH_KIND_RECV:
        return "receive";
    case NIGH_KIND_RECV_IN_PLACE:
        return "receive in place";
    case NIGH_KIND_MATCHED:
        return "message taken by a matched probe";
    case NIGH_KIND_COLLECTIVE:
    case NIGH_KIND_OTHER:
        break;
    }
    return "one-sided operation";
}

static struct nigh_comm_text comm_of(const struct nigh_operation *operation)
{
    const struct nigh_comm *comm = operation->comm;

    if (operation->flags & NIGH_OP_LIGHT)
        comm = nigh_comm_by_id(operation->light_comm);
    return comm ? nigh_comm_text(comm) : (struct nigh_comm_text){"a communicator that was freed"};
}

struct nigh_sentence nigh_operation_text(const struct nigh_operation *operation)
{
    bool sends = operation->kind <= NIGH_KIND_LEND;
    struct nigh_sentence sentence;
    char peer[32], tag[32];

    if (operation->kind == NIGH_KIND_COLLECTIVE)
        return nigh_coll_request_text(operation);
    if (operation->flags & NIGH_OP_INTERNAL) {
        snprintf(sentence.text, sizeof(sentence.text), "message of the library's own %s rank %d, in %s",
                 sends ? "to" : "from", operation->peer, nigh_comm_text(operation->comm).text);
        return sentence;
    }
    if (operation->peer == NIGH_ANY_SOURCE)
        snprintf(peer, sizeof(peer), "any rank");
    else if (operation->peer == NIGH_PROC_NULL)
        snprintf(peer, sizeof(peer), "nobody");
    else
        snprintf(peer, sizeof(peer), "rank %d", operation->peer);
    if (operation->tag == NIGH_ANY_TAG)
        snprintf(tag, sizeof(tag), "any tag");
    else
        snprintf(tag, sizeof(tag), "tag %d", operation->tag);
    snprintf(sentence.text, sizeof(sentence.text), "%s of %s%llu bytes %s %s, %s, in %s%s%s", verb(operation),
             sends || operation->kind == NIGH_KIND_MATCHED ? "" : "at most ",
             (unsigned long long)operation->bytes, sends ? "to" : "from", peer, tag, comm_of(operation).text,
             operation->site ? ", posted" : "", nigh_where(operation->site).text);
    return sentence;
}

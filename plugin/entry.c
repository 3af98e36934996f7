/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/entry.c - the one symbol and its table. Each slot checks its handles, passes the guard (any thread at any
 * time, forked children) and calls what does the work; it alone knows about both.
 */
#include "config.h"

#include "nigh/transport.h"
#include "plugin/atomic.h"
#include "plugin/collective.h"
#include "plugin/context.h"
#include "plugin/device.h"
#include "plugin/device_give.h"
#include "plugin/guard.h"
#include "plugin/lend.h"
#include "plugin/note.h"
#include "plugin/poll.h"
#include "plugin/query.h"
#include "plugin/receive.h"
#include "plugin/refuse.h"
#include "plugin/registers.h"
#include "plugin/remote.h"
#include "plugin/rma.h"
#include "plugin/send.h"
#include "plugin/shown.h"
#include "plugin/wait.h"
#include "shm/heap.h"
#include "shm/rendezvous.h"
#include <errno.h>

#define GUARD_SPINS 100u /* about 4 us */

/* Who has it holds it for a pass, mostly, and to be woken takes longer. */
static void take_lock(struct nigh_context *context)
{
    for (uint32_t i = 0; i < GUARD_SPINS; i++) {
        if (pthread_mutex_trylock(&context->lock) == 0)
            return;
        nigh_pause();
    }
    pthread_mutex_lock(&context->lock);
}

void nigh_guard_open(struct nigh_context *context)
{
    if (context->guard & NIGH_GUARD_THREADS)
        pthread_mutex_unlock(&context->lock);
}

void nigh_guard_enter(struct nigh_context *context)
{
    if (!(context->guard & NIGH_GUARD_THREADS))
        return;
    take_lock(context);
    context->inside = (uintptr_t)pthread_self();
}

/* A thread that sleeps in wait() is woken when another one's call has made something to poll, or to do. */
void nigh_guard_leave(struct nigh_context *context)
{
    uint32_t asleep;

    if (!(context->guard & NIGH_GUARD_THREADS))
        return;
    asleep = nigh_load_relaxed(&nigh_arena_state(&context->arena)->asleep);
    if (asleep && nigh_is_restless(context))
        nigh_bell_ring(&context->bell, asleep);
    pthread_mutex_unlock(&context->lock);
}

static int entry_open(const struct nigh_open *options, struct nigh_context **out)
{
    if (!options || !out)
        return nigh_refuse_missing("open");
    return nigh_context_open(options, out);
}

static int entry_close(struct nigh_context *context)
{
    if (!context)
        return nigh_refuse_missing("close");
    if (context->guard & NIGH_GUARD_FORKED)
        return -ECHILD;
    return nigh_context_close(context);
}

static int entry_address(struct nigh_context *context, struct nigh_address *out)
{
    if (!context || !out)
        return nigh_refuse_missing("address");
    return NIGH_GUARDED(context, (nigh_rendezvous_address(context->rendezvous, out), 0));
}

static int entry_connect(struct nigh_context *context, const struct nigh_connect *to,
                         struct nigh_endpoint **out)
{
    if (!context || !to || !out)
        return nigh_refuse_missing("connect");
    return NIGH_GUARDED(context, nigh_endpoint_connect(context, to, out));
}

static int entry_disconnect(struct nigh_endpoint *endpoint)
{
    if (!endpoint)
        return nigh_refuse_missing("disconnect");
    return NIGH_GUARDED(endpoint->context, nigh_endpoint_disconnect(endpoint));
}

/* The two hottest slots end in a call, so that where there is no guard nothing is saved on the stack. */
__attribute__((noinline)) int nigh_guarded_send(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    return NIGH_GUARDED(endpoint->context, nigh_send_post(endpoint, send));
}

static int entry_post_send(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    if (__builtin_expect(!endpoint || !send, 0))
        return nigh_refuse_missing("post_send");
    if (__builtin_expect(endpoint->context->guard != 0, 0))
        return nigh_guarded_send(endpoint, send);
    return nigh_send_post(endpoint, send);
}

__attribute__((noinline)) int nigh_guarded_recv(struct nigh_context *context, struct nigh_endpoint *from,
                                                const struct nigh_recv *recv)
{
    return NIGH_GUARDED(context, nigh_recv_post_generally(context, from, recv));
}

static int entry_post_recv(struct nigh_context *context, struct nigh_endpoint *from,
                           const struct nigh_recv *recv)
{
    if (__builtin_expect(!context || !recv || (from && from->context != context), 0))
        return nigh_refuse_missing("post_recv");
    if (__builtin_expect(context->guard != 0, 0))
        return nigh_guarded_recv(context, from, recv);
    return nigh_recv_post(context, from, recv);
}

static int entry_probe(struct nigh_context *context, struct nigh_endpoint *from, uint64_t tag,
                       uint64_t ignore, uint32_t tclass, struct nigh_completion *found,
                       struct nigh_message **out)
{
    if (!context || (from && from->context != context))
        return nigh_refuse_missing("probe");
    return NIGH_GUARDED(context, nigh_probe(context, from, tag, ignore, tclass, found, out));
}

static int entry_claim(struct nigh_context *context, struct nigh_message *message,
                       const struct nigh_recv *recv)
{
    if (!context || !message || !recv)
        return nigh_refuse_missing("claim");
    return NIGH_GUARDED(context, nigh_recv_claim(context, message, recv));
}

static int entry_cancel(struct nigh_context *context, uint64_t op_context)
{
    if (!context)
        return nigh_refuse_missing("cancel");
    return NIGH_GUARDED(context, nigh_cancel(context, op_context));
}

static int entry_cancel_unmatched(struct nigh_context *context, uint64_t op_context)
{
    if (!context)
        return nigh_refuse_missing("cancel_unmatched");
    return NIGH_GUARDED(context, nigh_cancel_unmatched(context, op_context));
}

static int entry_post_put(struct nigh_endpoint *endpoint, const struct nigh_rma *rma)
{
    if (!endpoint || !rma)
        return nigh_refuse_missing("post_put");
    return NIGH_GUARDED(endpoint->context, nigh_rma_put(endpoint, rma));
}

static int entry_post_get(struct nigh_endpoint *endpoint, const struct nigh_rma *rma)
{
    if (!endpoint || !rma)
        return nigh_refuse_missing("post_get");
    return NIGH_GUARDED(endpoint->context, nigh_rma_get(endpoint, rma));
}

static int entry_post_atomic(struct nigh_endpoint *endpoint, const struct nigh_atomic *atomic)
{
    if (!endpoint || !atomic)
        return nigh_refuse_missing("post_atomic");
    return NIGH_GUARDED(endpoint->context, nigh_atomic_post(endpoint, atomic));
}

static int entry_post_lend(struct nigh_endpoint *endpoint, const struct nigh_lend *lend)
{
    if (!endpoint || !lend)
        return nigh_refuse_missing("post_lend");
    return NIGH_GUARDED(endpoint->context, nigh_lend_post(endpoint, lend));
}

static int entry_release(struct nigh_context *context, void *data)
{
    if (!context)
        return nigh_refuse_missing("release");
    return NIGH_GUARDED(context, nigh_lend_release(context, data));
}

static int heap_alloc(struct nigh_context *context, uint64_t bytes, void **out)
{
    if (!bytes)
        return nigh_refuse(context, -EINVAL, "heap_alloc: 0 bytes: at least 1");
    nigh_log_use(&context->log);
    return nigh_heap_alloc(context->heap, bytes, out);
}

static int heap_free(struct nigh_context *context, void *memory)
{
    int rc = nigh_heap_free(context->heap, memory);

    return rc == -EINVAL
               ? nigh_refuse(context, rc,
                             "heap_free: %p is not what heap_alloc() of this context gave, or is free",
                             memory)
               : rc;
}

static int entry_heap_alloc(struct nigh_context *context, uint64_t bytes, void **out)
{
    if (!context || !out)
        return nigh_refuse_missing("heap_alloc");
    return NIGH_GUARDED(context, heap_alloc(context, bytes, out));
}

static int entry_heap_free(struct nigh_context *context, void *memory)
{
    if (!context)
        return nigh_refuse_missing("heap_free");
    return NIGH_GUARDED(context, heap_free(context, memory));
}

static int check_copies(struct nigh_context *context, const struct nigh_register *memory)
{
    static const char call[] = "register_memory";
    const struct nigh_copies *copies = memory->copies;
    int rc;

    if (!copies || !memory->buffer)
        return nigh_refuse(context, -EINVAL, "%s: NIGH_REGISTER_COPIES without %s", call,
                           copies ? "a buffer of its own" : "copies");
    rc = nigh_check_struct(context, call, copies, copies->size, sizeof(*copies));
    if (rc)
        return rc;
    if (copies->reserved)
        return nigh_refuse_reserved(context, call);
    if (!copies->read || !copies->write)
        return nigh_refuse(context, -EINVAL, "%s: copies->%s is NULL", call, copies->read ? "write" : "read");
    return 0;
}

static int check_register(struct nigh_context *context, const struct nigh_register *memory, uint64_t key)
{
    static const char call[] = "register_memory";
    const uint32_t ways = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE;
    const uint32_t known =
        ways | NIGH_REGISTER_KEY | NIGH_REGISTER_EVENTS | NIGH_REGISTER_COPIES | NIGH_REGISTER_DEVICE;
    int rc = nigh_check_struct(context, call, memory, memory->size, sizeof(*memory));

    if (rc)
        return rc;
    if ((memory->copies && !(memory->flags & NIGH_REGISTER_COPIES)) ||
        (memory->context && !(memory->flags & NIGH_REGISTER_EVENTS)))
        return nigh_refuse_reserved(context, call);
    if (memory->flags & ~known)
        return nigh_refuse_flags(context, call, memory->flags, known);
    if (!(memory->flags & (ways | NIGH_REGISTER_DEVICE)))
        return nigh_refuse(context, -EINVAL,
                           "%s: flags 0x%x say neither NIGH_REMOTE_READ nor NIGH_REMOTE_WRITE", call,
                           memory->flags);
    if (memory->flags & NIGH_REGISTER_KEY && !(key & NIGH_KEY_CHOSEN))
        return nigh_refuse(context, -EINVAL,
                           "%s: the key 0x%llx lacks NIGH_KEY_CHOSEN, which all keys of hosts have", call,
                           (unsigned long long)key);
    if (!memory->bytes)
        return nigh_refuse(context, -EINVAL, "%s: 0 bytes: at least 1", call);
    /* MPIs open windows on whatever will be attached to them. */
    if (!memory->buffer && memory->bytes != UINT64_MAX)
        return nigh_refuse_null(context, call, memory->bytes);
    if (memory->flags & NIGH_REGISTER_DEVICE && (memory->flags & NIGH_REGISTER_COPIES || !memory->buffer))
        return nigh_refuse(context, -EINVAL, "%s: NIGH_REGISTER_DEVICE %s", call,
                           memory->buffer ? "with NIGH_REGISTER_COPIES: one of them"
                                          : "without a buffer of its own");
    return memory->flags & NIGH_REGISTER_COPIES ? check_copies(context, memory) : 0;
}

static int register_memory(struct nigh_context *context, const struct nigh_register *memory, uint64_t *key,
                           struct nigh_region **out)
{
    bool chosen = memory->flags & NIGH_REGISTER_KEY, tells = memory->flags & NIGH_REGISTER_EVENTS;
    struct nigh_cuda_memory *device = NULL;
    struct nigh_region *region;
    uint32_t flags = memory->flags;
    uint64_t offset;
    int rc = check_register(context, memory, *key);

    if (rc)
        return rc;
    nigh_log_use(&context->log);
    if (flags & NIGH_REGISTER_DEVICE) {
        rc = nigh_device_look(context, "register_memory", memory->buffer, memory->bytes, &device);
        if (rc)
            return rc;
        flags |= device ? NIGH_REGISTER_COPIES : 0;
    }
    rc = nigh_region_add(&context->regions, memory->buffer, memory->bytes, flags, chosen ? *key : 0, &region);
    if (rc)
        free(device);
    if (rc == -EEXIST)
        return nigh_refuse(context, rc,
                           "register_memory: the key 0x%llx is registered: deregister() it first",
                           (unsigned long long)*key);
    if (rc)
        return rc;
    region->context = memory->context;
    region->device = device;
    region->owner = context;
    if (device)
        nigh_device_region_add(context, region);
    else if (memory->copies)
        region->copies = *memory->copies;
    /* The table that peers look at is by slot, which a chosen key does not tell: those are asked for. So are those
     * whose reading is to be told of. */
    if (memory->flags & NIGH_REMOTE_READ && !chosen && !tells && !memory->copies && !device &&
        nigh_heap_find(context->heap, memory->buffer, memory->bytes, &offset) == 0)
        nigh_shown_add(&context->arena, context->heap, region, offset);
    *key = region->key;
    *out = region;
    return 0;
}

static int deregister(struct nigh_context *context, struct nigh_region *region)
{
    int rc = nigh_remote_check(context, region);

    if (rc == -EINVAL)
        return nigh_refuse(context, rc, "deregister: nothing is registered as %p, or no longer",
                           (void *)region);
    if (rc)
        return rc;
    nigh_log_use(&context->log);
    nigh_shown_remove(&context->arena, region);
    nigh_device_region_remove(context, region);
    return 0;
}

static int entry_register(struct nigh_context *context, const struct nigh_register *memory, uint64_t *key,
                          struct nigh_region **out)
{
    if (!context || !memory || !key || !out)
        return nigh_refuse_missing("register_memory");
    return NIGH_GUARDED(context, register_memory(context, memory, key, out));
}

static int entry_deregister(struct nigh_context *context, struct nigh_region *region)
{
    if (!context || !region)
        return nigh_refuse_missing("deregister");
    return NIGH_GUARDED(context, deregister(context, region));
}

/* By itself, as it keeps registers that an empty poll need not save. */
static __attribute__((noinline)) int guarded_poll(struct nigh_context *context, struct nigh_completion *out,
                                                  uint32_t count)
{
    return NIGH_GUARDED(context, nigh_poll_shared(context, out, count));
}

static int entry_poll(struct nigh_context *context, struct nigh_completion *out, uint32_t count)
{
    if (__builtin_expect(!context || (!out && count), 0))
        return nigh_refuse_missing("poll_completions");
    if (__builtin_expect(context->guard != 0, 0))
        return guarded_poll(context, out, count);
    return nigh_poll(context, out, count);
}

static int entry_take(struct nigh_context *context, struct nigh_taken *out, uint32_t count)
{
    if (__builtin_expect(!context || !out, 0))
        return nigh_refuse_missing("take_completions");
    if (__builtin_expect(context->guard != 0, 0))
        return context->guard & NIGH_GUARD_FORKED ? nigh_refuse_child(context) : -ENOTSUP;
    return nigh_take(context, out, count);
}

static int entry_wait(struct nigh_context *context, uint64_t timeout_ns)
{
    if (!context)
        return nigh_refuse_missing("wait");
    return NIGH_GUARDED(context, nigh_wait(context, timeout_ns));
}

static int entry_wait_fd(struct nigh_context *context, int *fd)
{
    if (!context)
        return nigh_refuse_missing("wait_fd");
    return NIGH_GUARDED(context, nigh_wait_fd(context, fd));
}

static int entry_query(struct nigh_context *context, struct nigh_endpoint *endpoint, uint32_t what, void *out,
                       uint64_t *bytes)
{
    if (!out || !bytes || (endpoint && endpoint->context != context))
        return nigh_refuse_missing("query");
    if (!context)
        return nigh_query(NULL, NULL, what, out, bytes);
    return NIGH_GUARDED(context, nigh_query(context, endpoint, what, out, bytes));
}

static int check_address(struct nigh_context *context, const struct nigh_address *address)
{
    struct nigh_identity who;

    return nigh_rendezvous_parse(context->rendezvous, address, &who);
}

static int entry_check_address(struct nigh_context *context, const struct nigh_address *address)
{
    if (!context || !address)
        return nigh_refuse_missing("check_address");
    return NIGH_GUARDED(context, check_address(context, address));
}

static int entry_note(struct nigh_context *context, const struct nigh_note *note)
{
    if (!context || !note)
        return nigh_refuse_missing("note");
    return NIGH_GUARDED(context, nigh_note_set(context, note));
}

static int entry_nudge(struct nigh_endpoint *endpoint, uint64_t *number)
{
    if (!endpoint || !number)
        return nigh_refuse_missing("nudge");
    return NIGH_GUARDED(endpoint->context, nigh_endpoint_nudge(endpoint, number));
}

static const struct nigh_ops table = {
    .abi = NIGH_ABI,
    .size = sizeof(struct nigh_ops),
    .name = "nigh",
    .version = PACKAGE_VERSION,
    .description =
        "messages and remote memory between the processes of one machine, at the speed of its memory",
    .config_help = nigh_config_help,
    .open = entry_open,
    .close = entry_close,
    .address = entry_address,
    .connect = entry_connect,
    .disconnect = entry_disconnect,
    .post_send = entry_post_send,
    .post_recv = entry_post_recv,
    .probe = entry_probe,
    .claim = entry_claim,
    .cancel = entry_cancel,
    .post_put = entry_post_put,
    .post_get = entry_post_get,
    .post_atomic = entry_post_atomic,
    .post_lend = entry_post_lend,
    .release = entry_release,
    .post_collective = nigh_entry_post_collective,
    .group_create = nigh_entry_group_create,
    .group_free = nigh_entry_group_free,
    .heap_alloc = entry_heap_alloc,
    .heap_free = entry_heap_free,
    .register_memory = entry_register,
    .deregister = entry_deregister,
    .poll_completions = entry_poll,
    .wait = entry_wait,
    .wait_fd = entry_wait_fd,
    .query = entry_query,
    .check_address = entry_check_address,
    .note = entry_note,
    .nudge = entry_nudge,
    .inject = nigh_inject,
    .expect = nigh_expect,
    .inject_imm = nigh_inject_imm,
    .send_imm = nigh_send_imm,
    .recv_imm = nigh_recv_imm,
    .take_completions = entry_take,
    .cancel_unmatched = entry_cancel_unmatched,
    .query_group = nigh_entry_query_group,
    .group_end = nigh_entry_group_end,
    .copy_device = nigh_entry_copy_device,
};

__attribute__((visibility("default"))) const struct nigh_ops *nigh_transport(uint32_t abi)
{
    if (abi >> 16 != NIGH_ABI_MAJOR)
        return NULL;
    return &table;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/rma.c - put, get and atomics on windows, and waiting for them. */
#include "lib/block.h"
#include "lib/error.h"
#include "lib/line.h"
#include "lib/post.h"
#include "lib/type.h"
#include "lib/wait.h"
#include "lib/win.h"

#include <errno.h>
#include <string.h>

#define ROOM_NAP_NS UINT64_C(100000) /* no completion tells of room in a peer's queue */

/* One call: what it does where. */
struct access {
    struct nigh_call call;
    struct nigh_win *win;
    struct nigh_win_target *to;
    struct nigh_operation *operation;
    struct nigh_endpoint *endpoint;
    uint64_t offset;
    int target;
};

/* ---- operations of targets ---- */

static void ended(struct nigh_operation *operation, const struct nigh_completion *completion)
{
    struct nigh_win_target *to = operation->owner;

    if (to && completion->status && !to->error)
        to->error = completion->status;
    if (to)
        to->incoming -= completion->op != NIGH_OP_PUT;
    if (--operation->spare)
        return;
    operation->phase = NIGH_PHASE_DONE;
    if (!to)
        nigh_operation_give(operation);
}

/* The operation of a target that nothing was posted to yet. */
static int first_time(struct access *access)
{
    struct nigh_operation *operation =
        nigh_operation_new(access->call, NIGH_KIND_OTHER, access->win->comm, access->target, 0, NULL, 0,
                           NIGH_OP_WINDOW | NIGH_OP_RARE | NIGH_OP_HOOK);

    if (!operation)
        return -ENOMEM;
    operation->phase = NIGH_PHASE_DONE;
    operation->ended = ended;
    operation->owner = access->to;
    access->to->operation = operation;
    return 0;
}

/* What they would still write is the program's memory again. They fail at once, but for copies that another thread is at. */
static void stop_incoming(struct nigh_win_target *to)
{
    while (to->incoming && nigh_core.ops->cancel(nigh_core.context, (uintptr_t)to->operation) == 0)
        ;
    while (to->incoming)
        (void)nigh_poll();
}

void nigh_win_drop_targets(struct nigh_win *win)
{
    for (uint32_t i = 0; win->targets && i < win->comm->size; i++) {
        struct nigh_operation *operation = win->targets[i].operation;

        if (!operation)
            continue;
        stop_incoming(&win->targets[i]);
        operation->owner = NULL;
        if (operation->spare == 0)
            nigh_operation_give(operation);
        win->targets[i].operation = NULL;
    }
}

/* ---- checks ---- */

/* May `bytes` at the offset be touched? 1: there is nothing to do. */
static int check(struct access *access, int target, uint64_t offset, uint64_t bytes)
{
    int rc = nigh_win_check(access->call, access->win);

    if (rc)
        return rc;
    if (target == NIGH_PROC_NULL)
        return 1;
    if ((uint32_t)target >= access->win->comm->size)
        return nigh_fail(access->call, -ERANGE, "there is no rank %d in %s: its ranks are 0 to %u", target,
                         nigh_comm_text(access->win->comm).text, access->win->comm->size - 1);
    access->to = &access->win->targets[target];
    if (offset > access->to->bytes || bytes > access->to->bytes - offset)
        return nigh_fail(
            access->call, -ERANGE,
            "%llu bytes at offset %llu are beyond the memory of rank %d, which shows %llu bytes in %s",
            (unsigned long long)bytes, (unsigned long long)offset, target,
            (unsigned long long)access->to->bytes, nigh_win_text(access->win).text);
    access->target = target;
    access->offset = offset;
    if (bytes == 0)
        return 1;
    rc = nigh_comm_endpoint(access->call, access->win->comm, target, &access->endpoint);
    if (!rc && !access->to->operation)
        rc = first_time(access);
    access->operation = access->to->operation;
    return rc;
}

static int check_elements(struct access *access, int target, uint64_t offset, uint64_t count, int type)
{
    uint32_t width = nigh_type_width(type);

    if (width == 0)
        return nigh_fail(access->call, -EINVAL, "%d is no type: see enum nigh_type", type);
    if (type > NIGH_F64)
        return nigh_fail(access->call, -EINVAL, "%s is for collectives: windows take NIGH_I8 to NIGH_F64",
                         nigh_type_name(type).text);
    if (offset % width)
        return nigh_fail(access->call, -EINVAL, "offset %llu is not a multiple of the %u bytes of %s",
                         (unsigned long long)offset, width, nigh_type_name(type).text);
    return check(access, target, offset, count > UINT64_MAX / width ? UINT64_MAX : count * width);
}

static int check_buffer(const struct access *access, const void *buffer, const char *name)
{
    return buffer ? 0 : nigh_fail(access->call, -EFAULT, "%s is NULL", name);
}

/* ---- posts ---- */

struct post {
    struct access *access;
    const struct nigh_rma *put, *get;
    const struct nigh_atomic *atomic;
    int rc;
};

static int try_post(struct post *post)
{
    struct nigh_operation *operation = post->access->operation;
    struct nigh_endpoint *endpoint = post->access->endpoint;
    int rc;

    /* Before the post: it may complete inside of it. */
    operation->spare++;
    post->access->to->incoming += !post->put;
    operation->phase = NIGH_PHASE_ACTIVE;
    if (post->put)
        rc = nigh_core.ops->post_put(endpoint, post->put);
    else if (post->get)
        rc = nigh_core.ops->post_get(endpoint, post->get);
    else
        rc = nigh_core.ops->post_atomic(endpoint, post->atomic);
    if (!rc)
        return 0;
    post->access->to->incoming -= !post->put;
    if (--operation->spare == 0)
        operation->phase = NIGH_PHASE_DONE;
    return rc;
}

static int post_again(void *data)
{
    struct post *post = data;

    return post->rc = try_post(post);
}

static bool try_again(struct nigh_block *block)
{
    return nigh_block_try(block, post_again);
}

static int wait_for_room(struct post *post)
{
    struct access *access = post->access;
    struct nigh_block block = {
        .call = access->call,
        .kind = NIGH_BLOCK_ROOM,
        .operation = access->operation,
        .comm = access->win->comm,
        .peer = access->target,
        .over = try_again,
        .data = post,
        .timeout_ns = access->win->comm->timeout_ns,
        .nap_ns = ROOM_NAP_NS,
    };
    int rc = nigh_block_until(&block);

    if (rc && rc != -ETIMEDOUT)
        return rc; /* whoever found out has said it */
    if (rc)
        return nigh_fail(access->call, rc,
                         "rank %d does nothing of what it was asked for, and no more can be queued",
                         access->target);
    return post->rc;
}

static int say_refused(const struct access *access, int error)
{
    if (error == -ECONNRESET || error == -EPROTO)
        return nigh_fail(access->call, error, "%s", nigh_loss_text(access->win->comm, access->target).text);
    return nigh_fail(access->call, error, "rank %d, offset %llu of %s: %s", access->target,
                     (unsigned long long)access->offset, nigh_win_text(access->win).text, strerror(-error));
}

static int post_it(struct post post)
{
    int rc = try_post(&post);

    if (nigh_unlikely(rc == -EAGAIN))
        rc = wait_for_room(&post);
    else if (nigh_unlikely(rc != 0))
        rc = say_refused(post.access, rc);
    return rc;
}

static int put_or_get(struct access *access, void *origin, uint64_t bytes, bool put)
{
    struct nigh_rma rma = {.size = sizeof(rma),
                           .buffer = origin,
                           .bytes = bytes,
                           .offset = access->offset,
                           .key = access->to->key,
                           .context = (uintptr_t)access->operation};

    return post_it((struct post){.access = access, .put = put ? &rma : NULL, .get = put ? NULL : &rma});
}

static const uint8_t *move(const void *at, uint64_t bytes)
{
    return at ? (const uint8_t *)at + bytes : NULL;
}

/* As many posts as it takes. */
static int atomics(struct access *access, const void *origin, const void *compare, uint64_t count, int type,
                   void *result, int op)
{
    uint32_t width = nigh_type_width(type), most = NIGH_ATOMIC_BYTES / width;
    int rc = 0;

    for (uint64_t done = 0; !rc && done < count; done += most) {
        struct nigh_atomic atomic = {.size = sizeof(atomic),
                                     .op = (uint16_t)op,
                                     .type = (uint16_t)type,
                                     .count = count - done < most ? (uint32_t)(count - done) : most,
                                     .operand = op == NIGH_READ ? NULL : move(origin, done * width),
                                     .compare = move(compare, done * width),
                                     .result = (void *)(uintptr_t)move(result, done * width),
                                     .offset = access->offset + done * width,
                                     .key = access->to->key,
                                     .context = (uintptr_t)access->operation};

        rc = post_it((struct post){.access = access, .atomic = &atomic});
    }
    return rc;
}

/* ---- the calls ---- */

static int move_bytes(struct nigh_call call, void *origin, uint64_t bytes, int target, uint64_t offset,
                      struct nigh_win *win, bool put)
{
    struct access access = {.call = call, .win = win};
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = check(&access, target, offset, bytes);
    if (!rc)
        rc = check_buffer(&access, origin, "origin");
    if (!rc)
        rc = put_or_get(&access, origin, bytes, put);
    nigh_leave();
    return rc > 0 ? 0 : rc;
}

NIGH_PUBLIC int nigh_put(const void *origin, uint64_t bytes, int target, uint64_t offset,
                         struct nigh_win *win)
{
    return move_bytes(NIGH_CALL("nigh_put"), (void *)(uintptr_t)origin, bytes, target, offset, win, true);
}

NIGH_PUBLIC int nigh_get(void *origin, uint64_t bytes, int target, uint64_t offset, struct nigh_win *win)
{
    return move_bytes(NIGH_CALL("nigh_get"), origin, bytes, target, offset, win, false);
}

static int check_op(const struct access *access, int op, int type, bool fetches)
{
    if (nigh_accumulates(op, type) || op == NIGH_WRITE || (fetches && op == NIGH_READ))
        return 0;
    return nigh_fail(
        access->call, -EOPNOTSUPP,
        "%s is not defined for %s here: sum, product, minimum, maximum and NIGH_WRITE are for all "
        "types, logical and bitwise operations for integers, NIGH_READ is for nigh_get_accumulate",
        nigh_reduction_name(op).text, nigh_type_name(type).text);
}

static int accumulate(struct nigh_call call, const void *origin, uint64_t count, int type, void *result,
                      bool fetches, int target, uint64_t offset, int op, struct nigh_win *win)
{
    struct access access = {.call = call, .win = win};
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = check_elements(&access, target, offset, count, type);
    if (!rc)
        rc = check_op(&access, op, type, fetches);
    if (!rc && op != NIGH_READ)
        rc = check_buffer(&access, origin, "origin");
    if (!rc && fetches)
        rc = check_buffer(&access, result, "result");
    if (!rc)
        rc = atomics(&access, origin, NULL, count, type, result, op);
    nigh_leave();
    return rc > 0 ? 0 : rc;
}

NIGH_PUBLIC int nigh_accumulate(const void *origin, uint64_t count, int type, int target, uint64_t offset,
                                int op, struct nigh_win *win)
{
    return accumulate(NIGH_CALL("nigh_accumulate"), origin, count, type, NULL, false, target, offset, op,
                      win);
}

NIGH_PUBLIC int nigh_get_accumulate(const void *origin, uint64_t count, int type, void *result, int target,
                                    uint64_t offset, int op, struct nigh_win *win)
{
    return accumulate(NIGH_CALL("nigh_get_accumulate"), origin, count, type, result, true, target, offset, op,
                      win);
}

NIGH_PUBLIC int nigh_compare_and_swap(const void *origin, const void *compare, void *result, int type,
                                      int target, uint64_t offset, struct nigh_win *win)
{
    struct access access = {.call = NIGH_CALL("nigh_compare_and_swap"), .win = win};
    int rc = nigh_enter(access.call);

    if (rc)
        return rc;
    rc = check_elements(&access, target, offset, 1, type);
    if (!rc)
        rc = check_buffer(&access, origin, "origin");
    if (!rc)
        rc = check_buffer(&access, compare, "compare");
    if (!rc)
        rc = check_buffer(&access, result, "result");
    if (!rc)
        rc = atomics(&access, origin, compare, 1, type, result, NIGH_CSWAP);
    nigh_leave();
    return rc > 0 ? 0 : rc;
}

/* ---- waiting ---- */

static int say_failed(struct nigh_call call, const struct nigh_win *win, int target, int error)
{
    if (error == -ECONNRESET || error == -EPROTO)
        return nigh_fail(call, error, "operations on rank %d through %s are lost: %s", target,
                         nigh_win_text(win).text, nigh_loss_text(win->comm, target).text);
    return nigh_fail(call, error, "an operation on rank %d through %s has failed: %s", target,
                     nigh_win_text(win).text, strerror(-error));
}

int nigh_win_await(struct nigh_call call, struct nigh_win *win, int target)
{
    struct nigh_win_target *to = &win->targets[target];
    int rc;

    if (!to->operation)
        return 0;
    rc = nigh_wait_one(call, to->operation, win->comm->timeout_ns);
    if (rc == -ETIMEDOUT)
        return nigh_fail(call, rc, "timed out: %llu operations on rank %d through %s are not complete; %s",
                         (unsigned long long)to->operation->spare, target, nigh_win_text(win).text,
                         nigh_missing_text(win->comm, target).text);
    if (rc)
        return rc;
    rc = to->error;
    to->error = 0;
    return rc ? say_failed(call, win, target, rc) : 0;
}

int nigh_win_await_all(struct nigh_call call, struct nigh_win *win)
{
    int first = 0;

    for (int target = 0; target < (int)win->comm->size; target++) {
        int rc = nigh_win_await(call, win, target);

        first = first ? first : rc;
    }
    return first;
}

static int flush(struct nigh_call call, int target, struct nigh_win *win)
{
    int rc = nigh_win_check(call, win);

    if (rc || target == NIGH_PROC_NULL)
        return rc;
    if (target == NIGH_ANY_SOURCE)
        return nigh_win_await_all(call, win);
    if ((uint32_t)target >= win->comm->size)
        return nigh_fail(call, -ERANGE, "there is no rank %d in %s: its ranks are 0 to %u", target,
                         nigh_comm_text(win->comm).text, win->comm->size - 1);
    return nigh_win_await(call, win, target);
}

NIGH_PUBLIC int nigh_win_flush(int target, struct nigh_win *win)
{
    struct nigh_call call = NIGH_CALL("nigh_win_flush");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = flush(call, target, win);
    nigh_leave();
    return rc;
}

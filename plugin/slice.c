/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/slice.c - see slice.h. */
#include "plugin/slice.h"
#include "plugin/beside.h"
#include "shm/clock.h"
#include "shm/cma.h"
#include "shm/copy.h"
#include <errno.h>

/* The most that one of several threads takes at once: an eighth of what is left, between NIGH_SLICE_BYTES and this.
 * Small ones in the end, so that two end together, and few, as each costs 0.12 us; but where the CPUs have moved
 * apart one may take ten times as long. */
#define SLICE_BYTES_MAX (256u * 1024)
/* A thread that waits for its receive is back from a slice within a tenth of this. Behind it another one takes the
 * message over, with which the poster may come and help. */
#define AWAY_NS 2000u
/*
 * What a receiver that shares its CPU reads in one go out of a sender's process where nobody may help: between two
 * goes its host may give the CPU away, and others fill the caches. 8 ranks on 2 CPUs of an Emerald Rapids, Open MPI's
 * allgather by doubling, of its own, with 512 KiB and this: 1 MiB 1.07 and 1.03, 4 MiB 1.06 and 1.01; 8 MiB are no
 * better. What several read out of one place they read in small goes, one behind the other: a broadcast of 4 MiB 0.60
 * and, one run each, 0.73. Not on CPUs on which it was not measured.
 */
#define PLACE_TURN_BYTES (2u * 1024 * 1024)
static_assert(PLACE_TURN_BYTES % NIGH_HELP_SLICE_BYTES == 0,
              "behind each go its sender may still be asked to help");

bool nigh_slice_all_done(const struct nigh_message *message)
{
    return nigh_load_acquire(&message->copiers, SLICE_SEE) == 0 && !nigh_help_writes(message);
}

/*
 * Another thread than the one that has posted the receive runs on another CPU, mostly, and writes a buffer that the
 * poster's cache has. On the same L3 that is as well as any way, and leaves the bytes near; across two the lines are
 * taken away one by one, and to write past the cache takes two thirds of the time (docs/rationale/progress-thread.md).
 * Which it is changes while programs run, so both ways are timed.
 */
bool nigh_slice_is_anothers(const struct nigh_message *message)
{
    const struct nigh_context *context = message->endpoint->context;

    return context->guard & NIGH_GUARD_THREADS && message->recv && message->recv->poster != context->inside;
}

bool nigh_slice_is_ours(struct nigh_message *message)
{
    if (!nigh_slice_is_anothers(message) || message->taken_over)
        return true;
    if (!nigh_slice_all_done(message) || nigh_clock_ns() - nigh_load_relaxed(&message->touched) < AWAY_NS)
        return false;
    message->taken_over = true;
    return true;
}

static void choose_kernel(struct nigh_slice *slice)
{
    struct nigh_context *context = slice->message->endpoint->context;
    nigh_copy_fn past = nigh_copy_select(NIGH_COPY_NT);
    uint64_t bytes = slice->message->wanted;
    enum nigh_copy_kernel kernel = slice->message->refer == NIGH_REFER_CMA
                                       ? nigh_context_program_kernel(context, bytes)
                                       : nigh_context_kernel(context, bytes);

    /* Others teach nothing, so a trial must not fall on one. */
    slice->timed = slice->bytes % NIGH_SLICE_BYTES == 0 && nigh_slice_is_anothers(slice->message);
    slice->past = slice->timed && past && nigh_far_choose(&context->far, &slice->trial);
    if (slice->trial) /* the other way may take ten times as long */
        slice->bytes = NIGH_SLICE_BYTES;
    slice->kernel = slice->past ? past : nigh_copy_select(kernel);
}

static int place(struct nigh_slice *slice)
{
    struct nigh_message *message = slice->message;
    struct nigh_endpoint *endpoint = message->endpoint;

    slice->to = message->to + message->got;
    slice->from = message->where + message->got;
    if (message->refer == NIGH_REFER_CMA) {
        slice->pid = endpoint->pid;
        slice->at = nigh_program_at(&endpoint->program, slice->from, slice->bytes);
    } else {
        slice->at = nigh_view_at(&endpoint->view, slice->from, slice->bytes);
        if (!slice->at)
            return -EIO;
    }
    if (slice->at)
        choose_kernel(slice);
    return 0;
}

/* What lies in its process, of a peer that has ended. Looked at before a slice is taken, by which it would be offered anew. */
static bool is_out_of_reach(const struct nigh_message *message)
{
    return message->refer == NIGH_REFER_CMA && message->endpoint->state >= NIGH_PEER_CLOSED;
}

bool nigh_slice_take(struct nigh_message *message, uint64_t most, struct nigh_slice *slice)
{
    uint64_t left = message->wanted - message->got;
    int rc = nigh_load_relaxed(&message->failed);

    *slice = (struct nigh_slice){.message = message, .bytes = left < most ? left : most};
    slice->posters =
        message->endpoint->context->guard & NIGH_GUARD_THREADS && !nigh_slice_is_anothers(message);
    if (!rc && is_out_of_reach(message))
        rc = -ECONNRESET;
    if (!rc && message->offer)
        slice->bytes = nigh_help_take(message);
    if (!rc && slice->bytes)
        rc = place(slice);
    if (rc) {
        nigh_help_withdraw(message);
        nigh_store_relaxed(&message->failed, rc);
        slice->bytes = 0;
    }
    message->got += slice->bytes;
    if (slice->bytes)
        nigh_fetch_add_release(&message->copiers, 1, SLICE_DONE);
    return slice->bytes != 0;
}

void nigh_slice_copy(struct nigh_slice *slice)
{
    struct nigh_message *message = slice->message;
    uint64_t start = slice->timed ? nigh_clock_ns() : 0;
    int rc = 0;

    if (slice->at)
        slice->kernel(slice->to, slice->at, slice->bytes);
    else
        rc = nigh_cma_read(slice->pid, slice->to, slice->from, slice->bytes);
    if (rc)
        nigh_store_relaxed(&message->failed, rc);
    if (slice->posters)
        nigh_store_relaxed(&message->touched, nigh_clock_ns());
    /* Two that copy hold each other up, which says nothing about the way. */
    slice->timed &= nigh_fetch_add_release(&message->copiers, UINT32_MAX, SLICE_DONE) == 1;
    /* Not before that: a fence is over before the stores past the cache that it holds back, for
     * which what comes next waits. */
    if (slice->timed)
        slice->ns = (nigh_clock_ns() - start) * NIGH_SLICE_BYTES / slice->bytes;
}

void nigh_slice_learn(struct nigh_context *context, const struct nigh_slice *slice)
{
    for (uint64_t at = 0; slice->timed && at < slice->bytes; at += NIGH_SLICE_BYTES)
        nigh_far_learn(&context->far, slice->past, slice->trial, slice->ns);
}

static bool cannot_be_helped(const struct nigh_message *message)
{
    const struct nigh_context *context = message->endpoint->context;

    return message->refer == NIGH_REFER_CMA && context->crowd.full && nigh_plan_prefers_once(context) &&
           !nigh_help_may(message);
}

uint64_t nigh_slice_most(const struct nigh_message *message)
{
    const struct nigh_context *context = message->endpoint->context;
    uint64_t bytes = (message->wanted - message->got) / 8 / NIGH_SLICE_BYTES * NIGH_SLICE_BYTES;

    if (nigh_beside_is_on(context) && nigh_help_may(message))
        return nigh_help_slice_of(message->wanted, false);
    if (!(context->guard & NIGH_GUARD_THREADS))
        return cannot_be_helped(message) ? PLACE_TURN_BYTES : NIGH_TURN_BYTES;
    return bytes < NIGH_SLICE_BYTES ? NIGH_SLICE_BYTES : bytes < SLICE_BYTES_MAX ? bytes : SLICE_BYTES_MAX;
}

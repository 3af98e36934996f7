/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/run.c - see run.h. */
#include "plugin/run.h"
#include "plugin/beside.h"
#include "plugin/context.h"
#include "plugin/help.h"
#include "plugin/pulls.h"
#include "shm/cma.h"
#include "shm/copy.h"

bool nigh_run_add(struct nigh_run *run, const void *here, uint64_t there, uint64_t bytes)
{
    if (run->count == NIGH_RUN_MESSAGES || (run->count && run->bytes + bytes > NIGH_RUN_BYTES))
        return false;
    run->here[run->count] = (struct iovec){.iov_base = (void *)(uintptr_t)here, .iov_len = bytes};
    run->there[run->count++] = (struct iovec){.iov_base = (void *)(uintptr_t)there, .iov_len = bytes};
    run->bytes += bytes;
    return true;
}

/* Short, and nobody else is asked to copy it. */
static bool may_go_in_run(const struct nigh_message *message)
{
    return !message->offer && nigh_help_is_short(message) && nigh_help_may(message);
}

/* Where the program's memory is mapped. False: it is not, or not all of it. */
static bool read_mapped(const struct nigh_endpoint *endpoint, const struct nigh_run *run)
{
    nigh_copy_fn copy =
        nigh_copy_select(nigh_context_program_kernel(endpoint->context, run->here[0].iov_len));

    for (uint32_t i = 0; i < run->count; i++) {
        uint64_t bytes = run->here[i].iov_len;
        const void *at = nigh_program_at(&endpoint->program, (uintptr_t)run->there[i].iov_base, bytes);

        if (!at)
            return false;
        copy(run->here[i].iov_base, at, bytes);
    }
    return true;
}

/* One by one, to know which. */
static void read_each(struct nigh_message *const *messages, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct nigh_message *message = messages[i];
        int rc = nigh_cma_read(message->endpoint->pid, message->to, message->where, message->wanted);

        if (rc)
            nigh_store_relaxed(&message->failed, rc);
    }
}

/* Half of what is left: the other one may be asked to copy what follows. */
static uint32_t most_of(const struct nigh_context *context)
{
    return (context->pulls_count + 1) / 2;
}

/* The first of a run. One that is there alone both copy half of, if the other one has nothing else. */
static bool begins(const struct nigh_context *context)
{
    const struct nigh_message *message = context->pulls;

    return message && may_go_in_run(message) && (message->next || message->endpoint->offered_count);
}

uint64_t nigh_run_read(struct nigh_context *context)
{
    struct nigh_message *message = context->pulls, *messages[NIGH_RUN_MESSAGES];
    const struct nigh_endpoint *endpoint;
    uint32_t most = most_of(context);
    struct nigh_run run = {.count = 0};

    if (!nigh_beside_is_on(context) || !begins(context))
        return 0;
    endpoint = message->endpoint;
    while (message && run.count < most && message->endpoint == endpoint && may_go_in_run(message)) {
        struct nigh_message *next = message->next;

        if (!nigh_run_add(&run, message->to, message->where, message->wanted))
            break;
        messages[run.count - 1] = message;
        message->got = message->wanted;
        nigh_pulls_taken(message);
        message = next;
    }
    if (!read_mapped(endpoint, &run) &&
        nigh_cma_read_several(endpoint->pid, run.here, run.there, run.count, run.bytes))
        read_each(messages, run.count);
    return run.bytes;
}

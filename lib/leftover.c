/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/leftover.c - a request without a wait, a message without a receive: mistakes that nothing else tells of. */
#include "lib/leftover.h"
#include "lib/comm.h"
#include "lib/error.h"
#include "lib/held.h"
#include "lib/progress.h"
#include "lib/win.h"

/* Of each kind so many are named, the others counted. */
#define NAMED 10

static void count_rest(int found, const char *what)
{
    if (found > NAMED)
        nigh_say(NIGH_LOG_WARN, "and %d more %s", found - NAMED, what);
}

static const char *complaint(const struct nigh_operation *operation)
{
    if (operation->kind == NIGH_KIND_MATCHED)
        return "never received (nigh_mrecv)";
    if (operation->phase == NIGH_PHASE_INACTIVE)
        return "persistent request never freed (nigh_request_free)";
    return operation->phase == NIGH_PHASE_DONE ? "request never waited for, though it has ended"
                                               : "request never waited for, and not ended";
}

static void say_request(const struct nigh_operation *operation)
{
    nigh_say(NIGH_LOG_WARN, "%s: %s", complaint(operation), nigh_operation_text(operation).text);
}

static void say_light(uint64_t id, void *data)
{
    int *found = data;

    if ((*found)++ < NAMED)
        say_request(nigh_operation_of_light(id));
}

static int requests(void)
{
    int found = 0;

    for (uint32_t i = 0; i < nigh_core.operations_used; i++) {
        struct nigh_operation *operation = &nigh_core.operations[i];

        if (operation->phase == NIGH_PHASE_FREE || operation->flags & (NIGH_OP_INTERNAL | NIGH_OP_WINDOW) ||
            (operation->flags & NIGH_OP_DETACHED && operation->kind != NIGH_KIND_LEND))
            continue;
        if (found++ < NAMED)
            say_request(operation);
    }
    nigh_lights_each(say_light, &found);
    count_rest(found, "requests");
    return found;
}

static void comm(struct nigh_comm *comm, void *data)
{
    int *found = data;

    if (comm == nigh_core.world || comm == nigh_core.self)
        return;
    if ((*found)++ < NAMED)
        nigh_say(NIGH_LOG_WARN, "never freed (nigh_comm_free): %s", nigh_comm_text(comm).text);
}

int nigh_leftover_requests(void)
{
    int found = 0, left = requests();

    nigh_comms_each(comm, &found);
    count_rest(found, "communicators");
    return left + found + nigh_held_report() + nigh_win_report();
}

/* Takes it out of the queue, so that the next look finds the next one. */
static bool next_message(struct nigh_completion *found)
{
    struct nigh_message *message;

    return nigh_core.ops->probe(nigh_core.context, NULL, 0, NIGH_IGNORE_ALL, NIGH_CLASS_USER, found,
                                &message) == 0;
}

int nigh_leftover_messages(void)
{
    struct nigh_completion message;
    int found = 0;

    while (next_message(&message)) {
        struct nigh_comm *of = nigh_comm_by_id((uint32_t)(message.tag >> 32));
        int source = of && of->world && !of->inverse ? -1 : (int)message.source;

        if (of && of->endpoints)
            source = nigh_comm_rank_of(of, message.source);
        if (found++ < NAMED)
            nigh_say(NIGH_LOG_WARN, "never received: a message of %llu bytes from rank %d, tag %d, in %s",
                     (unsigned long long)message.bytes, source, (int)(uint32_t)message.tag,
                     of ? nigh_comm_text(of).text : "a communicator that was freed");
    }
    count_rest(found, "messages");
    return found;
}

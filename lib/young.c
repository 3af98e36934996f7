/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/young.c - head to head: two ranks that both send first and then receive. Each message says in its
 * immediate, of its sender, how many receives that could take the receiver's messages it had posted before. If
 * this rank's last blocking send to that rank is beyond these, and it went before the receive that has the
 * message now, both would wait for ever if sends waited.
 *
 * Counts are of posts, so a receive posted in time counts for its sender's good whatever it takes. Nothing is counted
 * on the short ways: the guard keeps all calls off them for the first messages, in which such a program shows itself.
 */
#include "lib/young.h"
#include "lib/comm.h"
#include "lib/error.h"

#include <stdlib.h>

enum { POSTS = 256 }; /* of this rank, until it is grown up */

#define MARK (UINT64_C(1) << 63) /* the immediate is ours, of a blocking send: bits 0..31 the count */

struct towards {
    uint32_t sent, received; /* posts so far; of receives those that name the rank */
    uint32_t last;           /* number of the last blocking send, 0: none */
    int32_t tag;
    uint64_t bytes;
    const char *site;
};

static struct towards *table; /* by rank of the world */
static uint32_t from_anyone, posts;
static bool warned;

void nigh_young_begin(void)
{
    if (nigh_core.threads || nigh_core.strict || nigh_core.ranks < 2)
        return;
    table = calloc((size_t)nigh_core.ranks, sizeof(*table));
    from_anyone = posts = 0;
    warned = false;
    if (table)
        nigh_core.guard |= NIGH_GUARD_YOUNG;
}

void nigh_young_end(void)
{
    nigh_core.guard &= ~(uint32_t)NIGH_GUARD_YOUNG;
    free(table);
    table = NULL;
}

static bool is_programs(const struct nigh_operation *operation)
{
    return !(operation->flags & (NIGH_OP_INTERNAL | NIGH_OP_WINDOW)) && operation->comm->size > 1;
}

static void post_send(struct nigh_operation *operation, struct towards *to)
{
    to->sent++;
    if (!(operation->flags & NIGH_OP_BLOCKING) || operation->kind != NIGH_KIND_SEND)
        return;
    to->last = to->sent;
    to->tag = operation->tag;
    to->bytes = operation->bytes;
    to->site = operation->site;
    operation->imm = MARK | (to->received + from_anyone);
}

static void post_recv(struct nigh_operation *operation)
{
    operation->flags |= NIGH_OP_RARE;
    if (operation->peer == NIGH_ANY_SOURCE) {
        from_anyone++;
        return;
    }
    table[nigh_comm_to_world(operation->comm, operation->peer)].received++;
}

void nigh_young_post_it(struct nigh_operation *operation)
{
    if (!is_programs(operation))
        return;
    if (operation->kind <= NIGH_KIND_LEND)
        post_send(operation, &table[nigh_comm_to_world(operation->comm, operation->peer)]);
    else
        post_recv(operation);
    if (++posts == POSTS)
        nigh_young_end();
}

/* Only blocking receives are judged: of others it is not known what came between their post and their end. */
void nigh_young_came_it(const struct nigh_operation *operation, uint64_t imm)
{
    const struct towards *to;

    if (warned || !(imm & MARK) || !is_programs(operation) || !(operation->flags & NIGH_OP_BLOCKING) ||
        operation->error || operation->source < 0)
        return;
    to = &table[nigh_comm_to_world(operation->comm, operation->source)];
    if (to->last <= (uint32_t)imm)
        return;
    warned = true;
    nigh_say(
        NIGH_LOG_WARN,
        "nigh_send%s of %llu bytes to rank %d, tag %d, came back only because the message was small enough "
        "to be buffered: rank %d was sending, too (%llu bytes, tag %d), and each receives afterwards. With "
        "larger messages, or with NIGH_STRICT=1, both wait for ever: use nigh_sendrecv, nigh_isend, or let "
        "one of them receive first",
        nigh_where(to->site).text, (unsigned long long)to->bytes, operation->source, to->tag,
        operation->source, (unsigned long long)operation->done_bytes, operation->done_tag);
}

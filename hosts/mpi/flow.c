/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/flow.c - see flow.h. */
#include "hosts/mpi/flow.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/copy.h"
#include "hosts/mpi/log.h"

#include <errno.h>
#include <string.h>

/* From so many bytes of results, of all ranks together, copies go past the caches: where ranks read vectors of their
 * own as well, and where they only write. */
#define PAST_ADDED   (8u << 20)
#define PAST_WRITTEN (32u << 20)
#define ROOTS        NIGH_MPI_CHILDREN /* the source that is the root, behind the children */

static bool is_root(const struct nigh_mpi_flow *flow)
{
    return flow->group->me == flow->root;
}

bool nigh_mpi_flow_reads(const struct nigh_mpi_flow *flow)
{
    return flow->up || is_root(flow);
}

bool nigh_mpi_flow_writes(const struct nigh_mpi_flow *flow)
{
    return flow->up ? flow->down || is_root(flow) : !is_root(flow);
}

static uint64_t length(const struct nigh_mpi_flow *flow, uint64_t part)
{
    uint64_t left = flow->bytes - part * flow->part;

    return left < flow->part ? left : flow->part;
}

/* ---- what is waited for -------------------------------------------------------------------------------- */

static struct nigh_mpi_arrival *arrival_of(const struct nigh_mpi_flow *flow, int source, uint64_t part)
{
    return &flow->group->arrivals[source][part % NIGH_MPI_AHEAD];
}

static int rank_of(const struct nigh_mpi_flow *flow, int source)
{
    return source == ROOTS ? flow->root : flow->tree.children[source];
}

static int expect(struct nigh_mpi_flow *flow, int source, uint64_t part)
{
    struct nigh_mpi_arrival *arrival = arrival_of(flow, source, part);

    if (part >= flow->parts)
        return 0;
    arrival->from = flow->group->peers[rank_of(flow, source)];
    return nigh_mpi_session_expect(arrival, NIGH_MPI_SLOT_BYTES, flow->group->tag);
}

/* 1: it is there; 0: not yet; or its error. */
static int look(const struct nigh_mpi_flow *flow, int source, uint64_t part)
{
    const struct nigh_mpi_arrival *arrival = arrival_of(flow, source, part);
    int rank = rank_of(flow, source);

    if (arrival->status < 0) {
        nigh_mpi_log("%s of %llu bytes: rank %d of its communicator is gone: %s", flow->what,
                     (unsigned long long)flow->bytes, rank, strerror(-arrival->status));
        return arrival->status;
    }
    if (!arrival->data)
        return 0;
    if (arrival->total == flow->bytes && arrival->bytes == length(flow, part))
        return 1;
    nigh_mpi_log(
        "%s of %llu bytes: rank %d of its communicator takes part with %llu: give all ranks the same count",
        flow->what, (unsigned long long)flow->bytes, rank, (unsigned long long)arrival->total);
    return -EMSGSIZE;
}

static int give_back(struct nigh_mpi_flow *flow, int source, uint64_t part)
{
    nigh_mpi_session_give_back(arrival_of(flow, source, part));
    return expect(flow, source, part + NIGH_MPI_AHEAD);
}

/* ---- what is lent -------------------------------------------------------------------------------------- */

static bool lends(const struct nigh_mpi_flow *flow)
{
    return flow->down || !is_root(flow);
}

static struct nigh_mpi_slot *next_slot(const struct nigh_mpi_flow *flow)
{
    return &flow->group->slots[flow->group->used % NIGH_MPI_SLOTS];
}

static int lend(struct nigh_mpi_flow *flow, int rank, uint64_t bytes)
{
    struct nigh_mpi_group *group = flow->group;

    return nigh_mpi_session_lend(group->peers[rank], next_slot(flow), bytes, flow->bytes, group->tag);
}

/* The part that now lies in the slot: to the parent, or from the root to all. */
static int hand_on(struct nigh_mpi_flow *flow, uint64_t bytes)
{
    int rc = 0;

    if (!is_root(flow)) {
        rc = lend(flow, flow->tree.parent, bytes);
    } else {
        for (int i = 1; i < flow->group->ranks && !rc; i++)
            rc = lend(flow, (flow->root + i) % flow->group->ranks, bytes);
    }
    flow->group->used++;
    return rc;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static void keep(const struct nigh_mpi_flow *flow, uint64_t part, const void *from)
{
    char *to = flow->out + part * flow->part;
    uint64_t bytes = length(flow, part);

    if (flow->bytes * (unsigned)flow->group->ranks >= (flow->up ? PAST_ADDED : PAST_WRITTEN))
        nigh_mpi_copy_past(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* sum = child + own; own may be sum already. */
static int add(const struct nigh_mpi_flow *flow, char *sum, const void *child, const char *own,
               uint64_t bytes)
{
    uint64_t count = bytes / flow->extent;

    if (flow->add) {
        flow->add(sum, child, own, count);
        return 0;
    }
    if (sum != own)
        memcpy(sum, own, bytes);
    return nigh_mpi_calls()->Reduce_local(child, sum, (int)count, flow->type, flow->op) ? -EIO : 0;
}

static int add_children(struct nigh_mpi_flow *flow, char *sum, const char *own, uint64_t bytes)
{
    int rc = 0;

    for (int c = 0; c < flow->tree.count && !rc; c++) {
        rc = add(flow, sum, arrival_of(flow, c, flow->sent)->data, c ? sum : own, bytes);
        if (!rc)
            rc = give_back(flow, c, flow->sent);
    }
    return rc;
}

/* 1: all of them have lent theirs. */
static int look_at_children(const struct nigh_mpi_flow *flow)
{
    int ready = 1;

    for (int c = 0; c < flow->tree.count && ready > 0; c++)
        ready = look(flow, c, flow->sent);
    return ready;
}

static int fill(struct nigh_mpi_flow *flow)
{
    uint64_t at = flow->sent * flow->part, bytes = length(flow, flow->sent);
    char *sum = lends(flow) ? next_slot(flow)->memory : flow->out + at;
    int rc = 0;

    if (flow->tree.count)
        rc = add_children(flow, sum, flow->in + at, bytes);
    else
        memcpy(sum, flow->in + at, bytes);
    if (!rc && is_root(flow) && flow->up && flow->down)
        keep(flow, flow->sent, sum);
    if (!rc && lends(flow))
        rc = hand_on(flow, bytes);
    flow->sent++;
    return rc < 0 ? rc : 1;
}

/* What this rank has to say: its own and its children's, or as the root of a broadcast its own. 1: something was
 * done. */
static int step_up(struct nigh_mpi_flow *flow)
{
    const struct nigh_mpi_slot *slot = next_slot(flow);
    int ready;

    if (flow->sent == flow->parts)
        return 0;
    if (lends(flow) && slot->lent.open)
        return 0;
    if (lends(flow) && slot->lent.status < 0) {
        nigh_mpi_log("%s of %llu bytes: a rank that was to read a part is gone: %s", flow->what,
                     (unsigned long long)flow->bytes, strerror(-slot->lent.status));
        return slot->lent.status;
    }
    ready = look_at_children(flow);
    return ready > 0 ? fill(flow) : ready;
}

static int step_down(struct nigh_mpi_flow *flow)
{
    int ready, rc;

    if (flow->came == flow->parts)
        return 0;
    ready = look(flow, ROOTS, flow->came);
    if (ready <= 0)
        return ready;
    keep(flow, flow->came, arrival_of(flow, ROOTS, flow->came)->data);
    rc = give_back(flow, ROOTS, flow->came);
    flow->came++;
    return rc < 0 ? rc : 1;
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static int begin(struct nigh_mpi_flow *flow)
{
    const struct nigh_mpi_group *group = flow->group;
    bool hears = flow->down && !is_root(flow);
    int rc = 0;

    if (flow->up)
        nigh_mpi_tree(group->chain, group->chains, group->ranks, flow->root, group->me, &flow->tree);
    flow->part = flow->up ? NIGH_MPI_PART_BYTES / flow->extent * flow->extent : NIGH_MPI_SLOT_BYTES;
    flow->parts = (flow->bytes + flow->part - 1) / flow->part;
    flow->sent = nigh_mpi_flow_reads(flow) ? 0 : flow->parts;
    flow->came = hears ? 0 : flow->parts;
    for (uint64_t part = 0; part < NIGH_MPI_AHEAD; part++) {
        for (int c = 0; c < flow->tree.count && !rc; c++)
            rc = expect(flow, c, part);
        if (hears && !rc)
            rc = expect(flow, ROOTS, part);
    }
    return rc;
}

/* 1: something was done; 0: nothing, and nothing has come. */
static int step(struct nigh_mpi_flow *flow)
{
    int up = step_up(flow), down = up < 0 ? up : step_down(flow);

    if (up < 0 || down < 0)
        return up < 0 ? up : down;
    return up || down ? 1 : nigh_mpi_session_poll();
}

static void count(const struct nigh_mpi_flow *flow)
{
    struct nigh_mpi_account *account = &nigh_mpi_session_account;

    account->reduces += flow->up && !flow->down;
    account->allreduces += flow->up && flow->down;
    account->broadcasts += !flow->up;
    account->bytes += flow->bytes;
}

/* What was lent must not wait at this side for calls that may not come: the program goes on with something else. */
static int let_out(struct nigh_mpi_flow *flow)
{
    struct nigh_mpi_group *group = flow->group;
    bool to_all = is_root(flow) && flow->down;
    int rc = 0;

    for (int r = 0; r < group->ranks && !rc; r++)
        if (r != group->me && (to_all || (!is_root(flow) && flow->up && r == flow->tree.parent)))
            rc = nigh_mpi_group_let_out(group, flow->what, group->peers[r]);
    return rc;
}

static int run(struct nigh_mpi_flow *flow)
{
    int rc = flow->group->broken ? -ECONNRESET : begin(flow);
    uint32_t empty = 0;

    while (rc >= 0 && (flow->sent < flow->parts || flow->came < flow->parts)) {
        rc = step(flow);
        empty = rc ? 0 : empty + 1;
        if (!rc)
            rc = nigh_mpi_group_idle(flow->group, flow->what, empty);
    }
    return rc < 0 ? rc : let_out(flow);
}

int nigh_mpi_flow_run(struct nigh_mpi_flow *flow)
{
    int rc;

    nigh_mpi_session_lock();
    count(flow);
    rc = run(flow);
    if (rc)
        nigh_mpi_group_give_up(flow->group);
    nigh_mpi_session_unlock();
    return rc;
}

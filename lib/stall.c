/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/stall.c - a call that has waited for long looks whether it waits in vain. The rank that blocks last closes a
 * circle, so its first look finds it; later looks are for what has changed since, and come ever less often.
 *
 * The lines say who is stuck; the nudges prove that nothing is under way (docs/memory-model.md,
 * "What two readings prove"). docs/diagnosis.md lists what a verdict takes for granted.
 */
#include "lib/block.h"
#include "lib/comm.h"
#include "lib/error.h"
#include "lib/near.h"
#include "lib/peer.h"
#include "lib/progress.h"
#include "lib/verdict.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#define PROOF_NS UINT64_C(400000000) /* for the answers to the nudges: some ranks have no CPU at the moment */
#define AGAIN_NS UINT64_C(5000000)   /* to the next try, the first time; doubled each time */
#define YIELD_NS UINT64_C(1000000)   /* that a detector that waits for answers yields before it sleeps */
#define NAP_NS   UINT64_C(500000)    /* then: nobody wakes it. Longer each time, up to the last */
#define LAST_NS  UINT64_C(8000000)

#define FAR_NS \
    UINT64_C(30000000000) /* a time-out further away than this is warned of: its own text comes late */

enum proof { UNPROVED = 0, PROVED };

/* What a look has found. Its graph is to be closed in any case. */
struct finding {
    struct nigh_graph graph;
    enum nigh_fate fate;
    bool proved;
};

/* The line of a witness, unless something has happened to it since it was judged. */
static bool is_unchanged(const struct nigh_vertex *vertex, struct nigh_note *now)
{
    return nigh_line_read(vertex->rank, now) == 0 && now->serial == vertex->note.serial;
}

static bool nudge_all(const struct nigh_graph *graph, uint64_t *numbers)
{
    struct nigh_call none = {"nigh", NULL};
    struct nigh_endpoint *endpoint;

    for (int i = 0; i < graph->count; i++)
        if (graph->vertices[i].witness && graph->vertices[i].doing != NIGH_DOING_GONE &&
            (nigh_peer_connect(none, graph->vertices[i].rank, &endpoint) ||
             nigh_core.ops->nudge(endpoint, &numbers[i])))
            return false;
    return true;
}

/* 1 all have answered, 0 not yet, -1 something has moved. */
static int answers(const struct nigh_graph *graph, const uint64_t *numbers)
{
    struct nigh_note now;
    int all = 1;

    for (int i = 0; i < graph->count; i++) {
        const struct nigh_vertex *vertex = &graph->vertices[i];

        if (!vertex->witness || vertex->doing == NIGH_DOING_GONE)
            continue;
        if (!is_unchanged(vertex, &now))
            return -1;
        if (now.checked < numbers[i])
            all = 0;
    }
    return all;
}

/* As answers(), waited for. */
static int ask(const struct nigh_graph *graph, uint64_t *numbers)
{
    uint64_t start = nigh_now_ns(), now = start, nap = NAP_NS;
    int answer;

    if (!nudge_all(graph, numbers))
        return -1;
    for (; (answer = answers(graph, numbers)) == 0 && now - start < PROOF_NS; now = nigh_now_ns()) {
        if (now - start < YIELD_NS) {
            (void)nigh_poll();
            sched_yield();
        } else {
            (void)nigh_progress_sleep(nap);
            nap = 2 * nap < LAST_NS ? 2 * nap : LAST_NS;
        }
        nigh_line_refresh(graph->block);
    }
    return answer;
}

/* Twice: who waits in a collective says whom it waits for only behind its first answer. They may have come since its line was written,
 * which moves nothing. */
static enum proof prove(struct nigh_graph *graph)
{
    uint64_t *numbers = calloc((size_t)graph->count, sizeof(*numbers));
    int answer = numbers ? ask(graph, numbers) : -1;

    if (answer == 1) {
        (void)nigh_poll(); /* which finds who has come to a group that still meets */
        nigh_line_refresh(graph->block);
        answer = ask(graph, numbers);
    }
    free(numbers);
    return answer == 1 ? PROVED : UNPROVED;
}

/* Nobody that `block` waits for can do anything for it any more. */
static int deserted(struct nigh_block *block, const struct nigh_graph *graph)
{
    struct nigh_sentence mine = nigh_line_text(nigh_core.rank, &graph->vertices[0].note);
    int first = -1, count = 0;

    for (int i = 1; i < graph->count; i++)
        if (graph->vertices[i].witness) {
            first = first < 0 ? i : first;
            count++;
        }
    if (first < 0)
        return 0;
    nigh_line_run(block);
    if (count == 1)
        return nigh_fail(block->call, -ECONNRESET, "%s and takes part in nothing more, but %s%s",
                         nigh_doing_text(graph->vertices[first].rank).text, mine.text,
                         nigh_near_text(block).text);
    return nigh_fail(block->call, -ECONNRESET,
                     "all %d ranks that could end this have left or are in nigh_finalize, but %s%s", count,
                     mine.text, nigh_near_text(block).text);
}

/* Those in the circle, or all witnesses. NULL: no memory. */
static struct nigh_vertex *pick(const struct nigh_graph *graph, bool witnesses, int *count)
{
    struct nigh_vertex *members = calloc((size_t)graph->count, sizeof(*members));

    *count = 0;
    for (int i = 0; members && i < graph->count; i++)
        if (witnesses ? graph->vertices[i].witness : graph->vertices[i].reaches)
            members[(*count)++] = graph->vertices[i];
    return members;
}

static int circle(struct nigh_block *block, const struct nigh_graph *graph)
{
    int count, rc;
    struct nigh_vertex *members = pick(graph, false, &count);

    if (!members)
        return 0;
    /* Whoever has read this rank's line must not take it for stuck any more: it sends now. */
    nigh_line_run(block);
    nigh_verdict_pass(graph);
    rc = nigh_verdict_say(block, members, count < 8 ? count : 8, count);
    free(members);
    return rc;
}

/* A deadlock that could not be proved is looked at again soon. */
static void set_next(struct nigh_block *block, bool unproved, bool incomplete)
{
    uint64_t now = nigh_now_ns(), again = AGAIN_NS << (block->tries < 8 ? block->tries : 8);

    if (unproved && again < block->look_every_ns) {
        block->tries++;
        block->look_ns = now + again;
        return;
    }
    block->tries = 0;
    /* Those that had not answered a first call when this rank looked do soon. */
    if (!incomplete || block->look_every_ns > 8 * nigh_core.stall_ns)
        block->look_every_ns *= 2;
    block->look_ns = now + block->look_every_ns;
}

/* No completion tells a probe from anyone that somebody has died, which ends it as a message would. */
static bool is_news_of_death(const struct nigh_block *block)
{
    if (block->kind != NIGH_BLOCK_PROBE || block->peer != NIGH_ANY_SOURCE)
        return false;
    nigh_peer_died(NIGH_SOURCE_NONE);
    return block->comm->deaths_untold != 0;
}

static void find(struct nigh_block *block, uint64_t after_ns, struct finding *out)
{
    *out = (struct finding){.fate = NIGH_FATE_OPEN};
    nigh_line_refresh(block);
    if (nigh_graph_open(&out->graph, block, after_ns) == 0)
        out->fate = nigh_graph_judge(&out->graph);
    out->proved = out->fate != NIGH_FATE_OPEN && prove(&out->graph) == PROVED;
}

struct sight {
    bool unproved;   /* there may be a deadlock, or was one */
    bool incomplete; /* a rank has not answered a first call yet */
    bool timed;      /* a rank waits with a time-out */
};

/* The verdict: of ranks that wait without an end alone, this one among them. */
static int judge(struct nigh_block *block, struct sight *sight)
{
    struct finding found;
    int rc = 0;

    *sight = (struct sight){.timed = block->timeout_ns != 0};
    if (sight->timed)
        return 0;
    find(block, UINT64_MAX, &found);
    if (found.proved)
        rc = found.fate == NIGH_FATE_CIRCLE ? circle(block, &found.graph) : deserted(block, &found.graph);
    sight->unproved = found.fate != NIGH_FATE_OPEN && !found.proved;
    sight->incomplete = found.graph.incomplete;
    for (int i = 0; i < found.graph.count; i++)
        sight->timed |= found.graph.vertices[i].note.until_ns != 0;
    nigh_graph_close(&found.graph);
    return rc;
}

/* The same of ranks that only time-outs will free, and not soon: no verdict, they go on then. True: it was said. */
static bool warn_of_clocks(struct nigh_block *block)
{
    struct nigh_vertex *members = NULL;
    struct finding found;
    bool timed = false;
    int count = 0;

    find(block, nigh_now_ns() + FAR_NS, &found);
    if (found.proved)
        members = pick(&found.graph, true, &count);
    for (int i = 0; members && i < count; i++)
        timed |= members[i].note.until_ns != 0;
    if (timed)
        nigh_verdict_warn(block, members, count);
    free(members);
    nigh_graph_close(&found.graph);
    return timed;
}

static bool is_far(const struct nigh_block *block)
{
    return !block->timeout_ns || block->since_ns + block->timeout_ns > nigh_now_ns() + FAR_NS;
}

static int look(struct nigh_block *block)
{
    struct sight sight;
    int rc;

    if (is_news_of_death(block))
        return 0;
    rc = judge(block, &sight);
    set_next(block, sight.unproved, sight.incomplete);
    if (!rc && !sight.unproved && !block->warned && is_far(block))
        block->warned = nigh_near_warn(block) || (sight.timed && warn_of_clocks(block));
    /* A nudge that came while this rank was looking was taken for an answer to its own. */
    return rc ? rc : nigh_verdict_hear(block, &(bool){false});
}

/* Those that wait for this rank, which does nothing any more but leave, blocked before it came here: they look now. */
static void ask_waiters(void)
{
    struct nigh_note note;

    for (int rank = 0; rank < nigh_core.ranks; rank++)
        if (rank != nigh_core.rank && (nigh_core.ranks <= 64 || nigh_core.endpoints[rank]) &&
            nigh_line_doing(rank, &note) == NIGH_DOING_WAITS && nigh_line_names(rank, &note, nigh_core.rank))
            nigh_verdict_ask(rank);
}

int nigh_block_look(struct nigh_block *block, uint64_t now_ns)
{
    if (nigh_core.leaving) {
        ask_waiters();
        block->look_every_ns *= 2;
        block->look_ns = now_ns + block->look_every_ns;
        return 0;
    }
    if (nigh_core.guard & NIGH_GUARD_THREADS) {
        block->warned |= is_far(block) && nigh_near_warn(block);
        block->look_every_ns *= 2;
        block->look_ns = block->warned ? UINT64_MAX : now_ns + block->look_every_ns;
        return 0;
    }
    return look(block);
}

int nigh_block_nudged(struct nigh_block *block)
{
    bool asked = false;
    int rc;

    if (nigh_core.guard & NIGH_GUARD_THREADS)
        return 0;
    rc = nigh_verdict_hear(block, &asked);
    return rc || !asked || nigh_core.leaving ? rc : look(block);
}

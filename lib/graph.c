/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/graph.c - a rank that waits for any of several is stuck when all of them are; one that waits for all of several
 * when one of them is; one whose wait the clock ends never is. The stuck ones are the greatest set of blocked ranks for which that holds: all are taken for
 * stuck, and those that are not are crossed out until nothing changes.
 */
#include "lib/graph.h"
#include "lib/progress.h"

#include <errno.h>
#include <stdlib.h>

#define MEET_NS UINT64_C(20000000) /* for ranks that this one has not met yet */

/* The next rank behind `from` that `vertex` waits for; -1: none is left. */
static int next_of(const struct nigh_vertex *vertex, int from)
{
    if (vertex->note.peer != NIGH_RANK_NONE) {
        int peer = vertex->note.peer < (uint32_t)nigh_core.ranks ? (int)vertex->note.peer : -1;

        return from < peer ? peer : -1;
    }
    for (int rank = from + 1; rank < nigh_core.ranks; rank++)
        if (nigh_line_names(vertex->rank, &vertex->note, rank))
            return rank;
    return -1;
}

static struct nigh_vertex *vertex_of(struct nigh_graph *graph, int rank)
{
    return graph->index[rank] ? &graph->vertices[graph->index[rank] - 1] : NULL;
}

/* A rank that was never met is connected to now, and may need a moment to answer. */
static enum nigh_doing look_at(struct nigh_graph *graph, int rank, struct nigh_note *note)
{
    enum nigh_doing doing;

    while ((doing = nigh_line_doing(rank, note)) == NIGH_DOING_UNKNOWN && nigh_now_ns() < graph->until) {
        (void)nigh_progress_sleep(500000);
        nigh_line_refresh(graph->block);
    }
    if (doing == NIGH_DOING_UNKNOWN)
        graph->incomplete = true;
    return doing;
}

static int add(struct nigh_graph *graph, int rank, struct nigh_vertex **out)
{
    struct nigh_vertex *vertex = vertex_of(graph, rank);

    if (!vertex) {
        if (graph->count == graph->room) {
            int room = graph->room ? 2 * graph->room : 16;
            struct nigh_vertex *more = realloc(graph->vertices, (size_t)room * sizeof(*more));

            if (!more)
                return -ENOMEM;
            graph->vertices = more;
            graph->room = room;
        }
        vertex = &graph->vertices[graph->count++];
        graph->index[rank] = graph->count;
        *vertex = (struct nigh_vertex){.rank = rank};
        vertex->doing = look_at(graph, rank, &vertex->note);
        vertex->stuck =
            vertex->doing > NIGH_DOING_WAITS ||
            (vertex->doing == NIGH_DOING_WAITS && nigh_line_outlasts(&vertex->note, graph->after_ns));
    }
    *out = vertex;
    return 0;
}

/* Adds those that vertex `at` waits for; where any would do, only up to the first that is free: one
 * is enough to know. */
static int expand(struct nigh_graph *graph, int at)
{
    bool all = nigh_line_is_all(&graph->vertices[at].note);
    struct nigh_vertex *other = NULL;

    for (int rank = -1; (rank = next_of(&graph->vertices[at], rank)) >= 0;) {
        int rc = add(graph, rank, &other);

        if (rc)
            return rc;
        if (!all && !other->stuck) {
            graph->vertices[at].stuck = false;
            return 0;
        }
    }
    return 0;
}

int nigh_graph_open(struct nigh_graph *graph, struct nigh_block *block, uint64_t after_ns)
{
    struct nigh_vertex *me;
    int rc;

    *graph = (struct nigh_graph){.block = block, .after_ns = after_ns, .until = nigh_now_ns() + MEET_NS};
    graph->index = calloc((size_t)nigh_core.ranks, sizeof(*graph->index));
    if (!graph->index)
        return -ENOMEM;
    rc = add(graph, nigh_core.rank, &me);
    for (int at = 0; !rc && at < graph->count && graph->vertices[0].stuck; at++)
        if (graph->vertices[at].doing == NIGH_DOING_WAITS && graph->vertices[at].stuck)
            rc = expand(graph, at);
    return rc;
}

void nigh_graph_close(struct nigh_graph *graph)
{
    free(graph->vertices);
    free(graph->index);
}

static bool is_away(const struct nigh_vertex *vertex)
{
    return vertex->doing == NIGH_DOING_LEAVING || vertex->doing == NIGH_DOING_GONE;
}

/* Does `holds` hold for all, or if the rank waits for all of several for one, of those that it waits for? */
static bool is_held(struct nigh_graph *graph, const struct nigh_vertex *vertex,
                    bool (*holds)(const struct nigh_vertex *other))
{
    bool all = nigh_line_is_all(&vertex->note), any = false;

    for (int rank = -1; (rank = next_of(vertex, rank)) >= 0;) {
        const struct nigh_vertex *other = vertex_of(graph, rank);
        bool yes = other && holds(other);

        any = true;
        if (yes == all)
            return all;
    }
    return any && !all;
}

static bool is_stuck(const struct nigh_vertex *vertex)
{
    return vertex->stuck;
}

static void cross_out(struct nigh_graph *graph)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < graph->count; i++) {
            struct nigh_vertex *vertex = &graph->vertices[i];

            if (vertex->stuck && vertex->doing == NIGH_DOING_WAITS && !is_held(graph, vertex, is_stuck)) {
                vertex->stuck = false;
                changed = true;
            }
        }
    }
}

/* Whoever is reached from this rank was expanded; of those the circle is who leads back. */
static void find_way_back(struct nigh_graph *graph)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < graph->count; i++) {
            struct nigh_vertex *vertex = &graph->vertices[i];

            if (vertex->reaches || !vertex->stuck || vertex->doing != NIGH_DOING_WAITS)
                continue;
            for (int rank = -1; !vertex->reaches && (rank = next_of(vertex, rank)) >= 0;) {
                const struct nigh_vertex *other = vertex_of(graph, rank);

                vertex->reaches = rank == nigh_core.rank || (other && other->reaches);
            }
            changed |= vertex->reaches;
        }
    }
}

/* Those away cannot end anybody's wait either, and are asked, too. */
static bool is_inside(const struct nigh_vertex *vertex)
{
    return vertex->reaches || is_away(vertex);
}

/* Does nobody outside of the circle matter? Others that are stuck will be told of their own circle,
 * and may go on then. */
static bool is_closed(struct nigh_graph *graph)
{
    if (!graph->vertices[0].reaches)
        return false;
    for (int i = 0; i < graph->count; i++)
        if (graph->vertices[i].reaches && !is_held(graph, &graph->vertices[i], is_inside))
            return false;
    return true;
}

static void mark_circle(struct nigh_graph *graph)
{
    for (int i = 0; i < graph->count; i++) {
        struct nigh_vertex *vertex = &graph->vertices[i];

        vertex->witness |= vertex->reaches;
        for (int rank = -1; vertex->reaches && (rank = next_of(vertex, rank)) >= 0;) {
            struct nigh_vertex *other = vertex_of(graph, rank);

            if (other && other->doing == NIGH_DOING_LEAVING)
                other->witness = true;
        }
    }
}

static void mark_deserters(struct nigh_graph *graph)
{
    for (int rank = -1; (rank = next_of(&graph->vertices[0], rank)) >= 0;) {
        struct nigh_vertex *other = vertex_of(graph, rank);

        if (other && is_away(other))
            other->witness = true;
    }
    graph->vertices[0].witness = true;
}

enum nigh_fate nigh_graph_judge(struct nigh_graph *graph)
{
    cross_out(graph);
    if (graph->vertices[0].doing != NIGH_DOING_WAITS || !graph->vertices[0].stuck)
        return NIGH_FATE_OPEN;
    if (is_held(graph, &graph->vertices[0], is_away)) {
        mark_deserters(graph);
        return NIGH_FATE_DESERTED;
    }
    find_way_back(graph);
    if (!is_closed(graph))
        return NIGH_FATE_OPEN;
    mark_circle(graph);
    return NIGH_FATE_CIRCLE;
}

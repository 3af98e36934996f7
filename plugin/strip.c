/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/strip.c - an endpoint whose peer is gone gives back descriptors, mappings, memory and its index at once: hosts
 * disconnect late, or never. What stays is what the host can still ask for: the state, the peer's last status line, and
 * messages, in private memory. One that lies in the peer's memory, as a lend does, pins all of it until the host has
 * received it or given it back.
 */
#include "plugin/context.h"
#include "plugin/progress.h"
#include "shm/note.h"
#include "shm/os.h"
#include "shm/rendezvous.h"
#include <errno.h>
#include <stdlib.h>

/* Read once, when the mapping goes. */
struct nigh_last_note {
    int rc;
    struct nigh_note note;
};

/* ---- what the host can still ask for ------------------------------------------------------------------- */

static bool keep_note(struct nigh_endpoint *endpoint)
{
    const uint8_t *arena = endpoint->view.base;
    struct nigh_last_note last = {.rc = -EAGAIN};

    if (!endpoint->attached)
        return true;
    last.rc = nigh_note_read((const void *)(arena + NIGH_PAGE + NIGH_NOTE_OFFSET), &last.note);
    if (!last.rc && last.note.state == NIGH_NOTE_NONE)
        return true;
    endpoint->last_note = malloc(sizeof(last));
    if (endpoint->last_note)
        *endpoint->last_note = last;
    return endpoint->last_note != NULL;
}

int nigh_endpoint_last_note(const struct nigh_endpoint *endpoint, struct nigh_note *out)
{
    if (!endpoint->last_note) {
        *out = (struct nigh_note){.size = sizeof(*out)};
        return 0;
    }
    *out = endpoint->last_note->note;
    return endpoint->last_note->rc;
}

static bool has_number(const struct nigh_endpoint *endpoint)
{
    return endpoint->index != NIGH_INDEX_NONE && endpoint->index >= endpoint->context->config.peers_max;
}

/* Of those whose messages have been received since. */
static void take_numbers_back(struct nigh_context *context)
{
    for (struct nigh_endpoint *endpoint = context->aside; endpoint; endpoint = endpoint->next_all) {
        if (!has_number(endpoint) || nigh_progress_is_unread(endpoint))
            continue;
        nigh_ids_give(&context->unread, endpoint->index - context->config.peers_max);
        endpoint->index = NIGH_INDEX_NONE;
    }
}

/* As many as there are indices: peers that come, send and go must not fill the memory of a host that does not receive. */
static bool take_number(struct nigh_endpoint *endpoint, uint32_t *index)
{
    struct nigh_context *context = endpoint->context;
    const struct nigh_ids *unread = &context->unread;
    uint32_t id;

    if (unread->next - unread->unused_count >= context->config.peers_max)
        take_numbers_back(context);
    if (unread->next - unread->unused_count >= context->config.peers_max ||
        nigh_ids_take(&context->unread, endpoint, &id))
        return false;
    *index = context->config.peers_max + id;
    return true;
}

static void renumber(struct nigh_endpoint *endpoint, uint32_t index)
{
    struct nigh_matcher *matcher = &endpoint->context->matcher;
    struct nigh_arrived *arrived = nigh_match_take_arrived(matcher, endpoint->index), *next;

    for (; arrived; arrived = next) {
        next = nigh_arrived_next(arrived);
        arrived->source = index;
        nigh_match_keep(matcher, arrived);
    }
}

/* Messages are found by the index, which is to be another endpoint's: those that wait get a number beyond all of these. Where
 * there is none left the index is given back when they have been received. */
static void give_index(struct nigh_endpoint *endpoint)
{
    uint32_t index = NIGH_INDEX_NONE;

    if (nigh_progress_is_unread(endpoint)) {
        if (!take_number(endpoint, &index))
            return;
        renumber(endpoint, index);
    }
    nigh_endpoint_give_index(endpoint->context, endpoint->index);
    endpoint->index = index;
}

static bool has_index(const struct nigh_endpoint *endpoint)
{
    return endpoint->index < endpoint->context->config.peers_max;
}

void nigh_endpoint_give_numbers(struct nigh_endpoint *endpoint)
{
    if (has_index(endpoint))
        nigh_endpoint_give_index(endpoint->context, endpoint->index);
    else if (has_number(endpoint))
        nigh_ids_give(&endpoint->context->unread, endpoint->index - endpoint->context->config.peers_max);
}

/* ---- giving back --------------------------------------------------------------------------------------- */

/* What still reads or writes lines of the pair, as a message does whose private memory goes back, finds these. */
static void vacate(struct nigh_endpoint *endpoint)
{
    struct nigh_pair *vacant = &endpoint->context->vacant;

    endpoint->pair = vacant;
    endpoint->rx = (struct nigh_ring_rx){.credit = &vacant->consumed};
    endpoint->tx = (struct nigh_ring_tx){.credit = &vacant->consumed};
    endpoint->ahead = endpoint->rx;
    endpoint->peer_asleep = (const uint32_t *)(const void *)&vacant->reserved1[0];
    endpoint->peer_cold = &vacant->cold;
    endpoint->peer_crammed = &vacant->crammed;
    endpoint->peer_closed = &vacant->closed;
    endpoint->peer_open = 0;
    endpoint->peer_life = &vacant->life;
    endpoint->peer_ended = &vacant->ended;
    endpoint->peer_reading = &vacant->reading;
    endpoint->peer_asks = &vacant->asks;
    endpoint->peer_maps = &vacant->maps;
    endpoint->peer_offered = vacant->offered;
    endpoint->peer_helped = vacant->helped;
    endpoint->peer_read_cost = vacant->read_cost;
    endpoint->ring_word = &vacant->ring;
    endpoint->met = NULL;
    endpoint->held = NULL;
    endpoint->knew = endpoint->attached;
    endpoint->attached = endpoint->can_post = endpoint->meets = false;
}

/* What is mapped needs none. A peer that lives is watched. */
static void close_descriptors(struct nigh_endpoint *endpoint)
{
    nigh_os_close_own(endpoint->window.fd, &endpoint->window.id);
    endpoint->window.fd = -1;
    if (endpoint->dead)
        nigh_rendezvous_forget(endpoint->context->rendezvous, endpoint);
}

void nigh_endpoint_strip(struct nigh_endpoint *endpoint)
{
    struct nigh_file_id id = endpoint->theirs.id;

    if (endpoint->state < NIGH_PEER_CLOSED || endpoint->gone || endpoint->self)
        return;
    if (endpoint->bare) {
        if (has_index(endpoint))
            give_index(endpoint);
        return;
    }
    /* It may do a little yet, and look at our pair's line: died() comes back for it. */
    if (endpoint->state == NIGH_PEER_DEAD && !endpoint->dead)
        return;
    if (endpoint->pins) {
        close_descriptors(endpoint);
        return;
    }
    if (!endpoint->last_note && !keep_note(endpoint))
        return;
    /* The peer may still wait for us to look our last. Before its index is another's, whose lines these then are. */
    nigh_endpoint_farewell(endpoint);
    give_index(endpoint);
    nigh_endpoint_release(endpoint);
    vacate(endpoint);
    endpoint->theirs.id = id; /* an old greeting of the peer's is known by it: nigh_peers_reads() */
    endpoint->bare = true;
    nigh_peers_set_aside(&endpoint->context->peers, endpoint);
}

/* ---- where they are ------------------------------------------------------------------------------------ */

static void move(struct nigh_endpoint *endpoint, struct nigh_endpoint **to, bool aside)
{
    endpoint->context->aside_count += (uint32_t)aside - (uint32_t)endpoint->aside;
    endpoint->aside = aside;
    *endpoint->link_all = endpoint->next_all;
    if (endpoint->next_all)
        endpoint->next_all->link_all = endpoint->link_all;
    endpoint->next_all = *to;
    endpoint->link_all = to;
    if (*to)
        (*to)->link_all = &endpoint->next_all;
    *to = endpoint;
}

void nigh_endpoint_set_aside(struct nigh_endpoint *endpoint)
{
    if (endpoint->bare && !has_index(endpoint))
        move(endpoint, &endpoint->context->aside, true);
}

void nigh_endpoint_take_back(struct nigh_endpoint *endpoint)
{
    move(endpoint, &endpoint->context->all, false);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/foe.c - an arena, a doorbell and a rendezvous, and no transport above them. */
#include "tests/support/foe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FOE_POOL = 1 << 20, FOE_HEAP = 1 << 20 };

static void must(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "foe: %s: %s\n", what, strerror(-rc));
    abort();
}

static int greeted(void *user, const struct nigh_hello *hello, uint32_t *index, int *window_fd, void **cookie)
{
    const struct foe *foe = user;

    (void)hello;
    *index = 0;
    *window_fd = foe->window.fd;
    *cookie = user;
    return 0;
}

static int attached(void *user, void *cookie, const struct nigh_attach *attach)
{
    struct foe *foe = user;

    (void)cookie;
    if (!foe->attached) {
        must(nigh_view_map(attach->arena_fd, attach->hello.self.incarnation, &foe->view), "view");
        must(nigh_window_map(attach->window_fd, &foe->theirs), "window");
        must(nigh_bell_map(attach->doorbell_fd, &foe->victim), "doorbell");
        foe->their_index = attach->hello.index;
        foe->own = (const void *)(foe->view.base + foe->view.layout.pairs_off +
                                  foe->their_index * sizeof(struct nigh_pair));
        foe->tx.credit = &foe->own->consumed;
        foe->attached = true;
    }
    close(attach->arena_fd);
    close(attach->doorbell_fd);
    close(attach->window_fd);
    return 0;
}

static void failed(void *user, void *cookie, const struct nigh_refusal *why)
{
    (void)user;
    (void)cookie;
    (void)why;
}

static void died(void *user, void *cookie)
{
    (void)user;
    (void)cookie;
}

static const struct nigh_rendezvous_events events = {greeted, attached, failed, died, NULL};

void foe_open(struct foe *foe, uint64_t job, uint32_t rank, uint64_t incarnation)
{
    struct nigh_arena_config arena = {
        .incarnation = incarnation ? incarnation : UINT64_C(0xf0e) << 32 | rank,
        .peers_max = 64,
        .pool_bytes = FOE_POOL,
        .heap_bytes = FOE_HEAP,
    };
    struct nigh_rendezvous_config config = {
        .self = {.job = job, .incarnation = arena.incarnation, .rank = rank},
        .peers_max = 64,
        .ranks = 64,
        .events = &events,
        .user = foe,
    };

    memset(foe, 0, sizeof(*foe));
    foe->job = job;
    foe->rank = rank;
    foe->incarnation = arena.incarnation;
    must(nigh_arena_create(&arena, &foe->arena), "arena");
    must(nigh_bell_create(64, &foe->bell), "doorbell");
    must(nigh_window_create(4096, &foe->window), "window");
    foe->pair = nigh_arena_pair(&foe->arena, 0);
    must(nigh_arena_commit(&foe->arena, foe->arena.layout.pool_off, FOE_POOL), "pool");
    must(nigh_arena_commit(&foe->arena, foe->arena.layout.heap_off, FOE_HEAP), "heap");
    foe->rx.credit = &foe->pair->consumed;
    config.arena_fd = foe->arena.fd;
    config.doorbell_fd = foe->bell.fd;
    must(nigh_rendezvous_open(&config, &foe->rendezvous), "rendezvous");
}

void foe_close(struct foe *foe)
{
    nigh_rendezvous_close(foe->rendezvous);
    if (foe->attached) {
        nigh_window_unmap(&foe->theirs);
        nigh_view_unmap(&foe->view);
        nigh_bell_close(&foe->victim);
    }
    nigh_bell_close(&foe->bell);
    nigh_window_close(&foe->window, &foe->arena);
    nigh_arena_destroy(&foe->arena);
}

void foe_dial(struct foe *foe, uint32_t rank)
{
    struct nigh_identity to = {.job = foe->job, .rank = rank};

    must(nigh_rendezvous_dial(foe->rendezvous, &to, 0, foe->window.fd, foe), "dial");
}

void foe_progress(struct foe *foe)
{
    nigh_rendezvous_progress(foe->rendezvous);
}

void foe_ring(struct foe *foe, uint32_t slots)
{
    uint64_t offset;

    must(nigh_window_take(&foe->window, &foe->arena, slots, &offset), "ring");
    nigh_ring_tx_use(&foe->tx, foe->window.base + offset, slots, 0);
    foe->ring_word = nigh_window_word(offset, slots);
    nigh_store_release(&foe->pair->ring, foe->ring_word, DIRECTORY_SET);
}

void foe_publish(struct foe *foe, uint64_t head, uint64_t tag, uint64_t imm, const void *payload,
                 uint32_t slots)
{
    struct nigh_slot *slot = nigh_ring_at(&foe->tx);

    slot->tag = tag;
    slot->imm = imm;
    if (payload)
        memcpy(slot->payload, payload, sizeof(slot->payload));
    nigh_ring_commit(&foe->tx, head, slots);
    foe_wake(foe);
}

void foe_send(struct foe *foe, uint64_t head, uint64_t tag, uint64_t imm, const void *payload, uint32_t bytes)
{
    struct nigh_slot *slot = nigh_ring_at(&foe->tx);

    slot->tag = tag;
    slot->imm = imm;
    nigh_ring_write_body(&foe->tx, payload, bytes);
    nigh_ring_commit(&foe->tx, head | (uint64_t)bytes << 32, nigh_slots_for(bytes));
    foe_wake(foe);
}

void foe_wake(struct foe *foe)
{
    const struct nigh_arena_state *state = (const void *)(foe->view.base + NIGH_PAGE);

    nigh_fence_full(SLEEP_CHECK);
    nigh_bell_hint(&foe->victim, foe->their_index);
    nigh_bell_ring(&foe->victim, nigh_load_relaxed(&state->asleep));
}

uint32_t foe_pool_line(struct foe *foe)
{
    return (uint32_t)(foe->arena.layout.pool_off / NIGH_LINE);
}

uint64_t foe_heap(struct foe *foe)
{
    return foe->arena.layout.heap_off;
}

static void hear(struct foe *foe, uint64_t word)
{
    uint32_t slots;
    const void *memory = nigh_window_ring(&foe->theirs, word, &slots);

    must(memory ? 0 : -EPROTO, "the victim's ring");
    nigh_ring_rx_use(&foe->rx, memory, slots);
}

bool foe_receive(struct foe *foe, struct nigh_slot *out)
{
    uint64_t head, word;

    if (!foe->rx.slots) {
        word = nigh_load_acquire(&foe->own->ring, DIRECTORY_GET);
        if (!word)
            return false;
        hear(foe, word);
    }
    head = nigh_ring_peek(&foe->rx);
    if (!head)
        return false;
    memcpy(out, (const void *)foe->rx.at, sizeof(*out));
    nigh_ring_advance(&foe->rx, nigh_slots_for(nigh_head_bytes(head)));
    nigh_ring_return(&foe->rx);
    if (nigh_head_kind(head) == NIGH_K_MOVE)
        hear(foe, out->tag);
    return true;
}

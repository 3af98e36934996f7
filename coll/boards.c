/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/boards.c - see boards.h. A list only grows, so a peer that follows it never reads memory of another kind. */
#include "coll/boards.h"
#include "shm/shared.h"

#include <errno.h>
#include <string.h>

/* Of a peer's list, which may be a circle, and is walked in each pass while the group forms. */
#define SEGMENTS_MAX 4096u

static struct nigh_boards *own_at(const struct nigh_arena *arena, uint64_t offset)
{
    return (struct nigh_boards *)(void *)(arena->base + offset);
}

static int new_segment(struct nigh_arena *arena, struct nigh_heap *heap, uint64_t *link)
{
    void *memory;
    int rc = nigh_heap_alloc(heap, sizeof(struct nigh_boards), &memory);

    if (rc)
        return rc;
    memset(memory, 0, sizeof(struct nigh_boards));
    nigh_store_release(link, (uint64_t)((uint8_t *)memory - arena->base), BOARD_SHOW);
    return 0;
}

/* Of a place that is taken and not shown yet. */
#define TAKEN UINT64_C(1)

static void take(struct nigh_boards *boards, uint32_t i, uint64_t slots, struct nigh_board_place *out)
{
    struct nigh_board *board = &boards->at[i];

    nigh_store_relaxed(&board->revoked, 0);
    nigh_store_relaxed(&board->left, 0);
    nigh_store_relaxed(&board->slots, slots);
    nigh_store_relaxed(&board->done, 0);
    nigh_store_relaxed(&board->where, 0);
    nigh_store_relaxed(&board->domain_slots, 0);
    nigh_store_relaxed(&board->tree, 0);
    nigh_store_relaxed(&boards->keys[i], TAKEN);
    *out = (struct nigh_board_place){.key = &boards->keys[i], .board = board};
}

int nigh_boards_add(struct nigh_arena *arena, struct nigh_heap *heap, uint64_t slots,
                    struct nigh_board_place *out)
{
    uint64_t *link = &nigh_arena_state(arena)->boards;

    for (;;) {
        /* Relaxed: only we store it. */
        uint64_t offset = nigh_load_relaxed(link);
        struct nigh_boards *boards;
        int rc;

        if (!offset) {
            rc = new_segment(arena, heap, link);
            if (rc)
                return rc;
            continue;
        }
        boards = own_at(arena, offset);
        for (uint32_t i = 0; i < NIGH_BOARDS; i++) {
            if (nigh_load_relaxed(&boards->keys[i]))
                continue;
            take(boards, i, slots, out);
            return 0;
        }
        link = &boards->next;
    }
}

static uint64_t *key_of(const struct nigh_board_place *place)
{
    return (uint64_t *)(uintptr_t)place->key;
}

void nigh_boards_show(const struct nigh_board_place *place, uint64_t key)
{
    nigh_store_release(key_of(place), key, BOARD_SHOW);
}

void nigh_boards_remove(const struct nigh_board_place *place)
{
    nigh_store_release(key_of(place), UINT64_C(0), BOARD_SHOW);
}

int nigh_boards_find(const struct nigh_view *view, uint64_t key, struct nigh_board_place *out)
{
    const struct nigh_arena_state *state = (const void *)(view->base + NIGH_PAGE);
    uint64_t offset = nigh_load_acquire(&state->boards, BOARD_FIND);

    for (uint32_t segments = 0; offset; segments++) {
        const struct nigh_boards *boards = nigh_view_at(view, offset, sizeof(*boards));

        if (!boards || offset < view->layout.heap_off || offset % NIGH_LINE || segments == SEGMENTS_MAX)
            return -EPROTO;
        for (uint32_t i = 0; i < NIGH_BOARDS; i++) {
            if (nigh_load_acquire(&boards->keys[i], BOARD_FIND) != key)
                continue;
            *out = (struct nigh_board_place){.key = &boards->keys[i], .board = &boards->at[i]};
            return 0;
        }
        offset = nigh_load_acquire(&boards->next, BOARD_FIND);
    }
    return -ENOENT;
}

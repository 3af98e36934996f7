/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/boards.h - the list of boards in an arena: ours, to which groups are added, and a peer's, in which they are looked up. */
#ifndef NIGH_COLL_BOARDS_H
#define NIGH_COLL_BOARDS_H

#include "coll/board.h"
#include "shm/arena.h"
#include "shm/heap.h"

/* A board in such a list. Ours may be written. */
struct nigh_board_place {
    const uint64_t *key; /* NULL: none */
    const struct nigh_board *board;
};

/* A new board with those slots, which no member finds yet. -ENOMEM: the heap logs it. */
int nigh_boards_add(struct nigh_arena *arena, struct nigh_heap *heap, uint64_t slots,
                    struct nigh_board_place *out);
/* From here on it is found by that key, of which the highest bit is set. */
void nigh_boards_show(const struct nigh_board_place *place, uint64_t key);
/* No member finds it any more, and its place may be used again. */
void nigh_boards_remove(const struct nigh_board_place *place);

/* 0: found; -ENOENT: not there (yet); -EPROTO: what the peer shows cannot be. */
int nigh_boards_find(const struct nigh_view *view, uint64_t key, struct nigh_board_place *out);

#endif

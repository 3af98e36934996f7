/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/win.c - windows are made, met at and freed. What is done through them is in lib/rma.c. */
#include "lib/win.h"
#include "lib/error.h"
#include "lib/group.h"
#include "lib/meet.h"
#include "lib/post.h"
#include "lib/progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUSY_NS UINT64_C(1000000000)

/* In rotation, so that late users of a freed one are told. */
static struct nigh_win windows[NIGH_WIN_MAX];
static uint32_t next_place;

static struct nigh_win *find_place(void)
{
    for (uint32_t i = 0; i < NIGH_WIN_MAX; i++) {
        struct nigh_win *win = &windows[(next_place + i) % NIGH_WIN_MAX];

        if (win->state != NIGH_WIN_ALIVE && win->state != NIGH_WIN_MAKING) {
            next_place = (next_place + i + 1) % NIGH_WIN_MAX;
            return win;
        }
    }
    return NULL;
}

int nigh_win_check(struct nigh_call call, const struct nigh_win *win)
{
    uint64_t offset = (uintptr_t)win - (uintptr_t)windows;

    if (nigh_likely(offset < sizeof(windows) && offset % sizeof(*win) == 0 && win->state == NIGH_WIN_ALIVE))
        return 0;
    if (!win)
        return nigh_fail(call, -EINVAL, "the window is NULL");
    if (offset < sizeof(windows) && offset % sizeof(*win) == 0 && win->state == NIGH_WIN_FREED)
        return nigh_fail(call, -EINVAL, "window %u%s was freed by nigh_win_free before", win->number,
                         nigh_where(win->site).text);
    return nigh_fail(call, -EINVAL, "%p is no window", (const void *)win);
}

struct nigh_sentence nigh_win_text(const struct nigh_win *win)
{
    struct nigh_sentence text;

    snprintf(text.text, sizeof(text.text), "window %u of %s%s%s", win->number, nigh_comm_text(win->comm).text,
             win->site ? ", made" : "", nigh_where(win->site).text);
    return text;
}

/* ---- one rank's part of a new window ---- */

static int show_memory(struct nigh_call call, struct nigh_win *win, uint64_t bytes, uint64_t *key)
{
    struct nigh_register memory = {.size = sizeof(memory),
                                   .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE,
                                   .buffer = win->base,
                                   .bytes = bytes};
    int rc = nigh_core.ops->register_memory(nigh_core.context, &memory, key, &win->region);

    return rc ? nigh_fail(call, rc, "%llu bytes at %p cannot be shown to others: %s",
                          (unsigned long long)bytes, win->base, strerror(-rc))
              : 0;
}

static int alloc_memory(struct nigh_call call, struct nigh_win *win, uint64_t bytes)
{
    int rc = nigh_core.ops->heap_alloc(nigh_core.context, bytes, &win->base);

    if (rc)
        return nigh_fail(call, rc, "no %llu bytes of shared heap for the window (NIGH_HEAP sets its size)",
                         (unsigned long long)bytes);
    /* Not all of the heap is fresh, and counters in a window are expected to begin at 0. */
    memset(win->base, 0, bytes);
    win->allocated = true;
    return 0;
}

/* Whatever of it there is. Memory that a peer's operation still works on stays, with its registration. */
static void take_down(struct nigh_win *win)
{
    uint64_t until = nigh_now_ns() + BUSY_NS;
    int rc = 0;

    nigh_win_drop_targets(win);
    while (win->region && (rc = nigh_core.ops->deregister(nigh_core.context, win->region)) == -EBUSY &&
           nigh_now_ns() < until)
        (void)nigh_poll();
    if (rc)
        nigh_say(NIGH_LOG_WARN, "%s: its memory stays in use, because another rank is in the middle of it",
                 nigh_win_text(win).text);
    else if (win->allocated)
        (void)nigh_core.ops->heap_free(nigh_core.context, win->base);
    if (win->hold)
        nigh_operation_give(win->hold);
    if (win->comm->state == NIGH_COMM_FREED)
        nigh_coll_drop(win->comm);
    free(win->targets);
    *win = (struct nigh_win){.state = NIGH_WIN_FREED, .number = win->number, .site = win->site};
}

static int build(struct nigh_call call, struct nigh_win *win, struct nigh_comm *comm, void *base,
                 uint64_t bytes, bool allocate, uint64_t *key)
{
    int rc = 0;

    *win = (struct nigh_win){.state = NIGH_WIN_MAKING,
                             .number = (uint32_t)comm->collectives + 1,
                             .comm = comm,
                             .base = base,
                             .site = call.site};
    win->targets = calloc(comm->size, sizeof(*win->targets));
    win->hold = nigh_operation_new(call, NIGH_KIND_OTHER, comm, comm->rank, 0, NULL, 0, NIGH_OP_WINDOW);
    if (!win->targets || !win->hold)
        rc = nigh_fail(call, -ENOMEM, "no memory for a window of %u ranks", comm->size);
    if (!rc && bytes && allocate)
        rc = alloc_memory(call, win, bytes);
    if (!rc && bytes)
        rc = show_memory(call, win, bytes, key);
    return rc;
}

/* ---- all ranks together ---- */

static int check_arguments(struct nigh_call call, const void *base, uint64_t bytes, bool allocate,
                           void *const *base_out, struct nigh_win *const *out)
{
    if (!out || (allocate && !base_out))
        return nigh_fail(call, -EINVAL, "the %s no place: NULL", out ? "memory's address has" : "window has");
    if (!allocate && !base && bytes)
        return nigh_fail(call, -EFAULT, "the memory is NULL, but has %llu bytes", (unsigned long long)bytes);
    return 0;
}

/* Who has no window to make takes part all the same: the others hear of it. */
static int prepare(struct nigh_call call, struct nigh_comm *comm, enum nigh_meet_what what, void *base,
                   uint64_t bytes, struct nigh_win **win, uint64_t *key)
{
    int rc;

    *win = find_place();
    if (!*win)
        return nigh_fail(call, -ENOSPC, "%u windows are there already: free some", NIGH_WIN_MAX);
    rc = build(call, *win, comm, base, bytes, what == NIGH_MEET_WIN_ALLOCATE, key);
    return rc;
}

static int make(struct nigh_call call, struct nigh_comm *comm, enum nigh_meet_what what, void *base,
                uint64_t bytes, void **base_out, struct nigh_win **out)
{
    struct nigh_card *cards = malloc(comm->size * sizeof(*cards));
    struct nigh_win *win = NULL;
    uint64_t words[4] = {0, bytes};
    int rc = check_arguments(call, base, bytes, what == NIGH_MEET_WIN_ALLOCATE, base_out, out);

    if (!cards)
        rc = nigh_fail(call, -ENOMEM, "no memory for a window of %u ranks", comm->size);
    if (!rc)
        rc = prepare(call, comm, what, base, bytes, &win, &words[0]);
    rc = nigh_meet(call, comm, what, 0, rc, words, cards);
    for (uint32_t rank = 0; !rc && rank < comm->size; rank++)
        win->targets[rank] =
            (struct nigh_win_target){.key = cards[rank].words[0], .bytes = cards[rank].words[1]};
    free(cards);
    if (rc) {
        if (win)
            take_down(win);
        return rc;
    }
    win->state = NIGH_WIN_ALIVE;
    if (what == NIGH_MEET_WIN_ALLOCATE)
        *base_out = win->base;
    *out = win;
    return 0;
}

static int create(struct nigh_call call, enum nigh_meet_what what, void *base, uint64_t bytes,
                  struct nigh_comm *comm, void **base_out, struct nigh_win **out)
{
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_comm_check(call, comm);
    if (!rc)
        rc = make(call, comm, what, base, bytes, base_out, out);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_win_create(void *base, uint64_t bytes, struct nigh_comm *comm, struct nigh_win **out)
{
    return create(NIGH_CALL("nigh_win_create"), NIGH_MEET_WIN_CREATE, base, bytes, comm, NULL, out);
}

NIGH_PUBLIC int nigh_win_allocate(uint64_t bytes, struct nigh_comm *comm, void **base, struct nigh_win **out)
{
    return create(NIGH_CALL("nigh_win_allocate"), NIGH_MEET_WIN_ALLOCATE, NULL, bytes, comm, base, out);
}

/* All that this rank has begun is complete, and then all ranks meet. Who has failed meets them, too, and says so. */
static int fence(struct nigh_call call, struct nigh_win *win, enum nigh_meet_what what)
{
    int refused = nigh_win_await_all(call, win);

    return nigh_meet(call, win->comm, what, win->number, refused, NULL, NULL);
}

NIGH_PUBLIC int nigh_win_fence(struct nigh_win *win)
{
    struct nigh_call call = NIGH_CALL("nigh_win_fence");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_win_check(call, win);
    if (!rc)
        rc = fence(call, win, NIGH_MEET_WIN_FENCE);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_win_free(struct nigh_win **win)
{
    struct nigh_call call = NIGH_CALL("nigh_win_free");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = win ? nigh_win_check(call, *win) : nigh_fail(call, -EINVAL, "the window is NULL");
    if (!rc) {
        rc = fence(call, *win, NIGH_MEET_WIN_FREE);
        take_down(*win);
        *win = NULL;
    }
    nigh_leave();
    return rc;
}

int nigh_win_report(void)
{
    int found = 0;

    for (uint32_t i = 0; i < NIGH_WIN_MAX; i++) {
        if (windows[i].state != NIGH_WIN_ALIVE)
            continue;
        nigh_say(NIGH_LOG_WARN, "never freed (nigh_win_free): %s", nigh_win_text(&windows[i]).text);
        found++;
    }
    return found;
}

void nigh_wins_close(void)
{
    for (uint32_t i = 0; i < NIGH_WIN_MAX; i++) {
        free(windows[i].targets);
        windows[i] = (struct nigh_win){.state = NIGH_WIN_UNUSED};
    }
}

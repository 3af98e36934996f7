/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/meet.c - see meet.h. Where cards differ all ranks see that, and tell each other what they call. */
#include "lib/meet.h"
#include "lib/collective.h"
#include "lib/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a rank says of its call when not all are equal. */
struct reason {
    uint64_t mark;
    int32_t refused;
    uint32_t reserved0;
    char call[160];
    char refusal[176];
};

static int gather(struct nigh_call call, struct nigh_comm *comm, const void *mine, void *all, uint32_t bytes)
{
    struct nigh_collective what = {.size = sizeof(what),
                                   .op = NIGH_ALLGATHER,
                                   .type = NIGH_OPAQUE,
                                   .width = bytes,
                                   .send = mine,
                                   .recv = all,
                                   .count = 1};

    return nigh_coll_run(call, comm, &what);
}

static uint64_t mark_of(enum nigh_meet_what what, uint32_t window)
{
    return (uint64_t)what << 32 | window;
}

static void fill_reason(struct nigh_call call, enum nigh_meet_what what, uint32_t window, int refused,
                        struct reason *reason)
{
    size_t head = strlen(call.name) + strlen(nigh_where(call.site).text) + 2;
    const char *text = nigh_error_text();
    char number[32] = "";

    memset(reason, 0, sizeof(*reason));
    reason->mark = mark_of(what, window);
    reason->refused = refused;
    if (window)
        snprintf(number, sizeof(number), "window %u", window);
    snprintf(reason->call, sizeof(reason->call), "%.40s(%.17s)%.95s", call.name, number,
             nigh_where(call.site).text);
    if (refused)
        snprintf(reason->refusal, sizeof(reason->refusal), " (refused there: %.150s)",
                 strlen(text) > head ? text + head : strerror(-refused));
}

/* The two ranks that are told of: the first, and the first that differs from it; of one call, the one that was refused. */
static int say_difference(struct nigh_call call, const struct nigh_comm *comm, const struct reason *reasons)
{
    uint32_t other = 0, refused = 0;

    while (other < comm->size && reasons[other].mark == reasons[0].mark)
        other++;
    if (other < comm->size) {
        /* A rank is told of itself, if it is not of the first one's mind. */
        if (reasons[comm->rank].mark != reasons[0].mark)
            other = (uint32_t)comm->rank;
        return nigh_fail(call, -EPROTO,
                         "the ranks of %s do not call the same: rank 0 calls %s%s; rank %u calls %s%s",
                         nigh_comm_text(comm).text, reasons[0].call, reasons[0].refusal, other,
                         reasons[other].call, reasons[other].refusal);
    }
    while (refused < comm->size && !reasons[refused].refused)
        refused++;
    if (refused == comm->size)
        return nigh_fail(call, -EPROTO, "the ranks of %s do not call the same", nigh_comm_text(comm).text);
    return nigh_fail(call, nigh_coll_error_for_others(reasons[refused].refused), "rank %u calls %s%s",
                     refused, reasons[refused].call, reasons[refused].refusal);
}

/* This rank cannot make the gathering that the others are in, or come to: they hear of it. */
static int give_up(struct nigh_call call, struct nigh_comm *comm, const char *what)
{
    int rc = nigh_fail(call, -ENOMEM, "no memory for %s of %u ranks", what, comm->size);

    nigh_coll_say_refused(call, comm, "()", rc);
    return rc;
}

static int explain(struct nigh_call call, struct nigh_comm *comm, const struct reason *mine)
{
    struct reason *all = calloc(comm->size, sizeof(*all));
    int rc;

    if (!all)
        return give_up(call, comm, "the calls");
    rc = gather(call, comm, mine, all, sizeof(*all));
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        all[rank].call[sizeof(all[rank].call) - 1] = '\0';
        all[rank].refusal[sizeof(all[rank].refusal) - 1] = '\0';
    }
    if (!rc && !mine->refused)
        rc = say_difference(call, comm, all);
    free(all);
    return mine->refused ? mine->refused : rc;
}

int nigh_meet(struct nigh_call call, struct nigh_comm *comm, enum nigh_meet_what what, uint32_t window,
              int refused, const uint64_t words[4], struct nigh_card *all)
{
    struct nigh_card mine = {.mark = refused ? 0 : mark_of(what, window)};
    struct nigh_card *cards = all ? all : malloc(comm->size * sizeof(*cards));
    struct reason reason;
    bool differ = false;
    int rc;

    if (!cards)
        return give_up(call, comm, "the cards");
    if (words)
        memcpy(mine.words, words, sizeof(mine.words));
    fill_reason(call, what, window, refused, &reason);
    rc = gather(call, comm, &mine, cards, sizeof(mine));
    for (uint32_t rank = 0; !rc && rank < comm->size; rank++)
        differ |= cards[rank].mark != mine.mark || !cards[rank].mark;
    if (!all)
        free(cards);
    /* Who comes late finds the cards of ranks that have given up. A fence needs nothing more of them. */
    if (!rc && (differ || what != NIGH_MEET_WIN_FENCE))
        rc = nigh_coll_check_end(call, comm);
    if (!rc && differ)
        return explain(call, comm, &reason);
    return refused ? refused : rc;
}

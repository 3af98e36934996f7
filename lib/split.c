/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/split.c - new communicators out of old ones: dup, split, create. */
#include "lib/agree.h"
#include "lib/error.h"
#include "lib/meet.h"

#include <errno.h>
#include <stdlib.h>

static struct nigh_members all_of(struct nigh_comm *comm)
{
    return (struct nigh_members){.comm = comm, .count = (int)comm->size, .me = comm->rank};
}

/* `world`: the members' ranks in the world. */
static int make(struct nigh_call call, struct nigh_comm *parent, uint32_t id, int count, int me,
                const int32_t *world, struct nigh_comm **out)
{
    int rc = nigh_comm_make(id, (uint32_t)count, me, world, NULL, out);

    if (rc == -ENOSPC)
        return nigh_fail(call, rc,
                         "%u communicators are there already: free those that are not used any more",
                         NIGH_COMM_MAX);
    if (rc)
        return nigh_fail(call, rc, "no memory for a communicator of %d ranks", count);
    (*out)->timeout_ns = parent->timeout_ns;
    (*out)->site = call.site;
    return 0;
}

static int check_place(struct nigh_call call, struct nigh_comm *const *out)
{
    return out ? 0 : nigh_fail(call, -EINVAL, "the new communicator has no place: NULL");
}

static int duplicate(struct nigh_call call, struct nigh_comm *comm, struct nigh_comm **out)
{
    struct nigh_members members;
    uint32_t id;
    int rc = nigh_comm_check(call, comm);

    if (rc)
        return rc;
    members = all_of(comm);
    rc = nigh_meet(call, comm, NIGH_MEET_DUP, 0, check_place(call, out), NULL, NULL);
    if (!rc)
        rc = nigh_agree_id(call, &members, &id);
    return rc ? rc : make(call, comm, id, (int)comm->size, comm->rank, comm->world, out);
}

NIGH_PUBLIC int nigh_comm_dup(struct nigh_comm *comm, struct nigh_comm **out)
{
    struct nigh_call call = NIGH_CALL("nigh_comm_dup");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = duplicate(call, comm, out);
    nigh_leave();
    return rc;
}

struct choice {
    int color, key, rank;
};

static int by_key(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Those of `choices` with my colour, in their order; returns how many. */
static int choose(struct choice *choices, int count, int color, const struct nigh_comm *comm, int32_t *world,
                  int *me)
{
    int found = 0;

    for (int i = 0; i < count; i++)
        if (choices[i].color == color)
            choices[found++] = choices[i];
    qsort(choices, (size_t)found, sizeof(*choices), by_key);
    for (int i = 0; i < found; i++) {
        world[i] = nigh_comm_to_world(comm, choices[i].rank);
        if (choices[i].rank == comm->rank)
            *me = i;
    }
    return found;
}

/* What a split needs of memory: taken before the ranks meet, so that all hear of a rank that has none. */
struct split {
    struct nigh_card *cards;
    struct choice *choices;
    int32_t *world;
};

static int split(struct nigh_call call, struct nigh_comm *comm, int color, const struct split *with,
                 struct nigh_comm **out)
{
    struct nigh_members members = all_of(comm);
    int me = 0, count;
    uint32_t id;
    int rc = nigh_agree_id(call, &members, &id);

    if (rc)
        return rc;
    if (color == NIGH_UNDEFINED) {
        *out = NULL;
        return 0;
    }
    for (uint32_t rank = 0; rank < comm->size; rank++)
        with->choices[rank] = (struct choice){.color = (int)(uint32_t)with->cards[rank].words[0],
                                              .key = (int)(uint32_t)with->cards[rank].words[1],
                                              .rank = (int)rank};
    count = choose(with->choices, (int)comm->size, color, comm, with->world, &me);
    return make(call, comm, id, count, me, with->world, out);
}

static int meet_and_split(struct nigh_call call, struct nigh_comm *comm, int color, int key,
                          struct nigh_comm **out)
{
    uint64_t words[4] = {(uint32_t)color, (uint32_t)key};
    struct split with = {.cards = malloc(comm->size * sizeof(*with.cards)),
                         .choices = malloc(comm->size * sizeof(*with.choices)),
                         .world = malloc(comm->size * sizeof(*with.world))};
    int rc = check_place(call, out);

    if (!with.cards || !with.choices || !with.world)
        rc = nigh_fail(call, -ENOMEM, "no memory for the colours of %u ranks", comm->size);
    if (!rc && color < 0 && color != NIGH_UNDEFINED)
        rc = nigh_fail(call, -ERANGE, "colour %d: colours are 0 or more, or NIGH_UNDEFINED for none", color);
    rc = nigh_meet(call, comm, NIGH_MEET_SPLIT, 0, rc, words, with.cards);
    if (!rc)
        rc = split(call, comm, color, &with, out);
    free(with.cards);
    free(with.choices);
    free(with.world);
    return rc;
}

NIGH_PUBLIC int nigh_comm_split(struct nigh_comm *comm, int color, int key, struct nigh_comm **out)
{
    struct nigh_call call = NIGH_CALL("nigh_comm_split");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_comm_check(call, comm);
    if (!rc)
        rc = meet_and_split(call, comm, color, key, out);
    nigh_leave();
    return rc;
}

/* Who is listed: checks the list, finds this rank, and makes a number of it that others' lists hardly have. */
static int read_list(struct nigh_call call, struct nigh_members *members)
{
    const struct nigh_comm *comm = members->comm;
    uint8_t *seen = calloc(comm->size, 1);
    int rc = seen ? 0 : -ENOMEM;

    members->me = -1;
    members->number = 2166136261u;
    for (int i = 0; !rc && i < members->count; i++) {
        int rank = members->ranks[i];

        members->number = (members->number ^ (uint32_t)rank) * 16777619u;
        if ((uint32_t)rank >= comm->size)
            rc = nigh_fail(call, -ERANGE,
                           "there is no rank %d (entry %d of the list) in %s: its ranks are 0 to %u", rank, i,
                           nigh_comm_text(comm).text, comm->size - 1);
        else if (seen[rank]++)
            rc = nigh_fail(call, -EINVAL, "rank %d is listed twice, the second time as entry %d", rank, i);
        else if (rank == comm->rank)
            members->me = i;
    }
    if (!rc && members->me < 0)
        rc = nigh_fail(call, -EINVAL,
                       "this rank, %d, is not in the list: only those that are call nigh_comm_create",
                       comm->rank);
    free(seen);
    return rc;
}

static int create(struct nigh_call call, struct nigh_comm *comm, const int *ranks, int count,
                  struct nigh_comm **out)
{
    struct nigh_members members = {.comm = comm, .ranks = ranks, .count = count};
    int32_t *world;
    uint32_t id;
    int rc = read_list(call, &members);

    if (!rc)
        rc = nigh_agree_id(call, &members, &id);
    if (rc)
        return rc;
    world = malloc((size_t)count * sizeof(*world));
    if (!world)
        return nigh_fail(call, -ENOMEM, "no memory for a communicator of %d ranks", count);
    for (int i = 0; i < count; i++)
        world[i] = nigh_comm_to_world(comm, ranks[i]);
    rc = make(call, comm, id, count, members.me, world, out);
    free(world);
    return rc;
}

NIGH_PUBLIC int nigh_comm_create(struct nigh_comm *comm, const int *ranks, int count, struct nigh_comm **out)
{
    struct nigh_call call = NIGH_CALL("nigh_comm_create");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_comm_check(call, comm);
    if (!rc && (!out || !ranks || count < 1))
        rc = nigh_fail(call, -EINVAL, "a list of %d ranks at %p, the new communicator goes to %p", count,
                       (const void *)ranks, (void *)out);
    if (!rc)
        rc = create(call, comm, ranks, count, out);
    nigh_leave();
    return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/form.c - see form.h. */
#include "hosts/mpi/form.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/progress.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define RANKS_MIN 2

/* What ranks tell each other when a group is made. */
struct card {
    struct nigh_address address;
    uint64_t tag;
    uint32_t able, requests;
    uint8_t cpus[NIGH_MPI_CPUS_BYTES]; /* that the rank may use: bit c of it */
};

/* Zeroed. All ranks are on their way to the same call: one that cannot follow would leave them waiting. */
static void *need(size_t bytes)
{
    void *memory = calloc(1, bytes);

    if (memory)
        return memory;
    nigh_mpi_log("no memory for %zu bytes of a communicator's collectives", bytes);
    abort();
}

static void fill_card(struct nigh_mpi_group *group, struct card *card)
{
    memset(card, 0, sizeof(*card));
    _Static_assert(sizeof(cpu_set_t) == sizeof(card->cpus), "a mask is glibc's");
    if (sched_getaffinity(0, sizeof(card->cpus), (cpu_set_t *)(void *)card->cpus))
        memset(card->cpus, 0xff, sizeof(card->cpus));
    card->requests = nigh_mpi_progress_can();
    card->able = getrandom(&card->tag, sizeof(card->tag), 0) == sizeof(card->tag) &&
                 nigh_mpi_session_open(group->me, group->ranks) == 0 &&
                 nigh_mpi_session_nigh()->address(nigh_mpi_session_context(), &card->address) == 0;
}

/* Alike in all ranks, as all get the same cards. */
static bool exchange(struct nigh_mpi_group *group, struct card *cards, nigh_mpi_comm comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    uint8_t *masks;
    struct card mine;
    bool able = true;

    fill_card(group, &mine);
    if (mpi->Allgather(&mine, sizeof(mine), NIGH_MPI_BYTE, cards, sizeof(mine), NIGH_MPI_BYTE, comm))
        return false;
    masks = need((size_t)group->ranks * NIGH_MPI_CPUS_BYTES);
    group->requests = true;
    for (int r = 0; r < group->ranks; r++) {
        able = able && cards[r].able;
        group->requests = group->requests && cards[r].requests;
        memcpy(masks + r * NIGH_MPI_CPUS_BYTES, cards[r].cpus, NIGH_MPI_CPUS_BYTES);
    }
    if (nigh_mpi_cpus(masks, group->ranks) < group->ranks)
        nigh_mpi_session_patience =
            1; /* for smaller communicators, too, which may see as many CPUs as ranks */
    free(masks);
    return able;
}

static bool dial(const struct nigh_mpi_group *group, const struct card *cards, struct nigh_endpoint **members)
{
    bool all = true;

    nigh_mpi_session_lock();
    for (int r = 0; r < group->ranks && all; r++)
        all = nigh_mpi_session_connect(&cards[r].address, &members[r]) == 0;
    nigh_mpi_session_unlock();
    return all;
}

static bool make_group(struct nigh_mpi_group *group, struct nigh_endpoint *const *members, uint64_t id)
{
    struct nigh_group_options options = {
        .size = sizeof(options), .count = (uint32_t)group->ranks, .members = members, .id = id};
    int rc;

    nigh_mpi_session_lock();
    rc = nigh_mpi_session_nigh()->group_create(nigh_mpi_session_context(), &options, &group->nigh);
    nigh_mpi_session_unlock();
    return rc == 0;
}

/* So that nothing that a call leaves behind on its way needs this side again. */
static bool meet(struct nigh_mpi_group *group)
{
    struct nigh_query_group facts = {.size = sizeof(facts)};

    nigh_mpi_session_lock();
    for (uint32_t empty = 1;; empty++) {
        if (nigh_mpi_session_nigh()->query_group(group->nigh, &facts) || facts.formed || facts.status)
            break;
        if (nigh_mpi_session_poll() > 0)
            continue;
        nigh_mpi_session_unlock();
        nigh_mpi_session_idle(empty % NIGH_MPI_EVERY == 0);
        nigh_mpi_session_lock();
    }
    nigh_mpi_session_unlock();
    return facts.formed != 0;
}

/* Did all? Meanwhile peers that are still on their way to this rank get answers. */
static bool agree(bool mine, nigh_mpi_comm comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    nigh_mpi_request request;
    int in = mine, all = 0, over = 0;

    if (mpi->Iallreduce(&in, &all, 1, NIGH_MPI_INT, NIGH_MPI_MIN, comm, &request))
        return false;
    while (!over && !mpi->Test(&request, &over, NIGH_MPI_STATUS_IGNORE)) {
        nigh_mpi_session_lock();
        nigh_mpi_session_poll();
        nigh_mpi_session_unlock();
        if (!over)
            sched_yield();
    }
    return over && all;
}

/* Ranks of another MPI_COMM_WORLD (MPI_Intercomm_merge) may lack this object, or be programs in Fortran. A communicator with ranks of
 * several worlds is of several for each of its ranks, so all leave it to the MPI, without a message. */
static bool is_of_world(const struct nigh_mpi_group *group, nigh_mpi_comm comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    int *ranks = need(2 * (size_t)group->ranks * sizeof(*ranks)), *there = ranks + group->ranks;
    nigh_mpi_ranks all, world;
    bool within = false;

    for (int r = 0; r < group->ranks; r++)
        ranks[r] = r;
    if (!mpi->Comm_group(comm, &all)) {
        if (!mpi->Comm_group(NIGH_MPI_COMM_WORLD, &world)) {
            within = !mpi->Group_translate_ranks(all, group->ranks, ranks, world, there);
            mpi->Group_free(&world);
        }
        mpi->Group_free(&all);
    }
    for (int r = 0; r < group->ranks; r++)
        within = within && there[r] != NIGH_MPI_UNDEFINED;
    free(ranks);
    return within;
}

/* Each step is taken by all ranks or by none. */
static void form(struct nigh_mpi_group *group, nigh_mpi_comm comm)
{
    size_t ranks = (size_t)group->ranks;
    struct card *cards = need(ranks * sizeof(*cards));
    struct nigh_endpoint **members = need(ranks * sizeof(*members));

    group->active = ranks <= NIGH_GROUP_MAX && exchange(group, cards, comm) &&
                    agree(dial(group, cards, members), comm) &&
                    agree(make_group(group, members, cards[0].tag), comm) && agree(meet(group), comm);
    free(members);
    free(cards);
}

void nigh_mpi_group_form(struct nigh_mpi_group *group, nigh_mpi_comm comm)
{
    group->formed = true;
    if (group->me != NIGH_MPI_NONE && group->ranks >= RANKS_MIN && is_of_world(group, comm))
        form(group, comm);
}

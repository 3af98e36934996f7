/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/form.c - see form.h. */
#include "hosts/mpi/form.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/flat.h"
#include "hosts/mpi/log.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define RANKS_MIN 3 /* below it a chain has nothing to add up */

/* What ranks tell each other when a group is made. */
struct card {
    struct nigh_address address;
    uint64_t tag;
    uint64_t able;
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

static bool get_memory(struct nigh_mpi_group *group)
{
    int rc;

    nigh_mpi_session_lock();
    rc = nigh_mpi_session_nigh()->heap_alloc(nigh_mpi_session_context(), NIGH_MPI_SLOTS * NIGH_MPI_SLOT_BYTES,
                                             &group->memory);
    nigh_mpi_session_unlock();
    for (unsigned i = 0; !rc && i < NIGH_MPI_SLOTS; i++)
        group->slots[i].memory = (char *)group->memory + (size_t)i * NIGH_MPI_SLOT_BYTES;
    return rc == 0;
}

/* Alike in all ranks, as all get the same masks. False: some rank has a CPU of its own, or has not told. */
static bool is_crowd(struct nigh_mpi_group *group, uint8_t *masks, nigh_mpi_comm comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    uint8_t mine[NIGH_MPI_CPUS_BYTES] = {0};
    int cpus;

    _Static_assert(sizeof(cpu_set_t) == sizeof(mine), "a mask is glibc's");
    if (sched_getaffinity(0, sizeof(mine), (cpu_set_t *)(void *)mine))
        memset(mine, 0xff, sizeof(mine));
    if (mpi->Allgather(mine, sizeof(mine), NIGH_MPI_BYTE, masks, sizeof(mine), NIGH_MPI_BYTE, comm))
        return false;
    group->chains = nigh_mpi_chains(masks, group->ranks, group->chain, &cpus);
    return cpus < group->ranks;
}

static void fill_card(struct nigh_mpi_group *group, struct card *card)
{
    memset(card, 0, sizeof(*card));
    card->able = getrandom(&card->tag, sizeof(card->tag), 0) == sizeof(card->tag) &&
                 nigh_mpi_session_open(group->me, group->ranks) == 0 && get_memory(group) &&
                 nigh_mpi_session_nigh()->address(nigh_mpi_session_context(), &card->address) == 0;
}

static bool exchange(struct nigh_mpi_group *group, struct card *cards, nigh_mpi_comm comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    struct card mine;

    fill_card(group, &mine);
    if (mpi->Allgather(&mine, sizeof(mine), NIGH_MPI_BYTE, cards, sizeof(mine), NIGH_MPI_BYTE, comm))
        return false;
    for (int r = 0; r < group->ranks; r++)
        if (!cards[r].able)
            return false;
    group->tag = cards[0].tag;
    return true;
}

static bool dial(struct nigh_mpi_group *group, const struct card *cards)
{
    bool all = true;

    nigh_mpi_session_lock();
    for (int r = 0; r < group->ranks && all; r++)
        if (r != group->me)
            all = nigh_mpi_session_connect(&cards[r].address, &group->peers[r]) == 0;
    nigh_mpi_session_unlock();
    return all;
}

static bool waits_for(const struct nigh_mpi_peer *peer, bool *lost)
{
    uint32_t state = nigh_mpi_session_state(peer);

    *lost |= state != NIGH_CONNECTING && state != NIGH_READY;
    return state == NIGH_CONNECTING;
}

/* One receive from each: it ends when that rank gives up, and when its process ends. */
static bool wait_for_warnings(struct nigh_mpi_group *group)
{
    int rc = 0;

    nigh_mpi_session_lock();
    for (int r = 0; r < group->ranks && !rc; r++) {
        group->warnings[r].from = group->peers[r];
        group->warnings[r].alarm = &group->alarm;
        if (r != group->me)
            rc = nigh_mpi_session_expect(&group->warnings[r], 0, group->tag + NIGH_MPI_TAG_WARNINGS);
    }
    nigh_mpi_session_unlock();
    return rc == 0;
}

/* So that nothing that a call leaves behind on its way needs this side again. */
static bool meet(struct nigh_mpi_group *group)
{
    bool lost = false;
    int next = 0;

    nigh_mpi_session_lock();
    for (uint32_t empty = 1; next < group->ranks; empty++) {
        while (next < group->ranks && (next == group->me || !waits_for(group->peers[next], &lost)))
            next++;
        if (nigh_mpi_session_poll() > 0 || next == group->ranks)
            continue;
        nigh_mpi_session_unlock();
        nigh_mpi_session_idle(empty);
        nigh_mpi_session_lock();
    }
    nigh_mpi_session_unlock();
    return !lost;
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

/* Each step is taken by all ranks or by none. */
static void form(struct nigh_mpi_group *group, nigh_mpi_comm comm)
{
    size_t ranks = (size_t)group->ranks;
    uint8_t *masks = need(ranks * NIGH_MPI_CPUS_BYTES);
    struct card *cards = need(ranks * sizeof(*cards));

    group->chain = need(ranks * sizeof(*group->chain));
    group->peers = need(ranks * sizeof(*group->peers));
    group->shorts = need(ranks * sizeof(*group->shorts));
    group->sources = need(ranks * sizeof(*group->sources));
    if (ranks <= NIGH_MPI_FLAT_RANKS)
        group->sums = need((ranks + 1) / 2 * NIGH_MPI_FLAT_TO);
    group->warnings = need(ranks * sizeof(*group->warnings));
    group->active = is_crowd(group, masks, comm) && exchange(group, cards, comm) &&
                    agree(dial(group, cards), comm) && agree(meet(group) && wait_for_warnings(group), comm);
    free(cards);
    free(masks);
}

/* Others may have posted what this rank has not, and have their own to take back. */
static void undo(struct nigh_mpi_group *group)
{
    bool posted = group->warnings && nigh_mpi_session_is_open();

    nigh_mpi_session_lock();
    for (int r = 0; posted && r < group->ranks; r++)
        nigh_mpi_session_forget(&group->warnings[r]);
    while (posted) {
        nigh_mpi_session_poll();
        posted = false;
        for (int r = 0; r < group->ranks; r++)
            posted |= group->warnings[r].posted;
    }
    if (group->memory)
        (void)nigh_mpi_session_nigh()->heap_free(nigh_mpi_session_context(), group->memory);
    group->memory = NULL;
    nigh_mpi_session_unlock();
}

void nigh_mpi_group_form(struct nigh_mpi_group *group, nigh_mpi_comm comm)
{
    group->formed = true;
    if (group->me != NIGH_MPI_NONE && group->ranks >= RANKS_MIN)
        form(group, comm);
    if (!group->active)
        undo(group);
}

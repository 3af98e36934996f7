/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/agree.c - dissemination: after round k each member knows what 2^k neighbours knew, so log2(count) rounds do. */
#include "lib/agree.h"
#include "lib/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int rank_of(const struct nigh_members *members, int index)
{
    index %= members->count;
    return members->ranks ? members->ranks[index] : index;
}

int nigh_agree_max(struct nigh_call call, const struct nigh_members *members, uint32_t *value)
{
    int rc = 0;

    for (int step = 1; !rc && step < members->count; step *= 2) {
        uint32_t mine = *value, theirs = 0;

        rc = nigh_control_swap(call, members->comm, rank_of(members, members->me + step), &mine,
                               rank_of(members, members->me + members->count - step), &theirs, sizeof(mine),
                               nigh_control_tag(NIGH_CONTROL_AGREE, members->number));
        if (theirs > *value)
            *value = theirs;
    }
    return rc;
}

int nigh_agree_gather(struct nigh_call call, const struct nigh_members *members, const void *mine, void *all,
                      uint32_t bytes)
{
    int count = members->count, known = 1, rc = 0;
    uint8_t *from_me = malloc((size_t)count * bytes); /* from this member on, around the end */

    if (!from_me)
        return -ENOMEM;
    memcpy(from_me, mine, bytes);
    while (!rc && known < count) {
        int more = known < count - known ? known : count - known;

        rc =
            nigh_control_swap(call, members->comm, rank_of(members, members->me + count - known), from_me,
                              rank_of(members, members->me + known), from_me + (size_t)known * bytes,
                              (uint64_t)more * bytes, nigh_control_tag(NIGH_CONTROL_GATHER, members->number));
        known += more;
    }
    for (int i = 0; !rc && i < count; i++)
        memcpy((uint8_t *)all + (size_t)((members->me + i) % count) * bytes, from_me + (size_t)i * bytes,
               bytes);
    free(from_me);
    return rc;
}

/*
 * With one thread per rank the greatest proposal is new to everybody. With several threads another agreement may take the
 * same number in between at some member: whoever sees that says so, and all try again. What they propose then differs by
 * communicator, so that two agreements do not run into each other for ever.
 */
int nigh_agree_id(struct nigh_call call, const struct nigh_members *members, uint32_t *id)
{
    for (uint32_t attempt = 0;; attempt++) {
        uint32_t proposal = nigh_core.next_comm_id + attempt * (members->comm->id % 64), taken;
        int rc = nigh_agree_max(call, members, &proposal);

        if (rc)
            return rc;
        taken = proposal < nigh_core.next_comm_id;
        if (!taken)
            nigh_core.next_comm_id = proposal + 1;
        rc = nigh_agree_max(call, members, &taken);
        if (rc)
            return rc;
        if (!taken) {
            *id = proposal;
            return 0;
        }
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/foreign.c - a ring that grows. The program and this library share one context, so whoever polls gets both's
 * completions; each finds its own here or in its slot. */
#include "lib/foreign.h"
#include "lib/error.h"
#include "lib/progress.h"

#include <errno.h>
#include <stdlib.h>

static struct nigh_completion *ring;
static uint32_t room, first, count; /* `room` is a power of two or 0 */

static int grow(void)
{
    uint32_t more = room ? 2 * room : 64;
    struct nigh_completion *bigger = malloc(more * sizeof(*bigger));

    if (!bigger)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        bigger[i] = ring[(first + i) & (room - 1)];
    free(ring);
    ring = bigger;
    room = more;
    first = 0;
    return 0;
}

void nigh_foreign_add(const struct nigh_completion *completion)
{
    if (count == room && grow() != 0)
        nigh_say(NIGH_LOG_ERROR,
                 "no memory for a completion of the program's own, which is lost: context 0x%llx",
                 (unsigned long long)completion->context);
    else
        ring[(first + count++) & (room - 1)] = *completion;
}

void nigh_foreign_close(void)
{
    free(ring);
    ring = NULL;
    room = first = count = 0;
}

NIGH_PUBLIC int nigh_plugin_poll(struct nigh_completion *out, int most)
{
    struct nigh_call call = NIGH_CALL("nigh_plugin_poll");
    int rc = nigh_enter(call), taken = 0;

    if (rc)
        return rc;
    if (most < 0 || (most > 0 && !out))
        rc = nigh_fail(call, -EINVAL, "room for %d completions at %p", most, (void *)out);
    else
        (void)nigh_poll();
    for (; !rc && taken < most && count > 0; taken++, count--) {
        out[taken] = ring[first];
        first = (first + 1) & (room - 1);
    }
    nigh_leave();
    return rc ? rc : taken;
}

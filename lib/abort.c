/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/abort.c - ending a job at once. A child ends the other ranks when this one is gone, so that whoever started the job sees
 * the status of the rank that wanted the end before those of its victims. */
#include "lib/error.h"
#include "lib/peer.h"
#include "lib/progress.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MEET_NS  UINT64_C(200000000) /* for ranks that this one has not met yet */
#define GRACE_MS 2000                /* between TERM and KILL, as nigh-run has it */
#define LAST_MS  200                 /* for this rank to be gone */

/* Where every rank is; 0 where one has not answered. */
static void find_all(int32_t *pids)
{
    struct nigh_call none = {"nigh_abort", NULL};
    uint64_t until = nigh_now_ns() + MEET_NS;
    struct nigh_endpoint *endpoint;
    int missing;

    do {
        missing = 0;
        (void)nigh_poll();
        for (int rank = 0; rank < nigh_core.ranks; rank++) {
            uint32_t state;

            if (rank == nigh_core.rank || pids[rank] || nigh_peer_connect(none, rank, &endpoint))
                continue;
            state = nigh_peer_state(rank);
            pids[rank] = state == NIGH_READY ? nigh_peer_pid(rank) : 0;
            missing += state == NIGH_CONNECTING;
        }
    } while (missing && nigh_now_ns() < until);
}

static void nap_ms(long ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&nap, NULL);
}

/* How many of them there still are. */
static int signal_all(const int32_t *pids, int number)
{
    int left = 0;

    for (int rank = 0; rank < nigh_core.ranks; rank++)
        if (pids[rank] > 0 && kill(pids[rank], number) == 0)
            left++;
    return left;
}

static void end_all(const int32_t *pids, pid_t me)
{
    for (int ms = 0; ms < LAST_MS && getppid() == me; ms++)
        nap_ms(1);
    /* It has given its children away, and tells whoever started it a moment later. */
    nap_ms(20);
    signal_all(pids, SIGTERM);
    for (int ms = 0; ms < GRACE_MS; ms += 10) {
        nap_ms(10);
        if (signal_all(pids, 0) == 0)
            return;
    }
    signal_all(pids, SIGKILL);
}

NIGH_PUBLIC void nigh_abort(int code)
{
    struct nigh_call call = NIGH_CALL("nigh_abort");
    int32_t *pids = NULL;
    pid_t me = getpid();

    if (nigh_initialized() && nigh_enter(call) == 0) {
        nigh_say(NIGH_LOG_ERROR, "%s%s: ends all ranks with status %d", call.name, nigh_where(call.site).text,
                 code);
        pids = calloc((size_t)nigh_core.ranks, sizeof(*pids));
    }
    if (pids) {
        find_all(pids);
        if (fork() == 0) {
            end_all(pids, me);
            code = 0;
        }
    }
    _exit(code);
}

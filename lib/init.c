/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/init.c - joining the job. What was made is undone in reverse order when a later step fails. */
#include "lib/init.h"
#include "lib/comm.h"
#include "lib/control.h"
#include "lib/error.h"
#include "lib/foreign.h"
#include "lib/group.h"
#include "lib/line.h"
#include "lib/peer.h"
#include "lib/plugin.h"
#include "lib/request.h"
#include "lib/settings.h"
#include "lib/thread.h"
#include "lib/turn.h"
#include "lib/win.h"
#include "lib/young.h"

#include <errno.h>

enum { WORLD_ID = 1, SELF_ID = 2 };

static void in_child(void)
{
    if (!(nigh_core.guard & NIGH_GUARD_CLOSED))
        nigh_core.guard |= NIGH_GUARD_FORKED;
}

/* Peers see that this rank was killed: only it can say what happened. As a destructor of this library, which runs behind the
 * program's atexit handlers and destructors, which may still call nigh_finalize. */
__attribute__((destructor)) static void at_exit(void)
{
    if (nigh_initialized())
        nigh_say(NIGH_LOG_ERROR,
                 "the program ends without nigh_finalize: messages that are under way are lost, and "
                 "whoever waits for this rank gets -ECONNRESET");
}

static int watch_forks(struct nigh_call call)
{
    static bool watched;

    if (!watched && pthread_atfork(NULL, NULL, in_child) != 0)
        return nigh_fail(call, -ENOMEM, "no memory for a handler of fork");
    watched = true;
    return 0;
}

static int make_comms(struct nigh_call call)
{
    int32_t me = nigh_core.rank;
    int rc = nigh_comms_open();

    if (!rc)
        rc = nigh_comm_make(WORLD_ID, (uint32_t)nigh_core.ranks, me, NULL, "world", &nigh_core.world);
    if (!rc)
        rc = nigh_comm_make(SELF_ID, 1, 0, &me, "self", &nigh_core.self);
    if (rc) {
        nigh_comms_close();
        return nigh_fail(call, rc, "no memory for the communicators of %d ranks", nigh_core.ranks);
    }
    nigh_core.next_comm_id = SELF_ID + 1;
    return 0;
}

static void make_condition(void)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&nigh_core.changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void close_all(void (*end_turn)(void))
{
    nigh_young_end();
    nigh_core.guard |= NIGH_GUARD_CLOSED;
    nigh_core.ops->close(nigh_core.context);
    nigh_core.context = NULL;
    end_turn();
    nigh_control_close();
    nigh_wins_close();
    nigh_comms_close(); /* whose queues name requests that were never waited for */
    nigh_coll_close();
    nigh_operations_close();
    nigh_peers_close();
    nigh_foreign_close();
    nigh_core.world = nigh_core.self = NULL;
    nigh_core.guard = NIGH_GUARD_CLOSED;
}

void nigh_core_close(void)
{
    close_all(nigh_turn_end);
}

static int open_all(struct nigh_call call, const struct nigh_config *config)
{
    int rc = nigh_settings_read(call, config);

    if (!rc)
        rc = watch_forks(call);
    if (!rc)
        rc = nigh_plugin_load(call, config);
    if (!rc)
        rc = nigh_plugin_open(call, config);
    if (rc)
        return rc;
    if (nigh_peers_open() || nigh_operations_open())
        rc = nigh_fail(call, -ENOMEM, "no memory for the tables of %d ranks", nigh_core.ranks);
    if (!rc)
        rc = make_comms(call);
    if (rc)
        close_all(nigh_turn_undo);
    return rc;
}

NIGH_PUBLIC int nigh_init(const struct nigh_config *config)
{
    struct nigh_call call = NIGH_CALL("nigh_init");
    int rc;

    if (nigh_core.guard & NIGH_GUARD_FORKED)
        return nigh_enter_guarded(call);
    if (!(nigh_core.guard & NIGH_GUARD_CLOSED))
        return nigh_fail(call, -EALREADY, "called before, and nigh_finalize was not: once is enough");
    nigh_error_look();
    rc = open_all(call, config);
    if (rc)
        return rc;
    make_condition();
    nigh_core.inject_below = nigh_core.strict || nigh_core.debug ? 0 : NIGH_INJECT_BYTES + 1;
    nigh_core.watchers = 0;
    nigh_core.spare = false;
    nigh_core.was_open = 1;
    nigh_core.leaving = false;
    nigh_line_begin();
    nigh_core.guard =
        (nigh_core.threads ? NIGH_GUARD_THREADS : 0u) | (nigh_core.debug ? NIGH_GUARD_DEBUG : 0u);
    nigh_young_begin();
    if (nigh_core.progress && nigh_thread_start(call)) {
        close_all(nigh_turn_undo);
        return -ENOMEM;
    }
    return 0;
}

NIGH_PUBLIC int nigh_initialized(void)
{
    return !(nigh_core.guard & (NIGH_GUARD_CLOSED | NIGH_GUARD_FORKED));
}

NIGH_PUBLIC double nigh_wtime(void)
{
    return (double)nigh_now_ns() * 1e-9;
}

NIGH_PUBLIC const struct nigh_ops *nigh_plugin(void)
{
    return nigh_initialized() ? nigh_core.ops : NULL;
}

NIGH_PUBLIC struct nigh_context *nigh_plugin_context(void)
{
    return nigh_initialized() ? nigh_core.context : NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/guard.h - the context's lock, where it may be used by several threads: taken in entry.c,
 * left while one sleeps. */
#ifndef NIGH_PLUGIN_GUARD_H
#define NIGH_PLUGIN_GUARD_H

#include "plugin/endpoint.h"

/* Lets other threads in while this one sleeps. */
void nigh_guard_leave(struct nigh_context *context);
void nigh_guard_enter(struct nigh_context *context);
/* Only that, for a while in which this thread neither sleeps nor has anything to poll. nigh_guard_enter() ends it. */
void nigh_guard_open(struct nigh_context *context);

/* Posts under it, for slots that find one. */
int nigh_guarded_send(struct nigh_endpoint *endpoint, const struct nigh_send *send);
int nigh_guarded_recv(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv);

/* Runs `call` on the context under its guard. The whole test is one load and one branch where there is none. */
#define NIGH_GUARDED(context, call)                       \
    ({                                                    \
        struct nigh_context *guarded_ = (context);        \
        int result_;                                      \
                                                          \
        if (__builtin_expect(guarded_->guard == 0, 1)) {  \
            result_ = (call);                             \
        } else if (guarded_->guard & NIGH_GUARD_FORKED) { \
            result_ = nigh_refuse_child(guarded_);        \
        } else {                                          \
            nigh_guard_enter(guarded_);                   \
            result_ = (call);                             \
            nigh_guard_leave(guarded_);                   \
        }                                                 \
        result_;                                          \
    })

#endif

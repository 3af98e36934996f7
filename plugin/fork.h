/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/fork.h - a child of fork() must not use its parent's contexts: it is told so by every call. */
#ifndef NIGH_PLUGIN_FORK_H
#define NIGH_PLUGIN_FORK_H

struct nigh_context;

/* From now on a child of this process closes its copies of nigh's descriptors (shm/held.h). -ENOMEM. Any thread. */
int nigh_fork_handle(void);
/* From now on a fork marks the context in the child. Any thread. */
void nigh_fork_watch(struct nigh_context *context);
void nigh_fork_forget(struct nigh_context *context);

#endif

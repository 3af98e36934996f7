/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/liveness.h - what the kernel says of the process at the other end of a socket: whose it is, its number,
 * and a descriptor that tells its end. Nothing here believes the process itself. */
#ifndef NIGH_SHM_LIVENESS_H
#define NIGH_SHM_LIVENESS_H

#include <stdbool.h>
#include <sys/types.h>

struct nigh_credentials {
    uid_t uid;
    pid_t pid; /* 0: not visible from this process's PID namespace */
};

/* Of the process that connected, or that listens. -EACCES when the kernel does not tell. */
int nigh_liveness_credentials(int socket, struct nigh_credentials *out);

/*
 * A pidfd of the process at the other end: it becomes readable when the process ends. 0 and *pidfd (the
 * caller's); -ESRCH it has ended already; -EMFILE, -ENOMEM; -ENOTSUP there is no way to one here (old kernel
 * and another PID namespace, or a sandbox): then the socket's hang-up is all there is.
 */
int nigh_liveness_pidfd(int socket, pid_t pid, int *pidfd);

/* Has it ended, or can it not be told? A system call each. While the answer is no, the process'
 * number is still its own. */
bool nigh_liveness_ended(int pidfd);
bool nigh_liveness_hung_up(int socket);

/* Has the process of this number ended, all of it? For whoever has lost the descriptor: the number may be another's by now.
 * False also where it cannot be told. */
bool nigh_liveness_gone(pid_t pid);

/* Raises the process's soft limit of descriptors to its hard limit, once a process: a peer takes one for its
 * pidfd and one for the window of our ring to it. Cannot fail: the limit that remains is logged where it is met. */
void nigh_liveness_raise_limit(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/rendezvous.h - how two contexts find each other and exchange their descriptors: a Unix socket, one
 * short exchange, SCM_RIGHTS. Abstract names by default, files in a 0700 directory on request. Who may attach
 * is decided by SO_PEERCRED; pid and pidfd come from the kernel. Never blocks.
 *
 * A job is of the user that its contexts were opened as. A process that has changed its user since is known by the
 * name that it still listens under: greet.c.
 */
#ifndef NIGH_SHM_RENDEZVOUS_H
#define NIGH_SHM_RENDEZVOUS_H

#include "nigh/transport.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct nigh_rendezvous;

/* Who a context is. Part of every hello and, with the machine's identity, of every address. */
struct nigh_identity {
    uint64_t job;
    uint64_t incarnation; /* 0 in a target: not known, any will do */
    uint32_t rank;
};

/* What one side tells the other: sent with its descriptors arena, doorbell, the window of
 * its ring to the listener. */
struct nigh_hello {
    struct nigh_identity self;
    uint32_t index;     /* under which the speaker knows the listener in its own pairs */
    uint32_t peers_max; /* of the speaker */
    uint32_t ranks;     /* of the speaker's job */
};

/* The other side as attached: hello (validated for form, not for meaning) and what the kernel says of it. The
 * descriptors belong to the callee, which closes or keeps them. */
struct nigh_attach {
    struct nigh_hello hello;
    int arena_fd, doorbell_fd, window_fd;
    int pid; /* 0 if not visible from here */
};

/* Why two contexts are not attached to each other. */
enum nigh_cause {
    NIGH_CAUSE_GONE = 1,    /* the context that was dialled is closed, or the other has given up */
    NIGH_CAUSE_USER,        /* it is another user's; value: that user */
    NIGH_CAUSE_DENIED,      /* the system refuses a call: error */
    NIGH_CAUSE_DIRECTORY,   /* NIGH_DIR is closed to what we are now; value: the user that we were */
    NIGH_CAUSE_DESCRIPTORS, /* none is left; value: the limit */
    NIGH_CAUSE_MEMORY,
    NIGH_CAUSE_PEERS,    /* no room for one more; value: peers_max */
    NIGH_CAUSE_VERSION,  /* of the greeting; value: the other side's */
    NIGH_CAUSE_LAYOUT,   /* of shared memory; value: the other side's */
    NIGH_CAUSE_PROTOCOL, /* nonsense was said, or something else has the name */
};

struct nigh_refusal {
    enum nigh_cause cause;
    int error;      /* negative errno */
    bool there;     /* it is the other side that refuses or lacks something */
    int pid;        /* of the other side; 0: not reached, or not visible */
    uint64_t value; /* what the cause says; 0: not known */
};

/* What a dial that has not ended has found so far. */
enum nigh_seen {
    NIGH_SEEN_NOBODY,   /* nobody listens under the name */
    NIGH_SEEN_BUSY,     /* somebody does, but has no room for one more to wait */
    NIGH_SEEN_REACHED,  /* it has the greeting, or has asked for another one, and has not answered */
    NIGH_SEEN_USER,     /* nobody, but another user has opened this rank of the job: value */
    NIGH_SEEN_ABSTRACT, /* nobody in NIGH_DIR, but somebody without one */
};

#define NIGH_PARCEL_BYTES 8192u /* of a record, at most */
#define NIGH_PARCEL_FDS   240u

/* Something that an attached peer hands over beside its messages. `bytes` and `count` may be 0. */
struct nigh_parcel {
    uint64_t number; /* the sender's name for it */
    const void *record;
    size_t bytes;
    const int *fds;
    uint32_t count;
};

/* Called from nigh_rendezvous_progress() only. */
struct nigh_rendezvous_events {
    /* Somebody greets us. Returns 0 and *index, under which we will know it: a record that exists already
     * (matched by incarnation, or by job and rank if we are dialling it), or a new one; *cookie is the
     * record, *window_fd the descriptor that is for this peer alone: it stays the callee's, and open until
     * forget(). Negative: refuse; -EAGAIN: not now, the dialler tries again by itself. */
    int (*greeted)(void *user, const struct nigh_hello *hello, uint32_t *index, int *window_fd,
                   void **cookie);
    /* The exchange with `cookie` is complete; may come twice for one pair when both dialled: the second is
     * dropped by the callee (it closes the descriptors and returns 0). Returns 0 if it took the attach,
     * negative to tell the other side off: it has then closed the descriptors too, and no failed() follows;
     * -EAGAIN: not now; one that dials us tries again by itself, one that has answered us is told that we have gone. */
    int (*attached)(void *user, void *cookie, const struct nigh_attach *attach);
    /* A dial can never succeed. It also undoes an attached() towards a dialler that gave up (NIGH_CAUSE_GONE) or
     * could not take it. Never for a cookie that both sides have attached, and no other event for it follows. */
    void (*failed)(void *user, void *cookie, const struct nigh_refusal *why);
    /* The process behind `cookie` has ended. Once per watch. What it had brought before comes first, unless no descriptor
     * is left to accept it. */
    void (*died)(void *user, void *cookie);
    /* An attached peer (by what it says: `from`; `pid` as the kernel says, 0: not visible) has brought something. The callee
     * checks both against whom it knows. The descriptors (parcel->fds[0..count)) are the callee's, to keep or close; the
     * record's bytes, aligned to 8, are valid during the call only. Hostile: only the form was checked. Several of one
     * peer come in the order of their sending. NULL: what comes is closed. */
    void (*brought)(void *user, const struct nigh_identity *from, int pid, const struct nigh_parcel *parcel);
};

struct nigh_rendezvous_config {
    struct nigh_identity self; /* incarnation set */
    uint64_t called;           /* self.job as people know it, 0: as it is */
    uint32_t peers_max, ranks;
    int arena_fd, doorbell_fd;
    const char *directory; /* NULL: abstract names */
    uint64_t late_ns;      /* after which peers that nobody has met are told, once; 0: nigh_late_ns() */
    const struct nigh_rendezvous_events *events;
    void *user;
};

/* The more ranks a job has, the longer its start may take, and the more of them would say so. */
static inline uint64_t nigh_late_ns(uint32_t ranks)
{
    return UINT64_C(3000000000) + (ranks > 16 ? (ranks - 16) * UINT64_C(100000000) : 0);
}

/* Begins to listen under (uid, job, rank). -EADDRINUSE, -EMFILE, -EACCES, -ENOTDIR, -ENAMETOOLONG, -EPERM;
 * logged. */
int nigh_rendezvous_open(const struct nigh_rendezvous_config *config, struct nigh_rendezvous **out);
void nigh_rendezvous_close(struct nigh_rendezvous *rendezvous);

/* This context's address. */
void nigh_rendezvous_address(const struct nigh_rendezvous *rendezvous, struct nigh_address *out);
/* Reads an address: -EBADMSG garbage or version, -EHOSTUNREACH another machine or boot, -EACCES another user.
 */
int nigh_rendezvous_parse(const struct nigh_rendezvous *rendezvous, const struct nigh_address *address,
                          struct nigh_identity *out);

/* Starts greeting `to`; we know it as `index`, and hand it `window_fd`, which stays the caller's and open
 * until forget(). Ends in attached() or failed(). A name that nobody listens on
 * is tried again (1 ms, doubling to 100 ms) if to->incarnation is 0, else it fails with -ECONNREFUSED: an
 * address names a context that was open when it was written. So does an answer from another incarnation.
 * -ENOMEM; -EBADF the program has closed our descriptors; nothing begun then. */
int nigh_rendezvous_dial(struct nigh_rendezvous *rendezvous, const struct nigh_identity *to, uint32_t index,
                         int window_fd, void *cookie);
/* Forgets dials, exchanges and the watch of `cookie`; no event for it comes any more. The watch of the other
 * process (pidfd; the kept socket's hang-up where pidfd cannot be had; none within one process) begins at
 * attached(). */
void nigh_rendezvous_forget(struct nigh_rendezvous *rendezvous, void *cookie);
/* Forgets the dials of `cookie` that nobody has answered; it is watched as before. */
void nigh_rendezvous_undial(struct nigh_rendezvous *rendezvous, const void *cookie);
/* Is there such a dial? */
bool nigh_rendezvous_dials(const struct nigh_rendezvous *rendezvous, const void *cookie);

/* Does the process behind `cookie` live? Asked of the kernel, not of what progress has heard: a system call. While the
 * answer is yes its number has not been given to another process. Not if it cannot be told. */
bool nigh_rendezvous_lives(const struct nigh_rendezvous *rendezvous, const void *cookie);

/* The process that was reached under the name that is dialled for `cookie`, and has not answered yet; 0: nobody, or it
 * is not visible. It listens, but may compute for as long as it likes before it answers. */
pid_t nigh_rendezvous_reached(const struct nigh_rendezvous *rendezvous, const void *cookie);
/* What its dial has found; NIGH_SEEN_NOBODY if there is none. *value: see enum nigh_seen. *ns: for how long it has
 * been dialled. */
enum nigh_seen nigh_rendezvous_seen(const struct nigh_rendezvous *rendezvous, const void *cookie,
                                    uint64_t *value, uint64_t *ns);
/* The user that the job is of: this process' when it was opened. */
uint32_t nigh_rendezvous_user(const struct nigh_rendezvous *rendezvous);
/* Listens no longer, for good: who dials is refused. */
void nigh_rendezvous_deafen(struct nigh_rendezvous *rendezvous);
/* Has somebody been greeted under that name, who has not answered yet, or has asked to be greeted again? */
bool nigh_rendezvous_greeted(const struct nigh_rendezvous *rendezvous, const void *cookie);
/* Does anybody listen under the name of `who` now? Costs a connection, which says nothing. */
bool nigh_rendezvous_listens(const struct nigh_rendezvous *rendezvous, const struct nigh_identity *who);

/* Sends it to the context `to` (incarnation set). Never waits, keeps nothing: the descriptors stay the caller's. 0: it lies
 * with the peer, before whatever is told it by shared memory from now on. A pass of the peer that returns false has heard it,
 * unless no descriptor is left to accept it; a peer without room for what is in it drops it. -EAGAIN: not now (its queue is full, or the system has no
 * room): again later. Any other error: it cannot be told so: -ECONNREFUSED nobody listens there, -EACCES another user does,
 * -EMFILE, -EBADF ours were closed, -EMSGSIZE too much. */
int nigh_rendezvous_bring(struct nigh_rendezvous *rendezvous, const struct nigh_identity *to,
                          const struct nigh_parcel *parcel);

/* Does all that can be done now: accepts, reads, answers, redials, notices deaths. Calls events. Costs system
 * calls. False: there was nothing. */
bool nigh_rendezvous_progress(struct nigh_rendezvous *rendezvous);

/* Has the program closed our descriptors, or opened others under their numbers? Then nobody is attached any more and no end
 * is heard of; what is attached stays so. */
bool nigh_rendezvous_is_lost(const struct nigh_rendezvous *rendezvous);

/* One descriptor (epoll) that is readable when progress has something to do; a timer for redials included. */
int nigh_rendezvous_fd(const struct nigh_rendezvous *rendezvous);

#endif

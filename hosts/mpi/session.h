/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/session.h - this process's presence in nigh: one context for all communicators, opened when the first of
 * them needs it and closed when MPI is finalized. Threads of the program take turns at it.
 */
#ifndef NIGH_MPI_SESSION_H
#define NIGH_MPI_SESSION_H

#include "hosts/mpi/abi.h"
#include "hosts/mpi/account.h"
#include "nigh/transport.h"

#include <stdbool.h>
#include <stdint.h>

struct nigh_mpi_operation;

/* Joins nigh; `rank` of `ranks` are for nigh's log. 0 also when that has been done; a negative errno, logged: the
 * plugin cannot be loaded, or open() of it fails. */
int nigh_mpi_session_open(int rank, int ranks);
bool nigh_mpi_session_is_open(void);

/* Of an open session. */
const struct nigh_ops *nigh_mpi_session_nigh(void);
struct nigh_context *nigh_mpi_session_context(void);

/* MPI was told that one thread at a time calls it: the lock is left alone, which would take a tenth of a short call. */
extern bool nigh_mpi_session_alone;
/* Open MPI: requests that are done, and of which it has not heard. */
extern _Atomic(struct nigh_mpi_operation *) nigh_mpi_session_finished;
/* Requests that are under way. Any thread may look. */
extern _Atomic int nigh_mpi_session_requests;
/* Operations under way that call MPI's or the program's functions, which a thread of ours must not. */
extern int nigh_mpi_session_functions;
void nigh_mpi_session_lock_always(void);
void nigh_mpi_session_unlock_always(void);

/*
 * All that follows, and what it points to, belongs to who holds the lock. What MPI calls of ours never waits for it, as MPI may
 * hold a lock of its own that a function of the program's needs (MPI_Reduce_local()), which is called with this one.
 */
static inline void nigh_mpi_session_lock(void)
{
    if (!nigh_mpi_session_alone)
        nigh_mpi_session_lock_always();
}
bool nigh_mpi_session_try(void);

/* And completes requests at Open MPI: not those of another MPI, so a thread of ours may do it there. */
static inline void nigh_mpi_session_unlock(void)
{
    if (!nigh_mpi_session_alone || nigh_mpi_session_finished)
        nigh_mpi_session_unlock_always();
}

/* From now on several threads need the lock: this one holds it not. */
void nigh_mpi_session_share(void);

/* Looks that find nothing before this rank gives its CPU away: many, unless ranks share CPUs. */
extern _Atomic uint32_t nigh_mpi_session_patience;

/* What calls have done. */
extern struct nigh_mpi_account nigh_mpi_session_account;

/* The process at an address, which stays connected until the session ends. 0 or connect()'s errors, -ENOMEM. */
int nigh_mpi_session_connect(const struct nigh_address *address, struct nigh_endpoint **out);

/* Takes what has come, and files it. Returns how much that was. */
int nigh_mpi_session_poll(void);

/* Leaves nigh. */
void nigh_mpi_session_close(void);

/*
 * For who found nothing to do: gives the CPU away, as there may be more ranks than CPUs, and with `mpi` lets MPI go on with its
 * own messages, as peers may need that before they come to what is waited for. Without the lock.
 */
void nigh_mpi_session_idle(bool mpi);
/* Of looks that found nothing, where ranks share CPUs, one in so many lets MPI look, too, which may take it as long as a turn. */
#define NIGH_MPI_EVERY 32u

#endif

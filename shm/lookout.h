/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/lookout.h - threads that sleep until a peer's life word is marked (shm/life.h), and then raise the service's flag: the
 * context's own thread looks which one it is. One thread for 127 peers; none where the kernel has no futex_waitv.
 */
#ifndef NIGH_SHM_LOOKOUT_H
#define NIGH_SHM_LOOKOUT_H

#include "shm/service.h"

struct nigh_lookouts;

/* With the first thread (all signals blocked, named "nigh-lookout"). `service` outlives it. 0 also where there can be no
 * thread, and where that is so for good (logged): then nobody is watched. -ENOMEM, logged. */
int nigh_lookouts_open(struct nigh_service *service, struct nigh_lookouts **out);
/* Ends and joins the threads; bounded. NULL: nothing. */
void nigh_lookouts_close(struct nigh_lookouts *lookouts);

/* Watches a peer's life word, which stays mapped until it is forgotten. If it is marked already that is told, too. One that
 * nobody holds is not watched. Not beside another call. */
void nigh_lookouts_watch(struct nigh_lookouts *lookouts, const uint32_t *word);
/* One that is not watched: nothing. lookouts NULL: nothing, here and above. */
void nigh_lookouts_forget(struct nigh_lookouts *lookouts, const uint32_t *word);

#endif

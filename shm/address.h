/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/address.h - the 64 bytes by which a context is found: who it is, and on which machine, boot, user and
 * namespace of names. */
#ifndef NIGH_SHM_ADDRESS_H
#define NIGH_SHM_ADDRESS_H

#include "shm/rendezvous.h"
#include <sys/stat.h>

/* Where names are valid. Two contexts can meet if all three are equal. */
struct nigh_place {
    /* Hash of the boot's id: another machine, or this one before it was restarted, differs. */
    uint64_t machine;
    uint64_t names; /* hash of the network namespace, or of the directory that holds the sockets */
    uint32_t uid;
};

/* This process's place. `directory` is NULL or an open directory. What /proc does not tell is logged as a
 * warning and counts as 0: addresses then meet only among processes that are as blind. */
void nigh_place_find(const struct stat *directory, struct nigh_place *out);

void nigh_address_encode(const struct nigh_place *place, const struct nigh_identity *self,
                         struct nigh_address *out);
/* -EBADMSG garbage or another version, -EHOSTUNREACH another machine, boot or namespace, -EACCES another
 * user. */
int nigh_address_decode(const struct nigh_place *here, const struct nigh_address *address,
                        struct nigh_identity *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/registers.h - the slots of the table that take all of a message in registers: inject.c sends, expect.c and
 * short.c receive. The table names them themselves: whatever is called before them would save registers. */
#ifndef NIGH_PLUGIN_REGISTERS_H
#define NIGH_PLUGIN_REGISTERS_H

#include "plugin/endpoint.h"

int nigh_expect(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, uint64_t tag, uint64_t context,
                nigh_refused_fn refused);
int nigh_inject(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                uint64_t context, nigh_refused_fn refused);
int nigh_inject_imm(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                    uint64_t imm);
int nigh_send_imm(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                  uint64_t imm, uint64_t context);
/* What nigh_recv_imm() does where nothing may be there. */
int nigh_recv_file(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, uint64_t tag,
                   uint64_t ignore, uint64_t context);
/* And what it does in a crowd, where nothing is there that it takes. */
int nigh_recv_wait(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, uint64_t tag,
                   uint64_t ignore, uint64_t context);
/* A plain receive from the peer, which may take a message that is there. */
int nigh_recv_imm(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, uint64_t tag, uint64_t ignore,
                  uint64_t context);

#endif

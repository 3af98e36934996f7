/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/pieces.h - the receiving side of messages that do not fit a ring. */
#ifndef NIGH_PLUGIN_PIECES_H
#define NIGH_PLUGIN_PIECES_H

#include "plugin/endpoint.h"

/* Can a message in pieces begin like this? Its id is unused, its first piece, if any, lies in the
 * peer's pool or in a shuttle. */
/* Does it lie where the peer may refer to? */
bool nigh_arrive_refer_is_sound(const struct nigh_endpoint *endpoint, const struct nigh_wire_refer *refer);
bool nigh_arrive_first_is_sound(struct nigh_endpoint *endpoint, const struct nigh_wire_first *first,
                                uint32_t flags);
/* A message in pieces whose place is known and whose beginning is sound: files it and takes its first piece. */
enum nigh_verdict nigh_arrive_first_piece(struct nigh_message *message, uint32_t line, uint32_t bytes,
                                          uint32_t flags);
/* A peer's slot of that kind. */
enum nigh_verdict nigh_arrive_first(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                    uint64_t imm);
enum nigh_verdict nigh_arrive_piece(struct nigh_endpoint *endpoint, uint64_t head, uint64_t id);
enum nigh_verdict nigh_arrive_whole(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                    uint64_t imm);
enum nigh_verdict nigh_arrive_refer(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                    uint64_t imm);
/* The next `bytes` of a message, at `line`. Whoever calls it has filed the message; it is gone when
 * it was the last piece. */
enum nigh_verdict nigh_arrive_more(struct nigh_message *message, uint32_t line, uint32_t bytes,
                                   uint32_t flags);
/* A message that has all its bytes, and whose number is free again, is over, or its place is on a device and waited for. */
void nigh_arrive_done(struct nigh_message *message, int status);
/* Copies a piece with the kernel that its sender asked for. */
void nigh_arrive_copy(void *to, const void *from, uint64_t bytes, uint32_t flags);

#endif

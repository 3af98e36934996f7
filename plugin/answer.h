/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/answer.h - what receivers say of messages that lie with their sender or wait for their receives: GRANT, HELP
 * and FINISH. Messages that end together are told of in one slot. */
#ifndef NIGH_PLUGIN_ANSWER_H
#define NIGH_PLUGIN_ANSWER_H

#include "plugin/endpoint.h"
#include "plugin/wire.h"

/* Messages of one sender's that are over, and that it has not been told of. Begins as zeroes. */
struct nigh_finish {
    struct nigh_endpoint *endpoint;
    uint32_t count;
    uint32_t ids[1 + NIGH_FINISH_MORE];
};

/* Its message `id` is over, all of it copied. Tells of those that stand there first, if they are another sender's or
 * too many. */
void nigh_finish_add(struct nigh_finish *finish, struct nigh_endpoint *endpoint, uint32_t id);
/* Tells of all of them. They have been copied before. */
void nigh_finish_tell(struct nigh_finish *finish);

/* A peer's, of ours. */
enum nigh_verdict nigh_answer_arrive(struct nigh_endpoint *endpoint, uint64_t head, uint64_t id,
                                     uint64_t imm);
/* What a peer may report as a status; anything else it says is "it failed". */
int nigh_answer_status(uint64_t imm);

#endif

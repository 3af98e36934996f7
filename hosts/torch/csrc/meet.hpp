/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/meet.hpp - how the members of a group find each other through the store of c10d. What an earlier life of the group has
 * left in the store is never taken for this one: docs/rationale/torch.md, "Meeting".
 */
#ifndef NIGH_TORCH_MEET_H
#define NIGH_TORCH_MEET_H

#include "engine.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace nigh_torch
{

struct Member {
    struct nigh_address address;
    int32_t pid;
    std::string host;
    std::string place; /* of the tests: other texts are other machines */
};

struct Meeting {
    uint64_t nonce;     /* the same at all members, of this group alone */
    uint32_t tag_group; /* the same at all members: distinguishes messages of this group */
    std::vector<Member> members;
};

/* `ranks` says which ranks of the program form the group, to be compared. Waits for all members. Throws
 * std::runtime_error, at all members if one of them cannot take part. */
/* After a meeting: the lowest rank on the machine of each rank, which each has found for itself. Throws. */
std::vector<int> find_hosts(c10d::Store &store, const Meeting &meeting, int rank, int lowest,
                            std::chrono::milliseconds timeout);

Meeting meet(c10d::Store &store, int rank, int size, const std::string &group, const std::string &ranks,
             std::chrono::milliseconds timeout);

} // namespace nigh_torch

#endif

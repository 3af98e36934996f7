/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/memory.cc - tensors in memory that peers read in place, and which way messages of each size go. */
#include "group.hpp"
#include "hosts.hpp"

#include <ATen/ATen.h>

namespace nigh_torch
{

/* The memory is zero when it is first used, and later what was left in it. */
at::Tensor empty(const std::vector<int64_t> &sizes, at::ScalarType type)
{
    Engine &engine = Engine::get();
    uint64_t bytes = c10::elementSize(type);
    void *memory;

    for (int64_t size : sizes) {
        if (size < 0)
            raise("nigh_torch.empty: a size is negative");
        if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
            raise("nigh_torch.empty: more bytes than there are");
    }
    memory = engine.take_memory(bytes ? bytes : 1);
    if (!memory)
        raise("nigh_torch.empty: no shared memory for " + std::to_string(bytes) +
              " bytes: NIGH_HEAP and the container's limits decide how much there is");
    auto give_back = [&engine](void *data) {
        /* Of one that is being sent the operation keeps the tensor, so it is not busy. */
        engine.give_memory(data);
    };
    return at::from_blob(memory, sizes, give_back, at::TensorOptions().dtype(type));
}

std::vector<Path> Group::paths() const
{
    std::vector<Path> out;

    state_->check();
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->closed)
        return out;
    for (int member = 0; member < size_; member++) {
        struct nigh_query_path found[32];
        uint64_t bytes = sizeof(found);

        if (state_->hosts && !state_->hosts->is_here(member)) {
            out.emplace_back(member, 0, "gloo", "is on " + state_->hosts->host_name(member));
            continue;
        }
        if (state_->engine.table()->query(state_->engine.context(),
                                          state_->endpoints[static_cast<size_t>(member)], NIGH_QUERY_PATHS,
                                          found, &bytes))
            continue;
        for (uint64_t i = 0; i < bytes / sizeof(found[0]); i++)
            out.emplace_back(member, found[i].bytes_from, found[i].path, found[i].reason);
    }
    return out;
}

} // namespace nigh_torch

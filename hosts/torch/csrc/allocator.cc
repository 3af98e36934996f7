/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/allocator.cc - torch's allocator for the CPU, when asked for: large tensors lie in nigh's heap, which peers read in place.
 * What it has given goes back the way it came, whether it is still in use then or not.
 */
#include "group.hpp"

#include <c10/core/CPUAllocator.h>

namespace nigh_torch
{

namespace
{

/* torch takes an allocator that is set if its priority is not below that of the one before. */
const uint8_t priority = 100;

class Shared : public c10::Allocator
{
  public:
    explicit Shared(c10::Allocator *own) : own_(own)
    {
    }
    c10::DataPtr allocate(size_t bytes) override
    {
        /* A forked child has no engine until it makes a group. */
        Engine *engine =
            bytes && bytes >= least.load(std::memory_order_relaxed) ? Engine::current() : nullptr;
        void *memory = engine ? engine->take_memory(bytes) : nullptr;

        if (!memory)
            return own_->allocate(bytes);
        return {memory, new Block{engine, memory}, give_back, at::Device(at::kCPU)};
    }
    /* None: blocks of both kinds have deleters of their own, so torch asks for no raw pointers. */
    c10::DeleterFnPtr raw_deleter() const override
    {
        return nullptr;
    }
    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        default_copy_data(to, from, bytes);
    }

    std::atomic<uint64_t> least{UINT64_MAX};

  private:
    /* A forked child's engine is another one, whose memory may lie at the same addresses. */
    struct Block {
        Engine *engine;
        void *memory;
    };
    static void give_back(void *data)
    {
        Block *block = static_cast<Block *>(data);

        block->engine->give_memory(block->memory);
        delete block;
    }
    c10::Allocator *const own_;
};

} // namespace

void use_shared_memory(std::optional<uint64_t> least)
{
    static std::mutex mutex;
    static Shared *shared; /* never destroyed: tensors may outlive all else */
    std::lock_guard<std::mutex> lock(mutex);

    if (!least && !shared)
        return;
    if (least)
        (void)Engine::get();
    if (!shared) {
        shared = new Shared(c10::GetCPUAllocator());
        c10::SetCPUAllocator(shared, priority);
    }
    if (c10::GetCPUAllocator() != shared)
        raise("nigh_torch.use_shared_memory: the program has set an allocator of its own for the CPU");
    shared->least = least ? *least : UINT64_MAX;
}

} // namespace nigh_torch

/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/op.cc - see op.hpp. */
#include "op.hpp"
#include "engine.hpp"

#include <cerrno>
#include <exception>
#include <utility>

namespace nigh_torch
{

void Op::expect_one()
{
    hold();
    left_.fetch_add(1, std::memory_order_relaxed);
}

void Op::unexpect_one()
{
    left_.fetch_sub(1, std::memory_order_relaxed);
    release();
}

void Op::posted()
{
    if (finish_if_last())
        run_hooks();
}

void Op::fail(int error, std::string text)
{
    std::lock_guard<std::mutex> lock(mutex_);

    if (error_ || is_done())
        return;
    error_ = error;
    text_ = std::move(text);
}

bool Op::finish_if_last()
{
    bool failed, alone, hooked;

    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1)
        return false;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        failed = error_ != 0;
    }
    if (!failed) {
        try {
            land();
        } catch (const std::exception &problem) {
            fail(-EIO, describe() + ": the result cannot be copied to its tensor: " + problem.what());
        }
    }
    ended();
    {
        std::lock_guard<std::mutex> lock(mutex_);
        done_.store(true, std::memory_order_release);
        alone = alone_;
        hooked = !hooks_.empty();
    }
    if (alone)
        engine_.subtract_outstanding();
    return hooked;
}

void Op::when_done(std::function<void()> hook)
{
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!is_done()) {
            hooks_.push_back(std::move(hook));
            return;
        }
    }
    hook();
}

void Op::run_alone()
{
    std::lock_guard<std::mutex> lock(mutex_);

    if (alone_ || is_done())
        return;
    alone_ = true;
    engine_.add_outstanding();
}

Op::Settled Op::settle(const struct nigh_completion &completion)
{
    if (!take(completion))
        return again;
    return finish_if_last() ? hooks : under_way;
}

void Op::run_hooks()
{
    std::vector<std::function<void()>> hooks;

    {
        std::lock_guard<std::mutex> lock(mutex_);
        hooks.swap(hooks_);
    }
    for (auto &hook : hooks)
        hook();
}

} // namespace nigh_torch

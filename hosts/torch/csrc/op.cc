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
    finish_if_last();
}

void Op::fail(int error, std::string text)
{
    std::lock_guard<std::mutex> lock(mutex_);

    if (error_ || is_done())
        return;
    error_ = error;
    text_ = std::move(text);
}

void Op::finish_if_last()
{
    std::vector<std::function<void()>> hooks, apart;
    bool failed, alone;

    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1)
        return;
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
        hooks.swap(hooks_);
        apart.swap(apart_);
    }
    if (alone)
        engine_.subtract_outstanding();
    for (auto &hook : hooks)
        hook();
    for (auto &hook : apart)
        engine_.run_apart(std::move(hook));
}

void Op::add_hook(std::vector<std::function<void()>> &hooks, std::function<void()> hook)
{
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!is_done()) {
            hooks.push_back(std::move(hook));
            return;
        }
    }
    hook();
}

void Op::when_done(std::function<void()> hook)
{
    add_hook(hooks_, std::move(hook));
}

void Op::when_done_apart(std::function<void()> hook)
{
    add_hook(apart_, std::move(hook));
}

void Op::run_alone()
{
    std::lock_guard<std::mutex> lock(mutex_);

    if (alone_ || is_done())
        return;
    alone_ = true;
    engine_.add_outstanding();
}

bool Op::settle(const struct nigh_completion &completion)
{
    if (!take(completion))
        return false;
    finish_if_last();
    return true;
}

} // namespace nigh_torch

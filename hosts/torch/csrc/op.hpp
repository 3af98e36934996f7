/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/op.hpp - an operation of c10d: one or several posts of the table, and what happens when the last of them completes.
 * Counted by references: one of the Work or the caller, one of each post under way.
 */
#ifndef NIGH_TORCH_OP_H
#define NIGH_TORCH_OP_H

#include <nigh/transport.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace nigh_torch
{

class Engine;

class Op
{
  public:
    explicit Op(Engine &engine) : engine_(engine)
    {
    }
    Op(const Op &) = delete;
    Op &operator=(const Op &) = delete;

    void hold()
    {
        refs_.fetch_add(1, std::memory_order_relaxed);
    }
    void release()
    {
        if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1)
            delete this;
    }

    /* Around each post: before it, and when it was refused. */
    void expect_one();
    void unexpect_one();
    /* No more posts follow. Ends the operation if all have completed. */
    void posted();

    bool is_done() const
    {
        return done_.load(std::memory_order_acquire);
    }
    /* Both only of one that is done: 0 or a negative errno, and the sentence for the user. */
    int error() const
    {
        return error_;
    }
    const std::string &text() const
    {
        return text_;
    }

    /* The first failure counts. The operation ends when its posts have completed. */
    void fail(int error, std::string text);
    /* Runs when the operation is done, in the thread that finds it, which may lead; with no lock held; at once if it is
     * done. Never code of the program, which may wait for what this thread would complete. */
    void when_done(std::function<void()> hook);
    /* The same for what does: in a thread of its own; at once if the operation is done. */
    void when_done_apart(std::function<void()> hook);
    /* It counts as outstanding until it is done: somebody has to move it although nobody waits. */
    void run_alone();

    /* The engine's: a post has completed. True: the post's reference is the caller's. False: it was posted anew. */
    bool settle(const struct nigh_completion &completion);

    /* Called by a thread that waits, now and then: what keeps it? May fail the operation. */
    virtual void look()
    {
    }
    /* It waits no longer. */
    virtual void look_away()
    {
    }
    /* What this operation is, and whom it waits for, for messages. */
    virtual std::string describe() const = 0;
    virtual std::string waits_for() const = 0;

    Engine &engine() const
    {
        return engine_;
    }

  protected:
    virtual ~Op() = default;
    /* A post has completed: checks its status. False: it was posted anew. */
    virtual bool take(const struct nigh_completion &completion) = 0;
    /* All posts went well: moves results to where they belong. */
    virtual void land()
    {
    }
    /* The operation is done, whatever its end: gives back what it kept. */
    virtual void ended()
    {
    }

  private:
    void finish_if_last();
    void add_hook(std::vector<std::function<void()>> &hooks, std::function<void()> hook);

    Engine &engine_;
    std::atomic<int> refs_{1};
    std::atomic<int> left_{1}; /* posts under way, and one until posted() */
    std::atomic<bool> done_{false};
    std::mutex mutex_; /* of all below */
    int error_ = 0;
    std::string text_;
    bool alone_ = false;
    std::vector<std::function<void()>> hooks_, apart_;
};

/* Holds one reference. */
template <typename T> class Ref
{
  public:
    Ref() = default;
    /* Takes over the reference that a new operation is born with. */
    explicit Ref(T *born) : op_(born)
    {
    }
    Ref(const Ref &other) : op_(other.op_)
    {
        if (op_)
            op_->hold();
    }
    Ref(Ref &&other) noexcept : op_(other.op_)
    {
        other.op_ = nullptr;
    }
    Ref &operator=(Ref other) noexcept
    {
        std::swap(op_, other.op_);
        return *this;
    }
    ~Ref()
    {
        if (op_)
            op_->release();
    }
    T *operator->() const
    {
        return op_;
    }
    T &operator*() const
    {
        return *op_;
    }
    T *get() const
    {
        return op_;
    }
    explicit operator bool() const
    {
        return op_ != nullptr;
    }

  private:
    T *op_ = nullptr;
};

} // namespace nigh_torch

#endif

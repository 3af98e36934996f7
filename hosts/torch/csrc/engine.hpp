/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/engine.hpp - nigh's context of this process, its endpoints, and who moves it: one thread at a time *leads*, that is,
 * polls and sleeps in the table's wait(); others that wait sleep until it has found theirs. Knows nothing of torch.
 */
#ifndef NIGH_TORCH_ENGINE_H
#define NIGH_TORCH_ENGINE_H

#include "op.hpp"

#include <nigh/transport.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace nigh_torch
{

using Clock = std::chrono::steady_clock;

class Engine
{
  public:
    /* This process's, opened by the first call. Throws std::runtime_error. Never destroyed: a forked child gets another. */
    static Engine &get();
    /* The same, or NULL if there is none in this process. */
    static Engine *current();

    const struct nigh_ops *table() const
    {
        return table_;
    }
    struct nigh_context *context() const
    {
        return context_;
    }
    const struct nigh_address &address() const
    {
        return address_;
    }

    /* Throws in a process that was forked from the one that made it, and after close(). */
    void check() const;
    /* The same as an answer. */
    bool is_over() const
    {
        return is_forked_ || closed_.load(std::memory_order_relaxed);
    }

    /* An endpoint to the context of that address, this one included; one disconnect() each. Throws. */
    struct nigh_endpoint *connect(const struct nigh_address &to);
    void disconnect(struct nigh_endpoint *endpoint);

    /* Waits for the operation. False: not done at `until`. May throw what check() and `signals` throw. */
    bool wait(Op &op, Clock::time_point until);
    /* One pass, if no other thread makes them. */
    void poll();
    /* Somebody waits for this operation on something that is not ours, as a future: the thread moves things at once. */
    void add_future();
    void subtract_future();
    void add_outstanding();
    void subtract_outstanding();
    /* Runs the program's code, which may wait for anything that others complete: in a thread of the engine that nothing else
     * depends on. One job never waits for another to end. */
    void run_apart(std::function<void()> job);

    /* Memory of nigh's heap, or NULL; what it holds stays readable until the process is gone. */
    void *take_memory(uint64_t bytes);
    void give_memory(void *memory); /* also after close() */

    /* At the end of the process: ends the threads and leaves the job, unless other threads are in a call, or memory of the
     * heap is in use: the tensors of other exit handlers must stay readable. */
    void close();

    /* May threads that wait spin before they sleep? Decided by the first group, which knows how many ranks there are. */
    enum class Spin { undecided, never, by_load };
    static std::atomic<Spin> spin;
    /* What becomes of it: NIGH_SPIN goes before. */
    bool spins() const;

    /* False in threads of ours: no signal handlers run in their waits. */
    static thread_local bool is_programs_thread;
    /* Called by waits that were interrupted, in the interrupted thread: Python's signal handlers. */
    std::function<void()> signals;
    /* Has the program no thread of Python but the calling one? */
    std::function<bool()> alone;
    /* Is the calling thread, which waits in wait() or elsewhere, all that the program has? Callbacks of futures are the
     * program's. */
    bool waits_alone(bool elsewhere = false) const
    {
        return waiters_.load(std::memory_order_relaxed) == !elsewhere && futures_.load() == 0 &&
               jobs_.load() == 0 && alone && alone();
    }

  private:
    Engine();
    static void forked();
    static void log(void *data, int level, const char *text);
    bool lead();
    void unlead();
    void follow(Op &op, Clock::time_point until);
    void pass(uint64_t sleep_ns, int *woken);
    int spin_for(struct nigh_completion *batch, uint64_t ns);
    void settle_all(const struct nigh_completion *batch, int count);
    void notify_followers();
    void run();
    void run_job(std::unique_lock<std::mutex> &lock);
    void move(std::unique_lock<std::mutex> &lock);
    void ensure_threads();
    void add_thread();

    const struct nigh_ops *table_;
    struct nigh_context *context_ = nullptr;
    struct nigh_address address_;
    struct nigh_endpoint *self_ = nullptr;
    bool is_forked_ = false;
    /* Opened before the first group: the context never spins, and the engine does as is decided later. */
    bool spins_itself_ = false;
    bool context_spins_ = true;
    std::atomic<bool> closed_{false};

    std::atomic<bool> leads_{false};        /* a thread leads */
    std::atomic<bool> thread_leads_{false}; /* the mover */
    std::atomic<int> followers_{0};
    std::atomic<int> waiters_{0};    /* threads in wait() */
    std::atomic<uint32_t> turns_{0}; /* passes of the program's threads */
    std::atomic<int> outstanding_{0}, futures_{0};
    std::atomic<int> taken_{0};       /* blocks of memory */
    std::atomic<bool> parked_{false}; /* the mover sleeps until it is called */

    std::mutex mutex_;
    std::condition_variable followers_cv_, thread_cv_;
    std::atomic<bool> has_thread_{false};
    bool stop_ = false;

    /* Our threads: at most one is the mover, which may lead; others are in a job or free to take over. */
    std::condition_variable free_cv_, gone_cv_;
    std::deque<std::function<void()>> apart_; /* jobs that no thread has taken */
    std::atomic<int> jobs_{0};                /* those, and those that run */
    int threads_ = 0, free_ = 0;
    bool has_mover_ = false;

    std::mutex endpoints_mutex_;
    std::map<struct nigh_endpoint *, int> endpoints_;
};

} // namespace nigh_torch

#endif

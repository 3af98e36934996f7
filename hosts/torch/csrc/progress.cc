/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/progress.cc - who moves the context. See engine.hpp and docs/rationale/torch.md, "Progress". */
#include "engine.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <system_error>

namespace nigh_torch
{

using std::chrono::milliseconds;

static const uint32_t batch_max = 32;
/* Between two looks at what keeps a wait, and at Python's signals. */
static const milliseconds look_each(300);
/* Nobody has made a pass for so long: a wait is not in sight. */
static const milliseconds unseen(1);
/* So many times nothing was outstanding: the thread sleeps until it is called. */
static const int idle_max = 50;
/* So many threads of ours stay that have nothing to do. */
static const int free_max = 2;
/* As long as the context spins by itself. */
static const uint64_t spin_ns = 20000;
/* How long the thread sleeps in one pass: it is woken when there is something. */
static const uint64_t thread_sleep_ns = 100000000;

static uint64_t nanoseconds(Clock::duration time)
{
    auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    return count > 0 ? static_cast<uint64_t>(count) : 0;
}

bool Engine::lead()
{
    return !leads_.exchange(true, std::memory_order_seq_cst);
}

void Engine::unlead()
{
    leads_.store(false, std::memory_order_seq_cst);
    if (followers_.load(std::memory_order_seq_cst))
        notify_followers();
}

void Engine::notify_followers()
{
    std::lock_guard<std::mutex> lock(mutex_);
    followers_cv_.notify_all();
}

void Engine::settle_all(const struct nigh_completion *batch, int count)
{
    for (int i = 0; i < count; i++) {
        Op *op = reinterpret_cast<Op *>(batch[i].context);

        /* None: of a silent message to a peer that has gone. */
        if (op && op->settle(batch[i]))
            op->release();
    }
}

int Engine::spin_for(struct nigh_completion *batch, uint64_t ns)
{
    Clock::time_point until = Clock::now() + std::chrono::nanoseconds(ns);
    int count;

    do {
        count = table_->poll_completions(context_, batch, batch_max);
    } while (!count && Clock::now() < until);
    return count;
}

/* One pass of a thread that leads, and leads no more then. */
void Engine::pass(uint64_t sleep_ns, int *woken)
{
    struct nigh_completion batch[batch_max];
    int count = 0, rc = 0;

    if (sleep_ns && spins_itself_ && spins())
        count = spin_for(batch, std::min(sleep_ns, spin_ns));
    if (sleep_ns && !count)
        rc = table_->wait(context_, sleep_ns);
    if (woken)
        *woken = rc;
    settle_all(batch, count);
    do {
        count = table_->poll_completions(context_, batch, batch_max);
        settle_all(batch, count);
    } while (count == static_cast<int>(batch_max));
    unlead();
}

void Engine::poll()
{
    turns_.fetch_add(1, std::memory_order_relaxed);
    if (!is_over() && lead())
        pass(0, nullptr);
}

/* Sleeps until the operation is done, nobody leads any more, or the time is over. */
void Engine::follow(Op &op, Clock::time_point until)
{
    auto over = [&] { return op.is_done() || !leads_.load(std::memory_order_seq_cst); };
    std::unique_lock<std::mutex> lock(mutex_);

    followers_.fetch_add(1, std::memory_order_seq_cst);
    while (!over() && Clock::now() < until) {
        Clock::time_point next = until;

        /* Our thread gives way to one that waits. A nudge just before its sleep is lost, hence the next one. */
        if (thread_leads_.load(std::memory_order_seq_cst)) {
            uint64_t number;
            table_->nudge(self_, &number);
            next = std::min(until, Clock::now() + unseen);
        }
        followers_cv_.wait_until(lock, next, over);
    }
    followers_.fetch_sub(1, std::memory_order_seq_cst);
}

namespace
{
/* Counts a thread that waits; the last one calls our thread if it is to go on. */
class Waiting
{
  public:
    Waiting(std::atomic<int> &count, std::function<void()> last) : count_(count), last_(std::move(last))
    {
        count_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Waiting()
    {
        if (count_.fetch_sub(1, std::memory_order_seq_cst) == 1)
            last_();
    }

  private:
    std::atomic<int> &count_;
    std::function<void()> last_;
};

class LookAway
{
  public:
    explicit LookAway(Op &op) : op_(op)
    {
    }
    ~LookAway()
    {
        op_.look_away();
    }

  private:
    Op &op_;
};
} // namespace

bool Engine::wait(Op &op, Clock::time_point until)
{
    if (op.is_done())
        return true;
    check();
    poll();
    if (op.is_done())
        return true;

    Waiting waiting(waiters_, [this] {
        if (parked_.load(std::memory_order_seq_cst) && outstanding_.load(std::memory_order_seq_cst)) {
            std::lock_guard<std::mutex> lock(mutex_);
            thread_cv_.notify_all();
        }
    });
    LookAway away(op);
    Clock::time_point now = Clock::now(), looked = now;
    while (now < until) {
        Clock::duration slice = std::min<Clock::duration>(until - now, look_each);
        int woken = 0;

        turns_.fetch_add(1, std::memory_order_relaxed);
        if (lead())
            pass(nanoseconds(slice), &woken);
        else
            follow(op, now + slice);
        if (op.is_done())
            return true;
        if (woken == -EINTR && signals && is_programs_thread)
            signals();
        check();
        now = Clock::now();
        if (now - looked >= look_each) {
            looked = now;
            if (signals && is_programs_thread)
                signals();
            op.look();
        }
    }
    return op.is_done();
}

void Engine::add_outstanding()
{
    if (!has_thread_) {
        std::lock_guard<std::mutex> lock(mutex_);
        ensure_threads();
    }
    outstanding_.fetch_add(1, std::memory_order_seq_cst);
    if (parked_.load(std::memory_order_seq_cst) && waiters_.load(std::memory_order_seq_cst) == 0) {
        std::lock_guard<std::mutex> lock(mutex_);
        thread_cv_.notify_all();
    }
}

void Engine::subtract_outstanding()
{
    outstanding_.fetch_sub(1, std::memory_order_seq_cst);
}

void Engine::add_future()
{
    if (futures_.fetch_add(1, std::memory_order_seq_cst) == 0) {
        std::lock_guard<std::mutex> lock(mutex_);
        thread_cv_.notify_all();
    }
}

void Engine::subtract_future()
{
    futures_.fetch_sub(1, std::memory_order_seq_cst);
}

/* With mutex_. A free thread for each job that none has taken, and for the mover if there is none. */
void Engine::ensure_threads()
{
    int wanted = static_cast<int>(apart_.size()) + (has_mover_ ? 0 : 1);

    try {
        while (free_ < wanted && !stop_)
            add_thread();
    } catch (const std::system_error &) {
        if (threads_ == 0)
            throw;
        thread_cv_.notify_all(); /* the mover takes the job */
    }
    free_cv_.notify_all();
}

/* With mutex_. The engine is never destroyed, and close() waits for its threads. */
void Engine::add_thread()
{
    std::thread([this] { run(); }).detach();
    has_thread_ = true;
    threads_++;
    free_++;
}

void Engine::run_apart(std::function<void()> job)
{
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (threads_ > 0 || !stop_) {
            jobs_.fetch_add(1, std::memory_order_seq_cst);
            apart_.push_back(std::move(job));
            ensure_threads();
            return;
        }
    }
    job();
}

/* What the job waits for is completed by a thread that is in no job: by the mover, or by the thread that becomes it. */
void Engine::run_job(std::unique_lock<std::mutex> &lock)
{
    std::function<void()> job = std::move(apart_.front());

    apart_.pop_front();
    free_--;
    ensure_threads();
    lock.unlock();
    try {
        job();
    } catch (const std::exception &problem) { /* nobody is left who would take it */
        std::fprintf(stderr, "nigh: a callback of a future has failed: %s\n", problem.what());
    }
    job = nullptr; /* it may hold what its end gives back */
    jobs_.fetch_sub(1, std::memory_order_seq_cst);
    lock.lock();
    free_++;
}

/* Each of our threads. */
void Engine::run()
{
    is_programs_thread = false;

    std::unique_lock<std::mutex> lock(mutex_);

    for (;;) {
        if (!apart_.empty()) {
            run_job(lock);
        } else if (stop_ || (has_mover_ && free_ > free_max)) {
            break;
        } else if (!has_mover_) {
            has_mover_ = true;
            free_--;
            move(lock);
            free_++;
            has_mover_ = false;
        } else {
            free_cv_.wait(lock, [this] { return stop_ || !apart_.empty() || !has_mover_; });
        }
    }
    free_--;
    threads_--;
    gone_cv_.notify_all();
}

/* The mover, until there is a job. It leads while a future is waited for, or operations are outstanding that nobody moves, and
 * never while a thread of the program waits. */
void Engine::move(std::unique_lock<std::mutex> &lock)
{
    auto ends = [this] { return stop_ || !apart_.empty(); };
    int idle = 0;

    while (!ends()) {
        bool wanted = outstanding_.load(std::memory_order_seq_cst) != 0;

        if (!wanted || waiters_.load(std::memory_order_seq_cst)) {
            auto called = [&] { return ends() || (outstanding_.load() && !waiters_.load()); };

            if (!wanted && ++idle < idle_max) {
                thread_cv_.wait_for(lock, unseen, [&] { return ends() || futures_.load() != 0; });
                if (futures_.load() == 0 || outstanding_.load())
                    continue;
            }
            parked_.store(true, std::memory_order_seq_cst);
            thread_cv_.wait(lock, called);
            parked_.store(false, std::memory_order_seq_cst);
            idle = 0;
            continue;
        }
        idle = 0;
        if (futures_.load() == 0) {
            uint32_t before = turns_.load(std::memory_order_relaxed);

            thread_cv_.wait_for(lock, unseen, [&] { return ends() || futures_.load() != 0; });
            if (ends() || (futures_.load() == 0 && turns_.load(std::memory_order_relaxed) != before))
                continue;
        }
        lock.unlock();
        if (lead()) {
            thread_leads_.store(true, std::memory_order_seq_cst);
            /* A waiter that came before the store has nudged nobody. */
            uint64_t sleep = waiters_.load(std::memory_order_seq_cst) ? 0 : thread_sleep_ns;
            pass(sleep, nullptr);
            thread_leads_.store(false, std::memory_order_seq_cst);
            lock.lock();
        } else {
            lock.lock();
            followers_.fetch_add(1, std::memory_order_seq_cst);
            followers_cv_.wait_for(lock, unseen,
                                   [&] { return ends() || !leads_.load(std::memory_order_seq_cst); });
            followers_.fetch_sub(1, std::memory_order_seq_cst);
        }
    }
}

} // namespace nigh_torch

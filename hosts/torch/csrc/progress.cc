/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/progress.cc - who moves the context. See engine.hpp and docs/rationale/torch.md, "Progress". */
#include "engine.hpp"

#include <cerrno>
#include <vector>

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

/* One pass of a thread that leads; it leads no more when hooks run, which may wait for other operations. */
void Engine::pass(uint64_t sleep_ns, int *woken)
{
    struct nigh_completion batch[batch_max];
    std::vector<Op *> hooked;
    int count, rc = 0;

    if (sleep_ns)
        rc = table_->wait(context_, sleep_ns);
    if (woken)
        *woken = rc;
    do {
        count = table_->poll_completions(context_, batch, batch_max);
        for (int i = 0; i < count; i++) {
            Op *op = reinterpret_cast<Op *>(batch[i].context);

            if (!op)
                continue; /* of a silent message to a peer that has gone */
            switch (op->settle(batch[i])) {
            case Op::hooks:
                hooked.push_back(op);
                break;
            case Op::under_way:
                op->release();
                break;
            case Op::again:
                break;
            }
        }
    } while (count == static_cast<int>(batch_max));
    unlead();
    if (hooked.empty())
        return;
    for (Op *op : hooked) {
        op->run_hooks();
        op->release();
    }
    if (followers_.load(std::memory_order_seq_cst))
        notify_followers();
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

void Engine::ensure_thread()
{
    std::lock_guard<std::mutex> lock(mutex_);

    if (has_thread_ || stop_)
        return;
    thread_ = std::thread([this] { run(); });
    has_thread_ = true;
}

void Engine::add_outstanding()
{
    if (!has_thread_)
        ensure_thread();
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

/* Our thread. It leads while a future is waited for, or operations are outstanding that nobody moves, and never while a
 * thread of the program waits. */
void Engine::run()
{
    std::unique_lock<std::mutex> lock(mutex_);
    int idle = 0;

    while (!stop_) {
        bool wanted = outstanding_.load(std::memory_order_seq_cst) != 0;

        if (!wanted || waiters_.load(std::memory_order_seq_cst)) {
            auto called = [this] { return stop_ || (outstanding_.load() && !waiters_.load()); };

            if (!wanted && ++idle < idle_max) {
                thread_cv_.wait_for(lock, unseen, [this] { return stop_ || futures_.load() != 0; });
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

            thread_cv_.wait_for(lock, unseen, [this] { return stop_ || futures_.load() != 0; });
            if (stop_ || (futures_.load() == 0 && turns_.load(std::memory_order_relaxed) != before))
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
                                   [this] { return stop_ || !leads_.load(std::memory_order_seq_cst); });
            followers_.fetch_sub(1, std::memory_order_seq_cst);
        }
    }
}

} // namespace nigh_torch

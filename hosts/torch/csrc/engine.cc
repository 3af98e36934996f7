/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/engine.cc - see engine.hpp. The context and its endpoints; who moves it stands in progress.cc. */
#include "engine.hpp"
#include "table.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>

namespace nigh_torch
{

/* For callbacks of futures that run when the process ends. */
static const std::chrono::milliseconds jobs_patience(2000);
thread_local bool Engine::is_programs_thread = true;

static std::mutex opening;
std::atomic<Engine::Spin> Engine::spin{Engine::Spin::undecided};
static Engine *the_engine; /* of this process; a child forgets its parent's */

Engine &Engine::get()
{
    std::lock_guard<std::mutex> lock(opening);

    if (!the_engine)
        the_engine = new Engine();
    the_engine->check();
    return *the_engine;
}

Engine *Engine::current()
{
    return the_engine;
}

/* What nigh calls an error becomes an exception here, which says more. Its warnings stay. */
void Engine::log(void *, int level, const char *text)
{
    static const bool wanted = std::getenv("NIGH_LOG") != nullptr;

    if (level != 0 || wanted)
        std::fprintf(stderr, "nigh: %s\n", text);
}

void Engine::forked()
{
    if (the_engine)
        the_engine->is_forked_ = true;
    the_engine = nullptr;
    spin = Spin::undecided;
    new (&opening) std::mutex();
}

Engine::Engine() : table_(load_table())
{
    struct nigh_open options = {};
    struct nigh_connect to = {};
    std::random_device random;
    int rc;

    /* A job of this process alone: peers come by address, so groups need no common numbering. */
    options.size = sizeof(options);
    options.flags = NIGH_OPEN_THREADS;
    options.job = static_cast<uint64_t>(random()) << 32 | random();
    options.ranks = 1;
    options.peers_max = 4096;
    options.log = log;
    if (spin.load() != Spin::by_load && !std::getenv("NIGH_SPIN")) {
        options.spin_ns = 1;
        context_spins_ = false;
        spins_itself_ = spin.load() == Spin::undecided;
    }
    rc = table_->open(&options, &context_);
    if (rc)
        throw std::runtime_error(std::string("nigh: cannot open its shared memory (") + std::strerror(-rc) +
                                 "); NIGH_LOG=info says which call was refused");
    rc = table_->address(context_, &address_);
    to.size = sizeof(to);
    to.rank = NIGH_RANK_NONE;
    to.address = &address_;
    to.source = NIGH_SOURCE_NONE;
    if (!rc)
        rc = table_->connect(context_, &to, &self_);
    if (rc) {
        table_->close(context_);
        throw std::runtime_error(std::string("nigh: this process cannot connect to itself: ") +
                                 std::strerror(-rc));
    }
    static const int registered = pthread_atfork(nullptr, nullptr, forked);
    (void)registered;
}

bool Engine::spins() const
{
    return context_spins_ || (spins_itself_ && spin.load(std::memory_order_relaxed) == Spin::by_load);
}

void Engine::check() const
{
    if (is_forked_)
        throw std::runtime_error(
            "nigh: this process was forked after init_process_group, and its parent's groups are not "
            "its own: start it with multiprocessing's \"spawn\", or let it call destroy_process_group and "
            "init_process_group with a store of its own");
    if (closed_.load(std::memory_order_relaxed))
        throw std::runtime_error("nigh: a call after the interpreter's exit handlers have run");
}

struct nigh_endpoint *Engine::connect(const struct nigh_address &to)
{
    struct nigh_connect options = {};
    struct nigh_endpoint *endpoint;
    int rc;

    options.size = sizeof(options);
    options.rank = NIGH_RANK_NONE;
    options.address = &to;
    options.source = NIGH_SOURCE_NONE;
    rc = table_->connect(context_, &options, &endpoint);
    if (rc)
        throw std::runtime_error(std::string("nigh: cannot connect: ") + std::strerror(-rc) +
                                 "; NIGH_LOG=info says more");
    std::lock_guard<std::mutex> lock(endpoints_mutex_);
    endpoints_[endpoint]++;
    return endpoint;
}

/* One connection stays until the peer has ended: a group that is made later with the same peers finds it. */
void Engine::disconnect(struct nigh_endpoint *endpoint)
{
    struct nigh_query_endpoint is = {};
    uint64_t bytes = sizeof(is);
    std::lock_guard<std::mutex> lock(endpoints_mutex_);
    auto found = endpoints_.find(endpoint);

    if (is_forked_ || closed_ || found == endpoints_.end())
        return;
    if (found->second > 1) {
        found->second--;
        table_->disconnect(endpoint);
        return;
    }
    if (table_->query(context_, endpoint, NIGH_QUERY_ENDPOINT, &is, &bytes) || is.state <= NIGH_READY)
        return;
    endpoints_.erase(found);
    table_->disconnect(endpoint);
}

void *Engine::take_memory(uint64_t bytes)
{
    void *memory;

    if (is_over() || table_->heap_alloc(context_, bytes, &memory))
        return nullptr;
    taken_.fetch_add(1, std::memory_order_relaxed);
    return memory;
}

/* In a forked child, and after the end, it is not this process's to give. */
void Engine::give_memory(void *memory)
{
    if (!is_over() && table_->heap_free(context_, memory) == 0)
        taken_.fetch_sub(1, std::memory_order_relaxed);
}

void Engine::close()
{
    bool gone;

    if (is_forked_ || closed_.exchange(true))
        return;
    {
        std::unique_lock<std::mutex> lock(mutex_);
        stop_ = true;
        thread_cv_.notify_all();
        free_cv_.notify_all();
        if (thread_leads_) {
            uint64_t number;
            table_->nudge(self_, &number);
        }
        /* A job may be in the program's code for as long as that likes. */
        gone = gone_cv_.wait_for(lock, jobs_patience, [this] { return threads_ == 0; });
    }
    if (gone && waiters_.load() == 0 && taken_.load() == 0 && !leads_.exchange(true))
        table_->close(context_);
}

} // namespace nigh_torch

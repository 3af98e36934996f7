/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/hosts.cc - see hosts.hpp. Ends, words between hosts, and the thread; the calls stand in hosts_calls.cc. */
#include "hosts.hpp"
#include "exchange.hpp"
#include "message.hpp"
#include "step.hpp"

#include <cerrno>
#include <cstring>

namespace nigh_torch
{

using std::chrono::milliseconds;

/* Between two looks at Python's signals and at the operation. */
static const milliseconds look_each(300);
/* For the answers of ranks that are asked how far they are. */
static const milliseconds answer_time(500);

Places::Places(const std::vector<int> &lowest, int rank) : host_of(lowest.size()), place_of(lowest.size())
{
    std::map<int, size_t> numbers;

    for (size_t i = 0; i < lowest.size(); i++) {
        if (lowest[i] == static_cast<int>(i)) {
            numbers[lowest[i]] = hosts.size();
            hosts.emplace_back();
        }
        if (!numbers.count(lowest[i]))
            throw std::runtime_error("nigh: the ranks do not agree on who is on whose machine");
        std::vector<int> &members = hosts[numbers[lowest[i]]];

        host_of[i] = static_cast<int>(numbers[lowest[i]]);
        place_of[i] = static_cast<int>(members.size());
        members.push_back(static_cast<int>(i));
    }
    here = host_of[static_cast<size_t>(rank)];
}

static std::vector<int> elsewhere(const Places &places)
{
    std::vector<int> out;

    for (size_t i = 0; i < places.host_of.size(); i++)
        if (places.host_of[i] != places.here)
            out.push_back(static_cast<int>(i));
    return out;
}

Hosts::Hosts(State &state, Places its, std::vector<std::string> names, c10::intrusive_ptr<c10d::Backend> gloo)
    : wire(std::move(gloo), elsewhere(its)), places(std::move(its)), state_(state), names_(std::move(names))
{
    wire.arrived = [this](int from, const Header &header) { arrived(from, header); };
    wire.heard = [this](int from, const Header &header, const std::string &text) {
        heard(from, header, text);
    };
    wire.lost = [this](int peer, const std::string &why) { lost_peer(peer, why); };
}

/* In a forked child there is no thread to be joined. */
Hosts::~Hosts()
{
    if (thread_.joinable())
        new std::thread(std::move(thread_));
}

void Hosts::start()
{
    wire.start();
    thread_ = std::thread([this] { conduct(); });
}

void Hosts::stop()
{
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stopping_ = true;
        cv_.notify_all();
    }
    wire.stop();
    if (thread_.joinable())
        thread_.join();
}

/* ---- operations ---- */

bool Hosts::await(Op &op, Clock::time_point until)
{
    struct LooksAway {
        ~LooksAway()
        {
            op.look_away();
        }
        Op &op;
    };
    Engine &engine = op.engine();
    Clock::time_point now = Clock::now(), looked = now;

    if (op.is_done())
        return true;
    engine.check();
    if (engine.signals)
        engine.signals();
    op.hold();
    Ref<Op> held(&op);
    LooksAway looks = {op};
    op.when_done([this] {
        std::lock_guard<std::mutex> lock(mutex_);
        cv_.notify_all();
    });
    while (!op.is_done() && now < until) {
        bool proved = false;
        {
            std::unique_lock<std::mutex> lock(mutex_);
            cv_.wait_until(lock, std::min(until, now + look_each),
                           [&] { return op.is_done() || (proved = is_stuck(op)); });
        }
        now = Clock::now();
        if (op.is_done() || (now - looked < look_each && !proved))
            continue;
        looked = now;
        engine.check();
        if (engine.signals)
            engine.signals();
        op.look();
    }
    return op.is_done();
}

void Hosts::finish(Op &op)
{
    op.posted();
    op.release();
}

/* ---- what hosts tell each other ---- */

void Hosts::say_bye()
{
    for (int rank : elsewhere(places))
        wire.say(rank, bye, 0);
}

void Hosts::heard(int from, const Header &header, const std::string &text)
{
    switch (header.kind) {
    case bye:
        wire.forget(from);
        heard_bye(state_, from);
        return;
    case ended:
        end(-static_cast<int>(header.value), text);
        return;
    case ask:
        wire.say(from, answered, state_.sequence.load());
        return;
    case answered: {
        std::lock_guard<std::mutex> lock(mutex_);
        answers_[from] = header.value;
        cv_.notify_all();
        return;
    }
    default:
        heard_waits(from, header, text);
    }
}

void Hosts::lost_peer(int peer, const std::string &why)
{
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (stopping_)
            return;
        lost_[peer] = why;
    }
    heard_bye(state_, peer);
    for (const Ref<Operation> &op : state_.outstanding(false, true))
        if (static_cast<Message &>(*op).peer() == any_source)
            static_cast<Message &>(*op).cancel(state_.lost(peer));
    end(-ECONNRESET, state_.lost(peer));
}

std::string Hosts::lost(int rank) const
{
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = lost_.find(rank);

    if (found == lost_.end())
        return "on " + host_name(rank) + ", has left the group";
    return "on " + host_name(rank) + ", has ended or cannot be reached (" + found->second + ")";
}

int Hosts::status() const
{
    std::lock_guard<std::mutex> lock(mutex_);
    return ended_;
}

void Hosts::end(int error, const std::string &text)
{
    bool tells;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (ended_ || error >= 0)
            return;
        ended_ = error;
        ended_text_ = text;
        tells = !stopping_;
        cv_.notify_all();
    }
    if (!tells || state_.closing)
        return;
    for (int rank : elsewhere(places))
        wire.say(rank, ended, static_cast<uint64_t>(-error), text);
    std::lock_guard<std::mutex> posting(state_.posting);
    if (!state_.closed && state_.group)
        (void)state_.engine.table()->group_end(state_.group, error, text.c_str());
}

std::string Hosts::missing(uint64_t number)
{
    std::vector<int> late = agrees_ ? state_.late() : std::vector<int>(), silent, others = elsewhere(places);
    std::string out;
    std::unique_lock<std::mutex> lock(mutex_);

    answers_.clear();
    lock.unlock();
    for (int rank : others)
        wire.say(rank, ask, 0);
    lock.lock();
    cv_.wait_for(lock, answer_time, [&] { return answers_.size() >= others.size(); });
    for (int rank : others)
        if (!answers_.count(rank))
            silent.push_back(rank);
        else if (answers_[rank] < number)
            late.push_back(rank);
    if (!late.empty())
        out = join(late);
    if (!silent.empty())
        out += (out.empty() ? "" : ", and ") + join(silent) + ", which " +
               (silent.size() == 1 ? "does" : "do") + " not answer";
    return out.empty() ? "data that is on its way" : out;
}

/* ---- do all make the same call? ---- */

static std::string text_of(const Print &print)
{
    static const char *const ops[] = {"?",      "barrier", "broadcast",  "reduce",     "all_reduce",
                                      "gather", "scatter", "all_gather", "all_to_all", "reduce_scatter"};
    static const char *const types[] = {"?",   "i8",  "u8",  "i16",  "u16", "i32",  "u32",  "i64",
                                        "u64", "f32", "f64", "bool", "f16", "bf16", "cf32", "cf64"};
    static const char *const reductions[] = {"",    "sum",  "product", "min", "max", "land",
                                             "lor", "lxor", "band",    "bor", "bxor"};
    std::string out = ops[print.op < sizeof(ops) / sizeof(ops[0]) ? print.op : 0];

    if (print.count)
        out += " of " + std::to_string(print.count) + (print.op == NIGH_BROADCAST ? " bytes" : "");
    if (print.type && print.type < sizeof(types) / sizeof(types[0]))
        out += std::string(" ") + types[print.type];
    if (print.reduction)
        out += std::string(" (") +
               (print.reduction == NIGH_AVG                                    ? "average"
                : print.reduction == NIGH_PREMUL                               ? "premultiplied sum"
                : print.reduction < sizeof(reductions) / sizeof(reductions[0]) ? reductions[print.reduction]
                                                                               : "?") +
               ")";
    if (print.op == NIGH_BROADCAST || print.op == NIGH_REDUCE || print.op == NIGH_GATHER ||
        print.op == NIGH_SCATTER)
        out += " root " + std::to_string(print.root);
    return out;
}

void Hosts::compare(int rank, const Print &theirs, const Print &ours)
{
    if (std::memcmp(&theirs, &ours, sizeof(ours)) == 0)
        return;
    end(-EPROTO, "the ranks have made different calls: " + state_.who(rank) + " calls " + text_of(theirs) +
                     ", " + state_.who(state_.rank) + " calls " + text_of(ours));
}

void Hosts::arrived(int from, const Header &header)
{
    Print ours;

    if (header.tag >> 60 != collective_class)
        return;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (header.print.serial > serial_) {
            early_[header.print.serial].emplace_back(from, header.print);
            return;
        }
        if (header.print.serial + 64 <= serial_)
            return;
        ours = prints_[header.print.serial % 64];
    }
    compare(from, header.print, ours);
}

void Hosts::begin(const Print &print)
{
    std::vector<std::pair<int, Print>> now;
    {
        std::lock_guard<std::mutex> lock(mutex_);

        serial_ = print.serial;
        prints_[serial_ % 64] = print;
        auto found = early_.find(serial_);
        if (found != early_.end()) {
            now = std::move(found->second);
            early_.erase(found);
        }
    }
    for (auto &one : now)
        compare(one.first, one.second, print);
    check_end();
}

/* The ranks of this host: the table would compare its own calls, which may be the same. */
void Hosts::agree(const Print &print)
{
    const std::vector<int> &members = mine();
    std::vector<Print> all(members.size());
    struct nigh_collective call = {};

    if (members.size() == 1)
        return;
    call.op = NIGH_ALLGATHER;
    call.type = NIGH_OPAQUE;
    call.width = sizeof(Print);
    call.count = 1;
    call.send = &print;
    call.recv = all.data();
    agrees_ = true;
    local(call);
    agrees_ = false;
    for (size_t i = 0; i < members.size(); i++)
        compare(members[i], all[i], print);
    check_end();
}

void Hosts::check_end()
{
    std::lock_guard<std::mutex> lock(mutex_);

    if (stopping_)
        throw Broken{-ECANCELED, ""};
    if (ended_)
        throw Broken{ended_, ended_text_};
}

/* ---- the thread ---- */

void Hosts::run(Ref<Collective> op)
{
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(op));
    cv_.notify_all();
}

void Hosts::conduct()
{
    Engine::is_programs_thread = false;
    for (;;) {
        Ref<Collective> op;
        {
            std::unique_lock<std::mutex> lock(mutex_);
            cv_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            if (queue_.empty())
                return;
            op = std::move(queue_.front());
            queue_.pop_front();
        }
        try {
            for (const struct nigh_collective &call : op->calls())
                perform(call);
            op->go_on([this](const struct nigh_collective &call) { perform(call); });
        } catch (const Broken &broken) {
            std::string why = broken.text;

            if (state_.closing && state_.is_closed())
                why = state_.end();
            else
                end(broken.error, broken.text);
            op->fail(broken.error, state_.me() + ": " + op->describe() + ": " + why);
        } catch (const std::exception &problem) {
            end(-EIO, state_.who(state_.rank) + " has failed: " + problem.what());
            op->fail(-EIO, state_.me() + ": " + op->describe() + ": " + problem.what());
        }
        finish(*op);
    }
}

/* A call of the members of this host, made and waited for. */
void Hosts::local(struct nigh_collective call)
{
    Ref<Step> step(new Step(state_));
    int rc = step->make(call, [this](const struct nigh_collective &it) {
        return state_.group ? state_.engine.table()->post_collective(state_.group, &it) : -EOPNOTSUPP;
    });

    if (!rc)
        return;
    check_end();
    throw Broken{rc, state_.broken(rc, step->about)};
}

} // namespace nigh_torch

/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/state.cc - see state.hpp. */
#include "hosts.hpp"

#include <c10/util/Exception.h>

#include <cerrno>
#include <cstring>

namespace nigh_torch
{

static const size_t unwaited_max = 16;

void raise(const std::string &text)
{
    C10_THROW_ERROR(DistBackendError, text);
}

void raise(const Op &op)
{
    raise(op.text());
}

std::exception_ptr exception_of(const Op &op)
{
    try {
        raise(op);
    } catch (...) {
        return std::current_exception();
    }
}

std::string join(const std::vector<int> &ranks)
{
    std::string out;

    for (int rank : ranks)
        out += (out.empty() ? "" : ", ") + std::to_string(rank);
    return (ranks.size() == 1 ? "rank " : "ranks ") + out;
}

std::string State::who(int member) const
{
    std::string out = "rank " + std::to_string(member);

    if (member >= 0 && static_cast<size_t>(member) < global.size() &&
        global[static_cast<size_t>(member)] != member)
        out += " (global rank " + std::to_string(global[static_cast<size_t>(member)]) + ")";
    return out;
}

std::string State::me() const
{
    return "nigh: " + who(rank) + " of " + std::to_string(size) + " in group " + name;
}

void State::check() const
{
    engine.check();
    if (!closing.load(std::memory_order_relaxed))
        return;
    raise(me() + ": " + end());
}

std::string State::end() const
{
    std::lock_guard<std::mutex> lock(mutex);
    return "the group " + (closed_why.empty() ? "has been shut down" : closed_why) + " at this rank";
}

std::vector<int> State::late() const
{
    struct nigh_query_group is = {};
    std::vector<int> ranks;
    std::lock_guard<std::mutex> lock(mutex);

    is.size = sizeof(is);
    if (closed || !group || engine.table()->query_group(group, &is))
        return {};
    for (int member = 0; member < static_cast<int>(is.members); member++)
        if (rank_of(member) != rank && is.waits_for[member / 64] >> (member % 64) & 1)
            ranks.push_back(rank_of(member));
    return ranks;
}

std::string State::missing() const
{
    std::vector<int> ranks = late();
    return ranks.empty() ? "no rank in particular" : join(ranks);
}

bool State::is_closed() const
{
    std::lock_guard<std::mutex> lock(mutex);
    return closed;
}

std::string State::lost(int member) const
{
    struct nigh_query_end end = {};
    uint64_t bytes = sizeof(end);
    std::string out = who(member);

    if (member < 0 || member >= size)
        return "a rank that is not known";
    out += ", process " + std::to_string(pids[static_cast<size_t>(member)]) + ",";
    if (hosts && !hosts->is_here(member))
        return out + " " + hosts->lost(member);
    std::lock_guard<std::mutex> lock(mutex);
    if (closed || engine.table()->query(engine.context(), endpoints[static_cast<size_t>(member)],
                                        NIGH_QUERY_END, &end, &bytes))
        return out + " is gone";
    switch (end.reason) {
    case NIGH_REASON_NONE:
        return out + " has left the group";
    case NIGH_REASON_DIED:
        return out + " has ended or was killed";
    case NIGH_REASON_LEFT:
    case NIGH_REASON_GONE:
        return out + " has ended";
    default:
        return out + " cannot be reached: " + end.text;
    }
}

std::string State::broken(int status, int about) const
{
    struct nigh_query_group is = {};
    std::string told;
    bool over;

    is.size = sizeof(is);
    {
        std::lock_guard<std::mutex> lock(mutex);
        over = closed;
        if (!closed && group && engine.table()->query_group(group, &is) == 0)
            told = is.text;
    }
    if (over)
        return end();
    if (about < 0 && is.status)
        about = rank_of(static_cast<int>(is.about));
    /* Ended by its member, which says why: by an error of ours. */
    if (is.by_host && !told.empty())
        return told;
    /* The table numbers members as the group numbers its ranks. */
    for (size_t at = 0; (at = told.find("member ", at)) != std::string::npos; at += 5) {
        size_t digits = told.find_first_not_of("0123456789", at + 7) - at - 7;
        int member = std::atoi(told.c_str() + at + 7);

        told.replace(at, 7 + std::min(digits, told.size() - at - 7),
                     "rank " + std::to_string(rank_of(member)));
    }
    switch (status) {
    case -ECONNRESET:
        return lost(about);
    case -EPROTO:
        return "the ranks have made different calls: " + told;
    case -EIO:
        return "the memory of " + who(about) + " cannot be read";
    case -ENOMEM:
        return "no shared memory for data on its way: NIGH_POOL and the container's limits decide how much "
               "there is";
    default:
        return told.empty() ? std::strerror(-status) : told;
    }
}

bool State::has_left(int member) const
{
    std::lock_guard<std::mutex> lock(mutex);
    return member >= 0 && left[static_cast<size_t>(member)];
}

int State::member_of(const struct nigh_endpoint *endpoint) const
{
    for (int member = 0; endpoint && member < size; member++)
        if (endpoints[static_cast<size_t>(member)] == endpoint)
            return member;
    return -1;
}

void State::add(Operation &op)
{
    std::lock_guard<std::mutex> lock(mutex);
    operations_.insert(&op);
}

void State::remove(Operation &op)
{
    std::lock_guard<std::mutex> lock(mutex);
    operations_.erase(&op);
}

std::vector<Ref<Operation>> State::outstanding(bool collectives, bool messages) const
{
    std::vector<Ref<Operation>> out;
    std::lock_guard<std::mutex> lock(mutex);

    for (Operation *op : operations_)
        if (op->kind == Kind::collective ? collectives : messages) {
            op->hold();
            out.emplace_back(op);
        }
    return out;
}

void State::remember_unwaited(const std::string &what)
{
    std::lock_guard<std::mutex> lock(mutex);
    if (unwaited.size() < unwaited_max)
        unwaited.push_back(what);
}

Operation::Operation(std::shared_ptr<State> its, Kind kind, const char *name)
    : Op(its->engine), state(std::move(its)), kind(kind), name(name)
{
}

std::string Operation::describe() const
{
    std::string out = std::string(name) + " number " + std::to_string(number);
    return site.empty() ? out : out + " (" + site + ")";
}

std::string Operation::waits_for() const
{
    return state->missing();
}

void Operation::ended()
{
    state->remove(*this);
}

} // namespace nigh_torch

/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/state.hpp - what a group is, as its operations see it: they may outlive the object that c10d holds. */
#ifndef NIGH_TORCH_STATE_H
#define NIGH_TORCH_STATE_H

#include "engine.hpp"

#include <chrono>
#include <string>
#include <unordered_set>
#include <vector>

namespace nigh_torch
{

enum class Kind { send, receive, collective };

/* An operation of a group. */
class Operation;
/* Of a group on several hosts. */
class Hosts;
class SparseParts;

class State
{
  public:
    State(Engine &engine, int rank, int size) : engine(engine), rank(rank), size(size)
    {
    }

    Engine &engine;
    const int rank, size;
    std::string name;            /* of the group, as c10d calls it */
    std::vector<int64_t> global; /* ranks of the program; empty: the same numbers */
    std::chrono::milliseconds timeout{0};
    uint32_t tag_group = 0;
    std::vector<struct nigh_endpoint *> endpoints; /* NULL: on another host */
    std::vector<int32_t> pids;
    struct nigh_group *group = nullptr;  /* of the table; freed when closed */
    std::vector<int> members;            /* of `group`; empty: all ranks */
    std::shared_ptr<Hosts> hosts;        /* none: all ranks are here */
    std::shared_ptr<SparseParts> sparse; /* none: no call has needed it */
    uint64_t sparse_id = 0;              /* of its group of the table */

    /* "rank 2", and the program's number of it where that is another. */
    std::string who(int member) const;
    /* The beginning of each sentence: "nigh: rank 1 of 4 in group 0". */
    std::string me() const;
    /* Throws if the group has been shut down, or this is a forked child. */
    void check() const;
    /* Which ranks of this host the oldest call waits for. */
    std::vector<int> late() const;
    std::string missing() const;
    bool is_closed() const;
    /* What has happened to the group of the table, or to a member. */
    std::string broken(int status, int about) const;
    /* "the group has been aborted at this rank". */
    std::string end() const;
    std::string lost(int member) const;
    /* Has this member shut the group down, or ended? */
    bool has_left(int member) const;
    /* Are these the same: an endpoint of a completion and one of ours? -1: none of ours. */
    int member_of(const struct nigh_endpoint *endpoint) const;

    uint64_t tag_of(int tag) const
    {
        return static_cast<uint64_t>(tag_group) << 32 | static_cast<uint32_t>(tag);
    }

    void add(Operation &op);
    void remove(Operation &op);
    /* Of these kinds, each with a reference of its own. */
    std::vector<Ref<Operation>> outstanding(bool collectives, bool messages) const;
    void remember_unwaited(const std::string &what);

    std::atomic<uint64_t> sequence{0};
    /* Calls of a group are posted in the order of their numbers. Whoever gives the table an endpoint or `group` holds this,
     * or `mutex`, and has seen that the group is not closed. Never held while the context is moved. */
    mutable std::mutex posting;
    std::atomic<bool> closing{false};
    /* Another member has proved that this one waits in vain: the serial of this one's status line then. 0: none. */
    std::atomic<uint64_t> told_stuck{0};

    mutable std::mutex mutex; /* of all below, and of `group` against its end */
    bool closed = false;      /* set under `posting` as well */
    std::string closed_why;
    std::vector<char> left; /* members that have shut the group down */
    std::vector<std::string> unwaited;

  private:
    int rank_of(int member) const
    {
        return member < 0 || members.empty() ? member : members.at(static_cast<size_t>(member));
    }
    std::unordered_set<Operation *> operations_;
};

class Operation : public Op
{
  public:
    Operation(std::shared_ptr<State> state, Kind kind, const char *name);
    std::string describe() const override;
    std::string waits_for() const override;
    /* False: not done at `until`. Throws as the engine's wait(). */
    virtual bool await(Clock::time_point until)
    {
        return engine().wait(*this, until);
    }

    const std::shared_ptr<State> state;
    const Kind kind;
    const char *const name; /* of c10d */
    uint64_t number = 0;    /* of the group's operations */
    std::string site;       /* where in the program; empty: not asked for */
    std::string why;        /* what a cancelled one is told */

  protected:
    void ended() override;
};

/* Throws torch.distributed.DistBackendError. */
[[noreturn]] void raise(const std::string &text);
/* The same of an operation that has failed. */
[[noreturn]] void raise(const Op &op);
std::exception_ptr exception_of(const Op &op);
std::string join(const std::vector<int> &ranks);

} // namespace nigh_torch

#endif

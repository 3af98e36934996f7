/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/message.hpp - sends and receives of a group, and the words that its members send each other. */
#ifndef NIGH_TORCH_MESSAGE_H
#define NIGH_TORCH_MESSAGE_H

#include "state.hpp"

#include <ATen/core/Tensor.h>

namespace nigh_torch
{

const int any_source = -1;

class Message : public Operation
{
  public:
    /* `flat` is contiguous and has the bytes; `target` is where they go if it is another tensor. */
    Message(std::shared_ptr<State> state, Kind kind, const char *name, int peer, int tag, at::Tensor tensor,
            at::Tensor flat);
    /* Throws if it is refused. */
    virtual void post();
    /* Takes it back if it has met no message; it fails with `why`. */
    virtual void cancel(const std::string &why);

    std::string describe() const override;
    std::string waits_for() const override;
    void look() override;
    void look_away() override;

    /* NIGH_STRICT: a send ends when its receive has come, so that no buffer hides that two ranks send first. */
    static bool strict;

    /* Its wait is over: throws if it was proved to be in vain. */
    void raise_if_stuck();
    /* "rank 0 sends 16 bytes to rank 1, tag 0". */
    std::string what_it_does() const;

    /* The wait has a limit of the program's own. */
    std::atomic<bool> by_clock{false};

    int peer() const
    {
        return peer_;
    }
    int source() const
    {
        return source_;
    }
    const at::Tensor &tensor() const
    {
        return tensor_;
    }

  protected:
    bool take(const struct nigh_completion &completion) override;
    void land() override;

    void look_for_end();
    std::string in_vain(const std::string &who_waits) const;
    std::string stuck_; /* of the thread that waits */
    /* Receives of one that has left: only what it had sent before can come. */
    void cancel_if_left();
    /* What has come must fit. */
    void check_received(int status, int source, uint64_t bytes, at::ScalarType type);

    const int peer_, tag_;
    const uint64_t bytes_;
    int source_ = any_source;
    at::Tensor tensor_, flat_;

  private:
    int try_post();
    int post_once();
    void show_waiting();
    void look_for_circle();
    void tell_near();
    bool is_told();

    /* Of the thread that waits. */
    bool told_ = false, shown_ = false, seen_left_ = false;
    Clock::time_point stuck_since_;
    std::string near_;
};

/* What members tell each other beside the program's messages: tags that no tag of c10d is. */
class Words : public Op
{
  public:
    explicit Words(std::shared_ptr<State> state);
    void start();
    void stop();
    /* Tells all members that this one has shut the group down. */
    void say_bye();
    std::string describe() const override;
    std::string waits_for() const override;

  protected:
    bool take(const struct nigh_completion &completion) override;

  private:
    int listen();

    const std::shared_ptr<State> state_;
    std::atomic<bool> stopped_{false};
};

/* The immediate of a message: the sender's rank, and the type of its elements. */
uint64_t immediate(int rank, at::ScalarType type);

/* A member has left the group, or ended. */
void heard_bye(State &state, int member);

/* A process has ended: all groups that it is in hear that. */
void heard_death(const struct nigh_endpoint *endpoint);

/* Tells a member that the wait which its status line of that serial shows is in vain. */
void say_stuck(const State &state, int member, uint64_t serial);

/* Rank 0 names who has not come within `timeout`: all of them, or the first. Throws. */
void monitored_barrier(const std::shared_ptr<State> &state, std::chrono::milliseconds timeout, bool all);

/* Takes what has come for the group and was never received, and says what that is. */
std::vector<std::string> drain(State &state);

} // namespace nigh_torch

#endif

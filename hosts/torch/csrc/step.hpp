/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/step.hpp - a call of the table's group that a thread of ours makes and waits for. */
#ifndef NIGH_TORCH_STEP_H
#define NIGH_TORCH_STEP_H

#include "state.hpp"

#include <cerrno>

namespace nigh_torch
{

class Step : public Op
{
  public:
    explicit Step(State &state) : Op(state.engine), state_(state)
    {
    }
    std::string describe() const override
    {
        return "a step within the host";
    }
    std::string waits_for() const override
    {
        return state_.missing();
    }
    /* 0, or what it has failed with. `post` is called under the group's lock, unless the group is closed. */
    template <typename Post> int make(struct nigh_collective &call, Post post)
    {
        int rc = -ECANCELED;

        call.size = sizeof(call);
        call.context = reinterpret_cast<uint64_t>(static_cast<Op *>(this));
        expect_one();
        {
            std::lock_guard<std::mutex> posting(state_.posting);
            if (!state_.closed)
                rc = post(call);
        }
        if (rc)
            unexpect_one();
        posted();
        while (!rc && !engine().wait(*this, Clock::now() + std::chrono::hours(1))) {
        }
        return rc ? rc : error();
    }
    int about = -1; /* the member that has failed, or -1 */

  protected:
    bool take(const struct nigh_completion &completion) override
    {
        if (completion.status) {
            about = state_.member_of(completion.endpoint);
            fail(completion.status, "");
        }
        return true;
    }

  private:
    State &state_;
};

} // namespace nigh_torch

#endif

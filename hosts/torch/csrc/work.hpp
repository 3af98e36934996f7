/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/work.hpp - what c10d gives its user of an operation under way. */
#ifndef NIGH_TORCH_WORK_H
#define NIGH_TORCH_WORK_H

#include "state.hpp"

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace nigh_torch
{

/* Waits for it as the user has asked for: throws its error, or that the time is over. */
void wait_for(Operation &op, Clock::time_point until, std::chrono::milliseconds limit);

class Work : public c10d::Work
{
  public:
    Work(const std::shared_ptr<State> &state, c10d::OpType type, const char *title,
         const std::vector<at::Tensor> &inputs, std::chrono::milliseconds timeout);
    ~Work() override;

    /* The operation, which has been posted. */
    void begin(Ref<Operation> op, std::vector<at::Tensor> outputs);

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    int sourceRank() const override;
    std::vector<at::Tensor> result() override;
    bool wait(std::chrono::milliseconds timeout) override;
    void synchronize() override;
    void blockCurrentStream() override;
    void abort() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
    float getDuration() const override;
    uint64_t getSequencenumber() const override;

  private:
    void wait_until(std::chrono::milliseconds timeout);
    void complete_future();
    void watch(const std::vector<at::Tensor> &inputs);
    void raise_if_changed();

    Ref<Operation> op_;
    std::vector<at::Tensor> outputs_;
    std::vector<at::Tensor> inputs_;                         /* until begin() */
    std::vector<std::pair<at::Tensor, at::Tensor>> watched_; /* and a copy of each */
    const std::chrono::milliseconds timeout_;
    const Clock::time_point begun_;
    std::atomic<bool> asked_{false};
    c10::intrusive_ptr<c10::ivalue::Future> future_; /* under mutex_ */
};

} // namespace nigh_torch

#endif

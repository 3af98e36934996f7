/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/collective.hpp - a collective of c10d: one or several calls of the table's group, with what they keep alive. */
#ifndef NIGH_TORCH_COLLECTIVE_H
#define NIGH_TORCH_COLLECTIVE_H

#include "state.hpp"

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <deque>
#include <utility>

namespace nigh_torch
{

class Collective : public Operation
{
  public:
    Collective(std::shared_ptr<State> state, const char *name)
        : Operation(std::move(state), Kind::collective, name)
    {
    }

    /* Adds a call. What its pointers lead to has been given to the functions below, or stays. */
    struct nigh_collective &call(enum nigh_collective_op op, at::ScalarType type, uint64_t count);
    /* The call is done on what c10d::ReduceOp says; throws where that is not defined for the type. */
    void reduce_by(struct nigh_collective &call, const c10d::ReduceOp &op, at::ScalarType type);

    /* Contiguous memory of a tensor that is read, written, or both. */
    at::Tensor reads(const at::Tensor &tensor);
    at::Tensor writes(const at::Tensor &tensor);
    at::Tensor changes(const at::Tensor &tensor);
    /* The elements of several, one behind the other. */
    at::Tensor reads(const std::vector<at::Tensor> &tensors);
    at::Tensor writes(const std::vector<at::Tensor> &tensors);
    /* Numbers that stay until the end. */
    const uint64_t *counts(std::vector<uint64_t> counts);

    std::string what() const
    {
        return state->me() + ": " + name;
    }

    /* Posts all calls, in one go. Throws if one is refused. */
    virtual void post();
    /* The calls that follow from the results of those, made and waited for one by one. Throws. */
    using Caller = std::function<void(const struct nigh_collective &call)>;
    virtual void go_on(const Caller &)
    {
    }
    /* Is done only when the other one is. */
    void depend_on(Op &other);
    const std::vector<struct nigh_collective> &calls() const
    {
        return calls_;
    }
    std::string waits_for() const override;
    bool await(Clock::time_point until) override;

    std::vector<at::Tensor> outputs;

  protected:
    bool take(const struct nigh_completion &completion) override;
    void land() override;
    void ended() override;

    /* Its calls are about to be posted, in the group's order. */
    virtual void ordered()
    {
    }

  private:
    std::vector<struct nigh_collective> calls_;
    std::deque<std::vector<uint64_t>> counts_;
    std::deque<std::vector<char>> factors_;
    std::vector<at::Tensor> kept_;
    std::vector<std::pair<at::Tensor, at::Tensor>> back_; /* tensor, its contiguous memory */
};

} // namespace nigh_torch

#endif

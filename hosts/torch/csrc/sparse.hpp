/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/sparse.hpp - the sum of sparse tensors of all ranks. */
#ifndef NIGH_TORCH_SPARSE_H
#define NIGH_TORCH_SPARSE_H

#include "collective.hpp"

#include <ATen/core/Tensor.h>

namespace nigh_torch
{

/* Each rank tells how many elements it has; then it gathers those of all, and adds them up. The second part takes its counts from
 * the first, so it is posted later. */
class SparseSum : public Collective
{
  public:
    /* Throws unless it is a sum of coordinates and values (COO). */
    SparseSum(std::shared_ptr<State> state, const at::Tensor &tensor, const c10d::ReduceOp &op);
    void post() override;
    void go_on(const Caller &call) override;

  protected:
    void ordered() override;
    bool take(const struct nigh_completion &completion) override;
    void land() override;
    void ended() override;

  private:
    enum { dims_max = 20 };
    struct Card {
        int64_t elements, sparse_dims, dense_dims, type;
        int64_t sizes[dims_max];
    };
    std::string text_of(const Card &card) const;
    void check_cards() const;
    at::Tensor gather(const Caller &call, const at::Tensor &mine, int64_t each) const;

    at::Tensor tensor_, input_, result_;
    Card mine_ = {};
    std::vector<Card> all_;
};

/* The second parts of a group on one host, one after the other in the order of their posting. They have a group of the table to
 * themselves: calls that the program posts meanwhile would come before them at one rank and behind them at another. */
class SparseParts
{
  public:
    explicit SparseParts(State &state) : state_(state)
    {
    }
    /* In the order of posting; each with the reference of a post. */
    void add(Ref<SparseSum> sum);
    /* Its first part is done. */
    void ready(const SparseSum &sum);
    /* Its first part has failed. */
    void drop(const SparseSum &sum);
    /* The group has been closed. */
    void end(const std::string &why);

  private:
    struct Part {
        Ref<SparseSum> sum;
        bool is_ready;
    };
    void run();
    void make(struct nigh_collective call);

    State &state_;
    std::mutex mutex_;
    std::deque<Part> parts_;
    bool runs_ = false;
    struct nigh_group *group_ = nullptr; /* under `posting` */
};

} // namespace nigh_torch

#endif

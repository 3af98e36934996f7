/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/sparse.cc - see sparse.hpp. */
#include "sparse.hpp"
#include "stage.hpp"
#include "step.hpp"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace nigh_torch
{

SparseSum::SparseSum(std::shared_ptr<State> its, const at::Tensor &tensor, const c10d::ReduceOp &op)
    : Collective(std::move(its), "all_reduce"), tensor_(tensor), all_(static_cast<size_t>(state->size))
{
    if (tensor.layout() != at::kSparse)
        check_tensor(tensor, what());
    if (op.op_ != c10d::ReduceOp::SUM)
        raise(what() + ": sparse tensors are added up alone (SUM); use to_dense() for other reductions");
    if (tensor.dim() > dims_max)
        raise(what() + ": a sparse tensor of " + std::to_string(tensor.dim()) + " dimensions; " +
              std::to_string(dims_max) + " are the most");
    at::AutoDispatchBelowADInplaceOrView guard;
    input_ = tensor.detach().coalesce();
    mine_.elements = input_._nnz();
    mine_.sparse_dims = input_.sparse_dim();
    mine_.dense_dims = input_.dense_dim();
    mine_.type = static_cast<int64_t>(input_.scalar_type());
    for (int64_t i = 0; i < input_.dim(); i++)
        mine_.sizes[i] = input_.size(i);
    struct nigh_collective &cards = call(NIGH_ALLGATHER, at::kLong, sizeof(Card) / sizeof(int64_t));
    cards.send = &mine_;
    cards.recv = all_.data();
    outputs = {tensor};
}

/* The second part is expected from the beginning. With several hosts their thread makes it, in this call's turn. */
void SparseSum::ordered()
{
    if (state->hosts || state->closed || !state->group)
        return;
    if (!state->sparse)
        state->sparse = std::make_shared<SparseParts>(*state);
    expect_one();
    hold();
    state->sparse->add(Ref<SparseSum>(this));
}

/* Its first part may have been refused. */
void SparseSum::post()
{
    try {
        Collective::post();
    } catch (...) {
        if (state->sparse)
            state->sparse->drop(*this);
        throw;
    }
}

bool SparseSum::take(const struct nigh_completion &completion)
{
    (void)Collective::take(completion);
    if (completion.status)
        state->sparse->drop(*this);
    else
        state->sparse->ready(*this);
    return true;
}

std::string SparseSum::text_of(const Card &card) const
{
    std::string out = c10::toString(static_cast<at::ScalarType>(card.type)) + std::string(" [");

    for (int64_t i = 0; i < card.sparse_dims + card.dense_dims && i < dims_max; i++)
        out += (i ? ", " : "") + std::to_string(card.sizes[i]);
    return out + "] with " + std::to_string(card.sparse_dims) + " sparse dimensions";
}

void SparseSum::check_cards() const
{
    for (size_t i = 1; i < all_.size(); i++) {
        Card theirs = all_[i];

        theirs.elements = all_[0].elements;
        if (std::memcmp(&theirs, &all_[0], sizeof(theirs)) != 0)
            throw std::runtime_error("the ranks have made different calls: " + state->who(0) +
                                     " has a sparse tensor of " + text_of(all_[0]) + ", " +
                                     state->who(static_cast<int>(i)) + " of " + text_of(all_[i]));
    }
}

/* What all ranks have, one behind the other; `each` numbers for each element. */
at::Tensor SparseSum::gather(const Caller &caller, const at::Tensor &mine, int64_t each) const
{
    std::vector<uint64_t> counts;
    struct nigh_collective call = {};
    int64_t sum = 0;

    for (const Card &card : all_) {
        counts.push_back(static_cast<uint64_t>(card.elements * each));
        sum += card.elements * each;
    }
    at::Tensor own = mine.contiguous(), whole = at::empty({sum}, own.options());
    call.size = sizeof(call);
    call.op = NIGH_ALLGATHER;
    call.type = static_cast<uint16_t>(type_of(own.scalar_type()));
    if (call.type == NIGH_OPAQUE)
        call.width = static_cast<uint32_t>(own.element_size());
    call.count = static_cast<uint64_t>(own.numel());
    call.send = own.numel() ? own.data_ptr() : nullptr;
    call.recv = sum ? whole.data_ptr() : nullptr;
    call.recv_counts = counts.data();
    if (sum)
        caller(call);
    return whole;
}

void SparseSum::go_on(const Caller &caller)
{
    at::AutoDispatchBelowADInplaceOrView guard;
    std::vector<at::Tensor> indices, values;
    int64_t each = 1, at = 0;

    check_cards();
    for (int64_t i = 0; i < mine_.dense_dims; i++)
        each *= mine_.sizes[mine_.sparse_dims + i];
    at::Tensor all_indices = gather(caller, input_._indices(), mine_.sparse_dims),
               all_values = gather(caller, input_._values(), each);
    for (const Card &card : all_) {
        std::vector<int64_t> shape(mine_.sizes + mine_.sparse_dims,
                                   mine_.sizes + mine_.sparse_dims + mine_.dense_dims);

        shape.insert(shape.begin(), card.elements);
        indices.push_back(all_indices.narrow(0, at * mine_.sparse_dims, card.elements * mine_.sparse_dims)
                              .view({mine_.sparse_dims, card.elements}));
        values.push_back(all_values.narrow(0, at * each, card.elements * each).view(shape));
        at += card.elements;
    }
    result_ =
        at::_sparse_coo_tensor_unsafe(at::cat(indices, 1), at::cat(values, 0), input_.sizes()).coalesce();
}

void SparseSum::land()
{
    at::AutoDispatchBelowADInplaceOrView guard;

    tensor_.copy_(result_);
}

void SparseSum::ended()
{
    Collective::ended();
    tensor_.reset();
    input_.reset();
    result_.reset();
}

/* ---- on one host ---- */

void SparseParts::add(Ref<SparseSum> sum)
{
    std::lock_guard<std::mutex> lock(mutex_);
    parts_.push_back({std::move(sum), false});
}

void SparseParts::ready(const SparseSum &sum)
{
    std::lock_guard<std::mutex> lock(mutex_);

    for (Part &part : parts_)
        if (part.sum.get() == &sum)
            part.is_ready = true;
    if (runs_ || parts_.empty() || !parts_.front().is_ready)
        return;
    runs_ = true;
    state_.engine.run_apart([this, state = parts_.front().sum->state] { run(); });
}

void SparseParts::drop(const SparseSum &sum)
{
    Ref<SparseSum> dropped;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (auto at = parts_.begin(); at != parts_.end(); ++at)
            if (at->sum.get() == &sum) {
                dropped = std::move(at->sum);
                parts_.erase(at);
                break;
            }
    }
    if (dropped) {
        dropped->posted();
        dropped->release();
    }
}

void SparseParts::run()
{
    for (;;) {
        Ref<SparseSum> sum;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            runs_ = !parts_.empty() && parts_.front().is_ready;
            if (!runs_)
                return;
            sum = std::move(parts_.front().sum);
            parts_.pop_front();
        }
        try {
            sum->go_on([this](const struct nigh_collective &call) { make(call); });
        } catch (const std::exception &problem) {
            sum->fail(-EPROTO, state_.me() + ": " + sum->describe() + ": " + problem.what());
        }
        sum->posted();
        sum->release();
    }
}

void SparseParts::make(struct nigh_collective call)
{
    Engine &engine = state_.engine;
    Ref<Step> step(new Step(state_));
    int rc;

    rc = step->make(call, [&](const struct nigh_collective &it) {
        struct nigh_group_options options = {};
        int status = 0;

        options.size = sizeof(options);
        options.count = static_cast<uint32_t>(state_.endpoints.size());
        options.members = state_.endpoints.data();
        options.id = state_.sparse_id;
        if (!group_)
            status = engine.table()->group_create(engine.context(), &options, &group_);
        return status ? status : engine.table()->post_collective(group_, &it);
    });
    if (rc)
        throw std::runtime_error(state_.broken(rc, step->about));
}

void SparseParts::end(const std::string &why)
{
    Engine &engine = state_.engine;

    if (!group_ || engine.table()->group_free(group_) != -EBUSY)
        return;
    (void)engine.table()->group_end(group_, -ECONNRESET, why.c_str());
    engine.poll();
    (void)engine.table()->group_free(group_);
}

} // namespace nigh_torch

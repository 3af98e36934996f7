/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/group_collectives.cc - c10d's collectives as calls of the table's group. */
#include "group.hpp"
#include "sparse.hpp"
#include "stage.hpp"

#include <ATen/ATen.h>

namespace nigh_torch
{

using c10d::OpType;

static uint64_t count_of(const at::Tensor &tensor)
{
    return static_cast<uint64_t>(tensor.numel());
}

static void *data(const at::Tensor &tensor)
{
    return tensor.numel() ? tensor.data_ptr() : nullptr;
}

static std::vector<uint64_t> sizes_of(const Tensors &tensors)
{
    std::vector<uint64_t> out;

    for (const at::Tensor &tensor : tensors)
        out.push_back(count_of(tensor));
    return out;
}

static void same_type(const Collective &op, const at::Tensor &a, const at::Tensor &b)
{
    if (a.scalar_type() != b.scalar_type())
        raise(op.what() + ": input and output are of " + c10::toString(a.scalar_type()) + " and " +
              c10::toString(b.scalar_type()));
}

Ref<Collective> Group::collective(const char *name)
{
    state_->check();
    return Ref<Collective>(new Collective(state_, name));
}

WorkPtr Group::launch(const Ref<Collective> &op, Launch how)
{
    milliseconds until = limit(how.timeout);

    if (!how.async) {
        at::RecordFunction record(at::RecordScope::USER_SCOPE);

        if (record.isActive())
            record.before(how.title);
        op->post();
        try {
            wait_for(*op, Clock::now() + until, until);
        } catch (...) {
            op->run_alone(); /* the others need it */
            throw;
        }
        return nullptr;
    }
    auto work = c10::make_intrusive<Work>(state_, how.type, how.title, how.inputs, until);
    if (site)
        op->site = site();
    op->post();
    state_->engine.poll();
    op->hold();
    work->begin(Ref<Operation>(op.get()), op->outputs);
    return work;
}

WorkPtr Group::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options)
{
    Ref<Collective> op = collective("broadcast");
    const at::Tensor &tensor = one(tensors, "broadcast");
    int from = root(options.rootRank, "broadcast");
    at::Tensor flat = from == rank_ ? op->reads(tensor) : op->writes(tensor);
    struct nigh_collective &call = op->call(NIGH_BROADCAST, tensor.scalar_type(), count_of(flat));

    call.root = static_cast<uint32_t>(from);
    (from == rank_ ? const_cast<void *&>(call.send) : call.recv) = data(flat);
    op->outputs = tensors;
    return launch(op, {OpType::BROADCAST, "nigh:broadcast", tensors, options.timeout, options.asyncOp});
}

static void add_allreduce(Collective &op, const at::Tensor &tensor, const c10d::ReduceOp &reduction)
{
    at::Tensor flat = op.changes(tensor);
    struct nigh_collective &call = op.call(NIGH_ALLREDUCE, tensor.scalar_type(), count_of(flat));

    call.flags = NIGH_COLLECTIVE_IN_PLACE;
    call.recv = data(flat);
    op.reduce_by(call, reduction, tensor.scalar_type());
    op.outputs.push_back(tensor);
}

WorkPtr Group::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    if (tensors.size() == 1 && tensors[0].defined() && tensors[0].is_sparse())
        return allreduce_sparse(tensors, options);
    Ref<Collective> op = collective("all_reduce");

    add_allreduce(*op, one(tensors, "all_reduce"), options.reduceOp);
    return launch(op, {OpType::ALLREDUCE, "nigh:all_reduce", tensors, options.timeout, options.asyncOp});
}

WorkPtr Group::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    state_->check();
    Ref<Collective> op(new SparseSum(state_, one(tensors, "all_reduce"), options.reduceOp));

    return launch(
        op, {OpType::_ALLREDUCE_SPARSE, "nigh:all_reduce_sparse", {}, options.timeout, options.asyncOp});
}

WorkPtr Group::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options)
{
    Ref<Collective> op = collective("all_reduce_coalesced");

    for (const at::Tensor &tensor : tensors)
        add_allreduce(*op, tensor, options.reduceOp);
    return launch(op, {OpType::ALLREDUCE_COALESCED, "nigh:all_reduce_coalesced", tensors, options.timeout,
                       options.asyncOp});
}

WorkPtr Group::reduce(Tensors &tensors, const c10d::ReduceOptions &options)
{
    Ref<Collective> op = collective("reduce");
    const at::Tensor &tensor = one(tensors, "reduce");
    int to = root(options.rootRank, "reduce");
    at::Tensor flat = to == rank_ ? op->changes(tensor) : op->reads(tensor);
    struct nigh_collective &call = op->call(NIGH_REDUCE, tensor.scalar_type(), count_of(flat));

    call.root = static_cast<uint32_t>(to);
    call.flags = to == rank_ ? NIGH_COLLECTIVE_IN_PLACE : 0;
    (to == rank_ ? call.recv : const_cast<void *&>(call.send)) = data(flat);
    op->reduce_by(call, options.reduceOp, tensor.scalar_type());
    op->outputs = tensors;
    return launch(op, {OpType::REDUCE, "nigh:reduce", tensors, options.timeout, options.asyncOp});
}

/* The input of a gather lies in its own block of the output: in place. Elsewhere in the output: a copy of it. */
static void set_input(struct nigh_collective &call, const at::Tensor &flat, const at::Tensor &out,
                      const void *own, at::Tensor &copy)
{
    if (data(flat) && data(flat) == own) {
        call.flags |= NIGH_COLLECTIVE_IN_PLACE;
        return;
    }
    copy = overlap(flat, out) ? flat.clone() : flat;
    call.send = data(copy);
}

static const void *block(const at::Tensor &flat, const Tensors &parts, int index)
{
    const char *at = static_cast<const char *>(data(flat));

    for (int i = 0; at && i < index; i++)
        at += parts[static_cast<size_t>(i)].nbytes();
    return at;
}

void Group::add_allgather(Collective &op, const Tensors &outputs, const at::Tensor &input)
{
    at::Tensor flat = op.reads(input), out = op.writes(outputs), copy;
    const at::Tensor &own = outputs[static_cast<size_t>(rank_)];

    same_type(op, input, out);
    if (own.numel() != input.numel())
        raise(op.what() + ": the input has " + std::to_string(input.numel()) +
              " elements, this rank's output " + std::to_string(own.numel()));
    struct nigh_collective &call = op.call(NIGH_ALLGATHER, input.scalar_type(), count_of(flat));
    set_input(call, flat, out, block(out, outputs, rank_), copy);
    op.reads(copy.defined() ? copy : flat);
    call.recv = data(out);
    call.recv_counts = op.counts(sizes_of(outputs));
    op.outputs.insert(op.outputs.end(), outputs.begin(), outputs.end());
}

WorkPtr Group::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                         const c10d::AllgatherOptions &options)
{
    Ref<Collective> op = collective("all_gather");

    add_allgather(*op, list(outputs, "all_gather"), one(inputs, "all_gather"));
    return launch(op, {OpType::ALLGATHER, "nigh:all_gather", inputs, options.timeout, options.asyncOp});
}

void Group::add_allgather_base(Collective &op, const at::Tensor &output, const at::Tensor &input)
{
    at::Tensor flat = op.reads(input), out = op.writes(output), copy;
    const char *base = static_cast<const char *>(data(out));

    same_type(op, input, output);
    if (output.numel() != input.numel() * size_)
        raise(op.what() + ": the output has " + std::to_string(output.numel()) + " elements, and " +
              std::to_string(size_) + " ranks with inputs of " + std::to_string(input.numel()) + " need " +
              std::to_string(input.numel() * size_));
    struct nigh_collective &call = op.call(NIGH_ALLGATHER, input.scalar_type(), count_of(flat));
    set_input(call, flat, out, base ? base + static_cast<size_t>(rank_) * flat.nbytes() : nullptr, copy);
    op.reads(copy.defined() ? copy : flat);
    call.recv = data(out);
    op.outputs.push_back(output);
}

WorkPtr Group::_allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options)
{
    Ref<Collective> op = collective("all_gather_single");

    add_allgather_base(*op, output, input);
    return launch(
        op, {OpType::_ALLGATHER_BASE, "nigh:all_gather_single", {input}, options.timeout, options.asyncOp});
}

WorkPtr Group::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                   const c10d::AllgatherOptions &options)
{
    Ref<Collective> op = collective("all_gather_coalesced");

    if (outputs.size() != static_cast<size_t>(size_))
        raise(op->what() + ": takes a list of outputs for each of the " + std::to_string(size_) +
              " ranks, not " + std::to_string(outputs.size()));
    for (size_t i = 0; i < inputs.size(); i++) {
        Tensors parts;

        for (const Tensors &of_rank : outputs) {
            if (of_rank.size() != inputs.size())
                raise(op->what() + ": " + std::to_string(inputs.size()) + " inputs, and a list of " +
                      std::to_string(of_rank.size()) + " outputs");
            parts.push_back(of_rank[i]);
        }
        add_allgather(*op, parts, inputs[i]);
    }
    return launch(op, {OpType::ALLGATHER_COALESCED, "nigh:all_gather_coalesced", inputs, options.timeout,
                       options.asyncOp});
}

WorkPtr Group::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                               const c10d::AllgatherOptions &options)
{
    Ref<Collective> op = collective("all_gather_into_tensor_coalesced");

    if (outputs.size() != inputs.size())
        raise(op->what() + ": " + std::to_string(inputs.size()) + " inputs, " +
              std::to_string(outputs.size()) + " outputs");
    for (size_t i = 0; i < inputs.size(); i++)
        add_allgather_base(*op, outputs[i], inputs[i]);
    return launch(op, {OpType::COALESCED, "nigh:all_gather_into_tensor_coalesced", inputs, options.timeout,
                       options.asyncOp});
}

WorkPtr Group::gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &options)
{
    Ref<Collective> op = collective("gather");
    const at::Tensor &input = one(inputs, "gather");
    int to = root(options.rootRank, "gather");
    at::Tensor flat = op->reads(input), out, copy;

    if (to != rank_)
        none(outputs.size(), "gather", "outputs");
    else
        out = op->writes(list(outputs, "gather"));
    struct nigh_collective &call = op->call(NIGH_GATHER, input.scalar_type(), count_of(flat));
    call.root = static_cast<uint32_t>(to);
    if (to == rank_) {
        same_type(*op, input, out);
        if (outputs[0][static_cast<size_t>(rank_)].numel() != input.numel())
            raise(op->what() + ": the input has " + std::to_string(input.numel()) +
                  " elements, this rank's output " +
                  std::to_string(outputs[0][static_cast<size_t>(rank_)].numel()));
        set_input(call, flat, out, block(out, outputs[0], rank_), copy);
        op->reads(copy.defined() ? copy : flat);
        call.recv = data(out);
        call.recv_counts = op->counts(sizes_of(outputs[0]));
        op->outputs = outputs[0];
    } else {
        call.send = data(flat);
    }
    return launch(op, {OpType::GATHER, "nigh:gather", inputs, options.timeout, options.asyncOp});
}

WorkPtr Group::scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &options)
{
    Ref<Collective> op = collective("scatter");
    const at::Tensor &output = one(outputs, "scatter");
    int from = root(options.rootRank, "scatter");
    at::Tensor out = op->writes(output), flat;

    if (from != rank_)
        none(inputs.size(), "scatter", "inputs");
    else
        flat = op->reads(list(inputs, "scatter"));
    struct nigh_collective &call = op->call(NIGH_SCATTER, output.scalar_type(), count_of(out));
    call.root = static_cast<uint32_t>(from);
    call.recv = data(out);
    if (from == rank_) {
        same_type(*op, flat, output);
        if (inputs[0][static_cast<size_t>(rank_)].numel() != output.numel())
            raise(op->what() + ": the output has " + std::to_string(output.numel()) +
                  " elements, this rank's input " +
                  std::to_string(inputs[0][static_cast<size_t>(rank_)].numel()));
        if (overlap(flat, out))
            flat = op->reads(flat.clone());
        call.send = data(flat);
        call.send_counts = op->counts(sizes_of(inputs[0]));
    }
    op->outputs = outputs;
    return launch(op, {OpType::SCATTER, "nigh:scatter", from == rank_ ? inputs[0] : Tensors(),
                       options.timeout, options.asyncOp});
}

WorkPtr Group::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                              const c10d::ReduceScatterOptions &options)
{
    Ref<Collective> op = collective("reduce_scatter");
    const at::Tensor &output = one(outputs, "reduce_scatter");
    const Tensors &parts = list(inputs, "reduce_scatter");
    at::Tensor flat = op->reads(parts), out = op->writes(output);

    same_type(*op, flat, output);
    if (parts[static_cast<size_t>(rank_)].numel() != output.numel())
        raise(op->what() + ": the output has " + std::to_string(output.numel()) +
              " elements, this rank's input " + std::to_string(parts[static_cast<size_t>(rank_)].numel()));
    if (overlap(flat, out))
        flat = op->reads(flat.clone());
    struct nigh_collective &call = op->call(NIGH_REDUCE_SCATTER, output.scalar_type(), count_of(out));
    call.send = data(flat);
    call.recv = data(out);
    call.recv_counts = op->counts(sizes_of(parts));
    op->reduce_by(call, options.reduceOp, output.scalar_type());
    op->outputs = outputs;
    return launch(op,
                  {OpType::REDUCE_SCATTER, "nigh:reduce_scatter", parts, options.timeout, options.asyncOp});
}

void Group::add_reduce_scatter_base(Collective &op, const at::Tensor &output, const at::Tensor &input,
                                    const c10d::ReduceOp &reduction)
{
    at::Tensor flat = op.reads(input), out = op.writes(output);

    same_type(op, input, output);
    if (input.numel() != output.numel() * size_)
        raise(op.what() + ": the input has " + std::to_string(input.numel()) + " elements, and " +
              std::to_string(size_) + " ranks with outputs of " + std::to_string(output.numel()) + " need " +
              std::to_string(output.numel() * size_));
    if (overlap(flat, out))
        flat = op.reads(flat.clone());
    struct nigh_collective &call = op.call(NIGH_REDUCE_SCATTER, output.scalar_type(), count_of(out));
    call.send = data(flat);
    call.recv = data(out);
    op.reduce_by(call, reduction, output.scalar_type());
    op.outputs.push_back(output);
}

WorkPtr Group::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                    const c10d::ReduceScatterOptions &options)
{
    Ref<Collective> op = collective("reduce_scatter_single");

    add_reduce_scatter_base(*op, output, input, options.reduceOp);
    return launch(op, {OpType::_REDUCE_SCATTER_BASE,
                       "nigh:reduce_scatter_single",
                       {input},
                       options.timeout,
                       options.asyncOp});
}

WorkPtr Group::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                               const c10d::ReduceScatterOptions &options)
{
    Ref<Collective> op = collective("reduce_scatter_tensor_coalesced");

    if (outputs.size() != inputs.size())
        raise(op->what() + ": " + std::to_string(inputs.size()) + " inputs, " +
              std::to_string(outputs.size()) + " outputs");
    for (size_t i = 0; i < inputs.size(); i++)
        add_reduce_scatter_base(*op, outputs[i], inputs[i], options.reduceOp);
    return launch(op, {OpType::COALESCED, "nigh:reduce_scatter_tensor_coalesced", inputs, options.timeout,
                       options.asyncOp});
}

/* How many elements each rank has: by rows, or the same number each. */
static std::vector<uint64_t> by_splits(const Collective &op, const at::Tensor &tensor,
                                       const std::vector<int64_t> &splits, int size, const char *which)
{
    std::vector<uint64_t> out(static_cast<size_t>(size));
    int64_t rows = tensor.dim() ? tensor.size(0) : 1, sum = 0;
    int64_t row = rows ? tensor.numel() / rows : 0;

    if (splits.empty()) {
        if (rows % size)
            raise(op.what() + ": the " + which + " has " + std::to_string(rows) + " rows, which " +
                  std::to_string(size) + " ranks cannot share equally: give split sizes");
        out.assign(out.size(), static_cast<uint64_t>(rows / size * row));
        return out;
    }
    if (splits.size() != out.size())
        raise(op.what() + ": " + std::to_string(splits.size()) + " split sizes of the " + which + " for " +
              std::to_string(size) + " ranks");
    for (size_t i = 0; i < out.size(); i++) {
        if (splits[i] < 0)
            raise(op.what() + ": a split size of the " + which + " is negative");
        out[i] = static_cast<uint64_t>(splits[i] * row);
        sum += splits[i];
    }
    if (sum != rows)
        raise(op.what() + ": split sizes of the " + which + " sum up to " + std::to_string(sum) +
              ", it has " + std::to_string(rows) + " rows");
    return out;
}

WorkPtr Group::alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                             std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &options)
{
    Ref<Collective> op = collective("all_to_all_single");
    at::Tensor flat = op->reads(input), out = op->writes(output);

    same_type(*op, input, output);
    if (overlap(flat, out))
        flat = op->reads(flat.clone());
    struct nigh_collective &call = op->call(NIGH_ALLTOALL, input.scalar_type(), 0);
    call.send = data(flat);
    call.recv = data(out);
    call.send_counts = op->counts(by_splits(*op, input, input_splits, size_, "input"));
    call.recv_counts = op->counts(by_splits(*op, output, output_splits, size_, "output"));
    op->outputs = {output};
    return launch(
        op, {OpType::ALLTOALL_BASE, "nigh:all_to_all_single", {input}, options.timeout, options.asyncOp});
}

WorkPtr Group::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options)
{
    Ref<Collective> op = collective("all_to_all");
    const Tensors from = list({inputs}, "all_to_all"), to = list({outputs}, "all_to_all");
    at::Tensor flat = op->reads(from), out = op->writes(to);

    same_type(*op, flat, out);
    if (overlap(flat, out))
        flat = op->reads(flat.clone());
    struct nigh_collective &call = op->call(NIGH_ALLTOALL, flat.scalar_type(), 0);
    call.send = data(flat);
    call.recv = data(out);
    call.send_counts = op->counts(sizes_of(from));
    call.recv_counts = op->counts(sizes_of(to));
    op->outputs = outputs;
    return launch(op, {OpType::ALLTOALL, "nigh:all_to_all", inputs, options.timeout, options.asyncOp});
}

WorkPtr Group::barrier(const c10d::BarrierOptions &options)
{
    Ref<Collective> op = collective("barrier");

    op->call(NIGH_BARRIER, at::kByte, 0);
    if (!state_->hosts) /* its thread makes one call after the other */
        for (const Ref<Operation> &earlier : state_->outstanding(true, false))
            op->depend_on(*earlier);
    return launch(op, {OpType::BARRIER, "nigh:barrier", {}, options.timeout, options.asyncOp});
}

} // namespace nigh_torch

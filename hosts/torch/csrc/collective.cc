/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/collective.cc - see collective.hpp. */
#include "hosts.hpp"
#include "stage.hpp"

#include <ATen/ATen.h>

#include <cerrno>
#include <cstring>

namespace nigh_torch
{

struct nigh_collective &Collective::call(enum nigh_collective_op op, at::ScalarType type, uint64_t count)
{
    struct nigh_collective call = {};

    call.size = sizeof(call);
    call.op = static_cast<uint16_t>(op);
    call.count = count;
    call.context = reinterpret_cast<uint64_t>(static_cast<Op *>(this));
    if (op != NIGH_BARRIER) {
        call.type = static_cast<uint16_t>(type_of(type));
        if (call.type == NIGH_OPAQUE)
            call.width = static_cast<uint32_t>(c10::elementSize(type));
    }
    calls_.push_back(call);
    return calls_.back();
}

namespace
{

enum Class { integer, floating, complex, boolean, other };

Class class_of(at::ScalarType type)
{
    if (type_of(type) == NIGH_OPAQUE)
        return other;
    if (type == at::kBool)
        return boolean;
    if (c10::isComplexType(type))
        return complex;
    return c10::isFloatingType(type) ? floating : integer;
}

struct Reduction {
    const char *name;
    enum nigh_atomic_op op;
    bool integer, floating, complex, boolean;
};

/* By c10d::ReduceOp::RedOpType. */
const Reduction reductions[] = {
    {"SUM", NIGH_SUM, true, true, true, true},
    {"AVG", NIGH_AVG, false, true, true, false},
    {"PRODUCT", NIGH_PROD, true, true, true, true},
    {"MIN", NIGH_MIN, true, true, false, true},
    {"MAX", NIGH_MAX, true, true, false, true},
    {"BAND", NIGH_BAND, true, false, false, true},
    {"BOR", NIGH_BOR, true, false, false, true},
    {"BXOR", NIGH_BXOR, true, false, false, true},
    {"PREMUL_SUM", NIGH_PREMUL, false, true, true, false},
};

bool is_defined(const Reduction &reduction, at::ScalarType type)
{
    switch (class_of(type)) {
    case integer:
        return reduction.integer;
    case floating:
        return reduction.floating;
    case complex:
        return reduction.complex;
    case boolean:
        return reduction.boolean;
    default:
        return false;
    }
}

std::vector<char> factor_of(const c10d::ReduceOp &op, at::ScalarType type, const std::string &what)
{
    auto *supplement = dynamic_cast<c10d::PreMulSumSupplement *>(op.supplement_.get());

    if (!supplement)
        raise(what + ": PREMUL_SUM without its factor");
    at::Tensor factor = supplement->tensor_factor.defined()
                            ? supplement->tensor_factor.detach().to(at::kCPU, type).contiguous()
                            : at::full({}, supplement->double_factor, at::TensorOptions().dtype(type));
    const char *raw = static_cast<const char *>(factor.data_ptr());
    return std::vector<char>(raw, raw + factor.nbytes());
}

} // namespace

void Collective::reduce_by(struct nigh_collective &call, const c10d::ReduceOp &op, at::ScalarType type)
{
    if (op.op_ >= c10d::ReduceOp::UNUSED)
        raise(what() + ": no such reduction");
    const Reduction &reduction = reductions[op.op_];

    if (!is_defined(reduction, type))
        raise(what() + ": " + reduction.name + " is not defined for " + c10::toString(type) +
              (op.op_ == c10d::ReduceOp::AVG ? ": average floating point, or sum and divide" : ""));
    call.reduction = static_cast<uint16_t>(reduction.op);
    if (reduction.op == NIGH_PREMUL) {
        factors_.push_back(factor_of(op, type, what()));
        call.factor = factors_.back().data();
    }
}

at::Tensor Collective::reads(const at::Tensor &tensor)
{
    kept_.push_back(to_read(tensor, what()));
    return kept_.back();
}

at::Tensor Collective::writes(const at::Tensor &tensor)
{
    at::Tensor flat = to_write(tensor, what());

    kept_.push_back(flat);
    if (!flat.is_same(tensor))
        back_.emplace_back(tensor, flat);
    return flat;
}

at::Tensor Collective::changes(const at::Tensor &tensor)
{
    at::Tensor flat = to_change(tensor, what());

    kept_.push_back(flat);
    if (!flat.is_same(tensor))
        back_.emplace_back(tensor, flat);
    return flat;
}

/* One view of them all, where they lie one behind the other in one storage; else undefined. Empty ones lie nowhere. */
static at::Tensor adjacent(const std::vector<at::Tensor> &tensors, int64_t sum)
{
    const at::Tensor *first = nullptr;
    const char *next = nullptr;

    for (const at::Tensor &tensor : tensors) {
        if (!tensor.numel())
            continue;
        const char *data = static_cast<const char *>(tensor.data_ptr());

        if (!tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg() ||
            (first && (data != next || !tensor.storage().is_alias_of(first->storage()))))
            return {};
        if (!first)
            first = &tensor;
        next = data + tensor.nbytes();
    }
    if (!first)
        return {};
    at::AutoDispatchBelowADInplaceOrView guard;
    return first->as_strided({sum}, {1}, first->storage_offset());
}

static int64_t elements(const std::vector<at::Tensor> &tensors, const std::string &what)
{
    int64_t sum = 0;

    for (const at::Tensor &tensor : tensors) {
        check_tensor(tensor, what);
        if (tensor.scalar_type() != tensors[0].scalar_type())
            raise(what + ": the tensors of one list are of " + c10::toString(tensors[0].scalar_type()) +
                  " and " + c10::toString(tensor.scalar_type()));
        sum += tensor.numel();
    }
    return sum;
}

/* Views of `flat`, of the shapes of `tensors`. */
static std::vector<at::Tensor> parts(const at::Tensor &flat, const std::vector<at::Tensor> &tensors)
{
    std::vector<at::Tensor> out;
    int64_t at = 0;

    for (const at::Tensor &tensor : tensors) {
        out.push_back(flat.narrow(0, at, tensor.numel()));
        at += tensor.numel();
    }
    return out;
}

at::Tensor Collective::reads(const std::vector<at::Tensor> &tensors)
{
    int64_t sum = elements(tensors, what());

    kept_.insert(kept_.end(), tensors.begin(), tensors.end());
    at::Tensor whole = adjacent(tensors, sum);
    if (whole.defined())
        return whole;
    at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor flat = at::empty({sum}, tensors[0].options());
    std::vector<at::Tensor> views = parts(flat, tensors);

    for (size_t i = 0; i < tensors.size(); i++)
        copy_back(views[i].view(tensors[i].sizes()), to_read(tensors[i], what()));
    kept_.push_back(flat);
    return flat;
}

at::Tensor Collective::writes(const std::vector<at::Tensor> &tensors)
{
    int64_t sum = elements(tensors, what());

    kept_.insert(kept_.end(), tensors.begin(), tensors.end());
    at::Tensor whole = adjacent(tensors, sum);
    if (whole.defined())
        return whole;
    for (const at::Tensor &tensor : tensors)
        (void)to_write(tensor.numel() ? tensor : tensors[0],
                       what()); /* refuses those that overlap themselves */
    at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor flat = at::empty({sum}, tensors[0].options());
    std::vector<at::Tensor> views = parts(flat, tensors);

    for (size_t i = 0; i < tensors.size(); i++)
        back_.emplace_back(tensors[i], views[i]);
    kept_.push_back(flat);
    return flat;
}

const uint64_t *Collective::counts(std::vector<uint64_t> counts)
{
    counts_.push_back(std::move(counts));
    return counts_.back().data();
}

void Collective::post()
{
    std::unique_lock<std::mutex> lock(state->posting);
    bool closed = state->closed;
    int rc = closed ? -ECONNRESET : 0;

    state->add(*this);
    number = state->sequence.fetch_add(1, std::memory_order_relaxed) + 1;
    if (state->hosts && !closed) {
        expect_one();
        hold();
        state->hosts->run(Ref<Collective>(this));
    }
    ordered();
    for (struct nigh_collective &call : calls_) {
        if (closed || state->hosts)
            break;
        expect_one();
        rc = state->group ? state->engine.table()->post_collective(state->group, &call) : -EOPNOTSUPP;
        if (rc) {
            unexpect_one();
            break;
        }
    }
    lock.unlock();
    if (!closed && rc == -EOPNOTSUPP && !state->group)
        fail(rc, what() + ": the group has " + std::to_string(state->size) +
                     " ranks; collectives take at most " + std::to_string(NIGH_GROUP_MAX));
    else if (rc)
        fail(rc, state->me() + ": " + describe() + ": " + state->broken(rc, -1));
    posted();
    if (rc)
        raise(*this);
}

std::string Collective::waits_for() const
{
    return state->hosts ? state->hosts->missing(number) : Operation::waits_for();
}

bool Collective::await(Clock::time_point until)
{
    return state->hosts ? state->hosts->await(*this, until) : Operation::await(until);
}

void Collective::depend_on(Op &other)
{
    expect_one();
    other.when_done([this] {
        posted();
        release();
    });
}

bool Collective::take(const struct nigh_completion &completion)
{
    if (completion.status)
        fail(completion.status, state->me() + ": " + describe() + ": " +
                                    state->broken(completion.status, state->member_of(completion.endpoint)));
    return true;
}

void Collective::land()
{
    for (auto &pair : back_)
        copy_back(pair.first, pair.second);
}

/* Inputs and memory of ours go now; the Work may be held for long. */
void Collective::ended()
{
    Operation::ended();
    kept_.clear();
    back_.clear();
}

} // namespace nigh_torch

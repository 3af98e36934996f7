/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/work.cc - see work.hpp. */
#include "work.hpp"
#include "group.hpp"
#include "stage.hpp"

#include <ATen/core/ivalue_inl.h>

namespace nigh_torch
{

using std::chrono::milliseconds;

static std::string seconds(milliseconds time)
{
    char text[32];
    std::snprintf(text, sizeof(text), "%g s", static_cast<double>(time.count()) / 1000);
    return text;
}

void wait_for(Operation &op, Clock::time_point until, milliseconds limit)
{
    if (!op.await(until))
        raise(op.state->me() + ": " + op.describe() + ": not done within the timeout of " + seconds(limit) +
              "; it waits for " + op.waits_for() +
              ". It stays under way, and its tensors in use, until that comes or the group ends");
    if (op.error())
        raise(op);
    if (op.kind != Kind::collective)
        static_cast<Message &>(op).raise_if_stuck();
}

Work::Work(const std::shared_ptr<State> &, c10d::OpType type, const char *title,
           const std::vector<at::Tensor> &inputs, milliseconds timeout)
    : c10d::Work(-1, type, title, inputs), inputs_(Group::site ? inputs : std::vector<at::Tensor>()),
      timeout_(timeout), begun_(Clock::now())
{
}

Work::~Work()
{
    if (op_ && op_->kind == Kind::receive && !asked_ && !op_->state->closing && !op_->engine().is_over())
        op_->state->remember_unwaited(op_->describe() + (op_->is_done() ? ", which came, was never waited for"
                                                                        : " was dropped without a wait"));
}

void Work::begin(Ref<Operation> op, std::vector<at::Tensor> outputs)
{
    op_ = std::move(op);
    outputs_ = std::move(outputs);
    if (Group::site)
        watch(inputs_);
    inputs_.clear();
    if (recordFunctionEndCallback_)
        op_->when_done(recordFunctionEndCallback_);
    op_->run_alone();
}

/* With NIGH_DEBUG: what is only read has to be the same when the operation is done. */
void Work::watch(const std::vector<at::Tensor> &inputs)
{
    for (const at::Tensor &input : inputs) {
        bool written = false;

        for (const at::Tensor &output : outputs_)
            written = written || overlap(input, output);
        if (!written && input.defined() && input.nbytes())
            watched_.emplace_back(input, input.detach().clone(at::MemoryFormat::Contiguous));
    }
}

void Work::raise_if_changed()
{
    for (auto &pair : std::exchange(watched_, {})) {
        at::Tensor now = pair.first.detach().contiguous();
        auto *is = static_cast<const uint8_t *>(now.data_ptr());
        auto *was = static_cast<const uint8_t *>(pair.second.data_ptr());
        size_t bytes = std::min(now.nbytes(), pair.second.nbytes()), at = 0;

        while (at < bytes && is[at] == was[at])
            at++;
        if (at < bytes)
            raise(op_->state->me() + ": " + op_->describe() +
                  ": its tensor was changed before the operation was done, first at byte " +
                  std::to_string(at) + ", element " + std::to_string(at / now.element_size()) +
                  ": others may have got the old values or the new ones. Change it after wait()");
    }
}

bool Work::isCompleted()
{
    asked_ = true;
    if (op_->is_done())
        return true;
    op_->engine().check();
    op_->engine().poll();
    return op_->is_done();
}

bool Work::isSuccess() const
{
    return op_->is_done() && op_->error() == 0;
}

std::exception_ptr Work::exception() const
{
    return op_->is_done() && op_->error() ? exception_of(*op_) : nullptr;
}

int Work::sourceRank() const
{
    if (op_->kind != Kind::receive)
        raise(op_->state->me() + ": " + op_->describe() + ": only a receive has a source");
    return static_cast<const Message &>(*op_).source();
}

std::vector<at::Tensor> Work::result()
{
    if (!op_->is_done())
        raise(op_->state->me() + ": " + op_->describe() +
              ": result() before the operation is done: wait for it");
    return outputs_;
}

/* Who has waited for the operation finds its future done, as with gloo. Its callbacks may still run: one of them may be the
 * caller. */
void Work::complete_future()
{
    c10::intrusive_ptr<c10::ivalue::Future> future;

    if (!op_->is_done() || op_->engine().is_over())
        return;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        future = future_;
    }
    if (future)
        future->wait();
}

bool Work::wait(milliseconds timeout)
{
    asked_ = true;
    try {
        wait_until(timeout);
    } catch (...) {
        complete_future();
        throw;
    }
    complete_future();
    if (!watched_.empty())
        raise_if_changed();
    return true;
}

void Work::wait_until(milliseconds timeout)
{
    if (timeout.count() > 0 && op_->kind != Kind::collective)
        static_cast<Message &>(*op_).by_clock = true;
    if (timeout.count() > 0)
        wait_for(*op_, Clock::now() + timeout, timeout);
    else
        wait_for(*op_, begun_ + timeout_, timeout_);
}

void Work::synchronize()
{
    wait(c10d::kUnsetTimeout);
}

void Work::blockCurrentStream()
{
    wait(c10d::kUnsetTimeout);
}

void Work::abort()
{
    if (op_->kind == Kind::collective)
        raise(op_->state->me() + ": " + op_->describe() +
              ": one collective cannot be aborted, as its other ranks are in it; abort the group");
    static_cast<Message &>(*op_).cancel("aborted");
    op_->engine().poll();
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
{
    if (!op_->is_done())
        op_->engine().check();
    std::unique_lock<std::mutex> lock(mutex_);

    asked_ = true;
    if (future_)
        return future_;
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    auto outputs = outputs_;
    Ref<Operation> op = op_;
    Engine *engine = &op->engine();

    future_ = future;
    lock.unlock();
    engine->add_future();
    op->when_done_apart([future, outputs, op, engine] {
        engine->subtract_future();
        if (op->error())
            future->setError(exception_of(*op));
        else
            future->markCompleted(c10::IValue(outputs));
    });
    return future;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFutureResult()
{
    if (!op_->is_done())
        op_->engine().check();
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
    Ref<Operation> op = op_;
    Engine *engine = &op->engine();

    asked_ = true;
    engine->add_future();
    op->when_done_apart([future, op, engine] {
        engine->subtract_future();
        future->markCompleted(c10::IValue(
            static_cast<int64_t>(op->error() ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS)));
    });
    return future;
}

float Work::getDuration() const
{
    raise(op_->state->me() + ": " + op_->describe() +
          ": nigh does not time single operations; use torch.profiler");
}

uint64_t Work::getSequencenumber() const
{
    return op_->number;
}

} // namespace nigh_torch

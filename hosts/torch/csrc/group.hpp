/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/group.hpp - the backend "nigh" of c10d: a group of processes, of one machine or of several. */
#ifndef NIGH_TORCH_GROUP_H
#define NIGH_TORCH_GROUP_H

#include "collective.hpp"
#include "meet.hpp"
#include "message.hpp"
#include "work.hpp"

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace nigh_torch
{

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using std::chrono::milliseconds;

/* Rank, from how many bytes on, path, reason. */
using Path = std::tuple<int, uint64_t, std::string, std::string>;

/* A tensor in memory that peers read in place. Throws. */
at::Tensor empty(const std::vector<int64_t> &sizes, at::ScalarType type);
/* torch's allocator for the CPU takes such memory for tensors of at least so many bytes; none: it is torch's own again. Throws. */
void use_shared_memory(std::optional<uint64_t> least);

class Group : public c10d::Backend
{
  public:
    /* Makes gloo's group of the same ranks. */
    using MakeGloo = std::function<c10::intrusive_ptr<c10d::Backend>(
        const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, milliseconds timeout)>;
    /* Meets the other members through the store. Throws. */
    Group(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, milliseconds timeout,
          const std::string &name, const std::vector<int64_t> &global, const MakeGloo &make_gloo);
    ~Group() override;

    const std::string getBackendName() const override
    {
        return "nigh";
    }
    c10::intrusive_ptr<Options> getBackendOptions() override;
    void setTimeout(milliseconds timeout) override;
    void setSequenceNumberForGroup() override;
    uint64_t getSequenceNumberForGroup() override;
    c10d::ErrorType getError() override;

    WorkPtr send(Tensors &tensors, int to, int tag) override;
    WorkPtr recv(Tensors &tensors, int from, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;

    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPtr allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override;
    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
    WorkPtr allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                      const c10d::AllgatherOptions &options) override;
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
                            const c10d::AllgatherOptions &options) override;
    WorkPtr allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                const c10d::AllgatherOptions &options) override;
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &options) override;
    WorkPtr gather(std::vector<Tensors> &outputs, Tensors &inputs,
                   const c10d::GatherOptions &options) override;
    WorkPtr scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                    const c10d::ScatterOptions &options) override;
    WorkPtr reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                           const c10d::ReduceScatterOptions &options) override;
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &options) override;
    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &options) override;
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                          std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &options) override;
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override;
    WorkPtr barrier(const c10d::BarrierOptions &options) override;
    void monitoredBarrier(const c10d::BarrierOptions &options, bool all) override;

    /* Both end the group at this rank. shutdown() lets what is on its way finish, and names what is left over. */
    void shutdown() override;
    void abort() override;

    /* Which way messages to each member go. */
    std::vector<Path> paths() const;

    /* "file.py:12" of the program's call, or nothing; set by the module where NIGH_DEBUG asks for it. */
    static std::string (*site)();
    /* Throws in a forked child that has its parent's groups: the store is its parent's as well. */
    static void refuse_in_child();
    /* All groups of this process that have not been shut down: at its end. */
    static void shutdown_all();

  private:
    struct Launch {
        c10d::OpType type;
        const char *title;
        Tensors inputs;
        milliseconds timeout;
        bool async;
    };

    void join_group(const c10::intrusive_ptr<c10d::Store> &store, const MakeGloo &make_gloo);
    std::vector<bool> connect(const Meeting &meeting);
    void join_hosts(const c10::intrusive_ptr<c10d::Store> &store, const Meeting &meeting,
                    const std::vector<bool> &here, const MakeGloo &make_gloo);
    void give_up();
    void leave(const std::string &why, milliseconds patience);
    void let_finish(milliseconds patience);
    void tell_leftovers();
    milliseconds limit(milliseconds given) const;
    int root(int64_t rank, const char *name) const;
    void check_peer(int rank, const char *name) const;
    const at::Tensor &one(const Tensors &tensors, const char *name) const;
    const Tensors &list(const std::vector<Tensors> &lists, const char *name) const;
    void none(size_t count, const char *name, const char *what) const;
    Ref<Collective> collective(const char *name);
    WorkPtr launch(const Ref<Collective> &op, Launch how);
    WorkPtr message(Kind kind, const char *name, c10d::OpType type, const char *title, Tensors &tensors,
                    int peer, int tag);
    void add_allgather(Collective &op, const Tensors &outputs, const at::Tensor &input);
    void add_allgather_base(Collective &op, const at::Tensor &output, const at::Tensor &input);
    void add_reduce_scatter_base(Collective &op, const at::Tensor &output, const at::Tensor &input,
                                 const c10d::ReduceOp &reduction);

    std::shared_ptr<State> state_;
    Ref<Words> words_;
};

} // namespace nigh_torch

#endif

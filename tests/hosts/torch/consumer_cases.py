# SPDX-License-Identifier: BSD-3-Clause
"""Cases of torch's own users of torch.distributed; trainings give the losses of gloo."""
import os

import torch
import torch.distributed as dist

from harness import case, equal, me

kept = []


def trained(wrap):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    model = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    rank, size = me()
    torch.manual_seed(100)
    data = torch.randn(size, 6, 16, 8)
    for step in range(6):
        loss = (model(data[rank, step]) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item())
    return losses


def a_gloo_group():
    """One that lives as long as the process. A callback of a future may hold the last reference to a group: gloo's would then be destroyed
    on a thread of its own, which it would join (EDEADLK)."""
    kept.append(dist.new_group(backend="gloo"))
    return kept[-1]


def beside_gloo(wrap):
    """The losses of a training equal those on gloo."""
    gloo = a_gloo_group()
    ours = trained(lambda model: wrap(model, None))
    theirs = trained(lambda model: wrap(model, gloo))
    assert all(abs(a - b) < 1e-4 * abs(b) for a, b in zip(ours, theirs)), f"{ours} and {theirs}"
    assert ours[-1] < ours[0]


@case()
def ddp():
    beside_gloo(lambda model, group: torch.nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.001))


@case()
def ddp_with_sparse_gradients():
    """Of an embedding: the ranks use other rows of it."""
    rank, _ = me()
    tables = []
    for group in (None, a_gloo_group()):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Embedding(40, 8, sparse=True), torch.nn.Linear(8, 4))
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            (model(torch.tensor([step, rank + 7, 3 * rank + step, 39])) ** 2).mean().backward()
            assert model.module[0].weight.grad.is_sparse
            optimizer.step()
            optimizer.zero_grad()
        tables.append(model.module[0].weight.detach().clone())
    assert torch.allclose(*tables, atol=1e-6), tables


@case()
def ddp_with_powersgd():
    """Its hook waits for futures in callbacks of others. One bucket: calls of several buckets' callbacks have no order."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    def wrap(model, group):
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        state = power.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.5)
        model.register_comm_hook(state, power.powerSGD_hook)
        return model

    beside_gloo(wrap)


@case()
def fsdp2():
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    def wrap(model, group):
        mesh = DeviceMesh.from_group(group or dist.group.WORLD, "cpu")
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    beside_gloo(wrap)


@case()
def functional_collectives_and_dtensor():
    import torch.distributed._functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    import nigh_torch

    rank, size = me()
    group = dist.group.WORLD
    equal(functional.all_reduce(torch.ones(3), "sum", group).clone(), torch.full((3,), 2.0))
    equal(functional.all_gather_tensor(torch.tensor([float(rank)]), 0, group).clone(), torch.arange(2.0))
    equal(functional.reduce_scatter_tensor(torch.arange(2.0), "avg", 0, group).clone(), torch.tensor([float(rank)]))
    nigh_torch.use_as_default()
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(16.0).view(4, 4)
    shard = distribute_tensor(whole, mesh, [Shard(0)])
    equal(shard.redistribute(mesh, [Replicate()]).to_local(), whole)
    equal(shard.redistribute(mesh, [Shard(1)]).to_local(), whole.chunk(size, 1)[rank])
    equal((shard @ distribute_tensor(whole, mesh, [Replicate()])).full_tensor(), whole @ whole)


@case()
def checkpoint():
    import torch.distributed.checkpoint as dcp

    rank, size = me()
    state = {"x": torch.full((4,), float(rank)) if rank else torch.arange(4.0), f"y{rank}": torch.ones(2)}
    folder = os.environ["CASE_STORE"] + "dcp"
    dcp.save(state, checkpoint_id=folder)
    back = {f"y{rank}": torch.zeros(2)}
    dcp.load(back, checkpoint_id=folder)
    equal(back[f"y{rank}"], torch.ones(2))


@case()
def pipelining():
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank, size = me()
    torch.manual_seed(7)
    layers = [torch.nn.Linear(6, 6) for _ in range(size)]
    data = torch.randn(8, 6)
    wanted = data
    for layer in layers:
        wanted = layer(wanted)
    stage = PipelineStage(layers[rank], rank, size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=lambda out, target: ((out - target) ** 2).mean())
    if rank == 0:
        schedule.step(data)
    else:
        losses = []
        out = schedule.step(target=torch.zeros(8, 6), losses=losses)
        assert torch.allclose(out, wanted, atol=1e-6)
    assert layers[rank].weight.grad is not None and layers[rank].weight.grad.abs().sum() > 0

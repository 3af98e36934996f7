# SPDX-License-Identifier: BSD-3-Clause
"""Cases of collectives: types, strides, lists, objects."""
from datetime import timedelta

import torch
import torch.distributed as dist

from checks import MOVED, REDUCED, sample, sparse_sums
from harness import case, equal, me, refused


@case(ranks=3)
def every_type_moves():
    rank, size = me()
    for dtype in MOVED:
        got = sample(dtype, [rank, 1, 0])
        dist.broadcast(got, src=1)
        equal(got.view(torch.uint8), sample(dtype, [1, 1, 0]).view(torch.uint8))
        outs = [sample(dtype, [0, 0]) for _ in range(size)]
        dist.all_gather(outs, sample(dtype, [rank, 1]))
        for i in range(size):
            equal(outs[i].view(torch.uint8), sample(dtype, [i, 1]).view(torch.uint8))
        out = sample(dtype, [0] * size)
        dist.all_to_all_single(out, sample(dtype, [rank] * size))
        equal(out.view(torch.uint8), sample(dtype, list(range(size))).view(torch.uint8))
        if rank == 0:
            dist.send(sample(dtype, [1, 0]), 1)
        if rank == 1:
            got = sample(dtype, [0, 0])
            dist.recv(got, 0)
            equal(got.view(torch.uint8), sample(dtype, [1, 0]).view(torch.uint8))


@case(ranks=3)
def every_number_is_reduced():
    rank, size = me()
    for dtype in REDUCED:
        for op, wanted in (("SUM", 6), ("PRODUCT", 6), ("MAX", 3), ("MIN", 1)):
            if dtype.is_complex and op != "SUM":  # torch refuses it
                continue
            got = sample(dtype, [rank + 1, 1])
            dist.all_reduce(got, op=getattr(dist.ReduceOp, op))
            second = {"SUM": 3}.get(op, 1)
            equal(got, sample(dtype, [wanted, second]))
        if not dtype.is_floating_point and not dtype.is_complex:
            got = sample(dtype, [rank, 1])
            dist.all_reduce(got, op=dist.ReduceOp.BOR)
            equal(got, sample(dtype, [3, 1]))
        if dtype.is_floating_point or dtype.is_complex:
            got = sample(dtype, [rank * 3.0])
            dist.all_reduce(got, op=dist.ReduceOp.AVG)
            equal(got, sample(dtype, [3.0]))


@case(ranks=2)
def what_is_not_defined_is_refused():
    ones = torch.ones(2)
    refused(lambda: dist.all_reduce(ones.int(), op=dist.ReduceOp.AVG), "AVG", "Int", "rank")
    refused(lambda: dist.all_reduce(ones, op=dist.ReduceOp.BAND), "BAND", "Float")
    refused(lambda: dist.all_reduce(ones.to(torch.float8_e5m2)), "SUM", "Float8")
    refused(lambda: dist.all_reduce(torch.zeros(1).expand(4)), "expand")
    refused(lambda: dist.all_gather_into_tensor(torch.zeros(3), ones), "4")
    refused(lambda: dist.all_to_all_single(torch.zeros(3), torch.zeros(3)), "rows")
    dist.barrier()


@case(ranks=2)
def premultiplied_sum():
    rank, _ = me()
    for factor in (0.5, torch.tensor([0.5])):
        got = torch.tensor([2.0, 4.0]) * (rank + 1)
        dist.all_reduce(got, op=dist._make_nccl_premul_sum(factor))
        equal(got, torch.tensor([3.0, 6.0]))
    out = torch.zeros(1)
    dist.reduce_scatter_tensor(out, torch.tensor([2.0, 4.0]), op=dist._make_nccl_premul_sum(0.25))
    equal(out, torch.tensor([1.0 + rank]))


@case(ranks=3)
def strides_are_right():
    rank, size = me()
    grid = torch.zeros(4, 3)
    grid[:, 1] = rank + 1.0
    dist.all_reduce(grid[:, 1])
    equal(grid, torch.tensor([[0.0, 6.0, 0.0]] * 4))
    square = torch.arange(9.0).view(3, 3) if rank == 0 else torch.zeros(3, 3)
    dist.broadcast(square if rank == 0 else square.t(), src=0)  # the ranks' strides differ
    equal(square if rank == 0 else square.t(), torch.arange(9.0).view(3, 3))
    out, into = torch.zeros(size, 2), torch.arange(size * 2.0).view(size, 2) * (rank + 1)
    dist.all_to_all_single(out[:, 0], into[:, 1].contiguous())
    equal(out[:, 0], torch.tensor([(rank * 2 + 1.0) * (i + 1) for i in range(size)]))
    outs = [torch.zeros(2, 4)[:, ::2] for _ in range(size)]
    dist.all_gather(outs, torch.full((4, 2), float(rank)).t()[:, ::2])
    for i in range(size):
        equal(outs[i], torch.full((2, 2), float(i)))
    if rank == 0:
        dist.send(torch.arange(6.0).view(2, 3).t(), 1)
    if rank == 1:
        got = torch.zeros(2, 3).t()
        dist.recv(got, 0)
        equal(got, torch.arange(6.0).view(2, 3).t())
    needs = torch.ones(2, 2, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(needs.t()[:, 0])
    equal(needs.detach(), torch.tensor([[3.0, 3.0], [1.0, 1.0]]))


@case(ranks=3)
def lists_and_single_tensors():
    rank, size = me()
    out = torch.zeros(size * 2)
    dist.all_gather_into_tensor(out, torch.full((2,), float(rank)))
    equal(out, torch.tensor([0.0, 0, 1, 1, 2, 2]))
    dist.all_gather_into_tensor(out, out[rank * 2:rank * 2 + 2])  # in place
    equal(out, torch.tensor([0.0, 0, 1, 1, 2, 2]))
    outs = [torch.zeros(i + 1) for i in range(size)]  # of different lengths
    dist.all_gather(outs, torch.full((rank + 1,), float(rank)))
    for i in range(size):
        equal(outs[i], torch.full((i + 1,), float(i)))
    got = torch.zeros(2)
    dist.reduce_scatter(got, [torch.full((2,), float(rank + i)) for i in range(size)])
    equal(got, torch.full((2,), 3.0 + 3 * rank))
    for op, wanted in ((dist.ReduceOp.MAX, 2.0 + rank), (dist.ReduceOp.AVG, 1.0 + rank)):
        dist.reduce_scatter_tensor(got[:1], torch.tensor([float(rank + i) for i in range(size)]), op=op)
        equal(got[:1], torch.tensor([wanted]))
    outs = [torch.zeros(rank + 1) for _ in range(size)]  # uneven
    dist.all_to_all(outs, [torch.full((i + 1,), 10.0 * rank + i) for i in range(size)])
    for i in range(size):
        equal(outs[i], torch.full((rank + 1,), 10.0 * i + rank))
    into = torch.cat([torch.full((i + 1, 2), 10.0 * rank + i) for i in range(size)])
    out = torch.zeros(size * (rank + 1), 2)
    dist.all_to_all_single(out, into, [rank + 1] * size, [i + 1 for i in range(size)])
    equal(out, torch.cat([torch.full((rank + 1, 2), 10.0 * i + rank) for i in range(size)]))
    got = torch.zeros(2)
    dist.scatter(got, [torch.full((2,), float(i)) for i in range(size)] if rank == 1 else None, src=1)
    equal(got, torch.full((2,), float(rank)))
    outs = [torch.zeros(1) for _ in range(size)] if rank == 2 else None
    dist.gather(torch.tensor([float(rank)]), outs, dst=2)
    if rank == 2:
        equal(torch.cat(outs), torch.arange(3.0))
    got = torch.tensor([rank + 1.0])
    dist.reduce(got, dst=1)
    if rank == 1:
        equal(got, torch.tensor([6.0]))
    for empty in (torch.zeros(0), torch.zeros(0, 3)):
        dist.all_reduce(empty)
        dist.broadcast(empty, src=0)
    scalar = torch.tensor(1.0)
    dist.all_reduce(scalar)
    equal(scalar, torch.tensor(3.0))


@case(ranks=3)
def lists_that_are_parts_of_one_tensor():
    """Inputs and outputs share memory: each part is read before it is written."""
    rank, size = me()
    for length in (1, 1000, 100000):
        values = [[torch.full((length,), 10.0 * r + i) for i in range(size)] for r in range(size)]
        whole = torch.cat([torch.full((7,), -1.0)] + values[rank] + [torch.full((7,), -1.0)])
        parts = list(whole[7:-7].chunk(size))
        for root in range(size):
            whole[7:-7] = torch.cat(values[rank])
            dist.scatter(parts[0], parts if rank == root else None, src=root)
            equal(parts[0], values[root][rank])
        whole[7:-7] = torch.cat(values[rank])
        dist.reduce_scatter(parts[0], parts)
        equal(parts[0], sum(values[r][rank] for r in range(size)))
        whole[7:-7] = torch.cat(values[rank])
        dist.all_to_all(parts, parts)
        equal(torch.cat(parts), torch.cat([values[r][rank] for r in range(size)]))
        for own in range(size):  # its own block, and those of others
            whole[7:-7] = torch.cat(values[rank])
            dist.all_gather(parts, parts[own])
            equal(torch.cat(parts), torch.cat([values[r][own] for r in range(size)]))
        equal((whole[:7].sum().item(), whole[-7:].sum().item()), (-7.0, -7.0))


@case(ranks=3)
def lists_with_empty_parts():
    rank, size = me()
    for lengths in ([0, 3, 5], [3, 0, 5], [3, 5, 0], [0, 0, 4], [0, 0, 0]):
        wanted = torch.cat([torch.full((n,), 1.0 + i) for i, n in enumerate(lengths)])
        into = torch.zeros(sum(lengths))
        dist.all_gather(list(into.split(lengths)), torch.full((lengths[rank],), 1.0 + rank))
        equal(into, wanted)
        dist.all_gather(list(into.split(lengths)), into.split(lengths)[rank])  # in place
        equal(into, wanted)
        into = torch.zeros(sum(lengths))
        dist.all_to_all(list(into.split(lengths)), [torch.full((lengths[rank],), 1.0 + rank) for _ in range(size)])
        equal(into, wanted)
        into = torch.zeros(lengths[rank] * size)
        dist.all_to_all(list(into.chunk(size)) if lengths[rank] else [into] * size, list(wanted.split(lengths)))
        equal(into, torch.full((lengths[rank] * size,), 1.0 + rank))
        out = torch.zeros(lengths[rank])
        dist.scatter(out, list(wanted.split(lengths)) if rank == 1 else None, src=1)
        equal(out, torch.full((lengths[rank],), 1.0 + rank))
        dist.reduce_scatter(out, list(wanted.split(lengths)))
        equal(out, torch.full((lengths[rank],), size * (1.0 + rank)))
        dist.gather(out, list(wanted.split(lengths)) if rank == 2 else None, dst=2)
        equal(wanted, torch.cat([torch.full((n,), (size if rank == 2 else 1) * (1.0 + i)) for i, n in enumerate(lengths)]))


@case(ranks=2)
def coalesced_forms():
    rank, size = me()
    tensors = [torch.ones(2), torch.ones(3, dtype=torch.int32), torch.ones(2, 2).t()]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor in tensors:
        equal(tensor, torch.full_like(tensor, 2))
    outs, ins = [torch.zeros(2), torch.zeros(4)], [torch.full((1,), rank + 1.0), torch.full((2,), rank + 5.0)]
    with dist._coalescing_manager():
        for out, into in zip(outs, ins):
            dist.all_gather_into_tensor(out, into)
    equal(outs[1], torch.tensor([5.0, 5, 6, 6]))
    with dist._coalescing_manager(async_ops=True) as manager:
        for out, into in zip(ins, outs):
            dist.reduce_scatter_tensor(out, into)
    manager.wait()
    equal(ins[1], torch.full((2,), 10.0 + 2 * rank))
    outs = [[torch.zeros(2), torch.zeros(1)] for _ in range(size)]
    dist.all_gather_coalesced(outs, [torch.full((2,), rank + 1.0), torch.full((1,), rank + 3.0)])
    equal(outs[1][1], torch.tensor([4.0]))


@case(ranks=3)
def objects():
    rank, size = me()
    outs = [None] * size
    dist.all_gather_object(outs, {"rank": rank, "text": "x" * rank * 100})
    equal([o["rank"] for o in outs], [0, 1, 2])
    box = ["from 1", 5] if rank == 1 else [None, None]
    dist.broadcast_object_list(box, src=1)
    equal(box, ["from 1", 5])
    outs = [None] * size if rank == 0 else None
    dist.gather_object(rank * 2, outs, dst=0)
    if rank == 0:
        equal(outs, [0, 2, 4])
    got = [None]
    dist.scatter_object_list(got, ["a", "b", "c"] if rank == 0 else None, src=0)
    equal(got, ["abc"[rank]])
    if rank == 0:
        dist.send_object_list(["x", {1: 2}], dst=1)
    if rank == 1:
        box = [None, None]
        equal(dist.recv_object_list(box, src=0), 0)
        equal(box, ["x", {1: 2}])


@case(ranks=3)
def sparse_tensors_are_added_up():
    sparse_sums()


@case()
def a_sparse_sum_that_another_rank_does_not_make():
    """Both are told; and it ends with its group."""
    rank, _ = me()
    tensor = torch.sparse_coo_tensor(size=(4, 4))
    group = dist.new_group([0, 1])
    refused(lambda: dist.all_reduce(tensor if rank == 0 else tensor.to_dense(), group=group), "different calls", "rank 0", "rank 1")
    group = dist.new_group([0, 1])
    if rank == 0:
        work = dist.all_reduce(tensor, group=group, async_op=True)
        refused(lambda: work.wait(timedelta(milliseconds=100)), "rank 1", "0.1 s")
        group._get_backend(torch.device("cpu")).abort()
        refused(work.wait, "aborted")
    dist.barrier()

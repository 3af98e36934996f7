# SPDX-License-Identifier: BSD-3-Clause
"""Cases of torch.distributed on the backend "nigh", as TAP. One process imports torch and forks the ranks of each case, so that
a case costs its own time alone.

    python torch_cases.py [--examples FOLDER] [CASE...]
"""
import faulthandler
import fnmatch
import importlib
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

LIMIT = 60 * int(os.environ.get("NIGH_TEST_SCALE", "1"))
cases = []


def case(ranks=2, init=True):
    """Marks a function that each of `ranks` processes runs; `init`: with the default group made."""

    def mark(function):
        cases.append((function, ranks, init))
        return function

    return mark


def equal(got, wanted):
    if isinstance(got, torch.Tensor):
        assert got.dtype == wanted.dtype and torch.equal(got, wanted), f"{got} in place of {wanted}"
    else:
        assert got == wanted, f"{got!r} in place of {wanted!r}"


def refused(call, *words):
    """`call` raises a sentence with these words."""
    try:
        call()
    except Exception as problem:
        for word in words:
            assert word in str(problem), f"no {word!r} in {problem}"
        return str(problem)
    raise AssertionError(f"no error with {words}")


def me():
    return dist.get_rank(), dist.get_world_size()


# ---- collectives -------------------------------------------------------------------------------------------

MOVED = [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64,
         torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.complex64, torch.complex128,
         torch.float8_e4m3fn, torch.float8_e5m2]
REDUCED = MOVED[:15]


def sample(dtype, values):
    return torch.tensor(values, dtype=torch.float64).to(dtype)


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


# ---- messages ----------------------------------------------------------------------------------------------


@case(ranks=3)
def any_source_tags_and_self():
    rank, size = me()
    if rank:
        dist.send(torch.tensor([float(rank)]), 0, tag=rank)
    else:
        second, first = torch.zeros(1), torch.zeros(1)
        dist.recv(second, 2, tag=2)
        work = dist.irecv(first, tag=1)
        work.wait()
        equal((second.item(), first.item(), work._source_rank()), (2.0, 1.0, 1))
    dist.barrier()
    if rank == 1:
        dist.send(torch.tensor([7.0]), 0)
    if rank == 0:
        got = torch.zeros(1)
        equal(dist.recv(got), 1)
    got = torch.zeros(1)
    receive, send = dist.irecv(got, rank), dist.isend(torch.tensor([rank + 5.0]), rank)
    receive.wait()
    send.wait()
    equal(got, torch.tensor([rank + 5.0]))
    equal(receive.is_success(), True)


@case()
def a_work_says_what_it_is():
    rank, _ = me()
    big, got = torch.full((1 << 20,), rank + 1.0), torch.zeros(1 << 20)
    receive = dist.irecv(got, 1 - rank)
    send = dist.isend(big, 1 - rank)
    while not (receive.is_completed() and send.is_completed()):  # without a wait
        pass
    equal(got[-1].item(), 2.0 - rank)
    equal(receive.exception(), None)
    value = receive.get_future().wait()
    equal(value[0].data_ptr(), got.data_ptr())
    work = dist.all_reduce(got, async_op=True)
    future = work.get_future().then(lambda done: done.value()[0].sum().item())
    equal(future.wait(), 3.0 * (1 << 20))
    late = dist.irecv(got, 1 - rank, tag=3)
    refused(lambda: late.wait(timedelta(milliseconds=200)), "tag 3", f"rank {1 - rank}", "0.2 s")
    equal(late.is_completed(), False)
    dist.barrier()
    dist.send(big, 1 - rank, tag=3)
    late.wait()
    equal(got[5].item(), 2.0 - rank)


@case()
def callbacks_that_wait_for_futures():
    """As hooks of DDP do; also one within another, and several at once, of which the first waits for the last."""
    rank, _ = me()

    def summed(value, depth):
        future = dist.all_reduce(torch.full((1 << depth,), value), async_op=True).get_future()
        if depth == 0:
            return future
        return future.then(lambda done: [done.value()[0][:1] + summed(value, depth - 1).wait()[0][:1]])

    for _ in range(5):
        equal(summed(1.0, 3).wait()[0].item(), 8.0)
    for _ in range(5):
        work, got = dist.all_reduce(torch.ones(1), async_op=True), []
        future = work.get_future()
        chain = future.then(lambda done: got.append(summed(1.0, 1).wait()[0].item()))
        work.wait()
        equal(future.done(), True)
        chain.wait()
        equal(got, [4.0])
    for found_by in ("the thread that waits for the last message", "the engine's"):
        last, works = None, []
        for tag in (5, 4, 3, 2, 1, 0):
            works.append(dist.irecv(torch.zeros(1), 1 - rank, tag=tag))
            last = works[-1].get_future().then(lambda done, later=last: later.wait() if later else None)
        for tag in range(6):
            dist.isend(torch.zeros(1), 1 - rank, tag=tag)
        if "waits" in found_by:
            works[0].wait()
        last.wait()
    work = dist.all_reduce(torch.ones(1), async_op=True)  # its own work, and a call that waits
    work.get_future().then(lambda done: (work.wait(), dist.barrier())).wait()


@case(ranks=3)
def ranks_whose_callbacks_may_send_are_no_deadlock():
    rank, _ = me()
    got = torch.zeros(1)
    if rank == 0:
        dist.recv(got, 1)
        dist.send(got, 1, tag=1)
    elif rank == 1:
        answered = dist.irecv(got, 2).get_future().then(lambda done: dist.send(done.value()[0], 0))
        dist.recv(torch.zeros(1), 0, tag=1)
        answered.wait()
    else:
        time.sleep(2)
        got += 1
        dist.send(got, 1)
    equal(got.item(), 1.0)


@case()
def sizes_and_types_must_be_the_same():
    rank, _ = me()
    if rank == 0:
        for tensor in (torch.ones(8), torch.ones(2), torch.ones(4, dtype=torch.int32), torch.full((4,), 3.0)):
            dist.send(tensor, 1)
    else:
        memory = torch.zeros(8)
        refused(lambda: dist.recv(memory[:4], 0), "32 bytes", "16", "rank 0", "tag 0")
        equal(memory[4:], torch.zeros(4))
        refused(lambda: dist.recv(memory[:4], 0), "8 bytes", "16")
        refused(lambda: dist.recv(memory[:4], 0), "Int", "Float")
        dist.recv(memory[:4], 0)
        equal(memory[:4], torch.full((4,), 3.0))


@case(ranks=4)
def batches():
    rank, size = me()
    into = [torch.zeros(1 << 16) for _ in range(size)]
    ops = [dist.P2POp(dist.isend, torch.full((1 << 16,), 10.0 * rank + i), i) for i in range(size) if i != rank]
    ops += [dist.P2POp(dist.irecv, into[i], i) for i in range(size) if i != rank]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    for i in range(size):
        equal(into[i][-1].item(), 10.0 * i + rank if i != rank else 0.0)


# ---- groups and threads ------------------------------------------------------------------------------------


@case(ranks=4)
def overlapping_groups():
    rank, size = me()
    pairs = {}
    for a in range(size):
        for b in range(a + 1, size):
            group = dist.new_group([a, b])
            if rank in (a, b):
                pairs[a, b] = group
    works = []
    for (a, b), group in pairs.items():
        tensor = torch.tensor([float(rank)])
        works.append((a + b, tensor, dist.all_reduce(tensor, group=group, async_op=True)))
    for wanted, tensor, work in reversed(works):
        work.wait()
        equal(tensor.item(), float(wanted))
    local = dist.new_group([rank // 2 * 2, rank // 2 * 2 + 1], use_local_synchronization=True)
    tensor = torch.tensor([1.0])
    dist.all_reduce(tensor, group=local)
    equal(tensor.item(), 2.0)
    # by the program's ranks, in a group that has others
    if rank >= 2:
        tensor = torch.tensor([float(rank)])
        dist.broadcast(tensor, src=3, group=pairs[2, 3])
        equal(tensor.item(), 3.0)


@case()
def several_threads():
    rank, _ = me()
    groups = [dist.new_group([0, 1]) for _ in range(4)]
    wrong = []

    def work(number, group):
        try:
            for i in range(50):
                tensor = torch.full((100 * number + 1,), float(i))
                dist.all_reduce(tensor, group=group)
                equal(tensor[-1].item(), 2.0 * i)
                got = torch.zeros(3)
                receive = dist.irecv(got, 1 - rank, tag=number)
                dist.send(torch.full((3,), i + 10.0 * rank), 1 - rank, tag=number)
                receive.wait()
                equal(got[0].item(), i + 10.0 * (1 - rank))
        except BaseException as problem:
            wrong.append(problem)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(wrong, [])


@case(init=False)
def lives():
    """Groups made, destroyed and made again in the same store, also by one rank long before the other."""
    rank = int(os.environ["CASE_RANK"])
    store = dist.FileStore(os.environ["CASE_STORE"] + "b", 2)
    for life in range(4):
        dist.init_process_group("nigh", store=store, rank=rank, world_size=2)
        tensor = torch.tensor([float(life)])
        dist.all_reduce(tensor)
        equal(tensor.item(), 2.0 * life)
        equal(dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))._get_sequence_number_for_group(), 1)
        dist.destroy_process_group()
        if rank == life % 2:
            time.sleep(0.2)


@case(ranks=3, init=False)
def lives_of_other_sizes():
    """What a life with more ranks has left in the store, met or not, is no invitation to this one."""
    rank, path = int(os.environ["CASE_RANK"]), os.environ["CASE_STORE"]
    for name in ("met", "unmet"):
        store = dist.FileStore(path + name, 3)
        if name == "met":
            dist.init_process_group("nigh", store=store, rank=rank, world_size=3)
            dist.barrier()
            dist.destroy_process_group()
        elif rank == 2:
            limit = timedelta(seconds=0.3)
            refused(lambda: dist.init_process_group("nigh", store=store, rank=0, world_size=3, timeout=limit), "in vain for rank 1")
        open(f"{path}{name}{rank}", "w").close()
        while not all(os.path.exists(f"{path}{name}{other}") for other in range(3)):
            time.sleep(0.01)
        if rank == 2:
            continue
        if rank == 0:
            time.sleep(1)
        dist.init_process_group("nigh", store=store, rank=rank, world_size=2)
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        equal(tensor.item(), 2.0)
        dist.destroy_process_group()


@case(init=False)
def lists_of_ranks_that_differ():
    """Both hear of it, also where rank 0 waits for another one."""
    rank, path = int(os.environ["CASE_RANK"]), os.environ["CASE_STORE"]
    store = dist.FileStore(path + "b", 2)
    text = refused(lambda: dist.init_process_group("nigh", store=store, rank=rank, world_size=3 - rank, timeout=timedelta(seconds=7)), "rank")
    assert rank == 0 or "[0,1,2]" in text and "[0,1]" in text, text


@case(init=False)
def spelled_in_every_way():
    rank, path = int(os.environ["CASE_RANK"]), os.environ["CASE_STORE"]
    for number, name in enumerate(("nigh", "NIGH", "cpu:nigh", "cpu:nigh,cuda:gloo")):
        dist.init_process_group(name, init_method=f"file://{path}{number}", rank=rank, world_size=2)
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        equal(tensor.item(), 2.0)
        dist.destroy_process_group()


@case(ranks=4)
def monitored():
    rank, _ = me()
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    barrier = dist.distributed_c10d._get_default_group().monitored_barrier
    barrier(timedelta(seconds=20), True)
    barrier(timedelta(seconds=20), False)
    limit = timedelta(seconds=1)
    if rank in (0, 1):
        refused(lambda: barrier(limit, True), *(["Ranks 2, 3 failed to pass monitoredBarrier"] if rank == 0 else ["rank 0"]))
    dist.barrier()
    assert backend is not None


# ---- failures ----------------------------------------------------------------------------------------------


@case()
def different_calls_name_both():
    rank, _ = me()
    for mine, words in (
        ((lambda g: dist.all_reduce(torch.zeros(4), group=g), lambda g: dist.barrier(group=g)), ("allreduce of 4 f32", "barrier")),
        ((lambda g: dist.all_reduce(torch.zeros(4 + rank), group=g),) * 2, ("4 f32", "5 f32")),
        ((lambda g: dist.all_reduce(torch.zeros(4), group=g), lambda g: dist.all_reduce(torch.zeros(4).int(), group=g)),
         ("f32", "i32")),
        ((lambda g: dist.all_reduce(torch.zeros(4), group=g),
          lambda g: dist.all_reduce(torch.zeros(4), group=g, op=dist.ReduceOp.MAX)), ("sum", "max")),
        ((lambda g: (dist.broadcast(torch.zeros(4), src=rank, group=g), dist.barrier(g)),) * 2, ("rank",)),
    ):
        group = dist.new_group([0, 1])
        refused(lambda: mine[rank](group), "rank 0", "rank 1", *words)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)  # the world goes on
    equal(tensor.item(), 2.0)


@case(ranks=3)
def a_time_out_names_who_is_missing():
    rank, _ = me()
    group = dist.new_group([0, 1, 2], timeout=timedelta(seconds=1))
    tensor = torch.ones(4)
    if rank == 2:
        time.sleep(2)
        dist.all_reduce(tensor, group=group)
    else:
        refused(lambda: dist.all_reduce(tensor, group=group), "rank 2", "1 s")
    dist.barrier()
    equal(tensor, torch.full((4,), 3.0))  # it went on
    dist.all_reduce(tensor, group=group)
    equal(tensor, torch.full((4,), 9.0))


@case()
def a_timed_out_call_goes_on_by_itself():
    """Its rank makes no more calls; the other needs it."""
    rank, _ = me()
    group, tensor, mark = dist.new_group([0, 1], timeout=timedelta(seconds=1)), torch.ones(1 << 20), os.environ["CASE_STORE"] + "mark"
    if rank == 0:
        refused(lambda: dist.all_reduce(tensor, group=group), "rank 1", "1 s")
        while not os.path.exists(mark):
            time.sleep(0.01)
    else:
        time.sleep(1.3)
        try:
            dist.all_reduce(tensor, group=group, async_op=True).wait(timedelta(seconds=10))
        finally:
            open(mark, "w").close()
        equal(tensor[-1].item(), 2.0)
    dist.barrier()


@case(ranks=3)
def a_dead_rank_is_named():
    rank, _ = me()
    dist.barrier()
    if rank == 2:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    pending = dist.irecv(torch.zeros(1), 2)
    for call in (lambda: dist.all_reduce(torch.zeros(4)), pending.wait, lambda: dist.recv(torch.zeros(1), 2),
                 lambda: dist.send(torch.zeros(1 << 20), 2)):
        begin = time.monotonic()
        refused(call, "rank 2", "killed")
        assert time.monotonic() - begin < 3
    if rank == 0:  # the others go on
        dist.send(torch.ones(1), 1)
    else:
        dist.recv(torch.zeros(1), 0)


a_dead_rank_is_named.dies = {2: -signal.SIGKILL}


@case(ranks=2)
def a_death_is_heard_in_every_group():
    """Receives from any rank, in several groups: the table tells one of them."""
    rank, _ = me()
    groups = [None] + [dist.new_group([0, 1]) for _ in range(3)]
    dist.barrier()
    if rank == 1:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    works = [dist.irecv(torch.zeros(1), group=group) for group in groups]
    for work in works:
        begin = time.monotonic()
        refused(work.wait, "rank")
        assert time.monotonic() - begin < 5


a_death_is_heard_in_every_group.dies = {1: -signal.SIGKILL}


@case(ranks=2)
def a_rank_that_leaves_is_named():
    rank, _ = me()
    group = dist.new_group([0, 1])
    if rank == 0:
        dist.send(torch.ones(3), 1, group=group)
        dist.destroy_process_group(group)
    else:
        got = torch.zeros(3)
        time.sleep(0.5)
        dist.recv(got, 0, group=group)  # what it had sent still comes
        equal(got, torch.ones(3))
        refused(lambda: dist.recv(got, 0, group=group), "rank 0", "left the group")
        refused(lambda: dist.all_reduce(got, group=group), "rank 0", "left")
    dist.barrier()


@case(ranks=2)
def a_send_to_one_that_leaves_ends():
    rank, _ = me()
    left, ended = dist.new_group([0, 1]), dist.new_group([0, 1])
    big = torch.ones(1 << 20)
    if rank == 0:
        work, told = dist.isend(big, 1, group=left), []
        dist.barrier()
        begin = time.monotonic()
        refused(work.wait, "rank 1", "left the group", "stays under way")
        refused(lambda: dist.send(torch.ones(1), 1, group=left), "rank 1", "left the group")
        thread = threading.Thread(target=lambda: told.append(refused(lambda: dist.send(big, 1, group=ended), "has been aborted")))
        thread.start()
        time.sleep(0.3)
        ended._get_backend(torch.device("cpu")).abort()
        thread.join()
        equal(len(told), 1)
        assert time.monotonic() - begin < 20
    else:
        dist.barrier()
        left._get_backend(torch.device("cpu")).abort()
    dist.barrier()


@case(ranks=2)
def ended_with_work_outstanding():
    """No hang at the end without destroy_process_group, and the sent message arrives."""
    rank, _ = me()
    if rank == 0:
        dist.isend(torch.full((1 << 20,), 5.0), 1)
        dist.irecv(torch.zeros(4), 1, tag=8)
    else:
        time.sleep(0.5)
        got = torch.zeros(1 << 20)
        dist.recv(got, 0)
        equal(got[-1].item(), 5.0)


ended_with_work_outstanding.destroys = False


@case(ranks=2)
def a_forked_child_is_told():
    rank, _ = me()
    pending = dist.irecv(torch.zeros(1), 1 - rank)
    pid = os.fork()
    if pid == 0:
        try:
            refused(lambda: dist.all_reduce(torch.zeros(1)), "forked")
            for call in (pending.wait, pending.is_completed, lambda: pending.get_future().wait()):
                refused(call, "forked")
            os._exit(0)
        except BaseException as problem:
            print("#", problem)
            os._exit(1)
    equal(os.waitpid(pid, 0)[1], 0)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    equal(tensor.item(), 2.0)
    dist.send(tensor, 1 - rank)
    pending.wait()


@case(init=False)
def a_wait_after_the_end_is_told():
    """In an exit handler that runs after the adapter's; the other rank stays until then."""
    import atexit

    rank, mark, begun = int(os.environ["CASE_RANK"]), os.environ["CASE_STORE"] + "mark", []

    def late():
        try:
            refused(begun[0].wait, "exit handlers")
            refused(begun[0].is_completed, "exit handlers")
        except BaseException as problem:
            print("#", problem, flush=True)
            os._exit(1)
        finally:
            open(mark, "w").close()

    if rank == 0:
        atexit.register(late)
    dist.init_process_group("nigh", init_method=f"file://{os.environ['CASE_STORE']}", rank=rank, world_size=2)
    dist.barrier()
    if rank == 0:
        begun.append(dist.isend(torch.zeros(1 << 20), 1))  # which cannot be taken back
    while rank == 1 and not os.path.exists(mark):
        time.sleep(0.01)


@case(ranks=2)
def a_group_is_aborted_while_another_thread_posts():
    """Packing a large strided tensor takes long enough for the group to end between the check and the post."""
    rank, _ = me()
    big = torch.ones(5000, 5000)
    for call in (lambda group: dist.all_reduce(big.t(), group=group), lambda group: dist.send(big.t(), 1 - rank, group=group)):
        group, told, begins = dist.new_group([0, 1], timeout=timedelta(seconds=10)), [], threading.Event()

        def post():
            begins.set()
            try:
                call(group)
            except Exception as problem:
                told.append(str(problem))

        thread = threading.Thread(target=post)
        dist.barrier()
        thread.start()
        begins.wait()
        time.sleep(0.02)
        group._get_backend(torch.device("cpu")).abort()
        thread.join()
        assert told and "has been aborted" in told[0], told
    dist.barrier()


# ---- consumers ---------------------------------------------------------------------------------------------


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


def beside_gloo(wrap):
    """The losses of a training equal those on gloo."""
    gloo = dist.new_group(backend="gloo")
    ours = trained(lambda model: wrap(model, None))
    theirs = trained(lambda model: wrap(model, gloo))
    assert all(abs(a - b) < 1e-4 * abs(b) for a, b in zip(ours, theirs)), f"{ours} and {theirs}"
    assert ours[-1] < ours[0]


@case()
def ddp():
    beside_gloo(lambda model, group: torch.nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.001))


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


@case()
def memory_that_peers_read_in_place():
    import nigh_torch

    rank, _ = me()
    mine = nigh_torch.empty(1 << 18, dtype=torch.float64)
    equal((mine.shape, mine.dtype), (torch.Size([1 << 18]), torch.float64))
    mine.fill_(rank + 1.0)
    got = torch.zeros(1 << 18, dtype=torch.float64)
    receive = dist.irecv(got, 1 - rank)
    dist.send(mine, 1 - rank)
    receive.wait()
    equal(got[-1].item(), 2.0 - rank)
    dist.all_reduce(mine)
    equal(mine[-1].item(), 3.0)
    del mine
    ways = nigh_torch.paths()
    assert any(way[0] == 1 - rank and way[2] and way[3] for way in ways), ways


@case()
def two_ranks_that_only_compute_are_no_deadlock():
    """A rank that waits for one that computes, or for one that waits by the clock, goes on waiting."""
    rank, _ = me()
    got = torch.zeros(1)
    if rank == 0:
        work = dist.irecv(torch.zeros(1), 1, tag=1)
        refused(lambda: work.wait(timedelta(seconds=3)), "3 s")
        dist.send(torch.ones(1), 1)
        dist.recv(got, 1, tag=2)
        work.wait()
    else:
        dist.recv(got, 0)
        time.sleep(1)
        dist.send(got, 0, tag=2)
        dist.send(got, 0, tag=1)
    equal(got.item(), 1.0)


@case()
def titles():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        dist.all_reduce(torch.ones(1))
        dist.all_reduce(torch.ones(1), async_op=True).wait()
        dist.barrier()
    names = {event.key: event.count for event in profiler.key_averages()}
    equal((names.get("nigh:all_reduce"), names.get("nigh:barrier")), (2, 1))


# ---- the examples ------------------------------------------------------------------------------------------

# What each prints, all ranks' lines sorted; "*" stands for anything.
EXAMPLES = {
    "send_recv": (2, ["rank 1: a receive into 0 is a TypeError", "rank 1: equal True, from rank 0"]),
    "isend_compute_wait": (2, ["rank 0: sent, and computed 64", "rank 1: all 7: True"]),
    "irecv_polled": (2, ["rank 1: 42"]),
    "exchange": (2, ["rank 0: 11", "rank 1: 10"]),
    "relay": (4, ["rank 3: 25"]),
    "pipeline": (4, [f"stage {i}: gradient as in one process: True" for i in range(4)]),
    "ring": (4, ["rank 0: 103", "rank 0: 31", "rank 1: 100", "rank 2: 101", "rank 3: 102"]),
    "even_odd": (5, [f"rank {i}: all as sent" for i in range(5)]),
    "latency": (2, ["isend/irecv: median * us, p99 * us", "send/recv: median * us, p99 * us"]),
    "collectives": (4, [
        f"rank {i}: broadcast 1, all_reduce 10, scatter {i + 1}, all_gather [1, 2, 3, 4], average 1.5"
        + (", reduce 10" if i == 2 else "") + (", gather [1, 2, 3, 4]" if i == 0 else "") for i in range(4)]),
    "all_reduce_async": (4, [f"rank {i}: 6.0 True 332833500" for i in range(4)]),
    "subgroups": (4, ["rank 0: 4", "rank 1: 6", "rank 2: 4", "rank 3: 6"]),
    "wrong_both_send": (2, [
        "rank 0: nigh: rank 0 of 2*wait for each other*16777216 bytes to rank*tag 0*isend*",
        "rank 0: small ones arrive: 1",
        "rank 1: nigh: rank 1 of 2*wait for each other*16777216 bytes to rank*tag 0*isend*",
        "rank 1: small ones arrive: 0"]),
    "wrong_both_receive": (2, [
        f"rank {i}: nigh: rank {i} of 2*wait for each other*receives 16 bytes from rank*irecv*" for i in range(2)]),
    "wrong_tag": (2, ["rank 1: nigh: *recv from rank 0, tag 5*unmatched is a message from rank 0, tag 6, 16 bytes*",
                      "rank 1: the message of tag 6 is there: True"]),
    "wrong_size": (2, ["rank 1: behind the tensor nothing is written: True",
                       "rank 1: nigh: *rank 0 has sent 32 bytes*room for 16*",
                       "rank 1: nigh: *rank 0 has sent 8 bytes*room for 16*",
                       "rank 1: the next one is right: 3"]),
    "wrong_collective": (2, [
        f"rank {i}: {text}" for i in range(2) for text in (
            "nigh: *different calls*barrier*",
            "nigh: *allreduce of * f32*allreduce of * f32*", "the world goes on: 2")]),
    "wrong_dropped": (2, ["*left over at the end: recv from rank 1, tag 9, 16 bytes of Float (*wrong_dropped.py:*) *",
                          "rank 0: done", "rank 1: done"]),
    "wrong_exit": (3, [f"rank {i}: True in a second: True" for i in (0, 0, 1, 1)]),
}


def fits(lines, wanted):
    """Each line has a pattern of its own, whatever their order."""
    left = list(lines)
    for pattern in sorted(wanted, key=lambda text: text.count("*")):
        found = [line for line in left if fnmatch.fnmatchcase(line, re.sub(r"([\[\]?])", r"[\1]", pattern))]
        if not found:
            return f"no line {pattern!r}"
        left.remove(found[0])
    return ""


def example(name, folder):
    ranks, wanted = EXAMPLES[name]

    def function():
        sys.path.insert(0, folder)
        importlib.import_module(name).main()

    function.__name__, function.lines = name, wanted
    function.dies = {2: -signal.SIGKILL} if name == "wrong_exit" else {}
    return function, ranks, True


# ---- the driver --------------------------------------------------------------------------------------------


def rank_main(function, rank, ranks, init, path, report):
    os.environ.update(CASE_RANK=str(rank), CASE_STORE=path)
    os.dup2(report, 1)
    os.dup2(report, 2)
    faulthandler.enable()
    status = 0
    try:
        if init:
            dist.init_process_group("nigh", init_method=f"file://{path}", rank=rank, world_size=ranks)
        function()
        if init and getattr(function, "destroys", True):
            dist.destroy_process_group()
    except BaseException as problem:
        import traceback

        traceback.print_exc()
        status = 1
    finally:
        import atexit

        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run(function, ranks, init, folder):
    path = os.path.join(folder, function.__name__)
    reports = [open(f"{path}.{rank}.out", "w+") for rank in range(ranks)]
    pids = {}
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            rank_main(function, rank, ranks, init, path, reports[rank].fileno())
        pids[pid] = rank
    until, status = time.monotonic() + LIMIT, {}
    while len(status) < ranks and time.monotonic() < until:
        pid, how = os.waitpid(-1, os.WNOHANG)
        if pid in pids:
            status[pids[pid]] = os.waitstatus_to_exitcode(how)
        else:
            time.sleep(0.01)
    for pid, rank in pids.items():
        if rank not in status:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            status[rank] = "no end"
    wanted = {rank: getattr(function, "dies", {}).get(rank, 0) for rank in range(ranks)}
    texts = []
    for rank, report in enumerate(reports):
        report.seek(0)
        texts.append((rank, report.read()))
    lines = [line for _, text in texts for line in text.splitlines()]
    lacks = fits(lines, getattr(function, "lines", []))
    if lacks:
        texts.append((-1, lacks))
    return status == wanted and not lacks, status, texts


def main():
    names, every = sys.argv[1:], list(cases)
    if names[:1] == ["--examples"]:
        os.environ["NIGH_DEBUG"] = "1"  # places of calls
        every += [example(name, names[1]) for name in EXAMPLES]
        names = names[2:]
    chosen = [c for c in every if not names or c[0].__name__ in names]
    torch.set_num_threads(1)
    failed = 0
    print(f"1..{len(chosen)}", flush=True)
    folder = tempfile.mkdtemp()  # not one that an exit handler removes: the ranks run those, too
    for number, (function, ranks, init) in enumerate(chosen, 1):
        begin = time.monotonic()
        good, status, texts = run(function, ranks, init, folder)
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {function.__name__.replace('_', ' ')}", flush=True)
        if not good or os.environ.get("CASE_TEXTS"):
            print(f"# {time.monotonic() - begin:.1f} s, ends {status}")
            for rank, text in texts:
                for line in text.splitlines()[-25:]:
                    print(f"# rank {rank}: {line}")
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()

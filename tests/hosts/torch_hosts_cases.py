# SPDX-License-Identifier: BSD-3-Clause
"""Cases of the backend "nigh" with ranks on several hosts, as TAP. A layout as "AAB" says on which host each rank is.

Hosts are two network namespaces where those can be made, and else, and in most cases, ranks that call themselves of different
hosts (NIGH_TORCH_TEST_HOST). One process imports torch and forks the ranks of each case.

    python torch_hosts_cases.py [CASE...]
"""
import atexit
import ctypes
import faulthandler
import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch"))
from checks import MOVED, REDUCED, equal, lacks, me, refused, sample, sparse_sums  # noqa: E402

LIMIT = 60 * int(os.environ.get("NIGH_TEST_SCALE", "1"))
cases = []


def case(*layouts, real=False, dies=None):
    """Marks a function that each rank of each layout runs; `real`: the hosts are network namespaces."""

    def mark(function):
        for layout in layouts:
            cases.append((function, layout, real, dies or {}))
        return function

    return mark


def layout():
    return os.environ["CASE_LAYOUT"]


def raw(tensor):
    return tensor.contiguous().view(torch.uint8)


# ---- collectives -------------------------------------------------------------------------------------------


def move(length):
    rank, size = me()
    for root in range(size):
        got = torch.full((length,), float(rank))
        dist.broadcast(got, src=root)
        equal(got, torch.full((length,), float(root)))
        out = torch.zeros(length)
        dist.scatter(out, [torch.full((length,), 10.0 * root + i) for i in range(size)] if rank == root else None, src=root)
        equal(out, torch.full((length,), 10.0 * root + rank))
        outs = [torch.zeros(length) for _ in range(size)] if rank == root else None
        dist.gather(torch.full((length,), rank + 0.5), outs, dst=root)
        for i in range(size if rank == root else 0):
            equal(outs[i], torch.full((length,), i + 0.5))
    out = torch.zeros(size * length)
    dist.all_gather_into_tensor(out, torch.full((length,), float(rank)))
    wanted = torch.arange(float(size)).repeat_interleave(length)
    equal(out, wanted)
    dist.all_gather_into_tensor(out, out[rank * length:(rank + 1) * length])  # in place
    equal(out, wanted)
    outs = [torch.zeros(length * (i + 1)) for i in range(size)]
    dist.all_gather(outs, torch.full((length * (rank + 1),), float(rank)))
    for i in range(size):
        equal(outs[i], torch.full((length * (i + 1),), float(i)))
    out = torch.zeros(size * length)
    dist.all_to_all_single(out, torch.arange(float(size)).repeat_interleave(length) + 10 * rank)
    equal(out, (torch.arange(float(size)) * 10 + rank).repeat_interleave(length))
    outs = [torch.zeros((rank + 1) * length) for _ in range(size)]  # uneven
    dist.all_to_all(outs, [torch.full(((i + 1) * length,), 10.0 * rank + i) for i in range(size)])
    for i in range(size):
        equal(outs[i], torch.full(((rank + 1) * length,), 10.0 * i + rank))


def reduce_all(length):
    rank, size = me()
    data = torch.arange(float(length)) + rank
    total = torch.arange(float(length)) * size + sum(range(size))
    got = data.clone()
    dist.all_reduce(got)
    equal(got, total)
    got = data.clone()
    dist.all_reduce(got, op=dist.ReduceOp.AVG)
    equal(got, total / size)
    got = data.clone()
    dist.all_reduce(got, op=dist._make_nccl_premul_sum(0.5))
    equal(got, total / 2)
    for root in range(size):
        got = data.clone()
        dist.reduce(got, dst=root)
        equal(got, total if rank == root else data)
    into = torch.cat([data + 100 * i for i in range(size)])
    out = torch.zeros(length)
    for op, wanted in ((dist.ReduceOp.SUM, total + 100 * rank * size), (dist.ReduceOp.AVG, total / size + 100 * rank),
                       (dist.ReduceOp.MAX, torch.arange(float(length)) + size - 1 + 100 * rank)):
        dist.reduce_scatter_tensor(out, into, op=op)
        equal(out, wanted)
    out = torch.zeros(rank + 1)
    dist.reduce_scatter(out, [torch.full((i + 1,), float(rank + i)) for i in range(size)])
    equal(out, torch.full((rank + 1,), float(sum(range(size)) + size * rank)))


@case("AABB", "AAAB", "ABAB", "ABC")
def every_collective():
    for length in (1, 1001, 100003):
        move(length)
        reduce_all(length)
    for empty in (torch.zeros(0), torch.zeros(0, 3)):
        dist.all_reduce(empty)
        dist.broadcast(empty, src=1)
    dist.barrier()


@case("ABA")
def every_type():
    rank, size = me()
    for dtype in MOVED:
        got = sample(dtype, [rank, 1, 0])
        dist.broadcast(got, src=1)
        equal(raw(got), raw(sample(dtype, [1, 1, 0])))
        outs = [sample(dtype, [0, 0]) for _ in range(size)]
        dist.all_gather(outs, sample(dtype, [rank, 1]))
        for i in range(size):
            equal(raw(outs[i]), raw(sample(dtype, [i, 1])))
    for dtype in REDUCED:
        for op, wanted in (("SUM", 6), ("PRODUCT", 6), ("MAX", 3), ("MIN", 1)):
            if dtype.is_complex and op != "SUM":  # torch refuses it
                continue
            got = sample(dtype, [rank + 1, 1])
            dist.all_reduce(got, op=getattr(dist.ReduceOp, op))
            equal(got, sample(dtype, [wanted, {"SUM": 3}.get(op, 1)]))
        if dtype.is_floating_point or dtype.is_complex:
            got = sample(dtype, [rank * 3.0])
            dist.all_reduce(got, op=dist.ReduceOp.AVG)
            equal(got, sample(dtype, [3.0]))
        else:
            for op, wanted in (("BOR", [1, 1]), ("BAND", [0, 1]), ("BXOR", [0, 1])):
                got = sample(dtype, [rank != 1, 1])
                dist.all_reduce(got, op=getattr(dist.ReduceOp, op))
                equal(got, sample(dtype, wanted))
    refused(lambda: dist.all_reduce(torch.ones(1).int(), op=dist.ReduceOp.AVG), "AVG")
    dist.barrier()


@case("AAB")
def sparse_tensors_are_added_up():
    sparse_sums()


@case("AABB")
def the_same_bits_at_all_ranks():
    rank, size = me()
    for length in (100, 70000):
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(rank)
            got = (torch.randn(length) * 1000).to(dtype)
            dist.all_reduce(got)
            outs = [torch.zeros(length, dtype=dtype) for _ in range(size)]
            dist.all_gather(outs, got)
            for out in outs:
                equal(out, got)


@case("AAB")
def strides_lists_and_objects():
    rank, size = me()
    grid = torch.zeros(4, 3)
    grid[:, 1] = rank + 1.0
    dist.all_reduce(grid[:, 1])
    equal(grid, torch.tensor([[0.0, 6.0, 0.0]] * 4))
    outs = [None] * size
    dist.all_gather_object(outs, {"rank": rank, "text": "x" * rank * 100})
    equal([o["rank"] for o in outs], [0, 1, 2])
    box = ["from 2", 5] if rank == 2 else [None, None]
    dist.broadcast_object_list(box, src=2)
    equal(box, ["from 2", 5])
    got = [None]
    dist.scatter_object_list(got, ["a", "b", "c"] if rank == 2 else None, src=2)
    equal(got, ["abc"[rank]])
    tensors = [torch.ones(2), torch.ones(3, dtype=torch.int32)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    equal(tensors[1], torch.full((3,), 3, dtype=torch.int32))


@case("ABAB")
def many_collectives_at_once():
    rank, size = me()
    works, tensors = [], []
    for i in range(40):
        tensor = torch.full((i * 50 + 1,), rank + float(i))
        tensors.append(tensor)
        works.append(dist.all_reduce(tensor, async_op=True) if i % 2 else dist.broadcast(tensor, src=i % size, async_op=True))
    for work in works[:10]:
        while not work.is_completed():
            pass
    values = [work.get_future().then(lambda done: done.value()[0][0].item()) for work in works[10:20]]
    dist.barrier()
    for i, tensor in enumerate(tensors):
        equal(tensor[-1].item(), float(sum(range(size)) + size * i if i % 2 else i % size + i))
    equal([value.wait() for value in values], [tensor[0].item() for tensor in tensors[10:20]])


# ---- messages ----------------------------------------------------------------------------------------------


@case("AABB", "AAAB")
def messages_of_each_pair():
    rank, size = me()
    for length in (0, 1, 5000, 300000):
        works, outs = [], []
        for other in range(size):
            out = torch.zeros(length)
            outs.append(out)
            works.append(dist.irecv(out, other, tag=3))
            works.append(dist.isend(torch.full((length,), 10.0 * rank + other), other, tag=3))
        for work in works:
            work.wait()
        for other in range(size):
            equal(outs[other], torch.full((length,), 10.0 * other + rank))
    equal(works[0]._source_rank(), 0)


@case("AB")
def messages_keep_their_order():
    rank, _ = me()
    if rank == 0:
        works = [dist.isend(torch.full((1 + 20000 * (i % 2),), float(i)), 1, tag=i % 3 // 2) for i in range(60)]
        for work in works:
            work.wait()
        dist.send(torch.ones(1, 2).t(), 1, tag=9)
    else:
        for tag in (1, 0):
            for i in (i for i in range(60) if i % 3 // 2 == tag):
                got = torch.zeros(1 + 20000 * (i % 2))
                dist.recv(got, 0, tag=tag)
                equal((got[0].item(), got[-1].item()), (float(i), float(i)))
        got = torch.zeros(2)
        while not dist.irecv(got, 0, tag=9).is_completed() and not got[1]:  # without a wait
            time.sleep(0.01)
        equal(got, torch.ones(2))


@case("AABB")
def from_any_rank():
    rank, size = me()
    for length in (1, 100000):
        if rank == 1:
            seen = []
            for _ in range(3 * (size - 1)):
                got = torch.zeros(length)
                source = dist.recv(got, tag=5)
                seen.append((source, got[0].item(), got[-1].item()))
            for source in (0, 2, 3):
                equal([s for s in seen if s[0] == source], [(source, 10.0 * source + i, 10.0 * source + i) for i in range(3)])
            works = [(dist.irecv(got, tag=6), got) for got in (torch.zeros(length) for _ in range(2))]
            dist.barrier()
            sources = sorted((work.wait() and None, work._source_rank())[1] for work, _ in works)
            equal(sources, [0, 3])
        else:
            for i in range(3):
                dist.send(torch.full((length,), 10.0 * rank + i), 1, tag=5)
            dist.barrier()
            if rank in (0, 3):
                dist.send(torch.full((length,), float(rank)), 1, tag=6)
        dist.barrier()
    late = torch.zeros(1)
    work = dist.irecv(late, tag=7)
    refused(lambda: work.wait(timedelta(milliseconds=100)), "any rank", "0.1 s")
    dist.barrier()
    dist.send(torch.ones(1), (rank + 2) % size, tag=7)
    work.wait()
    equal(work._source_rank(), (rank + 2) % size)


@case("AB")
def sizes_and_types_of_messages_must_be_the_same():
    rank, _ = me()
    for scale in (1, 20000):
        if rank == 0:
            for tensor in (torch.ones(8 * scale), torch.ones(2 * scale), torch.ones(4 * scale, dtype=torch.int32),
                           torch.full((4 * scale,), 3.0)):
                dist.send(tensor, 1)
        else:
            memory = torch.zeros(8 * scale)
            refused(lambda: dist.recv(memory[:4 * scale], 0), f"{32 * scale} bytes", f"{16 * scale}", "rank 0", "tag 0")
            equal(memory[4 * scale:].sum().item(), 0.0)
            refused(lambda: dist.recv(memory[:4 * scale], 0), f"{8 * scale} bytes", f"{16 * scale}")
            refused(lambda: dist.recv(memory[:4 * scale], 0), "Int", "Float")
            dist.recv(memory[:4 * scale], 0)
            equal(memory[4 * scale - 1].item(), 3.0)


def resident():
    """Bytes of memory that this process has."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ahead(call, count):
    """Makes the blocking call so many times in a thread. Returns it, and how many have come back once no more do."""
    done = []
    thread = threading.Thread(target=lambda: [done.append(call(i)) for i in range(count)])
    thread.start()
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < 0.5:
        if len(done) != seen:
            seen, since = len(done), time.monotonic()
        time.sleep(0.01)
    return thread, seen


@case("AB")
def a_sender_that_is_ahead_does_not_fill_its_receivers_memory():
    """4 MiB of short messages stay at the receiver; what follows stays with its sender until it is received."""
    rank, _ = me()
    got, room = torch.zeros(8192), 4 << 20
    begin = resident()
    if rank == 0:
        works = [dist.isend(torch.full((8192,), float(i)), 1) for i in range(300)]
        dist.send(got[:1], 1, tag=1)
        for work in works:
            work.wait()
        for i in range(100):  # there is room again
            dist.send(got, 1, tag=4)
        dist.send(got[:1], 1, tag=3)
    else:
        dist.recv(got[:1], 0, tag=1)
        assert resident() - begin < 8 << 20, f"{(resident() - begin) >> 20} MiB more"
        for i in range(300):
            dist.recv(got, 0)
            equal((got[0].item(), got[-1].item()), (float(i), float(i)))
        dist.recv(got[:1], 0, tag=3)
        for i in range(100):
            dist.recv(got, 0, tag=4)
    for length, count, call in (
        (1024, 900, lambda i: dist.send(torch.full((1024,), float(i)), 1, tag=5)),
        (0, 4200, lambda i: dist.send(torch.zeros(0), 1, tag=5)),
        (8192, 135, lambda i: dist.broadcast(torch.full((8192,), float(i)), src=0)),
    ):
        dist.barrier()  # all has been received
        if rank == 0:
            thread, seen = ahead(call, count)
            dist.send(torch.tensor([seen]), 1, tag=6)
            thread.join()
            continue
        dist.recv(found := torch.tensor([0]), 0, tag=6)
        most = room // (4 * length + 1024)  # a quarter may not have been given back yet
        assert most * 3 // 4 - 1 <= found.item() <= most, f"{found.item()} of {4 * length} bytes, not {most}"
        got = torch.zeros(length)
        for i in range(count):
            if length == 8192:
                dist.broadcast(got, src=0)
            else:
                dist.recv(got, 0, tag=5)
            assert not length or got[-1].item() == i, f"{got} in place of {i}"


@case("AB")
def a_strict_send_ends_when_it_is_received():
    rank, _ = me()
    got = torch.zeros(4)
    if rank == 0:
        work = dist.isend(torch.ones(4), 1)
        dist.recv(got, 1, tag=1)  # the other one has been there
        refused(lambda: work.wait(timedelta(milliseconds=200)), "rank 1", "tag 0", "0.2 s")
        dist.send(got, 1, tag=2)
        work.wait()
    else:
        dist.send(got, 0, tag=1)
        dist.recv(got, 0, tag=2)
        dist.recv(got, 0)
        equal(got, torch.ones(4))


@case("AB", "ABB")
def two_ranks_of_different_hosts_that_wait_for_each_other():
    """Both are told, also in a subgroup, and go on. NIGH_STRICT finds sends that buffers would hide."""
    rank, size = me()
    pair = dist.new_group([0, 1])
    for group in (None, pair):
        if rank == 2:
            continue
        for length in (4, 100000):
            theirs = torch.zeros(length)
            begin = time.monotonic()
            refused(lambda: dist.send(torch.full((length,), float(rank)), 1 - rank, group=group), "wait for each other",
                    f"rank 0 sends {4 * length} bytes to rank 1, tag 0", f"rank 1 sends {4 * length} bytes to rank 0, tag 0", "isend")
            assert time.monotonic() - begin < 20
            dist.recv(theirs, 1 - rank, group=group)  # they are still under way
            equal(theirs, torch.full((length,), 1.0 - rank))
        work = dist.irecv(theirs, 1 - rank, tag=rank, group=group)
        refused(work.wait, "wait for each other", "rank 0 receives 400000 bytes from rank 1, tag 0",
                "rank 1 receives 400000 bytes from rank 0, tag 1", "isend")
        other = dist.isend(torch.full((length,), 5.0 + rank), 1 - rank, tag=1 - rank, group=group)
        work.wait()
        other.wait()
        equal(theirs, torch.full((length,), 6.0 - rank))
        dist.barrier(pair)
    dist.barrier()


@case("AB")
def ranks_of_different_hosts_that_wait_rightly():
    """For long, by the clock, and while another thread may act: no circle."""
    rank, _ = me()
    got = torch.zeros(1)
    if rank == 0:
        work = dist.irecv(torch.zeros(1), 1, tag=1)
        refused(lambda: work.wait(timedelta(seconds=1)), "1 s")
        dist.send(torch.ones(1), 1)
        dist.recv(got, 1, tag=2)
        work.wait()
        thread = threading.Thread(target=lambda: (time.sleep(0.7), dist.send(torch.ones(1), 1, tag=3)))
        thread.start()
        dist.recv(got, 1, tag=4)
        thread.join()
    else:
        dist.recv(got, 0)
        time.sleep(0.7)
        dist.send(got, 0, tag=2)
        dist.send(got, 0, tag=1)
        dist.recv(got, 0, tag=3)
        dist.send(got, 0, tag=4)
    equal(got.item(), 1.0)
    torch.manual_seed(0)
    for i in range(100):  # while messages fly
        first = torch.zeros(1 if i % 2 else 20000)
        work = dist.irecv(first, 1 - rank, tag=i)
        if i % 50 == 0:
            time.sleep(0.4 * rank)
        dist.send(first.clone(), 1 - rank, tag=i)
        work.wait()


for strict in (a_strict_send_ends_when_it_is_received, two_ranks_of_different_hosts_that_wait_for_each_other,
               ranks_of_different_hosts_that_wait_rightly):
    strict.environment = {"NIGH_STRICT": "1"}
a_strict_send_ends_when_it_is_received.lines = ["nigh: rank 0 of 2*NIGH_STRICT finds*longer circles*"]


# ---- groups ------------------------------------------------------------------------------------------------


@case("AABB")
def groups_within_a_host_and_across():
    import nigh_torch

    rank, size = me()
    groups = [(ranks, dist.new_group(ranks)) for ranks in ([0, 1], [2, 3], [1, 2], [0, 2, 3], [0, 3])]
    for ranks, group in groups:
        if rank not in ranks:
            continue
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=group)
        equal(tensor.item(), float(sum(ranks)))
        dist.broadcast(tensor, src=ranks[-1], group=group)
        ways = nigh_torch.paths(group)
        for i, other in enumerate(ranks):
            far = layout()[rank] != layout()[other]
            equal(far, any(way[0] == i and way[2] == "gloo" for way in ways))
        if rank == ranks[0]:
            dist.send(tensor, ranks[1], group=group)
        if rank == ranks[1]:
            dist.recv(tensor, ranks[0], group=group)
    threads = [threading.Thread(target=lambda group=group: [dist.all_reduce(torch.ones(100), group=group) for _ in range(20)])
               for ranks, group in groups if rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ranks, group in groups:
        if rank in ranks:
            dist.destroy_process_group(group)
    dist.barrier()


@case("AAB")
def monitored_barrier():
    """It holds all ranks until the last one has come, whichever that is; one that does not come is named, and the ranks that wait
    are told; the next one passes."""
    rank, size = me()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    for late in range(size):
        for barrier in (backend.monitored_barrier, lambda limit, every: dist.monitored_barrier(None, limit, every)):
            dist.barrier()
            if rank == late:
                time.sleep(0.2)
            times = [time.monotonic()]
            barrier(timedelta(seconds=20), True)
            times.append(time.monotonic())
            others = [None] * size
            dist.all_gather_object(others, times)
            assert min(left for _, left in others) >= others[late][0], f"rank {late} came late: {others}"
    for late in (1, 2):
        begin = time.monotonic()
        if rank == 0:
            text = refused(lambda: backend.monitored_barrier(timedelta(milliseconds=500), True), f"Rank {late} failed")
            assert f"Rank {3 - late}" not in text and time.monotonic() - begin >= 0.5, text
        else:
            if rank == late:
                time.sleep(0.8)
            refused(lambda: backend.monitored_barrier(timedelta(seconds=20), True), "errors", "rank 0")
            assert time.monotonic() - begin < 10
        dist.barrier()
        backend.monitored_barrier(timedelta(seconds=20), True)


@case("AABB", "AAAB", real=True)
def two_network_namespaces():
    rank, size = me()
    move(1001)
    reduce_all(40000)
    if rank == 0:
        dist.send(torch.full((100000,), 5.0), size - 1, tag=4)
        equal(dist.recv(torch.zeros(1)), size - 1)
    if rank == size - 1:
        got = torch.zeros(100000)
        dist.recv(got, 0, tag=4)
        equal(got[-1].item(), 5.0)
        dist.send(torch.ones(1), 0)
    group = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        got = torch.ones(1)
        dist.all_reduce(got, group=group)
        equal(got.item(), 2.0)
    ddp_step()


def ddp_step():
    rank, size = me()
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    alone = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    alone.load_state_dict(model.state_dict())
    data = torch.randn(size, 16, 8)
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)
    for step in range(3):
        for net, rows in ((model, data[rank]), (alone, data.view(-1, 8))):
            net.zero_grad()
            (net(rows) ** 2).mean().backward()
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter -= 0.1 * parameter.grad
    for ours, wanted in zip(model.module.parameters(), alone.parameters()):
        assert torch.allclose(ours, wanted, atol=1e-5), f"{ours} in place of {wanted}"


@case("AABB")
def ddp():
    ddp_step()


# ---- what goes wrong ---------------------------------------------------------------------------------------


@case("AABB", "ABA")
def different_calls():
    rank, size = me()
    group = dist.new_group(range(size))
    if rank == 1:
        refused(lambda: dist.barrier(group=group), "different calls", "barrier", "all_reduce")
    else:
        refused(lambda: dist.all_reduce(torch.ones(4), group=group), "different calls", "barrier", "all_reduce")
    other = dist.new_group(range(size))
    length = 3 if rank == size - 1 else 4
    refused(lambda: dist.all_reduce(torch.ones(length), group=other), "different calls", "all_reduce of 3", "all_reduce of 4")
    third = dist.new_group(range(size))
    refused(lambda: [dist.broadcast(torch.ones(1), src=1 if rank == 0 else 2, group=third), dist.barrier(group=third)],
            "different calls", "broadcast")
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    equal(tensor.item(), float(size))


@case("AAB")
def a_time_out_names_who_is_missing():
    rank, size = me()
    for late in (1, 2):
        if rank == late:
            time.sleep(1.5)
            dist.all_reduce(torch.ones(1))
            continue
        tensor = torch.ones(1)
        work = dist.all_reduce(tensor, async_op=True)
        text = refused(lambda: work.wait(timedelta(milliseconds=400)), f"rank {late}", "0.4 s")
        assert f"rank {3 - late}" not in text.split("waits for")[1], text
        work.wait()
        equal(tensor.item(), 3.0)
    got = torch.zeros(1)
    if rank == 0:
        work = dist.irecv(got, 2, tag=1)
        refused(lambda: work.wait(timedelta(milliseconds=100)), "rank 2", "tag 1")
        dist.send(got, 2)
        work.wait()
        equal(got.item(), 4.0)
    if rank == 2:
        dist.recv(got, 0)
        dist.send(torch.full((1,), 4.0), 0, tag=1)


@case("AABB", dies={3: -signal.SIGKILL})
def a_rank_of_another_host_dies():
    rank, size = me()
    near = dist.new_group([0, 1])
    dist.barrier()
    if rank == 3:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    words = ("rank 3", "ended")
    if rank == 0:
        refused(lambda: dist.recv(torch.zeros(1), 3), *words)
    elif rank == 1:
        refused(lambda: dist.recv(torch.zeros(1)), *words)
    else:
        refused(lambda: dist.all_reduce(torch.zeros(1)), *words)
    refused(lambda: dist.all_reduce(torch.zeros(1)), *words)
    refused(lambda: dist.send(torch.zeros(1), 3), *words)
    assert time.monotonic() - begin < 5
    if rank == 2:
        dist.send(torch.ones(1), 0)
    elif rank == 0:
        dist.recv(torch.zeros(1), 2)  # the others go on
    if rank < 2:
        dist.all_reduce(torch.zeros(1), group=near)


@case("AB")
def a_rank_that_leaves():
    rank, size = me()
    group = dist.new_group([0, 1])
    if rank == 0:
        works = [dist.isend(torch.full((n,), float(n)), 1, group=group) for n in (1, 100000)]
        dist.destroy_process_group(group)
        assert all(work.is_completed() for work in works)
    else:
        time.sleep(0.3)
        for n in (1, 100000):
            got = torch.zeros(n)
            dist.recv(got, 0, group=group)
            equal(got[-1].item(), float(n))
        refused(lambda: dist.recv(got, 0, group=group), "rank 0", "left the group")
        refused(lambda: dist.all_reduce(got, group=group), "rank 0", "left the group")
        dist.destroy_process_group(group)
    dist.barrier()


@case("AB")
def abort_ends_waits():
    rank, size = me()
    group = dist.new_group([0, 1], timeout=timedelta(seconds=20))
    told = []

    def wait(call):
        try:
            call()
        except Exception as problem:
            told.append(str(problem))

    if rank == 0:
        calls = [lambda: dist.recv(torch.zeros(1), 1, group=group), lambda: dist.recv(torch.zeros(1), group=group, tag=2),
                 lambda: dist.all_reduce(torch.zeros(1), group=group), lambda: dist.send(torch.zeros(100000), 1, group=group)]
        threads = [threading.Thread(target=wait, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        group._get_backend(torch.device("cpu")).abort()
        for thread in threads:
            thread.join()
        assert len(told) == 4 and all("aborted" in text for text in told), told
    else:
        time.sleep(0.8)
        # What the first one needs may have come.
        refused(lambda: [dist.all_reduce(torch.zeros(1), group=group) for _ in range(2)], "rank 0")
    dist.barrier()


@case("AB")
def receives_that_are_posted_while_their_group_ends():
    """Each ends with an error. A signal's handler keeps the threads that post where they are until the group has ended; with
    NIGH_DEBUG they stay mostly between the check of the group and the post."""
    libc = ctypes.CDLL(None)
    libc.signal(signal.SIGHUP, ctypes.cast(libc.sleep, ctypes.c_void_p))  # sleep(SIGHUP): 1 s
    for _ in range(2):
        group = dist.new_group([0, 1])
        if me()[0] == 0:
            abort_while_threads_post(group)
        dist.barrier()


def abort_while_threads_post(group):
    works, told = [], []

    def post(source):
        try:
            while True:
                works.append(dist.irecv(torch.zeros(1), source, group=group))
        except Exception as problem:
            told.append(str(problem))

    threads = [threading.Thread(target=post, args=(source,)) for source in (1,) * 16 + (None,) * 4]
    for thread in threads:
        thread.start()
    while len(works) < 100:
        time.sleep(0.001)
    backend, kept = group._get_backend(torch.device("cpu")), sys.getswitchinterval()
    sys.setswitchinterval(10)
    until = time.monotonic() + 0.02
    while time.monotonic() < until:  # all others wait for the interpreter's lock, and hold none of the adapter's
        pass
    for thread in threads:
        signal.pthread_kill(thread.ident, signal.SIGHUP)
    backend.abort()
    sys.setswitchinterval(kept)
    for thread in threads:
        thread.join()
    assert len(told) == len(threads) and all("has been aborted" in text for text in told), told
    begin = time.monotonic()
    for work in works:
        refused(work.wait, "has been aborted")
    assert time.monotonic() - begin < 5 and all(work.is_completed() for work in works)


receives_that_are_posted_while_their_group_ends.environment = {"NIGH_DEBUG": "1"}


@case("AAB")
def a_group_is_aborted_in_a_monitored_barrier():
    rank, _ = me()
    group, told = dist.new_group([0, 1, 2]), []
    backend = group._get_backend(torch.device("cpu"))
    call = lambda: backend.monitored_barrier(timedelta(seconds=40), True)
    thread = threading.Thread(target=lambda: told.append(refused(call, "monitored_barrier", "has been aborted")))
    if rank != 1:
        thread.start()
        time.sleep(0.3)
    for aborts in (2, 0):  # rank 0 waits for rank 1
        dist.barrier()
        if rank == aborts:
            backend.abort()
            thread.join(10)
            equal(len(told), 1)
    dist.barrier()


@case("AABB")
def ranks_that_are_silent_for_longer_than_the_timeout():
    rank, size = me()
    group = dist.new_group(list(range(size)), timeout=timedelta(seconds=2))
    got = torch.ones(3)
    dist.all_reduce(got, group=group)
    time.sleep(4.5)
    dist.all_reduce(got, group=group)
    equal(got, torch.full((3,), float(size * size)))
    if rank == 1:  # neither is the lowest of its host
        dist.send(got, 3, group=group)
    if rank == 3:
        dist.recv(got.zero_(), 1, group=group)
        equal(got, torch.full((3,), float(size * size)))
    dist.barrier()


# ---- the driver --------------------------------------------------------------------------------------------


def namespaces():
    """Two network namespaces with a link between them: their files and addresses, or why not."""
    keeper = []
    try:
        ip = shutil.which("ip") or "/usr/sbin/ip"
        for _ in range(2):
            keeper.append(subprocess.Popen(["unshare", "-n", "sleep", "600"], stderr=subprocess.DEVNULL))
        time.sleep(0.2)
        pids = [str(one.pid) for one in keeper]
        run = lambda *words: subprocess.run(words, check=True, capture_output=True)
        inside = lambda n, *words: run("nsenter", "-t", pids[n], "-n", ip, *words)
        inside(0, "link", "add", "nigh0", "type", "veth", "peer", "name", "nigh1", "netns", pids[1])
        for n in range(2):
            inside(n, "link", "set", "lo", "up")
            inside(n, "addr", "add", f"10.77.0.{n + 1}/24", "dev", f"nigh{n}")
            inside(n, "link", "set", f"nigh{n}", "up")
        return keeper, [(f"/proc/{pid}/ns/net", f"nigh{n}") for n, pid in enumerate(pids)], ""
    except (OSError, subprocess.CalledProcessError) as problem:
        return keeper, None, f"{problem} {(getattr(problem, 'stderr', None) or b'').decode()}".strip()


def enter(place):
    path, interface = place
    descriptor = os.open(path, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(descriptor)
    os.environ["GLOO_SOCKET_IFNAME"] = interface


def rank_main(function, rank, where, place, path, report):
    os.environ.update(CASE_LAYOUT=where, **getattr(function, "environment", {}))
    os.dup2(report, 1)
    os.dup2(report, 2)
    faulthandler.enable()
    status = 0
    if hasattr(function, "late"):
        atexit.register(function.late)  # runs behind the adapter's
    try:
        if place:
            enter(place)
            method = "tcp://10.77.0.1:29511"
        else:
            os.environ.update(NIGH_TORCH_TEST_HOST=where[rank], GLOO_SOCKET_IFNAME="lo")
            method = f"file://{path}"
        dist.init_process_group("nigh", init_method=method, rank=rank, world_size=len(where), timeout=timedelta(seconds=40))
        function()
        dist.destroy_process_group()
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run(function, where, places, dies, folder):
    path = os.path.join(folder, f"{function.__name__}-{where}")
    reports = [open(f"{path}.{rank}.out", "w+") for rank in range(len(where))]
    pids = {}
    for rank, host in enumerate(where):
        pid = os.fork()
        if pid == 0:
            rank_main(function, rank, where, places and places["AB".index(host)], path, reports[rank].fileno())
        pids[pid] = rank
    began, status = time.monotonic(), {}
    while len(status) < len(pids) and time.monotonic() < began + LIMIT:
        for pid, rank in pids.items():
            if rank not in status:
                done, how = os.waitpid(pid, os.WNOHANG)
                if done:
                    status[rank] = os.waitstatus_to_exitcode(how)
        time.sleep(0.01)
    for pid, rank in pids.items():
        if rank not in status:
            os.kill(pid, signal.SIGABRT if os.environ.get("CASE_TEXTS") else signal.SIGKILL)
            os.waitpid(pid, 0)
            status[rank] = "no end"
    texts = []
    for rank, report in enumerate(reports):
        report.seek(0)
        texts.append((rank, report.read()))
    missing = lacks([line for _, text in texts for line in text.splitlines()], getattr(function, "lines", []))
    if missing:
        texts.append((-1, missing))
    good = not missing and status == {rank: dies.get(rank, 0) for rank in range(len(where))}
    return good, status, texts, time.monotonic() - began


def tell(number, name, good, status, texts, seconds):
    print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
    if not good or os.environ.get("CASE_TEXTS"):
        print(f"# {seconds:.1f} s, ends {status}")
        for rank, text in texts:
            for line in text.splitlines()[:25] + text.splitlines()[25:][-25:]:
                print(f"# rank {rank}: {line}")
    return good


def main():
    names = sys.argv[1:]
    chosen = [one for one in cases if not names or one[0].__name__ in names]
    torch.set_num_threads(1)
    importlib.import_module("torch._dynamo")  # DDP takes it; once is enough
    keeper, places, why = namespaces() if any(one[2] for one in chosen) else ([], None, "")
    failed = 0
    print(f"1..{len(chosen)}", flush=True)
    folder = tempfile.mkdtemp()  # not one that an exit handler removes: the ranks run those, too
    try:
        for number, (function, where, real, dies) in enumerate(chosen, 1):
            name = f"{function.__name__.replace('_', ' ')}, {where}"
            if real and not places:
                print(f"ok {number} - {name} # SKIP no network namespaces: {why}", flush=True)
                continue
            failed += not tell(number, name, *run(function, where, places if real else None, dies, folder))
    finally:
        for one in keeper:
            one.kill()
            one.wait()
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()

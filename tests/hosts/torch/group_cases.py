# SPDX-License-Identifier: BSD-3-Clause
"""Cases of groups: which ranks, how they meet, several at once."""
import os
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from harness import case, equal, me, refused


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
    """Also by torch's function, which asks for the name "gloo" in 2.13, and not for groups of gloo."""
    rank, _ = me()
    world, limit = dist.group.WORLD, timedelta(seconds=1)
    world.monitored_barrier(timedelta(seconds=20), True)
    dist.monitored_barrier(timeout=timedelta(seconds=20), wait_all_ranks=True)
    dist.monitored_barrier(world)
    dist.monitored_barrier(dist.new_group(backend="gloo"))
    pair = dist.new_group([1, 2])
    if rank in (1, 2):
        dist.monitored_barrier(pair)
    alone = dist.new_group()
    if rank == 0:
        refused(lambda: alone.monitored_barrier(timedelta(0)), "timed out in monitoredBarrier")
    for barrier in (world.monitored_barrier, lambda *rest: dist.monitored_barrier(None, *rest)):
        if rank in (0, 1):
            refused(lambda: barrier(limit, True), *(["Ranks 2, 3 failed to pass monitoredBarrier"] if rank == 0 else ["rank 0"]))
        dist.barrier()


@case(ranks=3)
def a_group_is_aborted_in_a_monitored_barrier():
    rank, _ = me()
    group, told = dist.new_group([0, 1, 2]), []
    backend = group._get_backend(torch.device("cpu"))
    call = lambda: backend.monitored_barrier(timedelta(seconds=40), True)
    thread = threading.Thread(target=lambda: told.append(refused(call, "monitored_barrier", "has been aborted")))
    if rank < 2:
        thread.start()
        time.sleep(0.3)
    for aborts in (1, 0):  # rank 0 waits for rank 2
        dist.barrier()
        if rank == aborts:
            backend.abort()
            thread.join(10)
            equal(len(told), 1)
    dist.barrier()


@case(ranks=4, init=False)
def waits_do_not_spin_beside_torchs_threads():
    """Also where memory of nigh is taken before the first group, and in a child whose parent may spin."""
    import nigh_torch
    from nigh_torch import _adapter

    os.environ.pop("NIGH_SPIN", None)
    rank = int(os.environ["CASE_RANK"])
    torch.set_num_threads(1 if rank % 2 == 0 else os.cpu_count() + 1)
    if rank >= 2:
        kept = nigh_torch.empty(16)
        equal(_adapter.load().spins(), False)
        nigh_torch.use_shared_memory()
    dist.init_process_group("nigh", store=dist.HashStore(), rank=0, world_size=1)
    equal(_adapter.load().spins(), rank % 2 == 0)
    tensor = torch.ones(1 << 15)
    dist.all_reduce(tensor, async_op=True).wait()
    works = [dist.irecv(torch.zeros(1), 0), dist.isend(tensor[:1], 0)]
    for work in works:
        work.wait()
    if os.fork() == 0:
        try:
            kept = nigh_torch.empty(16).fill_(1)
            equal((_adapter.load().spins(), kept.sum().item()), (False, 16.0))
            os._exit(0)
        except BaseException as problem:
            print("#", problem, flush=True)
            os._exit(1)
    equal(os.wait()[1], 0)


@case(ranks=1, init=False)
def why_there_is_no_backend_is_told():
    """`import torch` goes on and says nothing; whoever names the backend hears what has gone wrong."""
    import nigh_torch

    def broken(*args, **options):
        raise TypeError("takes no devices")

    dist.Backend.backend_list.remove("nigh")
    dist.Backend.register_backend, kept = broken, dist.Backend.register_backend
    nigh_torch._autoload()
    for name in ("nigh", "cpu:nigh", "cpu:nigh,cuda:nccl"):
        refused(lambda: dist.init_process_group(name, store=dist.HashStore(), rank=0, world_size=1),
                "nigh_torch", torch.__version__, "TypeError: takes no devices")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    refused(lambda: dist.new_group(backend="nigh"), "takes no devices")
    refused(nigh_torch.use_as_default, "takes no devices")
    dist.Backend.register_backend = kept

# SPDX-License-Identifier: BSD-3-Clause
"""Cases of the end of a process or group while something is under way, and of forked children."""
import os
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from harness import case, equal, me, refused


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
def the_interpreter_ends_with_all_outstanding():
    """Without destroy: operations, futures, a callback and a thread that wait for what never comes, memory of the heap."""
    import nigh_torch

    rank, _ = me()
    big, never = nigh_torch.empty(1 << 20), dist.irecv(torch.zeros(1), 1 - rank, tag=7).get_future()
    kept.extend([big, dist.isend(big, 1 - rank, tag=1), dist.irecv(torch.zeros(4), 1 - rank, tag=2), never])
    dist.irecv(torch.zeros(1), 1 - rank, tag=6).get_future().then(lambda done: never.wait())
    threading.Thread(target=lambda: dist.recv(torch.zeros(1), 1 - rank, tag=8), daemon=True).start()
    dist.barrier()
    dist.send(torch.zeros(1), 1 - rank, tag=6)
    if rank == 0:
        kept.append(dist.all_reduce(torch.ones(1), async_op=True))


kept = []
the_interpreter_ends_with_all_outstanding.destroys = False
the_interpreter_ends_with_all_outstanding.exits = True


@case(init=False)
def memory_of_the_heap_outlives_the_exit_handlers():
    import atexit
    import nigh_torch

    rank, tensors = int(os.environ["CASE_RANK"]), []

    def late():  # runs behind the adapter's
        tensors[0] += 1
        print("the sum is", tensors.pop().sum().item(), flush=True)

    atexit.register(late)
    dist.init_process_group("nigh", init_method=f"file://{os.environ['CASE_STORE']}", rank=rank, world_size=2)
    tensors.append(nigh_torch.empty(1 << 20).fill_(2))
    dist.all_reduce(tensors[0])
    dist.destroy_process_group()


memory_of_the_heap_outlives_the_exit_handlers.lines = ["the sum is 5242880.0"] * 2


@case(ranks=2)
def a_child_that_multiprocessing_forks():
    """It is told, may leave its parent's groups and make its own, and ends."""
    import multiprocessing
    import nigh_torch

    rank, _ = me()
    pending, tensor = dist.irecv(torch.zeros(1), 1 - rank), nigh_torch.empty(1000).fill_(1)
    called = pending.get_future().then(lambda done: done.value()[0].item())
    works = [pending]

    def child():
        refused(lambda: dist.all_reduce(torch.zeros(1)), "forked")
        refused(dist.barrier, "forked")
        refused(lambda: dist.new_group([0, 1]), "forked")  # and does not wait for its parent's peers
        works.clear()
        dist.destroy_process_group()
        dist.init_process_group("nigh", store=dist.HashStore(), rank=0, world_size=1)
        alone = nigh_torch.empty(1000).fill_(3)
        dist.all_reduce(alone, async_op=True).get_future().then(lambda done: None).wait()
        equal(alone[-1].item(), 3.0)
        dist.destroy_process_group()

    children = [multiprocessing.get_context("fork").Process(target=child) for _ in range(2)]
    for process in children:
        process.start()
    for process in children:
        process.join(30)
        equal(process.exitcode, 0)
    dist.all_reduce(tensor)
    equal(tensor[-1].item(), 2.0)
    dist.send(tensor[:1], 1 - rank)
    equal(called.wait(), 2.0)


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


@case(init=False)
def children_of_multiprocessing_end_with_work_outstanding():
    """A child that multiprocessing forks runs no exit handlers. What it has sent arrives, also where the adapter was loaded
    before the fork, and where its file is loaded more than once."""
    import importlib
    import multiprocessing
    from nigh_torch import _adapter

    rank, path, context = int(os.environ["CASE_RANK"]), os.environ["CASE_STORE"], multiprocessing.get_context("fork")

    def child(number, name):
        dist.init_process_group("nigh", init_method=f"file://{path}{name}", rank=number, world_size=2)
        if number == 0:
            kept.append(dist.isend(torch.full((1 << 20,), 5.0), 1))
            return  # and ends
        time.sleep(0.5)
        got = torch.zeros(1 << 20)
        dist.recv(got, 0)
        equal(got[-1].item(), 5.0)

    for name in ("loaded in the child", "loaded before", "loaded twice") if rank == 0 else ():
        if name == "loaded before":
            _adapter.load()
        if name == "loaded twice":
            importlib.reload(_adapter).load()
        children = [context.Process(target=child, args=(number, name.replace(" ", ""))) for number in range(2)]
        for process in children:
            process.start()
        for process in children:
            process.join(30)
        equal([process.exitcode for process in children], [0, 0])

# SPDX-License-Identifier: BSD-3-Clause
"""Cases of errors: what the other ranks do, and how it is told."""
import os
import signal
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from harness import case, equal, me, refused


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

# SPDX-License-Identifier: BSD-3-Clause
"""Cases of what a call gives its user: works, futures and their callbacks, titles."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from harness import case, equal, me, refused


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
    dist.all_reduce(torch.ones(1), async_op=True).get_future().add_done_callback(lambda done: done.nothing)  # only logged
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
def titles():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        dist.all_reduce(torch.ones(1))
        dist.all_reduce(torch.ones(1), async_op=True).wait()
        dist.barrier()
    names = {event.key: event.count for event in profiler.key_averages()}
    equal((names.get("nigh:all_reduce"), names.get("nigh:barrier")), (2, 1))

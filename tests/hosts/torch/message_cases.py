# SPDX-License-Identifier: BSD-3-Clause
"""Cases of messages, and of memory that peers read in place."""
import torch
import torch.distributed as dist

from harness import case, equal, me, refused


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

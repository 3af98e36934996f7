# SPDX-License-Identifier: BSD-3-Clause
"""Broadcast, all-reduce, reduce, scatter, gather, all-gather and average."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank, size = dist.get_rank(), dist.get_world_size()

    one = torch.ones(1) if rank == 0 else torch.zeros(1)
    dist.broadcast(one, src=0)
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    at_two = torch.tensor([rank + 1.0])
    dist.reduce(at_two, dst=2)
    mine = torch.zeros(1)
    dist.scatter(mine, [torch.tensor([i + 1.0]) for i in range(size)] if rank == 0 else None, src=0)
    gathered = [torch.zeros(1) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.tensor([rank + 1.0]), gathered, dst=0)
    everywhere = [torch.zeros(1) for _ in range(size)]
    dist.all_gather(everywhere, torch.tensor([rank + 1.0]))
    average = torch.tensor([float(rank)])
    dist.all_reduce(average, op=dist.ReduceOp.AVG)

    print(f"rank {rank}: broadcast {one.item():.0f}, all_reduce {total.item():.0f}, scatter {mine.item():.0f}, "
          f"all_gather {[int(t) for t in everywhere]}, average {average.item():.1f}"
          + (f", reduce {at_two.item():.0f}" if rank == 2 else "")
          + (f", gather {[int(t) for t in gathered]}" if rank == 0 else ""))


if __name__ == "__main__":
    run(main, 4)

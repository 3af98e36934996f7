# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that make different calls: both are named, and a new group works."""
import torch
import torch.distributed as dist

from run import run, told


def main():
    rank = dist.get_rank()
    group = dist.new_group([0, 1])
    call = (lambda: dist.all_reduce(torch.zeros(4), group=group)) if rank == 0 else (lambda: dist.barrier(group=group))
    print(f"rank {rank}: " + told(call))
    group = dist.new_group([0, 1])
    print(f"rank {rank}: " + told(lambda: dist.all_reduce(torch.zeros(4 + rank), group=group)))
    total = torch.ones(1)
    dist.all_reduce(total)
    print(f"rank {rank}: the world goes on: {total.item():.0f}")


if __name__ == "__main__":
    run(main, 2)

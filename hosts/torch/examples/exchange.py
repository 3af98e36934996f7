# SPDX-License-Identifier: BSD-3-Clause
"""Two ranks exchange: one sends first, one receives first."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank = dist.get_rank()
    mine, theirs = torch.tensor([10.0 + rank]), torch.zeros(1)
    if rank == 0:
        dist.send(mine, dst=1)
        dist.recv(theirs, src=1)
    else:
        dist.recv(theirs, src=0)
        dist.send(mine, dst=0)
    print(f"rank {rank}: {theirs.item():.0f}")


if __name__ == "__main__":
    run(main, 2)

# SPDX-License-Identifier: BSD-3-Clause
"""Two ranks that both send first: small messages are buffered, large ones wait for each other."""
import torch
import torch.distributed as dist

from run import run, told


def main():
    rank = dist.get_rank()
    mine, theirs = torch.full((4,), float(rank)), torch.zeros(4)
    dist.send(mine, 1 - rank)
    dist.recv(theirs, 1 - rank)
    print(f"rank {rank}: small ones arrive: {theirs[0].item():.0f}")
    text = told(lambda: dist.send(torch.zeros(1 << 22), 1 - rank))
    print(f"rank {rank}: {text}")
    theirs = torch.zeros(1 << 22)
    dist.recv(theirs, 1 - rank)  # the large ones are still under way


if __name__ == "__main__":
    run(main, 2)

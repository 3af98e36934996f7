# SPDX-License-Identifier: BSD-3-Clause
"""A message that is longer than its tensor, and one that is shorter."""
import torch
import torch.distributed as dist

from run import run, told


def main():
    rank = dist.get_rank()
    if rank == 0:
        dist.send(torch.ones(8), 1)
        dist.send(torch.ones(2), 1)
        dist.send(torch.full((4,), 3.0), 1)
    else:
        memory = torch.zeros(8)
        print("rank 1: " + told(lambda: dist.recv(memory[:4], 0)))
        print(f"rank 1: behind the tensor nothing is written: {bool((memory[4:] == 0).all())}")
        print("rank 1: " + told(lambda: dist.recv(memory[:4], 0)))
        dist.recv(memory[:4], 0)
        print(f"rank 1: the next one is right: {memory[0].item():.0f}")


if __name__ == "__main__":
    run(main, 2)

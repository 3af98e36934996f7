# SPDX-License-Identifier: BSD-3-Clause
"""Two ranks that both receive first."""
import torch
import torch.distributed as dist

from run import run, told


def main():
    rank = dist.get_rank()
    print(f"rank {rank}: " + told(lambda: dist.recv(torch.zeros(4), 1 - rank)))
    dist.barrier()


if __name__ == "__main__":
    run(main, 2)

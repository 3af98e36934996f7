# SPDX-License-Identifier: BSD-3-Clause
"""A tensor is changed before the wait of its isend, and of its all_gather: NIGH_DEBUG=1 finds it."""
import os

import torch
import torch.distributed as dist

from run import run, told


def main():
    rank = dist.get_rank()
    mine = torch.zeros(8)
    work = dist.isend(mine, 1 - rank, tag=3)
    mine[5] = 1
    dist.recv(torch.zeros(8), 1 - rank, tag=3)
    print(f"rank {rank}: {told(work.wait)}")
    outs = [torch.zeros(8) for _ in range(2)]
    work = dist.all_gather(outs, mine, async_op=True)
    mine[2] = 7
    print(f"rank {rank}: {told(work.wait)}")
    work = dist.isend(mine, 1 - rank)
    dist.recv(torch.zeros(8), 1 - rank)
    work.wait()
    mine[0] = 1
    print(f"rank {rank}: after the wait: {told(work.wait)}")


if __name__ == "__main__":
    os.environ["NIGH_DEBUG"] = "1"
    run(main, 2)

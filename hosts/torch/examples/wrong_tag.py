# SPDX-License-Identifier: BSD-3-Clause
"""A receive with another tag than the message has: the nearest message is named."""
from datetime import timedelta

import torch
import torch.distributed as dist

from run import run, told


def main():
    rank = dist.get_rank()
    if rank == 0:
        dist.send(torch.zeros(4), 1, tag=6)
        dist.barrier()
    else:
        work = dist.irecv(torch.zeros(4), 0, tag=5)
        print("rank 1: " + told(lambda: work.wait(timedelta(seconds=1))))
        got = torch.ones(4)
        dist.recv(got, 0, tag=6)
        print(f"rank 1: the message of tag 6 is there: {bool((got == 0).all())}")
        dist.barrier()


if __name__ == "__main__":
    run(main, 2)

# SPDX-License-Identifier: BSD-3-Clause
"""A rank that ends early, and one that is killed: the others are told who, at once."""
from time import monotonic
import os
import signal

import torch
import torch.distributed as dist

from run import run, told


def main():
    rank = dist.get_rank()
    if rank == 2:
        dist.barrier()
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
    begin = monotonic()
    for call in (lambda: dist.recv(torch.zeros(4), 2), lambda: dist.all_reduce(torch.zeros(4))):
        text = told(call)
        print(f"rank {rank}: {'rank 2' in text and 'killed' in text} in a second: {monotonic() - begin < 1}")


if __name__ == "__main__":
    run(main, 3)

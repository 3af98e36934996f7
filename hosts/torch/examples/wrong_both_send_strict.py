# SPDX-License-Identifier: BSD-3-Clause
"""Two ranks that both send a small message first: that works by buffers alone, and NIGH_STRICT=1 finds it."""
import os

import torch
import torch.distributed as dist

from run import run, told


def main():
    rank = dist.get_rank()
    text = told(lambda: dist.send(torch.full((4,), float(rank)), 1 - rank))
    print(f"rank {rank}: {text}")
    theirs = torch.zeros(4)
    dist.recv(theirs, 1 - rank)  # the small ones are still under way
    work = dist.isend(torch.full((4,), rank + 10.0), 1 - rank)  # the right way
    dist.recv(theirs, 1 - rank)
    work.wait()
    print(f"rank {rank}: {theirs[0].item():.0f}")


if __name__ == "__main__":
    os.environ["NIGH_STRICT"] = "1"
    run(main, 2)

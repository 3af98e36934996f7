# SPDX-License-Identifier: BSD-3-Clause
"""A blocking send and receive of 1000 floats."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank = dist.get_rank()
    if rank == 0:
        dist.send(torch.arange(1000, dtype=torch.float32), dst=1)
    if rank == 1:
        got = torch.empty(1000)
        source = dist.recv(got, src=0)
        print(f"rank 1: equal {torch.equal(got, torch.arange(1000.0))}, from rank {source}")
        try:
            dist.recv(0, got)
        except TypeError:
            print("rank 1: a receive into 0 is a TypeError")


if __name__ == "__main__":
    run(main, 2)

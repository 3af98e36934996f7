# SPDX-License-Identifier: BSD-3-Clause
"""A send that goes on while the program computes."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank = dist.get_rank()
    if rank == 0:
        data = torch.full((1 << 20,), 7.0)
        work = dist.isend(data, dst=1)
        result = torch.ones(64, 64) @ torch.ones(64, 64)
        work.wait()
        data.zero_()  # it is the program's again
        print(f"rank 0: sent, and computed {result[0, 0].item():.0f}")
    if rank == 1:
        got = torch.empty(1 << 20)
        dist.recv(got, src=0)
        print(f"rank 1: all 7: {bool((got == 7).all())}")


if __name__ == "__main__":
    run(main, 2)

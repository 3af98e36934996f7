# SPDX-License-Identifier: BSD-3-Clause
"""A receive that is polled and never waited for."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank = dist.get_rank()
    if rank == 0:
        dist.send(torch.tensor([42.0]), dst=1)
    if rank == 1:
        got = torch.zeros(1)
        work = dist.irecv(got, src=0)
        while not work.is_completed():
            pass
        print(f"rank 1: {got.item():.0f}")


if __name__ == "__main__":
    run(main, 2)

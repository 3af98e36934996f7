# SPDX-License-Identifier: BSD-3-Clause
"""A receive that is dropped without a wait is named at the end; NIGH_DEBUG=1 says where it was posted."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank = dist.get_rank()
    if rank == 0:
        dist.irecv(torch.zeros(4), 1, tag=9)
    dist.barrier()
    print(f"rank {rank}: done")


if __name__ == "__main__":
    run(main, 2)

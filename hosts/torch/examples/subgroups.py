# SPDX-License-Identifier: BSD-3-Clause
"""The same call on two groups at once, one of the even and one of the odd ranks."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank, size = dist.get_rank(), dist.get_world_size()
    even = dist.new_group(list(range(0, size, 2)))
    odd = dist.new_group(list(range(1, size, 2)))
    mine = odd if rank % 2 else even
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total, group=mine)
    dist.barrier()
    print(f"rank {rank}: {total.item():.0f}")


if __name__ == "__main__":
    run(main, 4)

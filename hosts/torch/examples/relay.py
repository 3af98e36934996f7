# SPDX-License-Identifier: BSD-3-Clause
"""Each rank in the middle adds 10 and passes on."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank, size = dist.get_rank(), dist.get_world_size()
    value = torch.tensor([5.0])
    if rank > 0:
        dist.recv(value, src=rank - 1)
        if rank < size - 1:
            value += 10
    if rank < size - 1:
        dist.send(value, dst=rank + 1)
    else:
        print(f"rank {rank}: {value.item():.0f}")


if __name__ == "__main__":
    run(main, 4)

# SPDX-License-Identifier: BSD-3-Clause
"""A value goes round; then all receive, send and wait at once."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank, size = dist.get_rank(), dist.get_world_size()
    value = torch.tensor([1.0])
    if rank == 0:
        dist.send(value, dst=1)
        dist.recv(value, src=size - 1)
        print(f"rank 0: {value.item():.0f}")
    else:
        dist.recv(value, src=rank - 1)
        value += 10
        dist.send(value, dst=(rank + 1) % size)

    got = torch.zeros(1)
    receive = dist.irecv(got, src=(rank - 1) % size)
    send = dist.isend(torch.tensor([100.0 + rank]), dst=(rank + 1) % size)
    receive.wait()
    send.wait()
    print(f"rank {rank}: {got.item():.0f}")


if __name__ == "__main__":
    run(main, 4)

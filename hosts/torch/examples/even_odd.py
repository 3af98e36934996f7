# SPDX-License-Identifier: BSD-3-Clause
"""Even ranks exchange with odd ones, 1 byte to 64 MiB; of an odd number one has nobody."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank, size = dist.get_rank(), dist.get_world_size()
    peer = rank ^ 1
    right = True
    for shift in range(0, 27, 2):
        if peer >= size:
            continue
        mine = torch.full((1 << shift,), rank, dtype=torch.uint8)
        theirs = torch.full((1 << shift,), 255, dtype=torch.uint8)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, theirs, peer)])
        for work in works:
            work.wait()
        right = right and bool((theirs == peer).all())
    print(f"rank {rank}: {'all as sent' if right else 'WRONG'}")


if __name__ == "__main__":
    run(main, 5)

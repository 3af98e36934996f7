# SPDX-License-Identifier: BSD-3-Clause
"""An all-reduce with work in between."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank = dist.get_rank()
    data = torch.ones(1000) * rank
    work = dist.all_reduce(data, async_op=True)
    other = sum(i * i for i in range(1000))
    work.wait()
    print(f"rank {rank}: {data[0].item():.1f} {bool((data == data[0]).all())} {other}")


if __name__ == "__main__":
    run(main, 4)

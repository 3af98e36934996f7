# SPDX-License-Identifier: BSD-3-Clause
"""A pipeline of four stages, forward and back, as one process computes it."""
import torch
import torch.distributed as dist

from run import run


def main():
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    weights = [torch.randn(8, 8, dtype=torch.float64) for _ in range(size)]
    start = torch.randn(4, 8, dtype=torch.float64)

    data = start.clone()
    if rank > 0:
        dist.recv(data, src=rank - 1)
    given, weight = data.clone().requires_grad_(), weights[rank].clone().requires_grad_()
    out = given @ weight
    if rank < size - 1:
        dist.send(out.detach(), dst=rank + 1)
        gradient = torch.empty_like(out)
        dist.recv(gradient, src=rank + 1)
        out.backward(gradient)
    else:
        out.sum().backward()
    if rank > 0:
        dist.send(given.grad, dst=rank - 1)

    alone = [w.clone().requires_grad_() for w in weights]
    whole = start
    for w in alone:
        whole = whole @ w
    whole.sum().backward()
    print(f"stage {rank}: gradient as in one process: {torch.allclose(weight.grad, alone[rank].grad)}")


if __name__ == "__main__":
    run(main, 4)

# SPDX-License-Identifier: BSD-3-Clause
"""What the cases of both drivers look with: comparisons, refusals, and samples of each type."""
import fnmatch
import re
import time

import torch
import torch.distributed as dist

MOVED = [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64,
         torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.complex64, torch.complex128,
         torch.float8_e4m3fn, torch.float8_e5m2]
REDUCED = MOVED[:15]


def equal(got, wanted):
    if isinstance(got, torch.Tensor):
        assert got.dtype == wanted.dtype and torch.equal(got, wanted), f"{got} in place of {wanted}"
    else:
        assert got == wanted, f"{got!r} in place of {wanted!r}"


def refused(call, *words):
    """`call` raises a sentence with these words."""
    try:
        call()
    except Exception as problem:
        for word in words:
            assert word in str(problem), f"no {word!r} in {problem}"
        return str(problem)
    raise AssertionError(f"no error with {words}")


def me():
    return dist.get_rank(), dist.get_world_size()


def sample(dtype, values):
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def lacks(lines, wanted):
    """Each pattern of `wanted` has a line of its own, whatever their order. Else the pattern that has none."""
    left = list(lines)
    for pattern in sorted(wanted, key=lambda text: text.count("*")):
        found = [line for line in left if fnmatch.fnmatchcase(line, re.sub(r"([\[\]?])", r"[\1]", pattern))]
        if not found:
            return f"no line {pattern!r}"
        left.remove(found[0])
    return ""


def sparse_sums():
    """Of sparse tensors, as gloo gives them; synchronous, and several at once beside other calls of the group."""
    rank, size = me()

    def mine(number, dtype=torch.float32, values=()):
        rows = torch.tensor([[0, rank + 1, number % 7], [rank, 1, number % 5]])
        return torch.sparse_coo_tensor(rows, torch.arange(1, 4).view(3, *[1 for _ in values]).expand(3, *values).to(dtype), (8, 8, *values))

    def total(number, dtype=torch.float32, values=()):
        out = torch.zeros(8, 8, *values, dtype=dtype)
        for other in range(size):
            out[0, other] += 1
            out[other + 1, 1] += 2
            out[number % 7, number % 5] += 3
        return out

    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.bfloat16):
        for values in ((), (3,), (2, 4)):
            got = mine(3, dtype, values)
            dist.all_reduce(got)
            equal(got.is_coalesced(), True)
            equal(got.to_dense(), total(3, dtype, values))
    for some in (0, size):  # ranks without elements
        got = mine(0) if rank < some else torch.sparse_coo_tensor(size=(8, 8))
        dist.all_reduce(got)
        equal(got.to_dense(), total(0) if some else torch.zeros(8, 8))
    sums, works, dense = [mine(i) for i in range(20)], [], [torch.full((5,), float(i)) for i in range(20)]
    for i, tensor in enumerate(sums):
        works.append(dist.all_reduce(tensor, async_op=True))
        if i % 3 == rank % 3:
            time.sleep(0.01)
        works.append(dist.all_reduce(dense[i], async_op=True))
    futures = [work.get_future() for work in works[:10]]
    for work in reversed(works):
        work.wait()
    for i, tensor in enumerate(sums):
        equal(tensor.to_dense(), total(i))
        equal(dense[i], torch.full((5,), float(size * i)))
    equal(futures[0].value()[0].to_dense(), total(0))
    refused(lambda: dist.all_reduce(mine(0), op=dist.ReduceOp.MAX), "SUM", "sparse")
    group = dist.new_group(list(range(size)))
    shape = (4, 4) if rank == 0 else (8, 8)
    refused(lambda: dist.all_reduce(torch.sparse_coo_tensor(size=shape), group=group), "rank 0", "[4, 4]", "rank 1", "[8, 8]", "Float")
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    refused(lambda: backend.broadcast([mine(0)]), "broadcast", "sparse tensor")
    refused(lambda: dist.all_reduce(torch.eye(3).to_sparse_csr()), "SparseCsr")  # torch's dispatcher
    dist.barrier()

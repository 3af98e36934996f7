# SPDX-License-Identifier: BSD-3-Clause
"""What the cases of both drivers look with: comparisons, refusals, and samples of each type."""
import fnmatch
import re

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

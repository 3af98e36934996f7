# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed over nigh: init_process_group("nigh").

`import torch` finds this package by its entry points and registers the backend; nothing has to be imported. What else it has:

    nigh_torch.use_as_default()     init_process_group() without a backend, and "gloo" devices' default, take nigh on the CPU
    nigh_torch.empty(...)           a tensor in memory that peers read in place
    nigh_torch.use_shared_memory()  all large tensors of the CPU lie there from now on
    python -m nigh_torch.bench      a table beside gloo

This file and its entry points are read by every `import torch`: they load nothing of nigh before a group is made.
"""
import functools
import sys
from datetime import timedelta

__version__ = "0.1.0"
__all__ = ["empty", "paths", "register", "use_as_default", "use_shared_memory"]


def register():
    """Makes the backend "nigh" known to torch.distributed. May be called again."""
    import torch.distributed as dist

    if dist.is_available() and "nigh" not in dist.Backend.backend_list:
        dist.Backend.register_backend("nigh", _create, extended_api=True, devices=["cpu"])
        _let_monitored_barrier_run(dist)


def _let_monitored_barrier_run(dist):
    """torch before 2.14 has dist.monitored_barrier ask for the name "gloo"."""
    import torch

    original = dist.distributed_c10d.monitored_barrier
    if tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 14) or hasattr(original, "of_nigh"):
        return

    @functools.wraps(original)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        if not dist.is_initialized() or dist.distributed_c10d._rank_not_in_group(group):
            return original(group, timeout, wait_all_ranks)
        its = group or dist.distributed_c10d._get_default_group()
        try:
            backend = its._get_backend(torch.device("cpu"))
        except RuntimeError:  # none for the CPU
            return original(group, timeout, wait_all_ranks)
        if backend.name() != "nigh":
            return original(group, timeout, wait_all_ranks)
        if isinstance(timeout, (int, float)):
            timeout = timedelta(seconds=timeout)
        its.monitored_barrier(wait_all_ranks=wait_all_ranks, **({} if timeout is None else {"timeout": timeout}))

    monitored_barrier.of_nigh = True
    dist.monitored_barrier = dist.distributed_c10d.monitored_barrier = monitored_barrier


def _autoload():
    """The entry point `torch.backends`, called at the end of `import torch`: an exception here would end that."""
    try:
        register()
    except Exception as problem:
        _tell_when_named(problem)


def _tell_when_named(problem):
    """A name that is not registered is an AssertionError of torch, "Unknown backend type": says why instead."""
    import torch
    import torch.distributed as dist

    original = dist.Backend.__new__

    def named(cls, name):
        if isinstance(name, str) and "nigh" in [part.split(":")[-1].strip() for part in name.lower().split(",")]:
            raise RuntimeError(
                f"nigh_torch {__version__} could not make its backend known to torch {torch.__version__}, so there is no "
                f"backend \"nigh\": {type(problem).__name__}: {problem}"
            ) from problem
        return original(cls, name)

    dist.Backend.__new__ = named


def use_as_default():
    """Groups whose backend is not named, or is made by a launcher's default, use nigh for tensors of the CPU."""
    import torch.distributed as dist

    register()
    dist.Backend.default_device_backend_map["cpu"] = "nigh"


def empty(*size, dtype=None):
    """A tensor of the CPU in shared memory of nigh: peers read large messages out of it in place, with one copy in all. It
    holds zeros or what was there before, as torch.empty()."""
    import torch
    from . import _adapter

    sizes = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return _adapter.load().empty(list(sizes), dtype or torch.get_default_dtype())


def use_shared_memory(least=65536, on=True):
    """From now on the memory of new tensors of the CPU with at least so many bytes is of the kind that empty() gives, in this
    process; with on=False no more. Where there is none left, torch's own allocator is asked. Before a group is made or after it.

    A forked child does not have this memory: workers of a DataLoader are to be spawned, or to get tensors of before."""
    from . import _adapter

    _adapter.load().use_shared_memory(int(least) if on else None)


def paths(group=None):
    """Which way messages to each rank of the group go: (rank, from how many bytes on, path, reason)."""
    import torch
    import torch.distributed as dist
    from . import _adapter

    group = group or dist.distributed_c10d._get_default_group()
    return _adapter.load().paths(group._get_backend(torch.device("cpu")))


def _create(options, backend_options):
    if backend_options is not None:
        raise ValueError("nigh: init_process_group and new_group take no pg_options for this backend")
    from . import _adapter

    return _adapter.load().create(options, _gloo)


def _gloo(store, rank, size, seconds):
    """gloo's group of ranks on several hosts: it carries what is between hosts."""
    import datetime
    import torch.distributed as dist

    if not dist.is_gloo_available():
        raise RuntimeError("nigh: the ranks are on several hosts, and this torch has no gloo to carry messages between them")
    return dist.ProcessGroupGloo(store, rank, size, datetime.timedelta(seconds=seconds))


# Imported by the program, not by `import torch`: that comes first, and registers by the entry point where there is one.
if "torch" not in sys.modules:
    import torch  # noqa: F401
if hasattr(sys.modules["torch"], "distributed"):
    _autoload()

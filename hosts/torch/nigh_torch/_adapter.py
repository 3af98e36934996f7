# SPDX-License-Identifier: BSD-3-Clause
"""The adapter for the torch that runs: _c10d_<major>_<minor>, one a minor release, as c10d has no stable binary interface."""
import atexit
import importlib
import multiprocessing.util
import os
import pathlib
import threading

_lock = threading.Lock()
_module = None


def _forked():
    """Another thread of the parent may have been loading."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def load():
    """The adapter's module. Loaded by the first group."""
    global _module
    with _lock:
        if _module is None:
            module = _find()
            if not hasattr(module, "ends"):  # this file may be loaded more than once, the adapter is not
                _end_with_the_process(module)
                module.ends = True
            _module = module
    return _module


def _end_with_the_process(module):
    """At the end of an interpreter, and of a child that multiprocessing has forked: it forgets its parent's finalizers, and runs
    those alone that it registers itself, with no exit handlers."""

    def in_child(module):
        multiprocessing.util.Finalize(None, module.finish, exitpriority=0)

    atexit.register(module.finish)
    in_child(module)
    multiprocessing.util.register_after_fork(module, in_child)


def _find():
    import torch

    version = torch.__version__.split("+")[0]
    name = "_c10d_" + "_".join(version.split(".")[:2])
    try:
        return importlib.import_module("." + name, __package__)
    except ImportError as problem:
        have = sorted(
            path.name.split(".")[0][len("_c10d_"):].replace("_", ".") for path in pathlib.Path(__file__).parent.glob("_c10d_*.so")
        )
        raise ImportError(
            f"nigh_torch has no adapter for torch {version} that loads ({problem}); it has those for "
            f"{', '.join(have) or 'none'}. Build it where this torch is: "
            "pip install --no-build-isolation --force-reinstall --no-deps ./hosts/torch"
        ) from problem

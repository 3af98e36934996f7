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
            _module = _find()
            atexit.register(_module.finish)
            # A child of multiprocessing that was forked runs these alone.
            multiprocessing.util.Finalize(None, _module.finish, exitpriority=0)
    return _module


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

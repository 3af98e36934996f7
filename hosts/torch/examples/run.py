# SPDX-License-Identifier: BSD-3-Clause
"""Starts an example: as a rank under torchrun, else in processes of its own.

    torchrun --nproc-per-node 4 ring.py
    python ring.py
"""
import os
import tempfile

import torch.distributed as dist
import torch.multiprocessing as mp


def _rank(rank, main, ranks, path):
    dist.init_process_group("nigh", init_method=f"file://{path}", rank=rank, world_size=ranks)
    main()
    dist.destroy_process_group()


def told(call):
    """The sentence that `call` fails with."""
    try:
        call()
    except Exception as problem:
        return str(problem).split("\n")[0]
    return "no error"


def run(main, ranks):
    if "RANK" in os.environ:
        dist.init_process_group("nigh")
        main()
        dist.destroy_process_group()
        return
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_rank, (main, ranks, os.path.join(folder, "store")), nprocs=ranks)

# SPDX-License-Identifier: BSD-3-Clause
"""Cases of torch's own suite, torch.testing._internal.distributed.distributed_test, on groups of nigh: a dozen of them, or with
--suite all that gloo or MPI run on the CPU. The module asks for its backend's name; where it says "gloo", the groups are nigh's."""
import os
from datetime import timedelta

import torch.distributed as dist

from harness import equal

DOZEN = [
    "test_DistributedDataParallelCPU",
    "test_accumulate_gradients_no_sync_allreduce_with_then_hook",
    "test_all_gather_coalesced_full_group",
    "test_all_reduce_coalesced_group_max",
    "test_all_to_all_single_unequal_split_complex",
    "test_barrier_timeout_full_group",
    "test_batch_isend_irecv_gloo_tags",
    "test_gather_object",
    "test_monitored_barrier_gloo_rank_0_timeout",
    "test_monitored_barrier_wait_all_ranks",
    "test_scatter_object_list",
    "test_send_recv_any_source",
    "test_sparse_all_reduce_sum",
]
# By the suite's names, and why. hosts/torch/README.md has the list for users.
FAILING = {
    "test_ddp_logging_data_cpu": "torch's logging names every backend from outside \"custom\"",
}
OF_MPI = ["test_all_to_all", "test_all_to_all_complex", "test_all_to_all_full_group", "test_all_to_all_group"] + [
    f"test_all_to_all_single_{kind}_split{end}" for kind in ("equal", "unequal")
    for end in ("", "_complex", "_full_group", "_group")]


def skipped():
    """Why none of them can run, or nothing."""
    try:
        import expecttest  # noqa: F401
        import numpy  # noqa: F401
    except ImportError as problem:
        return f"torch's suite needs {problem.name}: tests/peers.sh --torch installs it"
    return ""


def load():
    os.environ.update(BACKEND="gloo", WORLD_SIZE="3", TEMP_DIR=os.environ.get("TMPDIR", "/tmp"))
    from torch.testing._internal.distributed import distributed_test

    class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        pass

    os.environ["BACKEND"] = "mpi"  # whose worlds may be small
    return distributed_test, Suite


def suite(every):
    """Cases as harness.case makes them."""
    if skipped():
        return []
    module, its = load()
    names = DOZEN
    if every:
        names = [n for n in dir(its) if n.startswith("test_") and not getattr(getattr(its, n), "__unittest_skip__", False)]
        names = sorted(set(names + OF_MPI) - set(FAILING))
    return [(_case(module, its, name, may_skip=every), 3, False) for name in names]


def _case(module, its, name, may_skip):
    def function():
        from torch.testing._internal.common_distributed import TEST_SKIPS

        rank, path = int(os.environ["CASE_RANK"]), os.environ["CASE_STORE"]
        os.environ["TEMP_DIR"] = path + ".files"
        for folder in ("barrier", "test_dir"):
            os.makedirs(f"{path}.files/{folder}", exist_ok=True)
        if name == "test_get_backend":
            module.BACKEND = "nigh"
        limit = timedelta(seconds=module.CUSTOM_PG_TIMEOUT.get(name, 40))
        dist.init_process_group("nigh", init_method=f"file://{path}", rank=rank, world_size=3, timeout=limit)
        equal(dist.get_backend(), "nigh")
        case = its(name)
        case.rank, case.file_name = rank, path
        case._barrier()
        try:
            getattr(case, name)()
        except SystemExit as end:  # a failure unless the suite says by it that the case is not for here
            reasons = [skip.message for skip in TEST_SKIPS.values() if skip.exit_code == end.code]
            assert may_skip and reasons, f"the case ends its process with {end.code}, {reasons}"
            print("SKIP", reasons[0], flush=True)
        case._barrier()
        dist.destroy_process_group()

    function.__name__ = name
    return function

# SPDX-License-Identifier: BSD-3-Clause
"""Runs cases. One process imports torch and forks the ranks of each case, so that a case costs its own time alone."""
import faulthandler
import os
import resource
import signal
import sys
import time

import torch.distributed as dist

from checks import equal, lacks, me, refused  # noqa: F401

LIMIT = 60 * int(os.environ.get("NIGH_TEST_SCALE", "1"))
cases = []


def case(ranks=2, init=True):
    """Marks a function that each of `ranks` processes runs; `init`: with the default group made."""

    def mark(function):
        cases.append((function, ranks, init))
        return function

    return mark


def rank_main(function, rank, ranks, init, path, report):
    os.environ.update(CASE_RANK=str(rank), CASE_STORE=path, **getattr(function, "environment", {}))
    os.dup2(report, 1)
    os.dup2(report, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    status = 0
    try:
        if init:
            dist.init_process_group("nigh", init_method=f"file://{path}", rank=rank, world_size=ranks)
        function()
        if init and getattr(function, "destroys", True):
            dist.destroy_process_group()
    except BaseException as problem:
        import traceback

        traceback.print_exc()
        status = 1
    finally:
        import atexit

        if getattr(function, "exits", False):  # as any program, with all that the interpreter does then
            sys.exit(status)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run(function, ranks, init, folder):
    path = os.path.join(folder, function.__name__)
    reports = [open(f"{path}.{rank}.out", "w+") for rank in range(ranks)]
    pids = {}
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            rank_main(function, rank, ranks, init, path, reports[rank].fileno())
        pids[pid] = rank
    until, status = time.monotonic() + LIMIT, {}
    while len(status) < ranks and time.monotonic() < until:
        pid, how = os.waitpid(-1, os.WNOHANG)
        if pid in pids:
            status[pids[pid]] = os.waitstatus_to_exitcode(how)
        else:
            time.sleep(0.01)
    late = {pid: rank for pid, rank in pids.items() if rank not in status}
    for pid in late:  # faulthandler says where each thread is
        os.kill(pid, signal.SIGABRT)
    for pid, rank in late.items():
        ended, until = 0, time.monotonic() + 5
        while not ended and time.monotonic() < until:
            ended, _ = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        status[rank] = "no end"
    wanted = {rank: getattr(function, "dies", {}).get(rank, 0) for rank in range(ranks)}
    texts = []
    for rank, report in enumerate(reports):
        report.seek(0)
        texts.append((rank, report.read()))
    lines = [line for _, text in texts for line in text.splitlines()]
    missing = lacks(lines, getattr(function, "lines", []))
    if missing:
        texts.append((-1, missing))
    return status == wanted and not missing, status, texts

# SPDX-License-Identifier: BSD-3-Clause
"""Cases of torch.distributed on the backend "nigh", as TAP: of all topics, or those that are named.

    python main.py [--suite] [--examples FOLDER] [CASE...]

--suite runs all cases of torch's own suite, in place of a dozen.
"""
import importlib
import os
import shutil
import sys
import tempfile
import time

import torch

import collective_cases  # noqa: F401
import message_cases  # noqa: F401
import future_cases  # noqa: F401
import group_cases  # noqa: F401
import failure_cases  # noqa: F401
import end_cases  # noqa: F401
import consumer_cases  # noqa: F401
import suite_cases
from examples import EXAMPLES, example
from harness import cases, run


def main():
    names, every = sys.argv[1:], list(cases)
    whole = names[:1] == ["--suite"]
    if whole:
        names, every = names[1:], []
    every += suite_cases.suite(whole)
    if names[:1] == ["--examples"]:
        every += [example(name, names[1]) for name in EXAMPLES]
        names = names[2:]
    chosen = [c for c in every if not names or c[0].__name__ in names]
    torch.set_num_threads(1)
    if any(function.__module__ == "consumer_cases" for function, _, _ in chosen):
        importlib.import_module("torch._dynamo")  # once, not in each rank
        importlib.import_module("torch.distributed.tensor")
    failed = 0
    print(f"1..{len(chosen)}", flush=True)
    if suite_cases.skipped():
        print(f"# SKIP {len(suite_cases.DOZEN)} cases: {suite_cases.skipped()}", flush=True)
    folder = tempfile.mkdtemp()  # not one that an exit handler removes: the ranks run those, too
    for number, (function, ranks, init) in enumerate(chosen, 1):
        begin = time.monotonic()
        good, status, texts = run(function, ranks, init, folder)
        left = {tuple(line for line in text.splitlines() if line.startswith("SKIP ")) for _, text in texts}
        if len(left) > 1:
            good = False
            texts.append((-1, f"not all ranks skip the case: {left}"))
        left = left.pop()
        failed += not good
        line = f"{'ok' if good else 'not ok'} {number} - {function.__name__.replace('_', ' ')}"
        print(line + (f" # {left[0]}" if left and good else ""), flush=True)
        if not good or os.environ.get("CASE_TEXTS"):
            print(f"# {time.monotonic() - begin:.1f} s, ends {status}")
            for rank, text in texts:
                for line in text.splitlines()[-25:]:
                    print(f"# rank {rank}: {line}")
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()

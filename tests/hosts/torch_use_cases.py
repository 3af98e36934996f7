# SPDX-License-Identifier: BSD-3-Clause
"""Cases of what is built on the backend "nigh", as TAP: torch's compiler, tensors in shared memory, and the bench.

    python torch_use_cases.py [CASE...]
"""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist

import torch_hosts_cases as harness
from torch_hosts_cases import case
from checks import equal, me

harness.cases.clear()
MIB = 1 << 20


def why_no_inductor():
    compiler = os.environ.get("CXX", "g++")
    if not shutil.which(compiler):
        return f"no {compiler}"
    return "" if os.environ.get("NIGH_TORCH_INDUCTOR") else "its kernels of C++ take up to minutes: set NIGH_TORCH_INDUCTOR=1"


@case("AA")
def functional_collectives_traced_by_the_compiler():
    compiled("aot_eager")


@case("AA")
def functional_collectives_compiled_by_inductor():
    compiled("inductor")


def compiled(backend):
    import torch.distributed._functional_collectives as functional

    torch._inductor.config.compile_threads = 1
    torch._dynamo.reset()
    group = dist.group.WORLD

    def step(data):
        total = functional.all_reduce(data * 2, "sum", group) / 2
        whole = functional.all_gather_tensor(total, 0, group)
        part = functional.reduce_scatter_tensor(whole, "avg", 0, group)
        return part + 0, total + 0

    rank, size = me()
    data = torch.arange(4.0) + rank
    wanted = step(data)
    fast = torch.compile(step, fullgraph=True, backend=backend)
    for _ in range(2):
        for got, right in zip(fast(data), wanted):
            equal(got, right)
    equal(wanted[1], torch.arange(4.0) * 2 + 1)
    equal(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)


def heap(tensor):
    """Does it lie in memory that is shared by a file of nigh?"""
    address = tensor.data_ptr()
    for line in open("/proc/self/maps", encoding="utf-8"):
        begin, end = (int(one, 16) for one in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[1][3] == "s"
    return False


@case("AA")
def tensors_lie_in_shared_memory():
    import nigh_torch

    rank, size = me()
    before = torch.zeros(MIB)
    nigh_torch.use_shared_memory()
    small, large = torch.zeros(16), torch.empty(MIB)
    equal([heap(one) for one in (before, small, large, large.clone(), torch.cat([large, large]))], [False, False, True, True, True])
    large.fill_(rank + 1.0)
    got = torch.zeros(MIB)
    receive = dist.irecv(got, 1 - rank)
    dist.send(large, 1 - rank)
    receive.wait()
    equal(got[-1].item(), 2.0 - rank)
    for _ in range(50):  # given back, and used again
        total = torch.full((MIB,), rank + 1.0)
        dist.all_reduce(total)
        equal(total[-1].item(), 3.0)
    before.resize_(2 * MIB)
    large.resize_(3 * MIB)
    equal(large[MIB - 1].item(), rank + 1.0)
    nigh_torch.use_shared_memory(on=False)
    equal(heap(torch.empty(MIB)), False)
    del got, large
    nigh_torch.use_shared_memory(least=1024)
    equal((heap(torch.empty(512)), heap(torch.empty(128))), (True, False))
    model = torch.nn.Linear(1024, 64)
    equal(heap(model.weight), True)
    model(torch.ones(1024)).sum().backward()
    dist.all_reduce(model.weight.grad)
    equal(model.weight.grad[0, 0].item(), 2.0)
    kept.append(model.weight)


kept = []
tensors_lie_in_shared_memory.late = lambda: print(f"at the end {kept[0].numel()}, {kept.pop().grad.mean().item():.0f}", flush=True)
tensors_lie_in_shared_memory.lines = ["at the end 65536, 2"] * 2


@case("AA")
def no_shared_memory_is_left():
    """torch's own allocator steps in."""
    import nigh_torch

    nigh_torch.use_shared_memory()
    kept = []
    while not kept or heap(kept[-1]):
        kept.append(torch.empty(16 * MIB))
        assert len(kept) < 4096
    kept[-1].fill_(1.0)
    dist.all_reduce(kept[-1])
    equal(kept[-1][-1].item(), 2.0)
    kept.clear()
    equal(heap(torch.empty(16 * MIB)), True)


no_shared_memory_is_left.environment = {"NIGH_HEAP": "256M"}


def bench(folder, source):
    """Its rows become a table of the page of figures. Returns what is wrong."""
    spec = importlib.util.spec_from_file_location("performance", os.path.join(source, "tools/performance.py"))
    performance = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(performance)
    found = os.path.join(folder, "rows.json")
    command = [sys.executable, "-W", "ignore", "-m", "nigh_torch.bench", "--bytes", "8,1048576", "--seconds", "0.01", "--shared", "--json", found]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        return done.stderr[-2000:]
    rows = json.load(open(found, encoding="utf-8"))["rows"]
    if len(rows) != 12 or not all(row["nigh_us"] and row["gloo_us"] and row["dispatch_us"] for row in rows):
        return f"rows {rows}"
    if not all(row["path"] for row in rows if row["call"] == "send+recv") or "path" not in done.stdout:
        return f"no path: {done.stdout}"
    page = os.path.join(folder, "2000-01-01-machine.json")
    with open(page, "w", encoding="utf-8") as file:
        json.dump({"machine": "M", "date": "2000-01-01", "about": ["A."], "runs": []}, file)
    for _ in range(2):  # the second replaces the first
        performance.add(found, page)
    text = "\n".join(performance.chapter(json.load(open(page, encoding="utf-8"))))
    if text.count("torch.distributed") != 1 or "| send+recv, 8 B |" not in text or "| all_reduce, 1 MiB |" not in text:
        return text
    return ""


def main():
    names = sys.argv[2:]
    why = why_no_inductor()
    if not why:
        harness.LIMIT *= 10
    chosen = [one for one in harness.cases if not names or one[0].__name__ in names]
    torch.set_num_threads(1)
    importlib.import_module("torch._inductor.compile_fx")  # once is enough
    print(f"1..{len(chosen) + 1}", flush=True)
    failed, folder = 0, tempfile.mkdtemp()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    for number, (function, where, _, dies) in enumerate(chosen, 1):
        name = function.__name__.replace("_", " ")
        if why and "inductor" in name:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
            continue
        failed += not harness.tell(number, name, *harness.run(function, where, None, dies, folder))
    wrong = bench(folder, sys.argv[1])
    print(f"{'not ok' if wrong else 'ok'} {len(chosen) + 1} - the bench's rows become a table")
    print("".join(f"# {line}\n" for line in wrong.splitlines()), end="")
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(failed != 0 or bool(wrong))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""How long calls of torch.distributed take on nigh and on gloo, in turn, in the same processes.

    python -m nigh_torch.bench [--ranks N] [--seconds S] [--bytes N,N,...] [--plot NAME] [--json FILE] [--shared]

The first column is torch's own dispatch: the same call on its "fake" backend, which does nothing. Times are medians of rank 0, in
microseconds; of all ranks' steps where they are in step. --plot writes NAME.svg and NAME.png (matplotlib).
--json writes the rows for tools/performance.py of nigh's source. The path is that of a message of so many bytes.
"""
import argparse
import json
import os
import shlex
import sys
import tempfile
import time


def operations(dist, torch, size, rank, ranks):
    """Name, and a function that makes the call on a group, for `size` bytes in all."""
    count = max(size // 4, 1)
    data, out = torch.ones(count), torch.ones(count)
    share = max(count // ranks, 1)
    whole, part, other = torch.ones(share * ranks), torch.ones(share), torch.ones(share * ranks)

    def send_recv(group):
        if rank == 0:
            dist.send(data, 1, group=group)
            dist.recv(out, 1, group=group)
        elif rank == 1:
            dist.recv(out, 0, group=group)
            dist.send(data, 0, group=group)

    return {
        "send+recv": send_recv,
        "all_reduce": lambda group: dist.all_reduce(data, group=group),
        "broadcast": lambda group: dist.broadcast(data, 0, group=group),
        "all_gather": lambda group: dist.all_gather_single(whole, part, group=group),
        "reduce_scatter": lambda group: dist.reduce_scatter_single(part, whole, group=group),
        "all_to_all": lambda group: dist.all_to_all_single(other, whole, group=group),
    }


def measure(step, group, seconds, dist, agree):
    """Median of the times of one call. Rank 0 decides how many there are."""
    import torch

    for _ in range(3):
        step(group)
    begin = time.perf_counter()
    step(group)
    rounds = torch.tensor([min(max(int(seconds / max(time.perf_counter() - begin, 1e-6)), 5), 2000)])
    dist.broadcast(rounds, 0, group=agree)
    times = []
    for _ in range(int(rounds)):
        begin = time.perf_counter()
        step(group)
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2] * 1e6


def floors(sizes, ranks, seconds):
    """torch's dispatch: its backend that does nothing."""
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    found = {}
    for size in sizes:
        for name, step in operations(dist, torch, size, 0, ranks).items():
            times = []
            until = time.perf_counter() + seconds / 10
            while time.perf_counter() < until or len(times) < 10:
                begin = time.perf_counter()
                step(None)
                times.append(time.perf_counter() - begin)
            found[name, size] = sorted(times)[len(times) // 2] * 1e6
    dist.destroy_process_group()
    return found


def progress(done, of):
    if sys.stderr.isatty():
        width = 40 * done // of
        print(f"\r[{'#' * width}{'.' * (40 - width)}] {done}/{of}", end="" if done < of else "\n", file=sys.stderr, flush=True)


def rank_main(rank, options, path):
    import torch
    import torch.distributed as dist

    sizes = options.bytes
    if options.shared:
        import nigh_torch

        nigh_torch.use_shared_memory()
    if rank == 0:
        floor = floors(sizes, options.ranks, options.seconds)
    dist.init_process_group("nigh", init_method=f"file://{path}", rank=rank, world_size=options.ranks)
    groups = {"gloo": dist.new_group(backend="gloo"), "nigh": dist.group.WORLD}
    names = list(operations(dist, torch, 4, rank, options.ranks))
    rows, done = [], 0
    for name in names:
        for size in sizes:
            times = {}
            for backend, group in groups.items():
                step = operations(dist, torch, size, rank, options.ranks)[name]
                try:
                    times[backend] = measure(step, group, options.seconds, dist, dist.group.WORLD)
                except RuntimeError as problem:
                    times[backend] = None
                    if rank == 0:
                        print(f"{name} of {size} bytes on {backend}: {problem}", file=sys.stderr)
                done += 1
                if rank == 0:
                    progress(done, len(names) * len(sizes) * len(groups))
            rows.append((name, size, times))
    if rank == 0:
        ways = ways_to(1)
        table(rows, floor, ways)
        if options.json:
            write_json(rows, floor, ways, options)
        if options.plot:
            plot(rows, floor, options.plot)
    dist.destroy_process_group()


def ways_to(rank):
    """From how many bytes on, the path, and why: of messages to that rank."""
    import nigh_torch

    return sorted(way[1:] for way in nigh_torch.paths() if way[0] == rank)


def path_of(name, size, ways):
    """Of messages alone: a collective's parts go several ways."""
    if name != "send+recv":
        return ""
    return next((path for least, path, _ in reversed(ways) if least <= size), "")


def measured():
    """The options of what was measured: not where its files are."""
    words = sys.argv[1:]
    for name in ("--json", "--plot"):
        if name in words:
            at = words.index(name)
            del words[at:at + 2]
    return [word for word in words if not word.startswith(("--json=", "--plot="))]


def write_json(rows, floor, ways, options):
    import torch

    kept = {"torch": torch.__version__, "ranks": options.ranks, "shared": options.shared,
            "command": shlex.join(["python", "-m", "nigh_torch.bench", *measured()]), "rows": []}
    for name, size, times in rows:
        kept["rows"].append({"call": name, "bytes": size, "path": path_of(name, size, ways), "dispatch_us": floor[name, size],
                             "nigh_us": times["nigh"], "gloo_us": times["gloo"]})
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")
    print(options.json)


def table(rows, floor, ways):
    def time_of(value):
        return "-" if value is None else f"{value:.1f}"

    print(f"{'call':15} {'bytes':>10} {'dispatch us':>12} {'nigh us':>10} {'gloo us':>10} {'gloo/nigh':>10}  path")
    for name, size, times in rows:
        ratio = f"{times['gloo'] / times['nigh']:.1f}" if times["gloo"] and times["nigh"] else "-"
        print(f"{name:15} {size:10} {floor[name, size]:12.1f} {time_of(times['nigh']):>10} {time_of(times['gloo']):>10} {ratio:>10}  "
              f"{path_of(name, size, ways)}".rstrip())
    for least, path, reason in ways:
        print(f"messages from {least} bytes on: {path}: {reason}")


def plot(rows, floor, name):
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as pyplot
    except ImportError:
        sys.exit("bench: --plot needs matplotlib: pip install matplotlib")
    calls = list(dict.fromkeys(row[0] for row in rows))
    figure, axes = pyplot.subplots(2, 3, figsize=(13, 8))
    for axis, call in zip(axes.flat, calls):
        mine = [row for row in rows if row[0] == call]
        sizes = [row[1] for row in mine]
        for backend in ("gloo", "nigh"):
            axis.loglog(sizes, [row[2][backend] for row in mine], marker="o", label=backend)
        axis.loglog(sizes, [floor[call, size] for size in sizes], linestyle=":", label="torch's dispatch")
        axis.set(title=call, xlabel="bytes", ylabel="us")
        axis.legend()
    figure.tight_layout()
    for ending in ("svg", "png"):
        figure.savefig(f"{name}.{ending}")
        print(f"{name}.{ending}")


def main():
    import torch.multiprocessing as mp

    parser = argparse.ArgumentParser(prog="python -m nigh_torch.bench", description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each call, size and backend (default 0.5)")
    parser.add_argument("--bytes", type=lambda text: [int(n) for n in text.split(",")],
                        default=[8, 1024, 16384, 65536, 1 << 20, 1 << 24])
    parser.add_argument("--plot", metavar="NAME", help="writes NAME.svg and NAME.png")
    parser.add_argument("--json", metavar="FILE", help="writes the rows")
    parser.add_argument("--shared", action="store_true", help="tensors lie in memory that peers read in place")
    options = parser.parse_args()
    if options.json:
        options.json = os.path.abspath(options.json)
    if options.ranks < 2:
        parser.error("--ranks: at least 2")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (options, os.path.join(folder, "store")), nprocs=options.ranks)


if __name__ == "__main__":
    main()

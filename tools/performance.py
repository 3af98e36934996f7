#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures this machine with nigh-perf and keeps the figures, and turns kept figures into docs/performance.md.

    tools/performance.py record [--build DIR] [--seconds S]   measure; writes docs/performance/DATE-MACHINE.json
    tools/performance.py add ROWS [FILE]                      rows of `python -m nigh_torch.bench --json` into a kept file
    tools/performance.py write [--check] [--root DIR]         write the pages; --check only tells which are out of date

A file holds one machine: `machine`, `date`, `about` (sentences on its state and software), `runs` (title, command and the
rows of `nigh-perf --json`) and `tables` (columns and rows as text: figures of before files were kept). The page is never
edited by hand, nor are the tables between the marks in README.md and hosts/libfabric/README.md, which show the newest machine:
`tests/repository/performance` runs `write --check`.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "performance"
OTHERS = "openmpi,openmpi5,mpich5,intel,ucx"
MPIS = "openmpi,openmpi+nigh,openmpi5,openmpi5+nigh,mpich5,mpich5+nigh,intel,intel+nigh"
NAMES = {
    "openmpi": "Open MPI 4.1",
    "openmpi5": "Open MPI 5.0",
    "mpich": "MPICH 4.0",
    "mpich5": "MPICH 5.0",
    "intel": "Intel MPI",
    "ucx": "UCX",
    "direct": "nigh/transport.h",
    "loopback": "plugin of sockets",
}
WHAT = {"latency": "one way", "rate": "messages a second", "bandwidth": "stream", "lend": "lend, one way"}
# What the README shows of it.
SHOWN = {
    "latency": (8, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20),
    "rate": (8,),
    "bandwidth": (4 << 10, 256 << 10, 1 << 20, 16 << 20),
    "lend": (8, 64 << 20),
}
# NCCL's net plugin, and its part of the time that is asked for.
NCCL = ("NCCL's net plugin, two processes, host buffers", 2)
# Title, nigh-perf's arguments, and its part of the time that is asked for.
RUNS = (
    ("Messages between two ranks, one way", f"latency --sizes 8,512,4K,32K,256K,1M --compare {OTHERS}", 4),
    ("Messages a second, windows of 64", f"rate --sizes 8,512 --compare {OTHERS}", 2),
    ("Streams", f"bandwidth --sizes 4K,64K,256K,1M,4M,16M --compare {OTHERS}", 4),
    ("Heap memory handed over without a copy", "lend --sizes 8,4K,64M", 1),
    (
        "Collectives of two ranks, through the table",
        "barrier allreduce broadcast reduce reduce_scatter allgather alltoall --sizes 8,4K,32K,256K,2M,16M"
        " --compare openmpi,openmpi5,mpich5,intel",
        8,
    ),
    ("Collectives that begin, while the rank computes: what is hidden", "allreduce broadcast alltoall --nb --sizes 8,32K,1M", 2),
    ("A rank that waits: woken, and blocked for 10 s", "wake idle", 1),
    ("MPIs over nigh: two ranks, one way", f"latency --sizes 8,4K,64K,1M --compare {MPIS}", 4),
    ("MPIs over nigh: two ranks, streams", f"bandwidth --sizes 32K,128K,1M,4M --compare {MPIS}", 4),
    (
        "MPIs over nigh: two ranks, collectives",
        "collective --ops barrier,allreduce,bcast,reduce,gather,allgather,alltoall"
        f" --sizes 8,4K,32K,256K,1M --compare {MPIS}",
        8,
    ),
    (
        "MPIs over nigh: 8 ranks on 2 CPUs",
        "collective --np 8 --cpus 0,1 --ops barrier,allreduce,bcast+barrier,reduce,gather,allgather,alltoall"
        " --sizes 8,4K,32K,256K,1M --compare openmpi,openmpi+nigh,openmpi5,openmpi5+nigh,intel,intel+nigh",
        8,
    ),
)


# ---- measure -------------------------------------------------------------------------------------------------


def machine():
    """The CPU's name, as the kernel has it, and how many CPUs this process may use."""
    name = platform.machine()
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            name = line.split(":", 1)[1].strip()
            break
    return f"{name}, {len(os.sched_getaffinity(0))} CPUs"


def measure(build, arguments, seconds):
    """The rows of one nigh-perf call. Raises CalledProcessError when it fails."""
    environment = {
        **os.environ,
        "NIGH_PLUGIN": str(build / "plugin/.libs/nigh.so"),
        "NIGH_PROVIDERS": str(build / "hosts/libfabric/.libs"),
        "NIGH_PEER_SOURCES": str(ROOT),
    }
    command = [str(build / "tools/nigh-perf"), *shlex.split(arguments), "--seconds", f"{seconds:g}", "--json", "-"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def plugin(build, seconds):
    """The command and the rows of nccl-host: nigh's net plugin beside one of sockets. Raises ValueError where it was not built."""
    folder = build / "tests/hosts"
    host, sockets = folder / "nccl-host", folder / "nccl/.libs/socket_plugin.so"
    nigh, module = build / "hosts/nccl/.libs/libnccl-net-nigh.so", build / "plugin/.libs/nigh.so"
    if not (host.exists() and sockets.exists()):
        raise ValueError(f"{host} or {sockets} is not there: make -C {build} check TESTS=")
    command = [host, "--bench", "--json", "--seconds", f"{seconds:g}", "--direct", module, nigh, sockets]
    environment = {**os.environ, "NIGH_PLUGIN": str(module)}
    done = subprocess.run([str(word) for word in command], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    shown = "nccl-host --bench --direct nigh.so libnccl-net-nigh.so socket_plugin.so"
    return shown, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def record(build, seconds):
    """Measures all of RUNS, and NCCL, and writes the file of today and this machine. Returns its path."""
    total = sum(part for _, _, part in RUNS) + NCCL[1]
    runs = []
    for number, (title, arguments, part) in enumerate(RUNS, 1):
        share = max(1.0, seconds * part / total)
        tests = 1 if "collective" in arguments else len(arguments.split(" --")[0].split())
        print(f"[{number}/{len(RUNS)}] {title}", file=sys.stderr)
        rows = measure(build, arguments, share / tests)
        runs.append({"title": title, "command": f"nigh-perf {arguments}", "rows": rows})
    command, rows = plugin(build, max(1.0, seconds * NCCL[1] / total))
    runs.append({"title": NCCL[0], "command": command, "rows": rows})
    today = datetime.date.today().isoformat()
    about = [f"Linux {platform.release()}. Medians of interleaved rounds; L is the handoff of a cache line."]
    slug = re.sub(r"[^a-z0-9]+", "-", machine().lower()).strip("-")
    path = FOLDER / f"{today}-{slug}.json"
    keep(path, {"machine": machine(), "date": today, "about": about, "runs": runs})
    return path


def keep(path, kept):
    """Writes a file with one row a line, so that differences can be read."""
    def listed(rows, indent):
        return "[" + ",".join(f"\n{indent}{json.dumps(row)}" for row in rows) + "]"

    def part(one):
        head = {key: value for key, value in one.items() if key != "rows"}
        return json.dumps(head)[:-1] + ', "rows": ' + listed(one["rows"], "   ") + "}"

    fields = [f'"{key}": {json.dumps(kept[key])}' for key in ("machine", "date", "about")]
    for key in ("runs", "tables"):
        if kept.get(key):
            fields.append(f'"{key}": [' + ",".join("\n " + part(one) for one in kept[key]) + "]")
    path.write_text("{" + ",\n ".join(fields) + "}\n", encoding="utf-8")


def add(rows, path):
    """Puts the rows that nigh_torch.bench has written into a kept file, in place of those of the same title."""
    path = pathlib.Path(path)
    kept = json.loads(path.read_text(encoding="utf-8"))
    bench = json.loads(pathlib.Path(rows).read_text(encoding="utf-8"))
    where = ", tensors in shared memory" if bench["shared"] else ""
    table = {
        "title": f"torch.distributed beside gloo: {bench['ranks']} ranks{where}",
        "command": bench["command"],
        "notes": [f"torch {bench['torch']}. *Dispatch* is the same call on torch's backend that does nothing."],
        "columns": ["", "path", "dispatch", "nigh", "gloo", "gloo / nigh"],
        "rows": [],
    }
    for row in bench["rows"]:
        nigh, gloo = row["nigh_us"], row["gloo_us"]
        times = [figure(one and one * 1000, "ns") for one in (row["dispatch_us"], nigh, gloo)]
        ratio = three(gloo / nigh) if nigh and gloo else "-"
        table["rows"].append([f"{row['call']}, {size(row['bytes'])}", row["path"], *times, ratio])
    others = [one for one in kept.get("tables", []) if one["title"] != table["title"]]
    keep(path, {**kept, "tables": others + [table]})
    return path


# ---- write ---------------------------------------------------------------------------------------------------


def three(value):
    """Three digits: 0.123, 1.23, 12.3, 123, 1234."""
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f}"


def figure(value, unit):
    """A figure with its unit as people read it; times in ns become us from 1000 on."""
    if value is None:
        return "-"
    if unit == "ns" and value >= 1000:
        return f"{three(value / 1000)} us"
    return f"{three(value)} {unit}"


def size(count):
    """1048576 -> 1 MiB."""
    for name, unit in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"


def label(row):
    return row["test"] + (f", {size(row['bytes'])}" if row["bytes"] else "")


def of_own(row, name):
    """Over nigh, divided by the MPI's own: the median of paired rounds from the row's note, else of the medians."""
    found = re.search(rf"{re.escape(name)}\+nigh ([0-9.]+) \(", row["note"] or "")
    if found:
        return float(found.group(1))
    own, over = row["peers"].get(name), row["peers"].get(f"{name}+nigh")
    return over / own if own and over else None


def mpi_table(rows):
    """One column for each MPI: its own shared memory / over nigh (ratio)."""
    names = [name for name in NAMES if any(f"{name}+nigh" in row["peers"] for row in rows)]
    table = [["own / over nigh (ratio)", "L, ns", *(NAMES[name] for name in names)]]
    for row in rows:
        cells = []
        for name in names:
            own, over, ratio = row["peers"].get(name), row["peers"].get(f"{name}+nigh"), of_own(row, name)
            cells.append(
                f"{figure(own, row['unit'])} / {figure(over, row['unit'])} ({ratio:.2f})" if own and over else "-"
            )
        table.append([label(row), three(row["handoff_ns"]), *cells])
    return table


def peer_table(rows):
    """nigh beside its floor and the other transports."""
    names = [name for name in NAMES if any(name in row.get("peers", {}) for row in rows)]
    table = [["", "L, ns", "nigh", "floor", "of the floor", *(NAMES[name] for name in names)]]
    for row in rows:
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        unit = row["unit"]
        cells = [figure(row["value"], unit), figure(row["floor"], unit), ratio]
        cells += [figure(row.get("peers", {}).get(name), unit) for name in names]
        table.append([label(row), "-" if row["handoff_ns"] is None else three(row["handoff_ns"]), *cells])
    return table


def markdown(table):
    head, *rows = table
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def section(title, command, notes, table):
    lines = [f"### {title}", ""] + [line for note in notes for line in (f"{note}", "")]
    if command:
        lines += [f"    {command}", ""]
    return lines + markdown(table) + [""]


def chapter(kept):
    """The lines of one machine."""
    lines = [f"## {kept['machine']}, {kept['date']}", "", *(line for text in kept["about"] for line in (text, ""))]
    for run in kept.get("runs", []):
        rows = [row for row in run["rows"] if row["value"] is not None or row.get("peers")]
        over = any("+nigh" in name for row in rows for name in row.get("peers", {}))
        lines += section(run["title"], run["command"], [], mpi_table(rows) if over else peer_table(rows))
    for table in kept.get("tables", []):
        notes = table.get("notes", [])
        lines += section(table["title"], table.get("command"), notes, [table["columns"], *table["rows"]])
    return lines


def page(folder):
    """The whole page. Raises ValueError when the folder holds no file."""
    files = sorted(pathlib.Path(folder).glob("*.json"))
    if not files:
        raise ValueError(f"{folder} holds no .json file: run tools/performance.py record")
    kept = sorted((json.loads(path.read_text(encoding="utf-8")) for path in files), key=age, reverse=True)
    lines = [
        "<!-- SPDX-License-Identifier: BSD-3-Clause -->",
        "<!-- Written by tools/performance.py write; the figures are in docs/performance/. -->",
        "# Performance",
        "",
        "One section for each machine, newest first. `tools/performance.py record` measures another one and",
        "`tools/performance.py write` adds it here. [How figures are taken](rationale/measuring.md).",
        "",
        "- *L* is the time that a cache line takes from one CPU to the other. A row is of one state of the machine.",
        "- *Floor* is what the machine allows with no protocol at all, measured in the same rounds.",
        "- *One way*: below 1 nigh is faster. Of streams and rates: above 1 nigh is faster.",
        "",
        *(f"- [{one['machine']}, {one['date']}](#{anchor(one)})" for one in kept),
        "",
    ]
    for one in kept:
        lines += chapter(one)
    return "\n".join(lines).rstrip() + "\n"


def anchor(kept):
    """What Markdown makes of a heading."""
    return re.sub(r"[^a-z0-9 _-]", "", f"{kept['machine']}, {kept['date']}".lower()).replace(" ", "-")


def age(kept):
    """Newer files are greater; of one day those with rows of nigh-perf."""
    return kept["date"], bool(kept.get("runs"))


def newest(folder):
    """The newest file. Raises ValueError when the folder holds none."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in pathlib.Path(folder).glob("*.json")]
    if not files:
        raise ValueError(f"{folder} holds no .json file: run tools/performance.py record")
    return max(files, key=age)


def head(kept):
    return f"{kept['machine']}, {kept['date']}."


def kept_table(kept, title):
    """The first kept table whose title begins with `title`, as lines. Raises ValueError when there is none."""
    for table in kept.get("tables", []):
        if table["title"].startswith(title):
            return [head(kept), "", *markdown([table["columns"], *table["rows"]])]
    raise ValueError(f"{head(kept)} has neither rows of nigh-perf nor a table \"{title}\"")


def best(row):
    """The best other transport of a row: its name and figure."""
    others = {name: value for name, value in row["peers"].items() if value}
    pick = min if row["unit"] == "ns" else max
    return pick(others.items(), key=lambda item: item[1]) if others else (None, None)


def summary(kept):
    """Messages between two ranks: nigh, the floor and the best other transport."""
    if not kept.get("runs"):
        return kept_table(kept, "Messages between two ranks")
    table = [["two ranks", "L, ns", "nigh", "floor", "best other"]]
    rows = {}  # of two states of the machine the one with more rounds
    for row in (row for run in kept["runs"] for row in run["rows"]):
        key = (row["test"], row["bytes"])
        over = any("+nigh" in name for name in row.get("peers", {}))
        if row["value"] is None or over or row["bytes"] not in SHOWN.get(row["test"], ()):
            continue
        if key not in rows or row["rounds"] > rows[key]["rounds"]:
            rows[key] = row
    for row in rows.values():
        name, value = best(row) if row.get("peers") else (None, None)
        unit, what = row["unit"], f"{size(row['bytes'])}, {WHAT[row['test']]}"
        other = f"{figure(value, unit)} ({NAMES[name]})" if name else "-"
        table.append([what, three(row["handoff_ns"]), f"**{figure(row['value'], unit)}**", figure(row["floor"], unit), other])
    return [f"{head(kept)} *L* is the time of a cache line from CPU to CPU, *floor* what the machine allows.", "", *markdown(table)]


def ratios(kept):
    """Each MPI over nigh, divided by itself over its own shared memory: two ranks."""
    if not kept.get("runs"):
        return kept_table(kept, "MPIs: two ranks")
    rows = [row for run in kept["runs"] for row in run["rows"] if row["test"] in WHAT and row["ranks"] == 2]
    rows = [row for row in rows if any("+nigh" in name for name in row.get("peers", {}))]
    names = [name for name in NAMES if any(f"{name}+nigh" in row["peers"] for row in rows)]
    table = [["over nigh / own", "L, ns", *(NAMES[name] for name in names)]]
    for row in rows:
        found = [of_own(row, name) for name in names]
        what = f"{size(row['bytes'])}, {WHAT[row['test']]}"
        table.append([what, three(row["handoff_ns"]), *("-" if one is None else f"{one:.2f}" for one in found)])
    return [head(kept), "", *markdown(table)]


def between_marks(path, lines):
    """The text of `path` with `lines` between its marks."""
    head, _, rest = path.read_text(encoding="utf-8").partition("<!-- figures -->\n")
    _, mark, tail = rest.partition("<!-- /figures -->\n")
    if not mark:
        raise ValueError(f"{path} has no marks <!-- figures --> and <!-- /figures -->")
    return head + "<!-- figures -->\n" + "\n".join(lines) + "\n" + mark + tail


def write(root, check):
    """Writes the pages that are out of date, or with `check` only names them. Returns how many there are."""
    folder = root / "docs" / "performance"
    mpi = root / "hosts" / "libfabric" / "README.md"
    pages = {
        root / "docs" / "performance.md": page(folder),
        root / "README.md": between_marks(root / "README.md", summary(newest(folder))),
        mpi: between_marks(mpi, ratios(newest(folder))),
    }
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(root)}: {'out of date, run tools/performance.py write' if check else 'written'}")
        if not check:
            path.write_text(pages[path], encoding="utf-8")
    return len(stale)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    measured = verbs.add_parser("record")
    measured.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    measured.add_argument("--seconds", type=float, default=300)
    added = verbs.add_parser("add")
    added.add_argument("rows", type=pathlib.Path)
    added.add_argument("file", type=pathlib.Path, nargs="?", help="default: the newest of docs/performance")
    written = verbs.add_parser("write")
    written.add_argument("--check", action="store_true")
    written.add_argument("--root", type=pathlib.Path, default=ROOT)
    asked = parser.parse_args()
    try:
        if asked.verb == "record":
            print(record(asked.build, asked.seconds))
        elif asked.verb == "add":
            print(add(asked.rows, asked.file or max(FOLDER.glob("*.json"), key=lambda path: age(json.loads(path.read_text())))))
        elif write(asked.root.resolve(), asked.check) and asked.check:
            sys.exit(1)
    except (ValueError, OSError) as error:
        sys.exit(f"performance.py: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"performance.py: {shlex.join(error.cmd)} ended with {error.returncode}")


if __name__ == "__main__":
    main()

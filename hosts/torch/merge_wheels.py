# SPDX-License-Identifier: BSD-3-Clause
"""Makes one wheel of nigh_torch for several minor releases of torch, out of wheels that were built beside each of them.

    python merge_wheels.py -d FOLDER WHEEL WHEEL...

The wheels are of one source and one release of Python. What is not an adapter is taken from the first.
"""
import argparse
import base64
import csv
import hashlib
import io
import pathlib
import sys
import zipfile

ADAPTER = "nigh_torch/_c10d_"


def read(path):
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def record_of(files, record):
    """The text of RECORD: each file with its hash and length."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(content)])
    rows.writerow([record, "", ""])
    return out.getvalue().encode()


def merged(paths):
    first, rest = read(paths[0]), paths[1:]
    for path in rest:
        if path.name != paths[0].name:
            sys.exit(f"{path}: another version, Python or machine than {paths[0]}")
        for name, content in read(path).items():
            if name.startswith(ADAPTER):
                if first.get(name, content) != content:
                    sys.exit(f"{path}: {name} is in an earlier wheel, too, and differs")
                first[name] = content
            elif name.endswith(".py") and first.get(name) != content:
                sys.exit(f"{path}: of another source than {paths[0]}: {name} differs")
    record = next(name for name in first if name.endswith(".dist-info/RECORD"))
    del first[record]
    first[record] = record_of(first, record)
    return first


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-d", dest="folder", type=pathlib.Path, required=True, help="where the wheel goes")
    parser.add_argument("wheels", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    files = merged(options.wheels)
    options.folder.mkdir(parents=True, exist_ok=True)
    target = options.folder / options.wheels[0].name
    if any(target.resolve() == path.resolve() for path in options.wheels):
        sys.exit(f"{target} is one of the wheels: name another folder")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    print(target)


if __name__ == "__main__":
    main()

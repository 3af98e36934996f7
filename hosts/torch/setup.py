# SPDX-License-Identifier: BSD-3-Clause
"""Builds the adapter for the torch of this environment, and puts nigh.so beside it.

nigh.so is taken from $NIGH_BUILD (a build folder of nigh), else from ../../build, else it is built. merge_wheels.py makes one wheel
for several releases of torch.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import setup

here = pathlib.Path(__file__).resolve().parent
top = here.parent.parent



def environments_path():
    """sys.path of this environment. pip's build isolation hides its packages, torch among them, by these variables."""
    hidden = ("PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONHOME")
    plain = {name: value for name, value in os.environ.items() if name not in hidden}
    said = subprocess.check_output([sys.executable, "-c", "import json, sys; print(json.dumps(sys.path[1:]))"], env=plain, cwd=here)
    return json.loads(said)


sys.path += [folder for folder in environments_path() if folder not in sys.path]
try:
    import torch
    from torch.utils import cpp_extension
except ImportError as problem:
    sys.exit(f"nigh_torch is built against the torch of its environment, and {sys.executable} has none ({problem}): "
             "pip install torch, then this again")
if tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 13):
    sys.exit(f"nigh_torch needs torch 2.13 or newer; {sys.executable} has {torch.__version__}")


def plugin(work):
    """The path of nigh.so."""
    for folder in filter(None, [os.environ.get("NIGH_BUILD"), top / "build"]):
        path = pathlib.Path(folder) / "plugin/.libs/nigh.so"
        if path.exists():
            return path
        if folder == os.environ.get("NIGH_BUILD"):
            sys.exit(f"NIGH_BUILD: there is no {path}")
    if not (top / "configure.ac").exists():
        sys.exit("nigh's source is not around this folder: set NIGH_BUILD to a build folder of nigh")
    work.mkdir(parents=True, exist_ok=True)
    if not (top / "configure").exists():
        subprocess.check_call(["./autogen.sh"], cwd=top)
    subprocess.check_call([str(top / "configure")], cwd=work)
    subprocess.check_call(["make", f"-j{os.cpu_count()}", "plugin/nigh.la"], cwd=work)
    return work / "plugin/.libs/nigh.so"


class Build(cpp_extension.BuildExtension):
    def run(self):
        # Adapters of an earlier build in this folder fit an earlier source.
        for old in pathlib.Path(self.build_lib).glob("nigh_torch/_c10d_*"):
            if not old.name.startswith(name + "."):
                old.unlink()
        super().run()
        target = pathlib.Path(self.get_ext_fullpath("nigh_torch." + name)).parent
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(plugin(pathlib.Path(self.build_temp).resolve() / "nigh"), target / "nigh.so")


name = "_c10d_" + "_".join(torch.__version__.split("+")[0].split(".")[:2])
setup(
    ext_modules=[
        cpp_extension.CppExtension(
            "nigh_torch." + name,
            ["csrc/adapter.cc", "csrc/engine.cc", "csrc/op.cc", "csrc/progress.cc", "csrc/table.cc"],
            depends=[str(path.relative_to(here)) for path in (here / "csrc").iterdir()],
            include_dirs=[os.environ.get("NIGH_INCLUDE", str(top / "include")), str(here / "csrc")],
            extra_compile_args=["-g0", os.environ.get("NIGH_TORCH_OPTIMIZE", "-O2"), "-fvisibility=hidden"],
            extra_link_args=["-ldl", "-lpthread"],
        )
    ],
    cmdclass={"build_ext": Build.with_options(use_ninja=False)},
)

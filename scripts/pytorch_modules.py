"""Writes src/rushlight/serialization/pytorch_modules.py: which module of PyTorch each public class of Rushlight is defined in.

    python scripts/pytorch_modules.py    # after a class was added or moved; needs torch installed

PyTorch's classes are read in one process and Rushlight's in another, both under PyTorch's public paths.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "src/rushlight/serialization/pytorch_modules.py"
HEADER = '''"""Which module of PyTorch each class is defined in. Written by scripts/pytorch_modules.py; do not edit.

File of Rushlight -> PyTorch's module -> names of classes. Files and programs name classes by these modules
(`torch.nn.modules.linear.Linear`).
"""

from __future__ import annotations

MODULES: dict[str, dict[str, str]] = {
'''
# What a program cannot have at hand: internals, and parts that Rushlight does not have.
LEFT_OUT = "_inductor _dynamo _export _functorch _prims _refs ao contrib testing cuda mps xpu backends".split()


def modules() -> list[str]:
    """PyTorch's modules, without its internals."""
    import torch

    found = ["torch"]
    for each in pkgutil.walk_packages(torch.__path__, "torch.", onerror=lambda name: None):
        parts = each.name.split(".")[1:]
        if parts[0] not in LEFT_OUT and not (parts[0].startswith("_") and parts[0] != "_C"):
            found.append(each.name)
    return found


def listed(names: list[str]) -> list[str]:
    """The public path of each name in PyTorch's modules."""
    found = []
    for name in names:
        try:
            found += [f"{name}.{each}" for each in dir(importlib.import_module(name))]
        except BaseException:  # a module that asks for more than is installed
            continue
    return found


def classes(paths: list[str]) -> dict[str, tuple[str, str]]:
    """{public path of a class: (the module that it says it is of, its qualified name)}."""
    warnings.simplefilter("ignore")
    found = {}
    for path in paths:
        module, _, name = path.rpartition(".")
        try:
            obj: Any = getattr(importlib.import_module(module), name, None)
        except BaseException:
            continue
        if isinstance(obj, type):
            found[path] = (obj.__module__, obj.__qualname__)
    return found


def own_name(module: str, name: str) -> bool:
    """Whether a class stands in PyTorch's module where it says it is, so that pickles find it."""
    return module.startswith("torch") and name in vars(sys.modules.get(module, object))


def own_classes(paths: list[str]) -> dict[str, tuple[str, str]]:
    """The same of Rushlight, read where it stands for PyTorch but its classes say where they are."""
    from rushlight.compat import import_hook

    import_hook.MODULES.clear()
    import_hook.install_as_torch()
    return classes(paths)


def main() -> None:
    if sys.argv[1:]:
        paths = json.loads(sys.stdin.read())
        sys.stdout.write("\n" + json.dumps(own_classes(paths)))
        return
    theirs = {p: names for p, names in classes(listed(modules())).items() if own_name(*names)}
    done = subprocess.run(
        [sys.executable, __file__, "own"],
        input=json.dumps([*theirs]),
        capture_output=True,
        text=True,
        check=False,
    )
    ours = json.loads(done.stdout.splitlines()[-1])
    table: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path, (module, name) in theirs.items():
        own = ours.get(path)
        if own and own[1] == name and own[0].startswith("rushlight"):
            ours_in = own[0].removeprefix("rushlight").lstrip(".")
            rows = table[ours_in]
            others = [each for each, names in rows.items() if name in names and each != module]
            # The module of the same path; else `torch.jit._script.ScriptModule`, not `torch.ScriptModule`.
            rank = lambda each, same=f"torch.{ours_in}": (each == same, len(each))
            if any(rank(each) > rank(module) for each in others):
                continue
            for each in others:
                rows[each].discard(name)
            rows[module].add(name)
    text = HEADER
    table.pop("compat.private_api", None)  # stand-ins
    for own_module in sorted(table):
        found = {
            module: " ".join(sorted(names))
            for module, names in sorted(table[own_module].items())
            if names
        }
        text += f'    "{own_module}": {json.dumps(found)},\n'
    TARGET.write_text(text + "}  # fmt: skip\n")


if __name__ == "__main__":
    main()

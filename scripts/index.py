"""Writes src/rushlight/dispatch/index.py, which family file each public name is in,
src/rushlight/_backends/index.py, which family file each kernel is in, and src/rushlight/nn/index.py, which file
each class of `nn` is in, and src/rushlight/_codegen/kernel_index.py, the names in each file of kernels.

python scripts/index.py            # after adding an operator or a kernel
python scripts/index.py --check    # fails when a file is not up to date
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OPS = ROOT / "src" / "rushlight" / "ops"
BACKENDS = ROOT / "src" / "rushlight" / "_backends"
KERNEL_FILES = ROOT / "src" / "rushlight" / "_codegen" / "kernels"
HEADER = '''"""Which family file each public name is in. Written by scripts/index.py; do not edit.

Names are kept as words in strings, which load ten times faster than entries of dictionaries.
"""
'''
FOOTER = """

def spread(table: dict[str, str]) -> dict[str, str]:
    return {name: target for target, names in table.items() for name in names.split()}


FUNCTIONS = spread(FUNCTIONS)
NO_METHODS = {*NO_METHODS.split()}
OF_TENSOR = [path[7:] for path in FUNCTIONS if path[:7] == "Tensor." and path not in NO_METHODS]
METHODS = {name: f"Tensor.{name}" for name in OF_TENSOR} | {name: name for name in SAME.split()}
INPLACE = {path.rpartition(".")[2] + "_": path for path in WRITERS.split()}
"""


KERNELS_HEADER = '''"""Which family file each kernel is in. Written by scripts/index.py; do not edit."""
'''
KERNELS_FOOTER = """

def spread(table: dict[str, str]) -> dict[str, str]:
    return {kernel: family for family, names in table.items() for kernel in names.split()}


REFERENCE = spread(REFERENCE)  # those of cpu.py that are not NumPy's own
LLVM = spread(LLVM)
MAY_GIVE_NONE = {*MAY_GIVE_NONE.split()}  # of the reference's, for what they refuse
"""


GETTER = "self=Ptr[i64],objects=Ptr[i64],count=i64"  # what each entry of attributes.py takes
FUNCTIONS_HEADER = '''"""The names that are asked of each file of kernels: functions, with their kind and those parameters that have a type,
and whole numbers. Written by scripts/index.py; do not edit.
"""
'''


CLASSES_HEADER = '''"""Which file each public class of `nn` is in. Written by scripts/index.py; do not edit."""

from __future__ import annotations
'''
CLASSES_FOOTER = """
CLASSES = {name: file for file, names in FILES.items() for name in names.split()}
"""


def words(title: str, names: list[str]) -> str:
    """`title = (...)`: the names in one string, several lines."""
    return f"{title} = (\n{lines(names, 4)})\n"


def lines(names: list[str], indent: int) -> str:
    text, line = "", ""
    for n in sorted(names):
        if len(line) + len(n) > 84:
            text += f'{" " * indent}"{line}"\n'
            line = ""
        line += n + " "
    return text + f'{" " * indent}"{line}"\n'


def table(title: str, of: dict[str, str]) -> str:
    """`title = {target: "name name ..."}`."""
    by_target: dict[str, list[str]] = {}
    for name, target in of.items():
        by_target.setdefault(target, []).append(name)
    text = f"\n{title} = {{\n"
    for target in sorted(by_target):
        text += f'    "{target}": (\n{lines(by_target[target], 8)}    ),\n'
    return text + "}\n"


def absent_from_tensor(declared: set[str]) -> list[str]:
    """Public names of PyTorch's Tensor that ours lacks."""
    from rushlight.core.tensor import Tensor
    from rushlight.dispatch.methods import Absent

    stored = (ROOT / "scripts" / "pytorch_names.txt").read_text()
    names = stored.split("[Tensor]")[1].split("[")[0].split()
    here = {n for n, v in vars(Tensor).items() if not isinstance(v, Absent)}
    return [n for n in names if n not in here and n not in declared]


def reference_kernels() -> dict[str, str]:
    """kernel -> the file in _backends/reference/ whose `KERNELS` has its name."""
    found: dict[str, str] = {}
    for path in sorted((BACKENDS / "reference").glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "KERNELS":
                for name in ast.literal_eval(node.value.func.value).split():
                    if name in found:
                        raise SystemExit(f"kernel {name} is in {found[name]} and in {path.stem}")
                    found[name] = path.stem
    return found


def refusing(kernels: dict[str, str]) -> list[str]:
    """The reference's kernels that may give None, as they are annotated."""
    found = []
    for file in sorted({*kernels.values()}):
        for node in ast.parse((BACKENDS / "reference" / f"{file}.py").read_text()).body:
            if isinstance(node, ast.FunctionDef) and kernels.get(node.name) == file:
                if node.returns is not None and "| None" in ast.unparse(node.returns):
                    found.append(node.name)
    return found


def llvm_kernels() -> dict[str, str]:
    """kernel -> the file in _backends/llvm/ in which `implements` registers it."""
    found: dict[str, str] = {}
    for path in sorted((BACKENDS / "llvm").glob("*.py")):
        tree = ast.parse(path.read_text())
        loops = {
            node.target.id: ast.literal_eval(node.iter.func.value).split()
            for node in ast.walk(tree)
            if isinstance(node, ast.For) and ast.unparse(node.iter).endswith(".split()")
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "implements":
                name = node.args[0]
                for each in loops[name.id] if isinstance(name, ast.Name) else [name.value]:
                    if each in found:
                        raise SystemExit(f"kernel {each} is in {found[each]} and in {path.stem}")
                    found[each] = path.stem
    return found


def functions_of_kernels() -> str:
    """`FUNCTIONS = {file: "name:kind:parameters ..."}`, one name a line: of each file of kernels all kernels and entries;
    other functions, and whole numbers and tuples of them as `name:constant:value`, where files elsewhere use them."""
    used = used_elsewhere()
    text = f"{FUNCTIONS_HEADER}\nFUNCTIONS = {{\n"
    for path in sorted(KERNEL_FILES.glob("*.py")):
        found: list[str] = []
        numbers: dict[str, Any] = {}
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign):
                numbers |= whole_numbers(node.targets[0], node.value, numbers)
            for how in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                kind = ast.unparse(how).partition("(")[0]
                if kind in ("kernel", "entry"):
                    notes = ",".join(map(noted, node.args.args))
                    found.append(f"{node.name}:{kind}:{notes}")
                elif kind == "getter":
                    found.append(f"{node.name}:entry:{GETTER}")
                elif kind in ("inline", "routine") and node.name in used:
                    found.append(f"{node.name}:{kind}:")
        found += [f"{name}:constant:{n}" for name, n in numbers.items() if name in used]
        if path.stem != "__init__":
            rows = "".join(f"\n{row}" for row in sorted(found))
            text += f'    "{path.stem}": """{rows}""",\n'
    return text + "}\n"


def used_elsewhere() -> set[str]:
    """All words of the files that import kernels and are none: names of kernels stand in strings, too."""
    files = [p for p in (ROOT / "src").rglob("*.py") if p.parent != KERNEL_FILES]
    texts = [text for p in files if "_codegen.kernels import" in (text := p.read_text())]
    return {*re.findall(r"\w+", "\n".join(texts))}


def noted(argument: ast.arg) -> str:
    """`name=type` by the names of `_codegen/types.py`, or `name`: an `Object` of Python is an address."""
    if argument.annotation is None:
        return argument.arg
    note = ast.unparse(argument.annotation)
    return f"{argument.arg}={'i64' if note == 'Object' else note.replace('[Object]', '[i64]')}"


def whole_numbers(target: ast.expr, value: ast.expr, known: dict[str, Any]) -> dict[str, Any]:
    """The names that an assignment gives whole numbers, or a tuple of them as text: digits, letters' codes, their sums and shifts, `range`, of
    numbers `known`."""
    text = re.sub(r"ord\('(.)'\)", lambda m: str(ord(m[1])), ast.unparse(value))
    text = re.sub(r"[A-Z_]+", lambda m: str(known.get(m[0], m[0])), text)
    if not re.fullmatch(r"range\(\d+(, \d+ \+ \d+)?\)|[-+*()<, \d]+", text):
        return {}
    names = (
        [ast.unparse(t) for t in target.elts]
        if isinstance(target, ast.Tuple)
        else [ast.unparse(target)]
    )
    found = eval(text)
    numbers = found if isinstance(target, ast.Tuple) else [found]
    if any(type(n) is not int for n in numbers):
        if type(found) is tuple and len(names) == 1 and all(type(n) is int for n in found):
            return {names[0]: ",".join(map(str, found))}
        return {}
    return dict(zip(names, numbers, strict=True))


def classes() -> dict[str, str]:
    """class -> the file in nn/ whose `__all__` has its name."""
    from rushlight import nn

    files = {file: importlib.import_module(f"rushlight.nn.{file}").__all__ for file in nn._FILES}
    return {name: file for file, names in files.items() for name in names}


def family_of(function: object) -> str:
    """`nn.conv` for what `rushlight.ops.nn.conv` declares."""
    return function.__module__.removeprefix("rushlight.ops.")


def main() -> int:
    sys.path.insert(0, str(ROOT / "src"))
    target = OPS.parent / "dispatch" / "index.py"
    if not target.exists():
        target.write_text("FUNCTIONS = {}\nMETHODS = {}\nINPLACE = {}\n")
    of_reference = reference_kernels()
    of_kernels = KERNELS_HEADER + table("REFERENCE", of_reference)
    of_kernels += "\n" + words("MAY_GIVE_NONE", refusing(of_reference))
    written = {BACKENDS / "index.py": of_kernels + table("LLVM", llvm_kernels()) + KERNELS_FOOTER}
    written[KERNEL_FILES.parent / "kernel_index.py"] = functions_of_kernels()
    if "--check" not in sys.argv:  # operators need them
        for path, content in written.items():
            path.write_text(content)
    from rushlight.dispatch.registry import ALIASES, PUBLIC
    from rushlight.dispatch.registry import OPS as DECLARED

    families = sorted(
        f"{p.parent.name}.{p.stem}" for p in OPS.glob("*/*.py") if p.stem != "__init__"
    )
    functions, methods, inplace = {}, {}, {}
    seen = set()
    for family in families:
        try:
            importlib.import_module(f"rushlight.ops.{family}")
        except Exception as e:  # a file somebody is writing at this moment must not stop the others
            print(f"{family}: not indexed, {type(e).__name__}: {e}", file=sys.stderr)
            if "--check" in sys.argv:
                raise
    for path, op in DECLARED.items():
        family = family_of(op.declared)
        seen.add(path)
        functions[path] = family
        if op.is_method:
            methods[op.name] = path
        if op.has_inplace:
            inplace[op.name + "_"] = path
    for path, op in ALIASES.items():
        functions[path] = family_of(op.declared)
        if path.startswith("Tensor.") or ("." not in path and op.is_method):
            methods[path.rsplit(".", 1)[-1]] = path
        if "." not in path and op.has_inplace:
            inplace[path + "_"] = path
    for path, (function, method) in PUBLIC.items():
        functions[path] = family_of(function)
        if method:
            methods[path.rsplit(".", 1)[-1]] = path
    for name in list(inplace):
        if name in methods:  # an in-place form declared on its own wins
            del inplace[name]
    text = HEADER + table("FUNCTIONS", functions)
    own = {p.removeprefix("Tensor.") for p in functions if p.startswith("Tensor.")}
    for name, path in methods.items():
        if path not in (name, f"Tensor.{name}"):
            raise ValueError(f"the method {name} is of {path}, not of Tensor.{name} or {name}")
    text += "\n# methods beside those of `Tensor.`: of the function of the same name\n"
    text += words("SAME", [n for n, path in methods.items() if path == n])
    text += "\n# operators under `Tensor.` that are no methods\n"
    text += words("NO_METHODS", [f"Tensor.{n}" for n in own if n not in methods])
    text += "\n# operators that have an in-place form\n"
    text += words("WRITERS", [p for n, p in inplace.items() if p.rpartition(".")[2] + "_" == n])
    text += "\n# PyTorch's methods and attributes that are not here: docs/coverage.md says why\n"
    text += words("ABSENT", absent_from_tensor({*methods, *inplace}))
    text += FOOTER
    written[target] = text
    of_classes = CLASSES_HEADER + table("FILES", classes()) + CLASSES_FOOTER
    written[OPS.parent / "nn" / "index.py"] = of_classes
    if "--check" in sys.argv:
        old = [p for p, text in written.items() if p.read_text() != text]
        for path in old:
            print(f"{path.relative_to(ROOT)} is not up to date: run scripts/index.py")
        return len(old)
    for path, text in written.items():
        path.write_text(text)
    print(f"{len(functions)} names, {len(methods)} methods, {len(inplace)} in-place methods")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""What keeps the tree in shape: layers, line budgets, public names, a test row for every op, a quick import."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pathlib
import pkgutil
import re
import sys
from typing import NamedTuple

import pytest

import rushlight
from processes import printed

SRC = pathlib.Path(rushlight.__file__).parent

# Lowest first. A module may import those of its own line and of the lines above it in this table, at module level.
# An entry stands for the module and everything inside it; the most precise entry counts.
LAYERS = [
    "core.errors core.dtypes core.size data rng.fma version compat.unavailable multiprocessing.shared_memory core.stub",
    "core.type_info core.modes core.settings core",
    "core.device core.geometry",
    "rng.box_muller",
    "_codegen",
    "_backends",
    "rng",
    "autograd.state autograd.graph autograd.views autograd.tensor_hooks",
    "core.storage core.printing",
    "core.tensor core.scalars",
    "autograd.hook_runs autograd.engine core.return_types core.conditions",
    "dispatch ops",  # how an operator is declared and called, and the table that finds them by name
    "ops.factories",  # the operators
    "ops.layout",
    "ops.pointwise",
    "ops.reductions",
    "ops.linalg ops.indexing",
    "ops.nn",
    "ops.sparse",
    "autograd.grad_mode random",
    "rushlight",  # the package itself: what stands below uses it as users do, by its public names
    "__future__ autograd fft linalg special signal masked sparse storage return_types",
    "utils",
    "nn",
    "optim distributions func",
    "serialization",
    "nested",
    "vision testing types distributed _decomp _refs _dynamo _inductor __config__ _subclasses _higher_order_ops _tensor_str _ops _logging fx export futures amp cpu cuda accelerator mps xpu jit hub onnx multiprocessing monitor overrides profiler quasirandom functional library torch_version backends compiler compat _C utils.backend_registration viz",
    "cli __main__ compat.import_hook compat.prims compat.private_api compat.private_names nn.modules",
]

# Imports inside functions wait until the function runs, so they may point upwards; each one that does has its reason here:
# (importing module, imported module): reason. A prefix stands for everything inside it.
LAZY = {
    ("utils.data.distributed", "distributed"): "the sampler asks for the number of processes",
    ("nn.batchnorm", "distributed.batch_norm"): "SyncBatchNorm, where there is a process group",
    (
        "nn.parallel",
        "distributed.data_parallel",
    ): "DistributedDataParallel, which PyTorch has among the layers",
    ("serialization.rebuild", "nested"): "files with nested tensors",
    ("core.storage", "serialization"): "copies of storages and of tensors on them are one; pickles",
    ("autograd.engine", "autograd.anomaly_mode"): "anomaly mode, when it is on",
    ("autograd.engine", "rushlight"): "is_grads_batched stacks its results",
    ("autograd.graph", "autograd.saved_hooks"): "hooks on saved tensors, when there are any",
    (
        "autograd.graph",
        "core.tensor",
    ): "a leaf that nobody holds any more is made anew when asked for",
    (
        "autograd.views",
        "dispatch.methods",
    ): "a gradient is copied into the layout of the base it belongs to",
    ("_codegen.explanation", "_backends.llvm"): "explain() turns the compiled back end on",
    ("rng.generator", "core.tensor"): "get_state() and set_state() speak in tensors",
    ("nn.utils.clip_grad", "optim.fused"): "gradients are clipped by what runs optimizers' steps",
    ("dispatch.record", "autograd.anomaly_mode"): "as in the engine",
    (
        "dispatch",
        "rushlight",
    ): "operators are called by their public names, which load when used",
    ("ops", "ops.sparse"): "sparse tensors, where there are any",
    ("dispatch.general", "ops.sparse.calls"): "sparse tensors, where there are any",
    (
        "ops",
        "rushlight",
    ): "composites call other operators by their public names, which load when used",
    (
        "ops.nn.attention",
        "backends.cuda",
    ): "switches of kernels, where a mask stands beside is_causal",
    ("ops.nn", "autograd.grad_mode"): "gradients that differentiate a composition",
    (
        "core.settings",
        "_codegen.runtime.threads",
    ): "set_flush_denormal() is a matter of machine code",
    ("core.storage", "ops.layout.memory"): "share_memory_() moves tensors, too",
    ("core.tensor", "autograd.engine"): "Tensor.backward",
    ("core.tensor", "dispatch.overrides"): "subclasses that override functions",
    ("core.tensor", "dispatch.handlers"): "subclasses that get calls below autograd",
    (
        "core.scalars",
        "dispatch.handlers",
    ): "numbers of tensors whose calls a __torch_dispatch__ gets",
    ("dispatch.aten_names", "ops.layout.regions"): "an index is named by its last step",
    ("core.tensor", "ops.factories.legacy"): "constructors of the class",
    ("core.tensor", "serialization"): "pickle and deepcopy of a tensor",
}

BUDGET = {
    "dispatch.index": 10_000,  # generated: two lines for each public name
    "_codegen.kernel_index": 2_000,  # generated: a line for each name
}  # lines, where the default does not fit; a reason beside each
DEFAULT_BUDGET = 600

# Packages that may be absent: they are imported where they are used, with an error that names the extra.
OPTIONAL = (
    *("llvmlite", "scipy", "safetensors", "PIL", "matplotlib", "tqdm", "cupy", "tensorboard"),
    *("fast_sugiyama", "onnx", "onnxruntime", "mpi4py"),
    *("torch", "pytest", "hypothesis"),
)


def name_of(path: pathlib.Path) -> str:
    """The dotted name inside the package: `nn.modules.linear`; "rushlight" for the package itself."""
    parts = path.relative_to(SRC).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts) or "rushlight"


MODULES = {name_of(path): path for path in sorted(SRC.rglob("*.py"))}


def rank(module: str) -> int:
    """The number of the most precise line of LAYERS that holds `module`; -1 if none does."""
    best = (-1, -1)
    for level, line in enumerate(LAYERS):
        for entry in line.split():
            if module == entry or module.startswith(entry + "."):
                best = max(best, (len(entry), level))
    return best[1]


def inside(name: str) -> str | None:
    """`rushlight.nn.functional` -> `nn.functional`; None for what is not ours."""
    if name == "rushlight":
        return "rushlight"
    return name.removeprefix("rushlight.") if name.startswith("rushlight.") else None


def imported(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    """The modules of ours that one import statement loads, by their dotted names inside the package."""
    if isinstance(node, ast.Import):
        return [name for each in node.names if (name := inside(each.name))]
    base = node.module or ""
    if node.level:
        parts = ["rushlight", *(package.split(".") if package else [])]
        parts = parts[: len(parts) - node.level + 1]
        base = ".".join([*parts, base] if base else parts)
    inner = inside(base)
    if inner is None:
        return []
    prefix = "" if inner == "rushlight" else inner + "."
    return [prefix + each.name if prefix + each.name in MODULES else inner for each in node.names]


def imports(module: str) -> list[tuple[str, int, bool]]:
    """Every import of ours in a module: (imported module, line, whether it stands inside a function)."""
    return found_in(module).imports


@functools.lru_cache(1)
def tree_of(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


class Found(NamedTuple):
    """What tests look for in a file."""

    imports: list[tuple[str, int, bool]]
    functions: dict[str, int]  # and their lines
    foreign: list[str]  # PyTorch's modules that it imports
    documented: bool
    llvm: list[int]  # the lines where LLVM's text stands


@functools.cache
def found_in(module: str) -> Found:
    """All of it at once: to parse the files of the package takes ten seconds."""
    path = MODULES[module]
    tree, functions, foreign = tree_of(path), {}, []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.FunctionDef):
            length = node.end_lineno - node.lineno + 1
            functions[f"{module}.{node.name}"] = length
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        foreign += [
            f"{node.lineno}: {n}" for n in names if n.split(".")[0] in ("torch", "torchvision")
        ]
    documented, llvm = bool(ast.get_docstring(tree)), written_llvm(tree)
    return Found(imports_of_file(module, path), functions, foreign, documented, llvm)


@functools.cache
def imports_of_file(module: str, path: pathlib.Path) -> list[tuple[str, int, bool]]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    package = "" if package == "rushlight" else package

    def walk(node: ast.AST, lazily: bool):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import | ast.ImportFrom):
                for name in imported(child, package):
                    yield name, child.lineno, lazily
            yield from walk(child, lazily or isinstance(child, ast.FunctionDef | ast.Lambda))

    return list(walk(tree_of(path), False))


def allowed_lazily(module: str, target: str) -> bool:
    return any(
        (module + ".").startswith(a + ".") and (target + ".").startswith(b + ".") for a, b in LAZY
    )


def test_every_module_has_a_layer():
    assert [name for name in MODULES if rank(name) < 0] == []


def test_layers_import_downwards_only():
    upward = {
        f"{module}:{line} imports {target}"
        for module in MODULES
        for target, line, lazily in imports(module)
        if rank(target) > rank(module) and not (lazily and allowed_lazily(module, target))
    }
    assert not upward, "move what is shared to a lower layer, or name a lazy import in LAZY:\n" + (
        "\n".join(sorted(upward))
    )


def test_every_lazy_exception_is_used():
    used = {(m, t) for m in MODULES for t, _, lazily in imports(m) if lazily and rank(t) > rank(m)}
    stale = [
        pair
        for pair in LAZY
        if not any(
            (m + ".").startswith(pair[0] + ".") and (t + ".").startswith(pair[1] + ".")
            for m, t in used
        )
    ]
    assert stale == []


def test_import_reader_sees_upward_imports(tmp_path, monkeypatch):
    (tmp_path / "dtypes.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import rushlight.nn\n"
        "from .nn import functional\n"
        "def late():\n    from rushlight import optim\n    import rushlight.core.tensor as t\n"
    )
    tables = {"nn": SRC, "nn.functional": SRC, "optim": SRC, "dtypes": tmp_path / "dtypes.py"}
    monkeypatch.setitem(globals(), "MODULES", tables)
    assert list(imports("dtypes")) == [
        ("nn.functional", 4, False),
        ("optim", 6, True),
        ("core.tensor", 7, True),
    ]


def test_no_file_outgrows_its_budget():
    lines = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES.items()}
    over = {m: n for m, n in lines.items() if n > BUDGET.get(m, DEFAULT_BUDGET)}
    assert not over, f"split along a seam, not by cutting in two: {over}"


LONGEST_FUNCTION = 80  # lines


def test_no_function_outgrows_its_budget():
    lines = {f: n for module in MODULES for f, n in found_in(module).functions.items()}
    over = {f: n for f, n in lines.items() if n > LONGEST_FUNCTION}
    assert not over, f"split along a seam, not by cutting in two: {over}"


def test_nothing_imports_pytorch():
    foreign = {module: found for module in MODULES if (found := found_in(module).foreign)}
    assert foreign == {}


def test_every_module_says_what_it_is():
    assert [module for module in MODULES if not found_in(module).documented] == []


def public_packages():
    """The package, whose public names are its `dir()`, and the modules below it that have an `__all__`."""
    yield rushlight
    for found in pkgutil.walk_packages(rushlight.__path__, "rushlight."):
        if "__main__" in found.name or any(part.startswith("_") for part in found.name.split(".")):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError as error:
            if error.name and error.name.split(".")[0] in OPTIONAL:
                continue  # a back end whose package is not installed here
            raise
        if "__all__" in vars(module):
            yield module


def test_every_public_name_exists_and_is_documented():
    missing, silent = [], []
    for module in public_packages():
        for name in vars(module).get("__all__") or [
            n for n in dir(module) if not n.startswith("_")
        ]:
            if not hasattr(module, name):
                missing.append(f"{module.__name__}.{name}")
                continue
            thing = getattr(module, name)
            if getattr(thing, "__module__", "") == "multiprocessing.context":
                continue  # the standard library's
            if (inspect.isclass(thing) or inspect.isroutine(thing)) and not inspect.getdoc(thing):
                silent.append(f"{module.__name__}.{name}")
    assert not missing, f"named in __all__ but not there: {missing}"
    assert not silent, f"without a docstring: {silent}"


def test_every_attribute_of_tensor_is_documented():
    silent = [
        name
        for name, value in vars(rushlight.Tensor).items()
        if not name.startswith("_") and (isinstance(value, property) or callable(value))
        if not inspect.getdoc(value)
    ]
    assert silent == []


def ops():
    try:
        from rushlight.dispatch.registry import OPS
    except ImportError as error:
        pytest.skip(f"the registry is not there yet: {error}")
    for found in pkgutil.walk_packages([str(SRC / "ops")], "rushlight.ops."):
        importlib.import_module(found.name)
    return OPS


def public(path: str) -> bool:
    """Has the operator a public name of its own? The functions the others are behind have the rows."""
    parts = path.split(".")
    return parts[0] not in ("internal", "aten") and not any(p.startswith("_") for p in parts)


def test_every_op_has_a_test_row():
    """Also plain functions and aliases have one: `test_ops.py::test_every_op_has_a_row`."""
    declared = {path for path in ops() if public(path)}
    opdb = pytest.importorskip("opdb", reason="tests/opdb.py is not there yet")
    rows = {name for row in opdb.EVERY for name in (row.name, *row.aka)} | set(
        opdb.TESTED_ELSEWHERE
    )
    assert not declared - rows, f"no row in tests/opdb.py for {sorted(declared - rows)}"


def loaded(module: str) -> object:
    """The module, or an empty one where an optional package that it needs is missing."""
    try:
        return importlib.import_module(f"rushlight.{module}" if module != "rushlight" else module)
    except ImportError:
        return type(sys)("missing")


def test_sets_of_dtypes_are_those_of_dtype_sets():
    """A module that asks for the floating dtypes asks `core.dtype_sets.FLOATING`, not a set of its own."""
    from rushlight.core import dtype_sets

    sets = {v: name for name, v in vars(dtype_sets).items() if isinstance(v, frozenset)}
    assert sets[dtype_sets.REDUCED | dtype_sets.FULL] == "FLOATING"
    copies = [
        f"{module}.{name} is a copy of {sets[frozenset(value)]}"
        for module in MODULES.keys() - {"__main__"}
        for name, value in vars(loaded(module)).items()
        if isinstance(value, (frozenset, set))
        and frozenset(value) in sets
        and not any(value is each for each in sets)
    ]
    assert not copies, copies


def test_import_loads_no_optional_package():
    loaded = printed(
        "import sys, numpy, ml_dtypes; before = set(sys.modules)\n"
        "import rushlight; print(*set(sys.modules) - before)"
    ).split()
    assert sorted({name.split(".")[0] for name in loaded} & set(OPTIONAL)) == []


def test_import_reads_little_more_than_numpy():
    """What is imported before it is used: at most 28 modules and 7000 lines, the standard library's
    included. `benchmarks/importing.py` says how long each takes."""
    read = printed(
        "import sys, importlib, numpy, ml_dtypes; before = set(sys.modules)\n"
        "import rushlight\n"
        "for name in set(sys.modules) - before: print(name, getattr(sys.modules[name], '__file__', ''))"
    ).splitlines()
    lines = {}
    for each in read:
        name, _, file = each.partition(" ")  # a module that is built in has no file
        text = pathlib.Path(file).read_text(encoding="utf-8") if file else ""
        lines[name] = len(text.splitlines())
    assert "rushlight.core.tensor" in lines
    assert len(lines) <= 28 and sum(lines.values()) <= 7000, lines


def strings(tree: ast.AST):
    """The text of string literals, those in f-strings too, that are not docstrings."""
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in documentation:
                yield node.lineno, node.value


EMITTER = ("_codegen.emit", "_codegen.operations", "_codegen.object_text", "_codegen.runtime")
LLVM_TEXT = re.compile(
    r"\bdefine (internal |dso_local )?(void|ptr|i\d+|float|double) @|\bgetelementptr\b|\bdeclare \w+ @"
    r"|(^|\n)\s*br (i1|label) |= (load|icmp|call|phi|alloca) "
)


def written_llvm(tree: ast.AST) -> list[int]:
    """The lines of a source where LLVM's text stands."""
    return [line for line, literal in strings(tree) if LLVM_TEXT.search(literal)]


def test_llvm_text_stands_in_the_emitter_and_the_runtime_only():
    found = {
        module: lines
        for module in MODULES
        if not any((module + ".").startswith(each + ".") for each in EMITTER)
        and (lines := found_in(module).llvm)
    }
    assert not found, f"write it in the kernel language: {found}"


def test_llvm_text_is_recognised():
    for module in ("operations", "emit", "runtime.workers"):
        assert found_in(f"_codegen.{module}").llvm
    assert not written_llvm(ast.parse('"""define void @f()"""\nx = "define the load = 3"\n'))


def test_the_root_of_the_package_is_small():
    """What is no public module of PyTorch's stands in a folder that says what it is."""
    assert len(list(SRC.glob("*.py"))) <= 18


LARGEST_CYCLE = 44  # modules; it may only shrink


def strongly_connected(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that all reach each other (Tarjan 1972), without recursion."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for root in graph:
        if root in number:
            continue
        path = [(root, iter(sorted(graph[root])))]
        number[root] = low[root] = len(number)
        stack.append(root)
        while path:
            node, targets = path[-1]
            for target in targets:
                if target not in number:
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    path.append((target, iter(sorted(graph[target]))))
                    break
                if target in stack:
                    low[node] = min(low[node], number[target])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == number[node]:
                    at = stack.index(node)
                    found.append({*stack[at:]})
                    del stack[at:]
    return found


def test_cycles_of_imports_only_shrink():
    """Counted with the imports inside functions; the package itself, by whose names programs find everything,
    is left out."""
    graph = {
        m: {t for t, _, _ in imports(m) if t in MODULES and t != "rushlight"}
        for m in MODULES
        if m != "rushlight"
    }
    largest = max(strongly_connected(graph), key=len)
    assert len(largest) <= LARGEST_CYCLE, sorted(largest)


def test_strongly_connected_parts_are_found():
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set(), "e": {"e", "d"}}
    parts = sorted(map(sorted, strongly_connected(graph)))
    assert parts == [["a", "b", "c"], ["d"], ["e"]]

"""The back end's closed list of kernels: complete, and the only thing operators use of it."""

from __future__ import annotations

import ast
import inspect
import pathlib
from importlib import import_module

import numpy as np
import pytest

import rushlight
import toy_device
from processes import printed
from rushlight._backends import compose, llvm
from rushlight._backends import cpu as xp
from rushlight._backends.index import LLVM, REFERENCE
from rushlight._backends.llvm import registration
from rushlight._backends.protocol import KERNELS, NUMPY_FUNCTIONS, PRIMITIVES, Array, Primitives
from rushlight._codegen import parallel_ufuncs

OPS = pathlib.Path(rushlight.__file__).parent / "ops"
NAMESPACES = {"linalg", "fft"}  # families of kernels under a name of their own
FILES = sorted(OPS.rglob("*.py"))


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_the_reference_has_every_kernel(name):
    assert callable(getattr(xp, name))


def kernels_used(path: pathlib.Path) -> set[str]:
    """Attributes of `xp`, and strings given as `kernel=`, in one file."""
    used = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
            if "xp" in (getattr(node.value, "id", None), getattr(node.value, "attr", None)):
                used.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg == "kernel":
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                used.add(node.value.value)
    return used


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(OPS)))
def test_operators_use_listed_kernels_only(path):
    unknown = kernels_used(path) - KERNELS - NAMESPACES
    assert not unknown, (
        f"ops/{path.relative_to(OPS)} uses {sorted(unknown)}: list them in `KERNELS` of a file of _backends/reference/"
    )


# What computes on arrays above the back ends: only with kernels, not with NumPy's functions.
ABOVE = "core dispatch autograd ops optim nn func linalg distributions masked special signal fft".split()
NO_COMPUTING = frozenset(
    "ndarray dtype generic number integer floating bool_ uint8 int8 int16 int32 int64 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128 errstate iinfo finfo inf nan pi ufunc object_ lib __version__".split()
)
# How often files use NumPy's functions nevertheless. These numbers may only become smaller.
NUMPY = {
    "core/printing.py": 3,  # which elements are shown
    "core/storage.py": 6,  # bytes of files and buffers
    "core/tensor.py": 1,  # Tensor.__array_wrap__
    "ops/factories/construct.py": 2,  # from_dlpack, frombuffer
    "ops/factories/sequences.py": 2,  # logspace
    "ops/factories/windows.py": 2,  # the Kaiser window
    # sparse arrays are on the CPU only
    "ops/sparse/calls.py": 5,
    "ops/sparse/compressed.py": 8,
    "ops/sparse/compressed_creation.py": 5,
    "ops/sparse/coordinates.py": 5,
    "ops/sparse/creation.py": 2,
    "ops/sparse/methods.py": 2,
    "ops/sparse/products.py": 13,
    "ops/sparse/shapes.py": 11,
}


def numpy_functions(text: str) -> list[str]:
    """NumPy's functions that a source file names: those that are no types, limits or settings."""
    tree, found, modules = ast.parse(text), [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {a.asname or "numpy" for a in node.names if a.name == "numpy"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numpy":
            found += [a.name for a in node.names]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found += [node.attr] if node.value.id in modules else []
    return [name for name in found if name not in NO_COMPUTING]


def test_numpy_s_functions_are_found():
    text = "import numpy as np\nfrom numpy import add, ndarray\nx: np.dtype = np.exp(np.float32(1))"
    assert sorted(numpy_functions(text)) == ["add", "exp"]


def test_numpy_computes_in_back_ends_only():
    used = {}
    for path in (OPS.parent / each for each in ABOVE):
        for file in sorted(path.rglob("*.py")):
            if names := numpy_functions(file.read_text("utf-8")):
                used[file.relative_to(OPS.parent).as_posix()] = len(names)
    assert used == NUMPY, (
        "compute with the kernels of `devices.of(array)`; a smaller number goes into NUMPY"
    )


def test_every_kernel_says_what_it_does():
    stated = {name: registration.reference_of(name) for name in REFERENCE} | {
        name: getattr(Primitives, name) for name in PRIMITIVES
    }
    assert not [name for name, function in stated.items() if not function.__doc__]


def test_a_kernel_of_numpy_s_is_numpy_s_function():
    assert not NUMPY_FUNCTIONS & (PRIMITIVES | REFERENCE.keys())
    for name in NUMPY_FUNCTIONS:
        assert registration.reference_of(name) is getattr(np, name)


@pytest.mark.parametrize("name", sorted(PRIMITIVES & REFERENCE.keys()))
def test_the_reference_has_the_parameters_of_the_contract(name):
    ours = list(inspect.signature(registration.reference_of(name)).parameters.values())
    theirs = list(inspect.signature(getattr(Primitives, name)).parameters.values())[1:]
    assert [(p.name, p.default) for p in ours] == [(p.name, p.default) for p in theirs]


def test_no_computation_imports_the_contract():
    program = """
import sys, rushlight as torch
x = torch.ones(3, requires_grad=True)
torch.nn.functional.relu(x).sum().backward()
assert not [name for name in sys.modules if name.startswith("rushlight._backends.protocol")]
"""
    printed(program)


def test_machine_code_reaches_the_tables_that_hold_kernels():
    """Generated code holds kernels in dictionaries; activation puts the new ones there."""
    program = """
from rushlight._backends import cpu, llvm
table = {f"k_{name}": cpu.kernel(name) for name in ("add", "relu", "address")} | {"k": 1}
cpu.tables.append(table)
before = dict(table)
active = llvm.activate()
after = {f"k_{name}": cpu.kernel(name) for name in ("add", "relu", "address")} | {"k": 1}
changed = sorted(name for name in table if table[name] is not before[name])
assert table == after and changed == (["k_add", "k_relu"] if active else []), changed
"""
    printed(program, RUSHLIGHT_COMPILED=None)


def test_a_kernel_that_is_not_there_is_named():
    with pytest.raises(AttributeError, match="no kernel 'relu7'"):
        xp.kernel("relu7")


@pytest.mark.skipif(not parallel_ufuncs.available(), reason="no machine code here")
def test_what_is_registered_is_what_the_index_says():
    for family in set(LLVM.values()):
        import_module(f"rushlight._backends.llvm.{family}")
    assert registration.KERNELS.keys() == LLVM.keys()
    assert LLVM.keys() <= KERNELS


def test_a_guard_sends_only_what_a_kernel_is_made_for(monkeypatch):
    monkeypatch.setattr(registration, "KERNELS", {})
    monkeypatch.delenv("RUSHLIGHT_COMPILED", raising=False)
    seen = []

    @registration.implements("mean", dtypes={np.dtype(np.float32)}, least=3)
    def mean(a, axis, keepdims, dtype=None):
        """Another first line."""
        seen.append(a.shape)
        return NotImplemented if axis == 1 else "compiled"

    assert {"mean": mean} == registration.KERNELS
    assert mean.__name__ == "mean"
    assert mean.__doc__ == "Another first line."
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert mean(a, 0, False) == "compiled"
    assert (mean(a, 1, False) == a.mean(1)).all()  # NotImplemented
    assert seen == [(2, 3), (2, 3)]
    assert (mean(a[:1, :2], 0, False) == a[0, :2]).all()  # small
    assert (mean(a.astype(float), 0, False) == a.mean(0)).all()  # another dtype
    assert mean(np.float32(4), None, False) == 4  # no array
    assert len(seen) == 2


class OnlyPrimitives:
    """The toy device's kernels, without those that can be composed."""

    def __getattr__(self, name):
        if name not in PRIMITIVES:
            raise AttributeError(name)
        return getattr(toy_device.ToyKernels(xp), name)


def composed_arguments(name, rng):
    """Arguments of a kernel by the types in the reference: arrays with zeros, and numbers."""
    for p in inspect.signature(registration.reference_of(name)).parameters.values():
        if p.annotation in ("Any", "np.ndarray"):
            a = rng.uniform(-4, 4, (3, 8)).astype(np.float32)
            a[0, :3] = 0
            yield abs(a) / 5 if name.startswith("binary_cross_entropy") else a
        else:
            yield -1 if p.annotation == "int" else 0.5


COMPOSED_KERNELS = [k for k, f in REFERENCE.items() if f in compose.COMPOSED and "nll" not in k]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", COMPOSED_KERNELS)
def test_a_back_end_of_primitives_has_the_composed_kernels(name, dtype):
    kernels = compose.Composed(OnlyPrimitives())
    args = list(composed_arguments(name, np.random.default_rng(0)))
    args = [a.astype(dtype) if isinstance(a, np.ndarray) else a for a in args]
    if name == "glu_gradient":
        args[0] = args[0][:, :4]
    with np.errstate(all="ignore"):
        want = registration.reference_of(name)(*args)
        given = [toy_device.Array(a.copy()) if isinstance(a, np.ndarray) else a for a in args]
        got = getattr(kernels, name)(*given)
    assert type(got) is toy_device.Array
    found = toy_device.ToyKernels(xp).to_numpy(got)
    assert found.dtype == want.dtype
    # Machine code, where another test has asked for it, rounds functions of mathematics otherwise than NumPy.
    tolerance = {"float32": 3e-6, "float16": 2e-3}[dtype] if llvm.active else 0
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)


def test_a_kernel_without_a_composition_is_named():
    with pytest.raises(AttributeError, match="nll_loss"):
        compose.Composed(OnlyPrimitives()).nll_loss  # noqa: B018


@pytest.mark.parametrize("cls", [np.ndarray, toy_device.Array])
def test_arrays_have_what_the_contract_says(cls):
    stated = [
        name
        for name, value in vars(Array).items()
        if isinstance(value, property)
        or (inspect.isfunction(value) and value.__qualname__ == f"Array.{name}")
    ]
    assert len(stated) > 60
    assert [name for name in stated if not hasattr(cls, name)] == []

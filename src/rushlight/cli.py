"""The command `rushlight`: run programs written for PyTorch, look at checkpoints, convert them.

rushlight run script.py args...     (also: python -m rushlight script.py args...)
rushlight run -m module args...
rushlight info
rushlight inspect FILE.pt
rushlight convert SOURCE TARGET     (.pt, .pth, .bin <-> .safetensors)
rushlight warm                      (compile the kernels of the package, once for this machine)
rushlight warm --for script.py args...
rushlight bench
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int | None:
    """Run one command. Exit status 2 for a wrong use, 1 for a file that cannot be read."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__.strip())
        return None
    name, *rest = argv
    if name == "--version":
        from rushlight import version

        print(version.release)
    elif name == "-m" or name.endswith(".py"):
        _run(argv)
    elif name not in COMMANDS:
        _fail(f"{name!r} is no command and no .py file; `rushlight --help` lists the commands", 2)
    else:
        _command(name, rest)
    return None


def _command(name: str, rest: list[str]) -> None:
    try:
        COMMANDS[name](rest)
        sys.stdout.flush()
    except BrokenPipeError:  # `rushlight inspect x.pt | head`
        if name == "run":
            raise
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush


def _fail(text: str, status: int = 1) -> None:
    print(f"rushlight: {text}", file=sys.stderr)
    raise SystemExit(status)


def _run(argv: list[str]) -> None:
    import os

    if not argv or (argv[0] == "-m" and len(argv) < 2):
        _fail("run: expected a script or -m module", 2)
    if argv[0] != "-m" and not os.path.isfile(argv[0]):
        _fail(f"run: no file {argv[0]!r}", 2)
    from rushlight.compat import import_hook

    import_hook.run(argv)


# -- info ------------------------------------------------------------------------------------------

_EXTRAS = ("llvmlite", "scipy", "safetensors", "PIL", "matplotlib", "tqdm", "tensorboard", "cupy")


def _info(argv: list[str]) -> None:
    import platform

    import ml_dtypes
    import numpy as np

    import rushlight
    from rushlight.utils.collect_env import blas, cpu

    rows = [
        ("rushlight", f"{rushlight.version.release} (API of PyTorch {rushlight.version.API})"),
        ("Python", f"{platform.python_version()} {platform.python_implementation()}"),
        ("platform", platform.platform()),
        ("CPU", f"{cpu()}, {rushlight.backends.cpu.get_cpu_capability()}"),
        ("NumPy", np.__version__),
        ("BLAS", blas()),
        ("threads", str(rushlight.get_num_threads())),
        ("caches", _caches()),
        ("ml_dtypes", ml_dtypes.__version__),
        ("extras", ", ".join(_extras()) or "none"),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


def _caches() -> str:
    """The sizes of one core's caches: `L1d 32K, L1i 32K, L2 1024K, L3 36608K`."""
    import glob

    found, letters = {}, {"Data": "d", "Instruction": "i"}
    for folder in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*"):
        try:
            level, kind, size = (_line(f"{folder}/{name}") for name in ("level", "type", "size"))
        except OSError:
            continue
        found[f"L{level}{letters.get(kind, '')}"] = size
    return ", ".join(f"{name} {size}" for name, size in sorted(found.items())) or "unknown"


def _line(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def _extras() -> Iterator[str]:
    from importlib import metadata, util

    names = {"PIL": "pillow"}
    for name in _EXTRAS:
        if util.find_spec(name) is not None:
            try:
                found = metadata.version(names.get(name, name))
            except metadata.PackageNotFoundError:
                found = ""
            yield f"{names.get(name, name)} {found}".strip()


# -- files -----------------------------------------------------------------------------------------


def _load(path: str) -> Any:
    """The content of a checkpoint or a safetensors file, on the CPU; executes no code in it."""
    try:
        if path.endswith(".safetensors"):
            return _Safetensors().load_file(path)
        import rushlight

        return rushlight.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        _fail(f"{path}: {type(error).__name__}: {error}")


class _Safetensors:
    """Reads and writes safetensors files through that package's NumPy functions."""

    def __init__(self) -> None:
        try:
            import safetensors
            import safetensors.numpy as numpy
        except ImportError:
            _fail("safetensors files need the extra: pip install 'rushlight[safetensors]'")
        self.package, self.numpy = safetensors, numpy

    def load_file(self, path: str) -> dict:
        import rushlight

        return {name: rushlight.from_numpy(a) for name, a in self.numpy.load_file(path).items()}

    def save_file(self, tensors: dict, path: str) -> None:
        arrays = {name: t.detach().contiguous()._array for name, t in tensors.items()}
        self.numpy.save_file(arrays, path)


_PLAIN = (int, float, complex, str, bytes, type(None))


def _tensors(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, leaf) of everything in a tree of dicts, lists and tuples; a list of plain values is a leaf."""
    if isinstance(content, dict):
        pairs = [(str(k), v) for k, v in content.items()]
    elif type(content) in (list, tuple) and not all(isinstance(v, _PLAIN) for v in content):
        pairs = [(str(k), v) for k, v in enumerate(content)]
    else:
        yield path, content
        return
    for key, value in pairs:
        yield from _tensors(value, f"{path}.{key}" if path else key)


def _inspect(argv: list[str]) -> None:
    if len(argv) != 1:
        _fail("inspect: expected one file", 2)
    from rushlight.core.tensor import Tensor

    rows, others, total, count = [], [], 0, 0
    for path, leaf in _tensors(_load(argv[0])):
        if not isinstance(leaf, Tensor):
            others.append((path, leaf))
            continue
        size = leaf.numel() * leaf.dtype.itemsize
        total, count = total + size, count + leaf.numel()
        rows.append((path, str(list(leaf.shape)), leaf.dtype.name, _bytes(size)))
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(4)]
    for row in rows:
        cells = [cell.ljust(w) for cell, w in zip(row[:3], widths, strict=False)]
        print("  ".join([*cells, row[3].rjust(widths[3])]))
    for path, leaf in others:
        text = repr(leaf)
        print(f"{path} = {text if len(text) <= 70 else text[:67] + '...'}")
    print(f"{len(rows)} tensors, {count:,} elements, {_bytes(total)}")


def _bytes(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            break
        n /= 1024
    return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"


def _convert(argv: list[str]) -> None:
    if len(argv) != 2:
        _fail("convert: expected SOURCE and TARGET", 2)
    source, target = argv
    content = _load(source)
    from rushlight.core.tensor import Tensor

    if not target.endswith(".safetensors"):
        import rushlight

        rushlight.save(content, target)
        return
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]  # a checkpoint with more than the state_dict
    flat = dict(_tensors(content))
    if others := [name for name, leaf in flat.items() if not isinstance(leaf, Tensor)]:
        _fail(
            f"convert: {source} holds more than tensors, which {target} cannot: {', '.join(others[:5])}; save "
            "the state_dict alone"
        )
    _Safetensors().save_file(flat, target)


# -- warm ------------------------------------------------------------------------------------------


def _warm(argv: list[str]) -> None:
    from rushlight._backends import llvm
    from rushlight.compiler import warming

    if not llvm.activate("rushlight warm"):
        _fail("warm: there is no machine code here: llvmlite is missing, or RUSHLIGHT_COMPILED=0")
    before = warming.kept()
    try:
        if argv[:1] == ["--for"] and len(argv) > 1:
            _run(argv[1:])
        elif argv:
            _fail("warm: expected nothing, or --for script.py and its arguments", 2)
        else:
            _all_kernels()
    finally:
        kept = warming.kept()
        print(f"{kept - before} kernels compiled, {kept} on disk", file=sys.stderr)


def _all_kernels() -> None:
    """Compile them, with a progress bar where the extra is installed and somebody looks."""
    from rushlight.compiler import warming

    try:
        from tqdm import tqdm
    except ImportError:
        for name in warming.warm():
            print(name)
        return
    for _ in tqdm(warming.warm(), total=len(warming.STEPS), unit="step", disable=None):
        pass


# -- bench -----------------------------------------------------------------------------------------


def _bench_cases(torch: Any) -> Iterator[tuple[str, Any]]:
    """(name, function to time), for Rushlight or PyTorch."""
    torch.manual_seed(0)
    a, b = torch.ones(4, requires_grad=True), torch.full((4,), 0.5)
    yield "add, 4 elements, recorded", lambda: a + b

    def chain() -> None:
        x = a
        for _ in range(20):
            x = x * b + b
        x.sum().backward()
        a.grad = None

    yield "chain of 40 operations, forward and backward", chain
    m = torch.randn(512, 512)
    yield "matrix product, 512 x 512", lambda: m @ m
    big = torch.randn(1000, 1000)
    yield "softmax, 1000 x 1000", lambda: big.softmax(1)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    yield "training step, MLP 784-128-10, batch of 64", step


def _bench(argv: list[str]) -> None:
    """Medians of a few operations, and PyTorch's if it is installed, measured alternately."""
    import importlib.util
    import statistics
    import time

    import rushlight

    libraries: list[Any] = [rushlight]
    if importlib.util.find_spec("torch") is not None:
        libraries.append(importlib.import_module("torch"))
        libraries[1].set_num_threads(rushlight.get_num_threads())
    cases = [list(_bench_cases(library)) for library in libraries]
    print(f"{'':44}  {'rushlight':>10}" + ("     PyTorch  ratio" if libraries[1:] else ""))
    for pairs in zip(*cases, strict=True):
        times: list[list[float]] = [[] for _ in pairs]
        for _ in range(30):
            for (_, call), measured in zip(pairs, times, strict=True):
                start, calls = time.perf_counter(), 0
                while time.perf_counter() - start < 0.005:
                    call()
                    calls += 1
                measured.append((time.perf_counter() - start) / calls)
        medians = [statistics.median(each) for each in times]
        row = f"{pairs[0][0]:44}" + "".join(f"  {1e6 * t:7.1f} us" for t in medians)
        print(row + (f"  {medians[0] / medians[1]:5.2f}" if medians[1:] else ""), flush=True)


COMMANDS = {
    "run": _run,
    "info": _info,
    "inspect": _inspect,
    "convert": _convert,
    "warm": _warm,
    "bench": _bench,
}

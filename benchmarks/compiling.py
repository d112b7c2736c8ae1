"""What the first use of a kernel costs where nothing is on disk: milliseconds of each stage.

    python benchmarks/compiling.py [--only gemm] [--rounds 3] [--cases]

The kernels are those that the training steps of `training.py` use, with `--cases` also those of
`kernels.py`'s cases, each as if it were the first of the process to read its source. A routine that
is compiled separately (`routine(separate=True)`), once for all kernels that call it, stands in its own line,
named after its kernel. The stages:

    read      from Python's text to the intermediate representation
    passes    the compiler's own passes, and its check
    emit      to LLVM's text
    parse     LLVM reads that
    optimise  LLVM's passes
    generate  machine code
    link      into the process

Times are the processor's, best of the rounds, each stage by itself. LLVM and its machine description are loaded before, once in a
process: `start` in the first line. PyTorch is not needed.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

TARGET = 50.0  # milliseconds
STAGES = "read passes emit parse optimise generate link".split()


def used(cases: bool) -> dict[str, Callable[[], str]]:
    """The texts of the kernels that programs use and of their routines that are compiled apart, by a
    name for people, in the order of first use."""
    import kernels
    import training

    import rushlight
    from rushlight._codegen import native
    from rushlight._codegen.kernel import Kernel

    found: dict[str, Callable[[], str]] = {}
    units: dict[str, str] = {}
    load, unit = Kernel._load, native.unit

    def kernel_noted(kernel: Kernel, known: dict[str, Any]) -> tuple[int, ...]:
        family = kernel.function.__module__.rpartition(".")[2]
        values = " ".join(f"{k}={shown(v)}" for k, v in known.items())
        found.setdefault(f"{family}.{kernel.__name__} {values}", lambda: kernel._text(known))
        return load(kernel, known)

    def unit_noted(key: str, text: Callable[[str], str]) -> str:
        name = unit(key, text)
        if name not in units:
            units[name] = key
            short = key.partition(")(")[0].replace("rushlight._codegen.kernels.", "apart: ")
            found[f"{short})"] = lambda: text(name)
        return name

    Kernel._load = kernel_noted  # type: ignore[method-assign]
    native.unit = unit_noted
    for make in training.CASES.values():
        step = make(rushlight)
        step()
        step()
    for case in kernels.CASES.values() if cases else ():
        (case[0] if isinstance(case, tuple) else case)(rushlight)()
    Kernel._load, native.unit = load, unit  # type: ignore[method-assign]
    return found


def shown(value: Any) -> str:
    text = getattr(value, "__name__", None) or repr(value).partition("\n")[0]
    return text.replace(" ", "")[:20]


def measured(make: Callable[[], str]) -> tuple[list[float], int]:
    """The milliseconds of each stage, and the bytes of the object file."""
    from rushlight._codegen import check, emit, frontend, native

    llvm, machine, _ = native._machine()
    spent = dict.fromkeys(STAGES, 0.0)
    since = time.thread_time()

    def done(stage: str) -> None:
        nonlocal since
        now = time.thread_time()
        spent[stage] += 1e3 * (now - since)
        since = now

    whole, checked, written = frontend.read, check.check, emit.emit

    def reading(*args: Any) -> Any:
        result = whole(*args)
        done("read")
        return result

    def checking(module: Any) -> None:
        checked(module)
        done("passes")

    def writing(module: Any) -> str:
        result = written(module)
        done("emit")
        return result

    frontend.read, check.check, emit.emit = reading, checking, writing
    try:
        text = make()
    finally:
        frontend.read, check.check, emit.emit = whole, checked, written
    done("emit")
    module = native._parsed(text)
    done("parse")
    native._optimise(module, text)
    done("optimise")
    code = machine.emit_object(module)
    done("generate")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True)
    native.symbols(code)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    engine.detach()
    done("link")
    return list(spent.values()), len(code)


def best(make: Callable[[], str], sources: list[Any], rounds: int) -> tuple[list[float], int]:
    found: list[float] = []
    size = 0
    for _ in range(rounds):
        for source in sources:
            source._tree = source._assigned = None
        gc.collect()
        one, size = measured(make)
        found = [min(a, b) for a, b in zip(found or one, one, strict=True)]
    return found, size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="kernels whose name matches")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", action="store_true", help="the kernels of kernels.py, too")
    options = parser.parse_args()
    directory = tempfile.mkdtemp()
    os.environ["RUSHLIGHT_CACHE_DIR"] = directory
    os.environ["RUSHLIGHT_COMPILED"] = "1"
    start = time.perf_counter()
    from rushlight._codegen import native
    from rushlight._codegen.language import Source

    try:
        native.host()
        print(f"start {1e3 * (time.perf_counter() - start):.0f} ms, load {os.getloadavg()[0]:.1f}")
        found = used(options.cases)
    finally:
        shutil.rmtree(directory)
    sources = [o for o in gc.get_objects() if isinstance(o, Source)]
    rows = []
    for name, make in found.items():
        if re.search(options.only, name):
            rows.append((name, *best(make, sources, options.rounds)))
    rows.sort(key=lambda row: -sum(row[1]))
    print(" ".join(f"{s:>8}" for s in STAGES), "   total  object  kernel")
    for name, times, size in rows:
        stages = " ".join(f"{t:8.1f}" for t in times)
        print(f"{stages} {sum(times):8.1f} {size:7}  {name[:90]}")
    totals = [sum(row[1][i] for row in rows) for i in range(len(STAGES))]
    print(" ".join(f"{t:8.0f}" for t in totals), f"{sum(totals):8.0f}")
    slow = sum(sum(row[1]) > TARGET for row in rows)
    print(f"{len(rows) - slow} of {len(rows)} kernels within {TARGET:.0f} ms")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())

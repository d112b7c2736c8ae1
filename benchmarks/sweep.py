"""Every operator of PyTorch's operator database, in many sizes, dtypes and layouts, against PyTorch.

    python benchmarks/sweep.py --out sweep.jsonl                  # all; goes on where an earlier run stopped
    python benchmarks/sweep.py --out sweep.jsonl --only '(conv|pool).* 1000 float32 .* forward'
    python benchmarks/sweep.py --out sweep.jsonl --share 10       # a tenth of them
    python benchmarks/sweep.py --out sweep.jsonl --report sweep.html

A case is an operator, a number of elements (1, 1,000, 1,000,000), a dtype, a layout of its tensors (contiguous,
transposed, channels last) and a direction (forward without recording, or backward of the sum of its outputs). Either
side runs in alternating short stretches in this process, on one thread (`--threads`) and otherwise at default settings;
the fastest stretch counts, so what a first call costs is not seen here (first_second.py measures that). What looks slower
is timed again, on one thread by the time that it had a processor. A case that
one of the two refuses is left out; the last lines of the output say how many were refused here only.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import re
import sys
import time
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import alternation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DTYPES = ("float32", "float64", "bfloat16", "int64")
SIZES = (1, 1_000, 1_000_000)
LAYOUTS = ("contiguous", "transposed", "channels_last")
DIRECTIONS = ("forward", "backward")
LEFT_OUT = re.compile(
    r"_.*|torch\.ops.*|jiterator.*|sparse.*|to_sparse|.*\.triton.*|slice|empty.*|new_empty.*|.*_backward"
)
SLOWEST = 0.5  # seconds of one call on PyTorch: what takes longer is left out
LONG = 0.05  # seconds of one call: three calls of such a case are enough


def cases(wanted: Callable[[str], bool]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """(key, sample, what describes the case) of every case whose key is wanted."""
    import sweep_samples
    import torch

    for op in sorted(sweep_samples.database.op_db, key=lambda op: op.name):
        if LEFT_OUT.fullmatch(op.name):
            continue
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        for dtype, size in itertools.product(DTYPES, SIZES):
            kind = getattr(torch, dtype)
            if kind not in op.dtypes:
                continue
            count = 2 if op.supports_autograd and kind.is_floating_point else 1
            keys = [
                (f"{name} {size} {dtype} {layout} {direction}", layout, direction)
                for layout in LAYOUTS[: 1 if size == 1 else 3]
                for direction in DIRECTIONS[:count]
            ]
            keys = [k for k in keys if wanted(k[0])]
            sample = sweep_samples.scaled(op, size, kind) if keys else None
            if sample is None:
                continue
            dims = max((t.dim() for t in sweep_samples.tensors(sample.args)), default=0)
            for key, layout, direction in keys:
                if layout in LAYOUTS[: 1 if dims < 2 else 3 if dims == 4 else 2]:
                    about = {"op": name, "path": op.name, "size": size, "dtype": dtype}
                    about |= {"layout": layout, "direction": direction, "family": family(op)}
                    yield key, sample, about


def family(op: Any) -> str:
    """The part of the report in which an operator stands: its namespace, or its kind in the database."""
    space = op.name.rpartition(".")[0]
    if space:
        return space
    kinds = {
        "UnaryUfuncInfo": "unary",
        "BinaryUfuncInfo": "binary",
        "ReductionOpInfo": "reductions",
    }
    return kinds.get(type(op).__name__, "others")


def laid_out(x: Any, layout: str, convert: Callable) -> Any:
    """`x` with every tensor in it laid out in memory as asked, as a tensor of the other library by `convert`."""
    import torch

    if isinstance(x, torch.Tensor):
        x = x.detach()
        if layout == "transposed" and x.dim() > 1:
            x = x.transpose(0, -1).contiguous().transpose(0, -1)
        elif layout == "channels_last" and x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return convert(x)
    if isinstance(x, (tuple, list)):
        return type(x)(laid_out(y, layout, convert) for y in x)
    if isinstance(x, dict):
        return {k: laid_out(y, layout, convert) for k, y in x.items()}
    return convert(x)


def to_ours(ours: Any) -> Callable:
    import torch

    def convert(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            if x.dtype == torch.bfloat16:
                return ours.from_numpy(x.view(torch.int16).numpy().copy("K")).view(ours.bfloat16)
            return ours.from_numpy(x.numpy().copy("K"))
        if isinstance(x, torch.dtype):
            return getattr(ours, str(x).partition(".")[2])
        if isinstance(x, torch.memory_format):
            return getattr(ours, str(x).partition(".")[2])
        return x

    return convert


def function(library: Any, path: str) -> Callable:
    """The operator of a name of the database: a function of the library, or a method of its tensors."""
    found = library
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            return getattr(library.Tensor, path)
    return found


def prepared(library: Any, path: str, args: tuple, kwargs: dict, backward: bool) -> Callable:
    """A function without arguments that runs the case once on `library`, after a first run."""
    f = function(library, path)
    if not backward:
        f(*args, **kwargs)
        return lambda: f(
            *args, **kwargs
        )  # none of its tensors requires a gradient: nothing is recorded
    leaves = [t.requires_grad_() for t in flat(library, (args, kwargs)) if t.is_floating_point()]
    if not leaves:
        raise TypeError("no tensor to differentiate")
    outputs = [t for t in flat(library, f(*args, **kwargs)) if t.requires_grad]
    ones = [library.ones_like(t) for t in outputs]

    def gradients() -> Any:
        return library.autograd.grad(outputs, leaves, ones, retain_graph=True, allow_unused=True)

    gradients()
    return gradients


def flat(library: Any, x: Any) -> Iterator[Any]:
    if isinstance(x, library.Tensor):
        yield x
    elif isinstance(x, (tuple, list)):
        for y in x:
            yield from flat(library, y)
    elif isinstance(x, dict):
        yield from flat(library, list(x.values()))


def measure(
    ours: Any, theirs: Any, sample: Any, about: dict[str, Any], clock: Callable[[], float]
) -> dict[str, Any]:
    """{ours, theirs} in seconds, or {refused} with the side and the reason. `clock`: what slow cases are timed by."""
    backward = about["direction"] == "backward"
    try:
        args, kwargs = laid_out(
            (sample.args, sample.kwargs),
            about["layout"],
            lambda x: x.clone() if hasattr(x, "clone") else x,
        )
        reference = prepared(theirs, about["path"], args, kwargs, backward)
        if (once := alternation.seconds(reference, 1)) > SLOWEST:
            return {"refused": "PyTorch: too slow to be timed often"}
    except Exception as e:
        return {"refused": f"PyTorch: {type(e).__name__}: {e}"[:200]}
    try:
        args, kwargs = laid_out((sample.args, sample.kwargs), about["layout"], to_ours(ours))
        candidate = prepared(ours, about["path"], args, kwargs, backward)
        if (once := max(once, alternation.seconds(candidate, 1))) > 20 * SLOWEST:
            return {"refused": "Rushlight: too slow to be timed"}
    except Exception as e:
        return {"refused": f"Rushlight: {type(e).__name__}: {e}"[:200]}
    if once > LONG:
        a, b = (min(alternation.seconds(f, 1) for _ in range(3)) for f in (candidate, reference))
        return {"ours": a, "theirs": b}
    a, b = alternation.fastest(candidate, reference, rounds=7, stretch=0.002)
    if a > b:  # what looks slower gets a longer look, without what else runs on the machine
        a, b = alternation.fastest(candidate, reference, rounds=30, stretch=0.002, clock=clock)
    return {"ours": a, "theirs": b}


def summary(results: list[dict[str, Any]], worst: int) -> str:
    timed = sorted((r for r in results if "ours" in r), key=lambda r: r["ours"] / r["theirs"])
    if not timed:
        return "nothing was timed"
    ratios = [r["theirs"] / r["ours"] for r in timed]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    lines = [
        f"{r['theirs'] / r['ours']:6.2f}  {r['ours'] * 1e6:10.1f} us {r['theirs'] * 1e6:10.1f} us  "
        f"{r['op']} {r['size']} {r['dtype']} {r['layout']} {r['direction']}"
        for r in timed[-worst:]
    ]
    refused = [r for r in results if r.get("refused", "").startswith("Rushlight")]
    even = 100 * sum(r >= 1 for r in ratios) / len(ratios)
    return "\n".join(
        [
            "PyTorch's time / ours, Rushlight, PyTorch, case: the last ones",
            *lines,
            f"{len(timed)} cases, geometric mean of PyTorch's time / ours {mean:.2f}",
            f"at least as fast in {even:.1f} %, slower than twice PyTorch's time in {sum(r < 0.5 for r in ratios)}",
            f"refused here only: {len(refused)}",
        ]
    )


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--out",
        type=Path,
        default=Path("sweep.jsonl"),
        help="results, one line of JSON for each case",
    )
    p.add_argument("--only", default="", help="a regular expression: cases, as they are printed")
    p.add_argument(
        "--share", type=int, default=1, help="measure one case of so many, always the same ones"
    )
    p.add_argument("--threads", type=int, default=1)
    p.add_argument(
        "--worst", type=int, default=40, help="how many of the slowest cases are printed"
    )
    p.add_argument("--report", type=Path, help="write a page with one picture for each family")
    options = p.parse_args()
    held = (
        [json.loads(line) for line in options.out.read_text().splitlines()]
        if options.out.exists()
        else []
    )
    if options.report:
        import sweep_report

        options.report.write_text(sweep_report.page(held))
        return
    alternation.limit_threads(options.threads)
    warnings.simplefilter("ignore")
    import sweep_samples  # noqa: F401 - it takes a while, here, before what is imported is frozen
    import torch as theirs

    import rushlight as ours

    theirs.set_num_threads(options.threads)
    gc.freeze()  # what is imported is not gone through before each case
    print(alternation.machine(), f"PyTorch  {theirs.__version__}", sep="\n", flush=True)
    done = {r["key"] for r in held}
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    with options.out.open("a") as file:
        wanted = lambda key: (
            key not in done
            and zlib.crc32(key.encode()) % options.share == 0
            and bool(re.search(options.only, key))
        )
        for number, (key, sample, about) in enumerate(cases(wanted)):
            result = {"key": key, **about, **measure(ours, theirs, sample, about, clock)}
            held.append(result)
            file.write(json.dumps(result) + "\n")
            file.flush()
            if sys.stderr.isatty():
                print(f"\r{number:6} {key:<90.90}", end="", file=sys.stderr)
    print(summary([r for r in held if re.search(options.only, r["key"])], options.worst))


if __name__ == "__main__":
    main()

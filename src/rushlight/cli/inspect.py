"""Show what a checkpoint holds, or how two checkpoints differ. No code in the files is executed.

examples:
  rushlight inspect model.pt                      names, shapes, dtypes, sizes
  rushlight inspect model.pt --stats              and smallest, largest, mean, standard deviation, zeros, NaN
  rushlight inspect model.pt --only 'layer1.*'    of some tensors
  rushlight inspect old.pt new.pt                 what differs; exit status 3 if anything does
  rushlight inspect old.pt new.pt --atol 1e-6     what differs by more than that
  rushlight inspect model.pt --json | jq '.tensors[].name'"""

from __future__ import annotations

import argparse
import math
from fnmatch import fnmatchcase
from typing import Any

from rushlight.cli import DIFFERENT, checkpoints, show
from rushlight.viz.svg import bytes_text


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a .pt, .pth, .bin or .safetensors file")
    parser.add_argument(
        "second", metavar="SECOND", nargs="?", help="another one, to compare FILE with"
    )
    parser.add_argument("--stats", action="store_true", help="statistics of each tensor")
    parser.add_argument(
        "--only", metavar="PATTERN", default="*", help="names to show, such as 'layer1.*'"
    )
    parser.add_argument(
        "--rtol", type=float, default=0.0, help="relative difference that is none (0)"
    )
    parser.add_argument(
        "--atol", type=float, default=0.0, help="absolute difference that is none (0)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(options: argparse.Namespace) -> int | None:
    first = _content(options.file, options.only)
    if options.second is None:
        return _one(first, options)
    return _two(first, _content(options.second, options.only), options)


def _content(path: str, pattern: str) -> dict[str, Any]:
    found = dict(checkpoints.leaves(checkpoints.load(path)))
    return {name: leaf for name, leaf in found.items() if fnmatchcase(name, pattern)}


# -- one file --------------------------------------------------------------------------------------


def _one(content: dict[str, Any], options: argparse.Namespace) -> None:
    tensors = {name: leaf for name, leaf in content.items() if _is_tensor(leaf)}
    others = {name: leaf for name, leaf in content.items() if name not in tensors}
    count = sum(t.numel() for t in tensors.values())
    size = sum(map(_size, tensors.values()))
    if options.json:
        rows = [_description(n, t, options.stats) for n, t in tensors.items()]
        show({"tensors": rows, "others": others, "elements": count, "bytes": size})
        return
    table = []
    for name, t in tensors.items():
        table.append([name, str(list(t.shape)), t.dtype.name, bytes_text(_size(t))])
        if options.stats:
            table[-1] += [_number(value) for value in statistics(t).values()]
    if options.stats and tensors:
        table.insert(0, ["", "", "", "", *statistics(next(iter(tensors.values())))])
    _print(table)
    for name, leaf in others.items():
        print(f"{name} = {_short(leaf)}")
    print(f"{len(tensors)} tensors, {count:,} elements, {bytes_text(size)}")


def _is_tensor(leaf: Any) -> bool:
    from rushlight.core.tensor import Tensor

    return isinstance(leaf, Tensor)


def _size(t: Any) -> int:
    return t.numel() * t.dtype.itemsize


def _description(name: str, t: Any, stats: bool) -> dict[str, Any]:
    row = {"name": name, "shape": list(t.shape), "dtype": t.dtype.name, "bytes": _size(t)}
    return row | ({"statistics": statistics(t)} if stats else {})


def statistics(t: Any) -> dict[str, Any]:
    """Numbers that describe a tensor; of complex ones, of their absolute values. NaN counts in `nan` only."""
    values = t.detach()
    values = (values.to_dense() if values.layout != _strided() else values).flatten()
    values = (values.abs() if values.is_complex() else values).double()
    missing = int(values.isnan().sum())
    values = values[~values.isnan()] if missing else values
    n = values.numel()
    finite = values.isfinite().all().item() if n else False
    return {
        "min": values.min().item() if n else math.nan,
        "max": values.max().item() if n else math.nan,
        "mean": values.mean().item() if n else math.nan,
        "std": values.std(correction=0).item() if finite else math.nan,
        "zeros": int((values == 0).sum()),
        "inf": int(values.isinf().sum()),
        "nan": missing,
    }


def _strided() -> Any:
    import rushlight

    return rushlight.strided


# -- two files -------------------------------------------------------------------------------------


def _two(first: dict, second: dict, options: argparse.Namespace) -> int | None:
    common = [name for name in first if name in second]
    found = {name: _difference(first[name], second[name], options) for name in common}
    changed = {name: what for name, what in found.items() if what is not None}
    report = {
        "same": not changed and first.keys() == second.keys(),
        "equal": len(common) - len(changed),
        "only_first": [name for name in first if name not in second],
        "only_second": [name for name in second if name not in first],
        "changed": [{"name": name, **what} for name, what in changed.items()],
    }
    if options.json:
        show(report)
    else:
        _print(
            [["-", name, _kind(first[name])] for name in report["only_first"]]
            + [["+", name, _kind(second[name])] for name in report["only_second"]]
            + [["!", name, what["text"]] for name, what in changed.items()]
        )
        print(
            f"{report['equal']} equal, {len(changed)} changed, {len(report['only_first'])} only in {options.file}, "
            f"{len(report['only_second'])} only in {options.second}"
        )
    return None if report["same"] else DIFFERENT


def _kind(leaf: Any) -> str:
    return f"{list(leaf.shape)} {leaf.dtype.name}" if _is_tensor(leaf) else _short(leaf)


def _difference(a: Any, b: Any, options: argparse.Namespace) -> dict[str, Any] | None:
    """What differs between two leaves of the same name, or None."""
    if not (_is_tensor(a) and _is_tensor(b)):
        same = type(a) is type(b) and (a == b or a != a and b != b)
        return None if same else {"text": f"{_kind(a)} -> {_kind(b)}"}
    if _kind(a) != _kind(b):
        return {"text": f"{_kind(a)} -> {_kind(b)}"}
    import rushlight

    wide = rushlight.complex128 if a.dtype.is_complex else rushlight.float64
    a, b = (t.detach().to_dense().to(wide).flatten() for t in (a, b))
    differs = ~rushlight.isclose(a, b, rtol=options.rtol, atol=options.atol, equal_nan=True)
    count = int(differs.sum())
    if not count:
        return None
    distance = (a - b).abs()[differs]
    largest = distance.max().item()
    scale = b.abs().max().item()
    relative = largest / scale if scale else math.inf
    text = f"{count} of {a.numel()} elements, by at most {_number(largest)} ({_number(relative)} of the largest)"
    return {"text": text, "elements": count, "largest_difference": largest, "relative": relative}


# -- text ------------------------------------------------------------------------------------------


def _print(table: list[list[str]]) -> None:
    """Columns; numbers and sizes, from the fourth on, stand at the right."""
    widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))] if table else []
    for row in table:
        cells = [
            c.rjust(w) if k > 2 else c.ljust(w)
            for k, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _short(leaf: Any) -> str:
    text = repr(leaf)
    return text if len(text) <= 70 else text[:67] + "..."

"""Writes the reference: a page for each module, from the signatures and docstrings of its public names.

python docs/site/reference.py FOLDER
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import coverage  # noqa: E402  scripts/coverage.py

import rushlight  # noqa: E402

# Modules beside those whose names are counted in docs/coverage.md.
MORE = "amp autograd.forward_ad autograd.functional autograd.profiler compiler fx hub library nested sparse utils.benchmark vision.models vision.transforms"
TITLES = {
    "creation": "New tensors", "pointwise": "One element at a time", "reductions": "Reductions", "linalg": "Linear algebra",
    "indexing": "Indexing, sorting, searching", "layout": "Shapes and views", "nn": "Layers as functions", "random": "Random numbers",
    "fft": "Fourier transforms", "sparse": "Sparse tensors", "factories": "New tensors",
}  # fmt: skip

SHAPES = {  # what holds for the results of a whole group
    TITLES[
        "pointwise"
    ]: "The result has the shape of the argument; of several arguments, the shape that they are broadcast to.",
    TITLES["creation"]: "The sizes, or `size`, are the shape of the result.",
    TITLES["random"]: "The sizes, or `size`, are the shape of the result.",
}


def pages() -> dict[str, list[tuple[str, Any]]]:
    """{module: [(name, value)]} of everything public, without PyTorch's own submodules."""
    listed = coverage.pytorch_names()
    found = {}
    for space in [*coverage.SPACES, *MORE.split()]:
        holder = rushlight.Tensor if space == "Tensor" else coverage.module("rushlight", space)
        names = {n for n in listed.get(space, ()) if hasattr(holder, n)} | set(
            getattr(holder, "__all__", ())
        )
        pairs = [
            (n, getattr(holder, n))
            for n in sorted(names, key=lambda n: (n.lower(), n))
            if n[0] != "_" and hasattr(holder, n)
        ]
        found[space] = [
            (n, v)
            for n, v in pairs
            if not inspect.ismodule(v) and (callable(v) or isinstance(v, property))
        ]
    return found


def title(space: str) -> str:
    return "torch" if space == "torch" else f"torch.{space}"


def text_of(space: str, members: list[tuple[str, Any]]) -> str:
    """The page of one module, as MyST Markdown."""
    groups: dict[str, list[str]] = {}
    names = {name for name, _ in members}
    for name, value in members:
        if _inplace(space, name, members):
            continue  # it stands with the function
        inplace = name + "_" if name + "_" in names else ""
        groups.setdefault(_group(space, value), []).append(
            "\n".join(_entry(title(space), name, value, inplace))
        )
    intro = _plain(
        inspect.getdoc(
            rushlight.Tensor if space == "Tensor" else coverage.module("rushlight", space)
        )
        or ""
    )
    if space in ("torch", "Tensor"):
        intro = "A method with an underscore at its end writes its result into the tensor that it is called on."
    lines = [
        f"# `{title(space)}`",
        "",
        intro if space in ("torch", "Tensor") else intro.split("\n\n")[0],
        "",
    ]
    for group in sorted(groups):
        if len(groups) > 1:
            lines += [f"## {group}", "", SHAPES.get(group, ""), ""]
        lines += groups[group]
    return "\n".join(lines)


def _inplace(space: str, name: str, members: list[tuple[str, Any]]) -> bool:
    """Whether a name is the in-place form of another one of the module."""
    return (
        space in ("torch", "Tensor")
        and name[-1] == "_"
        and any(other == name[:-1] for other, _ in members)
    )


def _group(space: str, value: Any) -> str:
    if space not in ("torch", "Tensor"):
        return ""
    where = getattr(_declared(value), "__module__", "") or ""
    match = re.match(r"rushlight\.ops\.(\w+)", where)
    return TITLES.get(match[1], match[1].capitalize()) if match else "Other"


def _declared(value: Any) -> Any:
    return getattr(value, "__wrapped__", value)


def _entry(space: str, name: str, value: Any, inplace: str) -> Iterator[str]:
    kind = (
        "class"
        if inspect.isclass(value)
        else "attribute"
        if isinstance(value, property)
        else "function"
    )
    yield f"````{{py:{kind}}} {space}.{name}{_signature(value, drop_first=space == 'torch.Tensor') if kind != 'attribute' else ''}"
    yield ""
    yield _plain(inspect.getdoc(value) or "")
    if inplace:
        yield f"\nIn place: `{inplace}`."
    if kind == "class" and value is not rushlight.Tensor:
        for method, function in sorted(vars(value).items()):
            if method[0] != "_" and inspect.isfunction(function) and function.__doc__:
                yield f"\n```{{py:method}} {method}{_signature(function, drop_first=True)}\n"
                yield _plain(inspect.getdoc(function) or "", fence="~~~")
                yield "```"
    yield "````"
    yield ""


def _signature(value: Any, drop_first: bool = False) -> str:
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return "(...)"
    parts, star = [], False
    for p in parameters[1:] if drop_first else parameters:
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        star = star or p.kind is p.VAR_POSITIONAL
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        parts.append(mark + p.name + _annotation(p) + _default(p))
    return f"({', '.join(parts)})"


def _annotation(p: inspect.Parameter) -> str:
    text = p.annotation if isinstance(p.annotation, str) else ""
    words = {
        "Array": "Tensor",
        "Arrays": "Sequence[Tensor]",
        "DType": "dtype",
        "Dims": "int | Sequence[int] | None",
    }
    words |= {
        "Ints": "int | Sequence[int]",
        "Sizes": "int | Sequence[int]",
        "MemoryFormat": "memory_format",
    }
    text = re.sub(r"\w+", lambda m: words.get(m[0], m[0]), text)
    try:
        compile(text, "annotation", "eval")
    except (SyntaxError, ValueError):
        return ""
    return "" if text in ("", "Any") else f": {text}"


def _default(p: inspect.Parameter) -> str:
    if p.default is p.empty:
        return ""
    text = repr(p.default)
    if (
        not isinstance(p.default, bool | int | float | str | tuple | list | type(None))
        or "<" in text
    ):
        text = "..."
    return f" = {text}" if _annotation(p) else f"={text}"


def _plain(doc: str, fence: str = "~~~") -> str:
    """A docstring as Markdown: examples become blocks, code stays code, other signs of Markdown are escaped."""
    lines: list[str] = []
    paragraphs = re.split(r"\n\s*\n", doc.strip())
    for paragraph in paragraphs:
        rows = paragraph.splitlines()
        at = next((k for k, row in enumerate(rows) if row.lstrip().startswith(">>>")), len(rows))
        if rows[:at] and all(row.startswith("    ") for row in rows[:at]):
            lines += [fence + "text", *rows[:at], fence]
        else:
            lines += [_escaped(row.strip()) for row in rows[:at]]
        if rows[at:]:
            lines += ["", fence + "pycon", *(row.strip("\n") for row in rows[at:]), fence]
        lines.append("")
    return "\n".join(lines).strip()


def _escaped(row: str) -> str:
    parts = re.split(r"(`[^`]*`)", row)
    parts[::2] = [re.sub(r"([\\*_\[\]<>$#{}|~`])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    found = pages()
    for space, members in found.items():
        if members:
            (folder / f"{title(space)}.md").write_text(text_of(space, members), "utf-8")
            rows.append((title(space), len(members)))
    places = {
        f"{title(s)}.{name}": title(s)
        for s, members in found.items()
        for name, _ in members
        if not _inplace(s, name, members)
    }
    (folder / "names.json").write_text(json.dumps(places), "utf-8")
    table = "\n".join(f"| [`{name}`]({name}.md) | {count} |" for name, count in rows)
    tree = "\n".join(name for name, _ in rows)
    (folder / "index.md").write_text(
        f"""# Reference

Every public name, with the signature and the docstring that it has in the code.

| module | names |
| --- | ---: |
{table}

```{{toctree}}
:hidden:

{tree}
```
""",
        "utf-8",
    )


if __name__ == "__main__":
    main()

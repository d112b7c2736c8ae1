"""Schemas of operators, `(Tensor x, float y=1.0) -> Tensor`: read, and made of the annotations of a function."""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any

from rushlight.core.tensor import Tensor

__all__ = ["infer_schema", "signature_of", "takes"]

_TYPES = {
    "Tensor": "Tensor", "float": "float", "int": "SymInt", "bool": "bool", "str": "str", "complex": "complex",
    "dtype": "ScalarType", "device": "Device", "number": "Scalar", "None": "()", "NoneType": "()",
}  # fmt: skip

_KINDS: dict[str, Any] = {
    "Tensor": Tensor, "int": int, "SymInt": int, "float": (int, float), "bool": bool, "str": str,
    "Scalar": (bool, int, float, complex),
}  # fmt: skip


def infer_schema(
    prototype_function: Callable, /, *, mutates_args: Any = (), op_name: str | None = None
) -> str:
    """PyTorch's schema of a function, from its annotations. ValueError for a parameter or a result without a type.

    >>> from rushlight import Tensor
    >>> def f(x: Tensor, n: int = 2) -> Tensor: ...
    >>> infer_schema(f, mutates_args=())
    '(Tensor x, SymInt n=2) -> Tensor'
    """
    parts, alone = [], False
    signature = inspect.signature(prototype_function, eval_str=True)
    for name, p in signature.parameters.items():
        if p.annotation is inspect.Parameter.empty:
            raise ValueError(
                f"infer_schema(func): Parameter {name} must have a type annotation. Got func with signature {signature}"
            )
        if p.kind is p.KEYWORD_ONLY and not alone:
            parts.append("*")
            alone = True
        kind = _schema_type(p.annotation)
        if mutates_args == "unknown" or name in mutates_args:
            kind = kind.replace("Tensor", f"Tensor(a{len(parts)}!)", 1)
        default = "" if p.default is inspect.Parameter.empty else f"={p.default}"
        parts.append(f"{kind} {name}{default}")
    if signature.return_annotation is inspect.Signature.empty:
        raise ValueError(
            f"infer_schema(func): no return type annotation was provided. Got func with signature {signature}"
        )
    return f"{op_name or ''}({', '.join(parts)}) -> {_schema_type(signature.return_annotation)}"


def _schema_type(annotation: Any) -> str:
    """The type of an annotation as PyTorch's schemas write it, as `Tensor[]?`; ValueError for one that has none."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType) and type(None) in inner:
        (rest,) = [t for t in inner if t is not type(None)]
        return _schema_type(rest) + "?"
    if origin is tuple:
        return f"({', '.join(map(_schema_type, inner))})"
    if origin is not None and inner:  # list, Sequence
        return f"{_schema_type(inner[0])}[]"
    name = "None" if annotation is None else getattr(annotation, "__name__", str(annotation))
    if name not in _TYPES:
        raise ValueError(
            f"infer_schema(func): unsupported type {annotation} (Tensor, int, float, bool, str, complex, dtype, device, "
            "lists of them and optional ones are known)"
        )
    return _TYPES[name]


def signature_of(schema: str) -> tuple[str, inspect.Signature, tuple[str, ...]]:
    """(name, parameters, names of mutated parameters) of `name(Tensor x, float y=1.0, *, int[] z=[]) -> Tensor`."""
    match = re.match(r"\s*([\w.:]*)\s*\((.*)\)\s*->", schema, re.DOTALL)
    if match is None:
        raise RuntimeError(
            f"cannot read the schema {schema!r}: name(Type x, ...) -> Type is expected"
        )
    kind, parameters, written = inspect.Parameter.POSITIONAL_OR_KEYWORD, [], []
    # commas inside brackets are no separators
    for part in re.findall(r"(?:[^,\[(]|\[[^\]]*\]|\([^)]*\))+", match[2]):
        part = part.strip()
        if part == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        declared, _, default = part.partition("=")
        if "=" in part and declared.rstrip().endswith("["):
            raise RuntimeError(f"cannot read {part!r} in the schema {schema!r}")
        annotation, _, name = declared.strip().rpartition(" ")
        if not annotation:
            raise RuntimeError(f"{part!r} in the schema {schema!r} has no type and name")
        if "!" in annotation:
            written.append(name)
        given = _literal(default.strip()) if default else inspect.Parameter.empty
        parameters.append(
            inspect.Parameter(name, kind, default=given, annotation=annotation.strip())
        )
    return match[1], inspect.Signature(parameters), tuple(written)


def takes(signature: inspect.Signature, args: tuple, kwargs: dict) -> bool:
    """Whether a call with these arguments is one of the schema that `signature_of` read."""
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return False
    return all(_fits(v, signature.parameters[name].annotation) for name, v in given.items())


def _fits(value: Any, declared: Any) -> bool:
    """Whether a value is of a type of schemas, `Tensor(a!)`, `int[]`, `float?`; of types that are none, all are."""
    match = (
        re.fullmatch(r"(\w+)(?:\(.*?\))?(\[\d*\])?(\?)?", declared)
        if isinstance(declared, str)
        else None
    )
    if match is None:
        return True
    kind, listed, optional = match.groups()
    if value is None:
        return bool(optional)
    if listed:
        return isinstance(value, (list, tuple)) and all(_fits(each, kind) for each in value)
    if kind not in _KINDS:
        return True
    return isinstance(value, _KINDS[kind]) and (
        kind in ("bool", "Scalar") or not isinstance(value, bool)
    )


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text

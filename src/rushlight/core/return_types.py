"""`torch.return_types`: the tuples with named fields that operators with several results return.

>>> import rushlight as torch
>>> torch.tensor([3.0, 5.0]).max(dim=0)
torch.return_types.max(
values=tensor(5.),
indices=tensor(1))
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

_VALUES = ("values", "indices")
_FIELDS = {
    **dict.fromkeys(
        "max min median nanmedian mode kthvalue sort topk cummax cummin".split(), _VALUES
    ),
    "aminmax": ("min", "max"),
    "histogram": ("hist", "bin_edges"),
    "histogramdd": ("hist", "bin_edges"),
    "frexp": ("mantissa", "exponent"),
    "qr": ("Q", "R"),
    "slogdet": ("sign", "logabsdet"),
    "svd": ("U", "S", "V"),
    "geqrf": ("a", "tau"),
    "lu_unpack": ("P", "L", "U"),
    "triangular_solve": ("solution", "cloned_coefficient"),
    "linalg_eig": ("eigenvalues", "eigenvectors"),
    "linalg_eigh": ("eigenvalues", "eigenvectors"),
    "linalg_qr": ("Q", "R"),
    "linalg_slogdet": ("sign", "logabsdet"),
    "linalg_svd": ("U", "S", "Vh"),
    "linalg_lu": ("P", "L", "U"),
    "linalg_lstsq": ("solution", "residuals", "rank", "singular_values"),
}


class Results(tuple):
    """A tuple of results with named fields; `make` makes its subclasses."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def __new__(cls, values: Any, dict: Any = None) -> Any:
        self = tuple.__new__(cls, values)
        n = len(cls.__match_args__)
        if len(self) != n:
            raise TypeError(
                f"torch.return_types.{cls.__name__}() takes a {n}-sequence ({len(self)}-sequence given)"
            )
        return self

    def __repr__(self) -> str:
        fields = zip(self.__match_args__, self, strict=True)
        return (
            f"torch.return_types.{type(self).__name__}(\n"
            + ",\n".join(f"{name}={value!r}" for name, value in fields)
            + ")"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("readonly attribute")


def _rebuild(name: str, fields: tuple[str, ...], values: tuple) -> Any:
    return make(name, fields)(values)


_made: dict[str, Any] = {}


def make(name: str, fields: tuple[str, ...]) -> Any:
    """The tuple type `torch.return_types.<name>`; one object for each name."""
    if name not in _made:
        getters = {field: property(itemgetter(i)) for i, field in enumerate(fields)}
        _made[name] = type(
            name,
            (Results,),
            {
                "__slots__": (),
                "__module__": "torch.return_types",
                "__match_args__": fields,
                "__reduce__": lambda self: (_rebuild, (name, fields, tuple(self))),
                "_fields": fields,
                "n_fields": len(fields),
                "n_sequence_fields": len(fields),
                "n_unnamed_fields": 0,
                **getters,
            },
        )
    return _made[name]


def __getattr__(name: str) -> Any:
    if name in _made or name in _FIELDS:
        return make(name, _FIELDS.get(name, ()))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_FIELDS, *_made})

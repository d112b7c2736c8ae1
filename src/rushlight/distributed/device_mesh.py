"""`torch.distributed.device_mesh`: the processes of a job in a grid, with a process group along each of its dimensions.

Note [Dimensions of a mesh]
A mesh knows the ranks of its root, in one row, and its dimensions. A dimension is one or more pairs of a size and a stride in
that row: a slice takes some of the dimensions, a flattened dimension has the pairs of those it was made from. So all meshes
that are cut out of one root share its process groups.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import groups
from rushlight.distributed._mesh_layout import _FlatLayout, _MeshLayout
from rushlight.distributed.process_group import ProcessGroup

__all__ = ["DeviceMesh", "init_device_mesh"]

Pairs = tuple[tuple[int, int], ...]  # of a size and a stride
_entered: list[DeviceMesh] = []


def _size(pairs: Pairs) -> int:
    return math.prod(size for size, _ in pairs)


def _joined(dims: Sequence[Pairs]) -> Pairs:
    """Several dimensions as one, in as few pairs as possible."""
    found: list[tuple[int, int]] = []
    for size, stride in itertools.chain(*dims):
        if found and found[-1][1] == size * stride:
            size *= found.pop()[0]
        found.append((size, stride))
    return tuple(found)


def _offsets(pairs: Pairs) -> list[int]:
    """Where the members of a dimension are in the row of ranks, counted from the first."""
    places = itertools.product(*(range(size) for size, _ in pairs))
    return [sum(k * stride for k, (_, stride) in zip(place, pairs)) for place in places]


class DeviceMesh:
    """Processes in a grid: `mesh["dp"]` is this process's row along one dimension, `get_group` its process group."""

    def __init__(
        self, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None, _init_backend: bool = True, _rank: int | None = None,
    ) -> None:  # fmt: skip
        if mesh is None:
            raise TypeError("The mesh must be provided if _layout and _rank_map are not provided")
        ranks = mesh.detach() if isinstance(mesh, Tensor) else rushlight.tensor(mesh)
        if ranks.device.type != "cpu":
            raise ValueError(f"`mesh` must be a CPU tensor, got {mesh}")
        if _init_backend or _rank is None:
            _join(ranks.numel())
        sizes = tuple(ranks.shape)
        strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        self._set(
            device_type, tuple(ranks.flatten().tolist()), [((n, s),) for n, s in zip(sizes, strides)],
            mesh_dim_names, None, groups.get_rank() if _rank is None else _rank,
        )  # fmt: skip
        if len(set(self._row)) != len(self._row):
            raise RuntimeError(
                "Each device mesh dimension should get only one process group, but a rank is in the mesh twice: "
                f"{self.mesh.tolist()}"
            )
        if _init_backend:
            names = self._names or [f"dim_{k}" for k in range(self.ndim)]
            self._groups = [self._group_along(p, n) for p, n in zip(self._dims, names)]

    def _set(
        self, device_type: str, row: tuple[int, ...], dims: Sequence[Pairs], names: Sequence[str] | None,
        root: DeviceMesh | None, rank: int,
    ) -> None:  # fmt: skip
        self._device_type, self._row, self._dims = device_type, row, tuple(dims)
        self._names = None if names is None else tuple(names)
        self._root, self._rank, self._groups = root, rank, []
        self._flattened: dict[str, DeviceMesh] = {}
        place = row.index(rank) if rank in row else None
        self._coordinate: tuple[int, ...] | None = None
        self._first = 0  # where this mesh begins in the row
        if place is not None:
            pairs = [[(place // s % n) * s for n, s in each] for each in self._dims]
            steps = [sum(each) for each in pairs]
            self._first = place - sum(steps)
            self._coordinate = tuple(_offsets(p).index(step) for p, step in zip(self._dims, steps))

    def _members(self, pairs: Pairs, first: int) -> list[int]:
        return [self._row[first + offset] for offset in _offsets(pairs)]

    def _group_along(self, pairs: Pairs, name: str) -> str | None:
        """The name of the group of the processes that differ from this one in one dimension only."""
        if self._coordinate is None:
            return None
        place = self._row.index(self._rank)
        first = place - sum((place // stride % size) * stride for size, stride in pairs)
        ranks = self._members(pairs, first)
        default = groups._get_default_group()
        if ranks == default.ranks:
            return default.group_name
        made = groups.new_group(ranks, use_local_synchronization=True, group_desc=f"mesh_{name}")
        return made.group_name

    # -- what it looks like ------------------------------------------------------------------------

    @property
    def device_type(self) -> str:
        """The type of the devices."""
        return self._device_type

    @property
    def mesh(self) -> Tensor:
        """The ranks, as a tensor."""
        found = self._members(_joined(self._dims), self._first)
        return rushlight.tensor(found, dtype=rushlight.int32).view(self.shape)

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of the dimensions."""
        return self._names

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(_size(pairs) for pairs in self._dims)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many processes the mesh has, or one dimension."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def __repr__(self) -> str:
        names = [f"{n}={s}" for n, s in zip(self._names or (), self.shape)]
        shape = f"({', '.join(names)})" if self._names else str(self.shape)
        rows = [tuple(stride for size, stride in pairs if size > 1) for pairs in self._dims]
        strides = tuple(row[0] if len(row) == 1 else row for row in rows)
        return f"DeviceMesh({shape}, '{self._device_type}', stride={strides})"

    @cached_property
    def _key(self) -> tuple:
        ranks = self._members(_joined(self._dims), self._first)
        return (self._device_type, tuple(ranks), self.shape, self._names)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, DeviceMesh) and self._key == other._key

    def __enter__(self) -> DeviceMesh:
        _entered.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _entered.pop()

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle has, under PyTorch's names."""
        rows = [[pair for pair in pairs if pair[0] > 1] for pairs in self._dims]
        axes = [_FlatLayout(tuple(n for n, _ in row), tuple(s for _, s in row)) for row in rows]
        return {
            "_device_type": self._device_type, "_layout": _MeshLayout(tuple(axes)),
            "_rank_map": rushlight.tensor(self._row, dtype=rushlight.int32), "_mesh_dim_names": self._names,
            "_root_mesh": self._root, "_flatten_rank_map": self._row, "_thread_id": None,
            "_flatten_mapping": self._flattened, "_dim_group_names": self._groups, "_rank": self._rank,
            "_coordinate_on_dim": self._coordinate, "_hash": None,
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        dims = [tuple(zip(axis.shape, axis.stride)) for axis in state["_layout"].axes]
        names, root = state["_mesh_dim_names"], state["_root_mesh"]
        row = tuple(state["_rank_map"].tolist())
        self._set(state["_device_type"], row, dims, names, root, state["_rank"])
        self._groups, self._flattened = state["_dim_group_names"], state["_flatten_mapping"]

    # -- where this process is ---------------------------------------------------------------------

    def get_rank(self) -> int:
        """The rank of this process in the job."""
        return self._rank

    def get_coordinate(self) -> tuple[int, ...] | None:
        """The place of this process along each dimension; None if it is not in the mesh."""
        return self._coordinate

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The place of this process along one dimension."""
        group = self.get_group(self._only(mesh_dim))
        return groups.get_rank(group)

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The processes along one dimension, with this one."""
        if not self._groups:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
                "please use `get_all_groups()` instead.",
            )
        if isinstance(mesh_dim, str) and mesh_dim in self._get_root_mesh()._flattened:
            return self._get_root_mesh()._flattened[mesh_dim].get_group()
        name = self._groups[self._number(mesh_dim or 0)]
        return groups.named(name) if name is not None else groups.GroupMember.NON_GROUP_MEMBER  # type: ignore[return-value]

    def get_all_groups(self) -> list[ProcessGroup]:
        """The group of each dimension."""
        return [self.get_group(k) for k in range(self.ndim)]

    def _only(self, mesh_dim: int | str | None) -> int | str:
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
            )
        return 0 if mesh_dim is None else mesh_dim

    def _number(self, mesh_dim: int | str) -> int:
        if isinstance(mesh_dim, int):
            return mesh_dim
        if not self._names:
            raise KeyError("No `mesh_dim_names` found.")
        if mesh_dim not in self._names:
            raise KeyError(
                f"Mesh dimension '{mesh_dim}' does not exist.",
                f"Available mesh dimensions are: mesh_dim_names={self._names}",
            )
        return self._names.index(mesh_dim)

    # -- other meshes of the same processes --------------------------------------------------------

    def _get_root_mesh(self) -> DeviceMesh:
        """The mesh that this one was cut out of."""
        return self if self._root is None else self._root

    def _made(
        self, dims: Sequence[Pairs], names: Sequence[str] | None, group_names: Sequence[str | None]
    ) -> DeviceMesh:  # fmt: skip
        """A mesh with the same root."""
        made = object.__new__(DeviceMesh)
        made._set(self._device_type, self._row, dims, names, self._get_root_mesh(), self._rank)
        made._groups = list(group_names)
        return made

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The part of the mesh along some dimensions that this process is in."""
        if not self._names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        asked = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if asked == self._names:
            return self
        flattened = self._flattened if self._root is None else {}
        if any(name not in self._names and name not in flattened for name in asked):
            raise KeyError(
                f"Invalid mesh_dim_names {asked} specified. Valid mesh_dim_names are {[*self._names, *flattened]}."
            )
        if len(asked) == 1 and asked[0] in flattened:
            return flattened[asked[0]]
        own = dict(zip(self._names, zip(self._dims, self._groups or [None] * self.ndim)))
        own |= {name: (each._dims[0], each._groups[0]) for name, each in flattened.items()}
        dims = [own[name][0] for name in asked]
        places = [(stride, stride * size) for pairs in dims for size, stride in pairs if size > 1]
        overlap = any(a < d and c < b for (a, b), (c, d) in itertools.combinations(places, 2))
        if overlap or len(set(asked)) < len(asked):
            raise RuntimeError(f"Slicing overlapping dim_names {asked} is not allowed.")
        if places != sorted(places, reverse=True):
            raise KeyError(
                f"Invalid mesh_dim_names {asked} specified. Mesh dim indices should be in ascending order."
            )
        return self._made(dims, asked, [own[name][1] for name in asked] if self._groups else [])

    def _flatten(
        self, mesh_dim_name: str | None = None, backend_override: Any = None
    ) -> DeviceMesh:
        """The same processes in one dimension, which the root knows by its name."""
        root = self._get_root_mesh()
        name = mesh_dim_name or "_".join(self._names or ())
        if self.ndim == 1 and (self._names or (name,))[0] == name:
            return self
        pairs = _joined(self._dims)
        if name in (root._names or ()):
            raise ValueError(f"{name} already exists for submesh of the {root}. ")
        if name in root._flattened:
            known = root._flattened[name]
            if known._dims != (pairs,):
                raise ValueError(f"Flatten mesh with mesh_dim_name {name} has been created before.")
            return known
        root._flattened[name] = self._made([pairs], [name], [self._group_along(pairs, name)])
        return root._flattened[name]

    def _unflatten(
        self, dim: int | str, mesh_sizes: Sequence[int], mesh_dim_names: Sequence[str], backend_override: Any = None
    ) -> DeviceMesh:  # fmt: skip
        """The same processes with one dimension cut into several."""
        number = self._number(dim)
        if not self._names:
            raise ValueError("`mesh_dim_names` of the mesh are needed to unflatten it")
        if len(self._dims[number]) > 1:
            raise NotImplementedError("a flattened dimension is not cut again: slice its root")
        ((size, stride),) = self._dims[number]
        if math.prod(mesh_sizes) != size or len(mesh_sizes) != len(mesh_dim_names):
            raise ValueError(
                f"sizes {tuple(mesh_sizes)} named {tuple(mesh_dim_names)} do not fit a dimension of {size}"
            )
        new = [((n, stride * math.prod(mesh_sizes[k + 1 :])),) for k, n in enumerate(mesh_sizes)]
        made = [self._group_along(p, n) for p, n in zip(new, mesh_dim_names)]
        replaced = slice(number, number + 1)
        rows: list[list] = [list(self._dims), list(self._names), list(self._groups)]
        for row, into in zip(rows, (new, mesh_dim_names, made)):
            row[replaced] = into
        return self._made(*rows)

    @staticmethod
    def _concatenate(device_mesh_list: Sequence[DeviceMesh]) -> DeviceMesh:
        """A mesh with the dimensions of several that were cut out of one root."""
        first = device_mesh_list[0]
        if any(each._get_root_mesh() is not first._get_root_mesh() for each in device_mesh_list):
            raise RuntimeError("Mesh views must have the same root mesh")
        return first._made(
            [pairs for each in device_mesh_list for pairs in each._dims],
            [name for each in device_mesh_list for name in each._names or ()],
            [name for each in device_mesh_list for name in each._groups],
        )

    @staticmethod
    def from_group(
        group: ProcessGroup | Sequence[ProcessGroup], device_type: str, mesh: Any = None, *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:  # fmt: skip
        """A mesh of groups that are there already, one for each dimension."""
        if isinstance(group, ProcessGroup):
            if mesh is not None and rushlight.as_tensor(mesh).tolist() != group.ranks:
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {group.ranks}")
            mesh, group = group.ranks, [group]
        if not group:
            raise ValueError("Expects at least one ProcessGroup to be passed")
        if mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if made.ndim != len(group):
            raise ValueError(
                f"Expects mesh with ndim equal to number of ProcessGroups but got mesh {made.mesh.tolist()} and "
                f"{len(group)} ProcessGroups"
            )
        made._groups = [each.group_name for each in group]
        return made


def _join(count: int) -> None:
    """Make the default group if there is none. RuntimeError if it is smaller than the mesh."""
    if not groups.is_initialized():
        groups.init_process_group()
    size = groups.get_world_size()
    if count > size:
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {size}, but found {count} ranks!"
        )


def current_mesh() -> DeviceMesh:
    """The mesh of the innermost `with mesh:`."""
    if not _entered:
        raise RuntimeError("No device mesh is currently active!")
    return _entered[-1]


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:  # fmt: skip
    """A mesh of the first processes of the job, in the order of their ranks."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique. "
                f"Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}"
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}."
            )
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    mesh = rushlight.arange(math.prod(mesh_shape), dtype=rushlight.int32).view(tuple(mesh_shape))
    return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names)

"""The groups that are known, and the default one.

Note [Ranks as threads]
`distributed_c10d._world` has the groups of this process. A program may put another object with its attributes there, as
PyTorch's own tests do: one that has other groups in each thread. Then threads stand for processes, as long as a backend of the
program's own carries their calls; MPI knows only processes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight.distributed.process_group import ProcessGroup
    from rushlight.distributed.store import Store

__all__ = ["GroupMember", "group"]


class _World:
    """Groups, and what is known about each: the names of the attributes are PyTorch's."""

    def __init__(self) -> None:
        self.default_pg: ProcessGroup | None = None
        self.pg_map: dict[ProcessGroup, tuple[str, Store]] = {}
        self.pg_names: dict[ProcessGroup, str] = {}
        self.pg_group_ranks: dict[ProcessGroup, dict[int, int]] = {}
        self.pg_backend_config: dict[ProcessGroup, str] = {}
        self.tags_to_pg: dict[str, list[ProcessGroup]] = {}
        self.pg_to_tag: dict[ProcessGroup, str] = {}
        self.group_count = 0  # how many have been made since there is a default group


_world = _World()


def known() -> Any:
    """The groups that are known where this is called: Note [Ranks as threads]."""
    module = sys.modules.get("rushlight.distributed.distributed_c10d")
    return _world if module is None else module._world


class _Member(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # PyTorch's name
        return known().default_pg

    @WORLD.setter
    def WORLD(cls, made: ProcessGroup | None) -> None:
        known().default_pg = made


class GroupMember(metaclass=_Member):
    """`NON_GROUP_MEMBER` is what `new_group` gives processes that are not in the group."""

    NON_GROUP_MEMBER = -100


class group(metaclass=_Member):
    """`group.WORLD` is the default group."""


def register(
    made: ProcessGroup, name: str, config: str, tag: str = "", like: ProcessGroup | None = None
) -> ProcessGroup:  # fmt: skip
    """Know a group under a name, and together with its ranks under a tag; `like` is the one of a program's own behind it.

    `config` says the backend of each device.
    """
    world = known()
    world.pg_map[made] = (made.backend, made.store)
    world.pg_group_ranks[made] = {rank: k for k, rank in enumerate(made.ranks)}
    world.pg_backend_config[made] = config
    world.pg_names[made] = name
    tag = f"user:{tag}" if tag else "" if world.default_pg is None else f"ptd:{name}"
    world.pg_to_tag[made] = tag
    world.tags_to_pg.setdefault(tag, []).append(made)
    if like is not None:
        world.pg_names[like] = name
    return made


def is_known(made: ProcessGroup) -> bool:
    """Whether a group is registered."""
    return made in known().pg_map


def of_name(name: str) -> ProcessGroup | None:
    """The group that is registered under a name."""
    return next((made for made in known().pg_map if made.group_name == name), None)


def tag_of(made: ProcessGroup) -> str:
    """The tag of a group; one that a program gave without what stands before it in the table."""
    return known().pg_to_tag[made].removeprefix("user:")


def of_tag(tag: str, ranks: Sequence[int]) -> ProcessGroup | None:
    """The group of these ranks with a tag."""
    full = tag if not tag or tag.startswith(("ptd:", "user:")) else f"user:{tag}"
    return next(
        (made for made in known().tags_to_pg.get(full, ()) if made.ranks == list(ranks)), None
    )


def forget(made: ProcessGroup) -> None:
    """Forget a group; with the default one, all."""
    world = known()
    tables = (
        world.pg_map, world.pg_names, world.pg_group_ranks, world.pg_backend_config, world.pg_to_tag
    )  # fmt: skip
    if made is world.default_pg:
        world.default_pg, world.group_count = None, 0
        for table in (*tables, world.tags_to_pg):
            table.clear()
        return
    world.tags_to_pg[world.pg_to_tag[made]].remove(made)
    for table in tables:
        table.pop(made, None)
    world.pg_names.pop(getattr(made, "made", None), None)

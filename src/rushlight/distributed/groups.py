"""Process groups: the default one, which `init_process_group` makes, and groups of some of its processes."""

from __future__ import annotations

import os
import socket
import types
import warnings
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, NoReturn

from rushlight.core.device import device as Device
from rushlight.distributed import group_table, world
from rushlight.distributed.backends import ExtensionGroup, on_cpu
from rushlight.distributed.constants import default_pg_timeout
from rushlight.distributed.debug import DebugLevel, checked, get_debug_level
from rushlight.distributed.gloo import ProcessGroupGloo
from rushlight.distributed.group_table import GroupMember, group
from rushlight.distributed.process_group import MPIProcessGroup, ProcessGroup
from rushlight.distributed.rendezvous import rendezvous
from rushlight.distributed.store import HashStore, PrefixStore, Store
from rushlight.distributed.tcp_store import TCPStore

__all__ = [
    "Backend", "BackendConfig", "GroupMember", "destroy_process_group", "get_backend", "get_backend_config", "get_default_backend_for_device", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size",
    "group", "init_process_group", "is_backend_available", "is_initialized", "new_group", "new_subgroups",
    "new_subgroups_by_enumeration", "shrink_group", "split_group",
]  # fmt: skip


class BackendPlugin(NamedTuple):
    """How a backend that a program has registered makes groups."""

    creator_fn: Callable
    extended_api: bool


class Backend(str):
    """The name of a backend, in small letters. All mean MPI on the CPU."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = (
        "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    )  # fmt: skip
    backend_list = [UNDEFINED, GLOO, NCCL, MPI]
    default_device_backend_map = {"cpu": MPI}
    backend_capability = {
        GLOO: ["cpu", "cuda"], NCCL: ["cuda"], UCC: ["cpu", "cuda"], MPI: ["cpu", "cuda"], XCCL: ["xpu"],
        FAKE: ["cpu", "cuda", "hpu", "xpu"],
    }  # fmt: skip
    _plugins: dict[str, BackendPlugin] = {}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, got {name!r}")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls, name: str, func: Callable, extended_api: bool = False, devices: str | Sequence[str] | None = None
    ) -> None:  # fmt: skip
        """Let `init_process_group(name)` and `new_group` make groups by `func(store, rank, size, timeout)`; with
        `extended_api` by `func(options, pg_options)`.
        """
        name = name.lower()
        if not hasattr(cls, name.upper()):
            setattr(cls, name.upper(), name)
        if name not in cls.backend_list:
            cls.backend_list.append(name)
        if devices is None:
            warnings.warn(
                f"Device capability of {name} unspecified, assuming `cpu` and `cuda` or `xpu`. Please specify it via "
                "the `devices` argument of `register_backend`.",
                stacklevel=2,
            )
            devices = ["cpu", "cuda", "xpu"]
        cls.backend_capability[name] = [devices] if isinstance(devices, str) else list(devices)
        cls._plugins[name.upper()] = BackendPlugin(func, extended_api)


class BackendConfig:
    """The backend for tensors of each device that a name means: `gloo` alone, or `cpu:gloo,cuda:nccl`."""

    def __init__(self, backend: str) -> None:
        name, found = str(backend), {}
        if name == Backend.UNDEFINED:
            found = dict(Backend.default_device_backend_map)
        elif ":" not in name:
            devices = Backend.backend_capability.get(name.lower(), ["cpu", "cuda", "xpu"])
            found = dict.fromkeys(devices, name)
        for pair in name.lower().split(",") if ":" in name else ():
            device, _, each = pair.partition(":")
            wrong = (
                f"Invalid device:backend pairing: {pair}" if not each
                else f"Duplicate device type {device} in backend string: {each}" if device in found
                else ""
            )  # fmt: skip
            if wrong:
                raise ValueError(
                    f"{wrong}. The custom backend string argument is invalid: {name}: it must be in the format "
                    "'<device_type1>:<backend1>,<device_type2>:<backend2>...', as 'cpu:gloo,cuda:nccl'"
                )
            found[device] = each
        self.device_backend_map: dict[str, str] = found

    def __repr__(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())

    def get_device_backend_map(self) -> dict[str, str]:
        """The names by devices."""
        return self.device_backend_map


_TAKEN = {"mpi", "gloo", "nccl", "undefined"}


_rounds = 0  # how often this process made a default group
_said: set[str] = set()


def is_initialized() -> bool:
    """Whether there is a default group.

    >>> is_initialized()
    False
    """
    return GroupMember.WORLD is not None


def is_backend_available(backend: str) -> bool:
    """Whether a backend of this name can be asked for: mpi, gloo and nccl, which all mean MPI."""
    if backend.upper() in Backend._plugins:
        return True
    return backend.lower() in _TAKEN - {"undefined"} and world.is_installed()


def _engine(backend: Any) -> str:
    """The name that was asked for. AssertionError for one that is not known."""
    name = Backend(Backend.UNDEFINED if backend is None else backend)
    for each in name.split(","):
        known = each.split(":")[-1]
        if known not in _TAKEN and known.upper() not in Backend._plugins:
            raise AssertionError(
                f"Unknown backend type {known}: Rushlight has mpi; gloo and nccl mean the same"
            )
    return name


def _plugin(name: str) -> BackendPlugin | None:
    """The backend of a program's own that a name means for tensors of the CPU."""
    return Backend._plugins.get(on_cpu(name).upper())


def _extension(
    plugin: BackendPlugin, rank: int, ranks: Sequence[int], store: Store, timeout: timedelta, backend: str, name: str,
    desc: str, options: Any, tag: str = "",
) -> ExtensionGroup:  # fmt: skip
    """A group that a program's own backend makes."""
    store = PrefixStore(f"group/{name}", store)
    if plugin.extended_api:
        asked = types.SimpleNamespace(
            store=store, group_rank=rank, group_size=len(ranks), timeout=timeout, group_id=name,
            global_ranks_in_group=list(ranks),
        )  # fmt: skip
        group = plugin.creator_fn(asked, options)
    else:
        group = plugin.creator_fn(store, rank, len(ranks), timeout)
    made = ExtensionGroup(group, ranks, store, timeout, backend, name, desc)
    group_table.register(made, name, repr(BackendConfig(backend)), tag, group)
    return made


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None,
    world_size: int = -1, rank: int = -1, store: Store | None = None, group_name: str = "",
    pg_options: Any = None, device_id: Any = None, _ranks: list[int] | None = None,
) -> None:  # fmt: skip
    """Join the job and make the default group.

    Processes that mpiexec started are a job already. Others meet in `store`, or in the one at `init_method`:
    `env://` (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; the default), `tcp://host:port`, `file:///path`.
    """
    if GroupMember.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None and world_size <= 0:
        raise AssertionError("world_size must be positive if using store")
    if store is not None and rank < 0:
        raise AssertionError("rank must be non-negative if using store")
    name = _engine(backend)
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    timeout = timeout or default_pg_timeout
    if store is None and _plugin(name) is None and _is_mpi_s(world_size):
        job = world.join(None, -1, -1, timeout)
        store = _store_of_mpi(job, timeout)
    else:
        if store is None:
            store, rank, world_size = next(
                rendezvous(init_method or "env://", rank, world_size, timeout)
            )
        round_ = store.add("rounds", 1) - 1  # the store may serve several jobs, one after the other
        store = PrefixStore(f"default_pg/{round_ // max(world_size, 1)}", store)
        if (plugin := _plugin(name)) is not None:
            GroupMember.WORLD = _extension(
                plugin, rank, range(world_size), store, timeout, name, "0", "default_pg", pg_options
            )
            return
        job = world.join(lambda: store, rank, world_size, timeout)
    if job.rank == 0 and name not in ("mpi", "undefined") and name not in _said:
        _said.add(name)
        warnings.warn(f"backend '{name}' means MPI on tensors of the CPU here", stacklevel=2)
    job.watch(store)
    global _rounds
    _rounds += 1
    world.store_barrier(store, f"made/{_rounds}", job.rank, job.size, timeout)
    members = list(range(job.size))
    GroupMember.WORLD = _group(
        job.communicator.Dup(), members, store, timeout, name, "0", "default_pg"
    )


def _store_based_barrier(
    rank: int, store: Store, group_name: str, rendezvous_count: int, timeout: timedelta
) -> None:
    """Wait in a store until so many have come."""
    world.store_barrier(
        store, f"store_based_barrier_key:{group_name}", rank, rendezvous_count, timeout
    )


def _is_mpi_s(size: int) -> bool:
    """Whether the job is the one that mpiexec started, and not one that a store makes."""
    if not world.launched():
        return False
    size = size if size > 0 else int(os.environ.get("WORLD_SIZE", "-1"))
    given = os.environ.get("PMI_SIZE") or os.environ.get("OMPI_COMM_WORLD_SIZE")
    return size < 0 or given is None or int(given) == size


def _store_of_mpi(job: world.World, timeout: timedelta) -> Store:
    """A store that rank 0 serves, whose address MPI carries."""
    address, served = None, None
    if job.rank == 0:
        served = TCPStore("127.0.0.1", 0, is_master=True, timeout=timeout, wait_for_workers=False)
        address = (socket.gethostname(), served.port)
    world.settle(job.communicator.Ibarrier(), timeout)
    host, port = job.communicator.bcast(address)
    if served is not None:
        return served
    here = host == socket.gethostname()
    return TCPStore("127.0.0.1" if here else host, port, timeout=timeout)


def _group(
    communicator: Any, ranks: Sequence[int], store: Store, timeout: timedelta, backend: str, name: str, desc: str,
    tag: str = "",
) -> ProcessGroup:  # fmt: skip
    kind = ProcessGroupGloo if "gloo" in backend else MPIProcessGroup
    made = kind.__new__(kind)
    MPIProcessGroup.__init__(
        made, communicator, ranks, PrefixStore(f"group/{name}", store), timeout,
        "mpi" if backend == "undefined" else backend, name, desc,
    )  # fmt: skip
    group_table.register(made, name, repr(BackendConfig(made.backend)), tag)
    return checked(made) if get_debug_level() is DebugLevel.DETAIL else made


def _get_default_group() -> ProcessGroup:
    """The default group. ValueError without one."""
    if GroupMember.WORLD is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )
    return GroupMember.WORLD


def _resolve(group: Any) -> ProcessGroup:
    """The group that an argument means."""
    if group is None:
        return _get_default_group()
    if not isinstance(group, ProcessGroup):
        _get_default_group()
    elif group_table.is_known(group):
        return group
    elif isinstance(group, ProcessGroupGloo | ExtensionGroup) and not group.group_name:
        return group  # a program has made it itself
    elif not isinstance(group, MPIProcessGroup | ExtensionGroup):
        return _extension_group(group)
    raise ValueError(
        f"Group {group} is not registered, please create group with torch.distributed.new_group API"
    )


_wrapped: weakref.WeakKeyDictionary[ProcessGroup, ExtensionGroup] = weakref.WeakKeyDictionary()


def _extension_group(group: ProcessGroup) -> ExtensionGroup:
    """A group of a program's own class that it has made itself, as the calls need it."""
    if group not in _wrapped:
        made = ExtensionGroup(
            weakref.proxy(group), range(group.size()), HashStore(), default_pg_timeout, "custom", "", "undefined"
        )  # fmt: skip
        _wrapped[group] = made
    return _wrapped[group]


def named(name: str) -> ProcessGroup:
    """The group of a name."""
    found = group_table.of_name(name)
    if found is None:
        raise RuntimeError(f"Could not resolve the process group registered under the name {name}")
    return found


def of_ranks(ranks: Sequence[int]) -> ProcessGroup:
    """The group of these ranks of the job."""
    for known in group_table.known().pg_map:
        if known.ranks == list(ranks):
            return known
    raise ValueError(f"There is no group of the ranks {ranks}: make it with new_group")


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forget a group; without one, or with the default one, all groups."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    known = GroupMember.WORLD if group is None else group
    if known is None:
        raise AssertionError("Process group cannot be None")
    if not group_table.is_known(known):
        raise ValueError("Invalid process group specified or has been destroyed")
    group_table.forget(known)


def _rank_not_in_group(group: Any) -> bool:
    """Whether a group is what `new_group` gives processes that are not in it."""
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process in a group, -1 if it is not in it."""
    if _rank_not_in_group(group):
        return -1
    return _resolve(group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """How many processes a group has, -1 if this one is not in it."""
    if _rank_not_in_group(group):
        return -1
    return _resolve(group).size()


def get_backend(group: ProcessGroup | None = None) -> Backend:
    """The name of the backend that was asked for."""
    if _rank_not_in_group(group):
        raise ValueError("Invalid process group specified")
    return Backend(_resolve(group).backend)


def get_default_backend_for_device(device: Any) -> str:
    """The backend for tensors of a device: "mpi", for the CPU.

    >>> get_default_backend_for_device("cpu")
    'mpi'
    """
    kind = Device(device).type
    if kind != "cpu":
        raise ValueError(f"Default backend not registered for device : {kind}")
    return Backend.MPI


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """The backend of each device: "cpu:mpi,cuda:mpi"."""
    return str(BackendConfig(_resolve(group).backend))


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The ranks in the job of the processes of a group."""
    return list(_resolve(group).ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in a group of a rank in the job."""
    if group is None:
        raise ValueError(
            "Group None is not registered, please create group with torch.distributed.new_group API"
        )
    known = _resolve(group)
    if known is GroupMember.WORLD:
        return global_rank
    if global_rank not in known.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return known.ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank in the job of a number in a group."""
    known = _resolve(group)
    if known is GroupMember.WORLD:
        return group_rank
    if not 0 <= group_rank < known.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return known.ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine: LOCAL_RANK."""
    for name in ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"):
        if name in os.environ:
            return int(os.environ[name])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, "
        "assuming you are not running in a multi-device context and want the code to run locally instead."
    )


def get_pg_count() -> int:
    """How many groups there are."""
    return len(group_table.known().pg_map)


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: Any = None, pg_options: Any = None,
    use_local_synchronization: bool = False, group_desc: str | None = None, device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:  # fmt: skip
    """A group of some processes. All processes of the job call it, in the same order."""
    return _new_group_with_tag(
        ranks, timeout, backend, pg_options, None, use_local_synchronization, group_desc, device_id,
        sort_ranks,
    )  # fmt: skip


def _new_group_with_tag(
    ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: Any = None, backend_options: Any = None,
    pg_tag: str | None = None, use_local_synchronization: bool = False, group_desc: str | None = None, device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:  # fmt: skip
    """As `new_group`; the group that exists where one of these ranks was made with the tag."""
    default = _get_default_group()
    size = default.size()
    members = list(range(size)) if ranks is None else [int(each) for each in ranks]
    if len(members) > size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for each in members:
        if not 0 <= each < size:
            raise ValueError(
                f"Rank {each} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})"
            )
    if len(set(members)) != len(members):
        raise ValueError(f"ranks list must not contain duplicate entries, got {members}")
    if sort_ranks:
        members = sorted(members)
    name = _next_name(members, use_local_synchronization)
    if default.rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    if pg_tag and (existing := group_table.of_tag(f"user:{pg_tag}", members)) is not None:
        return existing
    limit = timeout or default.timeout
    mine, store = members.index(default.rank()), PrefixStore(f"of/{members[0]}", default.store)
    world.store_barrier(PrefixStore(f"new/{name}", store), "joined", mine, len(members), limit)
    asked = default.backend if backend is None else _engine(backend)
    desc = group_desc or "undefined"
    if (plugin := _plugin(asked)) is not None:
        return _extension(
            plugin, mine, members, store, limit, asked, name, desc, backend_options, pg_tag or ""
        )
    if not isinstance(default, MPIProcessGroup):
        raise ValueError(f"a group of MPI needs a default group of MPI, which is {default.backend}")
    chosen = default._communicator.group.Incl(members)
    tag = int(name.rsplit("/", 1)[-1]) % 32767
    communicator = default._communicator.Create_group(chosen, tag)
    return _group(communicator, members, store, limit, asked, name, desc, pg_tag or "")


def _find_or_create_pg_by_ranks_and_tag(tag: str, ranks: list[int], stride: int) -> ProcessGroup:
    """This process's group of `stride` neighbours in a list of ranks, with a tag."""
    if len(ranks) % stride:
        raise ValueError(f"Ranks length ({len(ranks)}) must be divisible by stride ({stride})")
    rows = [ranks[k : k + stride] for k in range(0, len(ranks), stride)]
    mine = sorted(next(row for row in rows if get_rank() in row))
    found = group_table.of_tag(tag, mine)
    if found is None and not tag:
        raise ValueError("Cannot automatically create PG with empty tag")
    return found or _new_group_with_tag(mine, pg_tag=tag)


# Groups of different processes that are made at once have one name. They have no member in common: keys of stores have the first.
_local_names: weakref.WeakKeyDictionary[ProcessGroup, dict[tuple[int, ...], int]] = (
    weakref.WeakKeyDictionary()  # by the default group
)


def _next_name(members: list[int], local: bool) -> str:
    """A name that all members make alike: groups are counted, or those of just these members."""
    known = group_table.known()
    if not local:
        known.group_count += 1
        return str(known.group_count)
    counts = _local_names.setdefault(known.default_pg, {})
    count = counts[tuple(members)] = counts.get(tuple(members), 0) + 1
    return f"{'_'.join(map(str, members))}/{count}"


def new_subgroups(
    group_size: int | None = None, group: ProcessGroup | None = None, timeout: timedelta | None = None,
    backend: Any = None, pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Groups of `group_size` neighbours each: this process's, and all."""
    members = get_process_group_ranks(group)
    size = len(members)
    if group_size is None:
        raise ValueError("group_size is needed on the CPU")
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})"
        )
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    ranks = [members[k : k + group_size] for k in range(0, size, group_size)]
    return new_subgroups_by_enumeration(ranks, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: timedelta | None = None, backend: Any = None,
    pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Groups of the given ranks, none in two: this process's, and all."""
    if ranks_per_subgroup_list is None or len(ranks_per_subgroup_list) == 0:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: set[int] = set()
    for ranks in ranks_per_subgroup_list:
        if both := seen & set(ranks):
            raise ValueError(f"Rank {min(both)} has appeared in both subgroups")
        seen |= set(ranks)
    made = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        for ranks in ranks_per_subgroup_list
    ]
    mine = [each for each in made if each != GroupMember.NON_GROUP_MEMBER]
    return (mine[0] if mine else None), made


def split_group(
    parent_pg: ProcessGroup | None = None, split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None, pg_options: Any = None, group_desc: str | None = None, backend: Any = None,
) -> ProcessGroup | None:  # fmt: skip
    """The group of those of `split_ranks`, ranks in the parent, that this process is among; None if it is in none.

    The processes of the parent call it, with the same ranks.
    """
    parent = _resolve(parent_pg)
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    every = [rank for row in split_ranks for rank in row]
    if len(set(every)) != len(every):
        raise ValueError("the split group cannot have duplicate ranks")
    mine = next((row for row in split_ranks if parent.rank() in row), None)
    if mine is None:
        return None
    return _new_group_with_tag(
        [parent.ranks[rank] for rank in sorted(mine)], timeout or parent.timeout, backend or parent.backend, pg_options,
        use_local_synchronization=True, group_desc=group_desc or f"{parent.group_desc}:split", sort_ranks=False,
    )  # fmt: skip


def shrink_group(
    ranks_to_exclude: list[int], group: ProcessGroup | None = None, shrink_flags: int = 0, pg_options: Any = None
) -> NoReturn:  # fmt: skip
    """TypeError: groups lose no processes while their calls run; `new_group` makes one of those that are left."""
    if not isinstance(ranks_to_exclude, list):
        raise TypeError(f"ranks_to_exclude must be a list, but got {type(ranks_to_exclude).__name__}.")  # fmt: skip
    if not ranks_to_exclude:
        raise ValueError("ranks_to_exclude cannot be empty.")
    known = _resolve(group)
    if known.size() <= 1:
        raise ValueError(f"Cannot shrink a process group with size {known.size()}.")
    raise TypeError(f"Process group backend for '{known.group_name}' does not support shrinking operations.")  # fmt: skip

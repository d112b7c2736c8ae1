"""The import hook: programs that `import torch` get Rushlight.

    python -m rushlight script.py --epochs 3        # or, first obj in a program:
    import rushlight; rushlight.install_as_torch()

`torch` is then this very package: `torch.nn.Linear is rushlight.nn.Linear`. A module of PyTorch that
Rushlight lacks raises ModuleNotFoundError and a name that it lacks AttributeError, so that programs can fall
back; both texts name the coverage page. Processes that `multiprocessing` starts get the same hook.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import FunctionType, ModuleType
from typing import Any

import rushlight
from rushlight.compat import private_names
from rushlight.core import lazy
from rushlight.dispatch import methods
from rushlight.serialization.pytorch_modules import MODULES

__all__ = ["install_as_torch"]

# PyTorch's modules that have another name in Rushlight.
_RENAMED = {
    "torch._C._functorch": "rushlight._C._functorch",
    "torch._C._distributed_c10d": "rushlight._C._distributed_c10d",
    "torch._C._nn": "rushlight._C._nn",
    "torch._C._profiler": "rushlight._C._profiler",
    "torch._prims": "rushlight.compat.prims",
    "torch._prims_common": "rushlight.compat.prims_common",
    "torch.multiprocessing.pool": "multiprocessing.pool",
    "torch.multiprocessing.queue": "multiprocessing.queues",
    "torch._refs._conversions": "rushlight._refs._conversions",
    "torch.fx._symbolic_trace": "rushlight.fx._symbolic_trace",
    "torch.fx._pytree": "rushlight.fx._pytree",
    "torch._tensor": "rushlight.core.tensor",
    "torch.masked._ops": "rushlight.masked",
    "torch._VF": "rushlight.compat.variable_functions",
    "torch._vmap_internals": "rushlight.compat.older_vmap",
    "torch._functorch": "rushlight.compat.functorch.eager_transforms",
    "torch._functorch.apis": "rushlight.func",
    "torch._functorch.eager_transforms": "rushlight.compat.functorch.eager_transforms",
    "torch._functorch.make_functional": "rushlight.compat.functorch",
    "torch._functorch.vmap": "rushlight.func.batching",
    "torch._jit_internal": "rushlight.jit",
    "torch.utils._pytree": "rushlight.utils._pytree",
    "torch.utils._dtype_abbrs": "rushlight.utils._dtype_abbrs",
    "torch.utils._device": "rushlight.utils._device",
    "torch.utils._mode_utils": "rushlight.utils._mode_utils",
    "torch.utils._python_dispatch": "rushlight.utils._python_dispatch",
    "torch.cuda.amp.common": "rushlight.cuda.amp",
    "torch.optim.lr_scheduler": "rushlight.optim.lr_scheduler",
    "torch.amp.autocast_mode": "rushlight.amp",
    "torch.amp.grad_scaler": "rushlight.amp",
    "torch.cuda.amp.autocast_mode": "rushlight.cuda.amp",
    "torch.cuda.amp.grad_scaler": "rushlight.cuda.amp",
    "torch.nn.utils.clip_grad": "rushlight.nn.utils.clip_grad",
    "torch.nn.utils._per_sample_grad": "rushlight.nn.utils._per_sample_grad",
    "torch._dynamo._trace_wrapped_higher_order_op": "rushlight._dynamo",
    "torch.nn.attention.bias": "rushlight.nn.attention_bias",
    "torch.nn.attention.flex_attention": "rushlight.nn.flex_attention",
    "torch.nn.utils._named_member_accessor": "rushlight.nn.utils._named_member_accessor",
    "torch.nn._reduction": "rushlight.nn._reduction",
    "torch.nn.parallel.distributed": "rushlight.distributed.data_parallel",
    "torch.nn.parallel.scatter_gather": "rushlight.nn.scatter_gather",
    "torch.distributed._composable": "rushlight.distributed._composable",
    "torch.distributed._composable.checkpoint_activation": "rushlight.distributed._composable.checkpoint_activation",
    "torch.distributed._composable.contract": "rushlight.distributed._composable.contract",
    "torch.distributed._composable.replicate": "rushlight.distributed._composable.replicate",
    "torch.distributed._composable.fsdp": "rushlight.distributed.fsdp",
    "torch.distributed.algorithms._checkpoint": "rushlight.distributed.algorithms",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper": "rushlight.distributed.algorithms.checkpoint_wrapper",
    "torch.distributed.algorithms._optimizer_overlap": "rushlight.distributed.algorithms._optimizer_overlap",
    "torch.distributed.algorithms._optimizer_overlap.optimizer_overlap": "rushlight.distributed.algorithms._optimizer_overlap",
    "torch.distributed.elastic.multiprocessing": "rushlight.distributed.elastic.multiprocessing",
    "torch.distributed.elastic.agent.server.api": "rushlight.distributed.elastic.agent.server",
    "torch.distributed.elastic.agent.server.local_elastic_agent": "rushlight.distributed.elastic.agent.server",
    "torch.distributed.elastic.multiprocessing.api": "rushlight.distributed.elastic.multiprocessing",
    "torch.distributed.elastic.multiprocessing.errors": "rushlight.distributed.elastic.errors",
    "torch.distributed.elastic.multiprocessing.errors.error_handler": "rushlight.distributed.elastic.errors",
    "torch.distributed.elastic.multiprocessing.errors.handlers": "rushlight.distributed.elastic.errors",
    "torch.distributed.elastic.multiprocessing.redirects": "rushlight.distributed.elastic.redirects",
    "torch.distributed.elastic.multiprocessing.tail_log": "rushlight.distributed.elastic.tail_log",
    "torch.distributed.elastic.events.api": "rushlight.distributed.elastic.events",
    "torch.distributed.elastic.metrics.api": "rushlight.distributed.elastic.metrics",
    "torch.distributed.elastic.rendezvous.api": "rushlight.distributed.elastic.rendezvous",
    "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend": "rushlight.distributed.elastic.c10d_rendezvous",
    "torch.distributed.elastic.rendezvous.dynamic_rendezvous": "rushlight.distributed.elastic.dynamic_rendezvous",
    "torch.distributed.elastic.rendezvous.utils": "rushlight.distributed.elastic.endpoints",
    "torch.distributed.elastic.rendezvous.registry": "rushlight.distributed.elastic.rendezvous",
    "torch.distributed.elastic.rendezvous.static_tcp_rendezvous": "rushlight.distributed.elastic.rendezvous",
    "torch.distributed.elastic.timer.api": "rushlight.distributed.elastic.timer",
    "torch.distributed.elastic.timer.file_based_local_timer": "rushlight.distributed.elastic.timer",
    "torch.distributed.elastic.timer.local_timer": "rushlight.distributed.elastic.timer",
    "torch.distributed.elastic.utils.data": "rushlight.distributed.elastic.data",
    "torch.distributed.elastic.utils.distributed": "rushlight.distributed.elastic.utils",
    "torch.distributed.elastic.utils.logging": "rushlight.distributed.elastic.utils",
    "torch.distributed.elastic.utils.store": "rushlight.distributed.elastic.utils",
    "torch.distributed.launcher.api": "rushlight.distributed.launcher",
    "torch.distributed._tensor": "rushlight.distributed.tensor",
    "torch.distributed._functional_collectives": "rushlight.distributed._functional_collectives",
    "torch.distributed.fsdp.api": "rushlight.distributed.fsdp",
    "torch.distributed.fsdp._fully_shard": "rushlight.distributed.fsdp",
    "torch.distributed.fsdp._fully_shard._fsdp_api": "rushlight.distributed.fsdp",
    "torch.distributed._tensor.api": "rushlight.distributed.tensor.api",
    "torch.distributed._tensor.experimental": "rushlight.distributed.tensor.experimental",
    "torch.distributed.tensor.experimental._attention": "rushlight.distributed.tensor.context_parallel",
    "torch.distributed._tensor.device_mesh": "rushlight.distributed.device_mesh",
    "torch.distributed._tensor.placement_types": "rushlight.distributed.tensor.placement_types",
    "torch.distributed.tensor._api": "rushlight.distributed.tensor.api",
    "torch.distributed.tensor._random": "rushlight.distributed.tensor.random",
    "torch.distributed.tensor._utils": "rushlight.distributed.tensor.spec",
    "torch.distributed.tensor.experimental._func_map": "rushlight.distributed.tensor.experimental",
    "torch.distributed.tensor.device_mesh": "rushlight.distributed.device_mesh",
    "torch.distributed.checkpoint._consolidate_hf_safetensors": "rushlight.distributed.checkpoint.hf_storage",
    "torch.distributed.checkpoint._dedup_tensors": "rushlight.distributed.checkpoint._dedup_save_plans",
    "torch.distributed.checkpoint._dedup_save_plans": "rushlight.distributed.checkpoint._dedup_save_plans",
    "torch.distributed.checkpoint._nested_dict": "rushlight.distributed.checkpoint._nested_dict",
    "torch.distributed.checkpoint._traverse": "rushlight.distributed.checkpoint._traverse",
    "torch.distributed._shard": "rushlight.distributed._shard",
    "torch.distributed._shard.metadata": "rushlight.distributed._shard.sharding_spec",
    "torch.distributed._shard.sharded_tensor.api": "rushlight.distributed._shard.sharded_tensor",
    "torch.distributed._shard.sharded_tensor.metadata": "rushlight.distributed._shard.sharding_spec",
    "torch.distributed._shard.sharded_tensor.shard": "rushlight.distributed._shard.sharded_tensor",
    "torch.distributed._shard.sharding_spec.api": "rushlight.distributed._shard.sharding_spec",
    "torch.distributed._shard.sharding_spec.chunk_sharding_spec": "rushlight.distributed._shard.sharding_spec",
    "torch.optim.adamw": "rushlight.optim.adam",
    "torch.utils._contextlib": "rushlight.utils._contextlib",
    "torch.utils._foreach_utils": "rushlight.utils._foreach_utils",
    "torchvision.models._utils": "rushlight.vision.models.blocks",
    "torchvision.ops.boxes": "rushlight.vision.ops",
    "torchvision.ops.misc": "rushlight.vision.ops",
    "torchvision.transforms.transforms": "rushlight.vision.transforms",
    "functorch": "rushlight.compat.functorch",
    "functorch.experimental": "rushlight.compat.functorch.experimental",
    "functorch.experimental.control_flow": "rushlight._higher_order_ops.control_flow",
}
_PAGE = "docs/coverage.md lists what Rushlight has"


def install_as_torch() -> None:
    """Make `import torch`, `torch.nn`, `torchvision`... in this process mean Rushlight.

    Calling it again changes nothing. RuntimeError if PyTorch itself is loaded already.

    >>> import rushlight
    >>> rushlight.install_as_torch()
    >>> import torch.nn.functional as F
    >>> F is rushlight.nn.functional
    True
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    for name in ("torch", "torchvision"):
        if name in sys.modules:
            raise RuntimeError(
                f"[install_as_torch] {name} is imported already, from {_origin(sys.modules[name])}: call "
                "rushlight.install_as_torch() before anything imports it, or run the program by "
                "`python -m rushlight script.py`"
            )
    sys.meta_path.insert(0, _Finder())
    for name in set(_PROCESSES) & set(sys.modules):
        _PROCESSES[name](sys.modules[name])
    # Programs compare it with releases of PyTorch; rushlight.version.release is that of Rushlight.
    rushlight.__version__ = rushlight.torch_version.TorchVersion(rushlight.version.__version__)
    rushlight.__name__ = _Name(rushlight.__name__)
    for module in [m for name, m in sys.modules.items() if name.startswith("rushlight.")]:
        _name_classes(module)
        _name_operators(module)
        _list_whole(module)
    methods.PACKAGE = "torch"
    rushlight.Tensor.__module__ = "torch"


def _origin(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "an unknown place"


# The modules of PyTorch that classes say they are of.
_HAVE_CLASSES = frozenset(name for rows in MODULES.values() for name in rows)


class _Name(str):
    """A module's name, "rushlight.optim" for Python's imports; it compares and hashes as "torch.optim" for programs."""

    __slots__ = ()

    @property
    def _theirs(self) -> str:
        return "torch" + self.removeprefix("rushlight")

    def __eq__(self, other: object) -> bool:
        return other == self._theirs

    def __ne__(self, other: object) -> bool:
        return other != self._theirs

    def __hash__(self) -> int:
        return hash(self._theirs)


class _Finder:
    """Finds `torch...`, `torchvision...` and `functorch...`, before every other finder."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        if top == "rushlight" or fullname in _PROCESSES:
            return _followed(fullname, path)
        if top not in ("torch", "torchvision", "functorch"):
            return None
        known = fullname in sys.modules
        module = _module(fullname)
        if not known:  # what `_name_classes` has set: importlib would load the file once more
            sys.modules.pop(fullname, None)
        if module is None:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: not implemented in Rushlight, which stands for PyTorch "
                f"here; {_PAGE}",
                name=fullname,
            )
        return ModuleSpec(
            fullname, _Loader(module), origin=getattr(module, "__file__", None),
            is_package=hasattr(module, "__path__"),
        )  # fmt: skip

    def find_distributions(self, context: Any = None) -> list[Any]:
        """What `importlib.metadata.version("torch")` is told, and the same of torchvision."""
        from importlib.metadata import DistributionFinder

        wanted = (context or DistributionFinder.Context()).name
        return [
            _distribution(name, import_module(module).__version__)
            for name, module in (("torch", "rushlight"), ("torchvision", "rushlight.vision"))
            if wanted is None or wanted.lower() == name
        ]


def _distribution(name: str, version: str) -> Any:
    """An installed package of that name, as `importlib.metadata` describes one."""
    from importlib.metadata import Distribution
    from pathlib import Path

    class Named(Distribution):
        def read_text(self, filename: str) -> str | None:
            if filename != "METADATA":
                return None
            return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

        def locate_file(self, path: Any) -> Any:
            return Path(rushlight.__path__[0]).parent / path

    return Named()


class _Loader:
    """Returns a module that exists already, unchanged."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.own = {k: v for k, v in vars(module).items() if k in ("__spec__", "__loader__")}

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def get_code(self, fullname: str) -> Any:
        """For `python -m rushlight -m torch.utils.collect_env`: the code that runs as the main program."""
        own = self.own["__spec__"]
        return own.loader.get_code(own.name)

    def exec_module(self, module: ModuleType) -> None:
        # The import has written torch's spec into the module: its relative imports would fail.
        name = module.__spec__.name if module.__spec__ else ""
        vars(module).update(self.own)
        private_names.add(name, module)
        if name == "torch.nn":  # `import torch.nn as nn; nn.functional...`
            private_names.add("torch.nn.functional", module.functional)
            private_names.add("torch.nn.init", module.init)
        if _is_package(name) and not hasattr(module, "__path__"):
            module.__path__ = []  # a package in PyTorch: without it, imports of its parts fail


def _module(fullname: str) -> ModuleType | None:
    """The module of Rushlight for one of PyTorch's, or None."""
    return _of_that_name(fullname) or _of_its_classes(fullname)


def _is_package(fullname: str) -> bool:
    """Whether PyTorch's module of this name holds others that have their things elsewhere in Rushlight."""
    inside = fullname + "."
    return any(each.startswith(inside) for rows in (_RENAMED, *MODULES.values()) for each in rows)


def _of_its_classes(fullname: str) -> ModuleType | None:
    """For a module of PyTorch whose classes are in other files here: one with all names of these files."""
    files = [_imported(f"rushlight.{own}") for own, rows in MODULES.items() if fullname in rows]
    if not files and not _is_package(fullname):
        return None
    made = ModuleType(fullname, "PyTorch's module; what is in it is elsewhere in Rushlight.")

    def __getattr__(name: str) -> Any:
        for file in files:
            if hasattr(file, name):
                return getattr(file, name)
        raise AttributeError(f"module {fullname!r} has no attribute {name!r}; {_PAGE}")

    made.__getattr__ = __getattr__  # type: ignore[method-assign]
    return made


def _of_that_name(fullname: str) -> ModuleType | None:
    if fullname in _RENAMED:
        return _imported(_RENAMED[fullname])
    top, *parts = fullname.split(".")
    if top == "functorch":
        return None
    if fullname == "torch._utils":
        return _names_in_pickles(fullname)
    if top == "torchvision":
        return _imported(".".join(["rushlight", "vision", *parts]))
    ours = ".".join(["rushlight", *parts])
    if parts and parts[0] not in rushlight._SUBMODULES:
        return None  # only Rushlight has it: `import torch.core` must fail as in PyTorch
    if ours in sys.modules:
        return sys.modules[ours]
    if len(parts) > 1 and parts[-1].startswith("_"):
        return None
    if parts and isinstance(
        getattr(sys.modules.get(ours.rpartition(".")[0]), parts[-1], None), type
    ):
        return None  # `import torch.Tensor`: a class, not a module
    return _imported(ours)


def _imported(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            return None
        raise  # a package that a module of Rushlight needs


def _names_in_pickles(module: str) -> ModuleType:
    """A module with the functions that PyTorch's files name: `torch._utils._rebuild_tensor_v2`."""
    from rushlight.serialization.names import plain_names

    made = ModuleType(module, "What checkpoints call by name.")
    for full, obj in plain_names().items():
        at, _, name = full.rpartition(".")
        if at == module:
            setattr(made, name, getattr(obj, "meaning", obj))
    return made


# -- names of classes ------------------------------------------------------------------------------

# Note [Names of classes]
# Where Rushlight stands for PyTorch its classes say that they are of PyTorch's modules: `torch.nn.modules.linear.Linear`. Programs
# print that, ask for it (`m.__module__.startswith("torch.nn")`), and pickles hold it, so that PyTorch reads a pickle that
# was written here and the other way round. A class is named when its file is loaded.


def _followed(fullname: str, path: Any) -> ModuleSpec | None:
    """The ordinary spec of a module of Rushlight, or of one in `_PROCESSES`, whose loader does what is to be done after it."""
    spec = PathFinder.find_spec(fullname, path)
    if spec is not None and type(spec.loader) is SourceFileLoader:
        spec.loader = _Following(spec.loader.name, spec.loader.path)
    return spec


class _Following(SourceFileLoader):
    """Loads a file, then names its classes, or does what `_PROCESSES` says."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _PROCESSES.get(module.__name__, _name_classes)(module)
        _list_whole(module)


class _Whole(ModuleType):
    """A package whose files are loaded at the first use: its `__dict__` has all names, as PyTorch's.

    Programs look for classes there: `torch.optim.__dict__[name]`.
    """

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override] # an attribute of other modules
        found = super().__dict__
        for name in found["__dir__"]():
            if name not in found:
                getattr(self, name, None)
        return found

    def __reduce__(self) -> tuple:
        return import_module, (self.__name__,)


def _list_whole(module: ModuleType) -> None:
    """Make a module a `_Whole` if its names are those of `lazy.names`."""
    if getattr(vars(module).get("__getattr__"), "__module__", None) == lazy.__name__:
        module.__class__ = _Whole


def _name_classes(module: ModuleType) -> None:
    """Give the classes of a file the names of PyTorch's modules; the modules are at hand where `typing` looks for them."""
    ours = module.__name__
    own = ours.partition(".")[2]
    for theirs, names in MODULES.get(own, {}).items():
        named = frozenset(names.split())
        for cls in vars(module).values():
            own_class = isinstance(cls, type) and cls.__module__ == ours
            if own_class and cls.__qualname__ in named:
                cls.__module__ = theirs
        if theirs in (f"torch.{own}", f"torch.nn.modules.{own.removeprefix('nn.')}"):
            private_names.add(theirs, sys.modules.setdefault(theirs, module))
    if f"torch.{own}" in _HAVE_CLASSES:  # programs ask whether `cls.__module__ == module.__name__`
        private_names.add(f"torch.{own}", sys.modules.setdefault(f"torch.{own}", module))
        module.__name__ = _Name(ours)
    if own == "serialization.rebuild":
        _name_functions()


def _name_operators(module: ModuleType) -> None:
    """Give the public functions that were made before the hook was installed the names of PyTorch's modules."""
    for function in vars(module).values():
        if isinstance(function, FunctionType) and hasattr(function, "op"):
            package, dot, rest = function.__module__.partition(".")
            if package == "rushlight" and not rest.startswith("ops."):
                function.__module__ = "torch" + dot + rest


def _name_functions() -> None:
    """Give the functions that make tensors of what is in pickles the names by which PyTorch's pickles call them."""
    from rushlight.core.storage import TypedStorage
    from rushlight.serialization.copying import storage_from_bytes
    from rushlight.serialization.names import plain_names

    TypedStorage.untyped.__module__ = "torch.storage"
    named = {full: getattr(name, "meaning", None) for full, name in plain_names().items()}
    for full, function in {**named, "torch.storage._load_from_bytes": storage_from_bytes}.items():
        if isinstance(function, FunctionType):
            function.__module__, _, function.__qualname__ = full.rpartition(".")
            function.__name__ = function.__qualname__


# -- processes -------------------------------------------------------------------------------------


class _Installed:
    """Installs the hook in a new process: it is unpickled there before the program is loaded."""

    def __reduce__(self) -> tuple:
        return install_as_torch, ()


def _install_in_children(spawning: Any) -> None:
    original = spawning.get_preparation_data

    def get_preparation_data(*args: Any, **kwargs: Any) -> dict:
        return {"rushlight": _Installed(), **original(*args, **kwargs)}

    spawning.get_preparation_data = get_preparation_data


def _send_tensors(reduction: Any) -> None:
    """Let the standard library's queues and pipes send tensors in shared memory, as PyTorch's import does."""
    from rushlight.core.storage import TypedStorage, UntypedStorage
    from rushlight.nn.parameter import Buffer, Parameter

    def reduce(sent: Any) -> tuple:
        from rushlight.multiprocessing import (
            reductions,  # which registers them in the place of this one
        )

        return reductions.REDUCERS[type(sent)](sent)

    for kind in (rushlight.Tensor, Parameter, Buffer, UntypedStorage, TypedStorage):
        reduction.ForkingPickler.register(kind, reduce)


# Modules of others -> what is done once they are loaded
_PROCESSES = {
    "multiprocessing.reduction": _send_tensors,
    "multiprocessing.spawn": _install_in_children,
    "loky.backend.spawn": _install_in_children,
    "joblib.externals.loky.backend.spawn": _install_in_children,
}


# -- running a program -----------------------------------------------------------------------------


def run(argv: list[str]) -> None:
    """Run `script.py args...` or `-m module args...` as the main program, with the hook installed."""
    install_as_torch()
    if argv[0] == "-m":
        import runpy

        sys.argv[:] = argv[1:]
        sys.path[0] = ""
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    import os
    import tokenize

    script = os.path.abspath(argv[0])  # as Python does it: programs look for files beside them
    with tokenize.open(script) as file:  # in the encoding that the file declares
        source = file.read()
    sys.argv[:] = argv
    sys.path[0] = os.path.dirname(script)
    # A new module that is kept: its classes can be pickled, also at exit.
    main = ModuleType("__main__")
    main.__file__ = script
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    exec(compile(source, script, "exec"), main.__dict__)

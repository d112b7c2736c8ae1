"""`torch.jit` without a compiler: scripted and traced programs run as they are written.

`save` and `load` of compiled programs are not here: save the `state_dict`.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from opcode import opmap
from types import FunctionType
from typing import Any, NoReturn

from rushlight.core import settings
from rushlight.core.stub import Block, stub
from rushlight.nn import error_notes
from rushlight.nn.module import Module

__all__ = [
    "Attribute", "Error", "Future", "ScriptFunction", "ScriptModule", "ScriptWarning", "TracerWarning", "TracingCheckError", "annotate", "export", "fork",
    "freeze", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "optimize_for_inference", "save", "script", "script_if_tracing", "script_method", "trace",
    "trace_module", "unused", "wait",
]  # fmt: skip

_isinstance = isinstance  # the builtin; a function of that name is public here


class Error(Exception):
    """What a program raised, or asserted, in a scripted or traced module."""


class TracerWarning(Warning):
    """The category of PyTorch's warnings while tracing; never issued here: programs filter it."""


class ScriptWarning(Warning):
    """The category of PyTorch's warnings while scripting; never issued here."""


class TracingCheckError(Exception):
    """A trace that gives other results than the function; never raised here."""


_scripted: weakref.WeakSet[Any] = weakref.WeakSet()


class _Scripted(type):
    """isinstance(x, ScriptModule) is True for what was passed to `script` or `trace`, as programs test it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        kind = Module if cls is ScriptModule else FunctionType if cls is ScriptFunction else ()
        return _isinstance(instance, kind) and instance in _scripted


@stub("emulated", "What `script` and `trace` were given counts as an instance.")
class ScriptModule(Module, metaclass=_Scripted):
    """A module that was scripted or traced; a class of it is written as any module's."""


@stub("emulated", "What `script` and `trace` were given counts as an instance.")
class ScriptFunction(metaclass=_Scripted):
    """A function that was scripted or traced."""


def _replace(error: Exception, module: Any) -> None:
    """Raise the error that PyTorch has for an exception of Python's in a scripted module.

    `Error` where the program raised it or asserted, else RuntimeError. Scripted functions are the functions
    themselves, and their errors stay.
    """
    kind = type(error)
    if kind.__module__ != "builtins" or module not in _scripted:
        return
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    raised = at is not None and (
        at.tb_frame.f_code.co_code[at.tb_lasti] == opmap["RAISE_VARARGS"]
        and not at.tb_frame.f_globals.get("__name__", "").startswith("rushlight.")
    )
    if raised or kind is AssertionError:
        replaced: type[Exception] = Error
    elif isinstance(error, RuntimeError):
        return
    else:
        replaced = RuntimeError
    made = replaced(f"{kind.__name__}: {error}")
    made.__dict__.update(error.__dict__)  # the notes that say in which module it was
    raise made from error


error_notes.replacements.append(_replace)


def _program_of(obj: Any) -> Any:
    """What stands for the compiled program: of a function the function, of a module modules with the same tensors.

    The program has modes, hooks and submodules of its own: `eval()` of it leaves the module in training mode.
    """
    if _isinstance(obj, Module):
        return obj if obj in _scripted else _twin(obj, {})
    if _isinstance(obj, FunctionType):
        _scripted.add(obj)
    return obj


def _twin(module: Module, known: dict[int, Module]) -> Module:
    """A module with the attributes, parameters and buffers of `module`, and twins of the modules inside."""
    if id(module) not in known:
        made = known[id(module)] = Module.__new__(type(module))
        for name, value in vars(module).items():
            # Tables and hooks are copied, and what they hold is not; a module that was not registered stays.
            own = name in _TABLES and _isinstance(value, (dict, set))
            vars(made)[name] = value.copy() if own else value
        for name, child in made._modules.items():
            made._modules[name] = None if child is None else _twin(child, known)
        _scripted.add(made)
    return known[id(module)]


_TABLES = frozenset(
    name for name, value in vars(Module()).items() if _isinstance(value, (dict, set))
)


@stub(
    "identity",
    "There is no TorchScript compiler: it runs as it is written. Warns once. Of a module it is another module with the "
    "same tensors, whose errors are PyTorch's; of a function they are Python's.",
)
def script(
    obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:  # fmt: skip
    """A module with the tensors of `obj`, or the function or class itself: it runs as it is written. The first call warns."""
    if not callable(obj):
        raise RuntimeError(f"torch.jit.script expects a function, a module or a class, got {obj!r}")
    settings.warn_once(
        "torch.jit.script: Rushlight has no TorchScript compiler. The function or the module runs as it "
        "is written, in Python; see docs/stubs.md"
    )
    return _program_of(obj)


@stub(
    "identity",
    "There is no TorchScript compiler: it runs once with the example, and later as it is written.",
)
def trace(
    func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
    check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
    example_kwarg_inputs: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """What `script` gives, called once with `example_inputs`, so that a wrong example is an error here too."""
    import rushlight

    if not callable(func):
        raise TypeError(
            f"torch.jit.trace expects a function or a module, got {type(func).__name__}"
        )
    with rushlight.no_grad():
        if example_kwarg_inputs is not None:
            func(**example_kwarg_inputs)
        elif example_inputs is not None:
            single = not _isinstance(example_inputs, (tuple, list))
            func(*((example_inputs,) if single else example_inputs))
    return _program_of(func)


@stub(
    "identity",
    "There is no TorchScript compiler: it runs once with the example, and later as it is written.",
)
def trace_module(mod: Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Module:
    """What `script` gives of `mod`, each of the named methods called once with its inputs."""
    for name, given in inputs.items():
        trace(getattr(mod, name), given)
    return _program_of(mod)


def is_scripting() -> bool:
    """False: code runs as it is written."""
    return False


is_tracing = is_scripting


@stub("identity", "There is no TorchScript compiler: code runs as it is written.")
def _itself(fn: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The function, module or class it is given; a decorator, with or without arguments."""
    return fn if callable(fn) else (lambda fn: fn)


export = script_method = script_if_tracing = ignore = unused = interface = _overload = _itself
_overload_method = _itself


@stub("identity", "There is no TorchScript compiler: code runs as it is written.")
def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """`mod` itself. RuntimeError, as in PyTorch, while it is in training mode."""
    if getattr(mod, "training", False):
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your "
            "module before freezing."
        )
    return mod


optimize_for_inference = _itself


def annotate(the_type: Any, the_value: Any) -> Any:
    """`the_value`."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """The builtin `isinstance`; of `list[int]` and the like by their containers."""
    from typing import get_origin

    types = target_type if _isinstance(target_type, tuple) else (target_type,)
    return _isinstance(obj, tuple(get_origin(t) or t for t in types))


def Attribute(value: Any, type: Any) -> Any:
    """`value`: a typed attribute of a compiled class."""
    return value


class Future:
    """The result of `fork`, which is there already."""

    def __init__(self, value: Any = None) -> None:
        self._value = value

    def wait(self) -> Any:
        """The result."""
        return self._value


@stub("emulated", "The function runs at once, in the calling thread.")
def fork(func: Callable, *args: Any, **kwargs: Any) -> Future:
    """Call the function, now; its result by `wait`."""
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """The result of a `fork`."""
    return future.wait()


def _no_files(name: str) -> NoReturn:
    raise NotImplementedError(
        f"torch.jit.{name}: compiled programs are not written nor read by Rushlight; save the module's "
        "state_dict by torch.save, see docs/coverage.md"
    )


@stub("absent", "There is no TorchScript compiler: save the state_dict.")
def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Raise NotImplementedError: there is no compiled program to save."""
    _no_files("save")


@stub("absent", "There is no TorchScript compiler: save the state_dict.")
def load(f: Any, map_location: Any = None, _extra_files: Any = None) -> NoReturn:
    """NotImplementedError: compiled programs are not read."""
    _no_files("load")


@stub("no-op", "There is no TorchScript compiler: nothing is optimised or fused.")
@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block in which compiled code would be optimised or not."""
    yield


@stub("no-op", "There is no TorchScript compiler: nothing is optimised or fused.")
@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A block in which another fuser would be used."""
    yield


class _Final:
    """`Final[int]`: an annotation."""

    def __getitem__(self, kind: Any) -> Any:
        return kind


Final = _Final()


@stub("no-op", "There is no TorchScript compiler: nothing is optimised or fused.")
class strict_fusion(Block):
    """A block in which everything would have to be fused."""


@stub("no-op", "There is no TorchScript compiler: nothing is optimised or fused.")
def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Accepted for PyTorch's sake: nothing is fused. The strategy before: none."""
    return []


@stub("no-op", "There is no TorchScript compiler: nothing is optimised or fused.")
def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted for PyTorch's sake: nothing is fused."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


RecursiveScriptModule = TopLevelTracedModule = ScriptModule

"""LLVM's text to machine code in this process: compiled once per machine, found on disk afterwards.

>>> text = "define i64 @twice(i64 %x) {\\n  %y = add i64 %x, %x\\n  ret i64 %y\\n}"
>>> (address,) = load("an example", lambda: text, ["twice"])
>>> import ctypes
>>> ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(21)
42

Code stays where it is until the process ends, since its address may be anywhere. llvmlite is loaded
by the first call, not by the import of this module.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, lru_cache
from time import perf_counter
from typing import Any

from rushlight._codegen import cache as disk
from rushlight._codegen import linker

# Whether functions can be compiled by themselves: where it can be read of an object file what it needs.
UNITS = sys.platform == "linux"
PREFIX = "unit."
LOGGED = "kernels" in os.environ.get("RUSHLIGHT_LOG", "").split(",")
QUICK = "; quick\n"  # how a text begins that LLVM spends little time on
ENTRY = "; entry\n"  # and that of an entry
# What the code generator is spared for entries without vectors, with the usual values: better addresses in loops, another order of
# instructions, instructions chosen for a whole block at once. It takes half of the time; they run as fast.
SPARED = (
    ("disable-lsr", "true", "false"),
    ("enable-misched", "false", "true"),
    ("fast-isel", "true", "false"),
)
# What texts have of `lanes` loops, of sums that may be shared by lanes, of loops over `rounds`, of vectors.
LANES, REORDERED, UNROLLED = "llvm.loop.parallel_accesses", " reassoc ", "llvm.loop.unroll.count"
VECTOR = re.compile(r"<\d+ x ")

_loaded: dict[tuple, tuple[int, ...]] = {}
_units: set[str] = set()  # functions compiled by themselves that are in the process
_makers: dict[str, Callable[[], str]] = {}  # their texts
# LLVM's code generator is entered by one thread at a time. Held while the process forks, so that no
# child is born with LLVM's own locks taken by a thread that it does not have.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


@cache
def available() -> bool:
    """Whether machine code can be made: on CPython, with an llvmlite that reads opaque pointers."""
    if sys.implementation.name != "cpython":
        return False
    try:
        from llvmlite import __version__  # not the bindings, which take much longer to load
    except ImportError:
        return False
    return tuple(int(part) for part in __version__.split(".")[:2] if part.isdecimal()) >= (0, 45)


def load(key: str, text: Callable[[], str], names: Sequence[str]) -> tuple[int, ...]:
    """The addresses of functions of an LLVM module, compiled for this machine.

    `key` says all that the module's text depends on besides the compiler's own source; `text` is
    called where neither this process nor the disk has code for it. RuntimeError for text that LLVM
    does not take, and for a module that calls functions that are not there.
    """
    found = _loaded.get((key, *names))
    if found is None:
        with _lock:
            found = _loaded.get((key, *names))
            if found is None:
                found = _loaded[(key, *names)] = _load(key, text, names)
    return found


def unit(key: str, text: Callable[[str], str]) -> str:
    """The name of a function that is compiled by itself once a module is loaded that calls it.

    `key` is as for `load`; `text` gives the module that defines it, from its name.
    """
    with _lock:
        name = PREFIX + _entry(key)
        _makers[name] = lambda: text(name)
        return name


def _entry(key: str) -> str:
    import llvmlite

    return disk.key(key, *host(), llvmlite.__version__)


def _load(key: str, text: Callable[[], str], names: Sequence[str]) -> tuple[int, ...]:
    start = perf_counter()
    entry = _entry(key)
    code = disk.get(entry)
    how = "from disk"
    if code is None or not _load_units(code):
        code = _made(entry, text)
        how = "compiled"
    found = _linked(key, code, names)
    if LOGGED:
        log(f"{how} in {1e3 * (perf_counter() - start):.1f} ms: {key.partition(chr(10))[0]}")
    return found


def log(text: str) -> None:
    """Print a line of what RUSHLIGHT_LOG=kernels asks for."""
    print(f"rushlight: {text}", file=sys.stderr)


def _made(entry: str, text: Callable[[], str]) -> bytes:
    # Let go of here: it takes a while, and Ctrl-C would be lost in a destructor.
    written = text()
    code = _uninterrupted(_object_code, written)
    disk.put(entry, code)
    _load_units(code)
    return code


def _object_code(text: str) -> bytes:
    """The machine code of a module's text, as an object file."""
    with _optimised(text) as module:
        return _generated(module, text)


def _uninterrupted(f: Callable, *args: Any) -> Any:
    """`f(*args)`, with Ctrl-C behind it: what an exception leaves half freed, llvmlite frees again, and the process ends."""
    if threading.current_thread() is not threading.main_thread():
        return f(*args)
    import signal

    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is None:  # it is not Python's, which could not give it back
        return f(*args)
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        return f(*args)
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _generated(module: Any, text: str) -> bytes:
    """The machine code of a module, as an object file."""
    llvm, machine, _ = _machine()
    if not text.startswith(ENTRY) or LANES in text or VECTOR.search(text):
        return machine.emit_object(module)
    # Options of the whole process, for LLVM has no others: given back at once.
    for option, value, _ in SPARED:
        llvm.set_option("", f"--{option}={value}")
    try:
        return _entry_machine().emit_object(module)
    finally:
        for option, _, usual in SPARED:
            llvm.set_option("", f"--{option}={usual}")


def _load_units(code: bytes) -> bool:
    """Load the units that an object file calls; False if one is not on disk, and not known here
    either: the text of the module that calls it must be made anew, which makes it known."""
    for name in symbols(code)[1]:
        if not name.startswith(PREFIX) or name in _units:
            continue
        entry = name[len(PREFIX) :]
        found = disk.get(entry)
        if found is None or not _load_units(found):
            if name not in _makers:
                return False
            found = _made(entry, _makers[name])
        _symbol(name, *_linked(name, found, [name]))
        _units.add(name)
    return True


def _linked(key: str, code: bytes, names: Sequence[str]) -> tuple[int, ...]:
    defined, needed = symbols(code)
    missing = [name for name in needed if _address_of(name) is None]
    if defined is not None:
        missing += [name for name in names if name not in defined]
    if missing:
        raise RuntimeError(f"the native module {key!r} lacks the functions {missing}")
    if linker.available():
        found = linker.link(_object_file(code), lambda name: _address_of(name) or 0)
        return tuple(found[name] for name in names)
    llvm, machine, _ = _machine()
    # llvmlite's own memory manager puts code and constants into one block. LLVM's lets the system
    # place them, which in a process full of libraries is further apart than a jump can tell.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True)
    try:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return tuple(engine.get_function_address(name) for name in names)
    finally:
        # Never disposed of, also not at the end of the process: threads may be inside. (And the
        # machine, which all engines share, would go with it.)
        engine.detach()


_given: dict[str, int] = {}  # functions of this process that modules may call, by their names


def _symbol(name: str, address: int) -> None:
    _given[name] = address
    if not linker.available():
        _machine()[0].add_symbol(name, address)


def _address_of(name: str) -> int | None:
    """The address of a function that modules may call. (LLVM would end the process when it cannot find one.)"""
    if name not in _given:
        if not linker.available():
            return _machine()[0].address_of_symbol(name)
        found = linker.in_process(name)
        if found is None:
            return None
        _given[name] = found
    return _given[name]


@cache
def _machine() -> tuple[Any, Any, tuple[str, str]]:
    """llvmlite's bindings, the machine that code is made for, and that machine's name and features."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # for inline assembly
    name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    if (
        os.environ.get("RUSHLIGHT_AVX512") == "0"
    ):  # vectors of 256 bits, as other machines have them, which have no tiles either
        features = features.replace("+avx512", "-avx512").replace("+amx", "-amx")
    if "+avx512f" in features:
        features += ",-prefer-256-bit"  # LLVM would use half of a vector register otherwise
    return llvm, _target_machine(llvm, name, features, 3), (name, features)


@cache
def _entry_machine() -> Any:
    """The same machine, for the code of entries. (One that has taken `fast-isel` once keeps a part of it.)"""
    llvm, _, host = _machine()
    return _target_machine(llvm, *host, 1)


def _target_machine(llvm: Any, name: str, features: str, level: int) -> Any:
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name,
        features=features,
        opt=level,
        jit=True,
        codemodel="large" if linker.available() else "jitdefault",
    )


@cache
def host() -> tuple[str, str]:
    """The name of this machine's processor and its features, as LLVM calls them.

    LLVM is asked once per machine: its answer is kept on disk under what the system says of the processor.
    """
    import llvmlite

    described = processor()
    if not described:
        return _machine()[2]
    setting = os.environ.get("RUSHLIGHT_AVX512", "")
    entry = disk.key("host", described, setting, llvmlite.__version__)
    found = disk.get(entry)
    if found is None:
        found = "\n".join(_uninterrupted(_machine)[2]).encode()
        disk.put(entry, found)
    name, _, features = found.decode().partition("\n")
    return name, features


@cache
def has_masks() -> bool:
    """Whether the machine stores some lanes of a vector as fast as all of them, whatever their size."""
    features = host()[1]
    return "+avx512bw" in features and "+avx512vl" in features


def processor() -> str:
    """What Linux says of the first processor, but for what changes while it runs; "" elsewhere."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(16384).partition(b"\n\n")[0].decode()
    except OSError:
        return ""
    passing = (
        "processor",
        "cpu MHz",
        "bogomips",
        "BogoMIPS",
        "core id",
        "apicid",
        "initial apicid",
    )
    return "\n".join(line for line in text.splitlines() if not line.startswith(passing))


def _optimised(text: str) -> Any:
    module = _parsed(text)
    _optimise(module, text)
    return module


def _parsed(text: str) -> Any:
    module = _machine()[0].parse_assembly(text)
    module.verify()
    return module


def _optimise(module: Any, text: str) -> None:
    """Run the passes of LLVM that a module has use for.

    All of them take as long as the code generator, and most look for work that kernels do not have. The
    vectoriser and what prepares loops for it are for `lanes` loops, and for sums in any order (`fast`). Loops over
    vectors that a kernel writes itself keep what does not change in them (masks above all) unless it is moved out
    of them: their functions are simplified. Kernels that do so themselves (`quick`) and code without vectors, such
    as native entries, get by with a fifth of the time. Loops are written out several times where the kernel says
    so: LLVM's own copies made no kernel faster.
    """
    llvm, machine, _ = _machine()
    # Level 1 leaves out what looks for work that kernels do not have (functions to write out within
    # others, branches that others decide), at two thirds of the time of level 3 for the same code.
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    quick = text.startswith(QUICK)
    vectorised = not quick and (LANES in text or REORDERED in text)
    written = (
        not quick and not vectorised and VECTOR.search(text)
    )  # its vectors are the kernel's own
    options.loop_vectorization = vectorised
    options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager() if vectorised else llvm.create_new_module_pass_manager()
    if written:
        of_function = builder.getFunctionPassManager()
        for function in module.functions:
            if not function.is_declaration:
                of_function.run(function, builder)
        of_function.close()
    elif not vectorised:
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_loop_rotate_pass()
        passes.add_simplify_cfg_pass()
    if not vectorised and UNROLLED in text:
        passes.add_loop_unroll_pass()
        passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    for each in (passes, builder, options):  # not in destructors: Ctrl-C would be lost there
        each.close()


def object_file(texts: Iterable[str], exported: Collection[str]) -> bytes:
    """Modules as one object file for a linker, with only these names to be seen from outside of it.

    RuntimeError where it needs more than the C library.
    """
    with _lock:
        llvm, _, (name, features) = _machine()
        whole: Any = None
        for text in texts:
            module = _optimised(text)
            if whole is None:
                whole = module
            else:
                whole.link_in(module)
        for each in (*whole.functions, *whole.global_variables):
            if not each.is_declaration and each.name not in exported:
                each.linkage = "internal"
        target = llvm.Target.from_default_triple()
        with target.create_target_machine(name, features, 3, "pic", "default") as machine:
            code = machine.emit_object(whole)
        whole.close()
    missing = [s for s in symbols(code)[1] if s and linker.in_process(s) is None]
    if missing:
        raise RuntimeError(f"an object file would need {missing}")
    return code


def has_instructions() -> bool:
    """Whether this machine has the instructions that kernels are written with: an x86 without vectors of
    256 bits, fused multiply-adds and conversions of float16 (before 2013) computes those in calls."""
    features = host()[1].split(",")
    x86 = any(f in features for f in ("+sse2", "-sse2"))
    return not x86 or {"+avx2", "+fma", "+f16c"} <= set(features)


def optimised(text: str) -> str:
    """A module as text after LLVM's passes, for people to read."""
    with _lock, _optimised(text) as module:
        return str(module)


def assembly(text: str) -> str:
    """The machine code of a module as text, for people to read."""
    with _lock, _optimised(text) as module:
        return _machine()[1].emit_assembly(module)


def symbol(name: str, address: int) -> None:
    """Let modules that are loaded from now on call the function `name`, which stands at `address`."""
    with _lock:
        _symbol(name, address)


_object_file = lru_cache(8)(linker.ObjectFile)  # one that calls units is looked at three times


def symbols(code: bytes) -> tuple[set[str] | None, set[str]]:
    """The names that an object file defines and those that it needs; (None, {}) unless 64-bit ELF."""
    try:
        file = _object_file(code)
    except ValueError:
        return None, set()
    return file.defined, file.needed


def keep_alive(obj: Any) -> None:
    """Never free a Python object, also not while the interpreter shuts down: native code points to it.

    A global variable would not do: it is cleared before objects in reference cycles are, and those
    may hold, or call, what points here.
    """
    _increment()(obj)


@cache
def _increment() -> Callable[[object], None]:
    import ctypes

    return ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))

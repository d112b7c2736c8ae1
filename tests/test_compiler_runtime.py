"""What compiled kernels run on: code and its disk cache, threads, the pool behind NumPy's arrays, ufuncs."""

from __future__ import annotations

import ctypes
import os
import pathlib
import platform
import random
import shutil
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import rushlight
from processes import printed
from rushlight._codegen import cache, linker, native, parallel_ufuncs, product_sizes
from rushlight._codegen.frontend import has_stable_text
from rushlight._codegen.kernels import attention, gemm
from rushlight._codegen.language import NEAR, inline
from rushlight._codegen.runtime import memory, threads, workers
from rushlight._codegen.types import f32
from rushlight.core import settings

SRC = str(pathlib.Path(rushlight.__file__).parents[1])
LINUX = sys.platform == "linux"
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")


def twice(name="twice"):
    return f"define i64 @{name}(i64 %x) {{\n  %y = add i64 %x, %x\n  ret i64 %y\n}}"


def call(address, x):
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(x)


def refuse():
    raise AssertionError("it is there already")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache directory of the test's own, without the digest of the sources."""
    cache.sources()
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path / "cache"))
    cache._checked.cache_clear()
    yield tmp_path / "cache"
    cache._checked.cache_clear()


@pytest.fixture
def forget(monkeypatch):
    """What a new process knows of loaded code: nothing."""
    monkeypatch.setattr(native, "_loaded", {})
    return lambda: native._loaded.clear()


def python(code, **environment):
    """A program in another process; its output."""
    return printed(code, **environment).strip()


def child(work):
    """Run `work` in a forked child, which must end well within a minute."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks among threads
        pid = os.fork()
    if pid == 0:
        import signal

        signal.alarm(60)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


# --- code


def test_code_is_compiled_once_and_then_found(folder, forget):
    (address,) = native.load("k", twice, ["twice"])
    assert call(address, 21) == 42
    assert native.load("k", refuse, ["twice"]) == (address,)  # in this process
    forget()
    (again,) = native.load("k", refuse, ["twice"])  # on disk
    assert again != address
    assert call(again, 4) == 8 and call(address, 4) == 8
    assert native.load("other", lambda: twice("b"), ["b"]) != (again,)


def test_another_process_finds_it(folder):
    code = (
        "from rushlight._codegen import native\n"
        "def text(): print('compiled'); return 'define i64 @one() { ret i64 1 }'\n"
        "native.load('across', text, ['one'])"
    )
    where = {"RUSHLIGHT_CACHE_DIR": str(folder)}
    assert python(code, **where) == "compiled"
    assert python(code, **where) == ""


def test_what_keeps_code_on_disk_imports_nothing_large(folder):
    code = (
        "import os, sys\n"
        "from rushlight._codegen import cache\n"
        "key = cache.key('one')\n"
        "cache.put(key, b'code')\n"
        "mode = os.stat(os.path.join(cache.directory(), key)).st_mode & 0o777\n"
        "print(cache.get(key), oct(mode), 'tempfile' in sys.modules)"
    )
    assert python(code, RUSHLIGHT_CACHE_DIR=str(folder)) == "b'code' 0o600 False"


def test_importing_it_does_not_load_llvmlite():
    code = (
        "import sys, rushlight._codegen.native, rushlight._codegen.runtime.threads, rushlight._codegen.runtime.memory\n"
        "import rushlight._codegen.parallel_ufuncs\n"
        "assert rushlight._codegen.native.available()\n"
        "print('llvmlite.binding' in sys.modules)"
    )
    assert python(code) == "False"


def test_a_builtin_in_a_cycle_is_freed_while_the_interpreter_shuts_down(folder):
    """Its description (PyMethodDef) is there until then; what is freed is overwritten at once here."""
    give = (
        "declare void @Py_IncRef(ptr)\n"
        "define ptr @give(ptr %self, ptr %objects, i64 %count) {\n"
        "  call void @Py_IncRef(ptr %self)\n  ret ptr %self\n}"
    )
    code = (
        "import gc; gc.disable()\n"
        "from rushlight._codegen import kernel, native, python_api\n"
        "class Late: pass\n"
        "late = Late()\n"
        "python_api.resolve()\n"
        f"(address,) = native.load('give', lambda: {give!r}, ['give'])\n"
        "late.itself = kernel.builtin('give', address, late)\n"
        "print(late.itself() is late)"
    )
    overwritten = {"PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "170"}
    assert python(code, **overwritten) == "True"


TRAINED = """
import gc, os, sys, threading
gc.disable()
import rushlight as torch
from rushlight._codegen import dtype_entry
from rushlight._codegen.kernels import softmax

def train():
    x, y = torch.randn(8, 784, requires_grad=True), torch.randint(0, 10, (8,))
    model = torch.nn.Sequential(torch.nn.Linear(784, 64), torch.nn.GELU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    x[1:, None].expand(-1, 2, -1).softmax(-1).sort(-1)
    return x, model, optimizer

class Late:
    def __del__(self):
        train()

things = [*train(), dict(vars(softmax)), dtype_entry._behind, vars(torch.Tensor)["shape"], Late()]
things.append(things)
"""
ENDS = {
    "normally": (0, ""),
    "an exception": (1, "raise ValueError"),
    "sys.exit": (3, "sys.exit(3)"),
}
ENDS["an exception in backward"] = (
    1,
    """
def hook(g):
    raise ValueError(things)

x = torch.ones(9, requires_grad=True)
x.register_hook(hook)
(x * 2).sum().backward()
""",
)
ENDS["threads that run"] = (
    0,
    """
def forever():
    train()
    busy.wait()
    while True:
        train()

busy = threading.Barrier(3)
for _ in range(2):
    threading.Thread(target=forever, daemon=True).start()
busy.wait()
""",
)
ENDS["a forked child's exception"] = (
    1,
    """
child = os.fork()
train()
if child == 0:
    raise ValueError
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
""",
)


@forks
@pytest.mark.parametrize("end", ENDS)
def test_processes_with_compiled_kernels_end_without_a_crash(end):
    """Cycles of entries, modules and tensors live until the interpreter shuts down; what is freed is overwritten."""
    status, code = ENDS[end]
    overwritten = {"PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "170", "RUSHLIGHT_COMPILED": "1"}
    environment = {**os.environ, **overwritten, "PYTHONPATH": SRC}
    command = [sys.executable, "-c", TRAINED + code]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == status, done.stderr.decode()


def test_bad_modules_are_errors_and_do_not_end_the_process(folder):
    with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
        native.load("bad text", lambda: "define nonsense", ["f"])
    with pytest.raises(RuntimeError, match=r"lacks the functions \['absent_function'\]"):
        native.load(
            "calls what is not there",
            lambda: (
                "declare void @absent_function()\n"
                "define void @f() {\n  call void @absent_function()\n  ret void\n}"
            ),
            ["f"],
        )
    with pytest.raises(RuntimeError, match=r"lacks the functions \['g'\]"):
        native.load("has another name", lambda: "define void @f() { ret void }", ["g"])
    assert call(native.load("after", twice, ["twice"])[0], 3) == 6


def test_symbol_lets_modules_call_each_other(folder):
    (address,) = native.load("callee", twice, ["twice"])
    native.symbol("rushlight_test_twice", address)
    text = (
        "declare i64 @rushlight_test_twice(i64)\n"
        "define i64 @f(i64 %x) {\n  %y = call i64 @rushlight_test_twice(i64 %x)\n"
        "  %z = add i64 %y, 1\n  ret i64 %z\n}"
    )
    assert call(native.load("caller", lambda: text, ["f"])[0], 5) == 11


def test_a_module_with_constants_and_state_of_its_own(folder):
    text = """
    @started = internal global i64 40, align 64
    @calls = internal global [3 x i64] zeroinitializer, align 128
    @table = internal constant [4 x i64] [i64 7, i64 11, i64 13, i64 17], align 32
    declare double @log1p(double)
    define i64 @look(i64 %i) {
      %at = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
      %x = load i64, ptr %at
      ret i64 %x
    }
    define i64 @count(i64 %by) {
      %n = load i64, ptr @started
      %old = load i64, ptr getelementptr (i64, ptr @calls, i64 2)
      %new = add i64 %old, %by
      store i64 %new, ptr getelementptr (i64, ptr @calls, i64 2)
      %sum = add i64 %n, %new
      ret i64 %sum
    }
    define double @log_of_one_and(double %x) {
      %y = call double @log1p(double %x)
      ret double %y
    }
    """
    names = ["look", "count", "log_of_one_and"]
    look, count, log = native.load("state", lambda: text, names)
    assert [call(look, i) for i in range(4)] == [7, 11, 13, 17]
    assert [call(count, 1), call(count, 1), call(count, 5)] == [41, 42, 47]
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(log)(1.0) == np.log(2.0)


@pytest.mark.skipif(not linker.available(), reason="LLVM links on this machine")
@pytest.mark.parametrize(
    ("file", "computed"),
    [
        ("math", "torch.nn.functional.gelu(x + x).tanh() @ torch.ones(100_000, 2)"),
        ("lapack", "torch.linalg.lstsq(x[:900].view(30, 30), x[900:930, None]).solution"),
        ("fft", "torch.fft.irfft(torch.fft.rfft(x[:16_384].view(4, 4096))).abs()"),
        ("recurrent", "torch.nn.GRU(8, 16)(x[:960].view(10, 12, 8).requires_grad_())[0].sum().backward()"),
        ("rejection", "torch.distributions.Gamma(x.double().exp(), 2.0).sample()"),
        ("sort", "x[:4096].view(4, 1024).median(1).values"),
        ("winograd", "torch.conv2d(x[:65_536].view(1, 64, 32, 32), x[:36_864].view(64, 64, 3, 3))"),
        ("scan", "[f(x[:900]) for f in [torch.compile(lambda x: x.cumsum(0).exp() * 2)] * 3][2]"),
    ],
)  # fmt: skip
def test_kernels_on_disk_are_run_without_llvm_and_without_their_source(folder, file, computed):
    program = (
        "import sys, rushlight as torch\n"
        "_ = torch.manual_seed(0)\n"
        "x = torch.linspace(-3, 3, 100_000)\n"
        f"y = {computed}\n"
        f"read = ('llvmlite.binding', 'rushlight._codegen.ir', 'rushlight._codegen.kernels.{file}')\n"
        "print(y, *[name in sys.modules for name in read], sep='; ')"
    )
    here = {"RUSHLIGHT_CACHE_DIR": str(folder), "RUSHLIGHT_COMPILED": ""}
    first, second = (python(program, **here).split("; ") for _ in range(2))
    assert first[0] == second[0]
    assert first[1].strip() == "True"  # which kernels these are depends on the machine
    assert [each.strip() for each in second[1:]] == ["False"] * 3


def test_what_is_told_of_a_file_of_kernels_is_what_stands_in_it():
    program = """
import importlib, sys, rushlight
from rushlight._codegen import kernels
from rushlight._codegen.kernel import Entry
from rushlight._codegen.kernel_index import FUNCTIONS
from rushlight._codegen.types import f32
def facts(value):
    if not isinstance(value, Entry):
        return value
    names = value.open_names()
    return names, value.parameters, value._types(dict.fromkeys([*names, "R"], f32))
count = 0
for file in FUNCTIONS:
    if f"rushlight._codegen.kernels.{file}" not in sys.modules:
        unread = getattr(kernels, file)
        told = {name: getattr(unread, name) for name in kernels._functions_in(file)}
        before = {name: facts(value) for name, value in told.items()}
        read = vars(importlib.import_module(unread.__name__))
        for name, value in before.items():
            assert facts(read[name]) == value and read[name] == told[name], (file, name)
            count += isinstance(value, tuple)
print(count > 100)
"""
    assert printed(program) == "True\n"


def test_a_function_that_was_used_by_its_name_is_the_one_of_its_file():
    program = """
import sys, numpy as np, rushlight
from rushlight._codegen.kernels import elementwise, math
from rushlight._codegen.types import f32
before = math.exp, elementwise.fill
assert repr(math.exp) == "<inline function rushlight._codegen.kernels.math.exp>", math.exp
name = "rushlight._codegen.kernels.math"
assert name not in sys.modules
try:
    math.no_such_function
except AttributeError as error:
    assert "no_such_function" in str(error)
assert name in sys.modules and math.DIGITS == sys.modules[name].DIGITS
import rushlight._codegen.kernels.elementwise as read
assert (sys.modules[name].exp, read.fill) == before
assert math.exp.function.__name__ == "exp" and before[1].parameters == read.fill.parameters
assert math.log.function.__name__ == "log"  # asked for after the file was read
try:
    rushlight._codegen.kernels.no_such_file
except AttributeError as error:
    print("no_such_file" in str(error))
"""
    assert printed(program) == "True\n"


def test_numpy_keeps_its_own_allocator_and_threads():
    program = """
import numpy as np, rushlight as torch
from rushlight._backends import blas, llvm
from rushlight._codegen.runtime import memory
threads = blas.function("get_num_threads")
settings = lambda: (memory.installed(), threads and threads())
before = settings()
if EARLY:
    torch.compiler.keep_numpy()
assert (torch.ones(100_000) + 1).sum() == 200_000 and llvm.active
if not EARLY:
    assert memory.installed() == memory._possible() and (not threads or threads() == 1)
    torch.compiler.keep_numpy()
assert settings() == before
assert (torch.ones(100_000) + 1).sum() == 200_000
"""
    for early in (False, True):
        python(
            program.replace("EARLY", str(early)), RUSHLIGHT_COMPILED="", OPENBLAS_NUM_THREADS="2"
        )


def test_the_log_says_why_there_is_machine_code(folder):
    program = """
import os, sys
os.dup2(1, 2)
import rushlight as torch
x = torch.ones(100)
for _ in range(COUNT):
    x = x * 1
"""
    few, many = (
        python(program.replace("COUNT", count), RUSHLIGHT_LOG="kernels", RUSHLIGHT_COMPILED="")
        for count in ("100", "3000")
    )
    assert few == ""
    assert many.startswith(
        "rushlight: machine code from here on: calls on small arrays together counted "
    )
    assert "compiled in" in many


@pytest.mark.skipif(not linker.available(), reason="LLVM links on this machine")
def test_the_first_call_may_be_in_inference_mode():
    code = "import rushlight as t\nwith t.inference_mode(): print(t.zeros(2).cos().sum().item())"
    assert python(code, RUSHLIGHT_COMPILED="always") == "2.0"


def test_what_the_linker_does_not_know_is_refused():
    with pytest.raises(ValueError, match="not an object file"):
        linker.ObjectFile(b"MZ" + bytes(100))
    small = (
        native._machine()[0].Target.from_default_triple().create_target_machine(codemodel="small")
    )
    with native._optimised("@x = global i64 1 define ptr @f() { ret ptr @x }") as module:
        file = linker.ObjectFile(small.emit_object(module))
    with pytest.raises(ValueError, match="a relocation of kind"):
        linker.link(file, lambda name: 0)


def test_threads_that_load_at_once(folder, forget):
    """Every caller gets the same code, compiled once, also while children are born."""
    made, found = [], []

    def text(i):
        made.append(i)
        return twice(f"twice_{i}")

    def work():
        for i in range(20):
            found.append((i, native.load(f"at once {i}", lambda: text(i), [f"twice_{i}"])[0]))

    loaders = [threading.Thread(target=work) for _ in range(3)]
    for each in loaders:
        each.start()
    if hasattr(os, "fork"):

        def here():
            (address,) = native.load("of a child", lambda: twice("other"), ["other"])
            assert call(address, 3) == 6

        for _ in range(5):
            child(here)
    for each in loaders:
        each.join()
    assert sorted(made) == list(range(20)) and len(set(found)) == 20


def test_explanations():
    text = native.optimised("define i64 @f() {\n  %x = add i64 20, 22\n  ret i64 %x\n}")
    assert "ret i64 42" in text
    assert "f:" in native.assembly("define i64 @f() { ret i64 1 }")
    name, features = native.host()
    assert name and features


def test_loops_over_lanes_are_vectorised():
    text = """
    define void @f(ptr noalias %x, ptr noalias %y, i64 %n) {
    entry:
      br label %loop
    loop:
      %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
      %px = getelementptr float, ptr %x, i64 %i
      %v = load float, ptr %px
      %w = fadd float %v, %v
      %py = getelementptr float, ptr %y, i64 %i
      store float %w, ptr %py
      %i1 = add nuw nsw i64 %i, 1
      %more = icmp ult i64 %i1, %n
      br i1 %more, label %loop, label %done
    done:
      ret void
    }"""
    assert "x float>" not in native.optimised(text)
    text = (
        text.replace("label %done\n    done", "label %done, !llvm.loop !0\n    done")
        + """
    !0 = distinct !{!0, !1}
    !1 = !{!"llvm.loop.parallel_accesses", !2}
    !2 = distinct !{}"""
    )
    width = 16 if "+avx512f" in native.host()[1] else 4
    assert f"<{width} x float>" in native.optimised(text)
    assert "x float>" not in native.optimised(native.QUICK + text)


# --- the disk


def test_entries_that_do_not_check_are_written_anew(folder, forget):
    native.load("k", twice, ["twice"])
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    for broken in (b"", whole[:40], whole[:-1], whole + b"x", whole[:-9] + b"y" + whole[-8:]):
        path.write_bytes(broken)
        assert cache.get(path.name) is None
        forget()
        assert call(native.load("k", twice, ["twice"])[0], 3) == 6
        assert path.read_bytes() == whole


def test_an_entry_under_another_key_is_not_used(folder):
    a, b = cache.key("a"), cache.key("b")
    cache.put(a, b"code")
    os.rename(folder / a, folder / b)
    assert cache.get(b) is None


def test_the_key_holds_what_the_code_depends_on(monkeypatch):
    before = cache.key("k", "znver5")
    assert before == cache.key("k", "znver5") != cache.key("k", "znver4")
    monkeypatch.setattr(cache, "sources", lambda: "another version")
    assert cache.key("k", "znver5") != before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners here")
def test_a_directory_that_others_may_write_to_is_refused(folder):
    cache.put(cache.key("k"), b"code")
    assert cache.get(cache.key("k")) == b"code"
    assert folder.stat().st_mode & 0o777 == 0o700
    for mode in (0o722, 0o777, 0o770):
        folder.chmod(mode)
        cache._checked.cache_clear()
        assert cache.directory() is None and cache.get(cache.key("k")) is None
    folder.chmod(0o755)  # others may read
    cache._checked.cache_clear()
    assert cache.get(cache.key("k")) == b"code"


def test_a_directory_of_someone_else_is_refused(folder, monkeypatch):
    assert cache.directory() is not None
    cache._checked.cache_clear()
    monkeypatch.setattr(os, "geteuid", lambda: 12345, raising=False)
    assert cache.directory() is None


@pytest.mark.parametrize("value", ["", "relative/path", "/proc/nothing/here"])
def test_without_a_directory_there_is_no_cache(value, monkeypatch, forget):
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", value)
    assert cache.directory() is None
    cache.put(cache.key("k"), b"code")
    assert cache.get(cache.key("k")) is None
    assert call(native.load("no disk", twice, ["twice"])[0], 1) == 2


def test_where_the_directory_is(monkeypatch, tmp_path):
    monkeypatch.delenv("RUSHLIGHT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.directory() == str(tmp_path / "xdg" / "rushlight")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if LINUX:
        assert cache.directory() == str(tmp_path / "home" / ".cache" / "rushlight")


def test_old_entries_go_when_there_are_too_many(folder):
    names = [cache.key(str(i)) for i in range(10)]
    for i, name in enumerate(names):
        cache.put(name, bytes(1000))
        os.utime(folder / name, (i, i))
    (folder / ".new-lost").write_bytes(b"")  # of a process that was killed
    os.utime(folder / ".new-lost", (0, 0))
    assert cache.get(names[0]) is not None  # which makes it the newest
    cache.trim(8000)
    left = {each.name for each in folder.iterdir()}
    assert left == {names[0], *names[6:]}
    cache.trim(0)
    assert list(folder.iterdir()) == []


def test_trim_while_another_process_gives_a_file_its_name(folder, monkeypatch):
    """What is gone by the time it is looked at counts nothing; the rest is trimmed, the folder closed."""
    for i in range(4):
        cache.put(cache.key(str(i)), b"x" * 1000)
    (folder / ".new-gone").write_bytes(b"x")
    scandir, closed = os.scandir, []

    class Gone:
        def __init__(self, entry):
            self.entry, self.name, self.path = entry, entry.name, entry.path

        def stat(self, **options):
            if self.name == ".new-gone":
                os.unlink(self.path)
            return self.entry.stat(**options)

    class Entries:
        def __enter__(self):
            self.entries = scandir(folder)
            return sorted(map(Gone, self.entries), key=lambda e: e.name)

        def __exit__(self, *error):
            closed.append(True)
            self.entries.close()

    monkeypatch.setattr(os, "scandir", lambda path: Entries())
    cache.trim(0)
    monkeypatch.undo()
    assert (list(folder.iterdir()), closed) == ([], [True])


def test_processes_that_write_the_same_at_once(folder):
    code = (
        "import sys\nfrom rushlight._codegen import cache\n"
        "name = cache.key('same')\n"
        "for i in range(300):\n"
        "    cache.put(name, bytes([65 + int(sys.argv[1])]) * 50_000)\n"
        "    found = cache.get(name)\n"
        "    assert found is not None and len(found) == 50_000 and len(set(found)) == 1\n"
    )
    environment = {**os.environ, "PYTHONPATH": SRC, "RUSHLIGHT_CACHE_DIR": str(folder)}
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(i)], env=environment) for i in range(3)
    ]
    assert [each.wait(100) for each in running] == [0, 0, 0]
    assert len(list(folder.iterdir())) == 2  # it, and the digest of the sources


def test_the_digest_of_the_sources_is_that_of_the_files_as_they_are(tmp_path, monkeypatch):
    package = tmp_path / "package"
    shutil.copytree(
        pathlib.Path(SRC) / "rushlight", package / "rushlight", ignore=shutil.ignore_patterns("ops")
    )
    code = "from rushlight._codegen import cache\nprint(cache.sources())"
    where = {"PYTHONPATH": str(package), "RUSHLIGHT_CACHE_DIR": str(tmp_path / "cache")}

    def digest(**more):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **where, **more},
            capture_output=True,
            check=True,
        )
        return done.stdout

    first = digest()
    assert digest() == first == digest(RUSHLIGHT_CACHE_DIR="")
    path = package / "rushlight" / "_codegen" / "kernels" / "math.py"
    before = path.stat()
    text = path.read_text("utf-8")
    path.write_text(text.replace("Decimal", "decimaL", 1), "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as many bytes, as old
    changed = digest()
    assert changed != first and changed == digest(RUSHLIGHT_CACHE_DIR="")
    path.write_text(text, "utf-8")
    assert digest() == first


# --- threads

BODIES = """
; adds to the element at `low` the size of the chunk
define void @count(ptr %a, i64 %low, i64 %high) {
  %x = getelementptr i64, ptr %a, i64 %low
  %size = sub i64 %high, %low
  %old = atomicrmw add ptr %x, i64 %size seq_cst
  ret void
}
; the same from inside of a job
define void @nested(ptr %a, i64 %low, i64 %high) {
  %x = getelementptr i64, ptr %a, i64 %low
  %size = sub i64 %high, %low
  call void @rushlight_parallel(ptr @count, ptr %x, i64 %size, i64 3)
  ret void
}
; one chunk that takes a while
define void @slow(ptr %a, i64 %low, i64 %high) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %old = atomicrmw volatile add ptr %a, i64 1 seq_cst
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, 20000
  br i1 %more, label %loop, label %done
done:
  ret void
}
; sets floating-point exceptions: 1 / 0, 0 / 0, 1e300 * 1e300; stores the product of two small numbers
define void @raises(ptr %a, i64 %low, i64 %high) {
  %p = getelementptr double, ptr %a, i64 %low
  %x = load volatile double, ptr %p
  %zero = fsub double %x, %x
  %y = fdiv double %x, %zero
  %z = fdiv double %zero, %zero
  %square = fmul double %x, %x
  %tiny = fdiv double 1.0, %x
  %less = fmul double %tiny, 0x3D10000000000000
  %w = fadd double %y, %z
  %v = fadd double %w, %square
  store volatile double %v, ptr %p
  store volatile double %less, ptr %p
  ret void
}
; stores which thread runs a chunk
declare i64 @pthread_self()
define void @runner(ptr %a, i64 %low, i64 %high) {
  %p = getelementptr i64, ptr %a, i64 %low
  %thread = call i64 @pthread_self()
  store i64 %thread, ptr %p
  ret void
}
declare void @rushlight_parallel(ptr, ptr, i64, i64)
"""


@pytest.fixture(scope="module")
def bodies():
    threads.start()
    names = ("count", "nested", "slow", "raises", "runner")
    return dict(zip(names, native.load(f"test bodies {names}", lambda: BODIES, names), strict=True))


@pytest.fixture(autouse=True)
def as_many_threads_as_before():
    before = settings.get_num_threads()
    yield
    settings.set_num_threads(before)


def chunks(n, grain, size=None):
    """What `count` leaves behind."""
    want = np.zeros(n if size is None else size, np.int64)
    for low in range(0, n, grain):
        want[low] = min(n, low + grain) - low
    return want


def run(body, array, n, grain):
    threads.parallel()(body, array.ctypes.data, n, grain)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_chunk_runs_once_and_is_the_same_for_any_number_of_threads(bodies, count):
    settings.set_num_threads(count)
    for n, grain in (
        (1, 1),
        (2, 1),
        (10, 3),
        (1000, 7),
        (1000, 1000),
        (1000, 5000),
        (4096, 1),
        (200_000, 1),
    ):
        for _ in range(20 if n < 5000 else 2):
            for more in (0, NEAR):
                a = np.zeros(n, np.int64)
                run(bodies["count"], a, n, grain + more)
                np.testing.assert_array_equal(a, chunks(n, grain))


def test_nothing_to_do_and_a_grain_that_says_nothing(bodies):
    a = np.zeros(5, np.int64)
    run(bodies["count"], a, 0, 1)
    run(bodies["count"], a, -3, 1)
    assert a.tolist() == [0] * 5
    run(bodies["count"], a, 5, 0)  # one chunk
    assert a.tolist() == [5, 0, 0, 0, 0]


def test_a_job_inside_of_a_job(bodies):
    settings.set_num_threads(3)
    for _ in range(50):
        a = np.zeros(1000, np.int64)
        run(bodies["nested"], a, 1000, 30)
        want = np.concatenate([chunks(min(30, 1000 - low), 3) for low in range(0, 1000, 30)])
        np.testing.assert_array_equal(a, want)


@pytest.mark.skipif(not LINUX, reason="workers are for Linux")
def test_workers_take_part(bodies):
    """Two threads that both count to see each other: without a second one nobody would."""
    settings.set_num_threads(2)
    a = np.zeros(1, np.int64)
    run(bodies["slow"], a, 8, 1)
    assert a[0] == 8 * 20_000
    assert len(os.listdir("/proc/self/task")) >= 2  # threads of others may have ended meanwhile


@pytest.mark.skipif(not LINUX, reason="workers are for Linux")
def test_small_jobs_are_not_shared_while_workers_are_far(bodies):
    """Where no answer is soon enough, a job of a grain of NEAR more has one runner, but for each that follows on the question."""
    settings.set_num_threads(2)
    of = threads._native()
    spins, ticks = of._pace()
    try:
        of.spins(spins, 0)
        a = np.zeros(8, np.int64)
        for _ in range(3 * workers._EVERY):
            run(bodies["count"], a, 2, 1)
        found = []
        for _ in range(100):
            run(bodies["runner"], a, 4, 1 + NEAR)
            found.append(len({*a[:4].tolist()}))
        assert (
            found.count(1) >= 92
        )  # where all sleep, a question that is due is asked by one job in sixteen
        a[:] = 0
        run(bodies["count"], a, 8, 1)
        assert a.tolist() == [1] * 8
    finally:
        of.spins(spins, ticks)
        for _ in range(2 * workers._EVERY):
            run(bodies["count"], a, 8, 1)


@pytest.mark.skipif(not LINUX, reason="workers are for Linux")
def test_small_jobs_make_workers_when_there_are_some():
    """A job of a grain of NEAR more that finds nobody awake is done by its caller, but for one in sixteen."""
    text = (
        "import os\nfrom rushlight._codegen import native\nfrom rushlight._codegen.language import NEAR\n"
        "from rushlight._codegen.runtime import threads\nfrom rushlight.core import settings\n"
        "settings.set_num_threads(2)\nrun = threads.parallel()\n"
        "text = 'define void @f(ptr %a, i64 %l, i64 %h) { ret void }'\n"
        "(f,) = native.load('nothing', lambda: text, ['f'])\n"
        "for _ in range(20): run(f, 0, 9, 1 + NEAR); print(len(os.listdir('/proc/self/task')))\n"
    )
    counts = [int(line) for line in printed(text).split()]
    assert counts == [counts[0]] * 15 + [counts[0] + 1] * 5


def test_many_callers_changing_numbers_of_threads_and_forks(bodies):
    """Every job is right whatever else goes on."""
    wrong = []

    def work(seed):
        chance = random.Random(seed)
        a = np.zeros(3000, np.int64)
        for _ in range(3000):
            n, grain = chance.randint(1, 3000), chance.randint(1, 40)
            want = chunks(n, grain, 3000)
            a[:] = 0
            run(bodies["count"], a, n, grain + chance.choice((0, NEAR)))
            if not np.array_equal(a, want):
                wrong.append((n, grain))
            if chance.random() < 0.01:
                settings.set_num_threads(chance.randint(1, 6))
            if chance.random() < 0.03:
                time.sleep(0.0003)  # long enough to fall asleep

    callers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for each in callers:
        each.start()
    if hasattr(os, "fork"):

        def here():
            a = np.zeros(500, np.int64)
            for _ in range(5):
                a[:] = 0
                run(bodies["count"], a, 500, 9)
                assert np.array_equal(a, chunks(500, 9))

        for _ in range(100):
            child(here)
    for each in callers:
        each.join()
    assert wrong == []


@forks
def test_a_child_has_threads_of_its_own(bodies):
    settings.set_num_threads(3)
    a = np.zeros(100, np.int64)
    run(bodies["count"], a, 100, 3)

    def work():
        b = np.zeros(1, np.int64)
        run(bodies["slow"], b, 6, 1)
        assert b[0] == 6 * 20_000
        if LINUX:
            assert len(os.listdir("/proc/self/task")) == 3

    child(work)


class Counts(rushlight.utils.data.Dataset):
    """Runs a job where it is read; how many threads the process has then."""

    def __init__(self, body):
        self.body = body

    def __len__(self):
        return 2

    def __getitem__(self, index):
        a = np.zeros(1, np.int64)
        run(self.body, a, 4, 1)
        assert a[0] == 4 * 20_000
        return rushlight.get_num_threads(), len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not LINUX, reason="workers are for Linux")
def test_a_loaders_worker_has_one_thread(bodies):
    settings.set_num_threads(3)
    a = np.zeros(1, np.int64)
    run(bodies["slow"], a, 8, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks among threads
        loader = rushlight.utils.data.DataLoader(Counts(bodies["slow"]), num_workers=1)
        found = [(int(settled), int(tasks)) for settled, tasks in loader]
    assert [settled for settled, _ in found] == [1, 1]
    # The loader's own threads, those of its queue, are no more than one.
    assert all(tasks <= 2 for _, tasks in found)


@pytest.mark.skipif(not LINUX, reason="workers are for Linux")
def test_a_core_that_is_taken_away_does_not_stop_the_job(bodies):
    """On one core, with another process on it and threads that it has no room for."""
    cores = os.sched_getaffinity(0)
    one = {min(cores)}
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(burner.pid, one)
        os.sched_setaffinity(0, one)  # threads that start now inherit it
        settings.set_num_threads(4)
        for _ in range(30):
            a = np.zeros(1, np.int64)
            run(bodies["slow"], a, 8, 1)
            assert a[0] == 8 * 20_000
    finally:
        os.sched_setaffinity(0, cores)
        burner.kill()
        burner.wait()


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads its register")
@pytest.mark.parametrize("count", [1, 4])
def test_floating_point_exceptions_stay_inside(bodies, count):
    text = """
    declare void @llvm.x86.sse.stmxcsr(ptr)
    define i64 @modes(i64 %x) {
      %at = alloca i32
      call void @llvm.x86.sse.stmxcsr(ptr %at)
      %word = load i32, ptr %at
      %wide = zext i32 %word to i64
      ret i64 %wide
    }"""
    (modes,) = native.load("reads modes", lambda: text, ["modes"])
    settings.set_num_threads(count)
    a = np.full(64, 1e300)
    before = call(modes, 0)
    run(bodies["raises"], a, 64, 1)
    assert call(modes, 0) == before
    raised = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    raised(bodies["raises"])(a.ctypes.data, 0, 1)  # the body alone does raise them
    assert call(modes, 0) & 0b101 == 0b101  # invalid, division by zero


@pytest.mark.parametrize("count", [1, 4])
def test_denormals_are_flushed_in_all_threads(bodies, count):
    settings.set_num_threads(count)
    for on in (True, False, True, False):
        assert rushlight.set_flush_denormal(on)
        try:
            a = np.full(64, 1e300)
            run(bodies["raises"], a, 64, 1)
        finally:
            rushlight.set_flush_denormal(False)
        assert (a == 0.0).all() if on else (a > 0.0).all()


def test_the_number_of_threads():
    code = "import rushlight; print(rushlight.get_num_threads())"
    assert python(code, OMP_NUM_THREADS="3") == "3"
    assert python(code, OMP_NUM_THREADS="2,1") == "2"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for value in ("", "0", "many"):
        assert python(code, OMP_NUM_THREADS=value) == str(cores)


@pytest.mark.skipif(not LINUX, reason="signals of threads are looked up in /proc")
def test_signals_are_left_to_python(bodies):
    code = (
        "import os, signal, time\n"
        "from rushlight._codegen import native\nfrom rushlight._codegen.runtime import threads\n"
        "import rushlight; rushlight.set_num_threads(3)\n"
        "text = 'define void @f(ptr %a, i64 %b, i64 %c) { ret void }'\n"
        "threads.parallel()(native.load('nothing', lambda: text, ['f'])[0], 0, 9, 1)\n"
        "def blocked():\n"
        "    for t in os.listdir('/proc/self/task'):\n"
        "        if int(t) != os.getpid():\n"
        "            status = open(f'/proc/self/task/{t}/status').read().split('SigBlk:')[1]\n"
        "            mask = int(status.split()[0], 16)\n"
        "            yield mask >> (signal.SIGINT - 1) & 1, mask >> 10 & 1\n"
        "end = time.monotonic() + 30\n"  # a thread has all signals blocked until it has started
        "while (1, 1) in (found := list(blocked())) and time.monotonic() < end: time.sleep(0.01)\n"
        "for pair in found: print(*pair)"
    )
    # OpenBLAS would have threads of its own.
    assert python(code, OPENBLAS_NUM_THREADS="1") == "1 0\n1 0"


# --- memory


@pytest.fixture
def pool():
    if not memory.install():
        pytest.skip("no pool here")
    memory.empty_cache()
    yield memory
    memory.uninstall()
    memory.empty_cache()


def test_arrays_get_the_memory_of_arrays_that_are_gone(pool):
    before = pool.memory_stats()
    first = np.ones(1 << 20)
    where = first.ctypes.data
    assert where % 64 == 0
    assert pool.memory_stats()["allocated"] == before["allocated"] + (8 << 20)
    del first
    assert pool.memory_stats()["cached"] >= 8 << 20
    second = np.empty(1 << 20)
    assert second.ctypes.data == where
    assert pool.memory_stats()["hits"] == before["hits"] + 1
    zeros = np.zeros(1 << 19)
    del zeros, second
    assert not np.zeros(1 << 20).any()  # the memory of `second`, cleared
    pool.empty_cache()
    assert pool.memory_stats()["cached"] == 0
    assert pool.memory_stats()["allocated"] == before["allocated"]


@pytest.mark.parametrize(
    ("kept", "asked", "gets"), [(8, 8, 8), (8, 7, 8), (8, 6, 8), (8, 5, 5), (7, 8, 8), (12, 8, 12)]
)
def test_arrays_get_kept_memory_of_the_next_two_sizes(pool, kept, asked, gets):
    """In MiB, of which sizes are 5, 6, 7, 8, 10, 12."""
    before = pool.memory_stats()
    x = np.empty(kept << 20, np.uint8)
    del x
    y = np.empty(asked << 20, np.uint8)
    found = pool.memory_stats()
    assert found["allocated"] == before["allocated"] + (gets << 20)
    assert found["hits"] == before["hits"] + (gets == kept)
    assert not np.zeros(asked << 20, np.uint8).any()
    del y
    assert pool.memory_stats()["allocated"] == before["allocated"]


def test_a_steady_loop_touches_no_new_page(pool):
    import resource

    def step():
        a = x + 1
        b = a * x
        c = np.concatenate([a, b])
        return (c - 1).sum() + np.zeros(3 << 18).sum()

    x = np.ones(1 << 20, np.float32)
    for _ in range(5):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        step()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 20  # less than one a step


def test_what_arrays_hold_is_theirs(pool):
    """Arrays of all sizes that come, grow, shrink and go keep what was written to them."""
    chance = random.Random(0)
    held = []

    def check(array, mark):
        assert array.ctypes.data % 16 == 0
        assert (array == mark).all()

    for step in range(3000):
        size = int(2 ** chance.uniform(0, 20))
        mark = step % 251
        kind = chance.random()
        if kind < 0.4:
            array = np.empty(size, np.uint8)
            array[:] = mark
            held.append([array, mark])
        elif kind < 0.5:
            array = np.zeros(size, np.uint8)
            assert not array.any()
            array[:] = mark
            held.append([array, mark])
        elif kind < 0.7 and held:
            array, mark = chance.choice(held)
            old = array.size
            array.resize(size, refcheck=False)
            assert (array[:old] == mark).all() and not array[old:].any()
            array[:] = mark
        elif held:
            array, mark = held.pop(chance.randrange(len(held)))
            check(array, mark)
        if step % 500 == 499:
            for array, mark in held:
                check(array, mark)
            pool.empty_cache()
    while held:
        check(*held.pop())
    assert len({id(array) for array, _ in held}) == len(held)


def test_arrays_outlive_the_pool_and_cross_threads(pool):
    inside = np.full(100_000, 3)
    made = []
    thread = threading.Thread(target=lambda: made.append((np.full(100_000, 4), memory.installed())))
    thread.start()
    thread.join()
    (outside, there) = made.pop()
    assert not there  # NumPy's allocator belongs to a context
    pool.uninstall()
    assert not pool.installed()
    before = pool.memory_stats()
    another = np.full(100_000, 5)
    assert pool.memory_stats() == before
    inside.resize(200_000, refcheck=False)  # still out of the pool
    assert (inside[:100_000] == 3).all() and (outside == 4).all() and (another == 5).all()
    holder = [inside]
    del inside
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()
    assert pool.memory_stats()["allocated"] < before["allocated"]


def test_what_is_kept_is_bounded(pool):
    base = pool.memory_stats()["allocated"]
    blocks = [np.empty(1 << 20, np.uint8) for _ in range(100)]
    del blocks
    assert pool.memory_stats()["cached"] == 100 << 20
    # As much again in other sizes: what nobody asks for goes.
    blocks = [np.empty(5 << 18, np.uint8) for _ in range(80)]
    found = pool.memory_stats()
    assert found["allocated"] == base + (100 << 20)
    assert found["allocated"] + found["cached"] <= found["peak"] * 5 // 4 + (64 << 20)
    del blocks
    limit = memory._pool().words[memory.MOST]
    try:
        pool.set_limit(10 << 20)
        assert pool.memory_stats()["cached"] <= 10 << 20
        blocks = [np.empty(1 << 20, np.uint8) for _ in range(30)]
        del blocks
        assert pool.memory_stats()["cached"] <= 10 << 20
    finally:
        pool.set_limit(limit)
    with pytest.raises(ValueError, match="-1"):
        pool.set_limit(-1)


def test_what_was_in_use_once_long_ago_goes_back(pool):
    blocks = [np.empty(10 << 20, np.uint8) for _ in range(30)]
    del blocks
    assert pool.memory_stats()["cached"] >= 300 << 20
    for _ in range(memory.WINDOW + 10):  # each comes and goes
        np.empty(1 << 16, np.uint8)
    found = pool.memory_stats()
    assert found["cached"] <= (64 << 20) + found["allocated"] // 4
    assert found["peak"] >= 300 << 20


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="this C library does not give single pages back"
)
def test_memory_between_arrays_that_stay_goes_back_to_the_system(pool):
    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(2):  # the first time each array may have a mapping of its own
        arrays = [np.ones(100_000) for _ in range(60)]
        last = arrays.pop()
        before = resident()
        del arrays
        pool.empty_cache()
        assert before - resident() > 40 << 20
        assert last.all()


def test_more_than_there_is(pool):
    before = pool.memory_stats()["allocated"]
    with pytest.raises(MemoryError):
        np.empty(1 << 60, np.uint8)
    with pytest.raises(MemoryError):
        np.empty(1 << 48, np.uint8)
    assert pool.memory_stats()["allocated"] == before
    assert np.ones(100_000).sum() == 100_000


def test_tracemalloc_sees_the_arrays(pool):
    import tracemalloc

    tracemalloc.start()
    try:
        kept = np.ones(1 << 20, np.uint8)
        seen = tracemalloc.get_traced_memory()[0]
        assert seen >= 1 << 20
        del kept
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


@forks
def test_a_child_goes_on_with_the_pool(pool):
    kept = np.arange(100_000)
    gone = np.ones(100_000)
    del gone

    def work():
        for _ in range(3):
            again = np.ones(100_000)
            assert again.sum() == 100_000 and (kept == np.arange(100_000)).all()
        pool.empty_cache()

    child(work)
    assert (kept == np.arange(100_000)).all() and np.ones(100_000).sum() == 100_000


# --- ufuncs

LOOP = """
define void @double_$T(ptr %args, ptr %dimensions, ptr %steps, ptr %data) {
entry:
  %n = load i64, ptr %dimensions
  %x = load ptr, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  %y = load ptr, ptr %second
  %dx = load i64, ptr %steps
  %step = getelementptr i64, ptr %steps, i64 1
  %dy = load i64, ptr %step
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %ox = mul i64 %i, %dx
  %oy = mul i64 %i, %dy
  %px = getelementptr i8, ptr %x, i64 %ox
  %py = getelementptr i8, ptr %y, i64 %oy
  %v = load $T, ptr %px
  %w = fadd $T %v, %v
  store $T %w, ptr %py
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


# Not every machine, nor every C library, converts to bfloat16. Twice a number has the same digits: nothing is rounded.
HALF = """\
  %h = load i16, ptr %px
  %h32 = zext i16 %h to i32
  %upper = shl i32 %h32, 16
  %v = bitcast i32 %upper to float
  %w = fadd float %v, %v
  %whole = bitcast float %w to i32
  %rest = lshr i32 %whole, 16
  %half = trunc i32 %rest to i16
  store i16 %half, ptr %py
"""


@pytest.fixture(scope="module")
def doubled():
    import ml_dtypes

    kinds = ("float", "double", "bfloat")
    start, end = LOOP.index("  %v = load"), LOOP.index("  %i1 = add")
    texts = [LOOP, LOOP, LOOP[:start] + HALF + LOOP[end:]]
    text = "".join(t.replace("$T", kind) for t, kind in zip(texts, kinds, strict=True))
    f, d, b = native.load(f"doubled{text}", lambda: text, [f"double_{kind}" for kind in kinds])
    half = ml_dtypes.bfloat16
    return parallel_ufuncs.make(
        "doubled", [(f, "ff"), (d, "dd"), (b, (half, half))], 1, 1, "Twice it."
    )


def test_a_ufunc(doubled):
    assert isinstance(doubled, np.ufunc)
    assert doubled.types == ["f->f", "d->d"] and doubled.nin == 1 and doubled.nout == 1
    assert "Twice it." in doubled.__doc__
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for each in (x, x.T, x[::2, ::-1], x[:, 1], np.broadcast_to(x[0], (3, 4)), x[:0]):
        got = doubled(each)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, 2 * each)
    assert doubled(np.arange(3)).dtype == np.float64  # a safe cast
    out = np.zeros((3, 8))
    assert doubled(x.astype(np.float64), out=out[:, ::2]).base is out
    np.testing.assert_array_equal(out[:, ::2], 2 * x)
    assert not out[:, 1::2].any()
    where = doubled(x, out=x.copy(), where=x > 5)
    np.testing.assert_array_equal(where, np.where(x > 5, 2 * x, x))
    with pytest.raises(TypeError, match="doubled"):
        doubled(np.array([1j]))


def test_a_loop_for_bfloat16(doubled):
    import ml_dtypes

    x = np.array([[1.0, 2.5], [-3.0, np.inf]], ml_dtypes.bfloat16)
    for each in (x, x.T, x[:, ::-1]):
        got = doubled(each)
        assert got.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(got.astype(np.float32), 2 * each.astype(np.float32))


def test_loops_of_the_wrong_number_of_operands():
    with pytest.raises(TypeError, match=r"'f' has 3 operands"):
        parallel_ufuncs.make("f", [(1, "ff")], 2, 1)
    with pytest.raises(ValueError, match="at least one loop"):
        parallel_ufuncs.make("f", [], 2, 1)


def test_numpys_blas_is_left_one_thread():
    """Its threads wait in loops after a job, on the cores that ours need."""
    code = """
from rushlight._backends import blas, llvm
count = blas.function("get_num_threads")
if count is None:
    print("another library")
else:
    blas.function("set_num_threads")(2)
    assert count() == 2
    assert llvm.activate()
    print(count())
"""
    printed = python(code, RUSHLIGHT_COMPILED="")
    if printed == "another library":
        pytest.skip("NumPy does not come with OpenBLAS")
    assert printed == "1"


WORK = """
import numpy as np
import rushlight as torch
from rushlight._backends import cpu, llvm
from rushlight._codegen import parallel_ufuncs
F = torch.nn.functional
def array(n): return torch.from_numpy(np.linspace(-1, 1, n, dtype=np.float32))
small, large = array(1000), array(1_000_000)
def plain(): return cpu.erf.__module__ == "rushlight._backends.reference.special"
"""


@pytest.mark.parametrize(
    "call",
    [
        "F.gelu(large)",
        "torch.erf(large)",
        "torch.randn(1_000_000)",
        "large.cumsum(0)",
        "large + large",
        "large * 2",
        "small[:, None] * small",
        "large.mul_(2)",
        "torch.exp(large, out=large)",
        "torch.cat([large, large])",
        "large.to(torch.float16)",
        "large.sum()",
        "large + torch.tensor(1)",
    ],
)
def test_machine_code_comes_with_the_first_large_array(call):
    code = f"{WORK}{call.replace('large', 'small')}\n" if "large" in call else WORK
    code += f"assert not llvm.active\n{call}\nassert llvm.active\nassert not plain()"
    python(code, RUSHLIGHT_COMPILED="")


def test_machine_code_comes_with_many_small_calls():
    code = (
        f"{WORK}erf = torch.erf(small)\n"
        "for _ in range(llvm.ENOUGH // llvm.CALL):\n    small + small\n    if llvm.active: break\n"
        "assert llvm.active\n"
        "assert torch.allclose(torch.erf(small), erf) and not plain()"
    )
    python(code, RUSHLIGHT_COMPILED="")


@pytest.mark.parametrize("asked", ["0", ""])
def test_without_machine_code_nothing_stands_before_the_reference(asked):
    code = (
        f"{WORK}if {asked!r} != '0': parallel_ufuncs.available = lambda: False\n"
        "torch.erf(small), small + small\n"
        "torch.erf(large), F.gelu(large), large + large\n"
        "assert not llvm.active and plain() and cpu.add is np.add and not hasattr(cpu.cast, '__wrapped__')\n"
        "assert torch.add.op.scope['k_add'] is np.add"
    )
    python(code, RUSHLIGHT_COMPILED=asked)


@pytest.mark.parametrize(
    ("features", "has_them"),
    [
        ("+sse2,+avx,+avx2,+fma,+f16c", True),
        ("+sse2,+avx,-avx2,-fma,+f16c", False),
        ("+sse2,+sse4.2,-avx2,-fma,-f16c", False),
        ("+neon,+fp-armv8", True),
    ],
)
def test_kernels_want_instructions_of_2013(monkeypatch, features, has_them):
    monkeypatch.setattr(native, "host", lambda: ("a processor", features))
    assert native.has_instructions() == has_them


# Routines that are compiled apart.

PRODUCT = {"E": f32, "O": f32, "ACT": "", "TILES": False}


@pytest.fixture
def anew(folder, monkeypatch):
    """Forgets what the process knows of machine code."""

    def forget():
        monkeypatch.setattr(native, "_loaded", {})
        monkeypatch.setattr(native, "_units", set())
        monkeypatch.setattr(native, "_makers", {})
        monkeypatch.setattr(gemm.product, "_compiled", {})

    forget()
    return forget


def multiplies():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = np.arange(12, dtype=np.float32).reshape(3, 4)
    c, none = np.zeros((2, 4), np.float32), np.empty(0, np.float32)
    gemm.product.compiled(**PRODUCT, **product_sizes.gemm_sizes(f32))(
        a, b, c, none, none, gemm.SET, 1.0
    )
    return np.array_equal(c, a @ b)


units = pytest.mark.skipif(not native.UNITS, reason="object files that are not ELF")


@units
def test_a_routine_apart_is_found_again(folder, anew, monkeypatch):
    assert multiplies()
    names = {name.removeprefix(native.PREFIX) for name in native._units}
    entries = set(os.listdir(folder))
    assert names and names < entries

    anew()
    with monkeypatch.context() as patch:
        patch.setattr(native, "_optimised", lambda text: refuse())
        assert multiplies()

    anew()
    for name in names:
        os.unlink(folder / name)
    assert multiplies()  # made once more, and so is what calls them
    assert set(os.listdir(folder)) == entries


@units
def test_kernels_share_routines_that_are_compiled_apart(anew, monkeypatch):
    made = []
    text = native._optimised
    monkeypatch.setattr(native, "_optimised", lambda t: made.append(t) or text(t))
    attention.attention._load({"MASK": False, **product_sizes.gemm_sizes(f32)})
    tiles = [t for t in made if "@tile" in t]
    assert len(tiles) == 1
    attention.gradients._load({"MASK": False, **product_sizes.gemm_sizes(f32)})
    assert [t for t in made if "@tile" in t] == tiles


def test_what_is_compiled_apart_is_all_in_its_name():
    def inner():
        return one

    one = 1
    assert has_stable_text((1, "a", None, [2.5, True], f32, gemm.block))
    assert not has_stable_text(inline(inner))  # what it calls `one` is nowhere to be read
    assert not has_stable_text((1, object()))


def test_without_units_all_is_in_one_module(anew, monkeypatch):
    monkeypatch.setattr(native, "UNITS", False)
    assert multiplies()
    assert not native._units

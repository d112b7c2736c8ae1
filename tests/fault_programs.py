"""Programs that use machine code under trouble; `test_compiled_faults.py` runs each in a process of its own.

    RUSHLIGHT_COMPILED=always python tests/fault_programs.py NAME

Each prints what it found wrong, and ends with status 1 then.
"""

from __future__ import annotations

import builtins
import gc
import os
import random
import signal
import sys
import threading
import time

import numpy as np

import rushlight as torch
from rushlight._backends import cpu
from rushlight._codegen.runtime import memory

F = torch.nn.functional


def kernels() -> dict:
    """Kernels of several families, each a function of no arguments that gives a tensor."""
    rng = np.random.default_rng(0)

    def normal(*shape):
        return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))

    a, b, images, w = normal(200, 300), normal(200, 300), normal(2, 8, 20, 20), normal(16, 8, 3, 3)
    positive, wide = a.abs() + 0.5, a.double()
    index = torch.from_numpy(rng.integers(0, 200, 500))
    return {
        "exp": lambda: a.exp(),
        "log": lambda: positive.log(),
        "tanh in float64": lambda: wide.tanh(),
        "sqrt in bfloat16": lambda: positive.bfloat16().sqrt(),
        "add": lambda: a + b,
        "maximum": lambda: torch.maximum(a, b),
        "row": lambda: a * b[0],
        "gelu": lambda: F.gelu(a),
        "product": lambda: a @ b.T,
        "sum": lambda: a.sum(1),
        "softmax": lambda: a.softmax(1),
        "layer norm": lambda: F.layer_norm(a, (300,)),
        "convolution": lambda: F.conv2d(images, w, padding=1),
        "pool": lambda: F.max_pool2d(images, 3, 2, 1),
        "sort": lambda: a.sort(1)[0],
        "rows": lambda: a.index_select(0, index),
        "cumsum": lambda: a.cumsum(1),
    }


def bits(tensor) -> bytes:
    return np.ascontiguousarray(tensor.float()._array).tobytes()


def interrupted() -> int:
    """Ctrl-C at any time while kernels compile: it is heard once, and no result is wrong."""
    tried = kernels()
    chosen = random.Random(int(sys.argv[2]))
    names = list(tried)
    chosen.shuffle(names)
    wrong, results, heard = 0, {}, []

    def on_interrupt(number, frame):
        code = frame.f_code
        if (code.co_filename, code.co_name) == ("<frozen importlib._bootstrap>", "cb"):
            # Python loses what callbacks of weak references raise: once more.
            os.kill(os.getpid(), signal.SIGINT)
            return
        heard.append(1)
        raise KeyboardInterrupt

    for name in names:
        heard.clear()
        signal.signal(signal.SIGINT, on_interrupt)
        after = chosen.choice([0.003, 0.03, 0.1, 0.3]) * chosen.random()
        timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
        reached = False
        try:
            timer.start()
            results[name] = bits(tried[name]())
            reached = True
            while not heard:  # it comes within a third of a second
                time.sleep(0.01)
            reached = False  # it came and was not raised
        except KeyboardInterrupt:
            reached = True
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        timer.join()
        if not reached:
            wrong += 1
            print(f"Ctrl-C was lost in {name}")
    for name, function in tried.items():
        if name in results and results[name] != bits(function()):
            wrong += 1
            print(f"{name} differs from what it gave while it was interrupted")
    return wrong


def stopped() -> int:
    """Ctrl-C while machine code is put in place: then nothing of it is, and the next work tries again."""
    from rushlight._backends import llvm
    from rushlight._codegen import ufunc_loops

    def stop(name):
        raise KeyboardInterrupt

    small = torch.arange(4.0)
    expected = small + small
    loops, ufunc_loops.loops = ufunc_loops.loops, stop
    try:
        kernels()
        return 1
    except KeyboardInterrupt:
        ufunc_loops.loops = loops
    before = llvm.active
    kernels()
    same = torch.equal(small + small, expected)
    print(f"active {before}, then {llvm.active}; same: {same}")
    return before or not llvm.active or not same


def digests() -> int:
    """Every kernel's result, for the test to compare between processes."""
    from hashlib import sha256

    for name, function in kernels().items():
        print(name, sha256(bits(function())).hexdigest())
    return 0


def crowded() -> int:
    """Many threads call kernels while their number, the pool and the cache of memory change."""
    tried = kernels()
    expected = {name: bits(function()) for name, function in tried.items()}
    wrong: list[str] = []

    def call(seed):
        names = list(tried)
        random.Random(seed).shuffle(names)
        for _ in range(60):
            for name in names:
                if bits(tried[name]()) != expected[name]:
                    wrong.append(name)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    turn = 0
    while any(thread.is_alive() for thread in threads):
        turn += 1
        torch.set_num_threads(1 + turn % 4)
        memory.empty_cache()
        time.sleep(0.001)
    print(*wrong)
    return len(wrong)


def raced() -> int:
    """Threads call kernels that nobody has compiled yet, all at once, in different orders."""
    tried, found, start = kernels(), [], threading.Barrier(4)

    def call(seed):
        names = list(tried)
        random.Random(seed).shuffle(names)
        start.wait()
        found.append({name: bits(tried[name]()) for name in names})

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    wrong = [name for name in tried if len({each[name] for each in found}) != 1]
    print(*wrong)
    return len(wrong) + (len(found) != 4)


def forked() -> int:
    """Children are made while other threads are inside of kernels; they and theirs go on."""
    tried = kernels()
    expected = {name: bits(function()) for name, function in tried.items()}
    torch.set_num_threads(3)
    stop, wrong = threading.Event(), []

    def call():
        while not stop.is_set():
            for name, function in tried.items():
                if bits(function()) != expected[name]:
                    wrong.append(name)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(12):
        time.sleep(0.02)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            same = all(bits(function()) == expected[name] for name, function in tried.items())
            os._exit(0 if same else 3)
        _, status = os.waitpid(child, 0)
        if status:
            wrong.append(f"a child ended with {status}")
    stop.set()
    for thread in threads:
        thread.join(30)
    print(*wrong)
    return len(wrong) + sum(thread.is_alive() for thread in threads)


class Computed(torch.utils.data.Dataset):
    """Each item is what all kernels give."""

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return [function().double().sum() for function in kernels().values()]


def loaded() -> int:
    """Workers of a loader call kernels, while their parent does too."""
    torch.set_num_threads(2)
    expected = torch.stack(Computed()[0])
    wrong = 0
    for method in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(
            Computed(), batch_size=3, num_workers=2, multiprocessing_context=method
        )
        for batch in loader:
            mine = torch.stack(Computed()[0])
            each = torch.stack(list(batch), 1)
            wrong += not torch.equal(mine, expected) or not all(
                torch.equal(row, expected) for row in each
            )
    print(f"{wrong} batches differ")
    return wrong


def flushed() -> int:
    """Denormals are kept, or flushed when that is asked for, in all threads and kernels alike."""
    x = torch.full((100_000,), 1e-39)
    wrong = 0
    programs = {
        "multiply": lambda: x * 0.5,
        "add": lambda: x + x,
        "relu": lambda: F.relu(x),
        "product": lambda: x.reshape(100, 1000) @ torch.eye(1000, 40),
        "sum": lambda: x.reshape(100, 1000).sum(1),
    }
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name, function in programs.items():
            for flush in (False, True, False):
                if not torch.set_flush_denormal(flush):
                    return 0  # this machine cannot
                zero = not function().numpy().any()
                torch.set_flush_denormal(False)
                if zero is not flush and not (flush and name == "relu"):
                    wrong += 1
                    print(f"{name}, flush {flush}, {threads} threads: zero is {zero}")
    return wrong


class AtExit:
    """An object in a cycle, which the interpreter frees as late as it can; it calls a kernel then."""

    def __init__(self, function) -> None:
        self.function, self.before, self.cycle = function, bits(function()), self
        self.bits, self.write, self.unable = (
            bits,
            os.write,
            (AttributeError, ImportError, TypeError),
        )

    def __del__(self) -> None:
        try:
            if self.bits(self.function()) != self.before:
                self.write(1, b"another result\n")
        except self.unable:  # Python itself imports nothing any more
            pass


def last() -> int:
    """Kernels are called, and freed, after the modules that made them."""
    gc.disable()
    late = [AtExit(function) for function in kernels().values()]
    twin = cpu.exp  # NumPy's ufunc with loops of ours, some of which nobody has called yet
    numbers = np.linspace(-1, 1, 5000)
    late += [AtExit(lambda t=t: torch.from_numpy(twin(numbers.astype(t)))) for t in "fd"]
    builtins.late = late  # these go last of all
    return 0


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]]() != 0)

"""The kernel compiler: its language, in the interpreter and in machine code."""

from __future__ import annotations

import ast
import ctypes
import inspect
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from rushlight._codegen import language, native
from rushlight._codegen.expressions import KernelError
from rushlight._codegen.interpret import interpret
from rushlight._codegen.kernel import entry, kernel
from rushlight._codegen.language import (
    array,
    bf16_pairs,
    bits,
    ceil,
    copysign,
    floor,
    fma,
    gather,
    inline,
    insert,
    iota,
    lane,
    lanes,
    lanesof,
    largest,
    load,
    parallel,
    prefetch,
    rint,
    rounds,
    routine,
    select,
    shuffle,
    smallest,
    some,
    splat,
    sqrt,
    store,
    total,
    trunc,
    typeof,
    unroll,
)
from rushlight._codegen.printer import show
from rushlight._codegen.runtime import threads
from rushlight._codegen.types import (
    Ptr,
    b1,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)

F32 = np.float32


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    """Code is compiled anew, and no cache fills with tests'."""
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", "")


def both(function, *args, **values):
    """What a kernel makes of its arrays: the interpreter's and the machine code's, which are the same."""
    ran, read = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    interpret(function.module(**values), *read)
    function.compiled(**values)(*ran)
    for a, b in zip(ran, read, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b)
    return ran


# The language. Each kernel stands with what it gives.


@kernel
def counting(out: Ptr[i64], n: i64):
    """A docstring is no statement."""
    s = i64(0)
    for i in range(n):  # from 0
        s += i
    out[0] = s
    for i in range(2, n, 3):
        out[1] += i
    for i in range(n, 0, -1):  # downwards
        out[2] = out[2] * 10 + i
    out[3] = i  # where the loop ended


def test_loops_count():
    assert both(counting, np.zeros(4, np.int64), 6)[0].tolist() == [15, 7, 654321, 0]
    assert both(counting, np.zeros(4, np.int64), 0)[0].tolist() == [0, 0, 0, 0]


@kernel
def until(out: Ptr[i64], n: i64):
    i = i64(0)
    while True:
        if i >= n:
            break
        if i == 3:
            pass
        else:
            out[0] += 1
        i += 1
    j = i64(0)
    while j * j < n:
        for k in range(100):
            if k == j:
                break
            out[2] += 1
        j += 1
    out[1] = j


def test_while_and_break_leave_the_innermost_loop():
    assert both(until, np.zeros(3, np.int64), 10)[0].tolist() == [9, 4, 0 + 1 + 2 + 3]


@kernel
def branches(x: Ptr[f32], out: Ptr[f32], n: i64, FLIP):
    for i in range(n):
        v = x[i]
        if v < -1:
            v = f32(-1)
        elif v > 1:
            v = f32(1)
        else:
            v = v * 2
        if FLIP:  # known: one branch only is read, so that the other may be nonsense
            v = -v
        else:
            v = undefined_name  # noqa: F821
        out[i] = v


def test_branches():
    x = np.array([-5, -0.5, 0, 0.25, 3, np.nan], F32)
    out = both(branches, x, np.zeros(6, F32), 6, FLIP=True)[1]
    np.testing.assert_array_equal(out, np.array([1, 1, 0, -0.5, -1, np.nan], F32))


@kernel
def known_sizes(out: Ptr[i64], SIZES, SCALE=10):
    assert len(SIZES) == 3
    at = 0
    for size in unroll(SIZES):
        out[at] = i64(size * SCALE) if size > 1 else 0
        at += 1
    for i, j in unroll(tuple(zip((3, 4), (7, 8)))):  # noqa: B905
        out[i] = j
    out[5] = max(SIZES) if SCALE != 10 and not (SIZES[0] == 2) else -SIZES[-1]
    out[6] = len([s for s in SIZES if s > 1]) + abs(-2)


def test_known_values():
    out = both(known_sizes, np.zeros(7, np.int64), SIZES=(1, 2, 3))[0]
    assert out.tolist() == [0, 20, 30, 7, 8, -3, 4]
    out = both(known_sizes, np.zeros(7, np.int64), SIZES=(1, 2, 3), SCALE=2)[0]
    assert out.tolist() == [0, 4, 6, 7, 8, 3, 4]


@kernel
def unpacking(out: Ptr[i64], n: i64):
    a, b = n, n + 1
    a, b = b, a  # both are read before one is set
    (c, d), e = (a, b), 7
    row = [i64(0) for _ in range(3)]
    row[1] = a
    row[1] += 10
    first, second, third = row
    row[1] = n  # `second` is a variable of its own
    for i in unroll(3):
        out[i] = [first, second, third][i]
    x: i32 = n  # converted
    out[3], out[4], out[5] = c, d, e + i64(x)


def test_unpacking_and_lists():
    with pytest.raises(KernelError, match="i32 and i64 do not mix|i64 and i32 do not mix|cannot"):
        unpacking_mixed.module()
    assert both(unpacking, np.zeros(6, np.int64), 3)[0].tolist() == [0, 14, 0, 4, 3, 10]


@kernel
def unpacking_mixed(out: Ptr[i64], n: i64):
    x: i32 = n
    out[0] = n + x


@kernel
def operators(out: Ptr[T], a: T, b: T):
    out[0] = a + b
    out[1] = a - b
    out[2] = a * b
    out[3] = a // b
    out[4] = a % b
    out[5] = a & b
    out[6] = a | b
    out[7] = a ^ b
    out[8] = a << 2
    out[9] = a >> 1
    out[10] = -a
    out[11] = ~a
    out[12] = min(a, b, 5)
    out[13] = max(a, b)
    out[14] = abs(a - b)
    out[15] = T(a < b) + 2 * T(a == b) + 4 * T(a != b) + 8 * T(a >= b)
    out[16] = T(0 < a <= 7)
    out[17] = T(a > 0 and not b > 100 or a == b)
    out[18] = T(100) if not a else 200


@pytest.mark.parametrize("t", [i64, i32, u64, u32], ids=str)
@pytest.mark.parametrize("a, b", [(7, 3), (3, 7), (-9, 4), (2**31 - 1, 5), (9, -4), (0, 1), (6, 6)])
def test_operators_on_integers(t, a, b):
    kind = t.np.type
    a, b = (np.array(v).astype(t.np)[()] for v in (a, b))
    out = both(operators, np.zeros(19, t.np), int(a), int(b), T=t)[0]
    x, y = int(a), int(b)
    division = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    expected = [
        x + y, x - y, x * y, division, x - division * y, x & y, x | y, x ^ y, x << 2, x >> 1, -x, ~x,
        min(x, y, 5), max(x, y), None, (x < y) + 2 * (x == y) + 4 * (x != y) + 8 * (x >= y),
        0 < x <= 7, x > 0 and not y > 100 or x == y, 200 if x else 100,
    ]  # fmt: skip
    for i, value in enumerate(expected):
        if value is not None:
            assert out[i] == np.array(int(value) % 2 ** (8 * t.size), np.uint64).astype(t.np), i
    assert kind is out.dtype.type


@kernel
def of_floats(x: Ptr[T], out: Ptr[T], n: i64):
    for i in range(n):
        v = x[i]
        o = out + i * 12
        o[0] = v / 3
        o[1] = sqrt(v)
        o[2] = floor(v)
        o[3] = ceil(v)
        o[4] = trunc(v)
        o[5] = rint(v)
        o[6] = fma(v, v, -1)
        o[7] = copysign(2, v)
        o[8] = abs(v)
        o[9] = -v
        o[10] = v - 1 if v == v else 0
        o[11] = T(bits(v, U) & 1)


@pytest.mark.parametrize("t", [f32, f64], ids=str)
def test_words_on_floats(t):
    x = np.array([0.0, -0.0, 1.5, 2.5, -2.5, 1e-40, 1e30, -1e30, np.inf, -np.inf, np.nan], t.np)
    u = u32 if t is f32 else u64
    out = both(of_floats, x, np.zeros((11, 12), t.np), 11, T=t, U=u)[1]
    with np.errstate(all="ignore"):
        for i, f in enumerate(
            [lambda v: v / t.np.type(3), np.sqrt, np.floor, np.ceil, np.trunc, np.rint]
        ):
            np.testing.assert_array_equal(out[:, i], f(x))
            assert (np.signbit(out[:-1, i]) == np.signbit(f(x))[:-1]).all()
    np.testing.assert_array_equal(out[:-1, 7], np.copysign(t.np.type(2), x[:-1]))
    np.testing.assert_array_equal(out[:, 8], np.abs(x))
    assert np.signbit(out[0, 9])
    assert not np.signbit(out[1, 8:10]).any()


@kernel
def in_rounds(x: Ptr[f32], out: Ptr[f32], n: i64):
    s = f32(0)
    for i in rounds(0, n, 4):
        s += x[i]
    for i in rounds(n, n - 3, 2):
        s += 1
    out[0] = s


def test_rounds_are_a_range():
    assert "for i in rounds(0, n, 4):" in show(in_rounds.module())
    assert '"llvm.loop.unroll.count", i32 4' in in_rounds.llvm()
    for n in (0, 1, 3, 4, 9, 16):
        x, out = np.arange(1, n + 1, dtype=np.float32), np.zeros(1, np.float32)
        in_rounds.compiled()(x, out, n)
        assert out[0] == n * (n + 1) / 2
        interpret(in_rounds.module(), x, out, n)
        assert out[0] == n * (n + 1) / 2


@kernel
def hinted(x: Ptr[f32], out: Ptr[f32], n: i64):
    if LANES:
        for i in lanes(0, n):
            out[i] = x[i]
    else:
        for i in range(n):
            out[0] += x[i]


def test_only_lanes_become_vectors_unless_sums_may_be_reordered():
    once = "llvm.loop.vectorize.enable"
    assert once in hinted.llvm(LANES=False)
    assert once not in hinted.llvm(LANES=True)
    assert once not in kernel(hinted.function, fast="reassoc").llvm(LANES=False)


@kernel
def of_vectors(x: Ptr[f32], out: Ptr[f32], places: Ptr[i64]):
    v = load(x, 8)
    here = iota(i64, 8) < 5
    store(out, load(x, 8, here) + 1)
    store(out + 8, v * 2, here)
    store(out + 16, gather(x, load(places, 8)))
    store(out + 24, gather(x, load(places, 8), here))
    store(out + 32, shuffle(v, -v, (0, 8, 1, 9, 7, 15, 6, 14)))
    store(out + 40, insert(v, 2, 99))
    out[48] = total(v)
    out[49] = largest(v)
    out[50] = smallest(v)
    out[51] = lane(v, 3)
    out[52] = f32(1) if some(v > 6) else 0
    out[53] = f32(1) if some(v > 7) else 0
    out[54] = lanesof(v) * 10 + lanesof(out[0])
    store(out + 56, select(v > 3, v, splat(typeof(v)(0), 8)))
    w = i32(v) * 3
    store(out + 64, f32(w // 2))
    store(out + 72, bits(bits(v, i32) ^ 0, f32))
    store(out + 80, max(v, 4) if True else v)
    m = f32(2) if some(v < 0) else v
    store(out + 88, m)
    prefetch(x)
    store(out + 96, v if out[52] > 0 else -v, None, True)


def test_words_on_vectors():
    x = np.arange(8, dtype=F32)
    places = np.array([7, 0, 3, 3, 1, 2, 2, 5])
    space = np.empty(104 * 4 + 64, np.uint8)  # what is streamed is aligned to a cache line
    out = space[-space.ctypes.data % 64 :][: 104 * 4].view(F32)
    out[...] = -5
    ran = out
    of_vectors.compiled()(x, ran, places)
    other = np.full(104, -5, F32)
    interpret(of_vectors.module(), x, other, places)
    np.testing.assert_array_equal(ran, other)
    rows = ran.reshape(13, 8).tolist()
    assert rows[0] == [1, 2, 3, 4, 5, 1, 1, 1]
    assert rows[1] == [0, 2, 4, 6, 8, -5, -5, -5]
    assert rows[2] == [7, 0, 3, 3, 1, 2, 2, 5]
    assert rows[3] == [7, 0, 3, 3, 1, 0, 0, 0]
    assert rows[4] == [0, -0.0, 1, -1, 7, -7, 6, -6]
    assert rows[5] == [0, 1, 99, 3, 4, 5, 6, 7]
    assert rows[6] == [28, 7, 0, 3, 1, 0, 80, -5]
    assert rows[7] == [0, 0, 0, 0, 4, 5, 6, 7]
    assert rows[8] == [0, 1, 3, 4, 6, 7, 9, 10]
    assert rows[9] == list(range(8))
    assert rows[10] == [4, 4, 4, 4, 4, 5, 6, 7]
    assert rows[11] == rows[12] == list(range(8))


@inline
def swapped(a, b=7):
    """Several results, and a parameter that it changes for itself."""
    a = a + 1
    return b, a


@inline
def applied(f, x, times):
    for _ in unroll(times):
        x = f(x)
    return x


@routine
def power(x, n):
    """A routine with an early return, of itself no kernel."""
    if n == 0:
        return typeof(x)(1)
    r = x
    for _ in range(1, n):
        r = r * x
    return r


@routine
def fill(out, n, VALUE):
    for i in range(n):
        out[i] = VALUE


@kernel
def calls(out: Ptr[f64], n: i64):
    a, b = swapped(n, b=n * 2)
    out[0], out[1] = f64(a), f64(b)
    c, d = swapped(n)
    out[2], out[3] = c, f64(d)
    k = f64(3)
    out[4] = applied(lambda v: v * k + 1, f64(1), 3)
    out[5] = power(f64(2), n)
    out[6] = f64(power(n, i64(0)))
    fill(out + 7, i64(2), VALUE=5)
    fill(out + 9, i64(1), 6)
    args = (f64(2), 2)
    out[10] = applied(lambda v: v * v, *args)


def test_inline_functions_routines_and_lambdas():
    out = both(calls, np.zeros(11), 3)[0]
    assert out.tolist() == [6, 4, 7, 4, 40, 8, 1, 5, 5, 6, 16]
    # A routine stands once for each kind of arguments.
    assert [f.name.partition("_")[0] for f in calls.module().functions] == [
        "calls", "power", "power", "fill", "fill",
    ]  # fmt: skip


@inline
def above(x, at):
    value = x[at]
    if value < 0:
        value = -value
    return value


@inline
def clipped(value, least):
    if value < least:
        value = least
    if value > 6:
        least = i64(100)
    return value + least


@kernel
def steps_of_tests(x: Ptr[i64], out: Ptr[i64]):
    at = 0
    k = i64(at)
    while above(x, k) > 2:
        k += 1
    out[0] = k
    out[1] = clipped(i64(3), i64(5))
    out[2] = clipped(x[0], i64(5))
    out[3] = clipped(x[1], i64(5))


def test_a_test_of_a_loop_runs_each_time_and_literals_can_be_assigned():
    x = np.array([-9, 9, -3, 3, -2, 9], np.int64)
    assert both(steps_of_tests, x, np.zeros(4, np.int64))[1].tolist() == [4, 10, 10, 109]


@routine
def far(n):
    many = array(i64, 100_000)
    many[99_999] = n
    if n > 2:
        return many[99_999] * 2
    return many[99_999]


@kernel
def spacious(out: Ptr[i64], n: i64):
    for lo, hi in parallel(n, 1):
        mine, more = array(i64, 100_000), array(i64, 70_000)
        for i in range(100_000):
            mine[i] = i
        for i in range(lo, hi):
            more[69_999] = mine[99_999] + far(i)
            out[i] = more[69_999]


def test_large_arrays():
    """They are no part of the stack, which has 256 KiB here, and are freed."""
    ran = both(spacious, np.zeros(5, np.int64), 5)[0]
    assert ran.tolist() == [99_999 + n for n in (0, 1, 2, 6, 8)]
    compiled, out = spacious.compiled(), np.zeros(300, np.int64)
    before = threading.stack_size(256 * 1024)
    thread = threading.Thread(target=compiled, args=(out, 300))
    thread.start()
    thread.join()
    threading.stack_size(before)
    assert out[-1] == 99_999 + 598


@kernel
def shared(x: Ptr[T], out: Ptr[T], part: Ptr[i64], n: i64):
    for lo, hi in parallel(n, 1000):
        mine = array(i64, 2)
        mine[0] = 0
        mine[1] = hi - lo
        for i in lanes(lo, hi):
            out[i] = x[i] * 2
        for i in range(lo, hi):
            mine[0] += i
        part[lo // 1000] = mine[0] * mine[1]
    for first, last in parallel(n, 5000):
        for i in lanes(first, last):
            out[i] = out[i] + 1


@pytest.mark.parametrize("t", [f32, f64, f16, bf16, i64, i32, u8], ids=str)
def test_parallel_chunks(t):
    x = np.arange(4321).astype(t.np)
    ran = both(shared, x, np.zeros_like(x), np.zeros(5, np.int64), 4321, T=t)
    wide = x.astype(t.loaded.np)
    doubled = (wide * wide.dtype.type(2)).astype(x.dtype).astype(t.loaded.np)
    np.testing.assert_array_equal(ran[1], (doubled + wide.dtype.type(1)).astype(x.dtype))
    assert ran[2].tolist() == [sum(range(k, min(k + 1000, 4321))) * min(1000, 4321 - k)
                               for k in range(0, 4321, 1000)]  # fmt: skip


@kernel
def converting(x: Ptr[A], out: Ptr[B], n: i64):
    for i in lanes(0, n):
        out[i] = B.loaded(x[i])


NUMBERS = [f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, b1]


@pytest.mark.parametrize("a", NUMBERS, ids=str)
def test_conversions(a):
    x = np.array([0, 1, 2, 3, 100, 7, 1, 0] * 3).astype(a.np)
    for b in NUMBERS:
        out = both(converting, x, np.zeros(24, b.np), 24, A=a, B=b)[1]
        np.testing.assert_array_equal(out, x.astype(b.np))


@kernel
def rounding(x: Ptr[f32], out: Ptr[f32], n: i64):
    for i in lanes(0, n):
        out[i] = f32(A(x[i]))


@pytest.mark.parametrize("a", [bf16, f16], ids=str)
def test_rounding_in_registers(a):
    odd = [0.0, -0.0, 1.00390625, 1.01171875, 3.4e38, np.inf, -np.inf, np.nan, 1e-39, 9.2e-41, 6e-8]
    x = np.array(odd + [-v for v in odd], F32)
    with np.errstate(all="ignore"):
        expected = x.astype(a.np).astype(F32)
    np.testing.assert_array_equal(
        both(rounding, x, np.empty_like(x), len(x), A=a)[1].view(np.uint32) & 0xFFBFFFFF,
        expected.view(np.uint32) & 0xFFBFFFFF,
    )


@kernel
def of_bytes(address: Ptr[u8], out: Ptr[f32], n: i64):
    p = bits(address + 4, Ptr[f32])
    for i in range(n):
        out[i] = p[i]


def test_pointers_to_other_types():
    x = np.arange(5, dtype=F32)
    out = both(of_bytes, x.view(np.uint8), np.zeros(3, F32), 3)[1]
    assert out.tolist() == [1, 2, 3]


@kernel
def of_pairs(a: Ptr[i32], b: Ptr[i32], out: Ptr[f32]):
    store(out, bf16_pairs(load(a, 16), load(b, 16), load(out, 16)))


@pytest.mark.skipif("+avx512bf16" not in native.host()[1], reason="no such instruction here")
def test_pairs_of_bfloat16():
    random = np.random.default_rng(0)
    a, b = (random.integers(-8, 9, 32).astype(bf16.np) for _ in "ab")  # sums without rounding
    out = random.integers(-8, 9, 16).astype(F32)
    expected = out + (a.astype(F32) * b.astype(F32)).reshape(16, 2).sum(1)
    assert (both(of_pairs, a.view(np.int32), b.view(np.int32), out)[2] == expected).all()


def test_names_of_functions_around():
    factor, size = 3, i64

    @inline
    def times(v):
        return v * factor

    @kernel
    def around(out: Ptr[i64]):
        out[0] = times(size(5))

    assert both(around, np.zeros(1, np.int64))[0].tolist() == [15]


def test_every_word_is_tried_here():
    used = {n.id for n in ast.walk(ast.parse(inspect.getsource(inspect.getmodule(both)))) if isinstance(n, ast.Name)}  # fmt: skip
    words = {w.name for w in vars(language).values() if isinstance(w, language.Word)}
    assert words <= used


# What kernels cannot say, and where that is told.


def bad_star(out: Ptr[i64]):
    first, *rest = (1, 2, 3)


def bad_undefined(out: Ptr[i64]):
    out[0] = nothing  # noqa: F821


def bad_statement(out: Ptr[i64]):
    with out:
        pass


def bad_expression(out: Ptr[i64]):
    out[0] = {1: 2}


def bad_loop(out: Ptr[i64]):
    for i in out:
        pass


def bad_step(out: Ptr[i64], n: i64):
    for i in range(0, n, n):
        pass


def bad_type(out: Ptr[i64], n: i64):
    s = i64(0)
    s = f32(1)


def bad_mix(out: Ptr[f32], n: i64):
    out[0] = out[0] + n


def bad_store(out: Ptr[f32], n: i64):
    out[0] = n


def bad_divide(out: Ptr[i64], n: i64):
    out[0] = n / 2


def bad_floor(out: Ptr[f32]):
    out[0] = out[0] // 2


def bad_number(out: Ptr[i64]):
    out[0] = 1.5


def bad_text(out: Ptr[i64]):
    out[0] = "text"


def bad_assert(out: Ptr[i64]):
    assert 1 + 1 == 3


def bad_runtime_assert(out: Ptr[i64], n: i64):
    assert n > 0


def bad_known_changes(out: Ptr[i64], n: i64):
    s = 0
    for i in range(n):
        s = s + 1


def bad_parallel_writes(out: Ptr[i64], n: i64):
    s = i64(0)
    for lo, hi in parallel(n, 10):
        s = lo


def bad_parallel_in_parallel(out: Ptr[i64], n: i64):
    for lo, hi in parallel(n, 10):
        for a, b in parallel(n, 10):
            pass


def bad_unpacking(out: Ptr[i64], n: i64):
    a, b = n, n, n


def bad_unroll(out: Ptr[i64], n: i64):
    for i in unroll(n):
        pass


def bad_call(out: Ptr[i64], n: i64):
    out[0] = pow(n, 2)


def bad_attribute(out: Ptr[i64], n: i64):
    out[0] = n.real


def bad_index(out: Ptr[i64], n: i64):
    out[0] = (1, 2)[n]


def bad_pointer_index(out: Ptr[i64], x: Ptr[f32]):
    out[x[0]] = 1


def bad_pointer_times(out: Ptr[i64], n: i64):
    p = out * n


def bad_subscript(out: Ptr[i64], n: i64):
    out[0] = n[0]


def bad_splat(out: Ptr[i64], n: i64):
    out[0] = total(splat(1, 4))


def bad_choice(out: Ptr[i64], n: i64):
    out[0] = 1 if n > 0 else 2


def bad_word(out: Ptr[f32], n: i64):
    out[0] = sqrt(2)


def bad_list(out: Ptr[i64], n: i64):
    row = [1, 2]
    row[0] = n


def bad_declaration(out: Ptr[i64], n: i64):
    s: i64


@inline
def returns_early(x):
    return x
    x = x + 1


def bad_inline_return(out: Ptr[i64], n: i64):
    out[0] = returns_early(n)


@routine
def returns_two_types(x):
    if x > 0:
        return x
    return f32(1)


def bad_routine(out: Ptr[i64], n: i64):
    returns_two_types(n)


@inline
def needs_two(x, y):
    return x + y


def bad_arguments(out: Ptr[i64], n: i64):
    out[0] = needs_two(n)


MISTAKES = [
    (bad_star, "cannot unpack into 2 names", 1),
    (bad_undefined, "nothing is not defined", 1),
    (bad_statement, "kernels have no With statement", 1),
    (bad_expression, "kernels have no Dict", 1),
    (bad_loop, "loops go over range, lanes, rounds, unroll or parallel", 1),
    (bad_step, "a loop's step is known", 1),
    (bad_type, "s is i64 and cannot become f32", 2),
    (bad_mix, "f32 and i64 do not mix", 1),
    (bad_store, "cannot store i64 where there is f32", 1),
    (bad_divide, "/ is for floating point", 1),
    (bad_floor, "// is for integers", 1),
    (bad_number, "1.5 is no i64", 1),
    (bad_text, "'text' is not a number", 1),
    (bad_assert, "assertion failed: 1 \\+ 1 == 3", 1),
    (bad_runtime_assert, "asserts are about what is known", 1),
    (bad_known_changes, "s is known while compiling; give it a type", 3),
    (bad_parallel_writes, "a parallel body cannot change s", 3),
    (bad_parallel_in_parallel, "not within each other", 2),
    (bad_unpacking, "cannot unpack into 2 names", 1),
    (bad_unroll, "unroll\\(\\) goes over something known", 1),
    (bad_call, "pow cannot be called in a kernel", 1),
    (bad_attribute, "values have no attributes", 1),
    (bad_index, "the index of something known must be known", 1),
    (bad_pointer_index, "an index is an integer, not f32", 1),
    (bad_pointer_times, "pointers know no mul", 1),
    (bad_subscript, "only pointers are indexed", 1),
    (bad_splat, "splat\\(\\) of something known", 1),
    (bad_choice, "both branches are known", 1),
    (bad_word, "sqrt\\(\\) of something known", 1),
    (bad_list, "only what holds a value of the run", 2),
    (bad_declaration, "a variable starts with a value", 1),
    (bad_inline_return, "an inline function returns at its end only", None),
    (bad_routine, "returns f32 here and i64 elsewhere", None),
    (bad_arguments, "needs_two\\(\\) lacks y", None),
]


@pytest.mark.parametrize(
    "function, message, line", MISTAKES, ids=lambda v: getattr(v, "__name__", "")
)
def test_mistakes_say_what_and_where(function, message, line):
    with pytest.raises(KernelError, match=message) as error:
        kernel(function).module()
    if line is not None:
        _, first = inspect.getsourcelines(function)
        assert str(error.value).startswith(f"{inspect.getsourcefile(function)}:{first + line}: in ")
    else:
        assert str(error.value).startswith(__file__)


def test_parameters_need_types_or_values():
    @kernel
    def lacks(out: Ptr[i64], N):
        out[0] = N

    with pytest.raises(KernelError, match="parameter N has no type and no value"):
        lacks.module()


def test_words_mean_nothing_elsewhere():
    for call in (lambda: sqrt(2), lambda: list(parallel), lambda: f32(1), lambda: power(1, 2)):
        with pytest.raises(TypeError, match="kernel"):
            call()


def test_kernels_of_one_name_and_other_values_are_other_kernels():
    a = counting.compiled()
    assert counting.compiled() is a
    assert shared.compiled(T=f32) is not shared.compiled(T=f64)
    threads.start()
    assert native.available() and isinstance(ctypes.c_void_p(counting.address()).value, int)


def test_and_or_of_known_values_give_what_pythons_do():
    @kernel
    def k(x: Ptr[i64], n: i64):
        x[0] = 0 or 5
        x[1] = 3 and 7
        x[2] = 0 and 7
        x[3] = i64(n > 0 or 0)
        x[4] = i64(0 or n > 0)
        x[5] = i64(n > 0 and 0)

    out = np.full(6, -1)
    k.compiled()(out, 2)
    assert out.tolist() == [5, 7, 0, 1, 1, 0]


def test_arguments_are_converted_as_they_are_declared():
    @kernel
    def k(out: Ptr[f64], a: i64, b: i32, c: u64, d: f32, e: f64, f: b1):
        out[0] = f64(a)
        out[1] = f64(b)
        out[2] = f64(c >> u64(1))
        out[3] = f64(d)
        out[4] = e
        out[5] = f64(1) if f else f64(2)

    run, out = k.compiled(), np.zeros(6)
    run(out, -(1 << 40), np.int64(-3), (1 << 64) - 2, 0.1, 3, True)
    assert out.tolist() == [-(2.0**40), -3, 2.0**63, np.float32(0.1), 3, 1]
    for wrong in ((0.5, 0, 0, 0, 0, True), (0, 0, 0, "x", 0, True), (0, 0, None, 0, 0, False)):
        out[:] = 7
        with pytest.raises(TypeError):
            run(out, *wrong)
        assert (out == 7).all()  # it did not run
    with pytest.raises(TypeError):
        run(out)
    none, held = sys.getrefcount(None), sys.getrefcount(out)
    for _ in range(1000):
        assert run(out, 0, 0, 0, 0, 0, False) is None
    assert abs(sys.getrefcount(None) - none) < 100 and sys.getrefcount(out) == held


# Functions of C, at names and at addresses.

remainder = language.external("fmod", f64, f64, f64)
both_parts = language.external("modf", f64, f64, Ptr[f64])
nowhere = language.external("rushlight_is_not_there", None, i64)


@kernel
def by_c(x: Ptr[f64], out: Ptr[f64], whole: Ptr[f64], n: i64):
    for i in range(n):
        out[i] = remainder(both_parts(x[i], whole + i), 0.25)


@kernel
def at_address(address: i64, out: Ptr[f64], n: i64):
    for i in range(n):
        out[i] = language.call(address, f64, f64(i))
    language.call(address, f64, f64(0))


@entry
def doubled(x: f64):
    return x * 2


@kernel
def place_of(x: Ptr[f64], out: Ptr[i64]):
    out[0] = bits(x + 1, i64)
    out[1] = i64(bits(bits(x, i64) + 8, Ptr[f64])[0])


@kernel
def lacking(n: i64):
    nowhere(n)


def test_functions_of_c():
    x, out, whole = np.array([2.375, -3.5]), np.zeros(2), np.zeros(2)
    by_c.compiled()(x, out, whole, 2)
    assert out.tolist() == [0.125, 0.0] and whole.tolist() == [2.0, -3.0]
    assert "fmod" in show(by_c.module())
    with pytest.raises(RuntimeError, match="rushlight_is_not_there"):
        lacking.compiled()
    with pytest.raises(NotImplementedError, match="is native code"):
        interpret(by_c.module(), x, out, whole, 2)


def test_functions_at_addresses():
    out = np.zeros(3)
    at_address.compiled()(doubled.address(), out, 3)
    assert out.tolist() == [0, 2, 4]
    assert "call(" in show(at_address.module())
    with pytest.raises(NotImplementedError, match="at an address"):
        interpret(at_address.module(), 0, out, 3)


def test_addresses_of_pointers():
    x, out = np.array([5.0, 7.0]), np.zeros(2, np.int64)
    place_of.compiled()(x, out)
    assert out.tolist() == [x.ctypes.data + 8, 7]


def test_known_values_may_be_given_by_a_dictionary():
    @inline
    def line(A, x, B):
        return x * A + B

    @kernel
    def uses(GIVEN, out: Ptr[f32], x: f32):
        out[0] = line(x, **dict(GIVEN))

    out = np.zeros(1, np.float32)
    uses.compiled(GIVEN=(("A", 3), ("B", 1)))(out, 2)
    assert out[0] == 7


def test_names_in_kernels_are_defined_or_given_when_they_are_compiled():
    """What a linter would find, were names that are given later not undefined to it: those are in capitals."""
    import ast
    import builtins
    import importlib
    import pkgutil

    from rushlight._codegen import kernels
    from rushlight._codegen.language import Source

    missing = []
    for found in pkgutil.iter_modules(kernels.__path__):
        module = importlib.import_module(f"{kernels.__name__}.{found.name}")
        shared = {*vars(module), *dir(builtins)}
        for source in [each for each in vars(module).values() if isinstance(each, Source)]:
            if source.function.__module__ != module.__name__:
                continue
            known = shared | {*source.function.__code__.co_freevars}
            nodes = list(ast.walk(source.tree()[0]))
            own = {node.arg for node in nodes if isinstance(node, ast.arg)}
            names = [node for node in nodes if isinstance(node, ast.Name)]
            own |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
            read = {node.id for node in names} - own - known
            missing += [(found.name, source.__name__, name) for name in read if not name.isupper()]
    assert not missing

"""The kernels' representation: as text, checked, and rewritten by passes."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight._codegen import ir, passes
from rushlight._codegen.check import IllFormed, check
from rushlight._codegen.emit import emit
from rushlight._codegen.kernel import kernel
from rushlight._codegen.language import iota, lanes, load, parallel, routine, splat, store, total
from rushlight._codegen.printer import expression, show
from rushlight._codegen.types import Ptr, b1, bf16, f32, f64, i32, i64, vector

F32 = np.float32


# The representation as text.


@kernel
def add_one(x: Ptr[f32], out: Ptr[f32], n: i64):
    for lo, hi in parallel(n, 1024):
        for i in lanes(lo, hi):
            out[i] = x[i] + 1


@kernel
def first_above(x: Ptr[bf16], out: Ptr[i64], n: i64, limit: f32):
    at = i64(-1)
    for i in range(n):
        if x[i] > limit:
            at = i
            break
    out[0] = at


@kernel(fast="reassoc")
def masked_sum(x: Ptr[f64], out: Ptr[f64], n: i64):
    s = splat(f64(0), 4)
    for i in range(0, n, 4):
        s += load(x + i, 4, iota(i64, 4) < n - i)
    store(out, total(s) if 1 > 2 else s)
    out[4] = halved(total(s))


@routine
def halved(x):
    return x / 2


GOLDEN = {
    add_one: """\
add_one(x: Ptr[f32], out: Ptr[f32], n: i64) -> None:
  for lo, hi in parallel(n, 1024):
    for i in lanes(lo, hi):
      store out[i] = (load[f32](x[i]) + 1.0)
""",
    first_above: """\
first_above(x: Ptr[bf16], out: Ptr[i64], n: i64, limit: f32) -> None:
  at: i64 = -1
  for i in range(0, n):
    if (load[f32](x[i]) > limit):
      at: i64 = i
      break
  store out = at
""",
    masked_sum: """\
masked_sum(x: Ptr[f64], out: Ptr[f64], n: i64) -> None [reassoc]:
  s: f64x4 = 0.0
  for i in range(0, n, 4):
    v5: i64 = (n - i)
    v6: i64 = select((v5 > 0), v5, 0)
    v7: i64 = select((v6 < 4), v6, 4)
    s: f64x4 = (s + load[f64x4](x[i], (iota[i32x4]() < splat[i32x4](i32(v7)))))
  store out = s
  c8: f64 = halved(sum(s))
  store out[4] = c8

halved(x: f64) -> f64:
  return (x / 2.0)
""",
}


@pytest.mark.parametrize("function", GOLDEN, ids=lambda k: k.__name__)
def test_golden_texts(function):
    assert show(function.module()) == GOLDEN[function]


def test_the_printer_knows_all_that_there_is():
    p, v = ir.Var("p", Ptr[f32]), ir.Var("v", vector(f32, 4))
    mask = ir.Var("m", vector(b1, 4))
    body = [
        ir.Array("a", f32, 8),
        ir.Store(p, v, mask),
        ir.Store(p, v, None, True),
        ir.Do(ir.Op("prefetch", (p,), b1)),
        ir.While(ir.Const(True, b1), []),
        ir.If(ir.Const(False, b1), [ir.Break()], [ir.Return(None)]),
        ir.Let("x", ir.Cast(ir.Const(1, i64), f32)),
    ]
    assert (
        show(ir.Module([ir.Function("all", [], None, body)]))
        == """\
all() -> None:
  a = array(f32, 8)
  store p = v where m
  stream p = v
  prefetch(p)
  while True:
    pass
  if False:
    break
  else:
    return
  x: f32 = f32(1)
"""
    )
    for name, (count, _) in ir.OPS.items():
        assert expression(ir.Op(name, (ir.Const(1, i64),) * max(count, 2), i64))


# The checker.

ONE, X = ir.Const(1, i64), ir.Const(1.0, f32)
P, N = ir.Var("p", Ptr[f32]), ir.Var("n", i64)
V4, YES = vector(f32, 4), ir.Const(True, b1)


def op(name, *args, type):
    return ir.Let("r", ir.Op(name, args, type))


def chunk(*body):
    return ir.Parallel("lo", "hi", N, ONE, list(body))


ILL = [
    ("q is read before it is set", [ir.Let("a", ir.Var("q", i64))]),
    ("n is f32, not i64", [ir.Let("a", ir.Var("n", f32))]),
    ("a is i64 and becomes f32", [ir.Let("a", ONE), ir.Let("a", X)]),
    ("1.0 as a i64", [ir.Let("a", ir.Const(1.0, i64))]),
    ("1 as a f32", [ir.Let("a", ir.Const(1, f32))]),
    ("an argument of add is i64, not f32", [op("add", X, ONE, type=f32)]),
    ("sqrt of i64", [op("sqrt", ONE, type=i64)]),
    ("xor of f32", [op("xor", X, X, type=f32)]),
    ("no operation power", [op("power", X, X, type=f32)]),
    ("add takes 2 arguments, not 1", [op("add", X, type=f32)]),
    ("the right side of lt is f32, not i64", [op("lt", ONE, X, type=b1)]),
    ("the result of lt is i64, not b1", [op("lt", ONE, ONE, type=i64)]),
    ("a choice is i64, not f32", [op("select", YES, X, ONE, type=f32)]),
    ("i64 chooses between f32", [op("select", ONE, X, X, type=f32)]),
    ("a pointer's offset is f32, not i64", [op("offset", P, X, type=Ptr[f32])]),
    ("a pointer is Ptr\\[f32\\], not Ptr\\[i64\\]", [op("offset", P, ONE, type=Ptr[i64])]),
    ("a splat is i64, not f32", [op("splat", ONE, type=V4)]),
    ("a lane of f32x4 that is not there", [op("lane", ir.Const(1.0, V4), ir.Const(4, i64), type=f32)]),
    ("a lane of f32x4 that is not there", [op("lane", ir.Const(1.0, V4), N, type=f32)]),
    ("a lane's new value is i64", [op("insert", ir.Const(1.0, V4), ONE, ONE, type=V4)]),
    ("a lane of two f32x4 that is not there",
     [op("shuffle", ir.Const(1.0, V4), ir.Const(1.0, V4), ir.Const(8, i64), type=vector(f32, 1))]),
    ("1 lanes of f32x4 as f32x4", [op("shuffle", ir.Const(1.0, V4), ir.Const(1.0, V4), ONE, type=V4)]),
    ("the result of sum is f64, not f32", [op("sum", ir.Const(1.0, V4), type=f64)]),
    ("the bits of i64 as f32", [op("bits", ONE, type=f32)]),
    ("a load from i64", [ir.Let("a", ir.Load(N, f32))]),
    ("what is loaded is f64, not f32", [ir.Let("a", ir.Load(P, f64))]),
    ("a load's mask is b1, not b1x4", [ir.Let("a", ir.Load(P, V4, YES))]),
    ("a store to i64", [ir.Store(N, ONE)]),
    ("what is stored is i64, not f32", [ir.Store(P, ONE)]),
    ("a store's mask is i64, not b1x4", [ir.Store(P, ir.Const(1.0, V4), ONE)]),
    ("f32x4 converted to f32", [ir.Let("a", ir.Cast(ir.Const(1.0, V4), f32))]),
    ("Ptr\\[f32\\] converted to i64", [ir.Let("a", ir.Cast(P, i64))]),
    ("a condition is i64, not b1", [ir.If(ONE, [], [])]),
    ("a condition is i64, not b1", [ir.While(ONE, [])]),
    ("a break outside of a loop", [ir.Break()]),
    ("a break outside of a loop", [ir.For("i", ONE, N, 1, [chunk(ir.Break())])]),
    ("the end of a loop is f32, not i64", [ir.For("i", ONE, X, 1, [])]),
    ("a loop over i64 by 0", [ir.For("i", ONE, N, 0, [])]),
    ("a loop over f32 by 1", [ir.For("i", X, X, 1, [])]),
    ("an array of 0", [ir.Array("a", f32, 0)]),
    ("what is returned is i64, not None", [ir.Return(ONE)]),
    ("a parallel body returns", [chunk(ir.Return(None))]),
    ("a parallel body within another", [chunk(chunk())]),
    ("a parallel body sets a", [ir.Let("a", ONE), chunk(ir.Let("a", ONE))]),
    ("a is read before it is set", [chunk(ir.Let("a", ONE)), ir.Store(P, ir.Var("a", i64))]),
    ("a parallel loop's count is f32", [ir.Parallel("lo", "hi", X, ONE, [])]),
    ("nobody is not in the module", [ir.Do(ir.Call("nobody", (), i64))]),
    ("other takes 1 arguments, not 0", [ir.Do(ir.Call("other", (), i64))]),
    ("x of other is f32, not i64", [ir.Do(ir.Call("other", (X,), i64))]),
    ("what other returns is f32, not i64", [ir.Do(ir.Call("other", (ONE,), f32))]),
    ("a call of what is no address", [ir.Do(ir.Call("", (ONE,), i64))]),
    ("nothing returns nothing", [ir.Let("a", ir.Call("nothing", (), None))]),
]  # fmt: skip


@pytest.mark.parametrize("message, body", ILL, ids=[m for m, _ in ILL])
def test_ill_formed_modules_are_refused(message, body):
    other = ir.Function("other", [ir.Var("x", i64)], i64, [ir.Return(ir.Var("x", i64))])
    nothing = ir.Function("nothing", [], None, [])
    module = ir.Module([ir.Function("bad", [P, N], None, body), other, nothing])
    with pytest.raises(IllFormed, match=f"in bad: {message}"):
        check(module)


def test_names_of_functions_are_different():
    with pytest.raises(IllFormed, match="two functions of one name"):
        check(ir.Module([ir.Function("f", [], None), ir.Function("f", [], None)]))


# The passes.


def after(step, *body, parameters=(P, N)):
    module = ir.Module([ir.Function("k", list(parameters), None, list(body))])
    check(module)
    step(module)
    check(module)
    return show(module).split(":\n", 1)[1]


def test_forward_replaces_names_of_names():
    a, b = ir.Var("a", i64), ir.Var("b", i64)
    assert after(
        passes.forward,
        ir.Let("a", N),
        ir.Let("b", a),
        ir.Let("c", X),
        ir.Store(ir.Op("offset", (P, b), Ptr[f32]), ir.Var("c", f32)),
    ) == "  store p[n] = 1.0\n"  # fmt: skip
    # `b` is what `a` was, which changes.
    kept = [ir.Let("a", N), ir.Let("b", a), ir.Let("a", ONE), ir.Store(P, ir.Cast(b, f32))]
    assert after(passes.forward, *kept).count("\n") == 4
    # Read behind the branch that sets it: what it holds there is nobody's business.
    astray = [ir.If(YES, [ir.Let("b", N)], []), ir.Store(P, ir.Cast(b, f32))]
    assert after(passes.forward, *astray).count("\n") == 3


def test_fold_computes_in_the_type_of_the_number():
    def folded(name, *args, type):
        text = after(passes.fold, ir.Let("r", ir.Op(name, args, type)))
        return text.split(" = ")[1].strip()

    tenth, least = ir.Const(0.1, f32), ir.Const(-(2**31), i32)
    assert folded("add", tenth, tenth, type=f32) == repr(float(F32(0.1) + F32(0.1)))
    assert folded("add", ir.Const(2**31 - 1, i32), ir.Const(1, i32), type=i32) == str(-(2**31))
    assert folded("div", ir.Const(-7, i64), ir.Const(2, i64), type=i64) == "-3"
    assert folded("mul", ir.Const(0.0, f32), ir.Const(-1.0, f32), type=f32) == "-0.0"
    assert folded("splat", X, type=V4) == "1.0"
    assert folded("lt", ONE, ir.Const(2, i64), type=b1) == "True"
    assert folded("div", X, ir.Const(0.0, f32), type=f32) == "inf"
    # Left alone: what has no value, what is NaN, what has no meaning in integers.
    assert folded("div", ir.Const(0.0, f32), ir.Const(0.0, f32), type=f32) == "(0.0 / 0.0)"
    assert folded("div", ONE, ir.Const(0, i64), type=i64) == "(1 / 0)"
    assert folded("div", least, ir.Const(-1, i32), type=i32) == "(-2147483648 / -1)"
    assert folded("shl", ONE, ir.Const(64, i64), type=i64) == "(1 << 64)"
    # Integers and pointers that stay what they are; floats may not (-0.0 + 0.0 is 0.0).
    zero = ir.Const(0, i64)
    assert folded("add", N, zero, type=i64) == folded("mul", N, ONE, type=i64) == "n"
    assert folded("offset", P, zero, type=Ptr[f32]) == "p"
    assert folded("add", ir.Load(P, f32), ir.Const(0.0, f32), type=f32) == "(load[f32](p) + 0.0)"
    assert folded("select", YES, N, ONE, type=i64) == "n"
    wide = after(passes.fold, ir.Let("r", ir.Cast(ir.Const(1e20, f64), i32)))
    assert "i32(1e+20)" in wide


def test_fold_decides_branches_and_loops():
    no, put = ir.Const(False, b1), ir.Store(P, X)
    assert after(passes.fold, ir.If(YES, [put], []), ir.If(no, [put], [])) == "  store p = 1.0\n"
    assert after(passes.fold, ir.While(no, [put])) == "  pass\n"
    assert after(passes.fold, ir.For("i", ONE, ONE, 1, [put])) == "  i: i64 = 1\n"
    assert after(passes.fold, ir.For("i", ONE, ir.Const(0, i64), -1, [put])).count("store") == 1
    loop = ir.While(YES, [ir.If(YES, [ir.Break()], []), put])
    assert after(passes.fold, loop) == "  while True:\n    break\n"
    assert after(passes.fold, ir.Return(None), put) == "  return\n"


def test_prune_drops_what_nothing_reads_and_keeps_calls():
    chain = [ir.Let("a", N), ir.Let("b", ir.Var("a", i64)), ir.Array("c", f32, 4)]
    assert after(passes.prune, *chain) == "  pass\n"
    called = ir.Function("other", [], i64, [ir.Return(ONE)])
    module = ir.Module(
        [ir.Function("k", [], None, [ir.Let("a", ir.Call("other", (), i64))]), called]
    )
    passes.prune(module)
    check(module)
    assert show(module).startswith("k() -> None:\n  other()\n")


def test_variables_set_once_are_registers():
    text = emit(add_one.module())
    assert "alloca float" not in text
    assert text.count("alloca") == 1  # what the chunks are given
    assert "alloca i64" in emit(first_above.module())  # `at` changes

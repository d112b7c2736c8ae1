"""Random kernels: the interpreter, machine code, and both again after the passes give the same bits."""

from __future__ import annotations

import ctypes
from copy import deepcopy

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight._codegen import ir, native
from rushlight._codegen.check import check
from rushlight._codegen.emit import emit
from rushlight._codegen.interpret import interpret
from rushlight._codegen.passes import PASSES
from rushlight._codegen.printer import show
from rushlight._codegen.runtime import threads
from rushlight._codegen.types import Ptr, b1, bf16, f16, f32, f64, i16, i32, i64, u8, u32, vector

N = 37  # elements that a kernel goes over
SPACE = 3 * N + 32
FLOATS, INTEGERS = (f32, f64), (i32, i64, u32)
MEMORY = (f32, f64, f16, bf16, i32, i64, i16, u8, b1)  # what arrays hold
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    -3e-41,
    6e-5,
    1e30,
    -2.5,
    65504,
]


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", "")
    threads.start()


def values(t, seed):
    """Numbers of a type, special ones among them."""
    random = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        if t.kind == "f":
            out = random.standard_normal(SPACE) * 10.0 ** random.integers(-3, 4, SPACE)
            where = random.random(SPACE) < 0.2
            out[where] = random.choice(SPECIAL, where.sum())
            return out.astype(t.np)
        if t is b1:
            return random.random(SPACE) < 0.5
        out = random.integers(-(2**62), 2**62, SPACE) >> random.integers(0, 63, SPACE)
        return out.astype(t.np)


class Trees:
    """Draws expressions. `lanes` of 0 makes numbers, else vectors."""

    def __init__(self, draw, lanes, leaf):
        self.draw, self.lanes, self.leaf = draw, lanes, leaf

    def type(self, t):
        return vector(t, self.lanes) if self.lanes else t

    def choose(self, *options):
        return options[self.draw(st.integers(0, len(options) - 1))]

    def constant(self, t):
        if t.kind == "f":
            value = self.choose(0.0, -0.0, 1.0, 0.1, -3.5, 1e10, float("inf"))
            return ir.Const(float(t.np.type(value)), self.type(t))
        if t is b1:
            return ir.Const(self.choose(True, False), self.type(t))
        return ir.Const(self.choose(0, 1, 2, 7, 100, 2**31 - 1), self.type(t))

    def tree(self, t, depth):
        if depth == 0 or not self.draw(st.integers(0, 5)):
            return self.leaf(self, t) if self.draw(st.integers(0, 3)) else self.constant(t)
        if t is b1:
            return self.condition(depth)
        make = self.choose(self.arithmetic, self.arithmetic, self.choice, self.cast)
        return make(t, depth - 1)

    def op(self, name, t, *args):
        return ir.Op(name, args, self.type(t))

    def arithmetic(self, t, depth):
        if t.kind == "f":
            name = self.choose(
                "add", "sub", "mul", "div", "neg", "fabs", "floor", "ceil", "trunc", "rint", "sqrt",
                "copysign", "fma",
            )  # fmt: skip
        else:
            name = self.choose(
                "add", "sub", "mul", "neg", "and", "or", "xor", "not", "shl", "shr", "div", "rem"
            )
        args = [self.tree(t, depth) for _ in range(ir.OPS[name][0])]
        if name in ("shl", "shr"):  # by more than there are bits is nothing
            args[1] = self.op("and", t, args[1], ir.Const(15, self.type(t)))
        if name == "copysign":  # the sign of NaN says nothing
            real = self.op("eq", b1, args[1], args[1])
            args[1] = self.op("select", t, real, args[1], ir.Const(1.0, self.type(t)))
        if name in ("div", "rem") and t.kind != "f":
            positive = self.op("and", t, args[1], ir.Const(0xFF, self.type(t)))
            args[1] = self.op("or", t, positive, ir.Const(1, self.type(t)))
        return self.op(name, t, *args)

    def condition(self, depth):
        name = self.choose("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not")
        if name in ("and", "or", "not"):
            return self.op(name, b1, *(self.tree(b1, depth - 1) for _ in range(ir.OPS[name][0])))
        t = self.choose(*FLOATS, *INTEGERS)
        return self.op(name, b1, self.tree(t, depth - 1), self.tree(t, depth - 1))

    def choice(self, t, depth):
        return self.op("select", t, self.tree(b1, depth), self.tree(t, depth), self.tree(t, depth))

    def cast(self, t, depth):
        a = self.choose(*(x for x in (*FLOATS, *INTEGERS, b1) if x is not t))
        value = self.tree(a, depth)
        if a.kind == "f" and t.kind != "f":  # what does not fit has no meaning
            low = ir.Const(0.0 if t is u32 else -1e6, self.type(a))
            inside = self.op(
                "and", b1, self.op("ge", b1, value, low),
                self.op("lt", b1, value, ir.Const(1e6, self.type(a))),
            )  # fmt: skip
            value = self.op("select", a, inside, value, ir.Const(3.0, self.type(a)))
        return ir.Cast(value, self.type(t))


def offset(p, by):
    return ir.Op("offset", (p, by), p.type)


def integer(value):
    return ir.Const(value, i64)


I, COUNT = ir.Var("i", i64), ir.Var("n", i64)
INPUTS = [ir.Var(f"x{k}", Ptr[t]) for k, t in enumerate(MEMORY)]


def element(trees, t):
    """An element of an input, or a vector of them: consecutive, masked, strided, gathered."""
    p = INPUTS[trees.draw(st.integers(0, len(INPUTS) - 1))]
    loaded = p.type.element.loaded
    stride, first = trees.choose(1, 1, 2, 3, 0), trees.choose(0, 0, 1, 5)
    at = ir.Op("add", (ir.Op("mul", (I, integer(stride)), i64), integer(first)), i64)
    if not trees.lanes:
        value = ir.Load(offset(p, at), loaded)
    elif trees.choose(True, False) or loaded is not p.type.element:
        here = ir.Op("splat", (ir.Op("sub", (COUNT, I), i64),), trees.type(i64))
        mask = trees.op("lt", b1, ir.Op("iota", (), trees.type(i64)), here)
        start = ir.Op("add", (I, integer(first)), i64)
        value = ir.Load(offset(p, start), trees.type(loaded), mask)
    else:
        steps = ir.Op(
            "mul", (ir.Op("iota", (), trees.type(i64)), ir.Const(stride, trees.type(i64))), trees.type(i64)
        )  # fmt: skip
        mask = ir.Const(True, trees.type(b1))
        value = ir.Op("gather", (offset(p, integer(first)), steps, mask), trees.type(loaded))
    if loaded is t:
        return value
    if loaded.kind == "f" and t.kind != "f":
        return trees.op("gt", b1, value, ir.Const(0.5, value.type)) if t is b1 else (
            ir.Cast(trees.op("gt", b1, value, ir.Const(0.5, value.type)), trees.type(t))
        )  # fmt: skip
    return ir.Cast(value, trees.type(t))


@st.composite
def loops(draw):
    """A kernel: out[i] = an expression of elements of nine arrays, for i up to n."""
    lanes = draw(st.sampled_from((0, 0, 4, 8, 16)))
    t = draw(st.sampled_from(MEMORY))
    trees = Trees(draw, lanes, element)
    if t.loaded in (f32, f64, i32, i64, u32, b1):
        value = trees.tree(t.loaded, draw(st.integers(1, 5)))
    else:
        value = ir.Cast(trees.tree(i32, 4), trees.type(t))
    out, mask = ir.Var("out", Ptr[t]), None
    if lanes:
        here = ir.Op("splat", (ir.Op("sub", (COUNT, I), i64),), trees.type(i64))
        mask = trees.op("lt", b1, ir.Op("iota", (), trees.type(i64)), here)
    body = [ir.Let("v", value), ir.Store(offset(out, I), ir.Var("v", value.type), mask)]
    independent = draw(st.booleans())
    loop = ir.For("i", integer(0), COUNT, max(lanes, 1), body, independent)
    return ir.Module([ir.Function("k", [*INPUTS, out, COUNT], None, [loop])])


def machine(module):
    """The machine code of a module's first function."""
    text = emit(module)
    (address,) = native.load(text, lambda: text, [module.functions[0].name])
    kinds = [ctypes.c_void_p if p.type.kind == "p" else ctypes.c_int64
             for p in module.functions[0].parameters]  # fmt: skip
    function = ctypes.CFUNCTYPE(None, *kinds)(address)
    return lambda *args: function(
        *(a.ctypes.data if isinstance(a, np.ndarray) else a for a in args)
    )


def same(a, b, what):
    if a.dtype.kind in "iub":
        assert (a == b).all(), what
    else:
        a, b = a.astype(np.float64), b.astype(np.float64)
        real = a == a  # the sign of NaN says nothing
        assert (real == (b == b)).all(), what
        assert ((a == b) & (np.signbit(a) == np.signbit(b)))[real].all(), what


def agree(module, args):
    check(module)
    smaller = deepcopy(module)
    for step in PASSES:
        step(smaller)
        check(smaller)
    results = []
    for run, given_to in (
        (interpret, module),
        (interpret, smaller),
        (machine, module),
        (machine, smaller),
    ):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        run(given_to, *copies) if run is interpret else machine(given_to)(*copies)
        results.append(copies)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            if isinstance(a, np.ndarray):
                same(a, b, show(module) + show(smaller))


@settings(max_examples=60)
@given(loops(), st.integers(0, 10), st.sampled_from((N, 16, 1, 0)))
def test_expressions(module, seed, n):
    arrays = [
        values(p.type.element, seed + k) for k, p in enumerate(module.functions[0].parameters[:-1])
    ]
    agree(module, [*arrays, n])


def vectors():
    whole = ir.Load(INPUTS[0], vector(f32, 8))
    for name in ("max", "min", "sum"):
        yield ir.Op(name, (ir.Cast(whole, vector(i32, 8)),), i32)
    yield ir.Op("sum", (whole,), f32)


@pytest.mark.parametrize("value", list(vectors()), ids=lambda v: v.name)
def test_reductions_of_vectors(value):
    out = ir.Var("out", Ptr[value.type])
    body = [ir.Store(out, value)]
    module = ir.Module([ir.Function("k", [INPUTS[0], out], None, body)])
    agree(module, [np.array([3, 1, -4, 1, 5, 9, -2, 6], np.float32), np.zeros(1, value.type.np)])


# Programs: variables that change, branches, loops that end early.

NAMES = {"a": i64, "b": i64, "c": f32, "d": f32, "e": f64, "f": b1}


def variable(trees, t):
    same_type = [n for n, u in NAMES.items() if u is t]
    if same_type:
        return ir.Var(trees.choose(*same_type), t)
    return trees.constant(t)


@st.composite
def programs(draw):
    trees = Trees(draw, 0, variable)
    loops = 0

    def block(depth, inside):
        return [statement(depth, inside) for _ in range(draw(st.integers(1, 4)))]

    def statement(depth, inside):
        nonlocal loops
        kind = draw(st.integers(0, 9 if depth else 4))
        if kind <= 3:
            name = trees.choose(*NAMES)
            return ir.Let(name, trees.tree(NAMES[name], 2))
        if kind == 4:
            if inside and draw(st.booleans()):
                return ir.If(trees.tree(b1, 1), [ir.Break()], [])
            at = ir.Op("and", (ir.Var("a", i64), integer(7)), i64)
            return ir.Store(offset(ir.Var("mine", Ptr[f32]), at), trees.tree(f32, 1))
        if kind <= 6:
            return ir.If(trees.tree(b1, 2), block(depth - 1, inside), block(depth - 1, inside))
        loops += 1
        name = f"k{loops}"
        if kind == 7:
            stop = trees.choose(
                integer(3), integer(0), ir.Op("and", (ir.Var("b", i64), integer(3)), i64)
            )
            return ir.For(name, integer(0), stop, 1, [*block(depth - 1, True), *use(name)])
        if kind == 8:
            return ir.For(name, integer(4), integer(-1), -2, [*block(depth - 1, True), *use(name)])
        count = ir.Let(name, ir.Op("add", (ir.Var(name, i64), integer(1)), i64))
        more = ir.Op("lt", (ir.Var(name, i64), integer(3)), b1)
        started.append(ir.Let(name, integer(0)))
        return ir.While(more, [count, *block(depth - 1, True)])

    def use(name):
        return [ir.Let("a", ir.Op("add", (ir.Var("a", i64), ir.Var(name, i64)), i64))]

    started = [ir.Array("mine", f32, 8)]
    body = block(3, False)
    # Names of names, which the passes take away.
    started += [ir.Let("n2", COUNT), ir.Let("a", ir.Var("n2", i64)), ir.Let("b", integer(2))]
    started += [ir.Let("c", ir.Const(0.5, f32)), ir.Let("d", ir.Load(INPUTS[0], f32))]
    started += [ir.Let("e", ir.Const(-1.25, f64)), ir.Let("f", ir.Const(True, b1))]
    for k in range(8):
        started.append(
            ir.Store(offset(ir.Var("mine", Ptr[f32]), integer(k)), ir.Const(float(k), f32))
        )
    out = ir.Var("out", Ptr[f64])
    ends = []
    for k, (name, t) in enumerate(NAMES.items()):
        value = ir.Var(name, t)
        ends.append(ir.Store(offset(out, integer(k)), value if t is f64 else ir.Cast(value, f64)))
    for k in range(8):
        held = ir.Load(offset(ir.Var("mine", Ptr[f32]), integer(k)), f32)
        ends.append(ir.Store(offset(out, integer(8 + k)), ir.Cast(held, f64)))
    function = ir.Function("k", [INPUTS[0], out, COUNT], None, [*started, *body, *ends])
    return ir.Module([function])


@settings(max_examples=100)
@given(programs(), st.integers(-3, 10))
def test_programs(module, n):
    agree(module, [np.array([1.5], np.float32), np.zeros(16), n])

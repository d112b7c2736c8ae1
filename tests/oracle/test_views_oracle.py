"""Random programs of views and writes in place: the same values and gradients as PyTorch, or an error.

A program is a list of instructions, each five numbers: what to do, to which tensors, with which
parameters. Both libraries run it step by step. A step that one refuses the other must refuse too. In
the end all tensors are compared (values, shapes, strides, aliasing, versions, who requires grad), and
the gradients of a weighted sum of all of them, which both must compute alike or both must refuse.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight

LIBRARIES = (rushlight, torch)


# -- instructions: function(library, tensor, other tensor, p, q) -> new tensor, or None ----------------


def dim(t, p):
    return p % t.dim() if t.dim() else 0


def size(t, p):
    return t.shape[dim(t, p)] if t.dim() else 1


def pick(t, p, q):
    return t.select(dim(t, p), q % size(t, p))


def part(t, p, q):
    n = size(t, p)
    start = q % n
    return t.narrow(dim(t, p), start, max((n - start) // 2, 1))


def steps(t, p, q):
    index = [slice(None)] * t.dim()
    if index:
        index[dim(t, p)] = slice(q % 2, None, 1 + q % 3)
    return t[tuple(index)]


def mixed(t, p, q):
    index = [
        (slice(None), 0, slice(0, 1), None, slice(1, None))[(p + k * q) % 5] for k in range(t.dim())
    ]
    return t[tuple(index)]


def windows(t, p, q):
    n = size(t, p)
    return t.unfold(dim(t, p), 1 + q % n, 1 + q % 2)


def memory(t, p, q):
    """`as_strided` of a whole tensor, elements may overlap.

    Of a part it may show memory outside of it, to which PyTorch sends gradients only after a write.
    """
    if t._is_view() or t.numel() < 8:
        return t
    return t.as_strided((2, 1 + p % 2), (1 + q % 3, 3), q % 2)


def overlapping(t):
    """Elements of `t` share memory; what a write then leaves behind is not defined."""
    places = np.zeros((), int)
    for n, s in zip(t.shape, t.stride(), strict=True):
        places = places[..., None] + np.arange(n) * s
    return np.unique(places).size < places.size


def stretched(t):
    return any(n > 1 and s == 0 for n, s in zip(t.shape, t.stride(), strict=True))


def fitted(t, other):
    """`other` brought to the shape of `t`, as a tensor that shares nothing with it."""
    total = other.sum() * 0.1
    return total.expand(t.shape)


VIEWS = {
    "pick": lambda m, t, o, p, q: pick(t, p, q),
    "part": lambda m, t, o, p, q: part(t, p, q),
    "steps": lambda m, t, o, p, q: steps(t, p, q),
    "mixed": lambda m, t, o, p, q: mixed(t, p, q),
    "whole": lambda m, t, o, p, q: t[...],
    "transpose": lambda m, t, o, p, q: t.transpose(dim(t, p), dim(t, q)),
    "permute": lambda m, t, o, p, q: t.permute(*np.roll(range(t.dim()), p).tolist()),
    "movedim": lambda m, t, o, p, q: t.movedim(dim(t, p), dim(t, q)),
    "unsqueeze": lambda m, t, o, p, q: t.unsqueeze(p % (t.dim() + 1)),
    "squeeze": lambda m, t, o, p, q: t.squeeze() if q % 2 else t.squeeze(dim(t, p)),
    "flat": lambda m, t, o, p, q: t.view(-1),
    "reshape": lambda m, t, o, p, q: t.reshape(2, -1),
    "flatten": lambda m, t, o, p, q: t.flatten(),
    "same shape": lambda m, t, o, p, q: t.view(t.shape),
    "expand": lambda m, t, o, p, q: t.expand(2, *t.shape),
    "diagonal": lambda m, t, o, p, q: t.diagonal(q % 3 - 1, dim(t, p), dim(t, p + 1)),
    "windows": lambda m, t, o, p, q: windows(t, p, q),
    "memory": lambda m, t, o, p, q: memory(t, p, q),
    "unbind": lambda m, t, o, p, q: t.unbind(dim(t, p))[q % size(t, p)],
    "split": lambda m, t, o, p, q: t.split(1 + q % 2, dim(t, p))[-1],
    "chunk": lambda m, t, o, p, q: t.chunk(2, dim(t, p))[0],
    "detach": lambda m, t, o, p, q: t.detach(),
    "quiet view": lambda m, t, o, p, q: quiet(m, lambda: pick(t, p, q)),
}
COPIES = {
    "times": lambda m, t, o, p, q: t * (1 + q % 3),
    "product": lambda m, t, o, p, q: t * fitted(t, o),
    "square": lambda m, t, o, p, q: t * t,
    "exp": lambda m, t, o, p, q: (t * 0.1).exp(),
    "sum": lambda m, t, o, p, q: t.sum(dim(t, p)) if t.dim() else t * 1,
    "rows": lambda m, t, o, p, q: t[m.tensor([0, q % len(t), 0])] if t.dim() else t * 1,
    "mask": lambda m, t, o, p, q: t[t.detach() > 0.3],
    "cat": lambda m, t, o, p, q: m.cat((t, t), dim(t, p)),
    "clone": lambda m, t, o, p, q: t.clone(),
}
WRITES = {
    "mul_": lambda m, t, o, p, q: t.mul_(1 + q % 3),
    "mul_ by": lambda m, t, o, p, q: t.mul_(fitted(t, o)),
    "add_": lambda m, t, o, p, q: t.add_(fitted(t, o)),
    "exp_": lambda m, t, o, p, q: t.mul_(0.1).exp_(),
    "zero_": lambda m, t, o, p, q: t.zero_(),
    "fill_": lambda m, t, o, p, q: t.fill_(q * 0.5),
    "copy_": lambda m, t, o, p, q: t.copy_(fitted(t, o)),
    "set number": lambda m, t, o, p, q: put(t, (q % len(t),) if t.dim() else ..., 0.5),
    "set tensor": lambda m, t, o, p, q: put(t, slice(0, 1 + q % 2), fitted(t[0], o)),
    "set all": lambda m, t, o, p, q: put(t, ..., fitted(t, o)),
    "set rows": lambda m, t, o, p, q: put(t, m.tensor([0, q % len(t)]), fitted(t[0], o)),
    "set mask": lambda m, t, o, p, q: put(t, t.detach() > 0.3, o.sum() * 0.1),
    "put": lambda m, t, o, p, q: t.index_put_(
        (m.tensor([0, 0]),), fitted(t[0], o), accumulate=True
    ),
    "masked_fill_": lambda m, t, o, p, q: t.masked_fill_(t.detach() > 0.3, 0.25),
    "index_fill_": lambda m, t, o, p, q: t.index_fill_(dim(t, p), m.tensor([0]), 0.25),
    "index_add_": lambda m, t, o, p, q: t.index_add_(0, m.tensor([0]), fitted(t[:1], o)),
    "part mul_": lambda m, t, o, p, q: part(t, p, q).mul_(2),
    "pick add_": lambda m, t, o, p, q: pick(t, p, q).add_(o.sum() * 0.1),
    "quiet write": lambda m, t, o, p, q: quiet(m, lambda: t.add_(0.5)),
    "requires_grad_": lambda m, t, o, p, q: t if t._is_view() else t.requires_grad_(),
}


def put(t, index, value):
    t[index] = value


def quiet(m, run):
    with m.no_grad():
        return run()


DEFINED = {"mul_", "mul_ by", "add_", "zero_", "fill_", "copy_", "set all"}  # on stretched memory
INSTRUCTIONS = {**VIEWS, **COPIES, **WRITES}
numbers = st.integers(0, 11)
programs = st.lists(
    st.tuples(st.sampled_from(sorted(INSTRUCTIONS)), numbers, numbers, numbers, numbers),
    min_size=1,
    max_size=9,
)


# -- running -------------------------------------------------------------------------------------------


def start(m):
    x = m.tensor(np.linspace(0.1, 1.3, 24).reshape(2, 3, 4)).requires_grad_()
    w = m.tensor(np.linspace(-0.5, 0.5, 6).reshape(2, 3)).requires_grad_()
    plain = m.tensor(np.linspace(-1.0, 1.0, 12).reshape(3, 4))
    return [x, w], [x * 1, w * 2, plain, x]


def attempt(run):
    """(result, None), or (None, the error) for the errors that a library raises on purpose."""
    try:
        return run(), None
    except (RuntimeError, IndexError, ValueError, TypeError) as e:
        return None, e


def run_program(program):
    """The leaves and all tensors, of both libraries."""
    worlds = [start(m) for m in LIBRARIES]
    log = []
    for name, i, j, p, q in program:
        made, errors = [], []
        target = worlds[1][1][i % len(worlds[1][1])]
        if name in WRITES and overlapping(target) and not (stretched(target) and name in DEFINED):
            continue
        # PyTorch says that a view made under no_grad requires grad, though no gradient flows there.
        other = worlds[1][1][j % len(worlds[1][1])]
        hidden = other._is_view() and attempt(lambda: other.grad_fn)[0] is None  # noqa: B023
        # PyTorch takes a view for a leaf when a write gave its base a history that nobody asked for
        attempt(lambda: target.grad_fn)  # noqa: B023 - run at once
        for m, (_, pool) in zip(LIBRARIES, worlds, strict=True):
            t, o = pool[i % len(pool)], pool[j % len(pool)]
            o = o.detach() if hidden else o
            result, error = attempt(lambda: INSTRUCTIONS[name](m, t, o, p, q))  # noqa: B023 - run at once
            made.append(result)
            errors.append(error)
        log.append((name, i, j, p, q, errors))
        assert (errors[0] is None) == (errors[1] is None), log
        if name in VIEWS or name in COPIES:
            for (_, pool), t in zip(worlds, made, strict=True):
                if t is not None and t.numel() and t.dim() < 6:
                    pool.append(t)
    return worlds, log


def alike(a, b, log, strides):
    a, b = a.detach(), b.detach()
    assert tuple(a.shape) == tuple(b.shape), log
    if strides:
        for n, ours, theirs in zip(a.shape, a.stride(), b.stride(), strict=True):
            assert n == 1 or ours == theirs, log
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12, err_msg=str(log))


def check(program):
    worlds, log = run_program(program)
    (our_leaves, ours), (their_leaves, theirs) = worlds
    assert len(ours) == len(theirs), log
    # How the result of arithmetic lies in memory is not clear where elements of an input overlap.
    clear = not any(overlapping(t) for t in theirs)
    # PyTorch says True for views without history of a tensor that has one: no gradient flows there.
    plain = not any(step[0] in ("quiet view", "requires_grad_") for step in program)
    for a, b in zip(ours, theirs, strict=True):
        alike(a, b, log, clear)
        if plain:
            assert a.requires_grad == b.requires_grad, log
        assert a._version == b._version, log
        assert a.storage_offset() == b.storage_offset() or not clear, log
        assert a._is_view() == b._is_view(), log
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        for c, d in zip(ours[:k], theirs[:k], strict=True):
            shared = a.untyped_storage().data_ptr() == c.untyped_storage().data_ptr()
            assert shared == (b.untyped_storage().data_ptr() == d.untyped_storage().data_ptr()), log
    losses = [attempt(lambda: loss(pool)) for _, pool in worlds]  # noqa: B023 - run at once
    assert (losses[0][1] is None) == (losses[1][1] is None), (log, losses)
    if losses[0][1] is not None:
        return
    gradients = [
        attempt(lambda: m.autograd.grad(value, leaves, allow_unused=True))  # noqa: B023 - run at once
        for m, (value, _), (leaves, _) in zip(LIBRARIES, losses, worlds, strict=True)
    ]
    assert (gradients[0][1] is None) == (gradients[1][1] is None), (log, gradients)
    if gradients[0][1] is not None:
        return
    for a, b, leaf in zip(gradients[0][0], gradients[1][0], their_leaves, strict=True):
        zeros = np.zeros(leaf.shape)
        np.testing.assert_allclose(
            zeros if a is None else a.numpy(),
            zeros if b is None else b.numpy(),
            rtol=1e-9,
            atol=1e-9,
            err_msg=str(log),
        )


def loss(pool):
    return sum((t * (0.3 + 0.1 * k)).sum() for k, t in enumerate(pool))


@settings(max_examples=300)
@given(programs)
def test_random_programs(program):
    check(program)


# -- programs that were wrong once, or that are the reason for a rule ----------------------------------

CASES = {
    "write through a view of a view": [
        ("transpose", 0, 0, 0, 2),
        ("pick", 4, 0, 1, 0),
        ("mul_", 5, 1, 0, 1),
    ],
    "view made before a write to its base": [
        ("part", 0, 0, 1, 0),
        ("mul_", 0, 0, 0, 1),
        ("square", 4, 0, 0, 0),
    ],
    "saved value overwritten": [("square", 0, 0, 0, 0), ("mul_", 0, 0, 0, 1)],
    "several views of one function": [("unbind", 0, 0, 0, 0), ("mul_", 4, 0, 0, 1)],
    "base of several views written": [("unbind", 0, 0, 0, 0), ("mul_", 0, 0, 0, 1)],
    "overlapping memory": [("windows", 0, 0, 2, 1), ("mul_", 4, 0, 0, 1)],
    "strides of the base": [
        ("permute", 0, 0, 1, 0),
        ("clone", 4, 0, 0, 0),
        ("part", 5, 0, 1, 0),
        ("mul_", 6, 0, 0, 1),
    ],
    "history from a write": [("pick", 2, 0, 0, 0), ("add_", 4, 1, 0, 0), ("square", 2, 0, 0, 0)],
    "write to a leaf": [("mul_", 3, 0, 0, 1)],
    "write to a view of a leaf": [("pick", 3, 0, 0, 0), ("mul_", 4, 0, 0, 1)],
    "view made without recording": [("quiet view", 0, 0, 0, 0), ("mul_", 4, 0, 0, 1)],
    "stretched memory": [("expand", 0, 0, 0, 0), ("mul_", 4, 0, 0, 1)],
}


@pytest.mark.parametrize("name", CASES)
def test_programs_with_a_reason(name):
    check(CASES[name])


def test_gradients_are_often_computed():
    """The random programs must not all end in an error, or they would show nothing."""
    computed = 0
    for seed in range(60):
        r = np.random.default_rng(seed)
        names = sorted(INSTRUCTIONS)
        program = [
            (names[r.integers(len(names))], *r.integers(0, 12, 4).tolist()) for _ in range(5)
        ]
        worlds, _ = run_program(program)
        (leaves, pool) = worlds[1]
        value, error = attempt(lambda: loss(pool))  # noqa: B023 - run at once
        if error is None:
            computed += (
                attempt(lambda: torch.autograd.grad(value, leaves, allow_unused=True))[1] is None
            )  # noqa: B023
    assert computed > 20

"""Every kernel that machine code replaces, called with odd arrays; `test_compiled_odd_arrays.py` runs it.

    RUSHLIGHT_COMPILED=always python tests/odd_arrays.py FAMILY|ufuncs [ROUNDS [SEED]]

Arrays are laid out in all ways that NumPy has, share memory, have one element too few, or end at a
protected page. The result is the reference's, or an error; the process survives. It is a program of
its own because who reads outside of an array ends it: the last line printed says which call.
"""

from __future__ import annotations

import collections
import sys
from importlib import import_module

import numpy as np

import guard
import odd_matrices
from odd_draws import FLOATS, INTEGERS, long_or, shape_of, some
from odd_examples import example_of
from rushlight._backends import llvm
from rushlight._backends.index import LLVM
from rushlight._backends.llvm import registration
from rushlight._codegen import native_entry

# What a result may be off by, relative to the largest: layouts that are read wrongly are off by far more.
CLOSE = {4: 1e-4, 8: 1e-9, 2: 3e-2}
# How many results are compared; vectors have any sign, eigenvalues any order.
SHOWN = {
    "attention": 1,
    "recurrent_layer": 3,
    "topk": 1,
    "eigh": 1,
    "svd": 0,
    "eig": 0,
    "eigvals": 0,
}
# These write into arguments: which.
WRITES = {
    "copy_into": (0,), "put_slices": (0,), "fill": (0,), "arange_into": (0,), "linspace_into": (0,), "both_ends_into": (0,), "powers_into": (0,), "scatter_reduce": (0,),
    "random_normal_floats": (1,), "random_scalar_normals": (1,), "random_permutation": (1,), "add_rows": (0,), "index_add_at": (0,),
    "index_put": (0,), "fill_masked": (0,), "scatter": (0,), "reduce_slices": (0,), "masked_scatter": (0,),
    "update_running_stats": (0, 1), "random_uniform": (1,), "random_doubles": (1,), "random_exponentials": (1,),
    "random_cauchys": (1,), "random_geometrics": (1,), "random_floats": (1,), "random_bernoulli": (1,), "random_seeded": (0,),
    "random_integers": (1,), "random_normals": (0, 3), "random_wide_normals": (0, 3),
}  # fmt: skip


class Subclass(np.ndarray):
    pass


class Guarding:
    """NumPy, whose new arrays end at a protected page."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def empty(shape, dtype=float, order="C"):
        if order != "C":
            return np.empty(shape, dtype, order)
        return guard.guarded(np.zeros(shape, dtype))

    @staticmethod
    def zeros(shape, dtype=float):
        return guard.guarded(np.zeros(shape, dtype))

    @staticmethod
    def empty_like(a, dtype=None):
        like = np.empty_like(a, dtype)
        return guard.guarded(like) if like.flags.c_contiguous and like.size else like


# -- odd arrays ---------------------------------------------------------------------------------------


def odd(rng, a):
    """The same numbers (but for "repeated") in memory of another kind."""
    ways = ["after", "before", "columns", "steps", "backwards", "moved", "odd", "constant", "far"]
    way = str(rng.choice([*ways, "repeated", "swapped", "subclass", "number"]))
    if way in ("after", "before") and a.size:
        return guard.guarded(a, way)
    if way == "columns":
        return np.asarray(a, order="F")
    if way == "steps" and a.ndim:
        wide = np.full((*a.shape[:-1], 2 * a.shape[-1] + 1), 77, a.dtype)
        wide[..., 1::2] = a
        return wide[..., 1::2]
    if way == "backwards" and a.ndim:
        at = (slice(None),) * int(rng.integers(a.ndim)) + (slice(None, None, -1),)
        return np.ascontiguousarray(a[at])[at]
    if (
        way == "moved" and a.ndim > 1
    ):  # another order of dimensions in memory, up to a protected page
        order = rng.permutation(a.ndim)
        return guard.guarded(np.ascontiguousarray(a.transpose(order))).transpose(np.argsort(order))
    if way == "odd" and a.size:
        space = np.zeros(a.nbytes + 1, np.uint8)
        out = space[1:].view(a.dtype).reshape(a.shape)
        out[...] = a
        return out
    if way == "constant":
        a = a.copy()
        a.flags.writeable = False
    if way == "far" and a.ndim and a.size < 1000:  # pages of zeros take no memory
        wide = np.zeros((*a.shape, 1 << 17), a.dtype)[..., 0]
        wide[...] = a
        return wide
    if way == "repeated" and a.size and a.ndim:
        at = int(rng.integers(a.ndim))
        return np.broadcast_to(a.take([0], at), a.shape)
    if way == "swapped" and a.dtype.kind != "V":
        return a.astype(a.dtype.newbyteorder())
    if way == "subclass":
        return a.view(Subclass)
    if way == "number" and a.ndim == 0:
        return a[()]
    return a


def short(rng, a):
    """The array without its last slice, up to a protected page."""
    if not a.ndim or not a.size:
        return a
    at = int(rng.integers(a.ndim))
    return guard.guarded(a[(slice(None),) * at + (slice(0, a.shape[at] - 1),)])


def mapped(tree, function):
    """The arguments with each array replaced."""
    if isinstance(tree, tuple | list):
        return type(tree)(mapped(each, function) for each in tree)
    return function(tree) if isinstance(tree, np.ndarray) else tree


def arrays_in(tree):
    if isinstance(tree, tuple | list):
        return [a for each in tree for a in arrays_in(each)]
    return [tree] if isinstance(tree, np.ndarray | np.generic) else []


def whole_numbers(tree):
    if isinstance(tree, tuple | list):
        return [n for each in tree for n in whole_numbers(each)]
    return [tree] if type(tree) is int else []


def shared(rng, args):
    """Arrays of one dtype and size in the same memory: one is the other, or they overlap by all but one
    element. An array that is alone stays as it is: moved by an element, its rows would not belong together."""
    pool: dict = {}
    alike = collections.Counter((a.dtype, a.size) for a in arrays_in(args))

    def place(a):
        if not a.size or alike[a.dtype, a.size] == 1:
            return guard.guarded(a) if a.size else a
        if (a.dtype, a.size) not in pool:
            pool[a.dtype, a.size] = guard.guarded(np.append(a.reshape(-1), a.reshape(-1)[:1]))
        at = int(rng.integers(2))
        return pool[a.dtype, a.size][at : at + a.size].reshape(a.shape)

    return mapped(args, place)


def numbers_changed(rng, args):
    """One of the whole numbers is another."""
    places = [
        i
        for i, a in enumerate(args)
        if type(a) is int or (type(a) is tuple and a and type(a[0]) is int)
    ]
    if not places:
        return args
    args, at = list(args), int(rng.choice(places))
    by = int(rng.choice([-1, 1, 2]))
    if type(args[at]) is int:
        args[at] += by
    else:
        i = int(rng.integers(len(args[at])))
        args[at] = (*args[at][:i], args[at][i] + by, *args[at][i + 1 :])
    return tuple(args)


# -- calls ---------------------------------------------------------------------------------------------


def reference_of(name):
    """The NumPy kernel that a compiled one stands for."""
    if name == "attention_gradients":
        return attention_gradients_of
    if name == "reverse_subtract":
        return lambda a, b: np.subtract(b, a)
    if name == "clip_arrays":
        return lambda a, low, high: np.minimum(np.maximum(a, low), high)
    return registration.reference_of(name)


def attention_gradients_of(g, q, k, v, mask, causal, result, kept, scale, needs):
    reference = import_module("rushlight._backends.reference.attention")
    weights = reference.attention(q, k, v, mask, causal, scale, True)[1]
    return reference.attention_gradients(g, q, k, v, mask, causal, result, weights, scale, needs)


def fresh(args):
    """The arguments once more: other memory, and generators in the same state."""
    from rushlight.rng.generator import Generator

    def again(each):
        if isinstance(each, Generator):
            made = Generator()
            made.set_state(each.get_state())
            return made
        return type(each)(again(e) for e in each) if isinstance(each, tuple | list) else each

    return mapped(again(args), lambda a: np.array(a, native(a.dtype)))


def steps(a):
    """The strides of dimensions of more than one element: those of others are PyTorch's in machine code only."""
    return [s for s, n in zip(a.strides, a.shape, strict=True) if n != 1]


def native(dtype):
    return np.dtype(dtype.char) if dtype.kind != "V" else dtype


def run(function, args):
    """(results and what was written, None), or (None, the exception)."""
    try:
        with np.errstate(all="ignore"):
            return function(*args), None
    except Exception as error:
        return None, error


def differs(name, got, expected) -> str:
    """What is wrong with a result; nothing if it is right."""
    if isinstance(expected, tuple | list):
        if not isinstance(got, tuple | list) or len(got) != len(expected):
            return f"{type(got)} of another length"
        return next(
            (d for g, e in zip(got, expected, strict=True) if (d := differs(name, g, e))), ""
        )
    if not isinstance(expected, np.ndarray | np.generic):
        return "" if got is expected or got == expected else f"{got!r}, expected {expected!r}"
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape == expected.shape and not got.size:
        return ""
    if got.shape != expected.shape or native(got.dtype) != expected.dtype:
        return f"{got.dtype}{got.shape}, expected {expected.dtype}{expected.shape}"
    if expected.dtype.kind in "iub":
        return "" if (got == expected).all() else "other whole numbers"
    with np.errstate(all="ignore"):
        g, e = got.astype(np.float64), expected.astype(np.float64)
        size = 4 if name == "cross_entropy" else expected.dtype.itemsize  # its sums are of float32
        bound = CLOSE[min(size, expected.dtype.itemsize)] * (
            1 + np.abs(e[np.isfinite(e)]).max(initial=0)
        )
        good = (np.abs(g - e) <= bound) | (g == e) | (np.isnan(g) & np.isnan(e))
        return "" if good.all() else f"off by {np.abs(g - e)[~good].max():.3g} (bound {bound:.3g})"


def attempt(name, function, reference, rng, args, kind) -> str:
    """One call; what is wrong with it."""
    writes = WRITES.get(name, ())
    if kind == "odd":
        args = tuple(
            a if i in writes else mapped(a, lambda a: odd(rng, a)) for i, a in enumerate(args)
        )
    elif kind == "short" and name == "embedding_bag":
        return ""  # its operator has looked whether indices are in range
    elif kind == "short":
        there = len(arrays_in(args))
        count = iter(range(there))
        which = int(rng.integers(max(there, 1)))
        args = mapped(
            args,
            lambda a: short(rng, a) if next(count) == which else guard.guarded(a) if a.size else a,
        )
    elif kind == "shared":
        args = shared(rng, args)
    elif kind == "numbers":
        args = numbers_changed(rng, mapped(args, lambda a: guard.guarded(a) if a.size else a))
    elif kind == "empty":
        args = mapped(
            args, lambda a: a[:0] if a.ndim and rng.integers(2) else a[..., :0] if a.ndim else a
        )
    print(name, kind, described(args), flush=True)
    if (
        name in SHOWN
    ):  # what is kept for the gradient differs, and which of equal elements are taken
        inner = function, reference
        function, reference = (lambda *a, f=f: f(*a)[: SHOWN[name]] for f in inner)
    plain = fresh(args)
    held = [None if i in writes else mapped(a, np.copy) for i, a in enumerate(args)]
    expected, refused = run(reference, plain)
    got, error = run(function, args)
    for i, (a, before) in enumerate(zip(args, held, strict=True)):
        for x, y in zip(arrays_in(a), arrays_in(before), strict=False):
            if x.tobytes() != y.tobytes() and not (kind == "shared" and writes):
                return f"wrote into argument {i}"
    strange = any(not a.dtype.isnative or type(a) is Subclass for a in arrays_in(args))
    if kind in ("numbers", "short", "empty") and (refused or error):
        # What PyTorch's operators refuse before a kernel is asked need not be refused again: it must
        # only be no danger, which the pages tell.
        if refused or kind == "numbers" or name.startswith("window_averages"):
            return ""
        return f"{error!r} where the reference computes"
    if refused is not None:
        return ""
    if kind == "shared" and writes:
        return ""  # what comes first is open
    if error is not None:
        return "" if strange or "read-only" in str(error) else f"{error!r}"
    if name in ("cat_contiguous", "stack_contiguous") and got is None:
        return ""  # left to another way: arrays in another order
    if strange:
        return ""  # tensors have none; the process must survive
    if name == "searchsorted" and kind == "shared":
        return ""  # what is searched is not sorted
    if (name == "attention_gradients" or name in odd_matrices.NAMES) and (
        kind in ("shared", "short") or 0 in sum((a.strides for a in arrays_in(args)), ())
    ):
        return ""  # what was kept is of other numbers; matrices are singular
    if kind == "numbers" and any(n < 0 for n in whole_numbers(args)):
        return ""  # among them paddings, which no operator makes negative
    if kind == "numbers" and name.startswith(("random", "max_pool", "window_averages")):
        return ""
    written = [args[i] for i in writes if isinstance(args[i], np.ndarray)]
    wanted = [plain[i] for i in writes if isinstance(args[i], np.ndarray)]
    return differs(name, (got, [np.array(w, native(w.dtype)) for w in written]), (expected, wanted))


def described(tree):
    if isinstance(tree, tuple | list):
        return "(" + ", ".join(described(each) for each in tree) + ")"
    if not isinstance(tree, np.ndarray):
        return repr(tree)[:60]
    return f"{tree.dtype.str}{list(tree.shape)}/{list(tree.strides)}"


def kernels_of(family: str) -> dict:
    """name -> (the kernel, the NumPy kernel, what makes arguments)."""
    binding = import_module(f"rushlight._backends.llvm.{family}")
    for module in (binding, *map(import_module, OTHERS)):
        if vars(module).get("np") is np:
            module.np = Guarding()
    if hasattr(binding, "SHORT"):
        binding.SHORT = 0
    found = {}
    for name in (kernel for kernel, file in LLVM.items() if file == family):
        function = registration.kernel(name)
        found[name] = function, reference_of(name), example_of(name, function)
    return {name: each for name, each in found.items() if each[2] is not None}


def main(family: str, rounds: int, seed: int = 0) -> int:
    """Try all kernels of a family; the number of wrong results."""
    import rushlight

    assert llvm.activate()
    wrong = 0
    for name, (function, reference, example) in kernels_of(family).items():
        for i in range(rounds):
            rng = np.random.default_rng([seed, i])
            dtype = FLOATS[i % len(FLOATS)]
            if i % 7 == 6:
                dtype = INTEGERS[i % len(INTEGERS)]
            kind = KINDS[i // len(FLOATS) % len(KINDS)]
            rushlight.set_num_threads(1 + i % 2)
            native_entry.use(i % 4 < 2)  # their results are not at protected pages
            if name == "l2_norm" and dtype.kind in "iu":
                continue  # of real numbers only
            try:
                args = example(rng, dtype)
            except (ValueError, TypeError, IndexError, OverflowError, RuntimeError) as error:
                if dtype.kind in "iu":  # no example in that dtype
                    continue
                raise AssertionError(f"the example of {name} failed") from error
            found = attempt(name, function, reference, rng, args, kind)
            guard._held.clear()
            if found:
                wrong += 1
                print(f"WRONG {name} {dtype} seed={seed} round={i}: {found}")
    print(f"{wrong} wrong")
    return wrong


def ufuncs(rounds: int, seed: int = 0) -> int:
    """Try NumPy's functions of elements that are replaced: results are laid out as NumPy's too."""
    import rushlight
    from rushlight._backends import cpu as xp

    assert llvm.activate()
    wrong = 0
    for name in (kernel for kernel, file in LLVM.items() if file == "ufuncs"):
        function, reference = getattr(xp, name), getattr(np, name)
        for i in range(rounds):
            rng = np.random.default_rng([seed, i])
            dtype = [*FLOATS, *INTEGERS, np.dtype(bool), np.dtype(np.complex64)][i % 11]
            args = tuple(odd(rng, a) for a in broadcast(rng, dtype, reference.nin))
            if args[0].size and rng.integers(4) == 0:
                args = shared(rng, args)
            rushlight.set_num_threads(1 + i % 2)
            print(name, described(args), flush=True)
            held = mapped(args, np.copy)
            (expected, refused), (got, error) = run(reference, args), run(function, args)
            found = differs(name, got, expected) if refused is error is None else ""
            if type(refused) is not type(error):
                found = f"{error!r}, expected {refused!r}"
            elif refused is None and not found and steps(got) != steps(expected):
                found = f"strides {got.strides}, expected {expected.strides}"
            elif any(a.tobytes() != b.tobytes() for a, b in zip(args, held, strict=True)):
                found = "wrote into an argument"
            elif refused is None:
                out = odd(rng, np.zeros_like(expected))
                if out.flags.writeable and 0 not in out.strides and isinstance(out, np.ndarray):
                    function(*args, out=out)
                    found = differs(name, out, expected)
            guard._held.clear()
            if found:
                wrong += 1
                print(f"WRONG {name} {dtype} seed={seed} round={i}: {found}")
    print(f"{wrong} wrong")
    return wrong


def broadcast(rng, dtype, count):
    """Arrays that broadcast together, short or long; dimensions of one, and fewer dimensions."""
    shape = shape_of(rng) if rng.integers(2) else (long_or(rng, 1, 300), long_or(rng, 17, 200), 3)
    found = []
    for _ in range(count):
        own = tuple(1 if rng.integers(4) == 0 else n for n in shape)[
            rng.integers(2) * rng.integers(3) :
        ]
        found.append(
            some(rng, own, dtype)
            if dtype.kind != "b"
            else np.asarray(some(rng, own, FLOATS[0]) > 0)
        )
    return found


KINDS = ("odd", "odd", "short", "shared", "numbers", "odd", "empty")
OTHERS = ["rushlight._backends.llvm.products", "rushlight._backends.llvm.winograd"]

if __name__ == "__main__":
    family, *numbers = sys.argv[1:]
    numbers = [int(n) for n in numbers] or [70]
    sys.exit((ufuncs(*numbers) if family == "ufuncs" else main(family, *numbers)) != 0)

"""The override protocol against PyTorch: which calls are asked about, and the classes of the results."""

from __future__ import annotations

import importlib
import types
import warnings

import pytest
import torch

import rushlight

warnings.filterwarnings("ignore", message="The use of `x.T`")

# The function has this name there, that one here.
OTHER_NAMES = {
    "__rsub__": "rsub", "__eq__": "eq", "__rpow__": "pow", "__floordiv__": "floor_divide",
    "__and__": "bitwise_and", "linalg_norm": "norm", "fft_fft": "fft", "special_erf": "erf",
}  # fmt: skip

EXPRESSIONS = """
torch.add(x, y)
torch.add(y, x)
x + y
y + x
x + 1
1 + x
1 - x
2 ** x
x // 2
x == y
-x
x @ y
(x > 0) & (y > 0)
x.sum()
torch.sum(x, dim=0)
torch.max(x, 0)
x.topk(1)
x.sort()
x.split(1)
torch.tensor_split(x, 3)
x.add_(1)
torch.add(y, y, out=torch.empty(3).as_subclass(L))
torch.cat([x, y])
torch.stack((y, x))
x[0]
x[x > 1]
x.__setitem__(0, 5.0)
x.shape
x.dtype
x.requires_grad
x.size()
x.dim()
x.numel()
x.stride()
x.is_contiguous()
x.data
x.grad
x.detach()
x.clone()
x.tolist()
x.numpy()
len(x)
repr(x)
1.0 in x
x.view(3, 1)
x.reshape(-1)
x.to(torch.float64)
x.double()
x.new_zeros(2)
torch.zeros_like(x)
torch.where(x > 0, x, y)
torch.allclose(x, y)
torch.broadcast_tensors(x, y)
torch.einsum("i,i->", x, y)
torch.unique(x)
torch.linalg.norm(x)
torch.fft.fft(x)
torch.special.erf(x)
torch.nn.functional.relu(x)
torch.nn.functional.linear(x, torch.ones(2, 3))
torch.nn.functional.softmax(x, 0)
torch.nn.functional.mse_loss(x, y)
torch.is_tensor(x)
torch.is_floating_point(x)
y.clone().copy_(x)
p + 1
p + q
q + p
p.sum()
p.max(0)
p.data
p.grad
torch.add(x, p)
torch.add(d, 1)
torch.add(y, d)
y + d
d + y
torch.stack([d, y])
torch.nn.functional.linear(d, y)
torch.broadcast_tensors(d, y)
torch.add(n, 1)
y + n
overrides.is_tensor_like(d)
overrides.is_tensor_like(3)
overrides.has_torch_function((x,))
overrides.has_torch_function((y, 1))
overrides.resolve_name(torch.add)
overrides.resolve_name(torch.nn.functional.relu)
overrides.resolve_name(torch.Tensor.shape.__get__)
overrides.is_tensor_method_or_property(torch.cat)
""".strip().splitlines()


def world(torch):
    """The names an expression may use, of one library, and the list of what was asked about."""
    calls = []

    class L(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(OTHER_NAMES.get(func.__name__, func.__name__))
            return super().__torch_function__(func, types, args, kwargs or {})

    class P(torch.Tensor):
        pass

    class Q(P):
        pass

    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return "duck"

    class Declines:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    names = {
        "torch": torch,
        "overrides": importlib.import_module(f"{torch.__name__}.overrides"),
        "L": L,
        "x": torch.tensor([1.0, 2.0, 3.0]).as_subclass(L),
        "y": torch.ones(3),
        "p": torch.ones(2).as_subclass(P),
        "q": torch.ones(2).as_subclass(Q),
        "d": Duck(),
        "n": Declines(),
    }
    return names, calls


def outcome(torch, expression):
    names, calls = world(torch)
    try:
        result = eval(expression, names)
    except Exception as e:
        return type(e).__name__, calls
    if isinstance(result, (bool, str, int, types.NoneType)) and not expression.startswith("repr"):
        return result, calls
    kinds = [type(result).__name__]
    if type(result) is tuple or "return_types" in type(result).__module__:
        kinds += [type(item).__name__ for item in result]
    return kinds, calls


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_same_calls_and_classes(expression):
    assert outcome(rushlight, expression) == outcome(torch, expression)


def test_modes_see_the_same_calls():
    def seen(torch):
        overrides = importlib.import_module(f"{torch.__name__}.overrides")
        calls = []

        class Mode(overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                calls.append(func.__name__)
                return func(*args, **(kwargs or {}))

        y = torch.ones(3)
        m = torch.ones(2, 2)
        with Mode(), Mode():
            y + 1, y.sum(), y[0], torch.zeros(2), torch.cat([y, y]), torch.nn.functional.relu(y)
            y.add_(1), torch.rand(2), torch.tensor([1.0]), torch.arange(3), y.softmax(0)
        with Mode():
            (
                y.shape,
                m.T,
                y.grad,
                y.device,
                y._version,
                y.size(),
                y.dim(),
                y.sum().item(),
                y.numpy(),
                y.tolist(),
                len(y),
            )
            (
                y.requires_grad_(),
                y.exp().sum().backward(),
                repr(y),
                bool(y[0]),
                1.0 in y,
                y.detach(),
                y.numel(),
            )
            y.grad = None
            del y.grad
        assert torch.ones(3).shape == (3,)
        return calls

    assert seen(rushlight) == seen(torch)


def _functions():
    for path in ("", "nn.functional", "linalg", "special", "fft"):
        there, here = (
            importlib.import_module(f"{package}.{path}".rstrip("."))
            for package in ("torch", "rushlight")
        )
        for name in dir(there):
            theirs, ours = getattr(there, name), getattr(here, name, None)
            functions = isinstance(theirs, (types.FunctionType, types.BuiltinFunctionType))
            if name[0] != "_" and functions and isinstance(ours, types.FunctionType):
                yield f"{path}.{name}".removeprefix("."), theirs, ours


def test_what_is_builtin_there_is_not_traced_into_here():
    """Whether `symbolic_trace(function)` is refused. Where PyTorch has a function in C++ under one name and one in Python
    under the other, and here is one for both, it is traced."""
    both = "adaptive_max_pool1d max_pool1d max_pool1d_with_indices max_pool2d max_pool3d sigmoid special.expit tanh threshold"
    index, other = rushlight.dispatch.methods.index, []
    for path, theirs, ours in _functions():
        operator = path in index.FUNCTIONS or path in index.INPLACE
        there, here = (
            isinstance(theirs, types.BuiltinFunctionType),
            rushlight.fx.names.is_builtin(ours),
        )
        if operator and there != here:
            other.append(path)
    settings = "can_cast promote_types row_stack".split()
    assert sorted(set(other) - {*settings} - {*both.split()}) == []

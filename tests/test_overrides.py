"""The override protocol: tensor subclasses, objects with `__torch_function__`, function modes."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as torch
from rushlight import overrides


class Logged(torch.Tensor):
    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs)


class Plain(torch.Tensor):
    """A subclass that overrides nothing."""


class Finer(Plain):
    pass


class Duck:
    """No tensor: answers every call by its name."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "duck", func.__name__


class Declines:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Recorder(overrides.TorchFunctionMode):
    def __init__(self, calls, name="mode"):
        self.calls, self.name = calls, name

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append((self.name, func.__name__))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def x():
    Logged.calls = []
    return torch.tensor([1.0, 2.0, 3.0]).as_subclass(Logged)


@pytest.mark.parametrize(
    "call, func",
    [
        (lambda x: torch.add(x, 1), lambda: torch.add),
        (lambda x: x + 1, lambda: torch.Tensor.add),
        (lambda x: torch.ones(3) + x, lambda: torch.Tensor.add),
        (lambda x: x.sum(), lambda: torch.Tensor.sum),
        (lambda x: x.add_(1), lambda: torch.Tensor.add_),
        (lambda x: x.view(3, 1), lambda: torch.Tensor.view),
        (lambda x: x.reshape(3, 1), lambda: torch.Tensor.reshape),
        (lambda x: x[0], lambda: torch.Tensor.__getitem__),
        (lambda x: torch.cat([torch.ones(1), x]), lambda: torch.cat),
        (lambda x: torch.nn.functional.relu(x), lambda: torch.nn.functional.relu),
        (lambda x: torch.einsum("i,i->i", x, x), lambda: torch.einsum),
        (lambda x: x.detach(), lambda: torch.Tensor.detach),
        (lambda x: x.data, lambda: torch.Tensor.data.__get__),
        (lambda x: torch.add(torch.ones(3), 1, out=x), lambda: torch.add),
    ],
)
def test_a_call_is_asked_once_and_keeps_the_class(x, call, func):
    y = call(x)
    assert type(y) is Logged
    assert [func()] == Logged.calls


@pytest.mark.parametrize(
    "call, func",
    [
        (lambda x: x.shape, lambda: torch.Tensor.shape.__get__),
        (lambda x: x.requires_grad, lambda: torch.Tensor.requires_grad.__get__),
        (lambda x: x.size(0), lambda: torch.Tensor.size),
        (lambda x: x.tolist(), lambda: torch.Tensor.tolist),
        (lambda x: x.stride(), lambda: torch.Tensor.stride),
        (lambda x: len(x), lambda: torch.Tensor.__len__),
        (lambda x: repr(x), lambda: torch.Tensor.__repr__),
        (lambda x: x.__setitem__(0, 5.0), lambda: torch.Tensor.__setitem__),
        (lambda x: setattr(x, "requires_grad", True), lambda: torch.Tensor.requires_grad.__set__),
    ],
)
def test_what_computes_nothing_is_asked_too(x, call, func):
    bare = call(x.as_subclass(torch.Tensor))
    Logged.calls = []
    y = call(x)
    assert [func()] == Logged.calls
    assert type(y) is type(bare)
    assert str(y).removeprefix("Logged") == str(bare).removeprefix("tensor")


def test_several_results_keep_the_class(x):
    values, indices = x.max(0)
    assert type(values) is type(indices) is Logged
    assert x.max(0)._fields == ("values", "indices")
    assert {type(t) for t in x.split(1)} == {Logged}


def test_a_subclass_may_have_its_own_methods():
    class Own(torch.Tensor):
        def sum(self):
            return "mine", super().sum().item()

        @property
        def shape(self):
            return "shape"

    x = torch.ones(2).as_subclass(Own)
    assert x.sum() == ("mine", 2.0) and x.shape == "shape"
    assert torch.ones(2).shape == (2,)


def test_a_subclass_that_overrides_nothing():
    x, y = torch.ones(2, 2).as_subclass(Plain), torch.ones(2, 2).as_subclass(Finer)
    assert type(x + 1) is type(1 + x) is type(x.sum()) is type(x.T) is type(x[0]) is Plain
    assert type(x + y) is type(y + x) is Finer
    assert type(x.shape) is torch.Size and type(x.data) is type(x.detach()) is Plain
    assert type(copy.deepcopy(x)) is Plain


def test_gradients_pass_through_a_subclass_and_stay_plain():
    x = torch.tensor([1.0, 2.0]).as_subclass(Plain).requires_grad_()
    (x * x).sum().backward()
    assert type(x.grad) is torch.Tensor
    assert x.grad.tolist() == [2.0, 4.0]


def test_subclasses_that_are_not_related_cannot_meet(x):
    with pytest.raises(TypeError, match="returned NotImplemented"):
        torch.add(x, torch.ones(3).as_subclass(Plain))


@pytest.mark.parametrize(
    "disable", [overrides.DisableTorchFunctionSubclass, torch._C.DisableTorchFunction]
)
def test_disabling(x, disable):
    with disable():
        assert type(x + 1) is torch.Tensor and x.shape == (3,)
        with pytest.raises(TypeError):
            torch.add(Duck(), 1)
    assert Logged.calls == []
    assert type(x + 1) is Logged


def test_a_class_whose_results_are_plain():
    class Quiet(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    assert type(torch.ones(2).as_subclass(Quiet) + 1) is torch.Tensor


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda d: torch.add(d, 1), "add"),
        (lambda d: torch.add(torch.ones(1), d), "add"),
        (lambda d: torch.ones(1) + d, "add"),
        (lambda d: torch.stack([d, d]), "stack"),
        (lambda d: torch.nn.functional.linear(d, d), "linear"),
        (lambda d: torch.broadcast_tensors(torch.ones(1), d), "broadcast_tensors"),
        (lambda d: torch.zeros_like(d), "zeros_like"),
        (lambda d: torch.where(torch.ones(1) > 0, d, 1), "where"),
    ],
)
def test_objects_that_are_no_tensors(call, name):
    assert call(Duck()) == ("duck", name)


def test_everyone_declines():
    with pytest.raises(TypeError, match="all __torch_function__ handlers returned NotImplemented"):
        torch.add(Declines(), 1)
    with pytest.raises(TypeError, match="unsupported operand"):
        torch.ones(1) + Declines()

    class Silent(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with Silent(), pytest.raises(TypeError, match="mode object"):
        torch.add(torch.ones(1), 1)


def test_modes_nest_and_are_off_inside_themselves():
    calls = []
    y = torch.ones(2)
    with Recorder(calls, "outer"), Recorder(calls, "inner"):
        y.sum(), y[0], torch.zeros(1), torch.cat([y, y])
    assert calls == [
        (m, f) for f in ("sum", "__getitem__", "zeros", "cat") for m in ("inner", "outer")
    ]
    y.sum()
    assert len(calls) == 8


def test_a_mode_that_fails_is_left():
    calls = []
    with pytest.raises(ZeroDivisionError), Recorder(calls):
        1 / 0
    torch.ones(2) + 1
    assert calls == []
    with pytest.raises(NotImplementedError), overrides.TorchFunctionMode():
        torch.ones(2)


def test_functions_of_ones_own(x):
    @overrides.wrap_torch_function(lambda a, b=1: (a,))
    def double(a, b=1):
        return "own"

    assert double(1) == double(torch.ones(1)) == "own"
    assert double(Duck()) == ("duck", "double")
    assert overrides.has_torch_function((1, x)) and not overrides.has_torch_function((1, 2))
    assert overrides.has_torch_function_unary(Duck())
    assert overrides.has_torch_function_variadic(1, Duck())
    with pytest.raises(TypeError, match="no implementation found for"):
        double(Declines())


def test_what_is_like_a_tensor(x):
    assert overrides.is_tensor_like(torch.ones(1)) and overrides.is_tensor_like(x)
    assert overrides.is_tensor_like(Duck()) and not overrides.is_tensor_like(1.0)


def test_names_of_functions():
    assert overrides.resolve_name(torch.add) == "torch.add"
    assert overrides.resolve_name(torch.nn.functional.relu) == "torch.nn.functional.relu"
    assert overrides.resolve_name(torch.Tensor.shape.__get__) == "torch.Tensor.shape.__get__"
    for name in ("is_cuda", "is_mps", "is_xpu", "is_quantized", "is_nested", "is_mkldnn"):
        getter = getattr(torch.Tensor, name).__get__
        assert overrides.resolve_name(getter) == f"torch.Tensor.{name}.__get__"
    assert overrides.resolve_name(lambda: 1) is None
    assert overrides.is_tensor_method_or_property(torch.Tensor.shape.__get__)
    assert overrides.is_tensor_method_or_property(torch.Tensor.tolist)
    assert not overrides.is_tensor_method_or_property(torch.cat)


def test_the_lists():
    found = overrides.get_overridable_functions()
    assert torch.add in found[torch] and torch.zeros not in found[torch]
    assert torch.nn.functional.relu in found[torch.nn.functional]
    assert torch.Tensor.shape.__get__ in found[torch.Tensor]
    assert torch.is_tensor in overrides.get_ignored_functions()
    assert overrides.get_testing_overrides()[torch.add](1, 2) == -1
    assert torch.Tensor.grad.__get__ in overrides.get_default_nowrap_functions()


def test_plain_tensors_have_bare_descriptors():
    """No cost on the straight path: only subclasses have descriptors that ask."""
    from rushlight.dispatch.overrides import AskedMethod, AskedProperty

    asked = (AskedMethod, AskedProperty)
    assert not any(isinstance(v, asked) for v in vars(torch.Tensor).values())
    assert not any(isinstance(v, asked) for v in vars(torch.nn.Parameter).values())
    assert isinstance(vars(Plain)["shape"], AskedProperty)


def test_an_absent_attribute_points_to_the_page():
    with pytest.raises(AttributeError, match=r"to_mkldnn.*docs/coverage\.md"):
        torch.ones(1).to_mkldnn()
    assert not hasattr(torch.Tensor, "to_mkldnn")
    for holder in (
        torch,
        torch.linalg,
        torch.fft,
        torch.special,
        torch.nn,
        torch.nn.functional,
        torch.autograd,
    ):
        with pytest.raises(AttributeError, match=r"docs/coverage\.md"):
            holder.no_such_name


def test_an_index_that_overrides_is_asked():
    class Index(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function.__name__

    index = torch.tensor([1]).as_subclass(Index)
    x = torch.arange(6).reshape(2, 3)
    assert x[index] == x[index, 1] == x[0, index] == "__getitem__"


class Kept(torch.Tensor):
    """A tensor with a slot, whose results get the log of what they came from."""

    __slots__ = ("log",)

    def __new__(cls, data, log=None):
        made = torch.Tensor._make_subclass(cls, data, require_grad=data.requires_grad)
        made.log = [] if log is None else log
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        log = next(a.log for a in args if isinstance(a, Kept))
        log.append(func.__name__)
        result = torch.overrides.redispatch_function(func, types, args, kwargs)
        plain = isinstance(result, torch.Tensor) and not isinstance(result, Kept)
        return cls(result, log) if plain else result


def test_a_call_that_is_not_asked_about_gives_plain_tensors():
    """So that what a class keeps is never missing: no object of it is made behind its back."""
    x = Kept(torch.ones(2, requires_grad=True))
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x.detach()) is type(x.data) is type(x.clone()) is torch.Tensor
    assert type(x.detach()) is Kept
    p = torch.nn.Parameter(x)
    assert type(p) is Kept
    assert isinstance(p, torch.nn.Parameter)
    assert p.log is x.log
    assert (p + 1).log is x.log
    assert x.log == ["detach", "detach", "requires_grad_", "add"]


def test_slots_of_a_subclass_are_copied():
    x = Kept(torch.ones(2, requires_grad=True), ["begun"])
    x.more = 3
    with torch._C.DisableTorchFunctionSubclass():
        for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert type(other) is Kept
            assert other.log == ["begun"]
            assert other.log is not x.log
            assert other.more == 3
            assert other.requires_grad
            assert torch.equal(other, x)


def test_factors_are_passed_by_name():
    """A handler may take them by name alone, as PyTorch's functions do."""
    seen = []

    class Noting(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func.__name__, len(args), kwargs))
            return super().__torch_function__(func, types, args, kwargs or {})

    x, y = torch.ones(2).as_subclass(Noting), torch.ones(2)
    torch.add(x, y, alpha=2)
    torch.sub(y, x, alpha=3)
    torch.addcmul(x, y, y, value=4)
    x.addcdiv(y, y, value=5)
    torch.add(x, y)
    assert seen == [
        ("add", 2, {"alpha": 2}), ("sub", 2, {"alpha": 3}), ("addcmul", 3, {"value": 4}),
        ("addcdiv", 3, {"value": 5}), ("add", 2, {}),
    ]  # fmt: skip


@pytest.mark.parametrize("name, how", [("split", 2), ("chunk", 2), ("split_with_sizes", [1, 3])])
def test_functions_whose_parts_are_no_views_are_asked_about_by_their_own_names(name, how):
    asked = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.zeros(4).as_subclass(Asked)
    parts = getattr(torch, f"unsafe_{name}")(x, how)
    assert asked == [getattr(torch, f"unsafe_{name}")]
    assert all(isinstance(part, Asked) for part in parts)


PLAIN_FUNCTIONS = {
    "split": lambda x: torch.split(x, 1), "chunk": lambda x: torch.chunk(x, 2), "ravel": lambda x: torch.ravel(x),
    "flatten": lambda x: torch.flatten(x, 0), "narrow": lambda x: torch.narrow(x, 0, 0, 1),
    "positive": lambda x: torch.positive(x), "where": lambda x: torch.where(x), "t_copy": lambda x: torch.t_copy(x),
    "select_copy": lambda x: torch.select_copy(x, 0, 0), "nonzero": lambda x: torch.nonzero(x), "multi_dot": lambda x: torch.linalg.multi_dot([x, x]),
    "index_put": lambda x: torch.index_put(x, (torch.tensor([0]),), torch.ones(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN_FUNCTIONS)
def test_functions_that_are_no_operators_are_asked_for_as_a_whole(name):
    assert PLAIN_FUNCTIONS[name](Duck()) == ("duck", name)
    Logged.calls = []
    found = PLAIN_FUNCTIONS[name](torch.eye(2).as_subclass(Logged))
    assert [f.__name__ for f in Logged.calls] == [name]
    assert all(isinstance(t, Logged) for t in (found if isinstance(found, tuple) else [found]))


@pytest.mark.parametrize(
    "call",
    [lambda x: x.split(1), lambda x: x.split(split_size=1), lambda x: +x, lambda x: x.narrow(0, 0, 1)],
    ids=["split", "split by name", "positive", "narrow"],
)  # fmt: skip
def test_methods_that_are_no_operators_are_asked_for_as_a_whole(call):
    Logged.calls = []
    call(torch.eye(2).as_subclass(Logged))
    assert len(Logged.calls) == 1
    for wanted, got in zip(torch.eye(2).split(1), torch.eye(2).split(split_size=1)):
        assert torch.equal(wanted, got)


def test_objects_that_are_no_tensors_in_lists():
    assert torch.index_put(torch.ones(2), [Duck()], torch.ones(1)) == ("duck", "index_put")
    assert torch.linalg.multi_dot([torch.ones(2, 2), Duck()]) == ("duck", "multi_dot")


@pytest.mark.parametrize("function", [
    torch.indices_copy, torch.values_copy, torch.sym_int, torch.sym_sum, lambda x: torch.sym_ite(x, x, x),
    lambda x: torch.smm(x, x), lambda x: torch.hspmm(x, x), lambda x: torch.dsmm(x, x), lambda x: torch.saddmm(x, x, x),
    lambda x: torch.nonzero_static(x, size=1),
])  # fmt: skip
def test_objects_are_asked_before_their_layout_is_looked_at(function):
    assert function(Duck())[0] == "duck"


def test_an_index_that_overrides_is_asked_when_elements_are_assigned():
    x = torch.zeros(3)
    for index in (Duck(), (0, Duck()), torch.tensor([1]).as_subclass(Logged)):
        Logged.calls = []
        x[index] = 2.0
        if isinstance(index, Logged):
            assert Logged.calls == [torch.Tensor.__setitem__]
    assert x.tolist() == [0, 2, 0]
    y = torch.zeros(3, requires_grad=True) * 1
    y[Duck()] = y[0]
    assert y._version == 0


def test_python_methods_have_their_names():
    for name in ("bool", "int", "float", "complex"):
        Logged.calls = []
        getattr(__import__("builtins"), name)(torch.ones(1).as_subclass(Logged))
        assert Logged.calls == [getattr(torch.Tensor, f"__{name}__")]
        assert Logged.calls[0].__name__ == f"__{name}__"
    assert torch.Tensor.type.__name__ == "type"


def test_a_subclass_is_asked_after_its_memory_was_taken_away():
    x = torch.ones(2).as_subclass(Logged)
    x.set_()
    Logged.calls = []
    torch.max(torch.cat([x, torch.ones(1)]))
    assert [f.__name__ for f in Logged.calls] == ["cat", "max"]


def test_broadcast_all_takes_objects():
    from rushlight.distributions.utils import broadcast_all

    assert broadcast_all(Duck(), 1.0) == ("duck", "broadcast_tensors")


def test_testing_overrides_have_the_parameters_of_their_functions():
    import inspect

    found = overrides.get_testing_overrides()[torch.nn.functional.batch_norm]
    assert inspect.getfullargspec(found).args[:3] == ["input", "running_mean", "running_var"]
    assert found() == -1
    members = overrides.get_overridable_functions()[torch.Tensor]
    for name in (
        "__add__",
        "__radd__",
        "__iadd__",
        "__neg__",
        "__setitem__",
        "__bool__",
        "__len__",
        "add",
    ):
        assert getattr(torch.Tensor, name) in members, name


def test_what_is_no_sequence_and_a_class_method_of_a_mode_are_refused():
    with pytest.raises(TypeError, match="expected a sequence"):
        overrides.has_torch_function(object())

    class Mode(overrides.TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with pytest.raises(RuntimeError, match="classmethod is not supported"):
        Mode().__enter__()


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda x: x.size(), "size"),
        (lambda x: x.dim(), "dim"),
        (lambda x: x.stride(), "stride"),
        (lambda x: x.is_contiguous(), "is_contiguous"),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: x.requires_grad_(), "requires_grad_"),
        (lambda x: len(x), "__len__"),
        (lambda x: repr(x), "__repr__"),
        (lambda x: x.shape, "shape.__get__"),
        (lambda x: torch.Tensor.size(x), "size"),
        (lambda x: x.sum(), "sum"),
    ],
)
def test_nested_modes_are_asked_from_the_inside(call, name):
    calls = []

    class Mode(overrides.TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append((self.name, overrides.resolve_name(func)))
            return func(*args, **(kwargs or {}))

    class Passes(overrides.BaseTorchFunctionMode):
        pass

    x, size = torch.ones(2, 2), torch.Tensor.size
    with Mode("outer"), Passes(), Mode("inner"):
        assert torch.Tensor.size is size
        call(x)
    names = ("torch.", "torch.Tensor.") if name == "sum" else ("torch.Tensor.",)
    assert [who for who, _ in calls] == ["inner", "outer"]
    assert {what for _, what in calls} <= {space + name for space in names}
    del calls[:]
    call(x)
    assert not calls and torch.Tensor.size.__kwdefaults__ is None


@pytest.mark.parametrize("kind", [torch.Tensor, torch.nn.Parameter])
def test_a_mode_sees_what_a_program_reads_and_writes(kind):
    calls = []

    class Mode(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append(
                (overrides.resolve_name(func) or func.__name__).removeprefix("torch.Tensor.")
            )
            return func(*args, **(kwargs or {}))

    x = kind(torch.ones(2, 2))
    with Mode():
        (
            x.shape,
            x.T,
            x.size(),
            len(x),
            bool(x[0, 0]),
            x.detach().numpy(),
            torch.nn.functional.relu(x),
        )
        x.grad = torch.ones(2, 2)
    x.shape, x.size(), len(x)
    assert calls == [
        "shape.__get__", "T.__get__", "size", "__len__", "__getitem__", "__bool__", "detach", "numpy", "torch.nn.functional.relu",
        "torch.ones", "grad.__set__",
    ]  # fmt: skip
    assert not {"__getattribute__", "__setattr__", "__delattr__"} & vars(torch.Tensor).keys()


def test_a_tensor_of_a_tensor_has_its_history():
    x = torch.ones(2, requires_grad=True)
    made = Plain(x * 3)
    assert type(made) is Plain and made._is_view()
    made.sum().backward()
    assert x.grad.tolist() == [3, 3]
    a = torch.ones(2)
    assert Plain(a)._base is a and torch.Tensor(a)._base is a


def test_in_place_methods_ask_before_they_look_at_the_dtype():
    class Answers(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return getattr(func, "__name__", "a property")

    a = torch.tensor([5.0]).as_subclass(Answers)
    for _ in range(3):  # a function is printed for a kind of call that is seen twice
        assert torch.Tensor.abs_(a) == "abs_"
        assert torch.Tensor.mul_(a, a) == "mul_"
        assert torch.mul(a, a) == "mul"


def test_the_larger_of_two_asks_as_a_whole():
    assert torch.max(Duck(), Duck()) == ("duck", "max")
    assert torch.min(torch.ones(2), Duck()) == ("duck", "min")
    calls = []
    with Recorder(calls):
        assert torch.max(torch.ones(2), torch.zeros(2)).tolist() == [1, 1]
    assert ("mode", "max") in calls


class Bare(torch.Tensor):
    pass


def test_as_subclass_is_a_view():
    """Gradients go to what it was made of, and writes to one are writes to the other."""
    x = torch.ones(2, requires_grad=True)
    y = x.as_subclass(Bare)
    assert not y.is_leaf and y._is_view() and y._base is x and y.grad_fn.name() == "AliasBackward0"
    (y * 2).sum().backward()
    assert x.grad.tolist() == [2, 2] and type(x.grad) is torch.Tensor
    p = torch.ones(2, requires_grad=True)
    u = p * 3
    u.as_subclass(Bare).mul_(2)
    u.sum().backward()
    assert p.grad.tolist() == [6, 6]
    w = torch.ones(3)
    w.as_subclass(Bare).add_(1)
    assert w.tolist() == [2, 2, 2] and w._version == 1


def test_history_of_results_of_subclasses_ends_with_their_view():
    x = torch.ones(2, requires_grad=True).as_subclass(Bare)
    assert repr(x * 2) == "Bare([2., 2.], grad_fn=<AliasBackward0>)"
    assert [node.name() for node, _ in (x * 2).grad_fn.next_functions] == ["MulBackward0"]


class Below(torch.Tensor):
    called: list = []

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.called.append(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return cls(func(*[a.inner if isinstance(a, cls) else a for a in args], **(kwargs or {})))


def test_as_subclass_asks_a_torch_dispatch():
    """It is `aten.alias` below autograd; what a handler returns counts."""
    s = torch.ones(2).as_subclass(Below)
    Below.called.clear()
    t = s.as_subclass(torch.Tensor)
    assert type(t) is torch.Tensor and t.data_ptr() == s.data_ptr()
    assert Below.called == ["aten.alias.default"]
    with pytest.raises(
        RuntimeError,
        match="already associated to a python object of type Tensor which is not a sub",
    ):
        s.as_subclass(Bare)
    assert type(Wrapper(torch.ones(2)).as_subclass(torch.Tensor)) is Wrapper


def test_a_class_with_a_torch_dispatch_has_no_torch_function_of_its_own_accord():
    """Its results have the class that `__torch_dispatch__` gives them."""
    assert Below.__torch_function__ is torch._C._disabled_torch_function_impl
    assert type(torch.ones(2).as_subclass(Below) + 1) is torch.Tensor

    class Both(Below):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super(Below, cls).__torch_function__(func, types, args, kwargs or {})

    assert type(torch.ones(2).as_subclass(Both) + 1) is Both

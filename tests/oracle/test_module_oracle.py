"""`Module` against PyTorch: what hooks see and change, what loading says, lazy modules, kinds of tensors.

Each scenario runs in both libraries and notes what it sees; the notes are equal.
"""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
import torch

import rushlight

pytestmark = pytest.mark.filterwarnings("ignore")


def plain(value):
    """Values without their library: numbers, names, containers."""
    if isinstance(value, (torch.Tensor, rushlight.Tensor)):
        return value.detach().double().numpy()
    if isinstance(value, (torch.nn.Module, rushlight.nn.Module)):
        return type(value).__name__
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def assert_same(mine, theirs, where):
    if isinstance(theirs, np.ndarray):
        assert isinstance(mine, np.ndarray), (where, mine, theirs)
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6, err_msg=where)
    elif isinstance(theirs, (list, dict)):
        assert len(mine) == len(theirs), (where, mine, theirs)
        for key in theirs if isinstance(theirs, dict) else range(len(theirs)):
            assert_same(mine[key], theirs[key], where)
    else:
        assert mine == theirs, where


class Notes(list):
    def __call__(self, *values):
        self.append(plain(values))

    def error(self, function, *kinds):
        try:
            self("no error", function())
        except Exception as error:
            self(type(error).__name__, str(error))

    def kind(self, function):
        """Only which exception, where the words differ."""
        try:
            self("no error", function())
        except Exception as error:
            self(type(error).__name__)


def two_layers(t):
    net = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Tanh(), t.nn.Linear(3, 1))
    with t.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_((t.arange(float(p.numel())) - k).reshape(p.shape) / 5)
    return net


def inputs(t):
    return t.tensor([[0.5, -1.0], [2.0, 0.25]], requires_grad=True)


def forward_hooks(t, note):
    net, x = two_layers(t), inputs(t)

    def pre(module, args):
        note("pre", module, args)
        return (args[0] * 2,)

    def pre_one(module, args):
        return args[0] + 1  # what is no tuple is put into one

    def post(module, args, out):
        note("post", module, args, out)
        return out * 3

    def post_nothing(module, args, out):
        note("nothing", out)

    handles = [
        net[0].register_forward_pre_hook(pre),
        net[0].register_forward_pre_hook(pre_one, prepend=True),
        net[1].register_forward_hook(post),
        net[1].register_forward_hook(post_nothing),
    ]
    note(net(x))
    handles[0].remove()
    handles[2].remove()
    note(net(x))
    with handles[1]:
        note(net(x))
    note(net(x), len(net[0]._forward_pre_hooks))


def forward_hooks_with_kwargs(t, note):
    class Scale(t.nn.Module):
        def forward(self, x, *, by=1.0):
            return x * by

    net, x = Scale(), inputs(t)
    net.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True
    )
    net.register_forward_hook(
        lambda m, args, kwargs, out: note(args, kwargs, out), with_kwargs=True
    )
    note(net(x, by=2.0))
    bad = Scale()
    bad.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    note.kind(lambda: bad(x, by=1.0))


def always_called(t, note):
    class Fails(t.nn.Module):
        def forward(self, x):
            raise ValueError("from forward")

    net = Fails()
    net.register_forward_hook(lambda m, a, o: note("ordinary"))
    net.register_forward_hook(lambda m, a, o: note("always", o), always_call=True)
    note.error(lambda: net(inputs(t)))


def backward_hooks(t, note):
    net, x = two_layers(t), inputs(t)
    for k, module in enumerate(net):
        module.register_full_backward_pre_hook(lambda m, g, k=k: note("pre", k, g))
        module.register_full_backward_hook(lambda m, gi, go, k=k: note("full", k, gi, go))
    net[1].register_full_backward_pre_hook(lambda m, g: (g[0] * 2,))
    net[1].register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,))
    net(x).sum().backward()
    note(x.grad, [p.grad for p in net.parameters()])


def backward_hooks_without_input_gradient(t, note):
    net = two_layers(t)
    net[0].register_full_backward_hook(lambda m, gi, go: note("first", gi, go))
    net(inputs(t).detach()).sum().backward()
    note([p.grad for p in net.parameters()])
    frozen = two_layers(t).requires_grad_(False)
    frozen[0].register_full_backward_hook(lambda m, gi, go: note("never"))
    note(frozen(inputs(t).detach()).requires_grad)


def backward_hooks_of_several(t, note):
    class Two(t.nn.Module):
        def forward(self, x, y, word):
            return x * y, x + y

    net, x, y = Two(), inputs(t), inputs(t).detach()
    net.register_full_backward_hook(lambda m, gi, go: note(gi, go))
    a, b = net(x, y, "word")
    (a.sum() + 2 * b.sum()).backward()
    note(x.grad)
    x.grad = None
    a, b = net(x, y, "word")
    a.sum().backward()
    note(x.grad)
    note.kind(lambda: net.register_backward_hook(lambda m, gi, go: None))


def older_backward_hooks(t, note):
    net, x = t.nn.Tanh(), inputs(t)
    net.register_backward_hook(lambda m, gi, go: note("old", gi, go))
    net(x).sum().backward()
    note(x.grad)
    note.kind(lambda: net.register_full_backward_hook(lambda m, gi, go: None))


def global_hooks(t, note):
    module = t.nn.modules.module
    net, x = two_layers(t), inputs(t)
    handles = [
        module.register_module_forward_pre_hook(lambda m, a: note("pre", m)),
        module.register_module_forward_hook(lambda m, a, o: note("post", m)),
        module.register_module_full_backward_pre_hook(lambda m, g: note("back pre", m, g)),
        module.register_module_full_backward_hook(lambda m, gi, go: note("back", m, gi, go)),
    ]
    try:
        net[0].register_forward_hook(lambda m, a, o: note("own"))
        net(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    net(x).sum().backward()
    note(x.grad)


def registration_hooks(t, note):
    module = t.nn.modules.module
    handles = [
        module.register_module_parameter_registration_hook(lambda m, n, p: note("p", m, n)),
        module.register_module_buffer_registration_hook(lambda m, n, b: note("b", m, n)),
        module.register_module_module_registration_hook(lambda m, n, c: note("m", m, n, c)),
    ]
    try:
        net = two_layers(t)
        net.register_buffer("count", t.zeros(1))
        net.more = t.nn.BatchNorm1d(2)
        net.add_module("last", None)
    finally:
        for handle in handles:
            handle.remove()
    two_layers(t)


def state_hooks(t, note):
    net = t.nn.Sequential(t.nn.Linear(1, 2), t.nn.BatchNorm1d(2))
    net[0]._register_state_dict_hook(
        lambda m, state, prefix, meta: note("saved", list(state), prefix, sorted(meta))
    )
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: state.update(extra=1))
    net[0].register_state_dict_pre_hook(lambda m, prefix, keep: note("saving", prefix, keep))
    state = net.state_dict(prefix="net.", keep_vars=True)
    note(list(state), [bool(getattr(v, "requires_grad", 0)) for v in state.values()])
    net[1].register_load_state_dict_pre_hook(
        lambda m, state, prefix, meta, strict, missing, unexpected, errors: note(
            "loading", m, sorted(state), prefix, dict(meta), strict, missing
        )
    )
    net[0]._register_load_state_dict_pre_hook(
        lambda state, prefix, *rest: note("plain", sorted(state), prefix)
    )
    net.register_load_state_dict_post_hook(lambda m, keys: note("loaded", m, keys))
    net[1].register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    given = {"0.weight": t.ones(2, 1), "0.bias": t.ones(2), "9.x": t.ones(1)}
    note.error(lambda: net.load_state_dict(given))
    note.error(lambda: net.load_state_dict(given, strict=False))
    net.register_load_state_dict_post_hook(lambda m, keys: 5)
    note.kind(lambda: net.load_state_dict(given, strict=False))


def extra_state(t, note):
    class Counts(t.nn.Linear):
        count = 3

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            note("set", state)
            self.count = state["count"]

    net = t.nn.Sequential(Counts(1, 1), t.nn.Linear(1, 1))
    state = net.state_dict()
    note(list(state), state["0._extra_state"])
    state["0._extra_state"]["count"] = 7
    note(net.load_state_dict(state), net[0].count)
    del state["0._extra_state"]
    note.error(lambda: net.load_state_dict(state))
    state["1._extra_state"] = 5
    note.error(lambda: net.load_state_dict(state))


def loading(t, note):
    net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2), t.nn.Linear(2, 2, bias=False))
    good = {k: v.clone() + 1 for k, v in net.state_dict().items()}
    note(net.load_state_dict(good), list(net.parameters()))
    note.error(lambda: net.load_state_dict({**good, "0.weight": t.ones(3, 2)}))
    note.error(lambda: net.load_state_dict({**good, "0.weight": t.ones(3, 2)}, strict=False))
    note.error(lambda: net.load_state_dict({**good, "2.bias": t.ones(2)}))
    note.error(lambda: net.load_state_dict({**good, "2.deep.er": t.ones(2), "zero": t.ones(1)}))
    note.error(lambda: net.load_state_dict({k: v for k, v in good.items() if k[0] == "1"}))
    note.error(lambda: net.load_state_dict({}, strict=False))
    note.error(lambda: net.load_state_dict({f"module.{k}": v for k, v in good.items()}))
    note.kind(lambda: net.load_state_dict(5))
    note.kind(lambda: net.load_state_dict([1, 2]))
    weight = net[0].weight
    net.load_state_dict(good, assign=True)
    note(net[0].weight is weight, type(net[0].weight).__name__, net[0].weight.requires_grad)
    net.load_state_dict({**good, "0.weight": good["0.weight"].double()}, assign=True)
    note(str(net[0].weight.dtype))
    frozen = t.nn.Linear(2, 2).requires_grad_(False)
    frozen.load_state_dict(t.nn.Linear(2, 2).state_dict(keep_vars=True), assign=True)
    note(frozen.weight.requires_grad)
    half = t.nn.Linear(2, 2).double()
    half.load_state_dict(t.nn.Linear(2, 2).state_dict())
    note(str(half.weight.dtype))


def lazy(t, note):
    net = t.nn.Sequential(t.nn.LazyLinear(3), t.nn.LazyBatchNorm1d(), t.nn.LazyConv1d(2, 1))
    note(repr(net), [type(p).__name__ for p in net.parameters()])
    note(net[0].has_uninitialized_params(), list(net.state_dict()))
    for action in (
        lambda: net[0].weight.shape,
        lambda: net[0].weight + 1,
        lambda: net[0].weight.data_ptr(),
        lambda: copy.deepcopy(net[0].weight).shape,
        lambda: net.double() and None,
        lambda: net.share_memory() and None,
        lambda: sum(p.numel() for p in net.parameters()),
    ):
        note.kind(action)
    net.float()
    saved = io.BytesIO(pickle.dumps(copy.deepcopy(net[0]).state_dict()))
    note(list(pickle.load(saved)))
    t.manual_seed(1)
    out = net[1](net[0](t.ones(4, 2)))
    note(out.shape == (4, 3), repr(net), [type(p).__name__ for p in net[0].parameters()])
    note(type(net[0]).__name__, net[0].weight, hasattr(net[0], "_initialize_hook"))
    other = t.nn.LazyLinear(3)
    note(other.load_state_dict(net[0].state_dict()), other.weight.shape == (3, 2))
    note(type(other).__name__, repr(other))
    other(t.ones(1, 2))
    note(type(other).__name__, repr(other), other.weight)
    full = t.nn.Linear(2, 3)
    note.kind(lambda: full.load_state_dict(t.nn.LazyLinear(3).state_dict()))
    fresh = t.nn.LazyLinear(3)
    note(fresh.load_state_dict(t.nn.LazyLinear(3).state_dict()))
    note.kind(lambda: t.nn.LazyConv2d(3, 1)(t.ones(2, 2)))

    class Own(t.nn.modules.lazy.LazyModuleMixin, t.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = t.nn.UninitializedParameter()
            self.register_buffer("count", t.nn.UninitializedBuffer())

        def initialize_parameters(self, x):
            note("initialize", x)
            self.weight.materialize((x.shape[-1],))
            self.count.materialize((1,))
            with t.no_grad():
                self.weight.fill_(2)
                self.count.fill_(1)

        def forward(self, x):
            return x * self.weight + self.count

    own = Own()
    note(own.has_uninitialized_params(), own(t.ones(1, 3)), own.has_uninitialized_params())
    note(own(t.ones(1, 3)), type(own).__name__, own.state_dict())


def uninitialized(t, note):
    p = t.nn.UninitializedParameter(requires_grad=False, dtype=t.float64)
    b = t.nn.UninitializedBuffer(dtype=t.int64)
    note(repr(p), repr(b), isinstance(p, t.nn.Parameter), isinstance(p, t.Tensor))
    note(isinstance(b, t.nn.Parameter), p.requires_grad, str(p.dtype), p.is_leaf)
    note(t.nn.parameter.is_lazy(p), t.nn.parameter.is_lazy(t.ones(1)))
    for action in (lambda: p.shape, lambda: p * 2, lambda: b.numpy(), lambda: len(p)):
        note.kind(action)
    p.materialize((2, 3))
    b.materialize((2,), dtype=t.int32)
    note(type(p).__name__, list(p.shape), str(p.dtype), p.requires_grad, type(b).__name__)
    note(str(b.dtype), t.nn.parameter.is_lazy(p))


def buffers(t, note):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.saved = t.nn.Buffer(t.ones(2))
            self.passing = t.nn.Buffer(t.zeros(2), persistent=False)
            self.register_buffer("none", None)
            self.register_buffer("later", t.ones(1), persistent=False)

    net = Net()
    # Its class is a subclass here, and Tensor itself in PyTorch.
    note(isinstance(net.saved, t.nn.Buffer), repr(net.saved), type(net.saved + 1).__name__)
    note(list(net.state_dict()), [n for n, _ in net.named_buffers()])
    net.saved = t.full((2,), 5.0)
    note(net.saved, isinstance(net.saved, t.nn.Buffer), list(net.state_dict()))
    net.later = t.nn.Buffer(t.ones(1))
    note(list(net.state_dict()))
    net.saved = None
    note(list(net.state_dict()), net.saved)
    note.kind(lambda: setattr(net, "saved", 5))
    note.kind(lambda: net.register_buffer("a.b", t.ones(1)))
    note.kind(lambda: net.register_buffer("", t.ones(1)))
    note.kind(lambda: net.register_buffer("forward", t.ones(1)))
    note.kind(lambda: net.register_buffer("x", 5))
    del net.passing
    note([n for n, _ in net.named_buffers()], copy.deepcopy(net).state_dict())
    net.saved = t.nn.Parameter(t.ones(1))
    note([n for n, _ in net.named_parameters()], [n for n, _ in net.named_buffers()])


def walks(t, note):
    shared = t.nn.Linear(2, 2)
    net = t.nn.ModuleDict({"a": t.nn.Sequential(shared, t.nn.ReLU()), "b": shared})
    net.tied = shared.weight
    net.register_buffer("count", t.ones(1))
    for duplicates in (True, False):
        note([n for n, _ in net.named_modules(remove_duplicate=duplicates)])
        note([n for n, _ in net.named_parameters(remove_duplicate=duplicates)])
        note([n for n, _ in net.named_buffers(prefix="x", remove_duplicate=duplicates)])
    note([n for n, _ in net.named_parameters("pre", recurse=False)], list(net.state_dict()))
    note([n for n, _ in net.named_children()], net.get_submodule("a.0"), net.get_submodule(""))
    note(net.get_parameter("a.0.bias"), net.get_buffer("count"))
    for path in ("a.5", "q", "a.0.weight", "a.0.none"):
        note.error(lambda path=path: net.get_submodule(path))
        note.kind(lambda path=path: net.get_parameter(path))
        note.kind(lambda path=path: net.get_buffer(path))
    net.set_submodule("a.0", t.nn.Tanh())
    note(repr(net))
    note.kind(lambda: net.set_submodule("", t.nn.Tanh()))
    note(net.eval().training, net.train()["a"].training, net.requires_grad_(False) is net)
    note([p.requires_grad for p in net.parameters()])
    net.apply(lambda m: note("apply", m))


def initial_values_of_convolutions(t, note):
    for layer in (t.nn.Conv1d, t.nn.Conv3d, t.nn.ConvTranspose2d):
        net = layer(0, 5, 1)
        note(net.bias, t.rand(2))
    net = t.nn.Conv2d(4, 6, 3).to(memory_format=t.channels_last)
    net.reset_parameters()
    note(net.weight, net.weight.stride(), net.bias, t.rand(2))
    note.error(lambda: t.nn.Bilinear(0, 2, 3))


SCENARIOS = [
    forward_hooks, forward_hooks_with_kwargs, always_called, backward_hooks,
    backward_hooks_without_input_gradient, backward_hooks_of_several, older_backward_hooks,
    global_hooks, registration_hooks, state_hooks, extra_state, loading, lazy, uninitialized,
    buffers, walks, initial_values_of_convolutions,
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_scenario(scenario):
    seen = {}
    for t in (rushlight, torch):
        t.manual_seed(0)
        seen[t] = Notes()
        scenario(t, seen[t])
    assert len(seen[torch]) > 1 or scenario is forward_hooks_with_kwargs
    for k, (mine, theirs) in enumerate(zip(seen[rushlight], seen[torch], strict=False)):
        assert_same(mine, theirs, f"note {k}")
    assert len(seen[rushlight]) == len(seen[torch])

"""Module: registration, walks, hooks, checkpoints, conversions and printing."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import pytest

import rushlight as torch
from rushlight import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.again = self.first
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("scratch", torch.ones(2), persistent=False)
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.first(x) * self.scale


# ------------------------------------------------------------------------------- registration


def test_assignment_registers_by_kind():
    net = Net()
    assert list(net._parameters) == ["scale"]
    assert list(net._buffers) == ["seen", "scratch"]
    assert list(net._modules) == ["first", "again"]
    net.plain = 3
    assert net.__dict__["plain"] == 3


def test_assigning_another_kind_moves_the_name():
    net = Net()
    net.scale = None
    assert net.scale is None and "scale" in net._parameters
    net.seen = nn.Parameter(torch.ones(1))
    assert "seen" not in net._buffers and "seen" in net._parameters
    net.first = nn.Parameter(torch.ones(1))
    assert "first" not in net._modules
    net.fresh = 1
    net.fresh = nn.ReLU()
    assert "fresh" not in net.__dict__ and "fresh" in net._modules


def test_buffer_class_registers_and_says_whether_it_is_saved():
    net = nn.Module()
    net.kept = nn.Buffer(torch.ones(1))
    net.lost = nn.Buffer(torch.ones(1), persistent=False)
    assert list(net.state_dict()) == ["kept"]
    assert [name for name, _ in net.named_buffers()] == ["kept", "lost"]
    net.lost = torch.zeros(2)
    assert "lost" in net._non_persistent_buffers_set
    assert isinstance(net.kept, nn.Buffer)


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda m: setattr(m, "scale", 3), TypeError, "cannot assign 'int' as parameter 'scale'"),
        (lambda m: setattr(m, "seen", 3), TypeError, "cannot assign 'int' as buffer 'seen'"),
        (lambda m: setattr(m, "first", 3), TypeError, "as child module 'first'"),
        (lambda m: m.register_parameter("a.b", None), KeyError, 'contain "."'),
        (lambda m: m.register_parameter("", None), KeyError, "be empty string"),
        (lambda m: m.register_buffer("train", None), KeyError, "attribute 'train' already exists"),
        (lambda m: m.register_buffer(3, None), TypeError, "should be a string. Got int"),
        (lambda m: m.add_module("x", 3), TypeError, "int is not a Module subclass"),
        (
            lambda m: nn.Sequential(torch.nn.functional.relu),
            TypeError,
            "torch.nn.functional.relu is not a Module subclass",
        ),
        (lambda m: m.nothing, AttributeError, "'Net' object has no attribute 'nothing'"),
        (lambda m: m.get_submodule("first.x"), AttributeError, "Linear has no attribute `x`"),
        (lambda m: m.get_parameter("seen"), AttributeError, "`seen` is not an nn.Parameter"),
        (lambda m: m.get_buffer("scale"), AttributeError, "`scale` is not a buffer"),
        (lambda m: m.train(3), ValueError, "training mode is expected to be boolean"),
        (lambda m: m.to(torch.int32), TypeError, "only accepts floating point or complex dtypes"),
        (lambda m: nn.Module()(1), NotImplementedError, 'missing the required "forward"'),
    ],
)
def test_errors(wrong, error, words):
    with pytest.raises(error) as caught:
        wrong(Net())
    assert words in str(caught.value)


def test_assigning_before_init_is_an_error():
    class Hasty(nn.Module):
        def __init__(self):
            self.layer = nn.ReLU()

    with pytest.raises(AttributeError, match="before Module.__init__"):
        Hasty()


def test_non_leaf_parameter_is_refused():
    net = Net()
    product = nn.Parameter(torch.ones(1)) * 2
    with pytest.raises(TypeError, match="cannot assign"):
        net.register_parameter("product", product)


# -------------------------------------------------------------------------------------- walks


def test_walks_visit_shared_modules_once():
    net = nn.Sequential(Net(), nn.ReLU())
    names = [name for name, _ in net.named_modules()]
    assert names == ["", "0", "0.first", "1"]
    assert [n for n, _ in net.named_parameters()] == ["0.scale", "0.first.weight", "0.first.bias"]
    all_names = [n for n, _ in net.named_parameters(remove_duplicate=False)]
    assert all_names[-1] == "0.again.bias"
    assert len(list(net.parameters())) == 3
    assert [n for n, _ in net.named_children()] == ["0", "1"]


def test_access_by_path():
    net = nn.Sequential(Net(), nn.ReLU())
    assert net.get_submodule("0.first") is net[0].first
    assert net.get_submodule("") is net
    assert net.get_parameter("0.first.weight") is net[0].first.weight
    net.set_submodule("0.first", nn.Tanh())
    assert isinstance(net[0].first, nn.Tanh)
    with pytest.raises(AttributeError):
        net.set_submodule("7", nn.ReLU(), strict=True)


def test_apply_and_modes():
    net = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    visited = []
    assert net.apply(lambda m: visited.append(type(m).__name__)) is net
    assert visited == ["Dropout", "Dropout", "Sequential", "Sequential"]
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.train()
    assert all(module.training for module in net.modules())


def test_dir_and_delete():
    net = Net()
    assert {"scale", "seen", "first", "forward"} <= set(dir(net))
    del net.scale, net.seen, net.first
    assert not {"scale", "seen", "first"} & set(dir(net))
    assert "0" not in dir(nn.Sequential(nn.ReLU()))


# -------------------------------------------------------------------------------- conversions


def test_to_converts_floats_only_and_keeps_parameters():
    net = Net()
    net.register_buffer("count", torch.tensor([3]))
    weight = net.first.weight
    assert net.to(torch.float64) is net
    assert net.first.weight is weight and weight.dtype is torch.float64
    assert net.count.dtype is torch.int64 and net.seen.dtype is torch.float64
    assert net.half().scale.dtype is torch.float16
    assert net.to(device="cpu", dtype=torch.float32).scale.dtype is torch.float32
    assert net.double().float().scale.dtype is torch.float32
    assert net.to(torch.zeros(1, dtype=torch.float64)).scale.dtype is torch.float64


def test_to_converts_gradients():
    net = Net()
    net(torch.ones(1, 2)).sum().backward()
    net.double()
    assert net.scale.grad.dtype is torch.float64


def test_zero_grad_and_requires_grad():
    net = Net()
    net(torch.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert (net.scale.grad == 0).all()
    net.zero_grad()
    assert net.scale.grad is None
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


# -------------------------------------------------------------------------------- checkpoints


def test_state_dict_names_order_metadata_and_memory():
    net = Net()
    state = net.state_dict()
    assert list(state) == [
        "scale",
        "seen",
        "first.weight",
        "first.bias",
        "again.weight",
        "again.bias",
    ]
    assert state._metadata["first"] == {"version": 1}
    assert not state["scale"].requires_grad
    state["scale"].fill_(7)
    assert (net.scale == 7).all()
    assert net.state_dict(keep_vars=True)["scale"] is net.scale
    assert list(net.first.state_dict(prefix="p.")) == ["p.weight", "p.bias"]


def test_load_state_dict_copies_or_assigns():
    source, target = Net(), Net()
    result = target.load_state_dict(source.state_dict())
    assert str(result) == "<All keys matched successfully>"
    assert (target.scale == source.scale).all() and target.scale is not source.scale
    weight = target.first.weight
    target.load_state_dict(source.state_dict(), assign=True)
    assert target.first.weight is not weight
    assert isinstance(target.first.weight, nn.Parameter) and target.first.weight.requires_grad


def test_load_state_dict_messages():
    net = nn.Linear(2, 3)
    wrong = {"weight": torch.ones(3, 3), "extra": torch.ones(1)}
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(wrong)
    text = str(caught.value)
    assert text.startswith("Error(s) in loading state_dict for Linear:\n\t")
    assert 'Missing key(s) in state_dict: "bias". ' in text
    assert 'Unexpected key(s) in state_dict: "extra". ' in text
    assert (
        "size mismatch for weight: copying a param with shape torch.Size([3, 3]) from checkpoint, "
        "the shape in current model is torch.Size([3, 2])." in text
    )
    result = net.load_state_dict({"extra": torch.ones(1)}, strict=False)
    assert result.missing_keys == ["weight", "bias"] and result.unexpected_keys == ["extra"]
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        net.load_state_dict([])


def test_a_tensor_for_what_is_none_is_unexpected():
    layer = nn.Linear(2, 2, bias=False)
    with pytest.raises(RuntimeError, match='Unexpected key\\(s\\) in state_dict: "bias"'):
        layer.load_state_dict(nn.Linear(2, 2).state_dict())
    result = layer.load_state_dict(nn.Linear(2, 2).state_dict(), strict=False)
    assert result.unexpected_keys == ["bias"] and not result.missing_keys
    with pytest.raises(RuntimeError, match="Unexpected key"):
        norm = nn.BatchNorm1d(3, track_running_stats=False)
        norm.load_state_dict(nn.BatchNorm1d(3).state_dict())


def test_extra_state():
    class Counted(nn.Module):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    source, target = nn.Sequential(Counted()), nn.Sequential(Counted())
    source[0].count = 5
    assert list(source.state_dict()) == ["0._extra_state"]
    target.load_state_dict(source.state_dict())
    assert target[0].count == 5
    with pytest.raises(RuntimeError, match='Missing key\\(s\\) in state_dict: "0._extra_state"'):
        target.load_state_dict({})


def test_state_dict_hooks():
    net = nn.Linear(1, 1)
    seen = []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("pre", prefix, keep)))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: state.pop("bias"))
    with pytest.raises(RuntimeError, match="post-hook must return None"):
        net.state_dict()
    net = nn.Linear(1, 1)
    net._register_state_dict_hook(lambda m, state, prefix, meta: {"all": state})
    assert list(net.state_dict()) == ["all"]
    net = nn.Linear(1, 1)

    def before(module, state, prefix, meta, strict, missing, unexpected, errors):
        state[prefix + "weight"] = state.pop(prefix + "kernel")

    def after(module, keys):
        seen.append(keys.missing_keys)

    net.register_load_state_dict_pre_hook(before)
    net.register_load_state_dict_post_hook(after)
    net.load_state_dict({"kernel": torch.ones(1, 1), "bias": torch.ones(1)})
    assert net.weight.item() == 1 and seen[-1] == []


def test_pickle_and_deepcopy():
    net = Net()
    net.scale.grad = torch.ones(3)
    twin = copy.deepcopy(net)
    assert twin.scale is not net.scale and (twin.scale == net.scale).all()
    assert twin.first is twin.again
    assert type(twin.scale) is nn.Parameter
    again = pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))
    assert isinstance(again[0].weight, nn.Parameter) and again[0].weight.requires_grad


# -------------------------------------------------------------------------------------- hooks


def test_forward_hooks_change_arguments_and_result():
    net = nn.Identity()
    handles = [
        net.register_forward_pre_hook(lambda m, args: args[0] + 1),
        net.register_forward_hook(lambda m, args, out: out * 10),
    ]
    assert net(torch.ones(1)).item() == 20
    for handle in handles:
        handle.remove()
    assert net(torch.ones(1)).item() == 1


def test_forward_hooks_with_kwargs_and_prepend():
    class Add(nn.Module):
        def forward(self, x, *, y=0):
            return x + y

    order = []
    net = Add()
    net.register_forward_pre_hook(lambda m, a, k: (a, {"y": k["y"] + 1}), with_kwargs=True)
    net.register_forward_hook(lambda m, a, k, out: order.append(("late", k["y"])), with_kwargs=True)
    net.register_forward_hook(lambda m, a, out: order.append("early"), prepend=True)
    assert net(1, y=2) == 4
    assert order == ["early", ("late", 3)]
    net.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple"):
        net(1, y=2)


def test_always_called_hook_runs_after_an_error():
    class Fail(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    seen = []
    net = Fail()
    net.register_forward_hook(lambda m, a, out: seen.append(out), always_call=True)
    net.register_forward_hook(lambda m, a, out: seen.append("never"))
    with pytest.raises(ValueError, match="no"):
        net(1)
    assert seen == [None]


def test_global_hooks():
    from rushlight.nn import hooks

    seen = []
    with (
        hooks.register_module_forward_pre_hook(lambda m, a: seen.append("pre")),
        hooks.register_module_forward_hook(lambda m, a, out: seen.append("post")),
    ):
        nn.Identity()(1)
    nn.Identity()(1)
    assert seen == ["pre", "post"]
    with hooks.register_module_module_registration_hook(lambda m, n, c: seen.append(n)):
        nn.Sequential(nn.ReLU())
    assert seen[-1] == "0"


def test_backward_hooks_see_and_change_gradients():
    net = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        net.weight.fill_(3.0)
    seen = {}
    net.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 2,))

    def hook(module, grad_input, grad_output):
        seen["input"], seen["output"] = grad_input, grad_output
        return (grad_input[0] * 10,)

    net.register_full_backward_hook(hook)
    x = torch.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    assert seen["output"][0].tolist() == [[2.0]]
    assert seen["input"][0].tolist() == [[6.0, 6.0]]
    assert x.grad.tolist() == [[60.0, 60.0]]
    assert net.weight.grad.tolist() == [[2.0, 2.0]]


def test_backward_hook_of_a_module_whose_input_needs_no_gradient():
    net = nn.Linear(2, 1)
    seen = []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    with pytest.warns(UserWarning, match="firing when gradients are computed with respect to"):
        net(torch.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])]


def test_two_kinds_of_backward_hooks_do_not_mix():
    net = nn.ReLU()
    net.register_full_backward_hook(lambda *a: None)
    with pytest.raises(RuntimeError, match="Cannot use both"):
        net.register_backward_hook(lambda *a: None)


# --------------------------------------------------------------------------------- containers


def test_sequential_behaves_as_a_list():
    net = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert net.a is net[0] and len(net) == 2
    net.append(nn.Sigmoid())
    assert list(net._modules) == ["a", "b", "2"]
    assert isinstance(net[-1], nn.Sigmoid) and isinstance(net[1:], nn.Sequential)
    del net[1]
    assert list(net._modules) == ["0", "1"]
    assert len(net * 2) == 4 and len(net + net) == 4
    net.insert(0, nn.Tanh())
    assert isinstance(net[0], nn.Tanh) and isinstance(net.pop(0), nn.Tanh)
    with pytest.raises(IndexError, match="index 10 is out of range"):
        net[10]
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        nn.Sequential(3)


def test_module_list_and_dict():
    layers = nn.ModuleList([nn.ReLU()])
    layers += [nn.Tanh()]
    layers.insert(1, nn.Sigmoid())
    assert [type(m).__name__ for m in layers] == ["ReLU", "Sigmoid", "Tanh"]
    assert isinstance(layers[:2], nn.ModuleList)
    named = nn.ModuleDict({"a": nn.ReLU()})
    named["b"] = nn.Tanh()
    named.update([("c", nn.Sigmoid())])
    assert list(named) == ["a", "b", "c"] and "a" in named
    assert isinstance(named.pop("a"), nn.ReLU)


def test_parameter_list_and_dict():
    values = nn.ParameterList([torch.ones(1), nn.Parameter(torch.ones(2))])
    values.append(torch.zeros(3))
    assert [p.numel() for p in values] == [1, 2, 3]
    assert all(isinstance(p, nn.Parameter) for p in values)
    assert list(values.state_dict()) == ["0", "1", "2"]
    named = nn.ParameterDict({"b": torch.ones(1), "a": torch.ones(2)})
    assert list(named.keys()) == ["a", "b"]
    assert named.pop("a").numel() == 2 and len(named) == 1


# ----------------------------------------------------------------------------------- printing


def test_repr():
    net = nn.Sequential(nn.Linear(2, 3), nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()]))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): ModuleList(\n"
        "    (0-1): 2 x ReLU()\n"
        "    (2): Tanh()\n"
        "  )\n"
        ")"
    )
    assert repr(nn.Conv2d(1, 2, 3, padding=1, bias=False)) == (
        "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)"
    )
    assert repr(nn.Parameter(torch.ones(2))) == (
        "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    )


# --------------------------------------------------------------------------------------- lazy


def test_lazy_module_becomes_its_class():
    net = nn.LazyLinear(3)
    assert isinstance(net.weight, nn.UninitializedParameter)
    mixin = nn.parameter.UninitializedTensorMixin  # of parameters and buffers
    assert isinstance(net.weight, mixin) and issubclass(nn.UninitializedBuffer, mixin)
    with pytest.raises(RuntimeError, match="uninitialized parameter"):
        net.weight.shape
    optimizer_holds = net.weight
    assert net(torch.ones(2, 5)).shape == (2, 3)
    assert type(net) is nn.Linear and net.in_features == 5
    assert net.weight is optimizer_holds and type(net.weight) is nn.Parameter
    assert not isinstance(net.weight, mixin)
    assert not net._forward_pre_hooks


def test_lazy_module_takes_shapes_from_a_checkpoint():
    net = nn.LazyLinear(3)
    net.load_state_dict(nn.Linear(4, 3).state_dict())
    assert net.weight.shape == (3, 4)
    assert net(torch.ones(1, 4)).shape == (1, 3) and type(net) is nn.Linear


# -------------------------------------------------------------------------------- parameters


def test_parameter_is_a_leaf_on_the_same_memory():
    data = torch.ones(2)
    p = nn.Parameter(data)
    assert p.requires_grad and p.is_leaf and isinstance(p, nn.Parameter)
    data.fill_(5)
    assert (p == 5).all()
    assert type(p * 1) is torch.Tensor
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert nn.Parameter().shape == (0,)
    with pytest.raises(RuntimeError):
        nn.Parameter(torch.tensor([1]))


def test_parameter_copies():
    p = nn.Parameter(torch.ones(2), requires_grad=False)
    p.note = "kept"
    twin = copy.deepcopy(p)
    assert type(twin) is nn.Parameter and not twin.requires_grad and twin.note == "kept"
    again = pickle.loads(pickle.dumps(p))
    assert type(again) is nn.Parameter and again.note == "kept"


def test_older_names_warn():
    with pytest.warns(FutureWarning, match="deprecated"):
        both = nn.Container(first=nn.ReLU(), second=nn.Tanh())
    assert [name for name, _ in both.named_children()] == ["first", "second"]
    with pytest.warns(FutureWarning, match="deprecated. Please use `NLLLoss`"):
        loss = nn.NLLLoss2d(ignore_index=3)
    assert loss.ignore_index == 3


def test_lazy_convolutions_take_the_arguments_of_their_class():
    x = torch.zeros(1, 4, 9, 9)
    layer = nn.LazyConv2d(6, 3, 2, 1, 2, 2, False, "reflect")
    layer(x)
    assert repr(layer) == repr(nn.Conv2d(4, 6, 3, 2, 1, 2, 2, False, "reflect"))
    layer = nn.LazyConvTranspose2d(6, 3, 2, 1, 1, 2, True, 2)
    layer(x)
    assert repr(layer) == repr(nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2, True, 2))
    with pytest.raises(TypeError):
        nn.LazyConv2d(6, 3, 1, stride=2)


@pytest.mark.parametrize("device", ["cuda", "xpu", "mtia", "ipu"])
def test_devices_that_are_not_here(device):
    with pytest.raises(AssertionError, match="not compiled with"):
        getattr(nn.Linear(1, 1), device)()


def test_an_uninitialized_parameter_refuses_to_be_used():
    layer = nn.LazyLinear(3)
    for use in (
        lambda: layer.weight + 1,
        lambda: torch.relu(layer.weight),
        lambda: layer.weight.numel(),
        lambda: len(layer.weight),
        lambda: layer.weight.numpy(),
        lambda: sum(p.numel() for p in layer.parameters()),
    ):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
            use()
    assert layer.double().weight.dtype == torch.float64
    assert layer.weight.requires_grad and layer.weight.grad is None
    optim = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    optim.step()
    assert (layer.weight + 1).shape == (3, 2)
    assert type(layer.weight) is nn.Parameter and type(layer.weight * 1) is torch.Tensor


def test_backward_hook_sees_zeros_for_inputs_that_need_no_gradient():
    class Two(nn.Module):
        def forward(self, x, y, i, word):
            return x * y

    seen = []
    net = Two()
    net.register_full_backward_hook(lambda m, g_in, g_out: seen.append(g_in))
    x, y, i = torch.ones(2, requires_grad=True), torch.ones(2), torch.tensor([1, 2])
    net(x, y, i, "word").sum().backward()
    assert [None if g is None else (g.tolist(), g.dtype) for g in seen[0]] == [
        ([1.0, 1.0], torch.float32),
        ([0.0, 0.0], torch.float32),
        ([0, 0], torch.int64),
        None,
    ]
    assert y.grad is None


def test_a_class_of_code_without_a_module_name():
    names = {"nn": torch.nn}  # what exec is often given: no __name__
    exec("class Net(nn.Module):\n    def forward(self, x):\n        return x + 1", names)
    assert names["Net"]()(torch.ones(2)).tolist() == [2.0, 2.0]


def test_the_data_of_a_lazy_parameter_takes_initialisers():
    net = nn.LazyLinear(3)
    assert type(net.weight.data) is torch.Tensor
    assert net.weight.data.normal_().shape == (0,)
    assert net(torch.ones(2, 4)).shape == (2, 3)
    with pytest.raises(ValueError, match="uninitialized parameter in normal_"):
        nn.LazyLinear(3).weight.normal_()


def test_the_two_states_of_an_lstm_may_be_a_list():
    x, h, c = torch.ones(1, 2, 3), torch.rand(1, 2, 4), torch.rand(1, 2, 4)
    net, cell = nn.LSTM(3, 4), nn.LSTMCell(3, 4)
    assert torch.equal(net(x, [h, c])[0], net(x, (h, c))[0])
    assert torch.equal(cell(x[0], [h[0], c[0]])[0], cell(x[0], (h[0], c[0]))[0])


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_weights_given_to_a_recurrent_network_are_computed_with(kind):
    """Dropout of weights, and networks whose parameters are functions, assign `_flat_weights`."""
    import copy
    import pickle

    torch.manual_seed(0)
    net, x = getattr(nn, kind)(3, 4), torch.rand(2, 1, 3)
    usual = net(x)[0]
    given = [w.detach() * 0.5 for w in net._flat_weights]
    halved = copy.deepcopy(net)
    for w in halved.parameters():
        w.data *= 0.5
    net._flat_weights = list(given)
    assert all(a is b for a, b in zip(net._flat_weights, given, strict=True))
    assert torch.equal(net(x)[0], halved(x)[0]) and not torch.equal(usual, halved(x)[0])
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(other(x)[0], usual)  # of a copy the parameters count
    net.weight_hh_l0 = nn.Parameter(
        net.weight_hh_l0.detach().clone()
    )  # so they do where one is new
    assert torch.equal(net(x)[0], usual)
    net._flat_weights = list(given)
    net.to(torch.float64)  # and where they are converted
    assert all(a is b for a, b in zip(net._flat_weights, net.parameters(), strict=True))


def test_blank_lines_of_a_childs_repr_are_not_indented():
    class Layers(torch.nn.Module):
        def extra_repr(self):
            return "first\n\nlast\n"

    assert (
        repr(torch.nn.Sequential(Layers()))
        == "Sequential(\n  (0): Layers(\n    first\n\n    last\n\n  )\n)"
    )

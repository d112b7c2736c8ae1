"""Parametrizations, pruning and fusion by what must hold of them; the numbers are in tests/oracle."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils import parametrizations, parametrize, prune


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


def test_a_parametrized_tensor_follows_its_original():
    layer = nn.Linear(3, 3)
    weight = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert torch.equal(layer.weight, layer.weight.mT)
    assert [name for name, _ in layer.named_parameters()] == [
        "bias",
        "parametrizations.weight.original",
    ]
    layer(torch.ones(1, 3)).sum().backward()
    assert weight.grad is not None
    layer.weight = torch.arange(9.0).reshape(3, 3)
    assert layer.weight[1, 0] == 1 and layer.parametrizations.weight.original is weight
    assert parametrize.remove_parametrizations(layer, "weight") is layer
    assert layer.weight is weight and type(layer) is nn.Linear
    pickle.loads(pickle.dumps(layer))


def test_only_this_module_changes_its_class():
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert type(other) is nn.Linear and type(layer).__name__ == "ParametrizedLinear"
    twin = copy.deepcopy(layer)
    parametrize.remove_parametrizations(layer, "weight")
    assert parametrize.is_parametrized(twin, "weight")
    with torch.no_grad():
        twin.parametrizations.weight.original.fill_(2.0)
    assert (twin.weight == 2).all() and not (layer.weight == 2).all()


def test_cached_computes_once():
    calls = []

    class Counts(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 2

    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Counts(), unsafe=True)
    with parametrize.cached():
        with parametrize.cached():
            first = layer.weight
        assert layer.weight is first
    assert len(calls) == 1
    assert layer.weight is not first and not parametrize._cache


def test_a_refused_parametrization_changes_nothing():
    class Halves(nn.Module):
        def forward(self, x):
            return x[:1]

        def right_inverse(self, x):
            return x + 1

    layer = nn.Linear(2, 2)
    weight, before = layer.weight, layer.weight.detach().clone()
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(layer, "weight", Halves())
    assert layer.weight is weight and torch.equal(weight, before) and type(layer) is nn.Linear


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 4)])
@pytest.mark.parametrize("how", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivialization", [True, False])
def test_orthogonal_stays_orthogonal(shape, how, trivialization):
    torch.manual_seed(0)
    module = nn.Module()
    module.weight = nn.Parameter(torch.randn(shape, dtype=torch.float64))
    parametrizations.orthogonal(module, orthogonal_map=how, use_trivialization=trivialization)
    optimizer = torch.optim.SGD(module.parameters(), 0.5)
    for _ in range(3):
        w = module.weight
        k = min(shape[-2:])
        small = w @ w.mT if shape[-2] <= shape[-1] else w.mT @ w
        assert torch.allclose(small, torch.eye(k, dtype=torch.float64).expand_as(small), atol=1e-9)
        optimizer.zero_grad()
        (w * torch.arange(1.0, w.numel() + 1).reshape(shape)).sum().backward()
        optimizer.step()


def test_spectral_norm_is_one():
    torch.manual_seed(0)
    layer = parametrizations.spectral_norm(nn.Linear(8, 5), n_power_iterations=30)
    assert torch.linalg.matrix_norm(layer.weight, 2).item() == pytest.approx(1, abs=1e-4)
    layer.eval()
    u = layer.parametrizations.weight[0]._u.clone()
    layer(torch.ones(1, 8))
    assert torch.equal(u, layer.parametrizations.weight[0]._u)


def test_weight_norm_keeps_the_weight():
    layer = nn.Linear(3, 4)
    before = layer.weight.detach().clone()
    parametrizations.weight_norm(layer)
    assert torch.allclose(layer.weight, before)
    lengths = torch.linalg.vector_norm(before, 2, 1, keepdim=True)
    assert torch.allclose(layer.parametrizations.weight.original0, lengths)


def test_amounts_of_pruning():
    assert prune._compute_nparams_toprune(0.4, 17) == 7
    assert prune._compute_nparams_toprune(10, 15) == 10
    prune._validate_pruning_amount(19, 20)
    with pytest.raises(ValueError, match="smaller than the number of parameters"):
        prune._validate_pruning_amount(20, 19)
    with pytest.raises(TypeError, match="Invalid type for amount"):
        prune._validate_pruning_amount_init("many")
    for amount in (1.1, -10):
        with pytest.raises(ValueError, match="non-negative integer"):
            prune._validate_pruning_amount_init(amount)


def test_a_replica_has_dictionaries_of_its_own():
    layer = nn.Linear(2, 3)
    replica = layer._replicate_for_data_parallel()
    assert not replica._parameters and replica._modules is not layer._modules
    replica.weight, replica.bias = layer.weight.view_as(layer.weight), layer.bias * 1
    replica(torch.ones(1, 2)).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0]] * 3


def test_pruned_elements_stay_zero_and_come_back():
    layer = nn.Linear(6, 4)
    original = layer.weight
    prune.l1_unstructured(layer, "weight", amount=5)
    prune.random_unstructured(layer, "weight", amount=3)
    assert int((layer.weight == 0).sum()) == 8
    assert isinstance(next(iter(layer._forward_pre_hooks.values())), prune.PruningContainer)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    layer(torch.ones(2, 6)).sum().backward()
    optimizer.step()
    layer(torch.ones(2, 6))
    assert int((layer.weight == 0).sum()) == 8
    twin = copy.deepcopy(nn.Sequential(nn.Linear(2, 2)))
    assert prune.is_pruned(nn.Sequential(layer)) and not prune.is_pruned(twin)
    prune.remove(layer, "weight")
    assert layer.weight is original and int((original == 0).sum()) == 8


def test_refused_pruning_changes_nothing():
    layer = prune.l1_unstructured(nn.Linear(3, 3), "weight", 2)
    state = {key: value.clone() for key, value in layer.state_dict().items()}
    hooks = list(layer._forward_pre_hooks)
    with pytest.raises(ValueError, match="should be smaller than the number of parameters"):
        prune.l1_unstructured(layer, "weight", 100)
    assert list(layer._forward_pre_hooks) == hooks
    assert all(torch.equal(value, state[key]) for key, value in layer.state_dict().items())


def test_functions_keep_their_names_beside_the_modules():
    import importlib

    importlib.import_module("rushlight.nn.utils.weight_norm")
    importlib.import_module("rushlight.nn.utils.spectral_norm")
    assert callable(torch.nn.utils.weight_norm) and callable(torch.nn.utils.spectral_norm)


def test_spectral_norm_loads_what_version_0_saved():
    """No right vector, but the divided weight: the layer computes the same again."""
    torch.manual_seed(0)
    layer = nn.utils.spectral_norm(nn.Linear(4, 3), n_power_iterations=5)
    x = torch.rand(2, 4)
    layer(x)
    layer.eval()
    want = layer(x)
    old = {k: v.clone() for k, v in layer.state_dict().items() if not k.endswith("_v")}
    old["weight"] = layer.weight.detach().clone()
    module = nn.utils.spectral_norm(nn.Linear(4, 3))
    module.load_state_dict(old)
    torch.testing.assert_close(module.eval()(x), want)
    # What version 1 saved needs nothing.
    module = nn.utils.spectral_norm(nn.Linear(4, 3))
    module.load_state_dict(layer.state_dict())
    torch.testing.assert_close(module.eval()(x), want)
    nn.utils.remove_spectral_norm(module)
    module.load_state_dict({"weight": torch.ones(3, 4), "bias": torch.ones(3)})


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(1, 1)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count = self.count + 1
        return self.inner(x) + self.count


def test_functional_call_gives_back_what_the_module_assigns():
    module, given = Counting(), {"count": torch.tensor([2.0])}
    kept = given["count"]
    torch.func.functional_call(module, given, torch.ones(1))
    assert (
        module.count.tolist() == [0.0]
        and kept.tolist() == [2.0]
        and given["count"].tolist() == [3.0]
    )


def test_a_module_has_other_tensors_for_several_calls():
    """Zuko asks for this undocumented name."""
    module = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    own, given = (
        module[0].weight,
        {"0.weight": torch.zeros(1, 1), "1.num_batches_tracked": torch.tensor(5)},
    )
    with nn.utils.stateless._reparametrize_module(module, given):
        assert module[0].weight is given["0.weight"]
        module(torch.ones(2, 1)), module(torch.ones(2, 1))
    assert module[0].weight is own and module[1].num_batches_tracked == 0
    assert given["1.num_batches_tracked"] == 7
    strictly = nn.utils.stateless._reparametrize_module(module, given, strict=True)
    with pytest.raises(RuntimeError, match="Missing key"), strictly:
        pass


def test_functional_call_of_modules_that_contain_themselves():
    module = Counting()
    module.inner.outer = module
    given = {"inner.outer.inner.weight": torch.tensor([[5.0]]), "inner.bias": None}
    before = module.inner.weight
    call = torch.func.functional_call
    assert call(module, given, torch.ones(1), tie_weights=False).tolist() == [6.0]
    assert module.inner.weight is before and module.inner.bias is not None


def test_functional_call_of_tied_tensors():
    module = nn.Linear(1, 1)
    module.tied = module.bias
    call, x = torch.func.functional_call, torch.ones(1)
    weight, bias = torch.tensor([[2.0]]), torch.tensor([3.0])
    assert call(module, {"weight": weight, "bias": bias}, x, strict=True).tolist() == [5.0]
    with pytest.raises(RuntimeError, match="Missing key\\(s\\): 'tied'"):
        call(module, {"weight": weight, "bias": bias}, x, strict=True, tie_weights=False)
    with pytest.raises(ValueError, match="multiple values for keys \\['bias', 'tied'\\]"):
        call(module, {"bias": bias, "tied": torch.zeros(1)}, x)
    with pytest.raises(TypeError, match="is not an instance of torch.Tensor"):
        call(module, {"weight": weight, "bias": "no"}, x)
    assert module.weight is not weight
    extra = nn.Parameter(torch.zeros(1))
    call(module, {"extra": extra}, x)
    assert not hasattr(module, "extra")

"""Every class of torch.nn: that it is here, its arguments, text, checkpoint names, starting values, results.

Those of PyTorch's module_db are built in test_nn_oracle.py with the arguments from there; here are all the others,
and each with few arguments.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import rushlight

pytestmark = pytest.mark.filterwarnings("ignore")

CLASSES = sorted(name for name in dir(torch.nn) if inspect.isclass(getattr(torch.nn, name)))


def face(function, skip=0):
    """Names, kinds and defaults; functions as defaults by their names."""
    rows = []
    for p in list(inspect.signature(function).parameters.values())[skip:]:
        default = getattr(p.default, "__name__", p.default)
        rows.append((p.name, p.kind.name, str(default)))
    return rows


@pytest.mark.parametrize("name", CLASSES)
def test_arguments(name):
    mine, theirs = getattr(rushlight.nn, name), getattr(torch.nn, name)
    expected = face(theirs)
    if [kind for _, kind, _ in expected] == ["VAR_POSITIONAL", "VAR_KEYWORD"]:
        return  # overloaded (RNN, LSTM, GRU) or deprecated: it says nothing
    assert face(mine) == expected
    if "forward" in vars(theirs) and name not in ("RNNBase", "Module"):
        assert face(mine.forward, 1) == face(theirs.forward, 1)


PUBLIC = [
    name
    for name in dir(torch.nn.Module)
    if not name.startswith("_") and callable(getattr(torch.nn.Module, name)) and name[0].islower()
]


@pytest.mark.parametrize("name", PUBLIC)
def test_arguments_of_methods(name):
    assert face(getattr(rushlight.nn.Module, name)) == face(getattr(torch.nn.Module, name))


# name: arguments (what stands for the library is `t`), shapes of inputs or None where none are tried
BUILT = {
    "AdaptiveLogSoftmaxWithLoss": ("5, 12, [4, 8]", None),
    "AlphaDropout": ("0.3", [(3, 4)]),
    "Bilinear": ("3, 4, 5", [(2, 3), (2, 4)]),
    "ChannelShuffle": ("2", [(1, 4, 2, 2)]),
    "Container": ("a=t.nn.Linear(2, 3), b=t.nn.ReLU()", None),
    "CosineSimilarity": ("", [(3, 4), (3, 4)]),
    # With more channels PyTorch's sum keeps the first one once it should have left the window.
    "CrossMapLRN2d": ("3", [(1, 2, 5, 5)]),
    "DataParallel": ("t.nn.Linear(3, 2)", [(4, 3)]),
    "Dropout": ("", [(3, 4)]),
    "Dropout1d": ("0.2", [(3, 4, 5)]),
    "Dropout2d": ("inplace=True", [(3, 4, 2, 2)]),
    "Dropout3d": ("", [(3, 4, 2, 2, 2)]),
    "EmbeddingBag": ("7, 3, mode='sum', padding_idx=2", None),
    "FeatureAlphaDropout": ("0.2", [(3, 4, 5)]),
    "Flatten": ("0, -2", [(3, 4, 5)]),
    "Fold": ("(4, 5), 2, stride=(2, 1)", [(1, 8, 8)]),
    "Hardsigmoid": ("", [(3, 4)]),
    "Identity": ("54, unused=0.1", [(3, 4)]),
    "LazyBatchNorm1d": ("", None),
    "LazyBatchNorm2d": ("affine=False", None),
    "LazyBatchNorm3d": ("momentum=None", None),
    "LazyInstanceNorm1d": ("affine=True", None),
    "LazyInstanceNorm2d": ("", None),
    "LazyInstanceNorm3d": ("affine=True, track_running_stats=True", None),
    "LazyLinear": ("4", [(2, 3)]),
    "LinearCrossEntropyLoss": ("5, 7", None),
    "MaxUnpool1d": ("2", None),
    "MaxUnpool2d": ("(2, 3), stride=2", None),
    "MaxUnpool3d": ("2, padding=1", None),
    "Module": ("", None),
    "ModuleDict": ("{'a': t.nn.Linear(2, 3), 'b': t.nn.ReLU()}", None),
    "ModuleList": ("[t.nn.Linear(2, 3)] * 3 + [t.nn.ReLU()]", None),
    "NLLLoss2d": ("ignore_index=3", None),
    "PairwiseDistance": ("1.5, keepdim=True", [(3, 4), (3, 4)]),
    "ParameterDict": ("{'a': t.nn.Parameter(t.ones(2)), 'b': t.zeros(3), 'c': 5}", None),
    "ParameterList": ("[t.nn.Parameter(t.ones(2, 3)), t.zeros(3), 'word']", None),
    "PixelShuffle": ("2", [(1, 8, 3, 3)]),
    "PixelUnshuffle": ("2", [(1, 2, 4, 4)]),
    "RNNBase": ("'GRU', 3, 4, num_layers=2, bidirectional=True", None),
    "RNNCellBase": ("3, 4, bias=True, num_chunks=3", None),
    "RReLU": ("0.1, 0.2", [(3, 4)]),
    "Sequential": ("t.nn.Linear(3, 4), t.nn.Sequential(t.nn.ReLU(), t.nn.Linear(4, 2))", [(2, 3)]),
    "SyncBatchNorm": ("4", None),
    "TransformerDecoder": ("t.nn.TransformerDecoderLayer(4, 2, 8), 2, t.nn.LayerNorm(4)", None),
    "TripletMarginLoss": ("p=1, swap=True", [(3, 4), (3, 4), (3, 4)]),
    "TripletMarginWithDistanceLoss": ("margin=0.5", [(3, 4), (3, 4), (3, 4)]),
    "Unflatten": ("1, (2, 2)", [(3, 4)]),
    "Unfold": ("(2, 3), padding=1", [(1, 2, 4, 5)]),
    "Upsample": ("scale_factor=2, mode='bilinear'", [(1, 2, 3, 4)]),
    "UpsamplingBilinear2d": ("(5, 6)", [(1, 2, 3, 4)]),
    "UpsamplingNearest2d": ("scale_factor=3", [(1, 2, 3, 4)]),
}


def build(t, name, arguments):
    t.manual_seed(5)
    return eval(f"t.nn.{name}({arguments})", {"t": t})


def numbers(t):
    return t.detach().numpy()


@pytest.mark.parametrize("name", [name for name in BUILT if hasattr(torch.nn, name)])
def test_text_names_values_and_results(name):
    arguments, shapes = BUILT[name]
    mine, theirs = build(rushlight, name, arguments), build(torch, name, arguments)
    assert repr(mine) == repr(theirs)
    assert [n for n, _ in mine.named_modules()] == [n for n, _ in theirs.named_modules()]
    saved, expected = mine.state_dict(), theirs.state_dict()
    assert list(saved) == list(expected)
    assert list(saved._metadata.items()) == list(expected._metadata.items())
    if not name.startswith("Lazy"):
        for key, value in expected.items():
            if isinstance(value, torch.Tensor):
                np.testing.assert_allclose(numbers(saved[key]), numbers(value), rtol=1e-6)
            else:
                assert saved[key] == value
    if shapes is not None:
        found = []
        for t, module in ((rushlight, mine), (torch, theirs)):
            t.manual_seed(6)
            inputs = [t.rand(shape) for shape in shapes]
            t.manual_seed(7)
            found.append(numbers(module(*inputs)))
            found.append(numbers(module.eval()(*inputs)))
        for got, want in zip(found[:2], found[2:], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_no_class_is_forgotten():
    from torch.testing._internal import common_modules

    known = {info.module_cls.__name__ for info in common_modules.module_db} | set(BUILT)
    known |= {"Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"}
    assert set(CLASSES) - known <= {"LinearCrossEntropyOptions"}


# -- recurrent modules under autocast --------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"])
def test_recurrent_under_autocast(kind, dtype):
    def run(t):
        t.manual_seed(0)
        d = getattr(t, dtype)
        module = getattr(t.nn, kind)(4, 5).to(d)
        x = t.linspace(-1, 1, 24).reshape((3, 2, 4) if "Cell" not in kind else (6, 4)).to(d)
        with t.autocast("cpu", dtype=t.bfloat16):
            out = module(x)
        flat = []

        def visit(value):
            if isinstance(value, t.Tensor):
                flat.append((str(value.dtype), value.detach().float().numpy()))
            else:
                for part in value:
                    visit(part)

        visit(out)
        sum(
            part.float().sum() for part in (out if isinstance(out, tuple) else (out,))[:1]
        ).backward()
        return flat, [str(p.grad.dtype) for p in module.parameters()]

    mine, g = run(rushlight)
    try:
        theirs, h = run(torch)
    except RuntimeError as error:  # PyTorch's LSTM in bfloat16 needs a processor with AVX-512
        if "could not create a primitive descriptor" not in str(error):
            raise
        pytest.skip("PyTorch cannot compute this on this processor")
    assert g == h and [d for d, _ in mine] == [d for d, _ in theirs]
    for (_, a), (_, b) in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=3e-2)


# -- checkpoints of older versions -----------------------------------------------------------------


def old_checkpoints(t):
    """Loads what older versions saved: the messages, and the numbers afterwards."""
    parametrizations, utils = t.nn.utils.parametrizations, t.nn.utils
    log = []

    def load(module, state, metadata=None, strict=True):
        state = dict(state)
        if metadata is not None:
            from collections import OrderedDict

            state = OrderedDict(state)
            state._metadata = OrderedDict(metadata)
        try:
            result = module.load_state_dict(state, strict=strict)
            log.append((list(result.missing_keys), list(result.unexpected_keys)))
        except RuntimeError as error:
            log.append(str(error))
        log.append({k: v.detach().numpy().copy() for k, v in module.state_dict().items()})

    def ramp(*shape):
        n = int(np.prod(shape))
        return (t.arange(float(n)) / n - 0.3).reshape(shape)

    # weight_norm before it was a parametrization
    old = {"weight_g": ramp(3, 1) + 1, "weight_v": ramp(3, 2), "bias": ramp(3)}
    load(parametrizations.weight_norm(t.nn.Linear(2, 3)), old)
    load(utils.weight_norm(t.nn.Linear(2, 3)), old)
    load(t.nn.Sequential(parametrizations.weight_norm(t.nn.Linear(2, 3))),
         {f"0.{k}": v for k, v in old.items()})  # fmt: skip
    # spectral_norm of version 0 saved the weight beside the vector, and no right vector
    state = {"weight_orig": ramp(3, 2), "bias": ramp(3), "weight_u": ramp(3) / ramp(3).norm()}
    state["weight"] = state["weight_orig"] / 0.7
    load(utils.spectral_norm(t.nn.Linear(2, 3)), state, {"": {"version": 1}})
    load(utils.spectral_norm(t.nn.Linear(2, 3)), state, {"": {"version": 1}}, strict=False)
    # batch norm of version 1 had no count
    state = {k: ramp(3) for k in ("weight", "bias", "running_mean", "running_var")}
    load(t.nn.BatchNorm1d(3), state, {"": {"version": 1}})
    load(t.nn.BatchNorm1d(3), state)
    load(t.nn.BatchNorm1d(3), state, {"": {"version": 2}})
    # instance norm of version 1 saved statistics that it did not use
    state = {k: ramp(3) for k in ("running_mean", "running_var")}
    load(t.nn.InstanceNorm1d(3), state, {"": {"version": 1}})
    # scalars saved as one element
    module = t.nn.Module()
    module.scale = t.nn.Parameter(t.tensor(2.0))
    load(module, {"scale": t.tensor([3.0])})
    return log


def assert_same(mine, theirs):
    assert type(mine) is type(theirs), (mine, theirs)
    if isinstance(theirs, np.ndarray):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    elif isinstance(theirs, dict):
        assert list(mine) == list(theirs)
        for key in theirs:
            assert_same(mine[key], theirs[key])
    elif isinstance(theirs, (list, tuple)):
        assert len(mine) == len(theirs), (mine, theirs)
        for a, b in zip(mine, theirs, strict=True):
            assert_same(a, b)
    else:
        assert mine == theirs


def test_old_checkpoints():
    mine, theirs = (run_seeded(old_checkpoints, t) for t in (rushlight, torch))
    for a, b in zip(mine, theirs, strict=True):
        assert_same(a, b)


def run_seeded(function, t):
    t.manual_seed(3)
    return function(t)

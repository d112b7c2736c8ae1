"""Names of PyTorch's inner modules that other people's code imports."""

from __future__ import annotations

import pytest

import rushlight as torch
from processes import printed_as_torch
from rushlight import nn
from rushlight.compat import private_api as inner
from rushlight.compat import private_names
from rushlight.nn import _reduction, scatter_gather

PROGRAM = """
import torch
assert torch._utils._element_size(torch.float64) == 8  # without an import of it
from torch.nn.modules.module import _IncompatibleKeys, _addindent
from torch.nn.modules.utils import _ntuple, _pair, consume_prefix_in_state_dict_if_present
from torch.nn.modules.activation import MultiheadAttention
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.modules.transformer import _get_clones, _get_seq_len
from torch.nn.modules.pooling import _MaxPoolNd, _AdaptiveAvgPoolNd
from torch.nn.parallel.distributed import DistributedDataParallel
from torch.nn.parallel.scatter_gather import scatter_kwargs
from torch.nn.parallel import parallel_apply, replicate
from torch.nn import _reduction as _Reduction
from torch.nn.init import _no_grad_trunc_normal_
from torch.nn.functional import _canonical_mask
from torch.optim.optimizer import Optimizer, required, _use_grad_for_differentiable
from torch.optim.adamw import AdamW
from torch._jit_internal import _copy_to_script_wrapper
from torch._utils import ExceptionWrapper, _flatten_dense_tensors, _rebuild_tensor_v2
import torch.nn as nn

assert MultiheadAttention is nn.MultiheadAttention and AdamW is torch.optim.AdamW
assert _ntuple(3)(1) == (1, 1, 1) and nn.functional._canonical_mask is _canonical_mask
assert _copy_to_script_wrapper(nn.Linear) is nn.Linear and torch._C._is_tracing() is False
assert isinstance(nn.MaxPool1d(2), _MaxPoolNd) and not isinstance(nn.AvgPool2d(2), _MaxPoolNd)
print("ok")
"""


def test_what_code_imports(tmp_path):
    assert printed_as_torch(tmp_path, PROGRAM) == "ok\n"


def test_every_name_of_the_table_is_there():
    for names in private_names.NAMES.values():
        for name in names.split():
            assert hasattr(inner, name), name


def test_modules():
    assert inner._addindent("a\nb\nc", 2) == "a\n  b\n  c"
    assert inner._list_with_default((None, 2), [5, 6, 7]) == [6, 2]
    with pytest.raises(ValueError, match="at least 3"):
        inner._list_with_default((None, 2), [5])
    clones = inner._get_clones(nn.Linear(2, 2), 3)
    assert len(clones) == 3
    assert clones[0].weight is not clones[1].weight
    assert inner._get_seq_len(torch.ones(2, 3, 4), True) == 3
    mask = inner._generate_square_subsequent_mask(3)
    assert inner._detect_is_causal_mask(mask)
    assert not inner._detect_is_causal_mask(torch.zeros(3, 3))
    assert inner._detect_is_causal_mask(mask, is_causal=False) is False
    t = torch.arange(6).reshape(2, 3)
    assert inner.apply_permutation(t, torch.tensor([2, 0, 1])).tolist() == [[2, 0, 1], [5, 3, 4]]
    assert issubclass(nn.ZeroPad2d, inner._ConstantPadNd)


def test_functions():
    x, w, b = torch.randn(2, 4), torch.randn(12, 4), torch.randn(12)
    parts = inner._in_projection_packed(x, x, x, w, b)
    assert torch.equal(torch.cat(parts, 1), nn.functional.linear(x, w, b))
    q, _, v = inner._in_projection(x, x, x, *w.chunk(3))
    assert torch.equal(v, nn.functional.linear(x, w[8:]))
    assert q.shape == (2, 4)
    mask = inner._canonical_mask(torch.tensor([True, False]), "mask", None, "", torch.float32)
    assert mask.tolist() == [float("-inf"), 0.0]
    assert inner._none_or_dtype(None) is None
    with pytest.raises(AssertionError, match="only bool and floating types"):
        inner._canonical_mask(torch.tensor([1]), "mask", None, "", torch.float32)
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        assert inner._get_softmax_dim("softmax", 2, 2) == 1
    p = nn.Parameter(torch.zeros(3))
    assert inner._no_grad_fill_(p, 2.0) is p
    assert p.tolist() == [2, 2, 2]
    assert p.grad_fn is None


@pytest.mark.parametrize("kind", [ValueError, KeyError])
def test_an_exception_of_another_thread(kind):
    try:
        raise kind("the reason")
    except kind:
        caught = inner.ExceptionWrapper(where="in replica 0")
    assert caught.exc_type is kind
    with pytest.raises(kind, match=f"Caught {kind.__name__} in replica 0(.|\n)*the reason"):
        caught.reraise()


def test_tensors_in_one_piece():
    tensors = [torch.ones(2, 2), torch.arange(3.0)]
    flat = inner._flatten_dense_tensors(tensors)
    assert flat.tolist() == [1, 1, 1, 1, 0, 1, 2]
    back = inner._unflatten_dense_tensors(flat, tensors)
    assert all(torch.equal(a, b) for a, b in zip(back, tensors))
    groups = list(inner._take_tensors([*tensors, torch.ones(2, dtype=torch.int64)], 20))
    assert [len(g) for g in groups] == [1, 1, 1]
    with pytest.raises(ValueError, match="index"):
        inner._get_device_index("cpu")
    assert inner._get_device_index(2) == 2

    class Owner:
        name = inner.classproperty(lambda cls: cls.__name__)

    assert Owner.name == Owner().name == "Owner"


def test_steps_of_older_optimizers():
    class Half(torch.optim.Optimizer):
        def __init__(self, params, differentiable=False):
            super().__init__(params, {"differentiable": differentiable})

        @inner._use_grad_for_differentiable
        def step(self):
            return torch.is_grad_enabled()

    p = [nn.Parameter(torch.ones(1))]
    assert Half(p).step() is False
    assert Half(p, True).step() is True
    params, grads = [torch.ones(2, dtype=torch.complex64)], [torch.ones(2, dtype=torch.complex64)]
    inner._view_as_real(params, grads)
    assert params[0].shape == grads[0].shape == (2, 2)
    assert inner._get_value(torch.tensor(3)) == 3


def test_reduction():
    assert [_reduction.get_enum(r) for r in ("none", "mean", "sum")] == [0, 1, 2]
    assert _reduction.legacy_get_string(None, False, emit_warning=False) == "none"
    with pytest.warns(UserWarning, match="deprecated"):
        assert _reduction.legacy_get_enum(False, None) == 2
    with pytest.raises(ValueError, match="not a valid value"):
        _reduction.get_enum("x")


def test_scatter_and_gather():
    inputs = (torch.arange(4), {"a": torch.ones(4, 2)}, [], 5)
    parts = scatter_gather.scatter(inputs, [0, 1])
    assert parts[1][0].tolist() == [2, 3]
    assert parts[0][1]["a"].shape == (2, 2)
    assert parts[0][2:] == ([], 5)
    args, kwargs = scatter_gather.scatter_kwargs((torch.arange(4),), {}, [0, 1])
    assert len(args) == len(kwargs) == 2
    net = nn.Linear(2, 1)
    outputs = scatter_gather.parallel_apply(
        scatter_gather.replicate(net, [0, 1]), torch.ones(4, 2).chunk(2)
    )
    assert torch.equal(scatter_gather.gather(outputs), net(torch.ones(4, 2)))
    joined = scatter_gather.gather([{"x": torch.tensor(1)}, {"x": torch.tensor(2)}])
    assert joined["x"].tolist() == [1, 2]


def test_long_paths_are_attributes():
    inside = torch.nn.modules
    assert (
        inside.utils._pair(3) == (3, 3)
        and inside.channelshuffle.ChannelShuffle is nn.ChannelShuffle
    )
    assert (
        inside.activation.MultiheadAttention is inside.MultiheadAttention is nn.MultiheadAttention
    )
    kept = inside.linear.NonDynamicallyQuantizableLinear
    assert (
        type(nn.MultiheadAttention(2, 1).out_proj)
        is kept
        is inside.activation.NonDynamicallyQuantizableLinear
    )
    state = {"module.weight": 1}
    inside.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert state == {"weight": 1}
    assert inside.__all__ == nn.__all__


def test_hooks_of_every_module_are_in_the_tables_that_pytorch_has():
    module, seen = nn.modules.module, []
    assert not module._has_any_global_hook()
    module.register_module_forward_pre_hook(lambda m, args: seen.append("before"))
    module.register_module_forward_hook(lambda m, args, output: seen.append("after"))
    assert module._has_any_global_hook()
    torch.nn.Identity()(torch.ones(1))
    assert seen == ["before", "after"]
    module._global_forward_pre_hooks.clear()
    module._global_forward_hooks.clear()
    torch.nn.Identity()(torch.ones(1))
    assert seen == ["before", "after"]
    assert not module._has_any_global_hook()


def test_names_of_children_by_place():
    layers = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.ReLU()])
    assert [layers._get_abs_string_index(k) for k in (0, 1, -1)] == ["0", "1", "1"]
    with pytest.raises(IndexError, match="index 2 is out of range"):
        layers._get_abs_string_index(2)
    t = torch.ones(2)
    assert t._cdata == t._cdata != t.detach()._cdata

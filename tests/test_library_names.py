"""Names that other people's libraries import or look for, of parts of PyTorch that hardly do anything here."""

from __future__ import annotations

import math
import pickle
import sys

import numpy as np
import pytest

import rushlight as torch
from processes import printed_as_torch
from rushlight.core import dtypes

PROGRAM = """
import pickle
import torch
from torch import fx, futures, hub
from torch.backends import __allow_nonbracketed_mutation
from torch._dynamo.eval_frame import OptimizedModule, is_dynamo_supported
from torch._dynamo.exc import Unsupported
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._subclasses.fake_tensor import is_fake
from torch._tensor_str import PRINT_OPTS, _tensor_str
import torch._dynamo.config
from torch.cuda.amp import grad_scaler
from torch.cuda.amp.autocast_mode import autocast
from torch.distributed import ProcessGroup, device_mesh, nn as distributed_nn, rpc
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.fx._symbolic_trace import Tracer, _assert_is_none
from torch.fx.experimental.optimization import fuse
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.graph import _PyTreeCodeGen
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher
from torch.hub import HASH_REGEX, load_state_dict_from_url
from torch.jit import _overload
from torch.jit.annotations import List, Optional
from torch.nn.attention import SDPBackend
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.modules.transformer import _get_activation_fn
from torch.serialization import MAP_LOCATION
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.ops.boxes import box_area
from torchvision.ops.misc import FrozenBatchNorm2d
from torchvision.transforms.transforms import Compose
import torchvision
assert not torchvision._is_tracing()

assert torch.torch is torch and torch.__name__ == "torch" and torch.__name__ != "numpy"
assert {"torch": 1}[torch.__name__] == 1 and torch.__name__ in {"torch", "jax"}
from torch.optim import lr_scheduler
assert lr_scheduler.MultiStepLR.__module__ == lr_scheduler.__name__ and torch.optim.lr_scheduler is lr_scheduler
assert torch.utils.data.Sampler.__module__ == torch.utils.data.sampler.__name__
from torch.serialization import _get_layout  # pickles name it

assert _get_layout("torch.strided") is torch.strided
assert "USE_MKL" in torch.__config__.show() and torch.__config__.parallel_info()
assert is_dynamo_supported() and isinstance(torch.compile(torch.nn.ReLU()), OptimizedModule)
assert torch._dynamo.exc.Unsupported is Unsupported
assert not is_fake(torch.ones(1)) and get_proxy_mode() is None and not rpc.is_available()
traced = pickle.loads(pickle.dumps(fx.symbolic_trace(lambda x: torch.relu(x) + torch.fx.node._format_arg(3).count("3"))))
assert traced(torch.ones(1)).item() == 2 and "torch.relu(x)" in traced.code
assert type(torch.ones(1)).__module__ == "torch" and pickle.loads(pickle.dumps(torch.Tensor)) is torch.Tensor
assert PRINT_OPTS.threshold == 1000
assert issubclass(_MultiProcessingDataLoaderIter, _BaseDataLoaderIter)
import rushlight.core.geometry  # what is imported late still finds its package
from rushlight.rng import fma
print("ok")
"""


def test_what_libraries_import(tmp_path):
    assert printed_as_torch(tmp_path, PROGRAM) == "ok\n"


def test_inner_operators():
    aten = torch.ops.aten
    assert aten.add.Tensor(torch.tensor(1), torch.tensor(2)).item() == 3
    assert aten.add.Tensor is aten.add.Tensor is not aten.add.Scalar
    assert str(aten.mm.default) == "aten.mm.default"
    assert aten.mm.default.name() == "aten::mm"
    with pytest.raises(NotImplementedError, match="no_such_operator"):
        aten.no_such_operator()
    with pytest.raises(
        AttributeError, match="'my_library' object has no attribute 'no_such_operator'"
    ):
        torch.ops.my_library.no_such_operator  # noqa: B018


@pytest.mark.filterwarnings("ignore:torch.jit.script:UserWarning")
def test_scripted_is_what_was_scripted():
    net, other = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    assert isinstance(torch.jit.script(net), torch.jit.ScriptModule)
    assert not isinstance(net, torch.jit.ScriptModule)
    assert not isinstance(other, torch.jit.ScriptModule)

    def f(x):
        return x

    assert not isinstance(f, torch.jit.ScriptFunction)
    assert isinstance(torch.jit.trace(f, torch.ones(1)), torch.jit.ScriptFunction)


@pytest.mark.parametrize("dtype", dtypes.EIGHT_BITS, ids=str)
def test_eight_bits_are_for_storage(dtype, tmp_path):
    x = torch.tensor([0.5, 2.0, 16.0]).to(dtype)
    assert x.dtype is dtype
    assert x.float().tolist() == [0.5, 2.0, 16.0]
    assert x.view(torch.uint8).shape == (3,)
    assert x.reshape(3, 1).t().contiguous().double().tolist() == [[0.5, 2.0, 16.0]]
    torch.save(x, tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt").float().tolist() == [0.5, 2.0, 16.0]
    assert torch.finfo(dtype).bits == 8
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types"):
        torch.promote_types(dtype, torch.float32)


def test_e4m3fn_saturates():
    x = torch.tensor([math.inf, math.nan, 500.0, -1e9]).to(torch.float8_e4m3fn)
    assert x.view(torch.uint8).tolist() == [126, 127, 126, 254]


def test_paths_of_trees():
    pytree = torch.utils._pytree

    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pytree.register_pytree_node(
        Pair, lambda p: ([p.a, p.b], None), lambda c, _: Pair(*c),
        flatten_with_keys_fn=lambda p: (
            [(pytree.GetAttrKey("a"), p.a), (pytree.GetAttrKey("b"), p.b)], None,
        ),
    )  # fmt: skip
    tree = {"x": [1, (2,)], "y": Pair(3, 4)}
    pairs, spec = pytree.tree_flatten_with_path(tree)
    assert {pytree.keystr(path): leaf for path, leaf in pairs} == {
        "['x'][0]": 1, "['x'][1][0]": 2, "['y'].a": 3, "['y'].b": 4,
    }  # fmt: skip
    for path, leaf in pairs:
        found = tree
        for key in path:
            found = key.get(found)
        assert found == leaf
    assert spec == pytree.tree_structure(tree)
    named = pytree.tree_map_with_path(lambda path, leaf: (pytree.keystr(path), leaf), {"a": [5]})
    assert named == {"a": [("['a'][0]", 5)]}


def test_an_error_in_a_callback_stays_there(caplog):
    future, seen = torch.futures.Future(), []
    future.add_done_callback(lambda f: 1 / 0)
    future.add_done_callback(lambda f: seen.append(f.value()))
    future.set_result(3)
    future.add_done_callback(lambda f: 1 / 0)
    assert seen == [3] and future.wait() == 3
    assert len(caplog.records) == 2


def test_futures():
    first, second = torch.futures.Future(), torch.futures.Future()
    both = torch.futures.collect_all([first, second])
    failing = first.then(lambda f: f.wait() / 0)
    first.set_result(1)
    assert not both.done()
    second.set_exception(ValueError("second"))
    assert both.done()
    with pytest.raises(RuntimeError, match="running the callback: ZeroDivisionError"):
        failing.wait()
    with pytest.raises(ValueError, match="second"):
        torch.futures.wait_all([first, second])
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        first.set_result(2)
    with pytest.raises(RuntimeError, match="not complete"):
        torch.futures.Future().value()
    with pytest.raises(RuntimeError, match="Can not pickle"):
        pickle.dumps(first)
    with pytest.raises(RuntimeError, match="can't be None"):
        torch.futures.wait_all([first, None])


def test_hub_of_a_directory(tmp_path):
    (tmp_path / "parts.py").write_text("SIZE = 3\n")
    (tmp_path / "hubconf.py").write_text(
        "import rushlight as torch\nfrom parts import SIZE\n"
        "def model(bias=True):\n    'A layer.'\n    return torch.nn.Linear(SIZE, 1, bias=bias)\n"
    )
    hub = torch.hub
    assert hub.list(str(tmp_path), source="local") == ["model"]
    assert hub.help(str(tmp_path), "model", source="local") == "A layer."
    assert hub.load(str(tmp_path), "model", source="local", bias=False).bias is None
    with pytest.raises(RuntimeError, match="Cannot find callable no_such in hubconf"):
        hub.load(str(tmp_path), "no_such", source="local")
    with pytest.raises(ValueError, match="Unknown source"):
        hub.load(str(tmp_path), "model", source="nowhere")


def test_hub_downloads_once_and_checks(tmp_path):
    import hashlib

    torch.save({"w": torch.ones(2)}, tmp_path / "weights.pt")
    digest = hashlib.sha256((tmp_path / "weights.pt").read_bytes()).hexdigest()[:8]
    source = tmp_path / f"net-{digest}.pt"
    (tmp_path / "weights.pt").rename(source)
    kept = tmp_path / "kept"
    for _ in range(2):
        loaded = torch.hub.load_state_dict_from_url(source.as_uri(), str(kept), check_hash=True)
        assert loaded["w"].tolist() == [1.0, 1.0]
        source.unlink(missing_ok=True)  # the second time it is there already
    wrong = tmp_path / "net-00000000.pt"
    wrong.write_bytes(b"something else")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        torch.hub.load_state_dict_from_url(wrong.as_uri(), str(kept), check_hash=True)
    assert [p.name for p in kept.iterdir()] == [f"net-{digest}.pt"]


def test_flex_attention_is_attention():
    from rushlight.nn import flex_attention as flex

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 6, 8, requires_grad=True) for _ in range(3))
    plain = torch.nn.functional.scaled_dot_product_attention
    causal = flex.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 6, 6, BLOCK_SIZE=2)
    assert causal.to_dense()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert causal.kv_num_blocks.flatten().tolist() == [1, 1, 1]
    assert causal.full_kv_num_blocks.flatten().tolist() == [0, 1, 2]
    for block_mask, causally in ((None, False), (causal, True)):
        ours = flex.flex_attention(q, k, v, block_mask=block_mask)
        theirs = plain(q, k, v, is_causal=causally)
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-6)
        for a, b in zip(
            *(torch.autograd.grad(o.square().sum(), (q, k, v)) for o in (ours, theirs)), strict=True
        ):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-5)

    slopes = torch.tensor([0.1, 0.2, 0.3, 0.4])
    biased = flex.flex_attention(q, k, v, lambda s, b, h, q, kv: s - slopes[h] * (q - kv).abs())
    place = torch.arange(6)
    bias = -slopes[:, None, None] * (place[:, None] - place).abs()
    np.testing.assert_allclose(
        biased.detach().numpy(), plain(q, k, v, attn_mask=bias).detach().numpy(), atol=1e-6
    )
    nothing = flex.create_block_mask(lambda b, h, q, kv: q > 100, None, None, 6, 6)
    assert flex.flex_attention(q, k, v, block_mask=nothing).count_nonzero() == 0
    with pytest.raises(ValueError, match="enable_gqa"):
        flex.flex_attention(q, k[:, :2], v[:, :2])
    grouped = flex.flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    repeated = [x[:, :2].repeat_interleave(2, 1) for x in (k, v)]
    np.testing.assert_allclose(
        grouped.detach().numpy(), plain(q, *repeated).detach().numpy(), atol=1e-6
    )


def test_frozen_batch_norm():
    from rushlight.vision.ops import FrozenBatchNorm2d

    torch.manual_seed(0)
    norm = torch.nn.BatchNorm2d(3)
    norm(torch.randn(4, 3, 5, 5))
    norm.eval()
    frozen = FrozenBatchNorm2d(3)
    frozen.load_state_dict(norm.state_dict())
    assert not list(frozen.parameters())
    x = torch.randn(2, 3, 4, 4)
    np.testing.assert_allclose(frozen(x).numpy(), norm(x).detach().numpy(), atol=1e-6)


def test_associative_scan():
    from rushlight._higher_order_ops.associative_scan import associative_scan

    def combine(a, b):  # x -> p x + q, one after the other
        return a[0] * b[0], b[0] * a[1] + b[1]

    torch.manual_seed(0)
    p, q = torch.rand(2, 7, 3), torch.randn(2, 7, 3)
    expected = [q[:, 0]]
    for i in range(1, 7):
        expected.append(p[:, i] * expected[-1] + q[:, i])
    for mode in ("pointwise", "generic"):
        products, sums = associative_scan(combine, (p, q), 1, combine_mode=mode)
        np.testing.assert_allclose(sums.numpy(), torch.stack(expected, 1).numpy(), atol=1e-6)
        np.testing.assert_allclose(products.numpy(), p.cumprod(1).numpy(), atol=1e-6)
    backward = associative_scan(lambda a, b: a + b, q, -1, reverse=True)
    np.testing.assert_allclose(backward.numpy(), q.flip(-1).cumsum(-1).flip(-1).numpy(), atol=1e-6)
    with pytest.raises(ValueError, match="[Cc]ombine_mode"):
        associative_scan(combine, (p, q), 1, combine_mode="other")


def test_first_operand_may_be_a_number():
    assert torch.div(7, 2).item() == 3.5
    assert torch.div(7, 2, rounding_mode="floor").item() == 3
    assert torch.floor_divide(7, 2).dtype is torch.int64
    assert torch.add(1, 2, alpha=3).item() == 7
    assert torch.mul(2.0, 3).dtype is torch.float32
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.sub(1, x).sum().backward()
    assert x.grad.tolist() == [-1.0, -1.0]
    with pytest.raises(TypeError, match="must be Tensor"):
        torch.remainder(7, 2)


def test_optimizer_around_another():
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self):
            self.inner.step()

    p = torch.nn.Parameter(torch.ones(1))
    p.grad = torch.ones(1)
    Wrapper(torch.optim.SGD([p], lr=0.5)).step()
    assert p.item() == 0.5


@pytest.mark.filterwarnings("ignore:This overload of:UserWarning")
def test_older_order_of_numbers_and_tensors():
    a, b, c = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([5.0, 8.0])
    for older, now in (
        (torch.add(a, 2, b), torch.add(a, b, alpha=2)),
        (a.clone().add_(-0.5, b), a.add(b, alpha=-0.5)),
        (a.clone().sub_(2, b), a.sub(b, alpha=2)),
        (torch.addcmul(a, 0.1, b, c), torch.addcmul(a, b, c, value=0.1)),
        (a.clone().addcmul_(0.1, b, c), torch.addcmul(a, b, c, value=0.1)),
        (a.clone().addcdiv_(-0.1, b, c), torch.addcdiv(a, b, c, value=-0.1)),
    ):
        assert torch.equal(older, now)
    x = b.clone().requires_grad_()
    torch.add(a, 3, x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.filterwarnings("always:This overload of:UserWarning")
def test_the_warning_of_an_older_order_names_the_line_of_the_call(recwarn):
    a = torch.ones(2)
    torch.set_warn_always(True)
    try:
        line = sys._getframe().f_lineno + 1
        a.add_(1, a)
    finally:
        torch.set_warn_always(False)
    assert [(w.filename, w.lineno) for w in recwarn] == [(__file__, line)]


def test_a_storage_counts_its_bytes():
    big, small = torch.zeros(1000).untyped_storage(), torch.zeros(0).untyped_storage()
    assert sys.getsizeof(big) - sys.getsizeof(small) == 4000
    assert sys.getsizeof(torch.zeros(1000).storage()) > 4000


def test_operators_over_lists():
    torch.manual_seed(0)
    x = [torch.rand(2) + 0.1, torch.rand(3) + 0.1]
    y = [torch.rand(2) + 0.5, torch.rand(3) + 0.5]

    def same(got, expected):
        assert len(got) == 2
        assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))

    same(torch._foreach_sqrt(x), [t.sqrt() for t in x])
    same(torch._foreach_add(x, y, alpha=2), [a.add(b, alpha=2) for a, b in zip(x, y, strict=True)])
    same(torch._foreach_mul(x, [2.0, 3.0]), [x[0] * 2, x[1] * 3])
    same(torch._foreach_addcdiv(x, y, y, [1.0, 2.0]), [x[0] + 1, x[1] + 2])
    same(torch._foreach_addcmul(x, y, y, torch.tensor([0.0, 1.0])), [x[0], x[1] + y[1] * y[1]])
    same(torch._foreach_pow(2.0, x), [2.0**t for t in x])
    same(torch._foreach_maximum(x, 0.5), [t.clamp(min=0.5) for t in x])
    same(torch._foreach_norm(x, 1), [t.abs().sum() for t in x])
    z = torch._foreach_clone(x)
    list_of_z = list(z)
    assert torch._foreach_lerp_(list_of_z, y, 0.5) is list_of_z
    same(z, [a.lerp(b, 0.5) for a, b in zip(x, y, strict=True)])
    torch._foreach_copy_(z, x)
    same(z, x)
    torch._foreach_zero_(z)
    assert all(t.count_nonzero() == 0 for t in z)
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="same number of tensors"):
        torch._foreach_add(x, y[:1])


def test_row_numbers_and_starts_of_rows():
    rows = torch.tensor([0, 0, 2, 5])
    starts = torch._convert_indices_from_coo_to_csr(rows, 6, out_int32=True)
    assert starts.dtype is torch.int32
    assert starts.tolist() == [0, 2, 2, 3, 3, 3, 4]
    columns = torch.tensor([4, 3, 2, 1])
    pair = torch._convert_indices_from_csr_to_coo(starts, columns, transpose=True)
    assert torch.equal(pair, torch.stack([columns, rows]))


def test_functions_as_class_attributes_are_no_methods():
    class Net(torch.nn.Module):
        act = torch.tanh
        project = torch.nn.functional.linear

        def forward(self, x):
            return self.project(self.act(x), weight=torch.ones(1, 2))

    x = torch.tensor([0.5, 1.0])
    np.testing.assert_allclose(Net()(x).numpy(), x.tanh().sum(0, keepdim=True).numpy(), rtol=1e-6)
    assert Net.act is torch.tanh


def test_types_to_compare_with():
    assert issubclass(torch.fx.GraphModule, torch.nn.Module)
    assert torch.chalf is torch.complex32 is not torch.complex64
    assert torch.ones(1).dtype not in (torch.qint8, torch.quint8, torch.qint32)
    assert torch.int4.is_signed and torch.int4.itemsize == 1 and str(torch.int4) == "torch.int4"
    assert not torch.uint1.is_signed and torch.uint1 not in (torch.uint7, torch.uint8, torch.int1)
    for dtype in (torch.qint8, torch.uint4):
        with pytest.raises(NotImplementedError, match="compared"):
            torch.zeros(2, dtype=dtype)


def test_assert_tensor_metadata():
    x = torch.ones(2, 3)
    torch._assert_tensor_metadata(
        x, [2, 3], [3, 1], torch.float32, device="cpu", layout=torch.strided
    )
    for given in (
        {"size": [2]}, {"stride": [1]}, {"dtype": torch.int}, {"device": "meta"}, {"layout": torch.sparse_coo},
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"Tensor {next(iter(given))}s? mismatch!"):
            torch._assert_tensor_metadata(x, **given)


def test_assert_async():
    torch._assert_async(torch.tensor(True))
    with pytest.raises(RuntimeError, match="wrong"):
        torch._assert_async(torch.tensor(0), "wrong")


def test_flex_attention_of_functions_that_take_one_place_at_a_time():
    from rushlight.nn import flex_attention as flex

    torch.manual_seed(0)
    table = torch.randn(2, 13)

    def chained(score, b, h, q, kv):
        return score + table[b][q - kv + 6]

    def together(score, b, h, q, kv):
        return score + table[b, q - kv + 6]

    q, k, v = (torch.randn(2, 3, 6, 4) for _ in range(3))
    a, b = (flex.flex_attention(q, k, v, f) for f in (chained, together))
    np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-6)
    mask = flex.create_mask(lambda b, h, q, kv: torch.ones((), dtype=torch.bool), 1, 1, 3, 4)
    assert mask.shape == (1, 1, 3, 4)
    assert mask.all()
    long = flex.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 2048, 2048)
    assert long.shape == (1, 1, 2048, 2048)  # in one call, not four million


@pytest.mark.parametrize(
    "mask_mod",
    [
        lambda b, h, q, kv: (q == 2) & (kv == 1),  # none of the five corners
        lambda b, h, q, kv: ((q == 2) & (kv == 1)).any() | (q == 5),
        lambda b, h, q, kv: (q >= kv) & (q.numel() == 1),
        lambda b, h, q, kv: torch.stack([q, kv]).max() > 3,
        lambda b, h, q, kv: (torch.arange(6) == q).sum() * q > kv,
        lambda b, h, q, kv: torch.where(q > 3, kv < 2, kv > h),
    ],
)
def test_a_mask_is_that_of_single_places(mask_mod):
    """Whether its function can be called with all places at once or not."""
    from rushlight.nn import flex_attention as flex

    mask = flex.create_mask(mask_mod, 1, 2, 6, 6)
    for place in np.ndindex(1, 2, 6, 6):
        assert mask[place] == mask_mod(*map(torch.tensor, place))


def test_gradients_go_through_a_score_mod():
    from rushlight.nn import flex_attention as flex

    torch.manual_seed(0)
    x, slope = torch.randn(1, 2, 4, 3), torch.tensor([0.5, 2.0], requires_grad=True)
    out = flex.flex_attention(
        x, x, x, lambda s, b, h, q, kv: torch.where(q >= kv, s * slope[h], float("-inf"))
    )
    out.sum().backward()
    scores = (x @ x.mT * 3**-0.5 * slope.detach()[:, None, None]).masked_fill(
        torch.ones(4, 4).tril() == 0, float("-inf")
    )
    np.testing.assert_allclose((scores.softmax(-1) @ x).numpy(), out.detach().numpy(), atol=1e-6)
    assert slope.grad.isfinite().all() and slope.grad.abs().min() > 0


def test_gradgradcheck_draws_as_pytorch_does():
    torch.manual_seed(0)
    x = torch.rand(3, 3, dtype=torch.double, requires_grad=True)
    torch.manual_seed(0)
    assert torch.autograd.gradgradcheck(lambda x: x**2, x)
    after = torch.rand(1)
    torch.manual_seed(0)
    torch.empty(3, 3, dtype=torch.double).uniform_(-1, 1)
    assert torch.equal(after, torch.rand(1))


def test_public_functions_can_be_pickled(tmp_path):
    import pickle

    F = torch.nn.functional
    for function in (
        torch.tanh, torch.conv2d, F.relu, F.gelu, F.linear, torch.einsum, torch.special.erf,
        torch.linalg.norm, torch.fft.fft, torch.where,
    ):  # fmt: skip
        assert pickle.loads(pickle.dumps(function)) is function
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, activation=F.gelu)
    torch.save(layer, tmp_path / "layer.pt")
    assert torch.load(tmp_path / "layer.pt", weights_only=False).activation is F.gelu


def test_memory_layout_of_results_that_programs_view():
    F = torch.nn.functional
    x = torch.rand(4, 3, 5, 6).permute(2, 3, 0, 1)
    for y in (x.softmax(1), x.log_softmax(-1), F.pad(x, (1, 1)), F.scaled_dot_product_attention(x, x, x)):  # fmt: skip
        assert y.is_contiguous()
        assert y.view(5, -1).shape[0] == 5
    last = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert F.pad(last, (1, 1)).is_contiguous(memory_format=torch.channels_last)
    assert torch.ones(4, 9).multinomial(2).is_contiguous()
    heads = torch.rand(2, 5, 4, 8).transpose(1, 2)
    assert F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).is_contiguous()


def test_names_of_several_processes():
    """Those that are not there can be imported and compared with; a call says what is wrong."""
    from rushlight.distributed import device_mesh, nn, optim

    with pytest.raises(RuntimeError, match="is not there"):
        optim.DistributedOptimizer()
    assert not isinstance(object(), device_mesh.DeviceMesh)
    with pytest.raises(AttributeError):
        nn.no_such_collective  # noqa: B018


def test_streams_of_the_cpu():
    with torch.Stream("cpu") as stream:
        assert stream.query()
        assert stream.synchronize() is None
        assert stream == torch.Stream()
        assert stream.device == torch.device("cpu")
    for call in (torch.Event().record, stream.record_event):
        with pytest.raises(RuntimeError, match="doesn't support events"):
            call()
    with pytest.raises(RuntimeError, match="not linked with support for cuda"):
        torch.Stream("cuda")


def test_records_of_a_file(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.arange(3, dtype=torch.uint8), path)
    reader = torch.PyTorchFileReader(str(path))
    assert "data.pkl" in reader.get_all_records()
    assert reader.has_record("data/0")
    assert not reader.has_record("data/1")
    assert reader.get_record("data/0") == bytes([0, 1, 2])
    with pytest.raises(RuntimeError, match="not in the archive"):
        reader.get_record("data/1")
    assert reader.get_record_size("data/0") == 3
    lazy = reader.get_storage_from_record("data/0", 3, torch.UntypedStorage)
    assert lazy.shape == (0,) and lazy.dtype == torch.uint8
    assert lazy.untyped_storage().tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="record size"):
        reader.get_storage_from_record("data/0", 3, torch.float32)


def test_the_structure_of_a_leaf_is_a_class():
    from rushlight.utils._pytree import LeafSpec, _get_node_type, tree_structure

    spec = tree_structure([3, {"a": 4}])
    assert spec.children_specs[0] == LeafSpec()
    assert isinstance(tree_structure(3), LeafSpec)
    assert not isinstance(spec, LeafSpec)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert _get_node_type([1]) is list
    assert _get_node_type(torch.max(torch.ones(2), 0)) is torch.return_types.max


def test_a_metaclass_of_tensors():
    class Meta(torch._C._TensorMeta):
        pass

    class Mine(torch.Tensor, metaclass=Meta):
        pass

    assert isinstance(Mine, torch._C._TensorMeta)
    assert Mine([1.0]).add(1).item() == 2


def test_what_text_and_objects_are():
    pattern = torch.utils.data._utils.collate.np_str_obj_array_pattern
    texts = [np.array(["a"]), np.array([b"a"]), np.array([None])]
    assert all(pattern.search(a.dtype.str) for a in texts)
    assert not any(
        pattern.search(np.dtype(d).str) for d in ("float32", "int8", "bool", "complex64")
    )
    with pytest.raises(TypeError, match="must contain tensors"):
        torch.utils.data.default_collate(texts)


def test_switches_of_the_compiler_have_other_values_in_a_block():
    config = torch._dynamo.config
    config.cache_size_limit = 8
    patched = config.patch(cache_size_limit=16, verbose=True)
    try:
        with patched, patched:
            assert config.cache_size_limit == 16 and config.verbose
        assert config.cache_size_limit == 8 and config.verbose is False
        assert config.patch("verbose", 3)(lambda: config.verbose)() == 3
        with pytest.raises(KeyError), config.patch({"verbose": 2}):
            raise KeyError
        assert config.verbose is False
        with pytest.raises(AttributeError, match="nonsense does not exist"):
            config.nonsense
        with pytest.raises(AttributeError, match="nonsense does not exist"):
            config.nonsense = 1
        with pytest.raises(AttributeError, match="nonsense"), config.patch(nonsense=1):
            pass
        assert config.automatic_dynamic_shapes is True and config.recompile_limit == 8
        saved = config.save_config()
        config.recompile_limit = 3
        assert config.cache_size_limit == 3 and config.get_config_copy()["recompile_limit"] == 3
        config.load_config(saved)
        assert config.cache_size_limit == 8
        with pytest.raises(ValueError, match="malformed"):
            config.load_config(b"{'verbose': print()}")
        assert not hasattr(config, "pytest_plugins")
    finally:
        config.cache_size_limit = 8


def test_dtypes_that_no_tensor_has():
    assert [d.itemsize for d in (torch.quint4x2, torch.bits16, torch.qint32)] == [1, 2, 4]
    assert torch.float4_e2m1fn_x2.is_floating_point and not torch.bits8.is_floating_point
    with pytest.raises(NotImplementedError, match="quint2x4"):
        torch.empty(1, dtype=torch.quint2x4)


def test_tensors_in_groups_as_optimizers_sort_them():
    from rushlight.utils._foreach_utils import _group_tensors_by_device_and_dtype as groups

    a, b, c = torch.ones(1), torch.ones(2).double(), torch.ones(3)
    found = groups([[a, b, c], [None, c, b], []], with_indices=True)
    assert {dtype: indices for (_, dtype), (_, indices) in found.items()} == {
        torch.float32: [0, 2], torch.float64: [1],
    }  # fmt: skip
    lists, _ = found[a.device, torch.float32]
    assert lists[0][1] is c and lists[1] == [None, b] and lists[2] == []
    with pytest.raises(RuntimeError, match="must not be None"):
        groups([[a, None]])


def test_blocks_of_other_packages_decorate_functions():
    from rushlight.utils._contextlib import _NoParamDecoratorContextManager, context_decorator

    seen = []

    class Noted(_NoParamDecoratorContextManager):
        def __enter__(self):
            seen.append("in")

        def __exit__(self, *exc):
            seen.append("out")

    @Noted
    def plain(a, b=2):
        seen.append(a + b)
        return a * b

    @Noted()
    def steps():
        seen.append("first")
        got = yield 1
        seen.append(got)
        return 7

    def delegate():
        return (yield from steps())

    assert plain(3) == 6 and seen == ["in", 5, "out"]
    seen.clear()
    generator = delegate()
    assert next(generator) == 1 and seen == ["in", "first", "out"]
    with pytest.raises(StopIteration) as stop:
        generator.send("second")
    assert stop.value.value == 7 and seen[3:] == ["in", "second", "out"]
    seen.clear()
    assert context_decorator(Noted(), lambda: seen.append(1) or 4)() == 4 and seen == [
        "in",
        1,
        "out",
    ]


def test_generators_in_a_block_return_values_also_without_items():
    @torch.no_grad()
    def none():
        return torch.is_grad_enabled()
        yield

    def delegate():
        return (yield from none())

    with pytest.raises(StopIteration) as stop:
        next(delegate())
    assert stop.value.value is False


def test_a_decorated_class_is_a_function_and_says_so():
    class Model:
        def __init__(self):
            self.recorded = torch.is_grad_enabled()

    with pytest.warns(FutureWarning, match="Decorating classes is deprecated: Model"):
        made = torch.no_grad()(Model)
    assert made().recorded is False and not isinstance(made, type)


def test_tensors_of_modules_are_swapped_without_checks():
    from rushlight.nn.utils._named_member_accessor import set_tensor, swap_submodule, swap_tensor

    norm = torch.nn.BatchNorm1d(2)
    weight, mean = norm.weight, norm.running_mean
    assert swap_tensor(norm, "weight", torch.zeros(2)) is weight and norm.weight.sum() == 0
    assert swap_tensor(norm, "running_mean", None) is mean and norm.running_mean is None
    set_tensor(norm, "other", mean)
    assert norm.other is mean
    for name, error in (
        ("none", AttributeError),
        ("a.b", KeyError),
        ("", KeyError),
        ("training", TypeError),
    ):
        with pytest.raises(error):
            swap_tensor(norm, name, mean)
    with pytest.raises(TypeError, match="not an instance of torch.Tensor"):
        swap_tensor(norm, "weight", 3)
    both = torch.nn.Sequential(norm)
    assert swap_submodule(both, "0", torch.nn.ReLU()) is norm and isinstance(both[0], torch.nn.ReLU)
    with pytest.raises(KeyError, match="does not exist"):
        swap_submodule(both, "1", norm)


def test_a_mapped_dimension_is_taken_out_where_asked():
    from rushlight._C._functorch import _remove_batch_dim
    from rushlight.dispatch.transforms import levels

    def f(x):
        for given in (x, torch.ones(3)):
            out = _remove_batch_dim(given, levels.open[-1], 2, 1)
            assert out.shape == (3, 2)
        return x

    x = torch.arange(6).reshape(2, 3)
    assert torch.equal(torch.vmap(f)(x), x)


def test_switches_of_another_compiler_are_kept():
    config = torch._inductor.config
    assert config.max_autotune is False and config.triton.cudagraphs is False
    config.triton.unique_kernel_names = True
    assert config.triton.unique_kernel_names
    assert config.get_config_copy() == {"triton.unique_kernel_names": True}
    with config.patch({"triton.unique_kernel_names": False, "max_autotune": True}):
        assert config.max_autotune and not config.triton.unique_kernel_names
    assert config.triton.unique_kernel_names and not config.max_autotune
    with pytest.raises(AttributeError, match="nonsense was not set"):
        config.nonsense
    assert torch._inductor.list_mode_options("max-autotune") == {}


STARS = {
    "torch": "tensor Tensor randn float32 manual_seed no_grad relu cat pi",
    "torch.nn.functional": "relu relu_ cross_entropy conv2d pad",
    "torch.linalg": "norm inv LinAlgError",
    "torch.fft": "fft irfftn",
    "torch.special": "expit bessel_j0",
    "torch.autograd": "Variable backward grad Function",
    "torch.distributed": "init_process_group all_reduce ReduceOp is_available",
    "torch.multiprocessing": "Process Queue spawn",
    "torch.masked": "masked_tensor softmax",
    "torch.distributions": "Normal kl_divergence",
}


@pytest.mark.parametrize("module", STARS)
def test_what_a_star_brings(module):
    names: dict = {}
    exec(f"from {module.replace('torch', 'rushlight', 1)} import *", names)
    assert set(STARS[module].split()) <= names.keys()
    assert not {"rushlight", "methods", "annotations", "core", "transforms", "nn"} & names.keys()


def test_operators_are_declared_with_tags():
    library = torch.library.Library("names_tags", "DEF")
    library.define("twice(Tensor x) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl("twice", lambda x: x * 2, "CPU")
    torch.library.define("names_tags::same", "(Tensor x) -> Tensor", tags=torch.Tag.pointwise)
    assert torch.ops.names_tags.twice(torch.ones(1)).item() == 2
    assert repr(torch.Tag.core) == "<Tag.core: 0>" and str(torch.Tag.core) == "Tag.core"

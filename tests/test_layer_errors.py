"""Arguments of layers and of `nn.functional` that are refused, and those at the edge that are taken."""

from __future__ import annotations

import gc
import pickle
import weakref
from copy import deepcopy

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


REFUSED = {
    "classes of two dimensions": (
        lambda: F.nll_loss(torch.ones(10, 3), zeros(10, 2)), RuntimeError, "1D target tensor expected",
    ),
    "classes of another batch": (
        lambda: F.nll_loss(torch.ones(1, 3), zeros()), ValueError, "batch_size \\(1\\) to match",
    ),
    "classes of one sample": (
        lambda: F.nll_loss(torch.ones(3), zeros(2)), ValueError, "must have size 1",
    ),
    "classes without dimension": (
        lambda: F.nll_loss(torch.ones(()), zeros(1)), ValueError, "Expected 1 or more dimensions",
    ),
    "classes of images": (
        lambda: F.nll_loss(torch.ones(4, 3, 2, 2), zeros(4, 2)), RuntimeError, "3D tensors",
    ),
    "classes of other images": (
        lambda: F.nll_loss(torch.ones(4, 3, 2, 2), zeros(4, 2, 3)), RuntimeError, "size mismatch",
    ),
    "class weights of two dimensions": (
        lambda: F.nll_loss(torch.ones(4, 3), zeros(4), torch.ones(1, 3)), RuntimeError, "all 3 classes",
    ),
    "class weights of one sample": (
        lambda: F.nll_loss(torch.ones(3), zeros(), torch.ones(4)), RuntimeError, "all 3 classes",
    ),
    "class weights of images": (
        lambda: F.nll_loss(torch.ones(4, 3, 2), zeros(4, 2), torch.ones(4)), RuntimeError,
        "either for all or no classes",
    ),
    "rows of bags": (
        lambda: F.embedding_bag(torch.tensor([[0, 9]]), torch.ones(4, 2), mode="max"), RuntimeError,
        "Expected idx >= 0 && idx < num_embeddings but found idx to be 9",
    ),
    "rows of bags, summed": (
        lambda: F.embedding_bag(torch.tensor([[0, 9]]), torch.ones(4, 2), mode="sum"), RuntimeError,
        "Index 1 of input takes value 9",
    ),
    "padding of bags": (
        lambda: nn.EmbeddingBag(4, 3, padding_idx=4), AssertionError, "padding_idx must be within num_emb",
    ),
    "a sequence without steps": (
        lambda: nn.LSTM(5, 6)(torch.ones(0, 2, 5)), RuntimeError, "sequence length to be larger than 0",
    ),
    "no channels": (
        lambda: F.adaptive_max_pool2d(torch.ones(1, 0, 5, 5), 2), RuntimeError, "dimension 1 being empty",
    ),
    "no gradient of nothing": (
        lambda: F.adaptive_avg_pool1d(torch.ones(1, 6, requires_grad=True), 0).sum().backward(),
        RuntimeError, "Expected grad_output to have non-zero size",
    ),
    "no gradient of no maximum": (
        lambda: F.adaptive_max_pool3d(torch.ones(1, 6, 4, 4, requires_grad=True), 0).sum().backward(),
        RuntimeError, "Expected grad_output to have non-zero size",
    ),
    "fractional pool of no channels": (
        lambda: F.fractional_max_pool2d(torch.ones(1, 0, 9, 9), 2, 3), RuntimeError, "Expected input to have",
    ),
    "one size of two": (
        lambda: F.fractional_max_pool2d(torch.ones(1, 1, 9, 9), (2,), 3), RuntimeError, "kernel_size must either",
    ),
    "too few samples": (
        lambda: F.fractional_max_pool2d(torch.ones(2, 1, 9, 9), 2, 3, _random_samples=torch.ones(1, 1, 2)),
        RuntimeError, "Expect _random_samples.size\\(0\\)",
    ),
    "a window larger than the input": (
        lambda: F.max_pool1d(torch.ones(1, 1, 4), 3, 2, 0, 2, return_indices=True), RuntimeError, "too small",
    ),
    "packing nothing": (
        lambda: nn.utils.rnn.pack_padded_sequence(torch.ones(0, 0), []), RuntimeError,
        "Cannot pack empty tensors",
    ),
    "a huge factor": (
        lambda: F.interpolate(torch.ones(1, 1, 4, 4), scale_factor=1e20), RuntimeError, "without overflow",
    ),
    "channels of an instance norm": (
        lambda: nn.InstanceNorm1d(3, affine=True)(torch.ones(2, 4, 5)), ValueError, "to match num_features",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        call()


def test_classes_of_one_sample():
    x = torch.tensor([-1.0, -2.0])
    for target in (torch.tensor(1), torch.tensor([1])):
        assert F.nll_loss(x, target, reduction="none").tolist() == 2.0
        assert F.cross_entropy(x, target).shape == ()
    weight = torch.tensor([[1.0, 3.0]])
    assert F.nll_loss(x.view(1, 2, 1), zeros(1, 1) + 1, weight, reduction="sum") == 6.0


def test_threshold_in_place_where_elements_share_memory():
    x = torch.tensor([-1.0, 2.0]).expand(3, 2)
    assert F.threshold(x, 0.5, 0.25, inplace=True).tolist() == [[0.25, 2.0]] * 3


WARNED = {
    "dropout2d of three dimensions": (
        lambda: F.dropout2d(torch.ones(1, 2, 2)), "assuming that channel-wise 1D dropout",
    ),
    "affine_grid of one place": (
        lambda: F.affine_grid(torch.ones(1, 2, 3), [1, 1, 2, 1], align_corners=True),
        "See the documentation of affine_grid",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WARNED)
def test_warned_of(name):
    call, text = WARNED[name]
    with pytest.warns(UserWarning, match=text):
        call()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_nothing_in_and_nothing_out():
    assert nn.Transformer(16, 4, 1, 1)(torch.ones(3, 0, 16), torch.ones(2, 0, 16)).shape == (
        2,
        0,
        16,
    )
    assert F.cross_entropy(torch.ones(5, 0), torch.ones(5, 0)).isnan()
    assert (
        F.cross_entropy(torch.ones(5, 0), torch.ones(5, 0), reduction="none").tolist() == [0.0] * 5
    )
    for image, grid in [((2, 0, 3, 4, 2), (2, 2, 2, 2, 3)), ((0, 3, 3, 4), (0, 2, 2, 2))]:
        x, at = torch.ones(image, requires_grad=True), torch.ones(grid, requires_grad=True)
        F.grid_sample(x, at, align_corners=False).sum().backward()
        assert x.grad.shape == image and at.grad.abs().sum() == 0
    table = nn.Embedding(0, 0, sparse=True)
    table(torch.tensor([], dtype=torch.int64)).sum().backward()
    assert table.weight.grad.is_sparse and table.weight.grad.shape == (0, 0)


def test_sparse_weights_of_inputs_of_any_dimensions():
    weight, bias = torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, 3.0]]), torch.ones(3)
    for shape in [(2,), (4, 2), (1, 4, 2)]:
        x = torch.arange(torch.Size(shape).numel()).view(shape).float()
        for w in (weight.to_sparse(), weight.to_sparse_csr()):
            assert torch.equal(F.linear(x, w), F.linear(x, weight))
            assert torch.equal(F.linear(x, w, bias), F.linear(x, weight, bias))


def test_sparse_gradients_of_two_passes_stand_side_by_side():
    table, rows = nn.Embedding(10, 3, sparse=True), torch.tensor([7, 1])
    for _ in range(2):
        table(rows).sum().backward()
    rows[0] = 3
    grad = table.weight.grad
    assert grad._indices().tolist() == [[7, 1, 7, 1]] and not grad.is_coalesced()
    assert grad.to_dense()[7].tolist() == [2.0] * 3


def test_packed_sequences_of_other_dtypes():
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2), [3, 1])
    for name, dtype in (("short", torch.int16), ("char", torch.int8), ("byte", torch.uint8)):
        assert getattr(packed, name)().data.dtype is dtype


def test_parametrizations_say_what_they_may_not_change():
    class Cut(nn.Module):
        def forward(self, x):
            return x[:-1]

    class CutBack(nn.Module):
        def forward(self, x):
            return x

        def right_inverse(self, x):
            return x[:-1]

    parametrize, layer = nn.utils.parametrize, nn.Linear(2, 2)
    with pytest.raises(ValueError, match="Registering a parametrization may not change the shape"):
        parametrize.register_parametrization(layer, "weight", Cut())
    parametrize.register_parametrization(layer, "weight", nn.Identity())
    with pytest.raises(ValueError, match="right_inverse must have the same shape"):
        parametrize.register_parametrization(layer, "weight", CutBack())


def names_of(module, state_dict, *rest):
    module.seen = sorted(state_dict)


def test_a_load_hook_does_not_keep_its_module_alive():
    layer = nn.Linear(2, 2)
    layer.register_load_state_dict_pre_hook(names_of)
    for other in (deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        other.load_state_dict(layer.state_dict())
        assert other.seen == ["bias", "weight"] and not hasattr(layer, "seen")
    gc.disable()
    try:
        reference = weakref.ref(layer)
        del layer
        assert reference() is None
    finally:
        gc.enable()


def test_lists_of_parameters_without_data_print_as_others():
    values = [nn.Parameter(torch.empty(1, device="meta"))]
    assert "torch.float32 of size 1]" in str(nn.ParameterList(values))


def test_windows_of_padding_alone_are_minus_infinity():
    x = torch.tensor([[1.0, 2.0]])
    assert F.max_pool1d(x, 2, None, 1, 3).tolist() == [[-torch.inf]]
    y, _ = F.max_pool1d(x.requires_grad_(), 2, None, 1, 3, return_indices=True)
    assert y.tolist() == [[-torch.inf]]


def test_margin_losses_of_one_number():
    F = torch.nn.functional
    for x in (torch.tensor(1.0), torch.tensor([1.0]), torch.ones(1, 1)):
        for target in (torch.tensor(0), torch.tensor([0])):
            assert F.multi_margin_loss(x, target, reduction="none").shape == target.shape
            if x.ndim < 2:
                assert F.multilabel_margin_loss(x, target, reduction="none").shape == ()
    with pytest.raises(RuntimeError, match="inconsistent target size"):
        F.multilabel_margin_loss(torch.ones(1, 1), torch.tensor([0]))


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e30])
def test_integers_are_not_padded_by_what_they_cannot_hold(value):
    with pytest.raises(RuntimeError, match="cannot be converted to type .* without overflow"):
        torch.nn.functional.pad(torch.ones(2, dtype=torch.int64), (1, 1), value=value)


@pytest.mark.parametrize(
    "call, text",
    [
        (
            lambda x: torch.addr(x, None, x[0]),
            "addr(): argument 'vec1' (position 2) must be Tensor, not NoneType",
        ),
        (
            lambda x: F.embedding(None, x),
            "embedding(): argument 'indices' (position 2) must be Tensor, not NoneType",
        ),
        (
            lambda x: torch.diag([1, 2]),
            "diag(): argument 'input' (position 1) must be Tensor, not list",
        ),
        (
            lambda x: torch.fliplr("x"),
            "fliplr(): argument 'input' (position 1) must be Tensor, not str",
        ),
    ],
)
def test_what_is_no_tensor_is_named(call, text):
    with pytest.raises(TypeError) as caught:
        call(torch.ones(2, 2))
    assert str(caught.value).startswith(text)


def test_checks_of_conditions():
    torch._check(True)
    torch._check_tensor_all(torch.ones(3) > 0)
    torch._check_is_size(3, max=3)
    for name, kind in {
        "_check": RuntimeError, "_check_index": IndexError, "_check_value": ValueError, "_check_type": TypeError,
        "_check_not_implemented": NotImplementedError,
    }.items():  # fmt: skip
        with pytest.raises(kind, match="^said$"):
            getattr(torch, name)(False, lambda: "said")
        with pytest.raises(kind, match="Expected cond to be True, but got False"):
            getattr(torch, name)(False)
        with pytest.raises(TypeError, match="use torch._check_tensor_all"):
            getattr(torch, name)(torch.tensor(True))
        with pytest.raises(TypeError, match="cond must be a bool, but got <class 'int'>"):
            getattr(torch, name)(1)
    with pytest.raises(KeyError, match="said"):
        torch._check_tensor_all_with(KeyError, torch.tensor([True, False]), lambda: "said")
    with pytest.raises(RuntimeError):
        torch._check_is_size(-1)
    with pytest.raises(TypeError, match="message must be a callable"):
        torch._check(False, "text")

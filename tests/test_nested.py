"""Nested tensors of both layouts: each component against the dense operator, gradients, views and errors."""

import copy
import io
import pickle

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.autograd import gradcheck

LAYOUTS = (torch.strided, torch.jagged)


def parts(dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return [torch.randn(n, 3, dtype=dtype) for n in (2, 4, 1)]


def nested(layout, tensors=None, **options):
    return torch.nested.nested_tensor(
        parts() if tensors is None else tensors, layout=layout, **options
    )


def same(found, expected):
    """Whether the components of a nested tensor are these tensors."""
    assert found.is_nested
    found = found.unbind()
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)


ELEMENTWISE = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "leaky_relu": F.leaky_relu,
    "sqrt_of_abs": lambda x: x.abs().sqrt(),
    "number": lambda x: 2 - x * 3,
    "reverse_division": lambda x: 1 / x,
    "power": lambda x: x**2,
    "two": lambda x: torch.add(x, x * x, alpha=2),
    "compare": lambda x: (x > 0) & (x < 1),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "scalar_tensor": lambda x: x * torch.tensor(2.0),
    "where": lambda x: torch.where(x > 0, x, x * 2),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "to": lambda x: x.to(torch.float64),
    "dropout_of_none": lambda x: F.dropout(x, 0.0),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: F.log_softmax(x, dim=-1),
    "linear": lambda x: F.linear(x, torch.arange(6.0).view(2, 3), torch.ones(2)),
    "layer_norm": lambda x: F.layer_norm(x, (3,), torch.arange(3.0), torch.ones(3)),
    "last_sum": lambda x: x.sum(-1, keepdim=True),
    "transpose": lambda x: x.mT,
    "chunk": lambda x: x.chunk(3, -1)[1],
    "split": lambda x: x.split([1, 2], -1)[1],
    "zeros_like": torch.zeros_like,
    "clone": torch.clone,
    "cat": lambda x: torch.cat([x, x], -1),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_components_are_those_of_the_dense_operator(name, layout):
    function = ELEMENTWISE[name]
    same(function(nested(layout)), [function(p) for p in parts()])


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", sorted(set(ELEMENTWISE) - {"compare", "to", "zeros_like"}))
def test_gradients(name, layout):
    def function(*tensors):
        x = torch.nested.as_nested_tensor(list(tensors), layout=layout)
        y = ELEMENTWISE[name](x)
        return y.contiguous().to_padded_tensor(0.0)

    torch.set_default_dtype(torch.float64)
    try:
        inputs = [p.requires_grad_() for p in parts(torch.float64)]
        assert gradcheck(function, inputs)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_leaf_collects_a_nested_gradient(layout):
    x = nested(layout, requires_grad=True)
    assert x.is_leaf and x.requires_grad and x.grad is None
    y = x * x
    assert not y.is_leaf and y.grad_fn.name() == "MulBackward0"
    y.backward(torch.ones_like(y))
    same(x.grad, [2 * p for p in parts()])
    seen = []
    x.register_hook(lambda g: seen.append(g.is_nested) or g * 2)
    x.grad = None
    (x * 3).backward(torch.ones_like(y))
    same(x.grad, [torch.full_like(p, 6.0) for p in parts()])
    assert seen == [True]
    assert not x.detach().requires_grad


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_gradients_by_the_function_grad(layout):
    x = nested(layout, requires_grad=True)
    (g,) = torch.autograd.grad((x * x).to_padded_tensor(0.0).sum(), x)
    same(g, [2 * p for p in parts()])
    (g,) = torch.autograd.grad(x.exp(), [x], [torch.ones_like(x)])
    same(g, [p.exp() for p in parts()])
    torch.autograd.backward(x.exp(), torch.ones_like(x))
    same(x.grad, [p.exp() for p in parts()])


def test_gradient_of_a_dense_weight():
    w = torch.ones(2, 3, requires_grad=True)
    x = nested(torch.strided)
    F.linear(x, w).backward(nested(torch.strided, [torch.ones(len(p), 2) for p in parts()]))
    torch.testing.assert_close(w.grad, torch.cat(parts()).sum(0).expand(2, 3))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_components_are_views(layout):
    x = nested(layout)
    x[1].fill_(7.0)
    assert (x.unbind()[1] == 7).all()
    x.mT[0, 0, 0] = 5.0
    assert x[0][0, 0] == 5
    x.mul_(2)
    assert (x[1] == 14).all()
    x.chunk(3, -1)[0][1].zero_()
    assert (x[1][:, 0] == 0).all() and (x[1][:, 1:] == 14).all()
    assert x.detach().data_ptr() == x.data_ptr() != x.clone().data_ptr()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.fill_(9),
        lambda x: x.mul_(0).add_(9),
        lambda x: x.copy_(x * 0 + 9),
        lambda x: x.zero_().add_(9),
    ],
)
def test_a_write_to_a_part_leaves_the_rest(layout, write):
    x = nested(layout)
    write(x.chunk(3, -1)[1])
    for c, p in zip(x.unbind(), parts(), strict=True):
        assert (c[:, 1] == 9).all()
        torch.testing.assert_close(c[:, ::2], p[:, ::2])
    values = torch.arange(6.0)
    gaps = torch.nested.nested_tensor_from_jagged(
        values, torch.tensor([0, 3, 6]), torch.tensor([1, 2])
    )
    write(gaps)
    assert values.tolist() == [9, 1, 2, 9, 9, 5]
    integers = nested(layout, [torch.ones(2, 2, dtype=torch.int64)]).chunk(2, -1)[0]
    with pytest.raises(RuntimeError, match="can't be cast"):
        integers.mul_(0.5)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_views_have_histories_of_their_own(layout):
    x = nested(layout)
    x.mT.requires_grad_()
    x.values().requires_grad_()
    assert not x.requires_grad
    x.requires_grad_()
    view = x.chunk(3, -1)[0]
    assert x.is_leaf and not view.is_leaf and view.grad_fn is not None
    y = x * 1
    y.mT.mul_(3)
    y.select(2, 0).zero_()
    y.backward(torch.ones_like(y))
    same(x.grad, [torch.tensor([0.0, 3, 3]).expand(p.shape) for p in parts()])


def test_values_and_a_nested_tensor_on_them_are_two_tensors():
    values = torch.ones(3, requires_grad=True)
    x = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 3]))
    assert not x.is_leaf
    (x * 2).backward(torch.ones_like(x))
    assert values.grad.tolist() == [2, 2, 2]
    plain = torch.ones(3)
    torch.nested.nested_tensor_from_jagged(plain, torch.tensor([0, 2, 3])).requires_grad_()
    assert not plain.requires_grad


def test_functions_of_users_refuse_nested_tensors_that_need_gradients():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises((NotImplementedError, RuntimeError)):
        y = Twice.apply(nested(torch.strided, requires_grad=True))
        y.backward(torch.ones_like(y))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_write_to_what_was_saved_is_noticed(layout):
    x = nested(layout, requires_grad=True)
    y = x * 1
    z = y * y
    with torch.no_grad():
        y[0].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward(torch.ones_like(z))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_copies_and_files(layout):
    x = nested(layout, requires_grad=True)
    file = io.BytesIO()
    torch.save({"x": x, "values": x.detach().values()}, file)
    file.seek(0)
    loaded = torch.load(file)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), loaded["x"]):
        assert y.requires_grad and y.layout is layout
        same(y.detach(), parts())
    assert loaded["x"].data_ptr() == loaded["values"].data_ptr()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_fill_copy_and_conversions(layout):
    x = nested(layout)
    assert x.to(torch.float32) is x and x.to(x) is x and x.float() is x
    assert x.to(torch.float32, copy=True) is not x
    assert x.double().dtype is torch.float64
    y = torch.empty_like(x)
    assert y.copy_(x) is y
    same(y, parts())
    same(y.fill_(3.0), [torch.full_like(p, 3.0) for p in parts()])
    same(y.zero_(), [torch.zeros_like(p) for p in parts()])
    assert x.is_same_size(y) and x.numel() == 21 and x.dim() == x.ndim == 3 and x.size(0) == 3
    assert torch.equal(x, x.clone()) and not torch.equal(x, y)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_padding(layout):
    x = nested(layout)
    padded = torch.nested.to_padded_tensor(x, -1.0)
    assert padded.shape == (3, 4, 3)
    for row, p in zip(padded, parts(), strict=True):
        torch.testing.assert_close(row[: len(p)], p)
        assert (row[len(p) :] == -1).all()
    assert x.to_padded_tensor(0, (3, 6, 3)).shape == (3, 6, 3)
    with pytest.raises(RuntimeError, match="Truncation is not supported"):
        x.to_padded_tensor(0, (3, 2, 3))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_attention_and_embedding(layout):
    torch.manual_seed(1)
    q = [torch.randn(2, n, 4) for n in (2, 3)]
    k = [torch.randn(2, n, 4) for n in (5, 1)]
    if layout is torch.strided:
        made = [nested(layout, t) for t in (q, k)]
    else:  # [batch, length, heads, features], as such programs make them
        made = [nested(layout, [c.transpose(0, 1) for c in t]).transpose(1, 2) for t in (q, k)]
    found = F.scaled_dot_product_attention(made[0], made[1], made[1])
    same(found, [F.scaled_dot_product_attention(a, b, b) for a, b in zip(q, k, strict=True)])
    table = torch.randn(5, 2)
    words = [torch.tensor([1, 2]), torch.tensor([4])]
    same(F.embedding(nested(layout, words), table), [table[w] for w in words])


def test_modules_take_nested_tensors():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.GELU(), torch.nn.Dropout(0.0)
    )
    for layout in LAYOUTS:
        same(model(nested(layout)), [model(p) for p in parts()])


def test_attention_modules_take_nested_tensors():
    torch.manual_seed(0)
    rows = [torch.randn(n, 4) for n in (2, 3)]
    x = nested(torch.strided, rows)
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    encoder = torch.nn.TransformerEncoder(layer, 2)
    with torch.no_grad():
        found, weights = attention(x, x, x)
        alone = [attention(r[None], r[None], r[None]) for r in rows]
        same(found, [o[0] for o, _ in alone])
        torch.testing.assert_close(weights[0, :2, :2], alone[0][1][0])
        assert weights.shape == (2, 3, 3) and (weights[0, 2] == 0).all()
        for model in (layer, encoder):
            same(model(x), [model(r[None])[0] for r in rows])
        with pytest.raises(AssertionError, match="non-self attention"):
            attention(x, x.clone(), x)
    with pytest.raises(AssertionError, match="outside of its fast path.*requires_grad"):
        attention(x, x, x)
    with pytest.raises(AssertionError, match="training is enabled"):
        layer.train()(x)


def test_an_encoder_that_does_not_check_the_mask_takes_as_many_from_the_beginning():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    x = torch.randn(2, 3, 4)
    gaps = torch.tensor([[False, True, False], [False, False, False]])
    end = torch.tensor([[False, False, True], [False, False, False]])
    checked = torch.nn.TransformerEncoder(layer, 2).eval()
    unchecked = torch.nn.TransformerEncoder(layer, 2, mask_check=False).eval()
    unchecked.load_state_dict(checked.state_dict())
    with torch.no_grad():
        expected = checked(x, src_key_padding_mask=end)
        torch.testing.assert_close(unchecked(x, src_key_padding_mask=gaps), expected)
        assert (expected[0, 2] == 0).all()
        assert not (checked(x, src_key_padding_mask=gaps)[0, 1] == 0).any()


# -- strided ---------------------------------------------------------------------------------------


def test_strided_sizes():
    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 3)])
    assert x.layout is torch.strided and x.size(2) == 3
    with pytest.raises(
        RuntimeError, match="Given dimension 1 is irregular and does not have a size"
    ):
        x.size(1)
    for wrong in (lambda: x.shape, lambda: x.size(), lambda: x.stride(), lambda: len(x)):
        with pytest.raises(RuntimeError, match="NestedTensorImpl doesn't support"):
            wrong()
    assert torch.nested.nested_tensor([]).dim() == 1
    assert repr(torch.nested.nested_tensor([torch.tensor([1]), torch.tensor([2, 3])])) == (
        "nested_tensor([\n  tensor([1]),\n  tensor([2, 3])\n])"
    )


def test_strided_shapes():
    x = nested(torch.strided, [torch.arange(12.0).view(2, 6), torch.arange(18.0).view(3, 6)])
    same(x.view(2, -1, 2, 3), [c.view(-1, 2, 3) for c in x])
    same(x.transpose(1, 2).reshape(2, 2, 3, -1), [c.t().reshape(2, 3, -1) for c in x])
    same(x.unsqueeze(-1).squeeze(3), x.unbind())
    same(x.select(1, 1), [c[1] for c in x])
    same(x.narrow(0, 1, 1), [x[1]])
    assert not x.transpose(1, 2).is_contiguous() and x.transpose(1, 2).contiguous().is_contiguous()
    assert x[0, 1, 2] == 8
    for wrong, text in (
        (lambda: x.view(-1, 2, 3), "cannot change or infer the implicit batch dimension"),
        (lambda: x.view(2, -1, -1, 3, 2), "only one dimension can be inferred"),
        (lambda: x.view(2, 5, 5), "is invalid for input of size 12"),
        (lambda: x.transpose(0, 1), "Nested tensor dimension 0 cannot be transposed"),
        (lambda: x.unbind(1), "can only be unbound along dimension 0"),
        (lambda: x.squeeze(), "squeeze without the dim argument"),
        (lambda: x.chunk(4, -1), "trailing dimension divisible by chunks"),
        (lambda: x.chunk(2, 1), "only supported for the last dimension"),
        (lambda: x.mT.relu(), "must be contiguous to get buffer"),
        (lambda: x.softmax(0), "Cannot apply softmax across nested dimension 0"),
        (lambda: x.sum(1, keepdim=True), "can only be reduced across the last dimension"),
        (lambda: x.sum(-1), "always requires keepdim=True"),
        (lambda: x + torch.ones(6), "got a nested self and non-nested other"),
        (lambda: torch.ones(6) * x, "got a non-nested self and nested other"),
        (lambda: x + x.mT, "add does not support broadcasting"),
        (lambda: F.linear(x, torch.ones(2, 5)), "last_dim = 6"),
        (lambda: F.layer_norm(x, (3, 6)), "irregular dimensions"),
        (lambda: x.copy_(nested(torch.strided)), "only supports tensors that are the same size"),
    ):
        with pytest.raises(RuntimeError, match=text):
            wrong()
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(NotImplementedError, match="slice"):
        x[:1]
    with pytest.raises(NotImplementedError, match="cumsum"):
        x.cumsum(1)


def test_strided_products():
    torch.manual_seed(0)
    a = [torch.randn(2, 4), torch.randn(3, 5)]
    b = [torch.randn(4, 1), torch.randn(5, 2)]
    x, y = nested(torch.strided, a), nested(torch.strided, b)
    expected = [p @ q for p, q in zip(a, b, strict=True)]
    same(x @ y, expected)
    same(torch.bmm(x, y), expected)
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(2x4 and 2x4\)"):
        torch.bmm(x, x)
    with pytest.raises(RuntimeError, match="Expected both to be nested"):
        x @ torch.ones(4, 1)


def test_making_nested_tensors():
    with pytest.raises(TypeError, match="Only lists"):
        torch.nested.nested_tensor(3.0)
    with pytest.raises(TypeError, match="Only lists"):
        torch.nested.nested_tensor((torch.ones(2),))
    rows = torch.arange(6.0).reshape(3, 2)
    for several in (tuple(rows), iter(rows), rows, ((0, 1), (2, 3), (4, 5))):
        made = torch.nested.nested_tensor(several, layout=torch.jagged)
        assert [part.tolist() for part in made.unbind()] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(
        RuntimeError, match="Found dimension 1 for Tensor at index 1 and dimension 0"
    ):
        torch.nested.nested_tensor([torch.tensor(1.0), torch.ones(1)])
    w = torch.ones(2, requires_grad=True)
    assert torch.nested.nested_tensor([w]).is_leaf
    assert not torch.nested.as_nested_tensor([w]).is_leaf
    same(
        torch.nested.as_nested_tensor(torch.eye(2)),
        [torch.tensor([1.0, 0]), torch.tensor([0, 1.0])],
    )
    mask = torch.tensor([[True, True], [True, False]])
    data = torch.arange(8.0).view(2, 2, 2)
    same(torch._nested_tensor_from_mask(data, mask), [data[0], data[1, :1]])
    assert not torch._nested_tensor_from_mask_left_aligned(data, ~mask)
    with pytest.raises(RuntimeError, match="left-aligned"):
        torch._nested_tensor_from_mask(data, ~mask)
    same(
        torch._nested_from_padded(data, torch.tensor([[2, 1], [1, 2]])),
        [data[0, :, :1], data[1, :1]],
    )


# -- jagged ----------------------------------------------------------------------------------------


def test_jagged_sizes():
    x = nested(torch.jagged)
    batch, ragged, features = x.shape
    assert (batch, features) == (3, 3) and x.layout is torch.jagged
    assert ragged == x.size(1) == (x * 2).shape[1] != nested(torch.jagged).size(1)
    assert x.offsets().tolist() == [0, 2, 6, 7] and x.lengths() is None
    assert x.values().shape == (7, 3) and len(x) == 3
    assert x.transpose(1, 2).shape == (3, 3, ragged)
    assert x.unsqueeze(1).shape == (3, 1, ragged, 3)
    assert x.reshape(3, -1, 3, 1).shape == (3, ragged, 3, 1)
    assert x.unflatten(-1, (3, 1)).flatten(2).shape == x.shape
    assert x[..., 0].shape == (3, ragged)
    assert repr(x).endswith("offsets=tensor([0, 2, 6, 7]), contiguous=True)")


REDUCTIONS = ("sum", "mean", "amax", "amin", "prod", "argmax", "logsumexp")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_jagged_reductions(name):
    x, dense = nested(torch.jagged), getattr(torch, name)
    function = getattr(torch.Tensor, name)
    torch.testing.assert_close(function(x, 1), torch.stack([dense(p, 0) for p in parts()]))
    same(function(x, 2), [dense(p, 1) for p in parts()])
    same(function(x, -1, keepdim=True), [dense(p, 1, keepdim=True) for p in parts()])
    with pytest.raises(RuntimeError, match="along the batch dimension but not the ragged"):
        function(x, 0)


def test_jagged_softmax_over_the_ragged_dimension():
    same(nested(torch.jagged).softmax(1), [p.softmax(0) for p in parts()])
    torch.testing.assert_close(nested(torch.jagged).sum((0, 1)), torch.cat(parts()).sum(0))
    torch.testing.assert_close(nested(torch.jagged).sum(), torch.cat(parts()).sum())


def test_jagged_maximum_with_its_place():
    found = nested(torch.jagged).max(1)
    torch.testing.assert_close(found.values, torch.stack([p.max(0).values for p in parts()]))
    inner = nested(torch.jagged).max(-1)
    same(inner.indices, [p.max(1).indices for p in parts()])


def test_jagged_with_dense():
    x = nested(torch.jagged)
    for dense in (torch.arange(3.0), torch.arange(3.0).view(1, 1, 3)):
        same(x + dense, [p + dense.view(3) for p in parts()])
    rows = torch.arange(9.0).view(3, 1, 3)
    same(x * rows, [p * r for p, r in zip(parts(), rows, strict=True)])
    same(rows - x, [r - p for p, r in zip(parts(), rows, strict=True)])
    w = torch.arange(6.0).view(3, 2)
    same(x @ w, [p @ w for p in parts()])
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function add"):
        x + nested(torch.jagged)
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function"):
        x * torch.ones(3, 3)


def test_jagged_with_gaps():
    values = torch.arange(12.0).view(6, 2)
    x = torch.nested.nested_tensor_from_jagged(
        values, torch.tensor([0, 3, 6]), torch.tensor([2, 1])
    )
    same(x, [values[:2], values[3:4]])
    assert not x.is_contiguous() and x.numel() == 6
    torch.testing.assert_close(x.sum(), values[:2].sum() + values[3].sum())
    same(x.contiguous(), [values[:2], values[3:4]])
    torch.testing.assert_close(x.mean(1), torch.stack([values[:2].mean(0), values[3]]))
    x[0].zero_()
    assert (values[:2] == 0).all()
    with pytest.raises(RuntimeError, match="At least one of offsets or lengths"):
        torch.nested.nested_tensor_from_jagged(values)


def test_jagged_from_dense():
    d = torch.arange(10).view(2, 5)
    found = torch.nested.narrow(
        d, 1, torch.tensor([0, 1]), torch.tensor([2, 3]), layout=torch.jagged
    )
    same(found, [d[0, :2], d[1, 1:4]])
    same(torch.nested.masked_select(d, d > 3), [d[0, 4:], d[1]])
    with pytest.raises(RuntimeError, match="must be integers"):
        torch.nested.narrow(d, 1, torch.tensor([0, 1]), torch.tensor([2, 3]))


def test_the_layouts_are_not_mixed():
    with pytest.raises(RuntimeError, match="strided and jagged"):
        nested(torch.strided) + nested(torch.jagged)
    with pytest.raises(RuntimeError, match="Converting between nested tensor layouts"):
        torch.nested.as_nested_tensor(nested(torch.jagged), layout=torch.strided)


def test_writes_of_nested_tensors_to_dense_ones_are_refused():
    x = nested(torch.strided)
    for dense in (torch.tensor(2.0), torch.ones(1), torch.ones(2, 2)[0]):
        for _ in range(3):  # the second call of a kind is printed
            with pytest.raises(RuntimeError, match="broadcast shape|Expected both|same dimension"):
                dense.mul_(x)
            with pytest.raises(RuntimeError, match="requires a NestedTensor"):
                dense.copy_(x)
            with pytest.raises(RuntimeError, match="requires a NestedTensor"):
                x.copy_(dense)


def test_dense_functions_refuse_nested_tensors():
    x = nested(torch.strided)
    for wrong in (
        x.numpy,
        x.tolist,
        lambda: torch.fft.fft(x),
        lambda: F.pad(x, (1, 1)),
        lambda: torch.stack([x]),
    ):
        with pytest.raises((NotImplementedError, RuntimeError)):
            wrong()
    assert not torch.ones(2).is_nested
    with pytest.raises(NotImplementedError, match="to_padded_tensor"):
        torch.ones(2, 2).to_padded_tensor(0.0)


def test_sizes_of_nested_and_dense_tensors_are_not_compared():
    dense, parts = torch.ones(2), torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert parts.is_same_size(parts)
    for a, b in ((dense, parts), (parts, dense)):
        for compare in (torch.is_same_size, torch.Tensor.is_same_size):
            with pytest.raises(RuntimeError, match="Expected both self and other to be nested"):
                compare(a, b)

"""Views share memory, keep PyTorch's strides, and writes through them are part of history."""

import gc
import weakref

import numpy as np
import pytest

import rushlight as torch


def grid(*shape):
    return torch.arange(float(np.prod(shape))).reshape(*shape)


VIEWS = {
    "view": (lambda x: x.view(12, 2), (2, 1)),
    "reshape": (lambda x: x.reshape(-1), (1,)),
    "transpose": (lambda x: x.transpose(0, 2), (1, 4, 12)),
    "permute": (lambda x: x.permute(1, 2, 0), (4, 1, 12)),
    "t": (lambda x: x[0].t(), (1, 4)),
    "mT": (lambda x: x.mT, (12, 1, 4)),
    "unsqueeze": (lambda x: x.unsqueeze(1), (12, 12, 4, 1)),
    "unsqueeze of a view": (lambda x: x.permute(2, 0, 1).unsqueeze(-1), (1, 12, 4, 1)),
    "squeeze": (lambda x: x[:, :1].squeeze(1), (12, 1)),
    "expand": (lambda x: x[:1].expand(5, 3, 4), (0, 4, 1)),
    "diagonal": (lambda x: x.diagonal(0, 1, 2), (12, 5)),
    "unfold": (lambda x: x.unfold(2, 2, 1), (12, 4, 1, 1)),
    "narrow": (lambda x: x.narrow(1, 1, 2), (12, 4, 1)),
    "select": (lambda x: x.select(1, 2), (12, 1)),
    "slices": (lambda x: x[:, ::2, 1:], (12, 8, 1)),
    "None": (lambda x: x[None, 0, :, None], (24, 4, 4, 1)),
    "as_strided": (lambda x: x.as_strided((3, 2), (2, 2)), (2, 2)),
    "split": (lambda x: x.split(2, 1)[1], (12, 4, 1)),
    "unbind": (lambda x: x.unbind(2)[0], (12, 4)),
    "movedim": (lambda x: x.movedim(0, -1), (4, 1, 12)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_strides_and_shared_memory(name):
    make, strides = VIEWS[name]
    x = grid(2, 3, 4).clone()
    v = make(x)
    assert v.stride() == strides
    assert np.shares_memory(v.numpy(), x.numpy())
    assert v._is_view() and v._base is x
    x.add_(100)
    assert float(v.min()) >= 100
    assert v._version == x._version == 1


def test_no_view_has_negative_strides():
    x = grid(2, 3)
    for y in (x.flip(0), x.fliplr(), x.rot90(), x.roll(-1, 0)):
        assert all(s >= 0 for s in y.stride())
        assert not np.shares_memory(y.numpy(), x.numpy())
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[::-1]


def test_reshape_copies_where_no_view_exists():
    x = grid(2, 3)
    with pytest.raises(RuntimeError, match=r"Use \.reshape"):
        x.t().view(-1)
    y = x.t().reshape(-1)
    assert y.tolist() == [0, 3, 1, 4, 2, 5] and not np.shares_memory(y.numpy(), x.numpy())


def test_write_through_a_view_is_history_of_the_base():
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 2
    row = y[0]
    row.mul_(5)
    assert type(y.grad_fn).__name__ == "CopySlices"
    (y * y).sum().backward()
    assert x.grad.tolist() == [[200.0] * 3, [8.0] * 3]


def test_write_to_a_base_is_history_of_its_views():
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 2
    row = y[0]
    y.mul_(5)
    row.sum().backward()
    assert x.grad.tolist() == [[10.0] * 3, [0.0] * 3]


def test_overwritten_value_is_refused():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    y[0] = 5
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_views_that_may_not_be_written():
    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        x[0].mul_(2)
    y = x * 1
    with pytest.raises(RuntimeError, match="returns multiple views"):
        y.unbind()[0].mul_(2)
    with torch.no_grad():
        v = y[0]
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        v.mul_(2)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.ones(1, 3).expand(2, 3).mul_(2)
    assert y.tolist() == [[1.0] * 3] * 2 and y._version == 0


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.copy_(2),
        lambda x: x.copy_(torch.tensor(2.0)),
        lambda x: x.fill_(torch.tensor(2.0)),
        lambda x: x.add_(2),
    ],
)
def test_expanded_memory_is_not_written_to(write):
    x = torch.zeros(3, 1)
    with pytest.raises(RuntimeError, match="single memory location"):
        write(x.expand(3, 4))
    assert not x.any()
    x.expand(3, 4).fill_(2)  # which PyTorch lets through
    assert x.eq(2).all()
    write(x.expand(3, 1))
    with pytest.raises(OverflowError):
        x.copy_(1 << 70)


def test_write_through_a_view_leaves_no_cycle():
    gc.collect()
    gc.disable()
    try:
        x = torch.ones(3, 4, requires_grad=True)
        y = x * 1
        y[0] = 2
        y[1].mul_(3)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_in_place_views_change_the_tensor_itself():
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 2
    assert y.t_() is y and y.shape == (3, 2)
    assert y.unsqueeze_(0).squeeze_().shape == (3, 2)
    (y * grid(3, 2)).sum().backward()
    assert x.grad.tolist() == (2 * grid(3, 2).t()).tolist()


def test_view_of_a_former_shape_is_refused_when_stale():
    y = torch.ones(2, 3, requires_grad=True) * 2
    v = y[0]
    y.t_()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="in-place view operation"):
        v.sum()


def test_gradient_of_overlapping_memory():
    x = torch.arange(4.0).requires_grad_()
    x.as_strided((3, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1, 2, 2, 1]
    x.grad = None
    x.unfold(0, 3, 1).sum().backward()
    assert x.grad.tolist() == [1, 2, 2, 1]


def test_other_dtype_on_the_same_memory():
    x = torch.ones(2)
    assert x.view(torch.int32).tolist() == [1065353216] * 2
    assert x.view(torch.uint8).shape == (8,)
    assert grid(4).to(torch.float32).view(torch.complex64).tolist() == [1j, 2 + 3j]
    with pytest.raises(RuntimeError, match="divisible"):
        torch.ones(3).view(torch.float64)


def test_parts_of_complex_numbers_are_views():
    z = torch.tensor([1 + 2j, 3 - 4j])
    z.imag.mul_(2)
    z.real[0] = 7
    assert z.tolist() == [7 + 4j, 3 - 8j]
    pairs = torch.view_as_real(z)
    pairs[1, 0] = 5
    assert torch.view_as_complex(pairs).tolist() == z.tolist() == [7 + 4j, 5 - 8j]


def test_second_derivatives_through_views():
    x = torch.arange(6.0, dtype=torch.float64).requires_grad_()
    y = x.view(2, 3).t()[1:].reshape(-1) ** 3
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert h.tolist() == [0, 6, 12, 0, 24, 30]


def test_views_of_inference_tensors_are_inference_tensors():
    with torch.inference_mode():
        x = torch.ones(2, 3)
    for view in (x.view(6), x[0], x.t(), x.unbind()[0], x.split(1)[1], x.expand(4, 2, 3)):
        assert view.is_inference() and not view._is_view()
    assert not (x.view(6) + 1).is_inference()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_views_made_under_no_grad_require_grad_as_their_base(mode):
    leaf = torch.ones(2, 3, requires_grad=True)
    for base in (leaf, leaf * 1):
        with mode():
            view = base.view(-1)
            again = view[1:]
        assert view.requires_grad and again.requires_grad and view.is_leaf and view.grad_fn is None
        out = view * 2
        assert out.requires_grad and out.grad_fn is not None
        out.sum().backward()  # nobody gets that gradient
        assert view.grad is None and leaf.grad is None
        with mode():
            view.unsqueeze_(0)
        assert view.is_leaf
        with pytest.raises(RuntimeError, match="A view was created in"):
            view.add_(1)
    assert not leaf.detach()[0].requires_grad


def test_views_of_what_became_a_leaf_require_grad():
    base = torch.ones(3)
    view, bits = base[:2], base.view(torch.int32)
    base.requires_grad_()
    assert view.requires_grad and view.is_leaf and not bits.requires_grad and not bits._is_view()
    view.requires_grad_()
    (view * 3).sum().backward()
    assert view.grad.tolist() == [3, 3] and base.grad is None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_writes_through_views_of_a_leaf_that_is_a_view_are_refused(mode):
    x = torch.zeros(2)
    with mode():
        leaf = x.view(2)
    leaf.requires_grad_()
    for t in (leaf, leaf.view(2)):
        for write in (lambda t: t.div_(2), lambda t: t.add_(x.clone()), lambda t: t.lerp_(x, 0.5)):
            for _ in range(3):
                with pytest.raises(RuntimeError, match="was created in"):
                    write(t)
    own = torch.zeros(2)[:].requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        own.mul_(2)


def test_unsafe_parts_are_on_the_same_memory_and_no_views():
    for name, how in (("chunk", 2), ("split", 3), ("split_with_sizes", [3, 3])):
        x = torch.ones(6)
        parts = getattr(x, f"unsafe_{name}")(how)
        parts[1].zero_()
        assert x.tolist() == [1, 1, 1, 0, 0, 0] and x._version == 0 and not parts[0]._is_view()
    base = torch.ones(4, requires_grad=True)
    first, second = (base * 2).unsafe_chunk(2)
    first.mul_(3)
    (first.sum() + second.sum()).backward()
    assert base.grad.tolist() == [6, 6, 2, 2]


def test_as_strided_of_a_view_begins_in_its_memory():
    x = torch.arange(10.0)[2:]
    assert x.as_strided((2,), (3,)).tolist() == [2, 5]
    assert x.as_strided((2,), (3,), 0).tolist() == [0, 3]
    assert x.as_strided((2,), (3,), 6).tolist() == [6, 9] and x.storage_offset() == 2
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.as_strided((2,), (3,), 7)
    leaf = torch.ones(5, requires_grad=True)
    leaf[1:].as_strided((2,), (2,), 0).sum().backward()
    assert leaf.grad.tolist() == [0, 0, 1, 0, 0]  # the place 0 is no element of the view


def test_gradients_of_as_strided_without_and_with_repeated_places():
    x = torch.arange(6.0).reshape(2, 3).t().contiguous().t().requires_grad_()  # of strides (1, 2)
    apart = x.as_strided((3,), (2,))
    (apart * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [[1, 2, 3], [0, 0, 0]]
    x.grad = None
    x.as_strided((2, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [[1, 1, 0], [2, 0, 0]]


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("other", [2.0, torch.tensor([1.0, 2.0, 3.0])])
def test_a_comparison_in_place_ends_the_history_of_what_it_overwrites(name, other):
    leaf = torch.arange(6.0).reshape(2, 3).clone().requires_grad_()
    base = leaf * 2
    getattr(base[1], name + "_")(other)
    base.sum().backward()
    assert leaf.grad.tolist() == [[2, 2, 2], [0, 0, 0]]
    whole = leaf * 2
    getattr(whole, name + "_")(other)
    number = "01"[isinstance(other, torch.Tensor)]
    assert whole.grad_fn.name() == f"{name.capitalize()}Backward{number}"
    assert torch.autograd.grad(whole.sum(), leaf)[0].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_logic_in_place_is_not_recorded_as_in_pytorch():
    leaf = torch.ones(2, requires_grad=True)
    x = leaf * 2
    assert x.logical_not_().grad_fn.name() == "MulBackward0"
    x.sum().backward()
    assert leaf.grad.tolist() == [2, 2]


WRITES = {
    "add a number": ("add", (0.5,), {}),
    "add a tensor": ("add", (torch.tensor([0.5, 1.0, -2.0]),), {}),
    "add alpha": ("add", (torch.tensor([0.5, 1.0, -2.0]),), {"alpha": 3}),
    "sub": ("sub", (2,), {}),
    "mul a number": ("mul", (3,), {}),
    "mul a tensor": ("mul", (torch.tensor([0.5, 1.0, -2.0]),), {}),
    "div": ("div", (torch.tensor([0.5, 1.0, -2.0]),), {}),
    "div floor": ("div", (2,), {"rounding_mode": "floor"}),
    "pow": ("pow", (2,), {}),
    "remainder": ("remainder", (2,), {}),
    "fmod": ("fmod", (2,), {}),
    "hypot": ("hypot", (torch.tensor([0.5, 1.0, -2.0]),), {}),
}


@pytest.mark.parametrize("recorded", [False, True], ids=["constant", "recorded"])
@pytest.mark.parametrize("name", WRITES)
def test_a_recorded_write_has_the_gradients_of_the_operator_out_of_place(name, recorded):
    name, args, options = WRITES[name]
    other = args[0]
    if recorded and isinstance(other, torch.Tensor):
        other = other.clone().requires_grad_()

    def gradients(write):
        leaf = (torch.arange(6.0).reshape(2, 3) + 0.25).requires_grad_()
        result = write(leaf * 1.5)
        wanted = [t for t in (leaf, other) if isinstance(t, torch.Tensor) and t.requires_grad]
        grads = torch.autograd.grad((result * result).sum(), wanted)
        return result.grad_fn.name(), result.tolist(), [g.tolist() for g in grads]

    def whole(x):
        assert getattr(x, name + "_")(other, **options) is x and x._version == 1
        return x

    def one_row(x):
        getattr(x[1], name + "_")(other, **options)
        return x

    apart = lambda x: getattr(x, name)(other, **options)
    assert gradients(whole) == gradients(apart)
    rows = gradients(one_row)
    assert rows[0] == "torch::autograd::CopySlices"
    assert rows[1:] == gradients(lambda x: torch.stack([x[0], apart(x[1])]))[1:]


def test_a_recorded_write_ends_what_was_saved_before():
    leaf, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    x = leaf * 1
    product = x * other
    x.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.add_(1.0)
    filled = torch.zeros(3)
    filled.add_(leaf, alpha=2)
    filled.sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("write", [lambda leaf, row: leaf.mul_(2), lambda leaf, row: row.mul_(2)])
def test_views_of_a_leaf_that_is_a_view_keep_their_history_at_a_write(write):
    leaf = torch.arange(6.0).view(2, 3).requires_grad_()  # a view of a tensor without history
    row = leaf[0]
    part = row[1:]
    with torch.no_grad():
        write(leaf, row)
    assert row.requires_grad and part.requires_grad
    ((row * row).sum() + part.sum()).backward()
    assert leaf.grad.tolist() == [[0, 5, 9], [0, 0, 0]]


def test_views_as_larger_elements_check_the_offset_before_strides_and_keep_strides_of_nothing():
    view = torch.zeros(0, 5, 64, dtype=torch.int32).view(torch.int64)
    assert view.shape == (0, 5, 32) and view.stride() == (160, 32, 1)
    assert torch.zeros(0, 5, 64, dtype=torch.int32).view(torch.int8).stride() == (1280, 256, 1)
    with pytest.raises(RuntimeError, match=r"self.storage_offset\(\) must be divisible by 2"):
        torch.zeros(4, 4, 3)[:, :, 1:].view(torch.float64)


def test_a_saved_tensor_that_is_put_on_other_memory_is_refused_in_backward():
    weight, x = torch.ones(3, requires_grad=True), torch.tensor([1.0, 2.0, 3.0])
    y = weight * x
    x.set_(torch.zeros(3))
    assert x._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    view = (weight * 2)[:2]
    with torch.no_grad():
        view.set_(
            torch.ones(2)
        ).abs_()  # it counted its writes no more, and asked a view for its node
    assert view._version == 2


MASK = torch.tensor([[True, False, True], [False, False, True]])
RECORDED = {  # each a write to y (2 x 3), which may read z (3)
    "a row by a number": lambda y, z: y.__setitem__(0, 2.0),
    "a row by a tensor": lambda y, z: y.__setitem__(0, z),
    "all by a 0-d tensor": lambda y, z: y.__setitem__(..., z[0]),
    "an element": lambda y, z: y.__setitem__((1, 2), z[1] * 2),
    "a column added to": lambda y, z: y.__setitem__((slice(None), 1), y[:, 1] + z[0]),
    "a row multiplied": lambda y, z: y[0].mul_(z),
    "a row from another": lambda y, z: y[0].copy_(y[1] + z),
    "a copy of a row": lambda y, z: y[:1].copy_(y[1:]),
    "a fill": lambda y, z: y[1:].fill_(z[2]),
    "zeros": lambda y, z: y[:, :2].zero_(),
    "relu_": lambda y, z: y[:, 1:].relu_(),
    "exp_": lambda y, z: y[0].exp_(),
    "sigmoid_": lambda y, z: y.t()[1:].sigmoid_(),
    "tanh_": lambda y, z: y[1][1:].tanh_(),
    "clamp_": lambda y, z: y[0].clamp_(-0.5, 0.5),
    "clamp_ by a tensor": lambda y, z: y.clamp_(max=z),
    "pow_": lambda y, z: y[0].pow_(3),
    "masked_fill_": lambda y, z: y.masked_fill_(MASK, 2.0),
    "masked_fill_ of a view": lambda y, z: y[0].masked_fill_(MASK[1], 2.0),
    "a mask": lambda y, z: y.__setitem__(MASK, z[0]),
    "rows by a mask": lambda y, z: y.__setitem__(MASK[:, 0], z),
    "indices": lambda y, z: y.__setitem__((slice(None), torch.tensor([0, 2])), z[1:]),
    "a row at indices": lambda y, z: y.__setitem__((0, torch.tensor([0, 2])), z[1:]),
    "addcmul_": lambda y, z: y[0].addcmul_(z, z),
    "lerp_": lambda y, z: y[1].lerp_(z, 0.25),
}


@pytest.mark.parametrize("name", RECORDED)
def test_gradients_of_recorded_writes(name):
    def program(x, z):
        y = x * 1
        RECORDED[name](y, z)
        return y * y

    torch.manual_seed(0)
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    z = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(program, (x, z))
    assert torch.autograd.gradgradcheck(program, (x, z))
    y, plain = x * 1, x.detach() * 1
    RECORDED[name](y, z)
    RECORDED[name](plain, z.detach())
    assert y.equal(plain) and y._version == plain._version


@pytest.mark.parametrize("name", ["exp_", "sigmoid_", "tanh_"])
def test_a_result_written_through_a_view_may_not_be_written_to_again(name):
    x = torch.randn(2, 3, requires_grad=True)
    y = x * 1
    getattr(y[0], name)()
    y[1] = 0.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("index", "value", "node"),
    [
        ((), 2.0, "FillBackward3"),
        (..., torch.tensor(2.0), "FillBackward3"),
        (slice(None), torch.ones(3), "CopyBackwards"),
        (0, 2.0, "torch::autograd::CopySlices"),
        (MASK, 2.0, "IndexPutBackward0"),
    ],
)
def test_the_node_of_an_assignment(index, value, node):
    y = torch.zeros(2, 3, requires_grad=True) * 1
    y[index] = value
    assert y.grad_fn.name() == node


def test_a_view_that_is_asked_for_its_history_in_inference_mode_keeps_it():
    big = torch.zeros(6).view(2, 3)
    big[0].add_(torch.ones(3, requires_grad=True))
    with torch.inference_mode():
        big[0].add_(1)
        assert big.requires_grad and big.grad_fn is not None
    assert big.requires_grad and not big.is_leaf


def test_a_gradient_with_a_history_is_added_to_in_place():
    w = torch.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    g = w.grad
    g.add_(w.sum())
    (w * 2).sum().backward()
    assert w.grad is g and g.requires_grad and g.tolist() == [7.0] * 3

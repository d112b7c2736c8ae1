"""`out=`: which operators convert into it, which refuse another dtype, and what may share memory with it."""

from __future__ import annotations

import warnings

import pytest

import rushlight as torch

double = torch.float64


@pytest.mark.parametrize(
    ("call", "dtype", "said"),
    [
        (lambda out: torch.nonzero(torch.ones(2), out=out), torch.float32, "scalar type Long"),
        (lambda out: torch.floor(torch.ones(2, dtype=double), out=out), torch.float32, "Found dtype Float but"),
        (lambda out: torch.neg(torch.ones(2, dtype=torch.int64), out=out), torch.float32, "Found dtype Float but"),
        (lambda out: torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=out), double, "have dtype float, but got double"),
        (lambda out: torch.any(torch.ones(2), 0, out=out), torch.float32, "any only supports bool tensor"),
        (lambda out: torch.amin(torch.ones(2), 0, out=out), double, "dtype for input and out to match"),
        (lambda out: torch.index_select(torch.ones(2), 0, torch.tensor([1]), out=out), double, "same scalar type"),
        (lambda out: torch.argmax(torch.ones(2), 0, out=out), torch.float32, "have dtype long int"),
        (lambda out: torch.cummax(torch.ones(2), 0, out=(out, torch.empty(0, dtype=torch.int64))), double,
         "expected scalar_type Float but found Double"),
        (lambda out: torch.complex(torch.ones(2), torch.ones(2), out=out), torch.float32, "scalar type ComplexFloat"),
        (lambda out: torch.linalg.norm(torch.ones(2), out=out), double, "linalg.norm expected out tensor dtype Float"),
    ],
)  # fmt: skip
def test_another_dtype_is_refused(call, dtype, said):
    out = torch.zeros(0, dtype=dtype)
    with pytest.raises(RuntimeError, match=said):
        call(out)
    assert out.shape == (0,)


@pytest.mark.parametrize(
    "call",
    [
        lambda out: torch.exp(torch.zeros(2), out=out),
        lambda out: torch.add(torch.zeros(2), 1, out=out),
        lambda out: torch.cat((torch.zeros(1), torch.ones(1)), out=out),
        lambda out: torch.mean(torch.ones(2, 2), 0, out=out),
        lambda out: torch.cumsum(torch.ones(2), 0, out=out),
        lambda out: torch.fft.fft(torch.ones(2), out=out),
        lambda out: torch.max(torch.ones(2), out=out),
    ],
)
def test_these_convert(call):
    out = torch.empty(0, dtype=torch.complex128)
    assert call(out) is out
    assert out.dtype is torch.complex128
    assert out.numel()


def test_what_cannot_be_converted():
    with pytest.raises(TypeError, match=r"torch.cat\(\): input types can't be cast"):
        torch.cat((torch.ones(1),), out=torch.empty(0, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        torch.exp(torch.ones(1), out=torch.empty(0, dtype=torch.int64))
    assert (
        torch.abs(torch.ones(2, dtype=torch.complex64), out=torch.empty(0)).dtype is torch.float32
    )


def test_a_tuple_of_indices_has_no_out():
    with pytest.raises(RuntimeError, match="does not support the out kwarg"):
        torch.nonzero(torch.ones(2), as_tuple=True, out=torch.empty(0, dtype=torch.int64))


@pytest.mark.parametrize(
    "write",
    [
        lambda t, i: t.index_add_(0, i, i),
        lambda t, i: t.index_copy_(0, i, i),
        lambda t, i: t.put_(i, i.clone()),
        lambda t, i: t.scatter_(0, i, i.clone()),
        lambda t, i: t.index_put_((i,), i),
        lambda t, i: t.index_put_((i,), i.clone()),
    ],
)
def test_writes_at_indices_refuse_their_own_memory(write):
    i = torch.tensor([2, 1, 0])
    with pytest.raises(RuntimeError, match="unsupported operation"):
        write(i, i)
    assert i.tolist() == [2, 1, 0]


def test_expanded_tensors_as_targets():
    def expanded():
        return torch.zeros(1).expand(4)

    i = torch.tensor([0, 1])
    mask = torch.tensor([True, False, False, True])
    for write in (
        lambda t: t.index_fill_(0, i, 1.0),
        lambda t: t.masked_fill_(mask, 1.0),
        lambda t: t.masked_fill_(mask, torch.tensor(1.0)),
        lambda t: t.index_put_((i,), torch.ones(2)),
    ):
        t = expanded()
        with pytest.warns(UserWarning, match="on expanded tensors is deprecated"):
            write(t)
        assert t.tolist() == [1.0] * 4
    for write in (
        lambda t: t.index_add_(0, i, torch.ones(2)),
        lambda t: t.masked_scatter_(mask, torch.ones(2)),
        lambda t: t.put_(i, torch.ones(2)),
    ):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            write(expanded())


def test_former_argument_orders_of_addcmul():
    x = torch.arange(3.0)
    torch.set_warn_always(True)
    try:
        for name, expected in (("addcmul", x + 2 * x * (x + 1)), ("addcdiv", x + 2 * x / (x + 1))):
            with pytest.warns(UserWarning, match=f"This overload of {name} is deprecated"):
                assert torch.equal(getattr(torch, name)(x, 2, x, x + 1), expected)
    finally:
        torch.set_warn_always(False)


def test_former_argument_orders_of_addmm_and_its_kin():
    x, a, b = torch.ones(2, 2), torch.arange(4.0).view(2, 2), torch.ones(2, 2)
    stacks = (a.expand(3, 2, 2), b.expand(3, 2, 2))
    torch.set_warn_always(True)
    try:
        for name, base, pair in (
            ("addmm", x, (a, b)),
            ("addmv", x[0], (a, b[0])),
            ("addr", x, (a[0], b[0])),
            ("addbmm", x, stacks),
            ("baddbmm", x.expand(3, 2, 2), stacks),
        ):
            function, expected = getattr(torch, name), {}
            for n in (1, 3):
                expected[n] = function(base, *pair, beta=2, alpha=n)
            calls = {
                1: lambda: (function(2, base, *pair), getattr(base, name)(2, *pair)),
                3: lambda: (function(2, base, 3, *pair), getattr(base, name)(2, 3, *pair)),
            }
            for n, call in calls.items():
                with pytest.warns(UserWarning, match=f"This overload of {name} is deprecated"):
                    results = call()
                assert all(torch.equal(r, expected[n]) for r in results)
            written = base.clone()
            with pytest.warns(UserWarning, match=f"This overload of {name}_? is deprecated"):
                getattr(written, name + "_")(2, 3, *pair)
            assert torch.equal(written, expected[3])
            with pytest.raises(TypeError, match="invalid combination of arguments"):
                function(base, *pair, 2)
    finally:
        torch.set_warn_always(False)


def test_what_pytorch_does_not_compute_deterministically():
    pool = torch.nn.MaxUnpool1d(2)
    values, places = torch.ones(1, 1, 2), torch.tensor([[[0, 2]]])
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(
            RuntimeError, match="max_unpooling2d_forward_out does not have a deterministic"
        ):
            pool(values, places)
        with pytest.raises(RuntimeError, match="put_ does not have a deterministic"):
            torch.zeros(2).put_(torch.tensor([0]), torch.ones(1))
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="deterministic"):
            pool(values, places)
    finally:
        torch.use_deterministic_algorithms(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pool(values, places)
    with pytest.raises(TypeError, match="must be bool, not int"):
        torch.use_deterministic_algorithms(1)


@pytest.mark.filterwarnings("ignore:This overload of:UserWarning")
def test_a_key_that_is_seen_before_leaves_the_former_order_alone():
    x = torch.arange(3.0)
    for _ in range(4):
        torch.add(x, 2)
        x.clone().add_(2)
        assert (
            torch.add(x, 2, x + 1).tolist() == x.clone().add_(2, x + 1).tolist() == [2.0, 5.0, 8.0]
        )


def test_outputs_that_are_resized():
    for call in (
        lambda out: torch.add(torch.ones(3), 1, out=out),
        lambda out: torch.normal(torch.zeros(3), torch.ones(3), out=out),
    ):
        out = torch.empty(2)
        with pytest.warns(UserWarning, match="outputs will not be resized unless they have zero"):
            call(out)
        assert out.shape == (3,)
        call(torch.empty(0))


@pytest.mark.parametrize(
    ("call", "out", "text"),
    [
        (lambda out: torch.linalg.pinv(torch.eye(2), out=out), torch.int32, "linalg.pinv: Expected result"),
        (lambda out: torch.cholesky_inverse(torch.eye(2), out=out), torch.int32, "cholesky_inverse: Expected"),
        (lambda out: torch.linalg.eigvals(torch.eye(2), out=out), torch.float64, "Expected eigenvalues to be"),
        (lambda out: torch.linalg.multi_dot([torch.eye(2)] * 2, out=out), torch.float64, "float but got double"),
    ],
)  # fmt: skip
def test_matrix_functions_name_the_dtypes_of_out(call, out, text):
    with pytest.raises(RuntimeError, match=text):
        call(torch.empty(2, 2, dtype=out))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: torch.mm(x, x, out=out),
        lambda x, out: torch.cumsum(x, 0, out=out),
        lambda x, out: torch.softmax(x, 0, out=out),
        lambda x, out: torch.tril(x, out=out),
        lambda x, out: torch.linalg.inv(x, out=out),
        lambda x, out: torch.sort(x, out=(out, torch.empty(0, dtype=torch.int64))),
        lambda x, out: torch.sum(x, 0, keepdim=True, out=out),
    ],
)
def test_an_expanded_out_is_refused_by_all(call):
    memory = torch.zeros(1, 2)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        call(torch.eye(2), memory.expand(2, 2))
    assert memory.tolist() == [[0, 0]]


def test_an_input_as_out_gets_no_other_shape():
    for call in (
        lambda x, y: torch.add(x, y, out=x),
        lambda x, y: torch.mul(y, x, out=x),
        lambda x, y: torch.where(y > 0, x, y, out=x),
    ):
        x = torch.ones(3)
        with pytest.raises(
            RuntimeError, match=r"output with shape \[3\] doesn't match .* \[2, 3\]"
        ):
            call(x, torch.ones(2, 3))
        assert x.shape == (3,)
    x = torch.ones(3)
    assert torch.add(x, 1, out=x) is x and x.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.linalg.cross(x, torch.ones(3), out=x)


def test_absolute_values_convert_for_complex_numbers_alone():
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        torch.abs(torch.ones(2), out=torch.empty(0, dtype=double))
    assert torch.abs(torch.ones(2) + 0j, out=torch.empty(0, dtype=double)).tolist() == [1, 1]

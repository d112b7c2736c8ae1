"""Names of the top namespace that are plain Python here: symbolic sizes, control flow, versions, what is not exported."""

from __future__ import annotations

import sys

import pytest

import rushlight as torch
from rushlight.torch_version import TorchVersion


def test_symbolic_numbers_are_numbers():
    assert (torch.sym_int(2.7), torch.sym_float(2), torch.sym_not(0)) == (2, 2.0, True)
    assert type(torch.sym_max(3, 2.0)) is float
    assert type(torch.sym_min(3, 2)) is int
    assert torch.sym_sum([1, 2, 3]) == 6
    assert torch.sym_sqrt(4) == 2
    assert torch.sym_ite(True, 1, 2) == 1
    with pytest.raises(AssertionError):
        torch.sym_ite(True, 1, 2.0)
    assert not isinstance(3, (torch.SymInt, torch.SymFloat, torch.SymBool))
    with pytest.raises(TypeError, match="plain numbers"):
        torch.SymInt(3)


def test_cond():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.cond(x.sum() > 2, lambda x: x * 2, lambda x: x * 3, (x,))
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert torch.cond(False, lambda: 1, lambda: 2) == 2
    for wrong in ((3, abs, abs, (1,)), (True, 3, abs, (1,)), (True, abs, abs, 1)):
        with pytest.raises(RuntimeError):
            torch.cond(*wrong)


def test_map_and_scan():
    from rushlight._higher_order_ops import map, scan

    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    doubled = map(lambda row, by: {"y": row * by}, x, 2)["y"]
    assert torch.equal(doubled, x * 2)
    assert torch.autograd.grad(doubled.sum(), x)[0].eq(2).all()
    for wrong in (torch.ones(0, 2), 3, (torch.ones(2), torch.ones(3))):
        with pytest.raises(RuntimeError, match="apped xs"):
            map(lambda x: x, wrong)
    last, sums = scan(lambda s, row: (s + row, s + row), torch.zeros(2), x, dim=1)
    assert torch.equal(sums, x.cumsum(1)) and torch.equal(last, x.sum(1))
    _, back = scan(lambda s, row: (s + row, s + row), torch.zeros(3), x, reverse=True)
    assert torch.equal(back, x.flip(0).cumsum(0).flip(0))
    with pytest.raises(RuntimeError, match="scan dimension"):
        scan(lambda s, row: (s, row), torch.zeros(2), torch.ones(0, 2))


def test_while_loop():
    n, x = torch.while_loop(
        lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (torch.tensor(0), torch.ones(2))
    )
    assert (int(n), x.tolist()) == (3, [8.0, 8.0])
    with pytest.raises(RuntimeError, match="boolean"):
        torch.while_loop(lambda n: n, lambda n: (n,), (torch.tensor(0),))
    with pytest.raises(RuntimeError, match="tuple of 1"):
        torch.while_loop(lambda n: n < 3, lambda n: n + 1, (torch.tensor(0),))


def test_versions():
    v = TorchVersion("2.13.0+rushlight.1.0.0rc1")
    assert v >= (2, 0)
    assert v > "1.13.1"
    assert v > "2.9"
    assert not v < "2.13"
    assert v != "2.13.0"
    assert v.split(".")[0] == "2"
    ordered = "1.9.1 1.10 2.0.dev5 2.0a0 2.0b2 2.0rc1 2.0 2.0+cpu 2.0.post1 2.1.0a0+git1".split()
    for i, a in enumerate(ordered):
        for k, b in enumerate(ordered):
            assert (TorchVersion(a) < b) is (i < k), (a, b)
            assert (TorchVersion(a) >= b) is (i >= k), (a, b)
    assert TorchVersion("1.0") == "1.0.0"
    assert {TorchVersion("1.0"): 1}["1.0"] == 1
    with pytest.raises(TypeError):
        TorchVersion("1.0") < 5  # noqa: B015


def test_switches():
    assert not torch.is_anomaly_enabled()
    torch.set_anomaly_enabled(True, check_nan=False)
    try:
        assert torch.is_anomaly_enabled()
        assert not torch.is_anomaly_check_nan_enabled()
    finally:
        torch.set_anomaly_enabled(False)
    assert torch.has_lapack
    assert not torch.has_mkl
    assert torch.compiled_with_cxx11_abi()


def test_modules():
    assert torch.functional.einsum is torch.einsum
    assert all(hasattr(torch.functional, name) for name in torch.functional.__all__)
    assert not hasattr(torch.functional, "relu")
    assert not torch.onnx.is_in_onnx_export()
    torch.onnx.register_custom_op_symbolic("a::b", None, 9)
    assert torch.masked._ops.sum is torch.masked.sum
    error = torch._dynamo.exc.UserError(torch._dynamo.exc.UserErrorType.INVALID_INPUT, "no")
    assert (error.msg, error.error_type.name) == ("no", "INVALID_INPUT")


def test_probes_of_devices():
    backends = torch.backends
    assert backends.mha.get_fastpath_enabled()
    assert backends.quantized.engine in backends.quantized.supported_engines
    assert not backends.xnnpack.enabled
    assert not backends.nnpack.is_available()
    with backends.nnpack.flags(enabled=True):
        assert backends.nnpack.set_flags(True) == (False,)
    q = torch.ones(1, 1, 2, 2)
    assert not backends.cuda.can_use_flash_attention(backends.cuda.SDPAParams(q, q, q))
    assert str(backends.cuda.SDPBackend.MATH) == "SDPBackend.MATH"
    backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    assert backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)
    assert not torch.cuda.nccl.is_available()
    with pytest.raises(RuntimeError, match="NCCL"):
        torch.cuda.nccl.version()
    with pytest.raises(RuntimeError, match="NVTX"):
        torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start)
    assert torch.cuda.memory.mem_get_info is torch.cuda.mem_get_info
    assert torch.cuda.amp.amp_definitely_not_available()


def test_calls_below_autograd():
    from rushlight.utils import _python_dispatch as dispatch

    assert not dispatch.is_traceable_wrapper_subclass(torch.ones(1))
    assert not dispatch.is_in_torch_dispatch_mode()
    with dispatch.TorchDispatchMode() as mode:
        assert dispatch.is_in_torch_dispatch_mode()
        with dispatch._disable_current_modes() as modes:
            assert modes == [mode] and dispatch._get_current_dispatch_mode() is None
        assert dispatch._get_current_dispatch_mode_stack() == [mode]


def test_forks():
    assert torch.wait(torch.fork(lambda x: x + 1, torch.ones(1))).tolist() == [2.0]
    assert issubclass(torch.ScriptModule, torch.nn.Module)
    assert torch.types.Size is torch.Size
    assert issubclass(torch.jit.TracerWarning, Warning)


def test_marks_for_other_profilers():
    from rushlight.autograd import profiler

    for block in (profiler.emit_nvtx, profiler.emit_itt):
        with block(enabled=False):
            pass
        with pytest.raises(RuntimeError, match=block.__name__), block():
            pass
    assert not profiler.kineto_available()
    assert torch.profiler.kineto_available is profiler.kineto_available


def test_arguments_that_cannot_be_honoured_are_refused():
    for make in (
        torch.hann_window,
        torch.kaiser_window,
        lambda n, **o: torch.tril_indices(n, n, **o),
    ):
        with pytest.raises(RuntimeError, match="pin_memory=True requires"):
            make(3, pin_memory=True)
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        torch.utils.checkpoint.checkpoint(
            torch.exp, x, use_reentrant=False, determinism_check="never"
        )
    with pytest.raises(RuntimeError, match="strict=True.*independent of the inputs"):
        torch.func.jvp(lambda x: torch.ones(2), (x,), (x,), strict=True)


def test_order_of_dimensions_that_is_ambiguous():
    assert torch.ones(2, 3, 2, 2).dim_order(ambiguity_check=True) == (0, 1, 2, 3)
    x = torch.ones(2, 3, 1, 4)
    assert x.dim_order() == (0, 1, 2, 3)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        x.dim_order(ambiguity_check=True)
    assert x.dim_order(ambiguity_check=[torch.contiguous_format]) == (0, 1, 2, 3)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        torch.ones(2, 1, 2, 2).dim_order(ambiguity_check=[torch.contiguous_format])
    with pytest.raises(TypeError, match="a bool or a list of memory formats"):
        x.dim_order(ambiguity_check="yes")


def test_bytes_of_a_buffer_in_another_order():
    data = bytes([0, 1, 0, 2])
    other = "big" if sys.byteorder == "little" else "little"
    made = torch.UntypedStorage.from_buffer(data, byte_order=other, dtype=torch.int16)
    assert made.tolist() == [1, 0, 2, 0]
    assert torch.UntypedStorage.from_buffer(data).tolist() == [0, 1, 0, 2]


def test_formulas_for_operators_of_aten():
    from rushlight.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula

    try:
        register_flop_formula(torch.ops.aten.sin, get_raw=True)(lambda x, out_val: x.numel())
        with FlopCounterMode(display=False) as counter:
            torch.sin(torch.ones(5))
        assert counter.get_total_flops() == 5
    finally:
        flop_registry.pop(torch.ops.aten.sin, None)


X = torch.arange(6.0).reshape(2, 3)
PLACES = torch.tensor([[0, 1, 0]])


@pytest.mark.parametrize(
    "name, args",
    [
        ("sum", {}), ("amax", {}), ("cumsum", {}), ("cumprod", {}), ("cummax", {}), ("logsumexp", {}), ("softmax", {}),
        ("log_softmax", {}), ("unbind", {}), ("unsqueeze", {}), ("select", {"index": 1}), ("narrow", {"start": 0, "length": 1}),
        ("index_select", {"index": torch.tensor([1])}), ("gather", {"index": PLACES}), ("chunk", {"chunks": 2}),
        ("tensor_split", {"indices": [1]}), ("tensor_split", {"sections": 2}), ("renorm", {"p": 2, "maxnorm": 1}),
        ("repeat_interleave", {"repeats": 2}), ("scatter", {"index": PLACES, "value": 1.0}),
        ("scatter_add", {"index": PLACES, "src": X}), ("index_fill", {"index": torch.tensor([1]), "value": 2}),
        ("unsafe_split", {"split_size": 1}), ("unsafe_chunk", {"chunks": 2}),
    ],
)  # fmt: skip
def test_axis_is_dim(name, args):
    """NumPy's name is taken by functions and methods, also where a dimension must be given."""
    want = getattr(torch, name)(X, dim=0, **args)
    for got in (getattr(torch, name)(X, axis=0, **args), getattr(X, name)(axis=0, **args)):
        for a, b in zip(got, want, strict=True):
            assert torch.equal(a, b)
    if name in ("scatter", "scatter_add", "index_fill", "cumsum", "unsqueeze"):
        assert torch.equal(getattr(X.clone(), name + "_")(axis=0, **args), want)


def test_numpys_names_of_other_parameters():
    """Of functions that have no printed form, and of those that are asked about as a whole."""
    assert torch.equal(torch.tensor_split(x=X, sections=2)[0], X[:1])
    assert torch.equal(torch.sum(X, dim=0, keepdims=True), X.sum(0, keepdim=True))
    spread, _ = torch.std_mean(a=X, axis=0, keepdims=True)
    assert spread.shape == (1, 3)


@pytest.mark.parametrize(
    "call, lacking",
    [
        (lambda: torch.cumsum(X), "dim"), (lambda: torch.gather(X, 0), "index"), (lambda: X.gather(index=PLACES), "dim"),
        (lambda: X.select(0), "index"), (lambda: X.narrow(0), "start"), (lambda: X.scatter(0), "index"),
        (lambda: torch.softmax(X), "dim"), (lambda: X.clone().index_fill_(0), "index"), (lambda: X.tensor_split(), "sections"),
    ],
)  # fmt: skip
def test_arguments_that_are_missing(call, lacking):
    with pytest.raises(TypeError, match=lacking):
        call()


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: X.view(2.0, 3), r"view\(\): argument 'size' must be tuple of ints, but found element of type float at pos 0"),
        (lambda: X.view(), r"view\(\) received an invalid combination of arguments - got \(\)"),
        (lambda: X.permute(1, 0.0), r"permute\(\): argument 'dims' .* float at pos 1"),
        (lambda: X.unsqueeze(1.0), r"unsqueeze\(\): argument 'dim' must be int, not float"),
        (lambda: X.topk(1.5), r"topk\(\): argument 'k' must be int, not float"), (lambda: X.roll(1.5), "float"),
        (lambda: X.tril(1.5), r"tril\(\): argument 'diagonal' must be int, not float"), (lambda: X.triu_(True), "not bool"),
        (lambda: X.rot90(1.0), "argument 'k' must be int"), (lambda: X.triu(torch.tensor(1.5)), "must be int, not float"),
        (lambda: torch.linalg.matrix_power(X[:, :2], float("nan")), "argument 'n' must be int, not float"),
        (lambda: [torch.nan_to_num(X, n) for n in (None, [1.5])], "argument 'nan' must be float, not list"),
        (lambda: torch.addcmul(X, X, X, value="a"), "argument 'value' must be Number, not str"),
        (lambda: torch.stack([X, X], True), "argument 'dim' must be int, not bool"), (lambda: X.softmax(1.0), "softmax.*'dim' must be int"),
        (lambda: X.expand_as(3), r"expand_as\(\): argument 'other' \(position 1\) must be Tensor, not int"),
        (lambda: X.view_as("a"), "must be Tensor, not str"), (lambda: X.is_set_to(3), "must be Tensor, not int"),
        (lambda: X.set_(3), r"got \(int\)"), (lambda: X.contiguous(torch.channels_last), "positional"),
    ],
)  # fmt: skip
def test_arguments_of_other_kinds(call, said):
    with pytest.raises(TypeError, match=said):
        call()


def test_names_of_parameters_are_those_of_2_13(tmp_path):
    layer, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
    zero = {"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}
    assert not torch.func.functional_call(layer, parameter_and_buffer_dicts=zero, args=x).any()
    program = torch.export.export(layer, (x,), prefer_deferred_runtime_asserts_over_guards=True)
    torch.export.save(program, tmp_path / "p.pt2", opset_version=None, pickle_protocol=2)
    torch.export.load(tmp_path / "p.pt2", expected_opset_version=None)
    torch.profiler.tensorboard_trace_handler(str(tmp_path), use_python_export=True)
    assert not torch.nn.parameter.is_lazy(param=x)
    assert torch.nn.ModuleList([layer]).pop(key=0) is layer
    assert not torch.no_grad(orig_func=torch.is_grad_enabled)()


def test_split_has_its_own_name_for_sizes():
    assert [p.shape for p in X.split(split_size=2, dim=1)] == [(2, 2), (2, 1)]
    assert [p.shape for p in torch.split(X, split_size_or_sections=[1, 2], dim=1)] == [
        (2, 1),
        (2, 2),
    ]


def test_histogram_has_a_hundred_bins():
    found = torch.histogram(X)
    assert found.hist.sum() == 6
    assert found.bin_edges.shape == (101,)

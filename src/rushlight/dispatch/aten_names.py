"""The names of operators in profiles: those that PyTorch's operators have there."""

from __future__ import annotations

from typing import Any

PREFIXES = ("linalg", "special", "fft")  # `linalg.inv` is aten::linalg_inv

# The path of an operator -> its names, the outermost first, where it is not the last part of the path. An
# operator of ours may do the work of several that call each other. "": PyTorch has no operator for it.
NAMES = {
    **dict.fromkeys(
        "Tensor.__rtruediv__ _all.segment_table aten.once_differentiable_product internal.circular_pad1d_gradient internal.circular_pad2d_gradient "
        "internal.circular_pad3d_gradient internal.lu_solved internal.pinv internal.products_added internal.unpacked "
        "nn.functional.gaussian_nll_loss nn.functional.gumbel_softmax nn.functional.interpolate "
        "nn.functional.linear_cross_entropy nn.functional.local_response_norm nn.functional.lp_pool1d "
        "nn.functional.lp_pool2d nn.functional.lp_pool3d nn.functional.max_unpool1d "
        "nn.functional.multi_head_attention_forward nn.functional.multilabel_soft_margin_loss "
        "nn.functional.normalize nn.functional.softmin nn.functional.softsign nn.functional.tanhshrink "
        "nn.functional.triplet_margin_with_distance_loss nn.functional.upsample nn.functional.upsample_bilinear "
        "nn.functional.upsample_nearest".split(),
        "",
    ),
    # random numbers
    "Tensor._sample_dirichlet_draw": "_sample_dirichlet",
    "Tensor.bernoulli_draw": "bernoulli",
    "Tensor.bernoulli_from": "bernoulli",
    "Tensor.bernoulli_number": "bernoulli",
    "Tensor.bernoulli_tensor": "bernoulli",
    "Tensor.binomial_draw": "binomial",
    "Tensor.normal_1": "normal",
    "Tensor.normal_2": "normal",
    "Tensor.normal_3": "normal",
    "Tensor.poisson_draw": "poisson",
    "Tensor.random_0": "random",
    "Tensor.random_1": "random",
    "Tensor.random_2": "random",
    "Tensor.standard_gamma_draw": "_standard_gamma",
    # arithmetic
    "Tensor.fill_diagonal": "fill_diagonal_",
    "Tensor.fill_number": "fill",
    "Tensor.fill_number_": "fill_",
    "Tensor.fill_tensor": "fill",
    "Tensor.fill_tensor_": "fill_",
    "_add_scaled": "add",
    "_clamp_max_tensor": "clamp_max",
    "_clamp_min_tensor": "clamp_min",
    "_clamp_tensors": "clamp",
    "_close": "isclose",
    "_conjugates": "conj_physical",
    "_div_half": "div",
    "_div_rounded": "div",
    "_div_rounded_half": "div",
    "_floor_divide_half": "floor_divide",
    "_lerp_half": "lerp",
    "_load_exponent": "ldexp",
    "_mul_half": "mul",
    "_round_decimals": "round",
    "_rsub_scaled": "rsub",
    "_square_bool": "square",
    "_sub_scaled": "sub",
    "_to_device": "_to_copy",
    # views, indices
    "_all.unique": "_unique2",
    "aten.conj_copy": "conj_physical",
    "aten.diagonal_gradient": "diagonal_backward",
    "aten.gather_gradient": "gather_backward",
    "aten.index_gradient": "_index_put_impl_",
    "aten.index_fill_tensor": "index_fill",
    "aten.index_fill_value": "index_fill",
    "aten.laid_out": "clone",
    "aten.masked_fill_tensor": "masked_fill",
    "aten.masked_select_gradient": "masked_select_backward",
    "aten.basic_index_gradient": "slice_backward",
    "aten.repeat_each": "repeat",
    "aten.restride": "as_strided",
    "aten.row_major": "clone",
    "aten.scatter_combine": "scatter_reduce",
    "aten.scatter_src": "scatter",
    "aten.scatter_value": "scatter",
    "aten.index_select_gradient": "index_select_backward",
    "aten.take_gradient": "put_",
    "aten.unfold_gradient": "unfold_backward",
    "aten.view_dtype": "view",
    "internal.take_at_indices": "gather",
    # products, decompositions, transforms
    "internal.all_products": "mul",
    "internal.c2c": "_fft_c2c",
    "internal.c2r": "_fft_c2r",
    "internal.cholesky_inverse_ex": "cholesky_inverse",
    "internal.cholesky_solved": "cholesky_solve _cholesky_solve_helper",
    "internal.convolution_weight": "convolution_backward",
    "internal.convolution": "convolution _convolution",
    "internal.eigvals": "_linalg_eigvals",
    "internal.eigvalsh": "_linalg_eigh",
    "internal.frames": "as_strided",
    "_all.histogramdd_of_counts": "histogramdd",
    **{f"Tensor._{name}_written": name + "_" for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "internal.householder_product": "linalg_householder_product",
    "internal.overlap_add": "unfold_backward",
    "internal.r2c": "_fft_r2c",
    "internal.resized": "constant_pad_nd",
    "internal.solved": "_linalg_solve_ex",
    "internal.svdvals": "_linalg_svd",
    "internal.kron_of_matrices": "kron",
    "lu": "_lu_with_info",
    "nn.functional.grouped_mm": "_grouped_mm",
    # layers
    "_attention": "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu",
    "_batch_norm": "batch_norm _batch_norm_impl_index native_batch_norm",
    "_embedding": "embedding index_select",
    "_embedding_bag": "embedding_bag _embedding_bag",
    "_embedding_sparse": "embedding index_select",
    "_group_norm": "group_norm native_group_norm",
    "_layer_norm": "layer_norm native_layer_norm",
    "_native_group_norm": "native_group_norm",
    "_native_layer_norm": "native_layer_norm",
    "_rms_norm": "rms_norm _fused_rms_norm",
    "internal.adaptive_avg_pool1d": "adaptive_avg_pool2d",
    "internal.adaptive_avg_pool1d_gradient": "_adaptive_avg_pool2d_backward",
    "internal.adaptive_avg_pool2d_gradient": "_adaptive_avg_pool2d_backward",
    "internal.adaptive_avg_pool3d_gradient": "_adaptive_avg_pool3d_backward",
    "internal.adaptive_max_pool1d": "adaptive_max_pool2d",
    "internal.affine_grid_gradient": "affine_grid_generator_backward",
    "internal.avg_pool1d": "avg_pool2d",
    "internal.avg_pool1d_gradient": "avg_pool2d_backward",
    "internal.circular_pad1d": "_pad_circular",
    "internal.circular_pad2d": "_pad_circular",
    "internal.circular_pad3d": "_pad_circular",
    "internal.max_pool1d": "max_pool2d_with_indices",
    "internal.max_pool2d": "max_pool2d_with_indices",
    "internal.max_pool3d": "max_pool3d_with_indices",
    "internal.max_unpool1d": "max_unpool2d",
    "internal.grid_taps": "grid_sampler_2d_backward",
    "nn.functional._logsigmoid": "log_sigmoid log_sigmoid_forward",
    "nn.functional.adaptive_max_pool1d_with_indices": "adaptive_max_pool1d",
    "nn.functional.adaptive_max_pool2d_with_indices": "adaptive_max_pool2d",
    "nn.functional.adaptive_max_pool3d_with_indices": "adaptive_max_pool3d",
    "nn.functional.affine_grid": "affine_grid_generator",
    "nn.functional.dropout1d": "feature_dropout",
    "nn.functional.dropout2d": "feature_dropout",
    "nn.functional.dropout3d": "feature_dropout",
    "nn.functional.fold": "col2im",
    "nn.functional.fractional_max_pool2d_with_indices": "fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d_with_indices": "fractional_max_pool3d",
    "nn.functional.grid_sample": "grid_sampler",
    "nn.functional.logsigmoid": "log_sigmoid",
    "nn.functional.unfold": "im2col",
    # losses
    "nn.functional._bce_with_logits": "binary_cross_entropy_with_logits",
    "nn.functional._cross_entropy_loss": "cross_entropy_loss nll_loss nll_loss_forward",
    "nn.functional._nll_loss": "nll_loss nll_loss_forward",
    "nn.functional._reduced_bce_with_logits": "binary_cross_entropy_with_logits",
    **{
        f"nn.functional._reduced_{name}": name
        for name in "binary_cross_entropy huber_loss smooth_l1_loss soft_margin_loss".split()
    },
    "nn.functional.cross_entropy": "cross_entropy_loss",
    # sparse tensors
    "_sparse.add_dense": "add",
    "_sparse.adjoint_mm": "mm",
    "_sparse.assemble": "_sparse_coo_tensor_unsafe",
    "_sparse.assemble_compressed": "_sparse_compressed_tensor_unsafe",
    "_sparse.coo_of": "to_sparse",
    "_sparse.dense_addmm": "addmm",
    "_sparse.dense_addmm_masked": "addmm",
    "_sparse.dense_mm": "mm",
    "_sparse.mm_sparse": "_sparse_sparse_matmul",
    "_sparse.mm_sparse_masked": "_sparse_sparse_matmul",
    "_sparse.sampled": "sparse_sampled_addmm",
    "_sparse.taken": "index_select",
    "_sparse.sum_keepdim": "sum",
    "_sparse.transpose_compressed": "transpose",
    "_sparse.values_of": "_values",
    "_sparse.values_view": "values",
}  # fmt: skip


def names(op: Any, values: list, inplace: bool = False) -> list[str]:
    """The names of a call of `op`, the outermost first; `values` are those of its parameters."""
    path = op.path
    if path in BY_VALUES:
        found = BY_VALUES[path](dict(zip(op.params, values, strict=False)))
    elif path in NAMES:
        found = NAMES[path]
    elif path.endswith("_gradient"):
        found = path.rpartition(".")[2].replace("_gradient", "_backward")
    else:
        where, _, name = path.rpartition(".")
        if where == "nn.functional":  # `_elu` is the operator behind `elu`
            name = name.removeprefix("_")
        found = f"{where}_{name}" if where in PREFIXES else name
    listed = found.split()
    if inplace and listed and not listed[0].endswith("_"):
        listed[0] += "_"
    return listed


# The kernels of gradient rules, by the path of the operator, that are not named as its last operator and
# `_backward`.
GRADIENTS = {
    "cdist": "_cdist_backward",
    "copysign": "mul",
    "cummax": "cummaxmin_backward",
    "cummin": "cummaxmin_backward",
    "internal.c2r": "_fft_r2c",
    "relu": "threshold_backward",
    **dict.fromkeys(
        "_dim.max _dim.median _dim.min _dim.nanmedian kthvalue mode topk".split(),
        "value_selecting_reduction_backward",
    ),
    **dict.fromkeys(
        "_all.max _all.median _all.min _all.nanmedian amax amin aminmax internal.solved internal.svdvals linalg.svd "
        "_clamp_max_tensor _clamp_min_tensor _clamp_tensors aten.where clamp clamp_max clamp_min nn.functional._bce_with_logits "
        "nn.functional._reduced_bce_with_logits".split(),
        "",
    ),
}


def names_of_gradient(op: Any, values: tuple) -> list[str]:
    """The names of a call of the kernel of a rule of `op`; `values` are the kernel's arguments."""
    if op.path in GRADIENTS:
        return GRADIENTS[op.path].split()
    if op.path == "_recurrent_layer":
        return (
            ["mkldnn_rnn_layer_backward"]
            if any(v.__class__ is str and v == "lstm" for v in values)
            else []
        )
    return [names(op, [])[-1].removesuffix("_forward") + "_backward"]


def product(a: Any, b: Any) -> str:
    """The operator that multiplies: a matrix that the rows of a batch share is one product of matrices."""
    n, m = a.dim(), b.dim()
    if m == 1:
        return "dot" if n == 1 else "mv"
    return "mm" if m == 2 else "bmm"


def matmul(values: dict) -> str:
    return f"matmul {product(values['input'], values['other'])}"


def product_of_gradient(values: dict) -> str:
    return product(values["input"], values["other"])


def linear(values: dict) -> str:
    if values.get("bias") is not None:
        return "linear addmm"
    return f"linear matmul {'mv' if values['input'].dim() == 1 else 'mm'}"


def pool_backward(values: dict) -> str:
    return f"max_pool{max(len(values['sizes']), 2)}d_with_indices_backward"


def recurrent(values: dict) -> str:
    kind = values["kind"]
    if kind == "lstm":
        return "lstm mkldnn_rnn_layer"
    return "gru" if kind == "gru" else f"rnn_{kind}"


# Operators that PyTorch has several for: functions of {parameter: value}.
def basic_index(values: dict) -> str:
    from rushlight.ops.layout.regions import last_step

    return last_step(**values).removesuffix("Backward0").lower()


FAKE_QUANTIZED = {
    "tensor": "fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask",
    "parameters": "fake_quantize_per_tensor_affine _fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "channel": "fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask",
}
BY_VALUES = {
    "_recurrent_layer": recurrent,
    "_sparse.compress": lambda values: "to_" + str(values["layout"]).removeprefix("torch."),
    "aten.basic_index": basic_index,
    "internal.add_at_indices": pool_backward,
    "internal.adjoint_times": product_of_gradient,
    "internal.fake_quantize": lambda values: FAKE_QUANTIZED[values["how"]],
    "internal.times_adjoint": product_of_gradient,
    "matmul": matmul,
    "nn.functional._slope": lambda values: values["of"].removesuffix("_tanh") + "_backward",
    "nn.functional.linear": linear,
}


# -- overloads -------------------------------------------------------------------------------------

# Names with one overload for tensors and numbers alike, or with one that is not "default".
ONE_OVERLOAD = {
    **dict.fromkeys("add sub mul true_divide index bucketize searchsorted split unsafe_split frexp ldexp".split(), "Tensor"),
    **dict.fromkeys("select transpose unbind hsplit softmax log_softmax transpose_copy unbind_copy unflatten".split(), "int"),
    **dict.fromkeys(("conv_transpose2d", "conv_transpose3d"), "input"),
    "flatten": "using_ints", "isin": "Tensor_Tensor", "scatter_reduce": "two", "slice": "Tensor",
    **dict.fromkeys(
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d "
        "upsample_bicubic2d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
        "_upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa".split(),
        "vec",
    ),
}  # fmt: skip
# Overloads that are named by whether an argument is a tensor or a number: name -> (which, for a tensor, for a number).
BY_KIND = {
    **dict.fromkeys(
        "eq ne lt le gt ge remainder fmod bitwise_and bitwise_or bitwise_xor fill rsub copysign".split(),
        (1, "Tensor", "Scalar"),
    ),
    **dict.fromkeys(
        ("bitwise_left_shift", "bitwise_right_shift"), (1, "Tensor", "Tensor_Scalar")
    ),
    "float_power": (1, "Tensor_Tensor", "Tensor_Scalar"),
    **dict.fromkeys(("masked_fill", "lerp"), (2, "Tensor", "Scalar")),
    **dict.fromkeys("trapezoid trapz cumulative_trapezoid".split(), (1, "x", "dx")),
    **dict.fromkeys(("quantile", "nanquantile"), (1, "default", "scalar")),
    "index_fill": (3, "int_Tensor", "int_Scalar"),
    "repeat_interleave": (1, "self_Tensor", "self_int"),
    "histogram": (1, "bins_tensor", "bin_ct"),
    "xlogy": (1, "Tensor", "Scalar_Other"),
}  # fmt: skip
# Overloads that are named by whether an argument is a number or a sequence: name -> (for a number, for a sequence).
BY_COUNT = {
    **dict.fromkeys(("dsplit", "hsplit", "vsplit"), ("int", "array")),
    **dict.fromkeys(("movedim", "moveaxis"), ("int", "intlist")),
    "tensor_split": ("sections", "indices"),
    "count_nonzero": ("default", "dim_IntList"),
}  # fmt: skip
RECURRENT = frozenset("lstm gru rnn_tanh rnn_relu".split())
# Norms: name -> (the default order, the overload for orders that are names).
NORMS = {"linalg_matrix_norm": ("fro", "str_ord"), "linalg_norm": (None, "ord_str")}
# Overloads that are named by a parameter that is given.
BY_PARAMETER = {
    "argsort": "stable",
    "meshgrid": "indexing",
    "round": "decimals",
    "sort": "stable",
}


def _is_tensor(v: Any) -> bool:
    return hasattr(v, "_array")


def overload(name: str, named: dict) -> str:
    """The overload of a call of the operator `name`; `named`: the values of the parameters."""
    values = list(named.values())
    if name in ("sum", "mean", "any", "all", "prod", "max", "min", "median", "nanmedian", "norm"):
        return _reduction(name, named.get("dim"), named.get("other"))
    if name in BY_KIND:
        which, tensor, number = BY_KIND[name]
        if len(values) <= which:
            return number if name.endswith(("trapezoid", "trapz")) else "Tensor"
        return tensor if _is_tensor(values[which]) else number
    if name in BY_COUNT and len(values) > 1:
        if name == "tensor_split" and _is_tensor(values[1]):
            return "tensor_indices_or_sections"
        return BY_COUNT[name][not isinstance(values[1], int)]
    if name in BY_PARAMETER:
        given = named.get(BY_PARAMETER[name])
        plain = given is None or name == "round" and given == 0
        return "default" if plain else BY_PARAMETER[name]
    if name in ("div", "divide"):
        return "Tensor_mode" if named.get("rounding_mode") is not None else "Tensor"
    if name in ("conv1d", "conv2d", "conv3d"):
        return "padding" if isinstance(named.get("padding"), str) else "default"
    if name in ("var", "std", "var_mean", "std_mean"):
        return "correction" if "correction" in named else "dim" if len(values) > 1 and values[1].__class__ is not bool else "default"  # fmt: skip
    if name == "ctc_loss":
        return "Tensor" if _is_tensor(values[2]) else "IntList"
    if (
        name in RECURRENT
    ):  # weights, or the states of an LSTM, are a list; of packed rows the sizes come first
        first = values[1 if name == "lstm" else 2]
        return "data" if _is_tensor(first) else "input"
    if name in ONE_OVERLOAD:
        return ONE_OVERLOAD[name]
    if name == "scatter":
        kinds = ("reduce", "value_reduce") if named.get("reduce") is not None else ("src", "value")
        return kinds[not _is_tensor(values[3])]
    if name == "arange":
        numbers = values[0] if values and values[0].__class__ is tuple else values
        count = sum(v.__class__ in (int, float) for v in numbers)
        return ("default", "start", "start_step")[max(count - 1, 0)]
    if name == "pow":
        kinds = ["Tensor" if _is_tensor(v) else "Scalar" for v in values[:2]]
        return "Scalar" if kinds[0] == "Scalar" else "_".join(kinds)
    if name == "where":
        kinds = [_is_tensor(v) for v in values[1:3]]
        return {(True, False): "ScalarOther", (False, True): "ScalarSelf"}.get(tuple(kinds), "self")
    if name in ("linspace", "logspace", "normal"):
        return _of_two(name, values)
    if name.startswith("linalg_"):
        return _of_matrices(name, named)
    if name in ("squeeze", "squeeze_copy"):
        dim = named["dim"] if "dim" in named else (*values, None)[1]
        return "default" if dim is None else "dims" if dim.__class__ in (tuple, list) else "dim"
    if name in ("clamp", "clamp_min", "clamp_max"):
        return "Tensor" if any(map(_is_tensor, values[1:])) else "default"
    return "default"


def _of_two(name: str, values: list) -> str:
    """The overload by which of two arguments are tensors."""
    number = "float" if name == "normal" else "Scalar"
    kinds = ["Tensor" if _is_tensor(v) else number for v in values[:2]]
    if "Tensor" not in kinds:
        return "default"
    return "_".join(kinds) if len(kinds) == 2 else f"Tensor_{number}"


def _of_matrices(name: str, named: dict) -> str:
    """The overload of a function of `torch.linalg`: by the kind of norm, or by what tolerance is given."""
    if name in NORMS:
        default, by_name = NORMS[name]
        return by_name if named.get("ord", default).__class__ is str else "default"
    if name in ("linalg_matrix_rank", "linalg_pinv"):
        plain = "tol" if name == "linalg_matrix_rank" else "rcond"
        if (given := named.get(plain)) is not None:
            return f"{plain}_tensor" if _is_tensor(given) else "default"
        given = [v for v in (named.get("atol"), named.get("rtol")) if v is not None]
        floats = given and not any(map(_is_tensor, given))
        return "atol_rtol_float" if floats else "atol_rtol_tensor"
    return "default"


def _reduction(name: str, dim: Any, other: Any) -> str:
    """The overload of a reduction over all dimensions, or over `dim`; that of two tensors for max and min."""
    if other is not None or _is_tensor(dim):
        return "other"
    if dim is None:
        return "default"
    if name == "sum":
        return "dim_IntList"
    if name == "prod":
        return "dim_int"
    return "dims" if name in ("any", "all") and dim.__class__ in (tuple, list) else "dim"

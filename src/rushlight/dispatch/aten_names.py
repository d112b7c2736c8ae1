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
    "aten.diagonal_place": "diagonal_backward",
    "aten.gather_back": "gather_backward",
    "aten.index_back": "_index_put_impl_",
    "aten.index_fill_tensor": "index_fill",
    "aten.index_fill_value": "index_fill",
    "aten.laid_out": "clone",
    "aten.masked_fill_tensor": "masked_fill",
    "aten.masked_place": "masked_select_backward",
    "aten.place": "slice_backward",
    "aten.repeat_each": "repeat",
    "aten.restride": "as_strided",
    "aten.row_major": "clone",
    "aten.scatter_combine": "scatter_reduce",
    "aten.scatter_src": "scatter",
    "aten.scatter_value": "scatter",
    "aten.slices_back": "index_select_backward",
    "aten.take_back": "put_",
    "aten.unfold_back": "unfold_backward",
    "aten.view_dtype": "view",
    "internal.pick_places": "gather",
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


BY_VALUES = {
    "_recurrent_layer": recurrent,
    "_sparse.compress": lambda values: "to_" + str(values["layout"]).removeprefix("torch."),
    "aten.basic_index": basic_index,
    "internal.add_places": pool_backward,
    "internal.adjoint_times": product_of_gradient,
    "internal.times_adjoint": product_of_gradient,
    "matmul": matmul,
    "nn.functional._slope": lambda values: values["of"].removesuffix("_tanh") + "_backward",
    "nn.functional.linear": linear,
}


# -- overloads -------------------------------------------------------------------------------------

# Names with one overload for tensors and numbers alike, or with one that is not "default".
ONE_OVERLOAD = {
    **dict.fromkeys("add sub mul rsub_tensor isclose_ div true_divide".split(), "Tensor"),
    "argsort": "default", "diff": "default", "expand_as": "default",
    "index": "Tensor", "select": "int", "slice": "Tensor", "transpose": "int", "unbind": "int", "split": "Tensor",
    "cross": "default", "rsub": "Scalar", "where": "self", "isin": "Tensor_Tensor", "bucketize": "Tensor",
    "searchsorted": "Tensor", "scatter_reduce": "two", "var": "correction", "std": "correction",
    "var_mean": "correction", "std_mean": "correction", "hsplit": "int", "repeat_interleave": "Tensor",
    "upsample_nearest1d": "vec", "upsample_nearest2d": "vec", "upsample_nearest3d": "vec",
    "upsample_linear1d": "vec", "upsample_bilinear2d": "vec", "upsample_trilinear3d": "vec",
    "upsample_bicubic2d": "vec",
}  # fmt: skip
# Overloads that are named by whether the second argument is a tensor or a number.
BY_SECOND = frozenset(
    "eq ne lt le gt ge remainder fmod bitwise_and bitwise_or bitwise_xor fill masked_fill lerp xlogy".split()
)


def overload(name: str, named: dict) -> str:
    """The overload of a call of the operator `name`; `named`: the values of the parameters."""
    if name in (
        "sum",
        "mean",
        "nansum",
        "any",
        "all",
        "prod",
        "max",
        "min",
        "median",
        "nanmedian",
        "norm",
    ):
        dim = named.get("dim")
        if dim is None:
            return "other" if named.get("other") is not None else "default"
        if name in ("sum", "nansum"):
            return "dim_IntList"
        if name == "prod":
            return "dim_int"
        return "dims" if name in ("any", "all") and dim.__class__ in (tuple, list) else "dim"
    if name in ("div", "divide") and named.get("rounding_mode") is not None:
        return "Tensor_mode"
    if name in ONE_OVERLOAD:
        return ONE_OVERLOAD[name]
    if name in BY_SECOND:
        second = list(named.values())[2 if name == "masked_fill" else 1]
        return "Tensor" if hasattr(second, "_array") else "Scalar"
    if name == "pow":
        base, exponent = list(named.values())[:2]
        if not hasattr(base, "_array"):
            return "Scalar"
        return "Tensor_Tensor" if hasattr(exponent, "_array") else "Tensor_Scalar"
    if name == "squeeze":
        dim = named.get("dim")
        return "default" if dim is None else "dims" if dim.__class__ in (tuple, list) else "dim"
    if name == "sort":
        return "default" if named.get("stable") is None else "stable"
    if name == "scatter":
        return "src" if "src" in named else "value"
    if name == "index_fill":
        return "int_Tensor" if hasattr(named.get("value"), "_array") else "int_Scalar"
    if name in ("clamp", "clamp_min", "clamp_max"):
        return (
            "Tensor" if any(hasattr(v, "_array") for v in list(named.values())[1:]) else "default"
        )
    return "default"

"""The names of the arguments of PyTorch's operators, as exported programs that are written have them."""

from __future__ import annotations

import inspect
from typing import Any

from rushlight.dispatch.overloads import OpOverload

__all__ = ["argument_names"]

# The arguments that are given by place -> the operators that have them, or overloads of operators: those whose
# function here names them otherwise. From the schemas of PyTorch 2.13.
_OPERATORS = {
    "anchor positive negative margin p eps swap reduction": "triplet_margin_loss",
    "condition": "where.default",
    "condition self other": "where.self where.ScalarOther where.ScalarSelf where.Scalar",
    "data batch_sizes hx params has_biases num_layers dropout train bidirectional": "gru.data lstm.data rnn_relu.data rnn_tanh.data",
    "element test_elements": "isin.Scalar_Tensor",
    "elements test_element": "isin.Tensor_Scalar",
    "end": "arange.default",
    "equation tensors": "einsum.default",
    "high size": "randint.default",
    "input": "linalg_matrix_rank.atol_rtol_tensor",
    "input grid interpolation_mode padding_mode align_corners": "grid_sampler grid_sampler_2d grid_sampler_3d",
    "input hx params has_biases num_layers dropout train bidirectional batch_first": "gru.input lstm.input rnn_relu.input rnn_tanh.input",
    "input hx w_ih w_hh b_ih b_hh": "gru_cell lstm_cell rnn_relu_cell rnn_tanh_cell",
    "input lengths batch_first": "_pack_padded_sequence",
    "input normalized_shape weight bias eps": "native_layer_norm",
    "input normalized_shape weight bias eps cudnn_enable": "layer_norm",
    "input normalized_shape weight eps": "rms_norm",
    "input num_groups weight bias eps cudnn_enabled": "group_norm",
    "input output_size align_corners scale_factors": "_upsample_bicubic2d_aa.vec _upsample_bilinear2d_aa.vec _upsample_lanczos2d_aa.vec upsample_bicubic2d.vec upsample_bilinear2d.vec upsample_linear1d.vec upsample_trilinear3d.vec",
    "input output_size scale_factors": "_upsample_nearest_exact1d.vec _upsample_nearest_exact2d.vec _upsample_nearest_exact3d.vec upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec",
    "input p train": "alpha_dropout dropout feature_alpha_dropout feature_dropout native_dropout",
    "input target log_input full eps reduction": "poisson_nll_loss",
    "input tau": "linalg_householder_product",
    "input tol hermitian": "linalg_matrix_rank.tol_tensor",
    "input weight bias": "linear",
    "input weight bias N C HxW group eps": "native_group_norm",
    "input weight bias running_mean running_var momentum eps": "_batch_norm_no_update _batch_norm_with_update _native_batch_norm_legit_no_training",
    "input weight bias running_mean running_var training momentum eps": "_native_batch_norm_legit.default _native_batch_norm_legit_functional native_batch_norm",
    "input weight bias running_mean running_var training momentum eps cudnn_enabled": "batch_norm",
    "input weight bias running_mean running_var use_input_stats momentum eps cudnn_enabled": "instance_norm",
    "input weight bias stride padding dilation groups": "conv1d conv2d conv3d",
    "input weight bias stride padding dilation transposed output_padding groups": "convolution",
    "input weight bias stride padding output_padding groups dilation": "conv_transpose1d conv_transpose2d conv_transpose3d",
    "input weight bias training momentum eps": "_native_batch_norm_legit.no_stats",
    "input1 input2 target margin reduction": "cosine_embedding_loss margin_ranking_loss",
    "log_probs targets input_lengths target_lengths blank reduction zero_infinity": "ctc_loss",
    "low high size": "randint.low",
    "n self": "polygamma special_polygamma",
    "repeats": "repeat_interleave.Tensor",
    "self": "atleast_1d.default atleast_2d.default atleast_3d.default det linalg_cholesky linalg_eig linalg_eigvals linalg_ldl_factor linalg_ldl_factor_ex linalg_matrix_exp linalg_pinv.atol_rtol_float linalg_pinv.atol_rtol_tensor matrix_exp",
    "self B": "linalg_solve_triangular",
    "self UPLO": "linalg_eigh linalg_eigvalsh",
    "self alpha scale input_scale": "elu",
    "self axis0 axis1": "swapaxes_",
    "self batch1 batch2 out_dtype": "baddbmm.dtype",
    "self device dtype non_blocking copy memory_format": "to.device",
    "self dim": "glu squeeze_.dim squeeze_.dims squeeze_copy.dim squeeze_copy.dims unbind_copy unsqueeze_ unsqueeze_copy",
    "self dim index": "select_copy",
    "self dim index value": "scatter.value scatter.value_reduce scatter_.value scatter_.value_reduce",
    "self dim start end step": "slice_copy",
    "self dim start length": "narrow_copy",
    "self dim0 dim1": "swapdims_ transpose_ transpose_copy",
    "self dimension size step": "unfold unfold_copy",
    "self dims": "permute_copy",
    "self dtype": "view.dtype view_copy.dtype",
    "self dtype non_blocking copy memory_format": "to.dtype",
    "self from to": "uniform uniform_",
    "self high": "randint_like.default randint_like.Tensor randint_like.generator randint_like.Tensor_generator",
    "self ind": "linalg_tensorinv",
    "self indices": "dsplit.array hsplit.array vsplit.array",
    "self indices dim": "tensor_split.indices",
    "self indices output_size": "max_unpool2d",
    "self indices output_size stride padding": "max_unpool3d",
    "self input2": "orgqr",
    "self input2 input3 left transpose": "ormqr",
    "self input2 upper": "cholesky_solve",
    "self keepdim": "nuclear_norm.default",
    "self kernel_size dilation padding stride": "im2col",
    "self kernel_size output_size random_samples": "fractional_max_pool2d fractional_max_pool3d",
    "self kernel_size stride padding dilation ceil_mode": "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices",
    "self lambd": "exponential",
    "self low high": "randint_like.low_dtype randint_like.low_generator_dtype",
    "self mask value": "masked_fill",
    "self mat1 mat2 out_dtype": "addmm.dtype",
    "self mat2": "smm",
    "self mat2 offs bias out_dtype": "_grouped_mm",
    "self mat2 out_dtype": "bmm.dtype mm.dtype",
    "self mean std": "log_normal",
    "self median sigma": "cauchy",
    "self min_val max_val": "hardtanh",
    "self n": "linalg_matrix_power matrix_power",
    "self n_fft hop_length win_length window center pad_mode normalized onesided return_complex align_to_window": "stft.center",
    "self n_fft hop_length win_length window normalized onesided return_complex align_to_window": "stft",
    "self negative_slope": "leaky_relu",
    "self offset dim1 dim2": "diagonal_copy",
    "self ord dim keepdim": "linalg_matrix_norm linalg_norm linalg_vector_norm",
    "self other": "copy_.Tensor copy_.int copy_.float ldexp_ max.other min.other",
    "self other dims": "linalg_tensorsolve",
    "self other dims_self dims_other": "tensordot",
    "self other non_blocking copy memory_format": "to.other",
    "self output_size align_corners scales": "upsample_linear1d.default",
    "self output_size align_corners scales_d scales_h scales_w": "upsample_trilinear3d.default",
    "self output_size align_corners scales_h scales_w": "_upsample_bicubic2d_aa.default _upsample_bilinear2d_aa.default _upsample_lanczos2d_aa.default upsample_bicubic2d.default upsample_bilinear2d.default",
    "self output_size kernel_size dilation padding stride": "col2im",
    "self output_size scales": "_upsample_nearest_exact1d.default upsample_nearest1d.default",
    "self output_size scales_d scales_h scales_w": "_upsample_nearest_exact3d.default upsample_nearest3d.default",
    "self output_size scales_h scales_w": "_upsample_nearest_exact2d.default upsample_nearest2d.default",
    "self p": "geometric linalg_cond",
    "self p train": "alpha_dropout_ dropout_ feature_alpha_dropout_ feature_dropout_",
    "self padding": "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d",
    "self rcond hermitian": "linalg_pinv.default linalg_pinv.rcond_tensor",
    "self repeats": "repeat",
    "self sections": "dsplit.int hsplit.int vsplit.int",
    "self sections dim": "tensor_split.sections",
    "self size": "expand expand_copy new_empty new_ones new_zeros resize resize_ sum_to_size view.default view_copy.default _unsafe_view",
    "self size stride storage_offset": "as_strided_ as_strided_copy",
    "self split_size dim": "split.Tensor split_copy.Tensor",
    "self split_sizes dim": "split.default split_with_sizes split_with_sizes_copy unsafe_split_with_sizes",
    "self src non_blocking": "copy.default",
    "self target margin reduction": "hinge_embedding_loss",
    "self target p margin weight reduction": "multi_margin_loss",
    "self target reduction": "kl_div l1_loss mse_loss multilabel_margin_loss soft_margin_loss",
    "self target reduction beta": "smooth_l1_loss",
    "self target reduction delta": "huber_loss",
    "self target weight pos_weight reduction": "binary_cross_entropy_with_logits",
    "self target weight reduction": "binary_cross_entropy",
    "self target weight reduction ignore_index": "nll_loss nll_loss2d nll_loss_nd",
    "self target weight reduction ignore_index label_smoothing": "cross_entropy_loss",
    "self tensor_indices_or_sections dim": "tensor_split.tensor_indices_or_sections",
    "self the_template": "resize_as",
    "self unbiased": "std.default std_mean.default var.default var_mean.default",
    "self upper": "cholesky_inverse",
    "self vec1 vec2": "addr_",
    "size": "empty ones rand randn sparse_coo_tensor.size zeros",
    "sorted_sequence self": "searchsorted",
    "start end": "arange.start range.default",
    "start end step": "arange.start_step range.step",
    "weight indices offsets scale_grad_by_freq mode sparse per_sample_weights include_last_offset padding_idx": "_embedding_bag",
    "weight indices padding_idx scale_grad_by_freq sparse": "embedding",
    "x": "special_airy_ai special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_spherical_bessel_j0",
    "x n": "special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_hermite_polynomial_h special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w",
}  # fmt: skip
_NAMES = {name: names.split() for names, each in _OPERATORS.items() for name in each.split()}
_ARITHMETIC = ["a", "b"]


def argument_names(target: Any) -> list[str]:
    """The names of the arguments that a call gives by place; less than these for a function that is no operator.

    >>> import rushlight as torch
    >>> argument_names(torch.ops.aten.linear.default)
    ['input', 'weight', 'bias']
    """
    if not isinstance(target, OpOverload):
        return _ARITHMETIC if getattr(target, "__module__", "") == "_operator" else []
    if target.called is not None:  # an operator that a program declared
        return [*target.called._signature.parameters]
    for name in (f"{target._opname}.{target._overloadname}", target._opname):
        if name in _NAMES:
            return _NAMES[name]
    names = [*inspect.signature(target.overloadpacket.resolved()).parameters]
    return ["self", *names[1:]] if names[:1] in (["input"], ["args"]) else names

"""Which family file each kernel is in. Written by scripts/index.py; do not edit."""

REFERENCE = {
    "activation": (
        "clip_gradient elu elu_gradient gelu gelu_gradient gelu_tanh gelu_tanh_gradient glu "
        "glu_gradient hardshrink hardsigmoid hardsigmoid_gradient hardswish "
        "hardswish_gradient hardtanh hardtanh_gradient leaky_relu leaky_relu_gradient "
        "log_sigmoid log_sigmoid_gradient mish mish_gradient prelu prelu_gradient "
        "prelu_weight_gradient relu scaled_softplus scaled_softplus_gradient shrink_gradient "
        "sigmoid_gradient silu silu_gradient softshrink tanh_gradient threshold "
    ),
    "attention": (
        "attention attention_gradients "
    ),
    "bags": (
        "bag_factors_gradient embedding_bag embedding_bag_gradient "
    ),
    "conv": (
        "convolve convolve_transposed convolve_weight "
    ),
    "conversion": (
        "cast device_of from_numpy number shares_memory to_numpy "
    ),
    "ctc": (
        "ctc_loss ctc_loss_gradient "
    ),
    "distances": (
        "cdist cdist_gradient pdist pdist_gradient "
    ),
    "elementwise": (
        "add_scaled addcdiv addcmul angle ceil clip clip_arrays copysign copysign_gradient "
        "deg2rad fill floor floor_divide fmod frac frexp heaviside hypot is_exact is_float "
        "isfinite isinf isnan isneginf isposinf ldexp left_shift lerp logaddexp logaddexp2 "
        "logit logit_gradient nan_to_num negative nextafter power rad2deg remainder "
        "reverse_subtract right_shift rint round_to rsqrt sgn sigmoid sign signbit sinc "
        "threshold_gradient trunc trunc_divide with_wide_number "
    ),
    "fft": (
        "c2c c2r r2c transform_lines "
    ),
    "gamma": (
        "digamma gammainc gammaincc lgamma mvlgamma polygamma xlog1py xlogy zeta "
    ),
    "indexing": (
        "add_rows as_strided_gradient at_index fill_masked gather gather_gradient gather_key "
        "index_add_at index_put index_select index_select_gradient index_take out_of_range "
        "put_slices reduce_at reduce_slices scatter scatter_reduce "
    ),
    "layout": (
        "laid_out with_strides "
    ),
    "linalg": (
        "cholesky cholesky_inverse cholesky_solve det eig eigh eigvals eigvalsh geqrf "
        "householder_product inv ldl_factor ldl_solve lu_factor lu_solve lu_unpack matrix_exp "
        "ormqr pinv qr slogdet solve solve_triangular svd svdvals "
    ),
    "loss": (
        "bce_with_logits bce_with_logits_gradient binary_cross_entropy "
        "binary_cross_entropy_gradient binary_cross_entropy_target_gradient huber "
        "huber_gradient mse_gradient nll_loss nll_loss_gradient smooth_l1 smooth_l1_gradient "
        "squared_distance "
    ),
    "margin": (
        "label_margins label_margins_gradient margins margins_gradient "
    ),
    "masks": (
        "masked_expand masked_scatter masked_select nonzero "
    ),
    "normalize": (
        "batch_norm batch_norm_gradients group_norm group_norm_gradients l2_norm layer_norm "
        "layer_norm_gradients layer_norm_with_statistics rms_norm rms_norm_gradients "
        "update_running_stats "
    ),
    "pad": (
        "col2im im2col pad_constant pad_edges pad_edges_adjoint "
    ),
    "polynomials": (
        "chebyshev_t chebyshev_u chebyshev_v chebyshev_w hermite_h hermite_he laguerre_l "
        "legendre_p shifted_chebyshev_t shifted_chebyshev_u shifted_chebyshev_v "
        "shifted_chebyshev_w "
    ),
    "pool": (
        "adaptive_averages adaptive_averages_adjoint adaptive_maxima add_at_indices "
        "fractional_maxima max_pool max_pool_indices put_at_indices take_at_indices "
        "window_averages window_averages_adjoint "
    ),
    "products": (
        "accumulate accumulate_activated adjoint_times bmm broadcast_to c_name check_bmm "
        "cross dot kron linear matmul mm mv outer outer_added times_adjoint trace vdot "
    ),
    "random": (
        "by_c_library invalid_weights random_bernoulli random_cauchys random_choices "
        "random_doubles random_exponentials random_floats random_geometrics random_integers "
        "random_normal_floats random_normals random_permutation random_scalar_normals "
        "random_seeded random_slopes random_uniform random_wide_normals random_wide_words "
        "random_words "
    ),
    "recurrent": (
        "recurrent_layer recurrent_layer_gradients "
    ),
    "reduce": (
        "all amax amin any argmax argmin count_nonzero cumulative cumulative_extreme "
        "expand_reduced kthvalue logcumsumexp logsumexp max_with_index mean median "
        "median_with_index min_with_index mode nansum prod segment_ids segment_offsets "
        "segment_reduce sum sum_to upcast variance xor_sum "
    ),
    "rejection": (
        "random_binomials random_gammas random_poissons "
    ),
    "resample": (
        "affine_grid affine_grid_adjoint grid_sample grid_sample_gradients grid_taps resample "
        "resample_adjoint taps_of "
    ),
    "samples": (
        "dirichlet_gradient standard_gamma_gradient "
    ),
    "sequences": (
        "arange_into both_ends_into full linspace_into ones powers_into "
    ),
    "softmax": (
        "cross_entropy cross_entropy_gradient entropy_total log_softmax log_softmax_gradient "
        "softmax softmax_gradient "
    ),
    "sorting": (
        "bincount histc histogram isin searchsorted sort take_along topk unique unique_along "
    ),
    "special": (
        "airy_ai entr erf erfc erfcx erfinv i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e log_ndtr ndtr "
        "ndtri spherical_j0 y0 y1 "
    ),
    "strided": (
        "basic_index cat diagonal expand unsqueeze view within_memory "
    ),
    "views": (
        "address as_strided cat_contiguous contiguous copy_into copy_like element_strides "
        "empty_strided empty_with_strides_of extent flip plain roll root row_major "
        "stack_contiguous tile triangle "
    ),
}

MAY_GIVE_NONE = (
    "binary_cross_entropy cat_contiguous empty_with_strides_of entropy_total gather "
    "index_select out_of_range stack_contiguous "
)

LLVM = {
    "activation": (
        "clip_gradient elu elu_gradient gelu gelu_gradient gelu_tanh gelu_tanh_gradient glu "
        "glu_gradient hardshrink hardsigmoid hardsigmoid_gradient hardswish "
        "hardswish_gradient hardtanh hardtanh_gradient leaky_relu leaky_relu_gradient "
        "log_sigmoid log_sigmoid_gradient mish mish_gradient prelu prelu_gradient "
        "prelu_weight_gradient relu scaled_softplus scaled_softplus_gradient shrink_gradient "
        "sigmoid_gradient silu silu_gradient softshrink tanh_gradient threshold "
    ),
    "attention": (
        "attention attention_gradients "
    ),
    "bags": (
        "bag_factors_gradient embedding_bag embedding_bag_gradient "
    ),
    "batch_normalize": (
        "batch_norm batch_norm_gradients update_running_stats "
    ),
    "conv": (
        "convolve convolve_transposed convolve_weight "
    ),
    "cross_entropy": (
        "cross_entropy cross_entropy_gradient entropy_total "
    ),
    "cross_products": (
        "cross kron trace "
    ),
    "ctc": (
        "ctc_loss ctc_loss_gradient "
    ),
    "distances": (
        "cdist cdist_gradient pdist pdist_gradient "
    ),
    "elementwise": (
        "add_scaled addcdiv addcmul angle cast ceil clip clip_arrays copysign "
        "copysign_gradient deg2rad erf erfc fill floor floor_divide fmod frac heaviside hypot "
        "isfinite isinf isnan isneginf isposinf left_shift lerp logaddexp logaddexp2 logit "
        "logit_gradient nan_to_num nextafter power rad2deg remainder reverse_subtract "
        "right_shift rint round_to rsqrt sgn sigmoid sign sinc threshold_gradient trunc "
        "trunc_divide where with_wide_number xlogy "
    ),
    "extremes": (
        "amax amin argmax argmin max_with_index min_with_index "
    ),
    "fft": (
        "c2c c2r r2c transform_lines "
    ),
    "indexing": (
        "add_rows at_index index_add_at index_put index_select index_select_gradient "
        "index_take out_of_range put_slices reduce_slices "
    ),
    "layout": (
        "laid_out "
    ),
    "linalg": (
        "cholesky cholesky_inverse cholesky_solve det eig eigh eigvals eigvalsh geqrf "
        "householder_product inv ldl_factor ldl_solve lu_factor lu_solve lu_unpack ormqr qr "
        "solve solve_triangular svd svdvals "
    ),
    "loss": (
        "bce_with_logits bce_with_logits_gradient binary_cross_entropy "
        "binary_cross_entropy_gradient binary_cross_entropy_target_gradient huber "
        "huber_gradient mse_gradient nll_loss nll_loss_gradient smooth_l1 smooth_l1_gradient "
        "squared_distance "
    ),
    "margin": (
        "label_margins label_margins_gradient margins margins_gradient "
    ),
    "masks": (
        "fill_masked masked_expand masked_scatter masked_select nonzero "
    ),
    "normalize": (
        "group_norm group_norm_gradients layer_norm layer_norm_gradients "
        "layer_norm_with_statistics rms_norm rms_norm_gradients "
    ),
    "pad": (
        "col2im pad_constant pad_edges pad_edges_adjoint "
    ),
    "pool": (
        "adaptive_averages adaptive_averages_adjoint adaptive_maxima add_at_indices "
        "fractional_maxima max_pool max_pool_indices put_at_indices take_at_indices "
        "window_averages window_averages_adjoint "
    ),
    "products": (
        "accumulate accumulate_activated adjoint_times bmm dot linear matmul mm mv outer "
        "outer_added times_adjoint vdot "
    ),
    "random": (
        "by_c_library invalid_weights random_bernoulli random_cauchys random_choices "
        "random_doubles random_exponentials random_floats random_geometrics random_integers "
        "random_normal_floats random_normals random_permutation random_scalar_normals "
        "random_seeded random_slopes random_uniform random_wide_normals random_wide_words "
        "random_words "
    ),
    "recurrent": (
        "recurrent_layer recurrent_layer_gradients "
    ),
    "reduce": (
        "count_nonzero l2_norm mean nansum prod sum sum_to variance "
    ),
    "rejection": (
        "random_binomials random_gammas random_poissons "
    ),
    "resample": (
        "grid_sample grid_sample_gradients resample resample_adjoint "
    ),
    "scan": (
        "cumulative cumulative_extreme logcumsumexp "
    ),
    "scatter": (
        "gather gather_gradient scatter scatter_reduce "
    ),
    "sequences": (
        "arange_into both_ends_into linspace_into powers_into "
    ),
    "softmax": (
        "log_softmax log_softmax_gradient logsumexp softmax softmax_gradient "
    ),
    "sorting": (
        "bincount histc histogram isin kthvalue median median_with_index mode searchsorted "
        "sort topk unique "
    ),
    "special": (
        "airy_ai chebyshev_t chebyshev_u chebyshev_v chebyshev_w digamma entr erfcx erfinv "
        "gammainc gammaincc hermite_h hermite_he i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e laguerre_l "
        "legendre_p lgamma log_ndtr mvlgamma ndtr ndtri polygamma shifted_chebyshev_t "
        "shifted_chebyshev_u shifted_chebyshev_v shifted_chebyshev_w spherical_j0 xlog1py y0 "
        "y1 zeta "
    ),
    "strided": (
        "as_strided basic_index diagonal expand unsqueeze view within_memory "
    ),
    "ufuncs": (
        "absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh conjugate cos cosh "
        "divide equal exp exp2 expm1 fmax fmin greater greater_equal less less_equal log "
        "log10 log1p log2 logical_and logical_not logical_or logical_xor maximum minimum "
        "multiply negative not_equal reciprocal sin sinh sqrt square subtract tan tanh "
    ),
    "views": (
        "cat cat_contiguous contiguous copy_into roll row_major stack_contiguous tile "
        "triangle "
    ),
}


def spread(table: dict[str, str]) -> dict[str, str]:
    return {kernel: family for family, names in table.items() for kernel in names.split()}


REFERENCE = spread(REFERENCE)  # those of cpu.py that are not NumPy's own
LLVM = spread(LLVM)
MAY_GIVE_NONE = {*MAY_GIVE_NONE.split()}  # of the reference's, for what they refuse

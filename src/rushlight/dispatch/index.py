"""Which family file each public name is in. Written by scripts/index.py; do not edit.

Names are kept as words in strings, which load ten times faster than entries of dictionaries.
"""

FUNCTIONS = {
    "factories.construct": (
        "Tensor.new_tensor as_tensor asarray from_dlpack from_file from_numpy frombuffer "
        "scalar_tensor tensor to_dlpack "
    ),
    "factories.copying": (
        "Tensor._sample_dirichlet_draw Tensor.bernoulli_draw Tensor.bernoulli_from "
        "Tensor.bernoulli_number Tensor.bernoulli_tensor Tensor.bfloat16 Tensor.binomial_draw "
        "Tensor.bool Tensor.byte Tensor.cauchy Tensor.cdouble Tensor.cfloat Tensor.chalf "
        "Tensor.char Tensor.contiguous Tensor.copy Tensor.copy_ Tensor.cpu Tensor.cuda "
        "Tensor.double Tensor.exponential Tensor.fill_diagonal Tensor.fill_diagonal_ "
        "Tensor.fill_number Tensor.fill_number_ Tensor.fill_tensor Tensor.fill_tensor_ "
        "Tensor.float Tensor.geometric Tensor.half Tensor.hpu Tensor.int Tensor.ipu "
        "Tensor.log_normal Tensor.long Tensor.mtia Tensor.normal Tensor.normal_1 "
        "Tensor.normal_2 Tensor.poisson_draw Tensor.random_0 Tensor.random_1 Tensor.random_2 "
        "Tensor.short Tensor.to Tensor.type Tensor.type_as Tensor.uniform Tensor.xpu "
        "Tensor.zero _to_copy _to_device clone detach detach_ fill fill_ zero_ "
    ),
    "factories.creation": (
        "Tensor.new_empty Tensor.new_empty_strided Tensor.new_full Tensor.new_ones "
        "Tensor.new_zeros empty empty_like empty_permuted empty_strided full full_like ones "
        "ones_like zeros zeros_like "
    ),
    "factories.distributions": (
        "Tensor.normal_3 Tensor.standard_gamma_draw _dirichlet_grad _sample_dirichlet "
        "_standard_gamma _standard_gamma_grad bernoulli binomial multinomial normal poisson "
    ),
    "factories.legacy": (
        "Tensor.new set_default_tensor_type "
    ),
    "factories.parts": (
        "complex polar "
    ),
    "factories.random": (
        "Tensor.bernoulli_ Tensor.cauchy_ Tensor.exponential_ Tensor.geometric_ "
        "Tensor.log_normal_ Tensor.normal_ Tensor.random_ Tensor.uniform_ rand rand_like "
        "randint randint_like randn randn_like randperm "
    ),
    "factories.sequences": (
        "arange eye linspace logspace range tril_indices triu_indices "
    ),
    "factories.windows": (
        "bartlett_window blackman_window hamming_window hann_window kaiser_window "
        "signal.windows.bartlett signal.windows.blackman signal.windows.cosine "
        "signal.windows.exponential signal.windows.gaussian signal.windows.general_cosine "
        "signal.windows.general_hamming signal.windows.hamming signal.windows.hann "
        "signal.windows.kaiser signal.windows.nuttall "
    ),
    "indexing.advanced": (
        "Tensor.index_put_ aten.index aten.index_gradient aten.index_put index_put "
    ),
    "indexing.gather": (
        "Tensor.masked_fill_ Tensor.where argwhere aten.gather_gradient "
        "aten.index_select_gradient aten.masked_fill aten.masked_fill_tensor "
        "aten.masked_select_gradient aten.nonzero aten.take_gradient aten.where gather "
        "index_select masked_fill masked_select nonzero nonzero_static take take_along_dim "
        "where "
    ),
    "indexing.index_writes": (
        "Tensor.index_fill_ aten.index_fill_tensor aten.index_fill_value index_add index_copy "
        "index_fill index_reduce masked_scatter put "
    ),
    "indexing.indexing": (
        "Tensor.getitem Tensor.setitem "
    ),
    "indexing.scatter": (
        "Tensor.scatter_ aten.once_differentiable_product aten.scatter_combine "
        "aten.scatter_src aten.scatter_value scatter scatter_add scatter_reduce "
    ),
    "layout.complex_parts": (
        "_conj _neg_view aten.conj_copy aten.imag aten.real conj imag real resolve_conj "
        "resolve_neg view_as_complex view_as_real "
    ),
    "layout.grids": (
        "aten.block_diag block_diag cartesian_prod combinations meshgrid unravel_index "
    ),
    "layout.joining": (
        "Tensor.split aten.split aten.split_with_sizes aten.unsafe_split "
        "aten.unsafe_split_with_sizes cat chunk column_stack concat concatenate dstack hstack "
        "row_stack split split_with_sizes stack unbind unsafe_chunk unsafe_split "
        "unsafe_split_with_sizes vstack "
    ),
    "layout.memory": (
        "Tensor.pin_memory Tensor.resize Tensor.resize_ Tensor.resize_as Tensor.set_ "
        "Tensor.share_memory_ is_storage resize_as_ utils.swap_tensors "
    ),
    "layout.queries": (
        "Tensor.dim_order Tensor.is_distributed Tensor.is_nonzero Tensor.is_same_size "
        "Tensor.is_set_to Tensor.storage_type _assert get_device is_complex is_conj "
        "is_distributed is_floating_point is_inference is_neg is_nonzero is_same_size "
        "is_signed is_tensor numel result_type typename "
    ),
    "layout.rearrange": (
        "Tensor.repeat aten.repeat_each diag diag_embed diagflat flip fliplr flipud "
        "repeat_interleave roll rot90 tile tril triu "
    ),
    "layout.regions": (
        "Tensor.to_padded_tensor aten.alias aten.basic_index aten.basic_index_gradient "
        "aten.slice narrow select "
    ),
    "layout.shape": (
        "Tensor.expand Tensor.expand_as Tensor.reshape Tensor.reshape_as Tensor.view "
        "Tensor.view_as adjoint aten._unsafe_view aten.view aten.view_dtype broadcast_shapes "
        "broadcast_tensors broadcast_to flatten moveaxis movedim permute ravel reshape "
        "squeeze swapaxes swapdims t transpose unflatten unsqueeze "
    ),
    "layout.view_scatter": (
        "as_strided_scatter diagonal_scatter select_scatter slice_scatter "
    ),
    "layout.views": (
        "Tensor.as_strided_ Tensor.matrices_H Tensor.matrix_H Tensor.matrix_T Tensor.numpy_T "
        "Tensor.squeeze_ Tensor.swapaxes_ Tensor.swapdims_ Tensor.t_ Tensor.transpose_ "
        "Tensor.unfold Tensor.unsqueeze_ alias_copy as_strided as_strided_copy "
        "aten.as_strided aten.diagonal_gradient aten.laid_out aten.restride aten.row_major "
        "aten.unfold_gradient atleast_1d atleast_2d atleast_3d detach_copy diagonal "
        "diagonal_copy dsplit expand_copy hsplit narrow_copy permute_copy select_copy "
        "slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy tensor_split "
        "transpose_copy unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy "
        "view_as_real_copy view_copy vsplit "
    ),
    "linalg.decompositions": (
        "cholesky geqrf internal.householder_product internal.ormqr internal.unpacked "
        "linalg.cholesky linalg.cholesky_ex linalg.householder_product linalg.ldl_factor "
        "linalg.ldl_factor_ex linalg.ldl_solve linalg.lu linalg.lu_factor linalg.lu_factor_ex "
        "linalg.qr lu lu_unpack orgqr ormqr qr "
    ),
    "linalg.distances": (
        "dist norm renorm "
    ),
    "linalg.einsum": (
        "einsum internal.einsum "
    ),
    "linalg.fft": (
        "fft.fft fft.fft2 fft.fftfreq fft.fftn fft.fftshift fft.hfft fft.hfft2 fft.hfftn "
        "fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.ihfft fft.ihfft2 fft.ihfftn fft.irfft "
        "fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftfreq fft.rfftn internal.c2c "
        "internal.c2r internal.r2c internal.resized "
    ),
    "linalg.grouped": (
        "_grouped_mm nn.functional.grouped_mm "
    ),
    "linalg.least_squares": (
        "linalg.lstsq "
    ),
    "linalg.linalg": (
        "chain_matmul cross eig internal.kron_of_matrices kron linalg.cross linalg.diagonal "
        "linalg.matrix_exp linalg.matrix_power linalg.multi_dot linalg.tensorinv "
        "linalg.tensorsolve linalg.vander linalg.vecdot lobpcg lstsq matrix_exp matrix_power "
        "matrix_rank pca_lowrank solve svd_lowrank symeig tensordot trace vander "
    ),
    "linalg.matmul": (
        "_addmm_activation addbmm addmm addmv addr baddbmm bilinear bmm dot ger inner "
        "internal.adjoint_times internal.all_products internal.products_added "
        "internal.times_adjoint linalg.matmul matmul mm mv nn.functional.bilinear "
        "nn.functional.linear outer vdot "
    ),
    "linalg.norms": (
        "frobenius_norm linalg.cond linalg.matrix_norm linalg.matrix_rank linalg.norm "
        "linalg.vector_norm nuclear_norm "
    ),
    "linalg.pairwise": (
        "_pdist_forward cdist nn.functional.pdist pdist "
    ),
    "linalg.solve": (
        "cholesky_inverse cholesky_solve det internal.cholesky_inverse_ex "
        "internal.cholesky_solved internal.lu_solved internal.pinv internal.solved inverse "
        "linalg.det linalg.inv linalg.inv_ex linalg.lu_solve linalg.pinv linalg.slogdet "
        "linalg.solve linalg.solve_ex linalg.solve_triangular logdet lu_solve pinverse "
        "slogdet triangular_solve "
    ),
    "linalg.spectra": (
        "internal.eigvals internal.eigvalsh internal.svdvals linalg.eig linalg.eigh "
        "linalg.eigvals linalg.eigvalsh linalg.svd linalg.svdvals svd "
    ),
    "linalg.stft": (
        "internal.frames internal.overlap_add istft stft "
    ),
    "nn.activation": (
        "_prelu_kernel celu celu_ hardshrink nn.functional._elu nn.functional._glu "
        "nn.functional._hardsigmoid nn.functional._hardswish nn.functional._hardtanh "
        "nn.functional._leaky_relu nn.functional._logsigmoid nn.functional._mish "
        "nn.functional._silu nn.functional._slope nn.functional._threshold nn.functional.celu "
        "nn.functional.elu nn.functional.elu_ nn.functional.gelu nn.functional.glu "
        "nn.functional.gumbel_softmax nn.functional.hardsigmoid nn.functional.hardswish "
        "nn.functional.hardtanh nn.functional.hardtanh_ nn.functional.leaky_relu "
        "nn.functional.leaky_relu_ nn.functional.logsigmoid nn.functional.mish "
        "nn.functional.relu nn.functional.relu6 nn.functional.rrelu nn.functional.selu "
        "nn.functional.silu nn.functional.softplus nn.functional.softshrink "
        "nn.functional.softsign nn.functional.tanhshrink nn.functional.threshold prelu relu "
        "rrelu rrelu_ selu threshold threshold_ threshold_backward "
    ),
    "nn.adaptive_pool": (
        "adaptive_avg_pool1d adaptive_max_pool1d internal.adaptive_avg_pool1d "
        "internal.adaptive_avg_pool1d_gradient internal.adaptive_avg_pool2d "
        "internal.adaptive_avg_pool2d_gradient internal.adaptive_avg_pool3d "
        "internal.adaptive_avg_pool3d_gradient internal.adaptive_max_pool1d "
        "internal.adaptive_max_pool2d internal.adaptive_max_pool3d "
        "internal.fractional_max_pool2d internal.fractional_max_pool3d internal.max_unpool1d "
        "internal.max_unpool2d internal.max_unpool3d nn.functional.adaptive_avg_pool2d "
        "nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d_with_indices "
        "nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool2d_with_indices "
        "nn.functional.adaptive_max_pool3d nn.functional.adaptive_max_pool3d_with_indices "
        "nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool2d_with_indices "
        "nn.functional.fractional_max_pool3d nn.functional.fractional_max_pool3d_with_indices "
        "nn.functional.lp_pool1d nn.functional.lp_pool2d nn.functional.lp_pool3d "
        "nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d "
    ),
    "nn.attention": (
        "_attention nn.functional.multi_head_attention_forward "
        "nn.functional.scaled_dot_product_attention "
    ),
    "nn.batch_normalize": (
        "_batch_norm batch_norm instance_norm native_batch_norm nn.functional.batch_norm "
        "nn.functional.instance_norm "
    ),
    "nn.conv": (
        "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d "
        "convolution internal.convolution internal.convolution_weight "
    ),
    "nn.ctc": (
        "_ctc_loss _ctc_loss_backward ctc_loss nn.functional.ctc_loss "
    ),
    "nn.dropout": (
        "alpha_dropout dropout feature_alpha_dropout feature_dropout native_dropout "
        "nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout1d "
        "nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout "
    ),
    "nn.embedding": (
        "_embedding _embedding_bag _embedding_sparse embedding embedding_bag "
        "embedding_dense_backward embedding_renorm_ nn.functional.embedding "
        "nn.functional.embedding_bag nn.functional.one_hot "
    ),
    "nn.fake_quantize": (
        "fake_quantize_per_channel_affine fake_quantize_per_tensor_affine "
        "internal.fake_quantize "
    ),
    "nn.fold": (
        "internal.col2im internal.im2col nn.functional.fold nn.functional.unfold "
    ),
    "nn.grid": (
        "affine_grid_generator grid_sampler grid_sampler_2d grid_sampler_3d "
        "internal.affine_grid_gradient internal.grid_sampler_2d_gradient "
        "internal.grid_sampler_3d_gradient internal.grid_taps nn.functional.affine_grid "
        "nn.functional.grid_sample "
    ),
    "nn.loss": (
        "nn.functional._cross_entropy_loss nn.functional._nll_loss "
        "nn.functional._nll_loss_backward nn.functional.cross_entropy "
        "nn.functional.linear_cross_entropy nn.functional.nll_loss "
    ),
    "nn.margin_losses": (
        "cosine_similarity nn.functional._multi_margin_loss "
        "nn.functional._multilabel_margin_loss nn.functional._soft_margin_loss "
        "nn.functional.cosine_embedding_loss nn.functional.hinge_embedding_loss "
        "nn.functional.margin_ranking_loss nn.functional.multi_margin_loss "
        "nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss "
        "nn.functional.pairwise_distance nn.functional.soft_margin_loss "
        "nn.functional.triplet_margin_loss nn.functional.triplet_margin_with_distance_loss "
        "pairwise_distance "
    ),
    "nn.normalize": (
        "_group_norm _layer_norm _native_group_norm _native_layer_norm _rms_norm group_norm "
        "layer_norm native_group_norm native_layer_norm nn.functional.group_norm "
        "nn.functional.layer_norm nn.functional.local_response_norm nn.functional.normalize "
        "nn.functional.rms_norm rms_norm "
    ),
    "nn.numbered_losses": (
        "_weight_norm binary_cross_entropy_with_logits cosine_embedding_loss "
        "hinge_embedding_loss kl_div margin_ranking_loss norm_except_dim poisson_nll_loss "
        "triplet_margin_loss "
    ),
    "nn.pad": (
        "constant_pad_nd internal.circular_pad1d internal.circular_pad1d_gradient "
        "internal.circular_pad2d internal.circular_pad2d_gradient internal.circular_pad3d "
        "internal.circular_pad3d_gradient internal.reflection_pad1d "
        "internal.reflection_pad1d_gradient internal.reflection_pad2d "
        "internal.reflection_pad2d_gradient internal.reflection_pad3d "
        "internal.reflection_pad3d_gradient internal.replication_pad1d "
        "internal.replication_pad1d_gradient internal.replication_pad2d "
        "internal.replication_pad2d_gradient internal.replication_pad3d "
        "internal.replication_pad3d_gradient nn.functional.pad "
    ),
    "nn.pool": (
        "avg_pool1d internal.add_at_indices internal.avg_pool1d internal.avg_pool1d_gradient "
        "internal.avg_pool2d internal.avg_pool2d_gradient internal.avg_pool3d "
        "internal.avg_pool3d_gradient internal.max_pool1d internal.max_pool1d_with_indices "
        "internal.max_pool2d internal.max_pool2d_with_indices internal.max_pool3d "
        "internal.max_pool3d_with_indices internal.take_at_indices max_pool1d "
        "max_pool1d_with_indices max_pool2d max_pool3d nn.functional.avg_pool2d "
        "nn.functional.avg_pool3d nn.functional.max_pool2d_with_indices "
        "nn.functional.max_pool3d_with_indices "
    ),
    "nn.recurrent": (
        "_recurrent_layer gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh "
        "rnn_tanh_cell "
    ),
    "nn.regression_losses": (
        "nn.functional._bce_with_logits nn.functional._binary_cross_entropy "
        "nn.functional._huber_loss nn.functional._mse_loss "
        "nn.functional._reduced_bce_with_logits nn.functional._reduced_binary_cross_entropy "
        "nn.functional._reduced_huber_loss nn.functional._reduced_smooth_l1_loss "
        "nn.functional._reduced_soft_margin_loss nn.functional._smooth_l1_loss "
        "nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits "
        "nn.functional.gaussian_nll_loss nn.functional.huber_loss nn.functional.kl_div "
        "nn.functional.l1_loss nn.functional.mse_loss nn.functional.poisson_nll_loss "
        "nn.functional.smooth_l1_loss "
    ),
    "nn.resample": (
        "internal._upsample_bicubic2d_aa internal._upsample_bicubic2d_aa_gradient "
        "internal._upsample_bilinear2d_aa internal._upsample_bilinear2d_aa_gradient "
        "internal._upsample_lanczos2d_aa internal._upsample_lanczos2d_aa_gradient "
        "internal._upsample_nearest_exact1d internal._upsample_nearest_exact1d_gradient "
        "internal._upsample_nearest_exact2d internal._upsample_nearest_exact2d_gradient "
        "internal._upsample_nearest_exact3d internal._upsample_nearest_exact3d_gradient "
        "internal.upsample_bicubic2d internal.upsample_bicubic2d_gradient "
        "internal.upsample_bilinear2d internal.upsample_bilinear2d_gradient "
        "internal.upsample_linear1d internal.upsample_linear1d_gradient "
        "internal.upsample_nearest1d internal.upsample_nearest1d_gradient "
        "internal.upsample_nearest2d internal.upsample_nearest2d_gradient "
        "internal.upsample_nearest3d internal.upsample_nearest3d_gradient "
        "internal.upsample_trilinear3d internal.upsample_trilinear3d_gradient "
        "nn.functional.interpolate nn.functional.upsample nn.functional.upsample_bilinear "
        "nn.functional.upsample_nearest "
    ),
    "nn.shuffle": (
        "channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle "
    ),
    "nn.softmax": (
        "_log_softmax _log_softmax_backward_data _softmax _softmax_backward_data log_softmax "
        "nn.functional.log_softmax nn.functional.softmax nn.functional.softmin softmax "
        "special.log_softmax special.softmax "
    ),
    "pointwise.apply": (
        "Tensor.apply_ Tensor.map2_ Tensor.map_ "
    ),
    "pointwise.binary": (
        "_lerp_half _load_exponent addcdiv addcmul arctan2 atan2 copysign gcd heaviside hypot "
        "lcm ldexp lerp logaddexp logaddexp2 nextafter "
    ),
    "pointwise.bitwise": (
        "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
        "bitwise_xor "
    ),
    "pointwise.bounds": (
        "_clamp_max_tensor _clamp_min_tensor _clamp_tensors clamp clamp_max clamp_min clip "
        "fmax fmin maximum minimum "
    ),
    "pointwise.comparison": (
        "Tensor._eq_written Tensor._ge_written Tensor._gt_written Tensor._le_written "
        "Tensor._lt_written Tensor._ne_written _close allclose eq equal ge greater "
        "greater_equal gt isclose isfinite isinf isnan isneginf isposinf isreal le less "
        "less_equal logical_and logical_not logical_or logical_xor lt ne not_equal signbit "
    ),
    "pointwise.elementwise": (
        "Tensor.__div__ Tensor.__idiv__ Tensor.__rdiv__ Tensor.__rtruediv__ "
        "Tensor.float_power_ _add_scaled _div_half _div_rounded _div_rounded_half "
        "_floor_divide_half _mul_half _rsub_scaled _square_bool _sub_scaled add div divide "
        "float_power floor_divide fmod mul multiply neg negative positive pow reciprocal "
        "remainder rsub square sub subtract true_divide "
    ),
    "pointwise.foreach": (
        "_foreach_abs _foreach_abs_ _foreach_acos _foreach_acos_ _foreach_add _foreach_add_ "
        "_foreach_addcdiv _foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_ _foreach_asin "
        "_foreach_asin_ _foreach_atan _foreach_atan_ _foreach_ceil _foreach_ceil_ "
        "_foreach_clamp_max _foreach_clamp_max_ _foreach_clamp_min _foreach_clamp_min_ "
        "_foreach_clone _foreach_copy_ _foreach_cos _foreach_cos_ _foreach_cosh "
        "_foreach_cosh_ _foreach_div _foreach_div_ _foreach_erf _foreach_erf_ _foreach_erfc "
        "_foreach_erfc_ _foreach_exp _foreach_exp_ _foreach_expm1 _foreach_expm1_ "
        "_foreach_floor _foreach_floor_ _foreach_frac _foreach_frac_ _foreach_lerp "
        "_foreach_lerp_ _foreach_lgamma _foreach_lgamma_ _foreach_log _foreach_log10 "
        "_foreach_log10_ _foreach_log1p _foreach_log1p_ _foreach_log2 _foreach_log2_ "
        "_foreach_log_ _foreach_max _foreach_maximum _foreach_maximum_ _foreach_minimum "
        "_foreach_minimum_ _foreach_mul _foreach_mul_ _foreach_neg _foreach_neg_ "
        "_foreach_norm _foreach_pow _foreach_pow_ _foreach_reciprocal _foreach_reciprocal_ "
        "_foreach_round _foreach_round_ _foreach_rsqrt _foreach_rsqrt_ _foreach_sigmoid "
        "_foreach_sigmoid_ _foreach_sign _foreach_sign_ _foreach_sin _foreach_sin_ "
        "_foreach_sinh _foreach_sinh_ _foreach_sqrt _foreach_sqrt_ _foreach_sub _foreach_sub_ "
        "_foreach_tan _foreach_tan_ _foreach_tanh _foreach_tanh_ _foreach_trunc "
        "_foreach_trunc_ _foreach_zero_ "
    ),
    "pointwise.special": (
        "Tensor.polygamma Tensor.polygamma_ digamma erf erfc erfinv i0 igamma igammac lgamma "
        "mvlgamma polygamma special.airy_ai special.bessel_j0 special.bessel_j1 "
        "special.bessel_y0 special.bessel_y1 special.chebyshev_polynomial_t "
        "special.chebyshev_polynomial_u special.chebyshev_polynomial_v "
        "special.chebyshev_polynomial_w special.digamma special.entr special.erf special.erfc "
        "special.erfcx special.erfinv special.gammainc special.gammaincc special.gammaln "
        "special.hermite_polynomial_h special.hermite_polynomial_he special.i0 special.i0e "
        "special.i1 special.i1e special.laguerre_polynomial_l special.legendre_polynomial_p "
        "special.log_ndtr special.modified_bessel_i0 special.modified_bessel_i1 "
        "special.modified_bessel_k0 special.modified_bessel_k1 special.multigammaln "
        "special.ndtr special.ndtri special.polygamma special.psi "
        "special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 "
        "special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u "
        "special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w "
        "special.spherical_bessel_j0 special.xlog1py special.xlogy special.zeta xlogy "
    ),
    "pointwise.unary": (
        "Tensor.abs_ Tensor.absolute_ _conjugates _round_decimals abs absolute acos acosh "
        "angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil "
        "conj_physical cos cosh deg2rad exp exp2 expm1 fix floor frac frexp log log10 log1p "
        "log2 logit nan_to_num rad2deg round rsqrt sgn sigmoid sign sin sinc sinh "
        "special.exp2 special.expit special.expm1 special.log1p special.logit special.round "
        "special.sinc sqrt tan tanh trunc "
    ),
    "reductions.differences": (
        "cumulative_trapezoid diff gradient trapezoid trapz "
    ),
    "reductions.extremes": (
        "_all.max _all.min _dim.max _dim.min amax amin aminmax argmax argmin hash_tensor max "
        "min "
    ),
    "reductions.histograms": (
        "_all.histogramdd _all.histogramdd_of_counts bincount histc histogram histogramdd "
    ),
    "reductions.reduce": (
        "Tensor.sum_to_size _all.expand _all.sum_to_size all any count_nonzero logsumexp mean "
        "nanmean nansum prod special.logsumexp sum "
    ),
    "reductions.scan": (
        "_all.segment_table _segment_reduce cummax cummin cumprod cumsum logcumsumexp "
        "segment_reduce "
    ),
    "reductions.sorting": (
        "_all.isin _all.searchsorted _all.unique argsort bucketize isin msort searchsorted "
        "sort topk unique unique_consecutive "
    ),
    "reductions.statistics": (
        "_all.median _all.nanmedian _dim.median _dim.nanmedian _pair.std_mean _pair.var_mean "
        "corrcoef cov kthvalue median mode nanmedian nanquantile quantile std std_mean var "
        "var_mean "
    ),
    "sparse.calls": (
        "_sparse.add _sparse.add_dense _sparse.sum "
    ),
    "sparse.compressed": (
        "_sparse.sum_keepdim _sparse.transpose_compressed _sparse.triangular_solve "
    ),
    "sparse.compressed_creation": (
        "_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo "
        "_validate_sparse_bsc_tensor_args _validate_sparse_bsr_tensor_args "
        "_validate_sparse_compressed_tensor_args _validate_sparse_csc_tensor_args "
        "_validate_sparse_csr_tensor_args sparse_bsc_tensor sparse_bsr_tensor "
        "sparse_compressed_tensor sparse_csc_tensor sparse_csr_tensor "
    ),
    "sparse.conversions": (
        "Tensor.to_dense Tensor.to_sparse Tensor.to_sparse_bsc Tensor.to_sparse_bsr "
        "Tensor.to_sparse_coo Tensor.to_sparse_csc Tensor.to_sparse_csr "
    ),
    "sparse.coordinates": (
        "_sparse_broadcast_to "
    ),
    "sparse.creation": (
        "_validate_sparse_coo_tensor_args sparse_coo_tensor "
    ),
    "sparse.methods": (
        "Tensor._coalesced_ Tensor._dimI Tensor._dimV Tensor._indices Tensor._nnz "
        "Tensor._values Tensor.ccol_indices Tensor.coalesce Tensor.col_indices "
        "Tensor.crow_indices Tensor.dense_dim Tensor.indices Tensor.is_coalesced "
        "Tensor.row_indices Tensor.sparse_dim Tensor.sparse_mask Tensor.sparse_resize_ "
        "Tensor.sparse_resize_and_clear_ Tensor.values ccol_indices_copy col_indices_copy "
        "crow_indices_copy indices_copy resize_as_sparse_ row_indices_copy values_copy "
    ),
    "sparse.operators": (
        "_sparse.assemble _sparse.assemble_compressed _sparse.coalesce _sparse.compress "
        "_sparse.coo_of _sparse.taken _sparse.to_dense _sparse.to_sparse _sparse.values_of "
        "_sparse.values_view "
    ),
    "sparse.products": (
        "_sparse.addmm _sparse.adjoint_mm _sparse.dense_addmm _sparse.dense_addmm_masked "
        "_sparse.dense_mm _sparse.mm _sparse.mm_sparse _sparse.mm_sparse_masked _sparse.mv "
        "_sparse.sampled dsmm hsmm hspmm saddmm smm spmm sspaddmm "
    ),
    "sparse.shapes": (
        "_sparse.permute "
    ),
}

# methods beside those of `Tensor.`: of the function of the same name
SAME = (
    "_addmm_activation _conj _neg_view abs absolute acos acosh add addbmm addcdiv addcmul "
    "addmm addmv addr adjoint all allclose amax amin aminmax angle any arccos arccosh "
    "arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere as_strided "
    "as_strided_scatter asin asinh atan atan2 atanh baddbmm bernoulli bincount "
    "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
    "bitwise_xor bmm broadcast_to ceil celu cholesky cholesky_inverse cholesky_solve "
    "chunk clamp clamp_max clamp_min clip clone combinations conj conj_physical copysign "
    "corrcoef cos cosh count_nonzero cov cross cummax cummin cumprod cumsum deg2rad det "
    "diag diag_embed diagflat diagonal diagonal_scatter diff digamma dist div divide dot "
    "dsplit eig eq equal erf erfc erfinv exp exp2 expm1 fill_ fix flatten flip fliplr "
    "flipud float_power floor floor_divide fmax fmin fmod frac frexp gather gcd ge geqrf "
    "ger greater greater_equal gt hardshrink hash_tensor heaviside histc histogram hsplit "
    "hypot i0 igamma igammac index_add index_copy index_fill index_put index_reduce "
    "index_select inner inverse isclose isfinite isinf isnan isneginf isposinf isreal "
    "istft kron kthvalue lcm ldexp le lerp less less_equal lgamma log log10 log1p log2 "
    "log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not "
    "logical_or logical_xor logit logsumexp lstsq lt lu lu_solve masked_fill "
    "masked_scatter masked_select matmul matrix_exp matrix_power max maximum mean median "
    "min minimum mm mode moveaxis movedim msort mul multinomial multiply mv mvlgamma "
    "nan_to_num nanmean nanmedian nanquantile nansum narrow narrow_copy ne neg negative "
    "nextafter nonzero nonzero_static norm not_equal orgqr ormqr outer permute pinverse "
    "positive pow prelu prod put qr quantile rad2deg ravel reciprocal relu remainder "
    "renorm repeat_interleave resize_as_ resize_as_sparse_ resolve_conj resolve_neg roll "
    "rot90 round rsqrt scatter scatter_add scatter_reduce select select_scatter selu sgn "
    "sigmoid sign signbit sin sinc sinh slice_scatter slogdet smm softmax solve sort "
    "split_with_sizes sqrt square squeeze sspaddmm std stft sub subtract sum svd swapaxes "
    "swapdims symeig t take take_along_dim tan tanh tensor_split tile topk trace "
    "transpose triangular_solve tril triu true_divide trunc unbind unflatten unique "
    "unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze var "
    "vdot vsplit xlogy zero_ "
)

# operators under `Tensor.` that are no methods
NO_METHODS = (
    "Tensor._eq_written Tensor._ge_written Tensor._gt_written Tensor._le_written "
    "Tensor._lt_written Tensor._ne_written Tensor._sample_dirichlet_draw "
    "Tensor.bernoulli_draw Tensor.bernoulli_from Tensor.bernoulli_number "
    "Tensor.bernoulli_tensor Tensor.binomial_draw Tensor.cauchy Tensor.copy "
    "Tensor.exponential Tensor.fill_diagonal Tensor.fill_number Tensor.fill_number_ "
    "Tensor.fill_tensor Tensor.fill_tensor_ Tensor.geometric Tensor.log_normal "
    "Tensor.normal Tensor.normal_1 Tensor.normal_2 Tensor.normal_3 Tensor.poisson_draw "
    "Tensor.random_0 Tensor.random_1 Tensor.random_2 Tensor.standard_gamma_draw "
    "Tensor.uniform Tensor.zero "
)

# operators that have an in-place form
WRITERS = (
    "acos acosh add addbmm addcdiv addcmul addmm addmv addr alpha_dropout arccos arccosh "
    "arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh "
    "aten.masked_fill_tensor baddbmm bitwise_and bitwise_left_shift bitwise_not "
    "bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min clip "
    "conj_physical copysign cos cosh cumprod cumsum deg2rad digamma div divide dropout eq "
    "erf erfc erfinv exp exp2 expm1 feature_alpha_dropout feature_dropout fix floor "
    "floor_divide fmod frac gcd ge greater greater_equal gt heaviside hypot i0 igamma "
    "igammac index_add index_copy index_reduce lcm ldexp le lerp less less_equal lgamma "
    "log log10 log1p log2 logical_and logical_not logical_or logical_xor logit lt "
    "masked_scatter mul multiply mvlgamma nan_to_num ne neg negative nextafter "
    "nn.functional._elu nn.functional._hardsigmoid nn.functional._hardswish "
    "nn.functional._hardtanh nn.functional._leaky_relu nn.functional._mish "
    "nn.functional._silu nn.functional._threshold not_equal pow put rad2deg reciprocal "
    "relu remainder renorm round rsqrt scatter_add scatter_reduce selu sgn sigmoid sign "
    "sin sinc sinh sqrt square sub subtract tan tanh tril triu true_divide trunc xlogy "
)

# PyTorch's methods and attributes that are not here: docs/coverage.md says why
ABSENT = (
    "const_data_ptr dequantize grad_dtype index int_repr is_maia module_load "
    "q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale "
    "q_zero_point qscheme record_stream reinforce slice_inverse to_mkldnn volatile "
)


def spread(table: dict[str, str]) -> dict[str, str]:
    return {name: target for target, names in table.items() for name in names.split()}


FUNCTIONS = spread(FUNCTIONS)
NO_METHODS = {*NO_METHODS.split()}
OF_TENSOR = [path[7:] for path in FUNCTIONS if path[:7] == "Tensor." and path not in NO_METHODS]
METHODS = {name: f"Tensor.{name}" for name in OF_TENSOR} | {name: name for name in SAME.split()}
INPLACE = {path.rpartition(".")[2] + "_": path for path in WRITERS.split()}

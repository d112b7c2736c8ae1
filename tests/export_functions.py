"""Functions, and the operators of ATen that an exported program has for them in PyTorch 2.13."""

LEFT_OUT = ("lift_fresh_copy.default", "detach_.default", "_assert_tensor_metadata.default")

# what is exported, of `torch`, `F` (torch.nn.functional) and a tensor `x` of shape [1, 2, 4, 4] -> the operators
FUNCTIONS = {
    # losses
    "F.mse_loss(x, x + 1)": "add.Tensor broadcast_tensors.default mse_loss.default",
    "F.huber_loss(x, x, delta=0.5)": "broadcast_tensors.default huber_loss.default",
    "F.cross_entropy(x[0], x[0])": "select.int select.int cross_entropy_loss.default",
    "F.nll_loss(x[0, 0], torch.arange(4))": "select.int select.int arange.default nll_loss_nd.default",
    "F.kl_div(x, x, reduction='batchmean')": "kl_div.default div.Tensor",
    "F.binary_cross_entropy_with_logits(x, x, reduction='none')": "binary_cross_entropy_with_logits.default",
    "F.hinge_embedding_loss(x, x, margin=0.5)": "hinge_embedding_loss.default",
    "F.poisson_nll_loss(x, x)": "poisson_nll_loss.default",
    "F.triplet_margin_loss(x, x, x)": "triplet_margin_loss.default",
    # windows
    "F.max_pool2d(x, 3, 2, 1)": "max_pool2d.default",
    "F.max_pool2d(x, 2, return_indices=True)": "max_pool2d_with_indices.default",
    "F.max_pool1d(x[0], 2)": "select.int max_pool1d.default",
    "F.adaptive_max_pool2d(x, 2)": "adaptive_max_pool2d.default",
    "F.adaptive_max_pool1d(x[0], 2)": "select.int adaptive_max_pool1d.default",
    "F.fractional_max_pool2d(x, 2, 3).relu()": "rand.default fractional_max_pool2d.default relu.default",
    "F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)": "max_pool2d_with_indices.default max_unpool2d.default",
    "F.max_unpool1d(*F.max_pool1d(x[0], 2, return_indices=True), 2)": (
        "select.int max_pool1d_with_indices.default unsqueeze.default unsqueeze.default max_unpool2d.default squeeze.dim"
    ),
    "torch.stft(x[0, 0], 4, 2, return_complex=True, center=False)": "select.int select.int stft.default",
    "x.unfold(2, 2, 1)": "unfold.default",
    "torch.as_strided_copy(x, (2, 2), (1, 1))": "as_strided_copy.default",
    "F.unfold(x, 2)": "im2col.default",
    "F.fold(x.reshape(1, 8, 4), (4, 4), 2, stride=2)": "reshape.default col2im.default",
    # sizes
    "F.interpolate(x, scale_factor=2)": "upsample_nearest2d.vec",
    "F.interpolate(x, size=(8, 6), mode='bilinear')": "upsample_bilinear2d.vec",
    "F.interpolate(x, scale_factor=(2.0, 1.5), mode='bilinear', align_corners=True)": "upsample_bilinear2d.vec",
    "F.interpolate(x, size=6, mode='bicubic')": "upsample_bicubic2d.vec",
    "F.interpolate(x, size=3, mode='bilinear', antialias=True)": "_upsample_bilinear2d_aa.vec",
    "F.interpolate(x, size=3, mode='nearest-exact')": "_upsample_nearest_exact2d.vec",
    "F.interpolate(x, size=2, mode='area')": "adaptive_avg_pool2d.default",
    "F.interpolate(x[0], size=6, mode='linear')": "select.int upsample_linear1d.vec",
    "F.grid_sample(x, x.reshape(1, 4, 4, 2), 'nearest', 'border', True)": "reshape.default grid_sampler.default",
    # elements
    "F.logsigmoid(x)": "log_sigmoid.default",
    "F.dropout2d(x, 0.0, True)": "feature_dropout.default",
    "F.softmax(x, -1)": "softmax.int",
    "x.log_softmax(1)": "log_softmax.int",
    "torch.lerp(x, x, 0.3)": "lerp.Scalar",
    "torch.float_power(x, 2)": "float_power.Tensor_Scalar",
    "torch.copysign(x, -1.0)": "copysign.Scalar",
    "torch.where(x > 0, x, 0.0)": "gt.Scalar where.ScalarOther",
    "x.round(decimals=2)": "round.decimals",
    "torch.rsub(x, x)": "rsub.Tensor",
    "torch.max(x, x * 2)": "mul.Tensor max.other",
    # reductions
    "x.norm()": "linalg_vector_norm.default",
    "torch.norm(x, p=1, dim=(1, 2), keepdim=True)": "linalg_vector_norm.default",
    "F.normalize(x)": "linalg_vector_norm.default clamp_min.default expand_as.default div.Tensor",
    "x.nansum(1)": "nansum.default",
    "x.var(1)": "var.dim",
    "x.var(1, correction=0)": "var.correction",
    "x.quantile(0.5)": "quantile.scalar",
    "torch.trapezoid(x)": "trapezoid.dx",
    "x.count_nonzero((0, 1))": "count_nonzero.dim_IntList",
    "torch.histogram(x, 3)[0]": "histogram.bin_ct",
    "torch.linalg.matrix_norm(x)": "linalg_matrix_norm.str_ord",
    "torch.linalg.norm(x[0, 0], 2)": "select.int select.int linalg_norm.default",
    "torch.linalg.matrix_rank(x)": "linalg_matrix_rank.atol_rtol_tensor",
    "torch.linalg.matrix_rank(x, 0.1)": "linalg_matrix_rank.default",
    "torch.linalg.pinv(x, rtol=0.1)": "linalg_pinv.atol_rtol_float",
    "torch.linspace(x.sum(), 2, 3)": "sum.default linspace.Tensor_Scalar",
    # shapes
    "x.flatten(1)": "flatten.using_ints",
    "x.unflatten(1, (1, 2))": "unflatten.int",
    "x.movedim(1, -1)": "movedim.int",
    "torch.movedim(x, (0, 1), (1, 0))": "movedim.intlist",
    "x.tensor_split(2, 1)[0]": "tensor_split.sections",
    "x.tensor_split([1, 3], 2)[1]": "tensor_split.indices",
    "torch.vsplit(x[0, 0], 2)[1]": "select.int select.int vsplit.int",
    "x.tensor_split(torch.tensor(2), 1)[1]": "tensor_split.tensor_indices_or_sections",
    "torch.squeeze_copy(x, 0)": "squeeze_copy.dim",
    "torch.roll(x, 1)": "roll.default",
    "x.repeat_interleave(2, 1)": "repeat_interleave.self_int",
    "torch.as_strided(x, (2, 2), (1, 2))": "as_strided.default",
    "torch.broadcast_tensors(x, x[..., :1])[1]": "slice.Tensor broadcast_tensors.default",
    "torch.block_diag(x[0, 0], x[0, 1])": "select.int select.int select.int select.int block_diag.default",
    "torch.scatter(x, 1, torch.zeros(1, 1, 4, 4, dtype=torch.long), 1.0)": "zeros.default scatter.value",
    "x.sort(dim=1, stable=True)[0]": "sort.stable",
    # products
    "torch.tensordot(x, x, dims=([1], [1]))": "tensordot.default",
    "torch.einsum('bchw,bcdw->bhd', x, x)": "einsum.default",
    "F.conv2d(x, x[0].reshape(1, 2, 4, 4), padding='same')": "select.int reshape.default conv2d.padding",
    "F.conv2d(x, x, padding=1, stride=2)": "conv2d.default",
    "torch.cdist(x, x, compute_mode='use_mm_for_euclid_dist')": "cdist.default",
    "F.adaptive_avg_pool2d(x, (None, 2))": "adaptive_avg_pool2d.default",
    "F.conv_transpose2d(x, x.reshape(2, 1, 4, 4))": "reshape.default conv_transpose2d.input",
    "F.embedding_bag(torch.arange(4)[None], x[0, 0])": (
        "arange.default unsqueeze.default select.int select.int arange.start_step reshape.default embedding_bag.padding_idx"
    ),
}


def operators(torch, source, x):
    """(The exported program of one of these with the input `x`, the names of its operators)."""

    class Program(torch.nn.Module):
        def forward(self, x):
            return eval(source, {"torch": torch, "F": torch.nn.functional, "x": x})

    program = torch.export.export(Program(), (x,))
    targets = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    names = [t.removeprefix("aten.") for t in targets if "getitem" not in t]
    return program, " ".join(name for name in names if name not in LEFT_OUT)

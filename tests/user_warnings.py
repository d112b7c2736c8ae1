"""Warnings of calls that users get wrong, or that will go away: a program, the class of the warning, and a part of its text.

`test_user_warnings.py` runs the programs here, `oracle/test_user_warnings_oracle.py` on PyTorch. A program finds `torch`, `nn` and
`F`; `x`, a tensor that requires a gradient; and `layer`, a Linear. Each row is the only warning of its program.
"""

from __future__ import annotations

# (name, program, class, part of the text)
ROWS = [
    ("float of a tensor with a gradient", "float(x.sum())",
     "UserWarning", "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior"),
    ("math of a tensor with a gradient", "import math; math.sqrt(x.sum())",
     "UserWarning", "Consider using tensor.detach() first."),
    ("copy_ of complex numbers", "torch.ones(2).copy_(torch.ones(2, dtype=torch.complex64))",
     "UserWarning", "Casting complex values to real discards the imaginary part"),
    ("where of bytes", "torch.where(torch.tensor([1, 0], dtype=torch.uint8), 1.0, 2.0)",
     "UserWarning", "where received a uint8 condition tensor. This behavior is deprecated"),
    ("scatter with reduce", "torch.ones(3).scatter(0, torch.tensor([0]), torch.ones(1), reduce='add')",
     "UserWarning", "The reduce argument of torch.scatter with Tensor src is deprecated"),
    ("scatter_ with reduce", "torch.ones(3).scatter_(0, torch.tensor([0]), torch.ones(1), reduce='multiply')",
     "UserWarning", "Use torch.scatter_reduce instead for more reduction options"),
    ("istft without a window", "torch.istft(torch.ones(3, 5, dtype=torch.complex64), 4)",
     "UserWarning", "A window was not provided. A rectangular window will be applied.Please provide the same window"),
    ("padding same of an even kernel", "F.conv1d(torch.ones(1, 1, 4), torch.ones(1, 1, 2), padding='same')",
     "UserWarning", "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy"),
    ("gumbel_softmax with eps", "F.gumbel_softmax(torch.ones(2, 3), eps=1e-3)",
     "UserWarning", "`eps` parameter is deprecated and has no effect."),
    ("volatile", "torch.autograd.Variable(torch.ones(2), volatile=True)",
     "UserWarning", "volatile was removed and now has no effect."),
    ("checkpoint without gradients", "torch.utils.checkpoint.checkpoint(torch.exp, torch.ones(2), use_reentrant=True)",
     "UserWarning", "None of the inputs have requires_grad=True. Gradients will be None"),
    ("checkpoint_sequential", "torch.utils.checkpoint.checkpoint_sequential(nn.Sequential(layer), 1, x)",
     "UserWarning", "checkpoint_sequential: the use_reentrant parameter should be passed explicitly."),
    ("autocast for CUDA", "torch.autocast('cuda')",
     "UserWarning", "CUDA is not available or torch_xla is imported. Disabling autocast."),
    ("custom_fwd of torch.cuda.amp", "torch.cuda.amp.custom_fwd(lambda ctx: None)",
     "FutureWarning", "`torch.cuda.amp.custom_fwd(args...)` is deprecated."),
    ("custom_bwd of torch.cuda.amp", "torch.cuda.amp.custom_bwd(lambda ctx: None)",
     "FutureWarning", "`torch.cuda.amp.custom_bwd(args...)` is deprecated."),
    ("profile of CUDA", "P = torch.profiler.ProfilerActivity\nwith torch.profiler.profile(activities=[P.CPU, P.CUDA]): pass",
     "UserWarning", "CUDA is not available, disabling CUDA profiling"),
    ("FloatTensor of indices, sparse", "torch.sparse.FloatTensor(torch.tensor([[0], [1]]), torch.ones(1), (2, 2))",
     "UserWarning", "torch.sparse.SparseTensor(indices, values, shape, *, device=) is deprecated."),
    ("FloatTensor of sizes, sparse", "torch.sparse.FloatTensor(2, 3)",
     "UserWarning", "torch.sparse.SparseTensor(shape, *, device=) is deprecated."),
    ("storage", "torch.ones(2).storage()",
     "UserWarning", "TypedStorage is deprecated. It will be removed in the future"),
    ("FloatStorage", "torch.FloatStorage(2)",
     "UserWarning", "UntypedStorage will be the only storage class"),
    ("encoder that is not batch_first", "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 1)",
     "UserWarning", "enable_nested_tensor is True, but self.use_nested_tensor is False because encoder_layer.self_attn.batch_first was"),
    ("encoder with norm_first", "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, batch_first=True, norm_first=True), 1)",
     "UserWarning", "because encoder_layer.norm_first was True"),
    ("encoder with odd heads", "nn.TransformerEncoder(nn.TransformerEncoderLayer(3, 3, batch_first=True), 1)",
     "UserWarning", "because encoder_layer.self_attn.num_heads is odd"),
    ("encoder without bias", "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, batch_first=True, bias=False), 1)",
     "UserWarning", "because encoder_layer.self_attn was passed bias=False"),
    ("encoder with tanh", "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, batch_first=True, activation=torch.tanh), 1)",
     "UserWarning", "because encoder_layer.activation_relu_or_gelu was not True"),
    ("full backward hook without gradients", "layer.register_full_backward_hook(lambda *a: None)\nlayer(x.detach()).sum().backward()",
     "UserWarning", "Full backward hook is firing when gradients are computed with respect to module outputs"),
    ("older backward hook of several nodes", "layer.register_backward_hook(lambda *a: None)\nlayer(x).sum().backward()",
     "FutureWarning", "Using a non-full backward hook when the forward contains multiple autograd Nodes"),
    ("older backward hook of several results", ("m = nn.Identity()\nm.forward = lambda x: (x * 2, x + 1)\n"
     "m.register_backward_hook(lambda *a: None)\nm(x)[0].sum().backward()"),
     "FutureWarning", "Using a non-full backward hook when outputs are generated by different autograd Nodes"),
    ("older backward hook of a dictionary", ("m = nn.Identity()\nm.forward = lambda x: {'y': x * 2}\n"
     "m.register_backward_hook(lambda *a: None)\nm(x)['y'].sum().backward()"),
     "FutureWarning", "on a Module that does not return a single Tensor or a tuple of Tensors is deprecated"),
    ("older backward hook of a list", ("m = nn.Identity()\nm.forward = lambda xs: xs[0] * 2\n"
     "m.register_backward_hook(lambda *a: None)\nm([x]).sum().backward()"),
     "FutureWarning", "on a Module that does not take as input a single Tensor or a tuple of Tensors is deprecated"),
    ("scheduler before optimizer", "o = torch.optim.SGD([x], 0.1)\ns = torch.optim.lr_scheduler.StepLR(o, 1)\ns.step()",
     "UserWarning", "Detected call of `lr_scheduler.step()` before `optimizer.step()`."),
    ("sizes of mse_loss", "F.mse_loss(torch.ones(3, 1), torch.ones(3))",
     "UserWarning", "Using a target size (torch.Size([3])) that is different to the input size (torch.Size([3, 1]))."),
    ("softmax without a dimension", "F.softmax(torch.ones(2, 3))",
     "UserWarning", "Implicit dimension choice for softmax has been deprecated."),
    ("tensor of a tensor", "torch.tensor(torch.ones(2))",
     "UserWarning", "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone()"),
    ("gradient of what is no leaf", "(x * 2).grad",
     "UserWarning", "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed."),
    ("dropout of one layer", "nn.LSTM(2, 3, dropout=0.5)",
     "UserWarning", "dropout option adds dropout after all but last recurrent layer"),
    ("meshgrid without indexing", "torch.meshgrid(torch.arange(2), torch.arange(3))",
     "UserWarning", "it will be required to pass the indexing argument"),
    ("too many workers", "torch.utils.data.DataLoader([1], num_workers=1000)",
     "UserWarning", "This DataLoader will create 1000 worker processes in total."),
]  # fmt: skip
QUIET = [
    "float(x.detach().sum())", "int(x.sum())", "x.sum().item()", "torch.ones(2, dtype=torch.complex64).copy_(x.detach())",
    "nn.LazyLinear(3)", "layer.register_full_backward_hook(lambda *a: None)\nlayer(x).sum().backward()",
    "m = nn.Identity()\nm.forward = torch.exp\nm.register_backward_hook(lambda *a: None)\nm(x * 2).sum().backward()",
    "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, batch_first=True), 1)",
    "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 1, enable_nested_tensor=False)",
    "torch.ones(2).untyped_storage()", "torch.save(x, __import__('io').BytesIO())", "__import__('copy').deepcopy(x)",
    "F.conv1d(torch.ones(1, 1, 4), torch.ones(1, 1, 3), padding='same')",
]  # fmt: skip


# Programs whose only warning is at the line that calls, not inside the package.
AT_THE_CALL = [
    "torch.tensor([numpy.ones(2), numpy.ones(2)])",
    "torch.tensor([numpy.ones(2), numpy.ones(2)], dtype=torch.float32)",
    "torch.as_tensor([numpy.ones(2), numpy.ones(2)])",
    "torch.tensor(x.detach())",
    "x.detach().new_tensor(x.detach())",
    "torch.ones(2, 3, 4).T",
    "torch.ones(1).std()",
    "torch.var(torch.ones(1), 0)",
    "torch.add(torch.ones(2), 1, out=torch.ones(3))",
    "torch.searchsorted(torch.ones(2, 3).T, torch.ones(3, 2))",
    "torch.istft(torch.ones(3, 5, dtype=torch.complex64), 4)",
    "torch.range(0, 2)",
    "(x * 2).grad",
    "F.mse_loss(torch.ones(2), torch.ones(2, 1))",
    "F.softmax(torch.ones(2, 2))",
]


def warnings_of(torch, program: str) -> list[tuple[str, str]]:
    """(class, text) of each warning of a program."""
    return [(w.category.__name__, str(w.message)) for w in caught_of(torch, program)]


def caught_of(torch, program: str) -> list:
    """Each warning of a program, as `warnings` records it: a program's own lines are in the file "<program>"."""
    import warnings

    import numpy

    names = {
        "numpy": numpy,
        "torch": torch,
        "nn": torch.nn,
        "F": torch.nn.functional,
        "x": torch.ones(2, requires_grad=True),
        "layer": torch.nn.Linear(2, 2),
    }
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            exec(compile(program, "<program>", "exec"), names)
    finally:
        torch.set_warn_always(before)
    return caught

"""Which undocumented names of PyTorch's modules there are, without what they mean.

Programs write `from torch.nn.modules.transformer import _get_clones`. Where a module is PyTorch's, `add` lets it answer to the names
of its row; what they mean stands in `private_api`, which is loaded when the first of them is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

# PyTorch's module -> the additional names
NAMES = {
    "torch.nn.modules.module": (
        "_IncompatibleKeys _addindent _global_backward_hooks _global_backward_pre_hooks "
        "_global_forward_hooks _global_forward_pre_hooks _has_any_global_hook "
        "_global_buffer_registration_hooks _global_module_registration_hooks _global_parameter_registration_hooks"
    ),
    "torch.nn.modules.container": "_addindent",
    "torch.nn.modules.utils": "_ntuple _list_with_default consume_prefix_in_state_dict_if_present",
    "torch.nn.modules.activation": (
        "MultiheadAttention NonDynamicallyQuantizableLinear constant_ xavier_normal_ xavier_uniform_"
    ),
    "torch._C._profiler": "ProfilerActivity",
    "torch._C": (
        "Generator _VariableFunctionsClass _is_alias_of _is_torch_function_mode_enabled _get_privateuse1_backend_name "
        "_is_tracing"
    ),
    "torch._jit_internal": "_copy_to_script_wrapper",
    "torch.nn.modules.loss": "LinearCrossEntropyLoss PairwiseDistance",
    "torch.nn.modules.batchnorm": "LazyModuleMixin",
    "torch.nn.modules.conv": "LazyModuleMixin",
    "torch.nn.modules.linear": "LazyModuleMixin NonDynamicallyQuantizableLinear",
    "torch.nn.modules.transformer": (
        "_get_clones _get_seq_len _detect_is_causal_mask _generate_square_subsequent_mask xavier_uniform_"
    ),
    "torch.nn.modules.rnn": "apply_permutation",
    "torch.nn.modules.pooling": (
        "_MaxPoolNd _MaxUnpoolNd _AvgPoolNd _LPPoolNd _AdaptiveMaxPoolNd _AdaptiveAvgPoolNd"
    ),
    "torch.nn.modules.padding": "_CircularPadNd _ConstantPadNd _ReflectionPadNd _ReplicationPadNd",
    "torch.nn.functional": "_in_projection _in_projection_packed _canonical_mask _none_or_dtype _get_softmax_dim",
    "torch.nn.init": "_no_grad_uniform_ _no_grad_normal_ _no_grad_trunc_normal_ _no_grad_fill_ _no_grad_zero_",
    "torch.optim.optimizer": (
        "_default_to_fused_or_foreach _disable_dynamo_if_unsupported _get_scalar_dtype _get_value "
        "_stack_if_compiling _to_scalar _use_grad_for_differentiable _view_as_real ParamsT "
        "_get_capturable_supported_devices"
    ),
    "torch._functorch.vmap": "_add_batch_dim _broadcast_to_and_flatten _get_name _maybe_remove_batch_dim",
    "torch.profiler.profiler": "_default_schedule_fn",
    "torch.amp.grad_scaler": "OptState",
    "torch.storage": "_load_from_bytes",
    "torch._tensor": "_rebuild_from_type_v2",
    "torch.serialization": "_get_layout",
    "torch._utils": (
        "torch "  # pickles say `torch._utils.torch.channels_last`
        "ExceptionWrapper _element_size _flatten_dense_tensors _get_all_device_indices _get_device_index _take_tensors "
        "_unflatten_dense_tensors classproperty is_compiling _get_available_device_type _get_device_module"
    ),
}
_added: set[tuple[str, str]] = set()


def add(fullname: str, module: ModuleType) -> None:
    """Let `module`, which programs import as `fullname`, have the names of PyTorch's module."""
    names = frozenset(NAMES.get(fullname, "").split())
    if not names or (fullname, module.__name__) in _added:
        return
    _added.add((fullname, module.__name__))
    others: Callable[[str], Any] | None = vars(module).get("__getattr__")

    def __getattr__(name: str) -> Any:
        if name in names:
            from rushlight.compat import private_api

            return getattr(private_api, name)
        if others is not None:
            return others(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    vars(module)["__getattr__"] = __getattr__

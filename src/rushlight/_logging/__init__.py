"""`torch._logging`: what is told about compiled functions, and the levels of PyTorch's loggers."""

from __future__ import annotations

import logging
from typing import Any

from rushlight.core.stub import declare

__all__ = ["getArtifactLogger", "set_logs"]

declare(
    "no-op",
    "Of the artifacts, `graph_breaks` and `recompiles` are told; the others are accepted and tell nothing.",
    "torch",
    "_logging.set_logs",
)

# log -> the logger whose level it is
_LOGS = {
    name: f"torch.{place}"
    for name, place in (
        ("dynamo", "_dynamo"), ("aot", "_functorch"), ("autograd", "autograd"), ("dynamic", "fx.experimental.symbolic_shapes"),
        ("inductor", "_inductor"), ("distributed", "distributed"), ("c10d", "distributed.distributed_c10d"),
        ("ddp", "nn.parallel.distributed"), ("fsdp", "distributed.fsdp"), ("dtensor", "distributed.tensor"), ("onnx", "onnx"),
        ("export", "export"),
    )
}  # fmt: skip
_ARTIFACTS = frozenset(
    "bytecode aot_graphs aot_joint_graph ddp_graphs graph graph_code graph_code_verbose graph_breaks side_effects graph_sizes "
    "guards recompiles recompiles_verbose trace_source trace_call trace_bytecode output_code kernel_code schedule perf_hints "
    "pre_grad_graphs post_grad_graphs ir_pre_fusion ir_post_fusion onnx_diagnostics fusion overlap cudagraphs sym_node "
    "compiled_autograd compiled_autograd_verbose cudagraph_static_inputs benchmarking autotuning incremental "
    "graph_region_expansion inductor_metrics hierarchical_compile compute_dependencies caching".split()
)
_TOLD = frozenset(("graph_breaks", "recompiles", "recompiles_verbose"))


def set_logs(
    *, all: int | None = None, modules: dict[str, int | bool] | None = None, **logs: Any
) -> None:
    """Set levels of logs (`dynamo=logging.INFO`) and choose artifacts (`graph_breaks=True`); what is not named is off.

    A level of `dynamo` from INFO on, `graph_breaks` and `recompiles` let compiled functions print what became of their calls,
    as RUSHLIGHT_LOG=compile does. TypeError for other names, ValueError for other values.

    >>> import rushlight as torch
    >>> torch._logging.set_logs(graph_breaks=True)
    >>> torch._logging.set_logs()
    """
    from rushlight.compiler import compiled

    levels = dict.fromkeys(_LOGS, logging.WARNING if all is None else all)
    told = False
    for name, value in logs.items():
        if name not in _LOGS and name not in _ARTIFACTS:
            raise TypeError(f"set_logs() got an unexpected keyword argument '{name}'")
        if name in _ARTIFACTS:
            if not isinstance(value, bool):
                raise ValueError(f"Expected bool to enable artifact {name}, received {value}")
            told |= value and name in _TOLD
        elif value is not None:
            _check(name, value)
            levels[name] = value
    if all is not None:
        _check("all", all)
    for name, value in (modules or {}).items():
        if not name.startswith("torch"):
            raise ValueError(f"Unrecognized log or artifact name passed to set_logs: {name}")
        logging.getLogger(name).setLevel(value)
    for name, level in levels.items():
        logging.getLogger(_LOGS[name]).setLevel(level)
    compiled.printing.value = told or levels["dynamo"] <= logging.INFO


def _check(name: str, level: Any) -> None:
    if level not in (50, 40, 30, 20, 10, 0):
        raise ValueError(
            f"Unrecognized log level for log {name}: {level}, valid level values are: 50,40,30,20,10,0"
        )


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """The logger of an artifact of a module. ValueError for names that PyTorch does not have."""
    if artifact_name not in _ARTIFACTS:
        raise ValueError(f"Artifact name: {artifact_name!r} not registered")
    return logging.getLogger(f"{module_qname}.__{artifact_name}")

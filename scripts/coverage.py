"""Writes docs/coverage.md: PyTorch's public names, which of them are here, and why the others are not.

    python scripts/coverage.py            # after adding or removing a public name
    python scripts/coverage.py --check    # fails when the page is not up to date, or a name has no reason
    python scripts/coverage.py --names    # writes PyTorch's names anew; needs torch installed

PyTorch's names are stored in scripts/pytorch_names.txt, so that all but the last run without it.
"""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "scripts" / "pytorch_names.txt"
PAGE = ROOT / "docs" / "coverage.md"
SPACES = (
    "torch Tensor nn nn.functional nn.init nn.utils nn.utils.rnn linalg fft special signal.windows masked "
    "optim optim.lr_scheduler autograd autograd.graph utils.data utils.checkpoint random overrides func "
    "distributions profiler serialization testing"
).split()
# Spaces in which PyTorch's __all__ leaves public names out, and what is there by accident.
WHOLE = {"torch", "fft", "overrides", "random", "autograd"}
ACCIDENTS = frozenset(
    "torch Tensor common_args factory_common_args TYPE_CHECKING textwrap ParamSpec TypeVar".split()
)

# Why a name is absent: the first pattern that matches all of `space.name`.
REASONS = {
    "quantised tensors": r".*([Qq]uant|fbgemm|qint|quint|QInt|QUInt|qscheme|q_scale|q_zero|q_per_channel"
    r"|int_repr|choose_qparams).*|torch\.(ao|per_(channel|tensor).*)|nn\.(intrinsic|qat)",
    "dtypes that NumPy and ml_dtypes lack, or that only matrix units use": r"torch\.(bits?\d.*|bit|u?int[1-7]"
    r"|float[48]_.*|complex32|chalf|ComplexHalf.*)|Tensor\.chalf|nn\.functional\.(scaled_(grouped_)?mm"
    r"|grouped_mm|ScalingType|SwizzleType)",
    "another device": r".*(cudnn|Cudnn|cuda|CUDA|miopen|nccl|triton|xpu|mtia|mps|vulkan|ipu|hpu|mkldnn|xla"
    r"|maia|_gpu_).*|torch\.(accelerator|cpu|Stream|Event|AcceleratorError|OutOfMemoryError"
    r"|get_device_module)|Tensor\.record_stream",
    "sparse tensors in blocks, and little else of them": r".*([Ss]parse|csr|csc|bsr|bsc|_coo|coalesce|indices$|crow|ccol|values$"
    r"|smm$|dsmm|hsmm|hspmm|saddmm|sspaddmm|(indices|values)_copy).*",
    "nested and masked tensor classes, not yet": r".*([Nn]ested|jagged|to_padded_tensor|masked_tensor"
    r"|MaskedTensor).*",
    "several machines": r".*([Dd]istributed|DataParallel|parallel_apply|replicate|scatter_object).*"
    r"|nn\.parallel|torch\.(distributed|futures|Future|monitor)",
    "compiling and exporting programs: PyTorch's own compiler": r".*([Jj]it|JIT|[Ss]cript|torch\.fork$|wait$"
    r"|trace|[Cc]ompile(?!d_with)|dynamo|inductor|export|onnx|torch\.fx).*|torch\.(classes|ops|library|package"
    r"|Graph|Node|Block|Gradient|Code|Argument.*|Value|Use|IODescriptor|ExecutionPlan|FunctionSchema"
    r"|parse_.*|import_ir_.*|merge_type.*|unify_type.*|ErrorReport|CallStack|DeepCopyMemoTable|FileCheck"
    r"|[A-Z]\w*Type|\w*Observer.*|Deserialization.*|Serialization.*|PyTorchFile.*|ThroughputBenchmark"
    r"|Benchmark.*|BufferDict|ParameterDict|ModuleDict|CompilationUnit|AggregationType|AliasDb|Capsule"
    r"|CompleteArgumentSpec|StaticModule|OperatorInfo|AVG|SUM|cpp|freeze|optimized_execution"
    r"|last_executed_optimized_graph|(set|get)_num_profiled_runs)",
    "symbolic shapes": r".*(SymInt|SymFloat|SymBool|SymNode|sym_).*|torch\.(cond|while_loop)",
    "function transforms, not yet": r"func\..*|torch\.(func|vmap)|.*(forward_ad|dual_level|functorch).*",
    "mixed precision, not yet": r".*(autocast|GradScaler).*|torch\.amp",
    "distributions, not yet": r"distributions\..*|torch\.distributions",
    "reparametrisation of modules, not yet": r"nn\.utils\.(parametriz.*|.*weight_norm|.*spectral_norm)"
    r"|torch\.norm_except_dim",
    "fusing and memory formats of modules, not yet": r"nn\.utils\.(fuse_.*|convert_conv.*)",
    "removed from PyTorch too: it raises there": r"(torch|Tensor)\.(eig|lstsq|matrix_rank|solve|symeig"
    r"|reinforce|volatile)|nn\.Container",
    "internal, though its name is public": r"torch\.(DispatchKey.*|ExcludeDispatchKeyGuard|FatalError"
    r"|\w*Logger\w*|PRIVATE_OPS|StorageBase|Tag|USE_.*|builtins|classproperty|get_file_path"
    r"|init_num_threads|batch_norm_\w+|native_\w+|prepare_multiprocessing_environment|slice_inverse"
    r"|has_(lapack|mkl|openmp|spectral)|torch_version|legacy_contiguous_format|row_indices_copy"
    r"|functional|types|windows|compiled_with_cxx11_abi|is_anomaly\w+|set_anomaly_enabled"
    r"|embedding_renorm_|feature_dropout_?|unsafe_\w+|_\w+)"
    r"|Tensor\.(const_data_ptr|slice_inverse|module_load|grad_dtype|index)"
    r"|nn\.(common_types|factory_kwargs)|nn\.functional\.(BroadcastingList\d|DType|GRID_SAMPLE_\w+"
    r"|assert_int_or_pair|boolean_dispatch|\w+_notes|handle_torch_function|has_torch_function\w*)"
    r"|linalg\.common_notes|autograd\.(Profiler\w+|DeviceType|SavedTensor|is_\w+|has_\w+|handle_\w+"
    r"|kineto_available|profiler_legacy|profiler_util)|serialization\.(check_module.*|location_tag|mkdtemp"
    r"|normalize_storage_type|storage_to_tensor_type|StorageType|SourceChangeWarning)"
    r"|utils\.checkpoint\.(CheckpointFunction|DefaultDeviceType|GraphExecGroup|SAC_.*|check_backward.*"
    r"|\w+_device_states|noop_context_fn)"
    r"|utils\.data\.(datapipes|graph.*|.*Pipe.*|_.*|.*functional_datapipe|.*deterministic.*|runtime_.*"
    r"|DFIterDataPipe|guaranteed_.*|argument_validation|non_deterministic)|profiler\.(DeviceType|kineto_\w+)"
    r"|autograd\.graph\.set_\w+|optim\.swap_in_optimizer_params_and_state",
    "not yet": r".*",
}


def pytorch_names() -> dict[str, list[str]]:
    """{space: names} as stored."""
    spaces: dict[str, list[str]] = {}
    for line in NAMES.read_text().splitlines():
        if line.startswith("["):
            names = spaces[line.strip("[]")] = []
        elif line and line[0] != "#":
            names += line.split()
    return spaces


def write_names() -> None:
    import torch

    text = f"# The public names of PyTorch {torch.__version__.split('+')[0]}. Written by scripts/coverage.py --names.\n"
    for space in SPACES:
        names = public_names(torch, space)
        text += (
            f"\n[{space}]\n" + textwrap.fill(" ".join(names), 100, break_on_hyphens=False) + "\n"
        )
    NAMES.write_text(text)


def public_names(torch: Any, space: str) -> list[str]:
    holder = torch.Tensor if space == "Tensor" else module("torch", space)
    listed = getattr(holder, "__all__", None)
    if listed is not None and space not in WHOLE:
        return sorted(n for n in listed if n[0] != "_")

    def own(name: str) -> bool:
        value = getattr(holder, name)
        where = (
            value.__name__
            if isinstance(value, types.ModuleType)
            else getattr(value, "__module__", None)
        )
        return where is None or str(where).split(".")[0] in ("torch", "builtins")

    shown = [n for n in dir(holder) if n[0] != "_" and (space == "torch" or n not in ACCIDENTS)]
    if space == "torch":
        shown = [n for n in shown if n not in ACCIDENTS - {"Tensor"}]
    return sorted(n for n in shown if own(n) or n in (listed or ()))


def module(root: str, space: str) -> Any:
    return importlib.import_module(root if space == "torch" else f"{root}.{space}")


def present(space: str, names: list[str]) -> set[str]:
    """Which of the names are here."""
    import rushlight

    if space == "Tensor":
        holder: Any = rushlight.Tensor
    else:
        try:
            holder = module("rushlight", space)
        except ModuleNotFoundError:
            return set()
    return {n for n in names if hasattr(holder, n)}


def reason(path: str) -> str:
    return next(why for why, pattern in REASONS.items() if re.fullmatch(pattern, path))


def page() -> str:
    """The text of docs/coverage.md."""
    rows, lists = [], []
    for space, names in pytorch_names().items():
        here = present(space, names)
        absent: dict[str, list[str]] = {}
        for name in names:
            if name not in here:
                absent.setdefault(reason(f"{space}.{name}"), []).append(name)
        path = "torch" if space == "torch" else f"torch.{space}"
        asked = len(names) - sum(len(absent.get(r, ())) for r in REASONS if "not yet" not in r)
        rows.append(
            f"| `{path}` | {len(names)} | {asked} | {len(here)} | {100 * len(here) // max(asked, 1)} % |"
        )
        if absent:
            lists.append(f"\n## `{path}`\n")
            for why in REASONS:
                if why in absent:
                    lists.append(
                        f"- **{why}** ({len(absent[why])}): {', '.join(f'`{n}`' for n in absent[why])}"
                    )
    return HEAD + "\n".join(rows) + "\n" + "\n".join(lists) + "\n"


HEAD = """# What of PyTorch is here

Written by `scripts/coverage.py` from the code and from the list of PyTorch's public names in
`scripts/pytorch_names.txt`; do not edit. How much of what is here behaves as in PyTorch is measured by
`python -m tests.oracle.conformance --full`.

*Asked for* leaves out what this package does not mean to have: quantised tensors, other devices,
symbolic shapes, PyTorch's compiler, names that are public by accident. A name that is absent raises
an `AttributeError` that points to this page.

| | PyTorch's names | asked for | here | share |
| --- | ---: | ---: | ---: | ---: |
"""


def main() -> int:
    sys.path.insert(0, str(ROOT / "src"))
    if "--names" in sys.argv:
        write_names()
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text() != text:
            print("docs/coverage.md is not up to date: run scripts/coverage.py")
            return 1
        return 0
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text)
    print(text[text.index("| |") : text.index("\n## ")])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Writes docs/coverage.md: PyTorch's public names, which of them are here, and why the others are not; and docs/stubs.md:
which of those that are here do less than PyTorch's, as the code marks them (src/rushlight/core/stub.py).

    python scripts/coverage.py            # after adding or removing a public name or a mark
    python scripts/coverage.py --check    # fails when a page is not up to date, or a name has no reason
    python scripts/coverage.py --names    # writes PyTorch's names anew; needs torch installed

PyTorch's names are stored in scripts/pytorch_names.txt, so that all but the last run without it.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "scripts" / "pytorch_names.txt"
PAGE = ROOT / "docs" / "coverage.md"
STUBS = ROOT / "docs" / "stubs.md"
SPACES = (
    "torch Tensor nn nn.functional nn.init nn.utils nn.utils.rnn linalg fft special signal.windows masked "
    "optim optim.lr_scheduler autograd autograd.graph utils.data utils.checkpoint random overrides func "
    "distributions profiler serialization testing"
).split()
# More spaces with names that may be stubs.
MORE = (
    "_C _dynamo _inductor _subclasses __future__ accelerator autograd.forward_ad autograd.functional autograd.profiler backends.cuda "
    "backends.cudnn backends.mha backends.mkl backends.mkldnn backends.nnpack backends.opt_einsum backends.quantized "
    "backends.xnnpack compiler cuda cuda.nvtx cuda.random distributed distributed.fsdp distributed.nn distributed.optim distributed.tensor fx jit library mps "
    "multiprocessing nn.attention nn.attention.flex_attention nn.parallel onnx utils._python_dispatch utils.benchmark "
    "utils.cpp_extension utils.deterministic xpu"
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
    r"|float[48]_.*)|nn\.functional\.(scaled_(grouped_)?mm"
    r"|grouped_mm|ScalingType|SwizzleType)",
    "another device": r".*(cudnn|Cudnn|cuda|CUDA|miopen|nccl|triton|xpu|mtia|mps|vulkan|ipu|hpu|mkldnn|xla"
    r"|maia|_gpu_).*|torch\.(accelerator|cpu|Stream|Event|AcceleratorError|OutOfMemoryError"
    r"|get_device_module)|Tensor\.record_stream",
    "sparse tensors: notes for other libraries": r".*([Ss]parse|csr|csc|bsr|bsc|_coo|coalesce|indices$|crow|ccol|values$"
    r"|smm$|dsmm|hsmm|hspmm|saddmm|sspaddmm|(indices|values)_copy).*",
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
    if root == "rushlight":
        space = {"nn.attention.flex_attention": "nn.flex_attention"}.get(space, space)
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


def mark(value: Any) -> Any:
    """The mark of a stub that a function or a class has itself, or None."""
    return getattr(value, "__dict__", {}).get("__stub__")


def stubs() -> dict[str, Any]:
    """{public name: mark} of all stubs. RuntimeError for a marked one without a public name."""
    import rushlight
    from rushlight.core import stub

    found: dict[str, Any] = {}
    listed = pytorch_names()
    for space in SPACES + MORE:
        holder = rushlight.Tensor if space == "Tensor" else module("rushlight", space)
        path = "torch" if space == "torch" else f"torch.{space}"
        for name in sorted({*dir(holder), *listed.get(space, ())}):
            if name[0] == "_" and not name.startswith(("_jit", "_log")):
                continue
            value = getattr(holder, name, None)
            if mark(value):
                found[f"{path}.{name}"] = mark(value)
            if inspect.isclass(value) and value.__module__.startswith(holder.__name__):
                for inner, method in vars(value).items():
                    method = getattr(method, "__func__", method)
                    if inner[0] != "_" and mark(method):
                        found[f"{path}.{name}.{inner}"] = mark(method)
    for info in pkgutil.walk_packages(rushlight.__path__, "rushlight."):
        if not info.name.endswith("__main__"):
            for name, value in vars(importlib.import_module(info.name)).items():
                if mark(value) and mark(value) not in found.values():
                    raise RuntimeError(f"{info.name}.{name} is marked as a stub and is in no space")
    return found | stub.DECLARED


def stubs_page() -> str:
    """The text of docs/stubs.md."""
    from rushlight.core.stub import KINDS

    names: dict[Any, list[str]] = {}
    for name, found in stubs().items():
        names.setdefault(found, []).append(name)
    text = STUBS_HEAD
    for kind, meaning in KINDS.items():
        text += f"\n## {kind}\n\n{meaning}\n\n"
        rows = [
            (sorted(shown), found.reason) for found, shown in names.items() if found.kind == kind
        ]
        for shown, why in sorted(rows):
            text += f"- {', '.join(f'`{name}`' for name in shown)}: {why}\n"
    return text


def reason(path: str) -> str:
    return next(why for why, pattern in REASONS.items() if re.fullmatch(pattern, path))


def page() -> str:
    """The text of docs/coverage.md."""
    rows, lists = [], []
    marked = stubs()
    for space, names in pytorch_names().items():
        here = present(space, names)
        absent: dict[str, list[str]] = {}
        for name in names:
            if name not in here:
                absent.setdefault(reason(f"{space}.{name}"), []).append(name)
        path = "torch" if space == "torch" else f"torch.{space}"
        asked = len(names) - sum(len(absent.get(r, ())) for r in REASONS if "not yet" not in r)
        done = sum(f"{path}.{name}" not in marked for name in here)
        rows.append(
            f"| `{path}` | {len(names)} | {asked} | {done} | {len(here) - done} | {100 * done // max(asked, 1)} % |"
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
an `AttributeError` that points to this page. *Stubs* are there and do less than PyTorch's: they do not count as
here, and `docs/stubs.md` says what each does.

| | PyTorch's names | asked for | here | stubs | share |
| --- | ---: | ---: | ---: | ---: | ---: |
"""

STUBS_HEAD = """# What pretends

Names that can be imported and called as PyTorch's and do less. Written by `scripts/coverage.py` from the marks in the
code (`src/rushlight/core/stub.py`); do not edit. `name(parameter=)` is a parameter, everything else of that name is as in
PyTorch. `torch.jit.script` warns when it is first called.
"""


def main() -> int:
    sys.path.insert(0, str(ROOT / "src"))
    if "--names" in sys.argv:
        write_names()
    text = page()
    pages = {PAGE: text, STUBS: stubs_page()}
    if "--check" in sys.argv:
        stale = [p.name for p, text in pages.items() if not p.exists() or p.read_text() != text]
        if stale:
            print(f"not up to date in docs/: {', '.join(stale)}; run scripts/coverage.py")
        return bool(stale)
    for path, written in pages.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(written)
    print(text[text.index("| |") : text.index("\n## ")])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

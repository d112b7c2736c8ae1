"""Writes the .pyi files that tell type checkers and editors about names that are found when they are used.

    python scripts/stubs.py            # after adding an operator (and after scripts/index.py)
    python scripts/stubs.py --check    # fails when a file is not up to date

Functions and methods of Tensor are not in any .py file under their public names: they come from the declarations of ops/.
What a declaration says (parameters, kinds, defaults, results, the first line of the docstring) is what stands in the stub.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

SRC = Path(__file__).resolve().parent.parent / "src" / "rushlight"

HEADER = '''"""{what} Written by scripts/stubs.py; do not edit."""
'''
# `int`, `float` and their like are names of PyTorch's own here, so Python's get others.
BUILTINS = """
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rushlight.core.device import device as _device
from rushlight.core.dtypes import dtype as _dtype
from rushlight.core.dtypes import layout as _layout
from rushlight.core.dtypes import memory_format as _memory_format
from rushlight.core.size import Size as Size
{imports}
_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_str = builtins.str
_type = builtins.type
_complex = builtins.complex
_Number = builtins.bool | builtins.int | builtins.float | builtins.complex
_Ints = builtins.int | Sequence[builtins.int]
"""

# The words of declarations, and what they mean to a caller.
WORDS = {
    "Array": "Tensor",
    "Arrays": "Sequence[Tensor]",
    "Tensor": "Tensor",
    "Dims": "_Ints | None",
    "Ints": "_Ints",
    "Sizes": "_Ints",
    "tuple": "_Ints",
    "Number": "_Number",
    "DType": "_dtype",
    "dtype": "_dtype",
    "device": "_device | _str",
    "MemoryFormat": "_memory_format",
    "int": "_int",
    "float": "_float",
    "bool": "_bool",
    "Bool": "_bool",
    "str": "_str",
    "None": "None",
    "complex": "_complex",
}


# What functions give that do not say it themselves. `max`, `where`, `unique` and their like give several kinds of results.
RESULTS = {
    **dict.fromkeys(
        """
        _sample_dirichlet _standard_gamma alias_copy arange as_strided_copy as_tensor asarray bernoulli bernoulli_ bfloat16 binomial
        bool byte cauchy_ cdouble celu_ cfloat chain_matmul chalf char contiguous cpu cuda detach detach_ detach_copy diagonal_copy
        double einsum elu_ embedding_renorm_ empty empty_like empty_permuted empty_strided expand_copy exponential_ eye fill fill_
        fill_diagonal_ float full full_like geometric_ gru_cell half hardtanh_ int leaky_relu_ linspace log_normal_ logspace long
        matrix_rank multinomial narrow_copy new_empty new_empty_strided new_full new_ones new_tensor new_zeros normal normal_ ones
        ones_like permute_copy poisson rand rand_like randint randint_like randn randn_like random_ randperm range resize_
        resize_as_ rnn_relu_cell rnn_tanh_cell rrelu_ scalar_tensor select_copy set_ short slice_copy sparse_bsc_tensor
        sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor squeeze_copy t_copy tensor
        threshold_ to to_dense transpose_copy tril_indices triu_indices type_as uniform_ unsqueeze_copy view_as_complex_copy
        view_as_real_copy view_copy zero_ zeros zeros_like
        """.split(),
        "Tensor",
    ),
    **dict.fromkeys(
        """
        is_complex is_conj is_distributed is_floating_point is_inference is_neg is_nonzero is_same_size is_signed
        """.split(),
        "_bool",
    ),
    **dict.fromkeys(
        "split split_copy split_with_sizes_copy unbind_copy".split(), "tuple[Tensor, ...]"
    ),
    "std_mean": "tuple[Tensor, Tensor]",
    "var_mean": "tuple[Tensor, Tensor]",
    "broadcast_shapes": "Size",
    "result_type": "_dtype",
    "get_device": "_int",
    "numel": "_int",
}


def meaning(note: object) -> str:
    """The annotation of a stub for one of a declaration; Any for words that only the declaration's file knows."""
    words = [word.strip() for word in str(note).split("|")]
    known = [WORDS[word] for word in words if word in WORDS]
    return " | ".join(dict.fromkeys(known)) if len(known) == len(words) else "Any"


def parameter_of(name: str, note: str, value: Any) -> str:
    """`name: note = value`, where the note allows the value too."""
    if value is None and "None" not in note and note != "Any":
        note += " | None"
    if isinstance(value, str) and "_str" not in note and note != "Any":
        note += " | _str"
    return f"{name}: {note}{default(value)}"


def default(value: Any) -> str:
    simple = value is None or isinstance(value, (bool, int, str))
    return f" = {value!r}" if simple and len(repr(value)) < 30 else " = ..."


def returned(op: Any, tuples: dict[str, str]) -> str:
    """What a call gives: one tensor, a list of them, or a tuple with names (declared in `tuples`)."""
    if op.outputs is None:
        return "Tensor"
    if op.outputs == "list":
        return "tuple[Tensor, ...]"
    name = "_" + "_".join(op.outputs)
    fields = "".join(f"    {each}: Tensor\n" for each in op.outputs)
    tuples[name] = f"class {name}(NamedTuple):\n{fields}"
    return name


def of_operator(op: Any, name: str, form: str, tuples: dict[str, str]) -> str:
    """`def name(...)` for an operator; `form`: "function", "method", or "inplace" (a method too)."""
    notes = op.declared.__annotations__
    parts = []
    for position, parameter in enumerate(op.params):
        if position == op.n_positional and "*" not in "".join(parts):
            parts.append("*")
        if position == 0 and form != "function":
            parts.append("self")
            continue
        note = meaning(notes.get(parameter, "Any"))
        if op.elementwise and parameter in op.numbers:
            note = note.replace("Tensor", "Tensor | _Number")
        if form != "function" and parameter == op.varargs:
            parts.append(f"*{parameter}: Any")  # one by one, or as one sequence
            continue
        if parameter in op.defaults:
            parts.append(parameter_of(parameter, note, op.defaults[parameter]))
        else:
            parts.append(f"{parameter}: {note}")
    if form == "function" and op.has_out:
        if not any(part.startswith("*") for part in parts):
            parts.append("*")
        parts.append("out: Any = None")
    result = "Tensor" if form == "inplace" else returned(op, tuples)
    return definition(name, parts, result, op.declared.__doc__)


def of_function(function: Any, name: str, method: bool) -> str:
    """`def name(...)` for a plain function."""
    parts: list[str] = []
    signature = inspect.signature(function)
    named = False
    for position, each in enumerate(signature.parameters.values()):
        if position == 0 and method:
            parts.append("self")
            continue
        if each.kind is each.KEYWORD_ONLY and not named:
            parts.append("*")
        named = named or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        note = "Any" if each.annotation is each.empty else meaning(each.annotation)
        if each.default is each.empty:
            parts.append(f"{stars}{each.name}: {note}")
        else:
            parts.append(parameter_of(each.name, note, each.default))
        if each.kind is each.POSITIONAL_ONLY and not any(
            other.kind is each.POSITIONAL_ONLY
            for other in [*signature.parameters.values()][position + 1 :]
        ):
            parts.append("/")
    if signature.return_annotation is signature.empty:
        result = RESULTS.get(name, "Any")
    else:
        result = str(signature.return_annotation)
        result = result if result == "tuple[Tensor, ...]" else meaning(result)
    return definition(name, parts, result, function.__doc__)


def definition(name: str, parts: list[str], result: str, text: str | None) -> str:
    line = f"def {name}({', '.join(parts)}) -> {result}:"
    first = (text or "").strip().splitlines()[:1]
    if not first or '"""' in first[0] or first[0].endswith(('"', "\\")):
        return f"{line} ...\n"
    raw = "r" if "\\" in first[0] else ""
    return f'{line}\n    {raw}"""{first[0]}"""\n'


def indented(text: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())


# -- what stands in a .py file ---------------------------------------------------------------------------


class Renamed(ast.NodeTransformer):
    """Python's types under the names they have in a stub."""

    NAMES = {
        name: f"_{name}"
        for name in ("int", "float", "bool", "str", "complex", "type", "device", "layout")
    }

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.NAMES.get(node.id, node.id))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        # a name of a module that the stub does not import
        return ast.Name("_dtype" if ast.unparse(node) == "dtypes.dtype" else "Any")


KNOWN = re.compile(
    r"Tensor|Size|Any|None|Callable|Iterator|Sequence|NamedTuple|dict|list|tuple|object|_\w+|[|\[\], .]|\""
)


def annotation(node: ast.expr | None) -> str:
    if node is None:
        return "Any"
    text = ast.unparse(Renamed().visit(node))
    return text if not KNOWN.sub("", text) else "Any"


def signature_of(node: ast.FunctionDef) -> str:
    """The signature in the source, without what defaults are computed from."""
    arguments = node.args
    for each in (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ):
        if each is not None and each.arg not in ("self", "cls"):
            each.annotation = ast.Name(annotation(each.annotation))
    arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
    arguments.kw_defaults = [each and ast.Constant(...) for each in arguments.kw_defaults]
    return f"def {node.name}({ast.unparse(arguments)}) -> {annotation(node.returns)}: ..."


def state_of_tensor() -> tuple[str, str, set[str]]:
    """From core/tensor.py: (what stands around the class, the body of the class, the names in it)."""
    around, body, names = [], [], set()
    for node in ast.parse((SRC / "core" / "tensor.py").read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            around.append(signature_of(node))
        elif isinstance(node, ast.ClassDef) and node.name != "Tensor":
            around.append(f"class {node.name}{'(type)' if node.name.endswith('Type') else ''}: ...")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and target.id != "__all__":
                    around.append(f"{target.id}: Any")
        elif isinstance(node, ast.ClassDef):
            for each in node.body:
                body += in_class(each, names)
    return "\n".join(around), "\n".join(body), names


def in_class(node: ast.stmt, names: set[str]) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        names.add(node.name)
        decorators = [f"@{ast.unparse(each)}" for each in node.decorator_list]
        if node.name in ("__eq__", "__ne__"):
            decorators.append("# type: ignore[override]")
        return [*decorators, signature_of(node)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        names.add(node.target.id)
        return [f"{node.target.id}: {annotation(node.annotation)}"]
    if isinstance(node, ast.Assign):
        targets = [n for t in node.targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
        made = [target.id for target in targets if isinstance(target, ast.Name)]
        made = [name for name in made if name != "__slots__"]
        names.update(made)
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "property":
            return [
                line for name in made for line in ("@property", f"def {name}(self) -> Any: ...")
            ]
        if isinstance(node.value, ast.Name):
            return [f"{name} = {node.value.id}" for name in made]
        return [f"{name}: Any" for name in made]
    return []


# -- the files -------------------------------------------------------------------------------------------


def load() -> Any:
    sys.path.insert(0, str(SRC.parent))
    from rushlight.dispatch import methods

    for family in sorted(set(methods.index.FUNCTIONS.values())):
        importlib.import_module(f"rushlight.ops.{family}")
    return methods


def find(path: str) -> tuple[Any, Any]:
    """(operator, None) or (None, plain function) behind a public path."""
    from rushlight.dispatch.registry import ALIASES, OPS, PUBLIC

    found = OPS.get(path) or ALIASES.get(path)
    if found is not None and found.public_function is found.function:
        return found, None
    return None, PUBLIC[path][0] if path in PUBLIC else found.public_function  # type: ignore[union-attr]


def function(path: str, tuples: dict[str, str]) -> str:
    name = path.rpartition(".")[2]
    op, plain = find(path)
    return of_operator(op, name, "function", tuples) if op else of_function(plain, name, False)


def tensor_stub(methods: Any) -> str:
    around, body, names = state_of_tensor()
    tuples: dict[str, str] = {}
    made: list[str] = []
    for name, path in sorted({**methods.index.METHODS, **methods.index.INPLACE}.items()):
        if name in names:
            continue
        op, plain = find(path)
        form = (
            "inplace"
            if name in methods.index.INPLACE and name not in methods.index.METHODS
            else "method"
        )
        made.append(of_operator(op, name, form, tuples) if op else of_function(plain, name, True))
    for name in getattr(methods, "PROPERTIES", ()):
        if name not in names:
            made.append(f"@property\ndef {name}(self) -> Tensor: ...\n")
    for name in methods.OPERATORS:
        override = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
        if name not in names:
            made.append(f"def {name}(self, other: Any) -> Tensor: ...{override}\n")
        if name not in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
            for prefix in ("r", "i"):
                other = f"__{prefix}{name[2:]}"
                if other not in names and other not in methods.index.METHODS:
                    made.append(f"def {other}(self, other: Any) -> Tensor: ...\n")
    made += [f"def {name}(self) -> Tensor: ...\n" for name in methods.UNARY if name not in names]
    made.append("def __getitem__(self, index: Any) -> Tensor: ...\n")
    made.append("def __setitem__(self, index: Any, value: Any) -> None: ...\n")
    return (
        HEADER.format(what="`Tensor`: its state from tensor.py, its methods from ops/.")
        + BUILTINS.format(imports="from rushlight.autograd.graph import Version\n")
        + "\n"
        + "\n".join(tuples.values())
        + f"\n{around}\n\nclass Tensor:\n"
        + indented(body + "\n" + "".join(made))
    )


def exported(path: Path) -> list[tuple[str, str]]:
    """(module, name) of everything public that a package's own file imports from the package."""
    found = []
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rushlight"):
            found += [
                (str(node.module), each.name)
                for each in node.names
                if not (each.asname or each.name).startswith("_")
            ]
    return found


def nn_stub() -> str:
    """`nn` takes the public classes of its files in a loop, which no type checker follows."""
    from rushlight import nn

    lines = [
        f"from {module} import {name} as {name}"
        for module, name in exported(SRC / "nn" / "__init__.py")
    ]
    for name, file in nn._BASES.items():
        lines.append(f"from rushlight.nn.{file} import {name} as {name}")
    lines.append("from rushlight.nn import utils as utils")
    for file in nn._FILES:
        module = importlib.import_module(f"rushlight.nn.{file}")
        lines += [f"from rushlight.nn.{file} import {name} as {name}" for name in module.__all__]
    head = HEADER.format(what="The public names of `nn`, each from its file.")
    return head + "\n" + "\n".join(lines) + "\n"


def autograd_stub() -> str:
    """`autograd` finds its names when they are used."""
    from rushlight import autograd

    lines = [
        f"from rushlight.autograd.{file} import {name} as {name}"
        for name, file in sorted(autograd._NAMES.items())
    ]
    lines += [
        f"from rushlight.autograd import {file} as {file}"
        for file in autograd._MODULES
        if file not in autograd._NAMES
    ]
    head = HEADER.format(what="The public names of `autograd`, each from its file.")
    return head + "\n" + "\n".join(lines) + "\n"


def package_stub(methods: Any) -> str:
    import rushlight

    tuples: dict[str, str] = {}
    found = exported(SRC / "__init__.py")
    lines = [f"from {module} import {name} as {name}" for module, name in found]
    names = {name for _, name in found}
    for name in rushlight._SUBMODULES:
        if (SRC / f"{name}.py").exists() or (SRC / name / "__init__.py").exists():
            lines.append(f"from rushlight import {name} as {name}")
            names.add(name)
    functions = []
    for path in sorted(methods.index.FUNCTIONS):
        if "." not in path and path not in names and path.isidentifier():
            functions.append(function(path, tuples))
            names.add(path)
    constants = [f"{name}: _dtype" for name in rushlight._ALIASES]
    constants += [
        f"{name}: {'None' if value is None else '_float'}"
        for name, value in rushlight._CONSTANTS.items()
    ]
    constants.append("__version__: _str")
    for name, module in rushlight._ELSEWHERE.items():
        if name not in names:
            source = SRC / f"{module.replace('.', '/')}.py"
            text = source.read_text("utf-8") if source.exists() else ""
            here = re.search(rf"^(class |def |from .* import .*\b){name}\b", text, re.MULTILINE)
            if module in ("compiler", "serialization") or here:
                lines.append(f"from rushlight.{module} import {name} as {name}")
            else:
                constants.append(f"{name}: Any")
            names.add(name)
    return (
        HEADER.format(
            what="The package: what it imports, and the functions of ops/ in the top namespace."
        )
        + BUILTINS.format(imports="\n".join(lines))
        + "\n"
        + "\n".join(tuples.values())
        + "\n"
        + "\n".join(constants)
        + "\n\n"
        + "".join(functions)
        + "\ndef __getattr__(name: _str) -> Any: ...\n"
    )


def namespace_stub(methods: Any, where: str) -> str:
    tuples: dict[str, str] = {}
    paths = [path for path in methods.index.FUNCTIONS if path.rpartition(".")[0] == where]
    module = importlib.import_module(f"rushlight.{where}")
    own = {path.rpartition(".")[2] for path in paths}
    paths += [
        n for n in getattr(module, "TOP", ()) if n in methods.index.FUNCTIONS and n not in own
    ]
    functions = [
        function(path, tuples) for path in sorted(paths, key=lambda p: p.rpartition(".")[2])
    ]
    return (
        HEADER.format(what=f"The functions of `{where}`.")
        + BUILTINS.format(imports="from rushlight.core.tensor import Tensor\n")
        + "\n"
        + "\n".join(tuples.values())
        + "\n"
        + "".join(functions)
        + "\ndef __getattr__(name: _str) -> Any: ...\n"
    )


def main() -> int:
    methods = load()
    files = {"core/tensor.pyi": tensor_stub(methods), "__init__.pyi": package_stub(methods)}
    files["nn/__init__.pyi"] = nn_stub()
    files["autograd/__init__.pyi"] = autograd_stub()
    for where in ("nn.functional", "linalg", "special", "fft"):
        path = where.replace(".", "/")
        package = (SRC / path / "__init__.py").exists()
        files[f"{path}/__init__.pyi" if package else f"{path}.pyi"] = namespace_stub(methods, where)
    stale = [
        name
        for name, text in files.items()
        if not (SRC / name).exists() or (SRC / name).read_text("utf-8") != text
    ]
    if "--check" in sys.argv:
        if stale:
            print(f"not up to date: {', '.join(stale)}; run scripts/stubs.py")
        return bool(stale)
    for name in stale:
        (SRC / name).write_text(files[name], "utf-8")
    print(f"wrote {', '.join(stale) or 'nothing: all up to date'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

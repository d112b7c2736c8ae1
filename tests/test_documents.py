"""What documents, comments and docstrings name exists: files, notes, functions and modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rushlight

ROOT = Path(__file__).resolve().parent.parent
SRC = Path(rushlight.__file__).parent
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")],
)
TOP = {path.name for path in [*ROOT.iterdir(), *SRC.iterdir()] if path.is_dir()}
# Folders of PyTorch's or of the user's that a document may name though they are not here.
FOREIGN = ("out/", "~/", ".venv/")
# Pages that docs/build.py makes; it checks links itself.
MADE = {"reference/index.md", "extending.md", "changes.md", "benchmarks.md", "errors.md"}


def named_paths(text: str) -> list[str]:
    """What looks like a path of this repository, between backticks or in a link."""
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"`([\w.*/<>-]+)`", text) + re.findall(r"\]\(([\w./-]+)\)", text)
    return [
        each
        for each in found
        if not each.startswith(FOREIGN)
        and (each.split("/")[0] in TOP if "/" in each else re.search(r"\.(md|svg|txt)$", each))
    ]


def exists(name: str, document: Path) -> bool:
    """Whether there is such a file beside the document, in the repository or in the package."""
    if name in MADE:
        return True
    pattern = re.sub(r"<\w+>", "*", name).rstrip("/")
    return any(any(base.glob(pattern)) for base in (document.parent, ROOT, SRC))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_named_files_exist(document):
    text = document.read_text("utf-8")
    assert [name for name in named_paths(text) if not exists(name, document)] == []


def test_paths_are_found():
    text = "`core/tensor.py`, `Tensor.add`, `a/b`, [page](docs/coverage.md), `_backends/llvm/<family>.py`"
    assert named_paths(text) == [
        "core/tensor.py",
        "_backends/llvm/<family>.py",
        "docs/coverage.md",
    ]
    assert exists("_backends/llvm/<family>.py", ROOT / "README.md")
    assert not exists("core/absent.py", ROOT / "README.md")


# Files of users, in examples.
THEIRS = {"FILE.py", "hubconf.py", "script.py", "net.py", "train.py", "file.py", "models.py"}


def test_files_named_in_the_package_exist():
    """In comments and docstrings: beside the module, in the package or in the repository."""
    known = {f"/{p.relative_to(ROOT)}" for folder in ("src", "tests", "benchmarks", "scripts", "docs", "examples")
             for p in (ROOT / folder).rglob("*.py")}  # fmt: skip
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in SRC.rglob("*.py")
        for name in re.findall(r"[\w/]*\w\.py\b", path.read_text("utf-8"))
        if name not in THEIRS and not any(each.endswith(f"/{name}") for each in known)
    }
    assert sorted(missing) == []


@pytest.mark.parametrize("document", ["docs/architecture.md", "docs/glossary.md"])
def test_names_in_code_type_exist(document):
    """Each word of a name between backticks stands somewhere in the package, the tests or the scripts."""
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text("utf-8"), flags=re.DOTALL)
    folders = [SRC, *(ROOT / each for each in ("tests", "scripts", "benchmarks", "docs"))]
    sources = [*(path for each in folders for path in each.rglob("*.py")), *DOCUMENTS]
    words = {word for path in sources for word in path.stem.split(".")}
    for path in sources:
        if path.suffix == ".py":
            words.update(re.findall(r"\w+", path.read_text("utf-8")))
    named = {word for each in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"\w+", each)}
    assert sorted(word for word in named - words if not word.isdigit()) == []


def test_named_notes_exist():
    """Also those that one module names for another."""
    sources = {path: path.read_text("utf-8") for path in SRC.rglob("*.py")}
    notes = {
        note
        for text in sources.values()
        for note in re.findall(r"^(?:# )?Note \[([^\]]+)\]$", text, re.MULTILINE)
    }
    texts = sources | {path: path.read_text("utf-8") for path in DOCUMENTS}
    missing = {
        f"{path.relative_to(ROOT)}: {note}"
        for path, text in texts.items()
        for note in re.findall(r"Note \[([^\]]+)\]", text)
        if " ".join(note.replace("#", "").split()) not in notes
    }
    assert sorted(missing) == []


def test_every_decision_is_in_the_list():
    folder = ROOT / "docs" / "adr"
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text("utf-8"))
    assert listed == sorted(path.name for path in folder.glob("[0-9]*.md"))

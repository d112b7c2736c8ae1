"""Builds the release and tries it as a user would: sdist and wheel into build/release/.

    python scripts/release.py     # needs pip install -e '.[dev]'

It builds both twice, which must give the same bytes, looks whether everything is in them, installs the wheel into an empty environment
of each Python that is here, trains a network there, and runs some tests of the sdist on it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
IN_WHEEL = {
    "rushlight/py.typed", "rushlight/__init__.pyi", "rushlight/data/digits.npz", "rushlight/data/sobol.npz",
    "rushlight/data/README.md",
}  # fmt: skip
IN_SDIST = {
    "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "pyproject.toml", ".ci/run",
    "tests/test_autograd.py", "docs/build.py", "scripts/release.py", "examples/digits.py", "benchmarks/core.py",
}  # fmt: skip
TESTS = ("tests/test_autograd.py", "tests/test_serialization.py")
# `torch.compile` reads bytecode, which every version of Python writes in another way.
FORMS = "generators iter loops comprehension with tries try_except matching default_dictionaries decorated enums super split_in sched"
COMPILED = ("tests/test_compile.py", "-k", " or ".join([*FORMS.split(), "the_interpreter_alone"]))
PROGRAM = """
import rushlight as torch
torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
x, y = torch.randn(64, 3), torch.randn(64, 1)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
print(f"rushlight {torch.version.release}, loss {losses[0]:.4f} -> {losses[-1]:.4f}")
"""


def run(*command: object, cwd: Path | None = None) -> None:
    """A program, outside of the repository and its environment unless `cwd` says otherwise."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run(list(map(str, command)), cwd=cwd, env=environment, check=True)


def build(target: Path) -> dict[str, str]:
    """Build into a folder: {file: hash of its bytes}."""
    run(sys.executable, "-m", "build", "--no-isolation", "-o", target, ROOT, cwd=ROOT)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in target.iterdir()}


def pythons() -> Iterator[tuple[str, str]]:
    """(version, interpreter) of those of VERSIONS that are on this machine."""
    for version in VERSIONS:
        candidates = [shutil.which(f"python{version}"), sys.executable]
        home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
        candidates += map(str, sorted(home.glob(f"versions/{version}.*/bin/python{version}")))
        for candidate in candidates:
            if candidate and _version(candidate) == version:
                yield version, candidate
                break
        else:
            print(f"no Python {version} here")


def _version(interpreter: str) -> str:
    """The version that an interpreter says it has, or "" if it does not run."""
    ask = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run(
        [interpreter, "-c", ask], capture_output=True, text=True, cwd="/", check=False
    )
    return done.stdout.strip()


def check_contents(wheel: Path, sdist: Path) -> None:
    """SystemExit if a file is missing."""
    names = set(zipfile.ZipFile(wheel).namelist())
    missing = IN_WHEEL - names
    missing |= (
        {"LICENSE"} if not any(name.endswith("licenses/LICENSE") for name in names) else set()
    )
    with tarfile.open(sdist) as archive:
        missing |= IN_SDIST - {name.partition("/")[2] for name in archive.getnames()}
    if missing:
        sys.exit(f"missing: {', '.join(sorted(missing))}")


def main() -> None:
    dist = ROOT / "build" / "release"
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory() as temporary:
        first, second = build(dist), build(Path(temporary, "again"))
        if first != second:
            sys.exit(f"two builds differ: {first} {second}")
        (wheel,), (sdist,) = dist.glob("*-py3-none-any.whl"), dist.glob("*.tar.gz")
        check_contents(wheel, sdist)
        with tarfile.open(sdist) as archive:
            archive.extractall(temporary, filter="data")
        source = Path(temporary, sdist.name.removesuffix(".tar.gz"))
        shutil.rmtree(source / "src")  # the tests must find the installed package
        for version, interpreter in pythons():
            environment = Path(temporary, f"python{version}")
            run(interpreter, "-m", "venv", environment, cwd=Path(temporary))
            python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
            run(python, "-m", "pip", "install", "-q", wheel, cwd=Path(temporary))
            run(python, "-c", PROGRAM, cwd=Path(temporary))
            run(python, "-m", "rushlight", "--version", cwd=Path(temporary))
            run(python, "-m", "pip", "install", "-q", "pytest", "hypothesis", cwd=Path(temporary))
            for tests in (TESTS, COMPILED):
                run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, cwd=source)
            print(
                f"Python {version}: installs, trains, and the tests of the sdist pass", flush=True
            )
    for name, digest in first.items():
        print(f"{digest}  {name}")


if __name__ == "__main__":
    main()

"""Builds the documentation site: runs every code block, writes the reference, makes the pages, checks the links.

    python docs/build.py              # build/site/html; needs pip install -e '.[docs]'
    python docs/build.py --messages   # after a change of a page with a Chinese translation: brings docs/locales up to date

A warning is an error. Nothing is fetched from other machines, neither here nor by the pages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

DOCS = Path(__file__).resolve().parent
SITE = DOCS / "site"
BUILD = DOCS.parent / "build" / "site"
SOURCE, HTML = BUILD / "source", BUILD / "html"
CHINESE = BUILD / "chinese"
MESSAGES = DOCS / "locales" / "zh_CN" / "LC_MESSAGES"
# Pages that stand elsewhere in the repository, where people look for them.
ELSEWHERE = {
    Path("extending.md"): DOCS.parent / "CONTRIBUTING.md",
    Path("changes.md"): DOCS.parent / "CHANGELOG.md",
    Path("tutorials/examples.md"): DOCS.parent / "examples" / "README.md",
}
LANGUAGES = {
    "en": (SOURCE, HTML),
    "zh_CN": (CHINESE, HTML / "zh"),
}  # language: (pages to read, where to write)

# What a reader who knows PyTorch looks for: to run a script unchanged, what is different, how fast it is, how to add an operator.
ANSWERS = (
    "start.html#a-script-without-changes", "from_pytorch.html#what-is-different", "benchmarks.html",
    "extending.html#an-operator-with-a-kernel-that-is-there",
)  # fmt: skip
CLICKS = 3

sys.path.insert(0, str(SITE))

import links  # noqa: E402


def run(*command: object) -> None:
    """Run a program; end with its output when it fails."""
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed: {' '.join(map(str, command))}")


def step(text: str) -> None:
    print(f"{time.perf_counter() - START:5.1f} s  {text}", flush=True)


def together(jobs: list[tuple[object, ...]]) -> None:
    """Run programs, as many at a time as there are processors."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for future in [pool.submit(run, *job) for job in jobs]:
            future.result()


def write_source() -> None:
    """Fill SOURCE with the pages as Sphinx reads them: with what blocks print, and with those that are written from the code."""
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(
        DOCS, SOURCE, ignore=shutil.ignore_patterns("*.md", "*.py", "__pycache__", "site")
    )
    shutil.copytree(DOCS.parent / "benchmarks" / "results", SOURCE / "results")
    jobs: list[tuple[object, ...]] = [
        (SITE / "reference.py", SOURCE / "reference"),
        (SITE / "errors.py", SOURCE),
        (SITE / "benchmarks.py", SOURCE / "benchmarks.md"),
    ]
    pages = {page.relative_to(DOCS): page for page in sorted(DOCS.rglob("*.md"))} | ELSEWHERE
    for name, page in pages.items():
        (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
        jobs.append((SITE / "blocks.py", page, SOURCE / name))
    together(jobs)


def write_chinese() -> None:
    """Fill CHINESE: the same pages; one without a translation in docs/locales only leads to the English page."""
    shutil.copytree(SOURCE, CHINESE, ignore=shutil.ignore_patterns("errors"))
    for page in CHINESE.rglob("*.md"):
        name = page.relative_to(CHINESE).with_suffix("")
        if not (MESSAGES / name).with_suffix(".po").exists():
            text = page.read_text("utf-8")
            title = next(line for line in text.splitlines() if line.startswith("# "))
            trees = re.findall(r"^```{toctree}\n.*?^```$", text, re.DOTALL | re.MULTILINE)
            english = "../" * len(name.parts) + name.as_posix() + ".html"
            note = f'这一页只有英文版：<a href="{english}">English</a>。'
            page.write_text("\n\n".join([title, note, *trees]), "utf-8")


def sphinx(builder: str, language: str, source: Path, target: Path) -> tuple[object, ...]:
    """The command that makes the pages of one language."""
    return (
        "-m", "sphinx", "-W", "--keep-going", "-q", "-b", builder, "-c", SITE, "-D", f"language={language}",
        "-d", BUILD / "trees" / f"{builder}-{language}", source, target,
    )  # fmt: skip


def update_messages() -> None:
    """Bring the translations up to date with the English pages: new and changed paragraphs are there, without a translation."""
    from babel.messages.pofile import escape, read_po

    run(*sphinx("gettext", "en", CHINESE, BUILD / "messages"))
    for path in sorted(MESSAGES.rglob("*.po")):
        with (
            open(path, "rb") as old,
            open(BUILD / "messages" / path.relative_to(MESSAGES).with_suffix(".pot"), "rb") as new,
        ):
            known = {m.id: m.string for m in read_po(old)}
            wanted = [m.id for m in read_po(new) if m.id]
        entries = [
            ("", "Content-Type: text/plain; charset=utf-8\n"),
            *((text, known.get(text, "")) for text in wanted),
        ]
        text = "\n".join(f"msgid {escape(a)}\nmsgstr {escape(b)}\n" for a, b in entries)
        path.write_text(text, "utf-8")


def main() -> None:
    write_source()
    step("code blocks run, reference written")
    write_chinese()
    if sys.argv[1:] == ["--messages"]:
        update_messages()
        step("docs/locales is up to date")
        return
    together([sphinx("html", language, *folders) for language, folders in LANGUAGES.items()])
    step("pages made")
    if found := links.problems(HTML):
        sys.exit("\n".join(found))
    for start in ("index.html", "zh/index.html"):
        near = links.clicks(HTML, start)
        if far := [answer for answer in ANSWERS if near.get(answer, CLICKS + 1) > CLICKS]:
            sys.exit(f"more than {CLICKS} clicks from {start}: {', '.join(far)}")
    step(f"links checked: {HTML / 'index.html'}")


START = time.perf_counter()

if __name__ == "__main__":
    main()
